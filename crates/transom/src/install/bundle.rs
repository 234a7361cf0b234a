//! The files of `deploy/` as they were when the program was built, so that what it prints and what is in the
//! repository are the same.
//!
//! Texts by path only; it must not know what is in them.

/// Files by their path below `deploy/`.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'a>(pub &'a [(&'a str, &'a str)]);

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/", $path)))),*]
    };
}

/// The project's own.
pub const DEPLOY: Bundle<'static> = Bundle(files![
    "base/clusterrole.yaml",
    "base/clusterrolebinding.yaml",
    "base/daemonset.yaml",
    "base/kustomization.yaml",
    "base/serviceaccount.yaml",
    "components/control-plane-endpoint/daemonset.patch.yaml",
    "components/control-plane-endpoint/kubeconfig.conf",
    "components/control-plane-endpoint/kustomization.yaml",
    "overlays/calico-vxlan/config.conf",
    "overlays/calico-vxlan/daemonset.patch.yaml",
    "overlays/calico-vxlan/kustomization.yaml",
    "overlays/flannel-host-gw/config.conf",
    "overlays/flannel-host-gw/daemonset.patch.yaml",
    "overlays/flannel-host-gw/kustomization.yaml",
    "overlays/flannel-vxlan/config.conf",
    "overlays/flannel-vxlan/daemonset.patch.yaml",
    "overlays/flannel-vxlan/kustomization.yaml",
]);

impl<'a> Bundle<'a> {
    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&'a str> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
    }

    /// Whether there are files below a folder.
    pub fn is_folder(&self, path: &str) -> bool {
        self.0.iter().any(|(name, _)| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// A relative path as seen from a folder; `None` when it is absolute or leaves the bundle.
pub(super) fn join(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\\') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}
