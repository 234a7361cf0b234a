//! What belongs to a lab is called after it, so that two labs never meet and what is left behind can be found.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where labs keep their files.
pub const RUN: &str = "/run/transom";

/// A lab's name: short, of lower-case letters, digits and dashes, beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabName(String);

impl LabName {
    /// The name when none is given.
    pub fn standard() -> Self {
        Self("lab".to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for LabName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let right = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
        if begins && text.len() <= 20 && text.chars().all(right) && !text.ends_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{text:?} is no name for a lab: use at most 20 lower-case letters, digits and dashes, beginning with a letter"
            ))
        }
    }
}

/// The names of one lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    lab: LabName,
    run: PathBuf,
}

impl Names {
    /// The names of a lab that keeps its files under [`RUN`].
    pub fn new(lab: LabName) -> Self {
        Self::under(Path::new(RUN), lab)
    }

    /// The names of a lab that keeps its files somewhere else.
    pub fn under(run: &Path, lab: LabName) -> Self {
        Self { lab, run: run.to_owned() }
    }

    /// The lab.
    pub fn lab(&self) -> &LabName {
        &self.lab
    }

    /// What all of the lab's network namespaces begin with. No other lab's do: a lab's name does not end with a dash
    /// and the sign behind it is in none.
    pub fn prefix(&self) -> String {
        format!("transom.{}.", self.lab)
    }

    fn namespace(&self, rest: &str) -> String {
        format!("{}{}", self.prefix(), rest.replace('/', "."))
    }

    /// The namespace of a node: of a Windows node the host compartment.
    pub fn node(&self, node: &str) -> String {
        self.namespace(&format!("node/{node}"))
    }

    /// The namespace of a pod, `namespace/name`.
    pub fn pod(&self, pod: &str) -> String {
        self.namespace(&format!("pod/{pod}"))
    }

    /// The namespace of a host on the underlay that is no node.
    pub fn host(&self, address: IpAddr) -> String {
        self.namespace(&format!("host/{}", address.to_string().replace(':', "-")))
    }

    /// The namespace with the bridges of the underlay.
    pub fn underlay(&self) -> String {
        self.namespace("underlay")
    }

    /// The namespace of the router between the underlay's segments and the outside.
    pub fn router(&self) -> String {
        self.namespace("router")
    }

    /// The namespace of the client outside.
    pub fn outside(&self) -> String {
        self.namespace("outside")
    }

    /// The lab's folder.
    pub fn folder(&self) -> PathBuf {
        self.run.join(self.lab.as_str())
    }

    /// What the lab is made of, as JSON: enough to remove it.
    pub fn record(&self) -> PathBuf {
        self.folder().join("lab.json")
    }

    /// The manifests as the lab has them.
    pub fn manifests(&self) -> PathBuf {
        self.folder().join("manifests")
    }

    /// The logs of the lab's processes, `NAME.log` each.
    pub fn logs(&self) -> PathBuf {
        self.folder().join("logs")
    }

    /// Files that a namespace's programs see in `/etc`: `resolv.conf`, `hosts`, `hostname`.
    pub fn etc(&self, namespace: &str) -> PathBuf {
        self.folder().join("etc").join(namespace)
    }

    /// Where the lab's supervisor listens.
    pub fn control(&self) -> PathBuf {
        self.folder().join("control.sock")
    }

    /// The folder of a Windows node: the state of its HNS.
    pub fn node_folder(&self, node: &str) -> PathBuf {
        self.folder().join("nodes").join(node)
    }

    /// Where a Windows node's HNS listens.
    pub fn hns_socket(&self, node: &str) -> PathBuf {
        self.node_folder(node).join("hns.sock")
    }

    /// What a client of a node's HNS over TCP must know: its address and token, readable by its owner only.
    pub fn hns_token(&self, node: &str) -> PathBuf {
        self.node_folder(node).join("hns.token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_labs_are_checked() {
        for right in ["lab", "a", "two-labs", "x1"] {
            assert_eq!(right.parse::<LabName>().unwrap().to_string(), right);
        }
        for wrong in ["", "Lab", "1lab", "-a", "a-", "a.b", "a/b", "a b", "a234567890123456789012"] {
            assert!(wrong.parse::<LabName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_made_of_names_is_a_file_name_and_the_lab_s_own() {
        let names = |lab: &str| Names::new(lab.parse().unwrap());
        let (one, other) = (names("lab"), names("lab-2"));
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        for name in [
            one.node("win-1"),
            one.pod("shop/web"),
            one.host(address),
            one.underlay(),
            one.router(),
            one.outside(),
        ] {
            assert!(name.starts_with(&one.prefix()) && !name.starts_with(&other.prefix()), "{name}");
            assert!(!name.contains(['/', ':']), "{name}");
        }
        assert_eq!(one.hns_socket("win-1"), Path::new("/run/transom/lab/nodes/win-1/hns.sock"));
    }
}
