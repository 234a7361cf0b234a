//! What a lab is not to know: which programs run in it, and what its Linux nodes serve.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use hns::Profile;
use lab::supervisor::{LabConfig, Outside};
use node::stack::ServiceRule;
use services::{Change, Cluster};

use crate::world::linux::LinuxViews;
use crate::world::profile_of_build;

/// This program in all its parts.
pub(super) struct Programs {
    /// This program.
    pub(super) own: PathBuf,
}

impl Programs {
    fn part(&self, part: &str) -> Command {
        let mut command = Command::new(&self.own);
        command.args(["lab-part", part]);
        command
    }
}

impl Outside for Programs {
    fn profile_of_build(&self) -> fn(&str) -> Profile {
        profile_of_build
    }

    fn linux(&self, cluster: &Cluster, changes: &[Change]) -> BTreeMap<String, Vec<ServiceRule>> {
        LinuxViews::new(cluster, changes).all()
    }

    fn proxy(&self, node: &str, hns: &Path, manifests: &Path, config: &LabConfig) -> Command {
        let mut command = Command::new(&self.own);
        command.arg("proxy").arg("--hns").arg(hns).arg("--manifests").arg(manifests);
        command.args(["--node", node, "--network", &config.network.kind.to_string()]);
        command.arg(format!("--enable-dsr={}", config.dsr));
        command.args(["--network-name", &config.hns_network]);
        command.args(["--root-hnsendpoint-name", &config.root_endpoint]);
        command
    }

    fn daemon(&self, _: &str) -> Command {
        self.part("node")
    }

    fn responder(&self) -> Command {
        self.part("responder")
    }
}
