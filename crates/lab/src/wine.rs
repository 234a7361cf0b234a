//! Windows programs under Wine: a prefix with our `computenetwork.dll` and `vmcompute.dll`, and a program that is run in it, in
//! a network namespace.
//!
//! Wine's server opens the sockets of all programs of a prefix, in the namespace that it was started in. So each node has
//! a prefix of its own, and a server that was started in another namespace is ended first.
//!
//! It must not know labs, nor which HNS the DLLs speak to: that is in the program's environment.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FlockOperation;

use crate::exec::{self, Exec, ExecError};

/// The DLLs that a prefix gets.
pub const DLLS: [&str; 2] = ["computenetwork.dll", "vmcompute.dll"];

/// A system DLL that Wine 8 lacks and every Rust and newer Go program wants; a prefix gets it where it is missing.
pub const MISSING: &str = "bcryptprimitives.dll";

/// Wine's loaders, best first: the 64-bit one does not complain about the absence of another.
const LOADERS: [&str; 3] = ["/usr/lib/wine/wine64", "wine64", "wine"];

/// Wine's servers.
const SERVERS: [&str; 3] = ["/usr/lib/wine/wineserver64", "/usr/lib/wine/wineserver", "wineserver"];

/// For how long a server stays when the last program of its prefix has ended, in seconds. Debian's stays for none: each program
/// starts one of its own, and one that starts while the server of the last is ending is thrown out ("recvmsg: Connection reset
/// by peer").
const LINGER: &str = "-p60";

