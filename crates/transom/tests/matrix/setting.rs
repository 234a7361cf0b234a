//! The settings of the matrix: the recorded clusters, the networks, with direct server return and without.

use std::path::{Path, PathBuf};

use node::NetworkKind;
use services::source::manifests::{Input, Manifests, Options, Touched};
use transom::world::{Plan, World};

/// One emulated cluster.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) file: &'static str,
    pub(crate) kind: NetworkKind,
    pub(crate) dsr: bool,
}

pub(crate) const SETTINGS: [Setting; 6] = [
    Setting { file: "hybrid-overlay", kind: NetworkKind::Overlay, dsr: false },
    Setting { file: "hybrid-overlay", kind: NetworkKind::Overlay, dsr: true },
    Setting { file: "hybrid-overlay", kind: NetworkKind::L2Bridge, dsr: false },
    Setting { file: "hybrid-overlay", kind: NetworkKind::L2Bridge, dsr: true },
    Setting { file: "dualstack-l2bridge", kind: NetworkKind::L2Bridge, dsr: false },
    Setting { file: "dualstack-l2bridge", kind: NetworkKind::L2Bridge, dsr: true },
];

impl Setting {
    pub(crate) fn name(self) -> String {
        format!("{} on {}{}", self.file, self.kind, if self.dsr { " with DSR" } else { "" })
    }

    /// The cluster's manifests.
    pub(crate) fn manifests(self) -> PathBuf {
        let clusters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/clusters");
        clusters.join(format!("{}.yaml", self.file))
    }

    /// The cluster in memory.
    pub(crate) fn world(self) -> World {
        let mut source = Manifests::new(vec![Input::Path(self.manifests())], Options::default());
        let changes = source.refresh(&Touched::Everything).changes;
        let mut plan = Plan::new(self.kind, self.dsr);
        plan.loopback = true;
        World::build(&changes, &plan).expect("the cluster can be built")
    }
}
