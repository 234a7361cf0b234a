//! The virtual switch as HNS and the node share it: HNS programs it, the node moves packets through it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hns::Datapath;
use parking_lot::Mutex;
use uuid::Uuid;
use vfp::model::{ApplyError, Change, PortSpec, SwitchSettings};
use vfp::{Env, Output, Pending, Switch};
use wire::Packet;

struct Shared {
    switch: Switch,
    /// The ports as they were programmed.
    ports: BTreeMap<Uuid, PortSpec>,
    /// Grows with every change of a port.
    generation: u64,
    /// Whatever HNS says: connections that are older than the switch may go on.
    resuming: bool,
}

/// A switch that HNS programs while packets pass. Cheap to share.
pub struct SwitchHandle {
    shared: Mutex<Shared>,
}

impl fmt::Debug for SwitchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared.lock();
        f.debug_struct("SwitchHandle").field("ports", &shared.ports.len()).finish_non_exhaustive()
    }
}

impl Default for SwitchHandle {
    fn default() -> Self {
        Self::new(SwitchSettings::default())
    }
}

impl SwitchHandle {
    /// An empty switch.
    pub fn new(settings: SwitchSettings) -> Self {
        let shared =
            Shared { switch: Switch::new(settings), ports: BTreeMap::new(), generation: 0, resuming: false };
        Self { shared: Mutex::new(shared) }
    }

    /// The ports as HNS programmed them.
    pub fn ports(&self) -> Vec<PortSpec> {
        self.shared.lock().ports.values().cloned().collect()
    }

    /// A number that changes whenever a port comes, goes or changes.
    pub fn generation(&self) -> u64 {
        self.shared.lock().generation
    }

    /// Lets TCP connections that are older than this switch go on, or no longer: their packets are placed anew, as the
    /// rules would place a first one. On Windows the switch outlives HNS and knows its connections; this one ends with
    /// its process.
    pub fn resume_connections(&self, resuming: bool) -> Result<(), ApplyError> {
        let mut shared = self.shared.lock();
        shared.resuming = resuming;
        let settings = SwitchSettings { mid_stream: resuming, ..shared.switch.settings().clone() };
        shared.switch.apply(&[Change::Settings(settings)])
    }

    /// Looks at the switch, or acts on it.
    pub fn with<R>(&self, act: impl FnOnce(&mut Switch) -> R) -> R {
        act(&mut self.shared.lock().switch)
    }

    /// Moves packets through the switch.
    pub fn transmit(&self, port: Uuid, packets: &mut Vec<Packet>, env: &mut Env<'_>, out: &mut Output) {
        self.shared.lock().switch.transmit(port, packets, env, out);
    }

    /// Moves packets on that waited for a next hop.
    pub fn resume(&self, pending: Vec<Pending>, env: &mut Env<'_>, out: &mut Output) {
        self.shared.lock().switch.resume(pending, env, out);
    }

    /// Takes out some of what has expired.
    pub fn sweep(&self, now: Duration) {
        /// How many entries are looked at.
        const BUDGET: u32 = 4096;
        self.shared.lock().switch.sweep(now, BUDGET);
    }
}

impl Datapath for SwitchHandle {
    fn apply(&self, changes: &[Change]) -> Result<(), ApplyError> {
        let mut shared = self.shared.lock();
        if shared.resuming && changes.iter().any(|change| matches!(change, Change::Settings(_))) {
            let mut changes = changes.to_vec();
            for change in &mut changes {
                if let Change::Settings(settings) = change {
                    settings.mid_stream = true;
                }
            }
            shared.switch.apply(&changes)?;
        } else {
            shared.switch.apply(changes)?;
        }
        for change in changes {
            match change {
                Change::PutPort(spec) => {
                    shared.ports.insert(spec.name, spec.clone());
                    shared.generation += 1;
                }
                Change::RemovePort(port) => {
                    shared.ports.remove(port);
                    shared.generation += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