/// Why no Windows program runs.
#[derive(Debug, thiserror::Error)]
pub enum WineError {
    /// There is no Wine.
    #[error("there is no Wine here: `apt-get install wine64 wine` (looked for {})", LOADERS.join(", "))]
    NoWine,
    /// A DLL is not where it was said to be.
    #[error("{}: {error}; build the DLLs with `cargo xtask windows --build`, or say where they are with --dlls", path.display())]
    Dll {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The prefix cannot be prepared.
    #[error("Wine prefix {}: {what}: {error}", prefix.display())]
    Prefix {
        /// Its folder.
        prefix: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// Wine ended with an error while it made the prefix.
    #[error("Wine prefix {}: `wineboot --init` ended with {code}; remove the folder and try again", prefix.display())]
    Boot {
        /// Its folder.
        prefix: PathBuf,
        /// The exit code.
        code: i32,
    },
    /// A program does not start.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// A folder in which Wine keeps a Windows system.
#[derive(Debug, Clone)]
pub struct Prefix {
    folder: PathBuf,
    wine: PathBuf,
}

impl Prefix {
    /// A prefix in a folder, which need not be there yet.
    pub fn new(folder: PathBuf) -> Result<Self, WineError> {
        let wine = first(&LOADERS).ok_or(WineError::NoWine)?;
        Ok(Self { folder, wine })
    }

    /// Whether it has been made.
    pub fn is_there(&self) -> bool {
        self.system32().is_dir()
    }

    fn system32(&self) -> PathBuf {
        self.folder.join("drive_c/windows/system32")
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> WineError {
        let prefix = self.folder.clone();
        move |error| WineError::Prefix { prefix, what, error }
    }

    /// Makes the prefix if it is not there, and gives it the DLLs of a folder. `place`: where its programs run.
    pub fn prepare(&self, dlls: &Path, place: &Exec) -> Result<(), WineError> {
        fs::create_dir_all(&self.folder).map_err(self.failed("making the folder"))?;
        // Two programs that start at once must not make it twice.
        let lock = File::create(self.folder.join(".transom-lock")).map_err(self.failed("locking it"))?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::LockExclusive))
            .map_err(|errno| self.failed("locking it")(errno.into()))?;
        self.move_to(place)?;
        let is_new = self.serve(place)?;
        if is_new || !self.is_there() {
            let code = self.run_quietly(place, &["wineboot", "--init"])?;
            if code != 0 || !self.is_there() {
                return Err(WineError::Boot { prefix: self.folder.clone(), code });
            }
        }
        for name in DLLS {
            self.give(&dlls.join(name), name)?;
        }
        if !self.system32().join(MISSING).exists() {
            self.give(&dlls.join(MISSING), MISSING)?;
        }
        Ok(())
    }

    /// Starts a server that stays for a while, if there is none; returns whether it did. What Windows starts with belongs to
    /// it, and must be started before any program: what the first program starts would hold on to that one's output.
    fn serve(&self, place: &Exec) -> Result<bool, WineError> {
        let Some(server) = first(&SERVERS) else { return Ok(false) };
        // It goes to the background once it listens. A second one ends with an error.
        Ok(self.quietly(place, &[server.into_os_string(), LINGER.into()])? == 0)
    }

    /// Ends a server that was started in another network namespace than the one that programs are about to run in.
    fn move_to(&self, place: &Exec) -> Result<(), WineError> {
        let mark = self.folder.join(".transom-netns");
        let namespace = match place.namespace.as_str() {
            "" => fs::metadata("/proc/self/ns/net"),
            name => fs::metadata(Path::new(crate::netns::FOLDER).join(name)),
        };
        let now = namespace.map_err(self.failed("asking for its network namespace"))?.ino().to_string();
        match fs::read_to_string(&mark) {
            Ok(before) if before == now => return Ok(()),
            // A new prefix has no server.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) | Err(_) => self.end()?,
        }
        fs::write(&mark, now).map_err(self.failed("noting its network namespace"))
    }

    /// Ends all programs of the prefix and its server.
    pub fn end(&self) -> Result<(), WineError> {
        let Some(server) = first(&SERVERS) else { return Ok(()) };
        for order in ["-k", "-w"] {
            // Without a server there is nothing to end: that is an error for it, not for us.
            Command::new(&server)
                .arg(order)
                .env("WINEPREFIX", &self.folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map_err(self.failed("ending its server"))?;
        }
        Ok(())
    }

    /// Puts a file into the system folder unless the same is there.
    fn give(&self, from: &Path, name: &str) -> Result<(), WineError> {
        let wanted = fs::read(from).map_err(|error| WineError::Dll { path: from.to_owned(), error })?;
        let path = self.system32().join(name);
        if fs::read(&path).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        // Programs that have loaded the old one keep it.
        let new = path.with_extension("new");
        fs::write(&new, wanted)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(self.failed("giving it the DLLs"))
    }

    /// Runs a Windows program with the caller's input and output until it ends; returns its exit code. `env`: variables
    /// that it gets besides those of the caller.
    pub fn run(&self, place: &Exec, program: &[OsString]) -> Result<i32, WineError> {
        let argv = self.argv(program);
        Ok(self.placed(place).run(&argv)?)
    }

    fn run_quietly(&self, place: &Exec, program: &[&str]) -> Result<i32, WineError> {
        let program: Vec<OsString> = program.iter().map(OsString::from).collect();
        self.quietly(place, &self.argv(&program))
    }

    fn quietly(&self, place: &Exec, argv: &[OsString]) -> Result<i32, WineError> {
        let mut child = self.placed(place).spawn(argv, |command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        })?;
        let status = child.wait().map_err(self.failed("waiting for Wine"))?;
        Ok(exec::exit_code(status))
    }

    fn argv(&self, program: &[OsString]) -> Vec<OsString> {
        std::iter::once(self.wine.clone().into_os_string()).chain(program.iter().cloned()).collect()
    }

    fn placed(&self, place: &Exec) -> Exec {
        let mut place = place.clone();
        place.env.push(("WINEPREFIX".into(), self.folder.clone().into()));
        // What Wine has to say is of no use to users of its programs, unless they ask; and there is no screen, nor
        // anything to install.
        for (name, value) in [("WINEDEBUG", "-all"), ("WINEDLLOVERRIDES", "mscoree,mshtml=")] {
            if std::env::var_os(name).is_none() {
                place.env.push((name.into(), value.into()));
            }
        }
        place
    }
}

/// The path of a file as Windows programs of a prefix see it: drive Z is the root.
pub fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}

/// The first program that is there, by its path or in the folders of `PATH`.
fn first(programs: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    programs.iter().find_map(|program| {
        let program = Path::new(program);
        if program.is_absolute() {
            return program.is_file().then(|| program.to_owned());
        }
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_on_drive_z() {
        assert_eq!(windows_path(Path::new("/run/transom/lab/hns.token")), r"Z:\run\transom\lab\hns.token");
    }

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        assert!(first(&["/nonexistent/wine64", "no-such-program-at-all", "sh"]).is_some());
        assert_eq!(first(&["/nonexistent/wine64"]), None);
    }

    #[test]
    fn a_dll_that_is_missing_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = Prefix { folder: folder.path().to_owned(), wine: "/bin/false".into() };
        fs::create_dir_all(prefix.system32()).expect("a prefix that is there");
        let error = prefix.give(Path::new("/nonexistent/a.dll"), "a.dll").expect_err("there is none");
        assert!(
            error.to_string().contains("/nonexistent/a.dll") && error.to_string().contains("--dlls"),
            "{error}"
        );
        let source = folder.path().join("a.dll");
        for content in ["old", "new"] {
            fs::write(&source, content).expect("a file");
            prefix.give(&source, "a.dll").expect("it is put there");
            let there = fs::read_to_string(prefix.system32().join("a.dll")).expect("it is there");
            assert_eq!(there, content);
        }
    }
}
