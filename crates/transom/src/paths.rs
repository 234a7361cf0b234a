//! Where a file is inside a HostProcess container of Windows.
//!
//! Such a container sees the host's files, and its own volumes in one of two ways, by the version of containerd:
//!
//! | containerd | a volume mounted at `/var/x` is at | `CONTAINER_SANDBOX_MOUNT_POINT` |
//! |---|---|---|
//! | 1.6 | `<mount point>\var\x`; `C:\var\x` is the host's | `C:\C\<id of the container>` |
//! | 1.7 and later | `C:\var\x`, in the container's own view | `C:\hpc`, the image's files |
//!
//! So a path is taken as it is given where there is such a file, and else below the mount point. The same manifest then works with both.
//! A kubeconfig made for 1.6 or for Linux (`/var/run/secrets/…`) works too, because the paths in it follow the same rule.
//!
//! Pure but for the question whether a file exists, which is handed in. It must not know what is in the files.

use std::path::{Path, PathBuf};

/// The variable that containerd sets.
pub const VARIABLE: &str = "CONTAINER_SANDBOX_MOUNT_POINT";

/// How paths are resolved.
pub struct Paths<'a> {
    mount_point: Option<String>,
    exists: &'a dyn Fn(&str) -> bool,
}

/// The forms in which shells and containerd write the variable.
const SPELLINGS: [&str; 4] = [
    "%CONTAINER_SANDBOX_MOUNT_POINT%",
    "${CONTAINER_SANDBOX_MOUNT_POINT}",
    "$env:CONTAINER_SANDBOX_MOUNT_POINT",
    "$CONTAINER_SANDBOX_MOUNT_POINT",
];

/// A path of Windows', taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form<'a> {
    /// `C:\a`, `\a` or `/a`: the drive, if one is named, and what stands below its root.
    Rooted(Option<char>, &'a str),
    /// `\\server\share`, `\\?\C:\a`, `\\.\pipe\a`: nothing that a container has a view of.
    Elsewhere,
    /// `a\b`, and `C:a`, which nobody writes.
    Relative,
}

const fn is_separator(c: char) -> bool {
    matches!(c, '/' | '\\')
}

fn form(path: &str) -> Form<'_> {
    let mut letters = path.chars();
    let (first, second) = (letters.next(), letters.next());
    match (first, second) {
        (Some(a), Some(b)) if is_separator(a) && is_separator(b) => Form::Elsewhere,
        (Some(a), _) if is_separator(a) => Form::Rooted(None, path.trim_start_matches(is_separator)),
        (Some(drive), Some(':')) if drive.is_ascii_alphabetic() && path[2..].starts_with(is_separator) => {
            Form::Rooted(Some(drive.to_ascii_uppercase()), path[2..].trim_start_matches(is_separator))
        }
        _ => Form::Relative,
    }
}

impl<'a> Paths<'a> {
    /// The rules for a mount point, which is what the variable holds; empty is none.
    pub fn new(mount_point: Option<&str>, exists: &'a dyn Fn(&str) -> bool) -> Self {
        let mount_point = mount_point
            .map(|point| point.trim().trim_end_matches(is_separator).to_owned())
            .filter(|point| !point.is_empty());
        Self { mount_point, exists }
    }

    /// Where a file is that a flag names.
    pub fn resolve(&self, path: &str) -> String {
        let Some(mount_point) = &self.mount_point else { return path.to_owned() };
        if let Some(rest) = SPELLINGS.iter().find_map(|spelling| path.strip_prefix(spelling))
            && (rest.is_empty() || rest.starts_with(is_separator))
        {
            return format!("{mount_point}{rest}");
        }
        if (self.exists)(path) {
            return path.to_owned();
        }
        match below(mount_point, path) {
            Some(below) if (self.exists)(&below) => below,
            // Neither is there: an error names what was given.
            _ => path.to_owned(),
        }
    }

