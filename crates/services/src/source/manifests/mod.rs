//! Objects from manifests: files, folders and standard input, in YAML or JSON.
//!
//! The output of `kubectl get services,endpointslices,nodes,pods -A -o yaml` works as it is; so do several documents per
//! file, lists of every kind, and typed lists. Kinds that do not matter are ignored and counted. What is wrong is told
//! as a [`Problem`] with file, line, object and field, and the rest is served.
//!
//! | part | job |
//! |---|---|
//! | [`parse_bytes`] | bytes of one file to objects and problems; pure |
//! | [`Snapshot`] | what every file held last, to the changes that an edit makes; pure |
//! | [`Manifests`] | finds and reads the files, and feeds a snapshot |
//! | [`Watcher`] | the same, whenever the files change |
//!
//! Of two objects with the same kind, namespace and name the later one counts: later input, later file in name order,
//! later place in the file, as it would be after `kubectl apply`. It is told as a problem.

mod content;
mod document;
mod files;
mod parse;
mod problem;
mod snapshot;
mod text;
mod watch;
mod yaml;

pub use files::{Input, Manifests, Touched, Update};
pub use parse::{Parsed, parse_bytes};
pub use problem::Problem;
pub use snapshot::{Edit, FileId, Snapshot};
pub use watch::{WatchError, Watcher};

/// How manifests are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The largest file that is read, in bytes (flag `--max-manifest-bytes`).
    pub max_bytes: u64,
}

impl Options {
    /// 64 MiB: about 200,000 endpoints as `kubectl` writes them.
    pub const DEFAULT_MAX_BYTES: u64 = 64 * 1024 * 1024;

    /// What is said of a file beyond the limit; its size is unknown for a stream.
    fn too_large(&self, size: Option<u64>) -> String {
        let limit = self.max_bytes;
        match size {
            Some(size) => {
                format!(
                    "has {size} bytes, more than the limit of {limit}; raise it with --max-manifest-bytes"
                )
            }
            None => format!("has more than the limit of {limit} bytes; raise it with --max-manifest-bytes"),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: Self::DEFAULT_MAX_BYTES }
    }
}

/// Runs bytes through everything between a file and a view, for fuzzing. Panics when an invariant is broken.
#[doc(hidden)]
pub fn fuzz_entry(data: &[u8]) {
    use crate::{Change, Cluster, IpFamily, Perspective};

    let parsed = parse_bytes("fuzz.yaml", data, &Options { max_bytes: 1024 * 1024 });
    assert!(parsed.complete || !parsed.problems.is_empty(), "an incomplete reading is explained");
    for problem in &parsed.problems {
        assert!(!problem.to_string().contains('\n'), "a problem is one line");
    }
    let mut perspective = Perspective::of_node("win-1", [IpFamily::V4, IpFamily::V6]);
    perspective.max_backends = Some(8);
    let mut cluster = Cluster::new(perspective);
    for object in parsed.objects {
        cluster.apply(Change::Set(object));
    }
    for key in cluster.take_dirty() {
        let Some(view) = cluster.view(&key) else { continue };
        for port in &view.ports {
            for endpoint in port.cluster.iter().chain(&port.local) {
                assert!(endpoint.ready || endpoint.serving, "only endpoints that serve are used");
                assert_eq!(IpFamily::of(endpoint.address), port.family, "families agree");
                assert_eq!(endpoint.port, port.target_port, "one target port");
            }
            assert!(port.cluster.len() <= 8 && port.local.len() <= 8, "the limit holds");
        }
    }
}
