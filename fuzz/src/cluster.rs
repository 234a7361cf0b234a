//! Manifests and what a node makes of them.

use services::source::manifests;
use services::{Change, Cluster, IpFamily, Perspective};

use crate::Verdict;

/// Manifests, and the views of the Services in them as a node sees them.
pub fn manifest(data: &[u8]) -> Verdict {
    let parsed = manifests::parse_bytes("input", data, &manifests::Options::default());
    for problem in &parsed.problems {
        assert!(!problem.to_string().trim().is_empty(), "a problem says what is wrong");
    }
    let read = !parsed.objects.is_empty();
    let mut cluster = Cluster::new(Perspective::of_node("win-1", [IpFamily::V4, IpFamily::V6]));
    let references: Vec<_> = parsed.objects.iter().map(services::Object::reference).collect();
    for object in parsed.objects {
        cluster.apply(Change::Set(object));
    }
    for key in cluster.take_dirty() {
        if let Some(view) = cluster.view(&key) {
            for port in &view.ports {
                assert!(
                    port.internal().len() <= port.cluster.len().max(port.local.len()),
                    "endpoints from nowhere"
                );
            }
        }
    }
    for reference in references {
        cluster.apply(Change::Delete(reference));
    }
    for key in cluster.take_dirty() {
        assert!(cluster.view(&key).is_none(), "{key} is gone and still seen");
    }
    if read { Verdict::Read } else { Verdict::Refused }
}