    /// Where a file is that a kubeconfig names (`certificate-authority`, `client-certificate`, `client-key`, `tokenFile`): one that is
    /// not rooted is beside the kubeconfig, as for every client.
    pub fn in_kubeconfig(&self, kubeconfig: &str, path: &str) -> String {
        let is_variable = SPELLINGS.iter().any(|spelling| path.starts_with(spelling));
        if form(path) != Form::Relative || path.is_empty() || is_variable {
            return self.resolve(path);
        }
        match kubeconfig.rfind(is_separator) {
            Some(end) => format!("{}{path}", &kubeconfig[..=end]),
            None => path.to_owned(),
        }
    }
}

/// The same file below the mount point.
fn below(mount_point: &str, path: &str) -> Option<String> {
    let rest = match form(path) {
        // Volumes are on the system's drive; what is on another is the host's.
        Form::Rooted(drive, rest) if drive.is_none_or(|drive| drive == 'C') => rest,
        Form::Relative if !path.is_empty() && !path.contains(':') => path,
        Form::Rooted(..) | Form::Elsewhere | Form::Relative => return None,
    };
    let rest = rest.replace('/', "\\");
    let is_there_already = {
        let (whole, point) = (path.replace('/', "\\").to_lowercase(), mount_point.replace('/', "\\"));
        whole.starts_with(&format!("{}\\", point.to_lowercase()))
    };
    (!is_there_already).then(|| format!("{mount_point}\\{rest}"))
}

