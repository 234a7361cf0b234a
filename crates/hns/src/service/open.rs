//! Starting an emulated HNS.

use std::path::PathBuf;
use std::sync::Arc;

use hcn::time::{Clock, Entropy, SeededEntropy, SystemClock};
use hcn::{Features, Kind, Result};
use parking_lot::{Mutex, RwLock};

use super::{Hns, Inner};
use crate::faults::{FaultPlan, Faults, PlanError};
use crate::host::Host;
use crate::journal::Journal;
use crate::notify::Subscribers;
use crate::ports::Ports;
use crate::profile::Profile;
use crate::program::{Datapath, Programmer};
use crate::record::Object;
use crate::state::State;
use crate::store::{Store, StoreError};
use crate::switches::Switches;
use crate::tx::{Env, Quirks};

/// Where objects are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory: gone with the process, kept over [`Hns::restart`].
    #[default]
    Memory,
    /// In a redb file that one process at a time can have open; survives a kill of the process at any moment.
    File(PathBuf),
    /// The same, and each write waits until the disk has it: survives a power failure too, at some milliseconds a
    /// write.
    SyncedFile(PathBuf),
}

/// How an emulated HNS is started.
#[derive(Clone)]
pub struct Options {
    /// Which Windows build.
    pub profile: Profile,
    /// Choices that no source settles.
    pub switches: Switches,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness: ids, MAC pools, subnets.
    pub entropy: Arc<dyn Entropy>,
    /// Where objects are kept.
    pub store: StoreKind,
    /// What goes wrong.
    pub faults: FaultPlan,
    /// The machine.
    pub host: Host,
    /// The switch that is programmed; none: objects only.
    pub datapath: Option<Arc<dyn Datapath>>,
}

impl Options {
    /// A profile with its presets, in memory, on the system's clock, without faults.
    pub fn new(profile: Profile) -> Self {
        let clock = SystemClock::default();
        let entropy = SeededEntropy::from_time(&clock);
        Self {
            profile,
            switches: Switches::of(profile),
            clock: Arc::new(clock),
            entropy: Arc::new(entropy),
            store: StoreKind::Memory,
            faults: FaultPlan::default(),
            host: Host::default(),
            datapath: None,
        }
    }
}

/// An HNS that does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file.
    #[error("HNS store {}: {problem}", path.display())]
    Store {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        problem: StoreError,
    },
    /// The fault plan.
    #[error("fault plan: {0}")]
    Faults(#[from] PlanError),
    /// Two listeners on one port.
    #[error("host {host}: two processes listen on {port}")]
    Listeners {
        /// The machine.
        host: String,
        /// The port.
        port: String,
    },
}

impl Hns {
    /// Starts an HNS: reads its store, as after a kill or a clean stop.
    pub fn open(options: Options) -> std::result::Result<Self, OpenError> {
        let Options { profile, switches, clock, entropy, store, faults, host, datapath } = options;
        let version = switches.version.unwrap_or_else(|| profile.version());
        let mut ports = Ports::new(&host.dynamic_ports);
        for &(protocol, port) in &host.listeners {
            ports.listen(protocol, port).map_err(|(port, _)| OpenError::Listeners {
                host: host.name.clone(),
                port: port.to_string(),
            })?;
        }
        let mut state = State::new(&host, ports);
        let wrong = |path: &PathBuf| {
            let path = path.clone();
            move |problem| OpenError::Store { path, problem }
        };
        let (store, fresh, objects) = match &store {
            StoreKind::Memory => (Store::Memory, true, Vec::new()),
            StoreKind::File(path) | StoreKind::SyncedFile(path) => {
                let synced = matches!(store, StoreKind::SyncedFile(_));
                let (store, fresh) = Store::open(path, synced).map_err(wrong(path))?;
                let objects = store.load(&state).map_err(wrong(path))?;
                (store, fresh, objects)
            }
        };
        let mended = state.fill(objects);
        let env = Env { profile, version, features: Features::of(version), switches, host, entropy };
        let program = datapath.map(|datapath| Mutex::new(Programmer::new(&env, datapath)));
        let inner = Inner {
            env,
            clock,
            state: RwLock::new(state),
            store,
            faults: Faults::new(faults)?,
            journal: Journal::default(),
            subscribers: Subscribers::default(),
            turn: Mutex::default(),
            accelnet: Mutex::default(),
            program,
        };
        let hns = Self { inner: Arc::new(inner), actor: "".into() };
        // What was mended is mended again at the next start if it cannot be written now.
        if let Err(error) = hns.inner.store.commit(&hns.inner.state.read(), &mended) {
            tracing::warn!(%error, "what was mended at the start is not stored");
        }
        hns.reprogram(&hns.inner.state.read(), false);
        if fresh && hns.inner.env.switches.initial_default_namespace {
            // The store may refuse the write; then there is none, as on a host that lost it.
            if let Err(error) = hns.make_default_namespace() {
                tracing::warn!(%error, "the default namespace was not made");
            }
            hns.inner.subscribers.deliver();
        }
        Ok(hns)
    }

    /// The host's own namespace, which a fresh Windows has.
    pub(crate) fn make_default_namespace(&self) -> Result<()> {
        let document = r#"{"Type":"HostDefault","SchemaVersion":{"Major":2,"Minor":0}}"#;
        self.write(Quirks::default(), |tx| {
            super::create_in(tx, Kind::Namespace, None, hcn::Guid::NIL, document).map(|_| ())
        })
    }
}

impl State {
    /// Puts objects that were stored, and mends what refers to objects that were not; tells what it mended.
    pub(crate) fn fill(&mut self, objects: Vec<Object>) -> Vec<(Kind, hcn::Guid)> {
        for object in objects {
            self.put(object);
        }
        self.scrub()
    }

    /// Endpoints in namespaces that are gone are in none; namespaces drop endpoints that are gone; what lies on a
    /// network that is gone goes.
    fn scrub(&mut self) -> Vec<(Kind, hcn::Guid)> {
        let mut touched: Vec<(Kind, hcn::Guid)> = self
            .objects()
            .filter(|object| {
                let network = match object {
                    Object::Endpoint(record) => Some(record.network),
                    Object::Balancer(record) => record.network,
                    Object::Route(record) => record.network,
                    _ => None,
                };
                network.is_some_and(|network| !self.networks.contains(network))
            })
            .map(|object| (object.kind(), object.id()))
            .collect();
        for &(kind, id) in &touched {
            self.take(kind, id);
        }
        let namespaces: Vec<_> = self.namespaces.iter().cloned().collect();
        for namespace in namespaces {
            let is_there = |id: hcn::Guid| {
                let endpoint = self.endpoints.get(id);
                endpoint.is_some_and(|endpoint| endpoint.doc.namespace == namespace.doc.id)
            };
            let mut mended = (*namespace).clone();
            mended.doc.resources.retain(|resource| resource.endpoint_id().is_none_or(is_there));
            if mended != *namespace {
                touched.extend(mended.doc.id.map(|id| (Kind::Namespace, id)));
                self.put(Object::Namespace(Arc::new(mended)));
            }
        }
        let lost: Vec<_> = self
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.doc.namespace.is_some_and(|id| !self.namespaces.contains(id)))
            .cloned()
            .collect();
        for endpoint in lost {
            let mut mended = (*endpoint).clone();
            mended.doc.namespace = None;
            touched.extend(mended.doc.id.map(|id| (Kind::Endpoint, id)));
            self.put(Object::Endpoint(Arc::new(mended)));
        }
        touched
    }
}
