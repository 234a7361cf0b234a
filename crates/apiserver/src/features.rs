//! What a server has and what it does not have, as versions of Kubernetes differ; changeable while it runs.
//!
//! This module must not know requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kind::{Kind, Storage};

/// Switches. Clones are handles on the same ones.
#[derive(Debug, Clone)]
pub struct Features {
    switches: Arc<Switches>,
}

#[derive(Debug)]
struct Switches {
    streaming_lists: AtomicBool,
    service_cidrs: AtomicBool,
}

impl Default for Features {
    fn default() -> Self {
        let switches =
            Switches { streaming_lists: AtomicBool::new(true), service_cidrs: AtomicBool::new(true) };
        Self { switches: Arc::new(switches) }
    }
}

impl Features {
    /// Whether a watch may begin with the objects that exist (`sendInitialEvents`). Without, the parameter is not
    /// known, and what is left of such a request is refused with 422.
    pub fn set_streaming_lists(&self, on: bool) {
        self.switches.streaming_lists.store(on, Ordering::SeqCst);
    }

    /// Whether there are ServiceCIDRs: before Kubernetes 1.33 there were none in `networking.k8s.io/v1`.
    pub fn set_service_cidrs(&self, on: bool) {
        self.switches.service_cidrs.store(on, Ordering::SeqCst);
    }

    pub(crate) fn streaming_lists(&self) -> bool {
        self.switches.streaming_lists.load(Ordering::SeqCst)
    }

    pub(crate) fn serves(&self, kind: &Kind) -> bool {
        kind.storage != Storage::ServiceCidrs || self.switches.service_cidrs.load(Ordering::SeqCst)
    }
}