/// Where a file is that a flag names, for this process. Nothing changes but on Windows.
pub fn resolve(path: &Path) -> PathBuf {
    let Some(text) = path.to_str().filter(|_| cfg!(windows)) else { return path.to_owned() };
    let mount_point = std::env::var(VARIABLE).ok();
    Paths::new(mount_point.as_deref(), &|path| Path::new(path).exists()).resolve(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r"C:\C\1a2b";
    const NEW: &str = r"C:\hpc";

    /// Mount point, files that exist, path as given, where it is.
    type Row<'a> = (Option<&'a str>, &'a [&'a str], &'a str, &'a str);

    const ROWS: &[Row<'_>] = &[
        // No container, or a Linux one: as given.
        (None, &[], "/var/lib/kube-proxy/kubeconfig.conf", "/var/lib/kube-proxy/kubeconfig.conf"),
        (Some(""), &[r"\var\x"], "/var/x", "/var/x"),
        (None, &[], "$CONTAINER_SANDBOX_MOUNT_POINT/x", "$CONTAINER_SANDBOX_MOUNT_POINT/x"),
        // 1.6: below the mount point.
        (Some(OLD), &[r"C:\C\1a2b\var\lib\k.conf"], "/var/lib/k.conf", r"C:\C\1a2b\var\lib\k.conf"),
        (Some(OLD), &[r"C:\C\1a2b\var\lib\k.conf"], r"\var\lib\k.conf", r"C:\C\1a2b\var\lib\k.conf"),
        (Some(OLD), &[r"C:\C\1a2b\var\lib\k.conf"], r"C:\var\lib\k.conf", r"C:\C\1a2b\var\lib\k.conf"),
        (Some(OLD), &[r"C:\C\1a2b\var\lib\k.conf"], "c:/var/lib/k.conf", r"C:\C\1a2b\var\lib\k.conf"),
        (Some(r"C:\C\1a2b\"), &[r"C:\C\1a2b\var\k"], "/var/k", r"C:\C\1a2b\var\k"),
        // The host's own file, by its full path.
        (Some(OLD), &[r"C:\k\config", r"C:\C\1a2b\k\config"], r"C:\k\config", r"C:\k\config"),
        // 1.7: the container's view has it where it is mounted.
        (Some(NEW), &["/var/lib/k.conf"], "/var/lib/k.conf", "/var/lib/k.conf"),
        (Some(NEW), &[r"C:\hpc\etc\k.conf"], "/etc/k.conf", r"C:\hpc\etc\k.conf"),
        // What is there already is not put there twice.
        (Some(OLD), &[], r"C:\C\1a2b\var\x", r"C:\C\1a2b\var\x"),
        (Some(OLD), &[r"C:\C\1a2b\C\1a2b\var\x"], "c:/c/1A2B/var/x", "c:/c/1A2B/var/x"),
        // The variable, in all spellings, wherever the file is.
        (Some(OLD), &[], "$CONTAINER_SANDBOX_MOUNT_POINT/var/x", r"C:\C\1a2b/var/x"),
        (Some(OLD), &[], r"${CONTAINER_SANDBOX_MOUNT_POINT}\x", r"C:\C\1a2b\x"),
        (Some(OLD), &[], r"%CONTAINER_SANDBOX_MOUNT_POINT%\x", r"C:\C\1a2b\x"),
        (Some(OLD), &[], r"$env:CONTAINER_SANDBOX_MOUNT_POINT\x", r"C:\C\1a2b\x"),
        (Some(OLD), &[], "$CONTAINER_SANDBOX_MOUNT_POINTS/x", "$CONTAINER_SANDBOX_MOUNT_POINTS/x"),
        // Relative: here, else below.
        (Some(OLD), &["a.yaml", r"C:\C\1a2b\a.yaml"], "a.yaml", "a.yaml"),
        (Some(OLD), &[r"C:\C\1a2b\conf\a.yaml"], "conf/a.yaml", r"C:\C\1a2b\conf\a.yaml"),
        // Nowhere: as given.
        (Some(OLD), &[], "/var/x", "/var/x"),
        (Some(OLD), &[], "", ""),
        // Other drives, shares, pipes and verbatim paths are the host's.
        (Some(OLD), &[r"C:\C\1a2b\x"], r"D:\x", r"D:\x"),
        (Some(OLD), &[r"C:\C\1a2b\x"], "C:x", "C:x"),
        (Some(OLD), &[r"C:\C\1a2b\server\share\x"], r"\\server\share\x", r"\\server\share\x"),
        (Some(OLD), &[r"C:\C\1a2b\?\C:\x"], r"\\?\C:\x", r"\\?\C:\x"),
        (Some(OLD), &[], r"\\.\pipe\x", r"\\.\pipe\x"),
        (Some(OLD), &[r"C:\C\1a2b\größe"], "/größe", r"C:\C\1a2b\größe"),
    ];

    #[test]
    fn flags() {
        for (mount_point, files, path, wanted) in ROWS {
            let exists = |path: &str| files.contains(&path);
            let paths = Paths::new(*mount_point, &exists);
            assert_eq!(paths.resolve(path), *wanted, "{path} with {mount_point:?} and {files:?}");
        }
    }

    #[test]
    fn paths_in_a_kubeconfig() {
        const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
        const BELOW: &str = r"C:\C\1a2b\var\run\secrets\kubernetes.io\serviceaccount\token";
        let rows: &[Row<'_>] = &[
            (Some(OLD), &[BELOW], TOKEN, BELOW),
            (Some(NEW), &[TOKEN], TOKEN, TOKEN),
            (None, &[], TOKEN, TOKEN),
            (Some(OLD), &[], "ca.crt", r"C:\C\1a2b\etc\ca.crt"),
            (None, &[], r"pki\ca.crt", r"C:\C\1a2b\etc\pki\ca.crt"),
            (Some(OLD), &[], "%CONTAINER_SANDBOX_MOUNT_POINT%/ca.crt", r"C:\C\1a2b/ca.crt"),
            (Some(OLD), &[], "", ""),
        ];
        for (mount_point, files, path, wanted) in rows {
            let exists = |path: &str| files.contains(&path);
            let paths = Paths::new(*mount_point, &exists);
            let found = paths.in_kubeconfig(r"C:\C\1a2b\etc\kubeconfig.conf", path);
            assert_eq!(found, *wanted, "{path} with {mount_point:?}");
        }
        let paths = Paths::new(None, &|_| false);
        assert_eq!(paths.in_kubeconfig("/etc/kubeconfig", "ca.crt"), "/etc/ca.crt");
        assert_eq!(paths.in_kubeconfig("kubeconfig", "ca.crt"), "ca.crt");
    }
}
