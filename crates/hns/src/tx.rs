//! One API write: what it changes, how to undo it, whom to tell.
//!
//! Operations change the state through [`Tx`] only. Should one fail half-way, or the store not take it, the whole
//! is undone, so an operation may check as it goes.

use std::sync::Arc;
use std::time::Duration;

use hcn::api::{Notification, NotificationKind};
use hcn::time::Entropy;
use hcn::{Error, Feature, Features, Guid, HResult, Kind, Result, Version};

use crate::host::Host;
use crate::profile::Profile;
use crate::record::{BalancerRecord, EndpointRecord, NamespaceRecord, NetworkRecord, Object, RouteRecord};
use crate::state::State;
use crate::switches::Switches;

/// What does not change while HNS runs.
pub(crate) struct Env {
    pub(crate) profile: Profile,
    pub(crate) version: Version,
    pub(crate) features: Features,
    pub(crate) switches: Switches,
    pub(crate) host: Host,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Env {
    pub(crate) fn supports(&self, feature: Feature) -> bool {
        self.features.supports(feature)
    }

    /// A random (version 4) id.
    pub(crate) fn random_id(&self) -> Guid {
        let bits = u128::from(self.entropy.next_u64()) << 64 | u128::from(self.entropy.next_u64());
        let version = bits & !(0xF << 76) | 0x4 << 76;
        Guid::from_u128(version & !(0x3 << 62) | 0x2 << 62)
    }
}

/// How long ports stay taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Until then; none: for ever.
    pub(crate) until: Option<Duration>,
}

/// How a fault bends an operation; see [`crate::faults::Effect`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// Made without what distinguishes it.
    pub(crate) partial: bool,
    /// Not attached, in state 3.
    pub(crate) unattached: bool,
    /// Load balancers of a deleted network stay and cannot be deleted.
    pub(crate) degrade: Option<HResult>,
    /// Past every check of addresses, and beside this object in lists.
    pub(crate) beside: Option<(u64, bool)>,
    /// The ports of what is deleted stay taken.
    pub(crate) keep_ports: Option<Hold>,
    /// What becomes of the write in the switch.
    pub(crate) bend: crate::program::Bend,
}

pub(crate) struct Tx<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) env: &'a Env,
    pub(crate) now: Duration,
    pub(crate) quirks: Quirks,
    undo: Vec<(Kind, Guid, Option<Object>)>,
    leaks: Vec<Object>,
    notes: Vec<Notification>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(state: &'a mut State, env: &'a Env, now: Duration, quirks: Quirks) -> Self {
        Self { state, env, now, quirks, undo: Vec::new(), leaks: Vec::new(), notes: Vec::new() }
    }

    fn put(&mut self, object: Object) {
        let (kind, id) = (object.kind(), object.id());
        let before = self.state.put(object);
        self.undo.push((kind, id, before));
    }

    pub(crate) fn put_network(&mut self, record: NetworkRecord) {
        self.put(Object::Network(Arc::new(record)));
    }

    /// Puts an endpoint whose derived fields fit its document.
    pub(crate) fn put_endpoint(&mut self, record: EndpointRecord) {
        self.put(Object::Endpoint(Arc::new(record)));
    }

    pub(crate) fn put_namespace(&mut self, record: NamespaceRecord) {
        self.put(Object::Namespace(Arc::new(record)));
    }

    /// Puts a load balancer whose derived fields fit its document.
    pub(crate) fn put_balancer(&mut self, record: BalancerRecord) {
        self.put(Object::Balancer(Arc::new(record)));
    }

    pub(crate) fn put_route(&mut self, record: RouteRecord) {
        self.put(Object::Route(Arc::new(record)));
    }

    /// Takes an object away, if it is there.
    pub(crate) fn remove(&mut self, kind: Kind, id: Guid) {
        if let Some(object) = self.state.take(kind, id) {
            if self.quirks.keep_ports.is_some() {
                self.leaks.push(object.clone());
            }
            self.undo.push((kind, id, Some(object)));
        }
    }

    pub(crate) fn network(&self, id: Guid) -> Result<Arc<NetworkRecord>> {
        let found = self.state.networks.get(id).map(Arc::clone);
        found.ok_or_else(|| self.missing(Kind::Network, id))
    }

    pub(crate) fn endpoint(&self, id: Guid) -> Result<Arc<EndpointRecord>> {
        let found = self.state.endpoints.get(id).map(Arc::clone);
        found.ok_or_else(|| self.missing(Kind::Endpoint, id))
    }

    pub(crate) fn namespace(&self, id: Guid) -> Result<Arc<NamespaceRecord>> {
        let found = self.state.namespaces.get(id).map(Arc::clone);
        found.ok_or_else(|| self.missing(Kind::Namespace, id))
    }

    pub(crate) fn balancer(&self, id: Guid) -> Result<Arc<BalancerRecord>> {
        let found = self.state.balancers.get(id).map(Arc::clone);
        found.ok_or_else(|| self.missing(Kind::LoadBalancer, id))
    }

    pub(crate) fn route(&self, id: Guid) -> Result<Arc<RouteRecord>> {
        let found = self.state.routes.get(id).map(Arc::clone);
        found.ok_or_else(|| self.missing(Kind::SdnRoute, id))
    }

    /// The error of naming an object that is not there.
    pub(crate) fn missing(&self, kind: Kind, id: Guid) -> Error {
        missing(&self.env.switches, kind, id)
    }

    /// The id that a new object gets.
    pub(crate) fn choose_id(&self, kind: Kind, parameter: Guid, json: Option<Guid>) -> Result<Guid> {
        let switches = &self.env.switches;
        let parameter = Some(parameter).filter(|id| !id.is_nil() && switches.honour_id_parameter);
        let json = json.filter(|id| !id.is_nil() && switches.honour_json_id);
        let id = parameter.or(json).unwrap_or_else(|| self.env.random_id());
        if self.state.contains(kind, id) {
            let code = match kind {
                Kind::Network => switches.network_name_taken,
                _ => switches.existing_id,
            };
            return Err(Error::detailed(code, format!("{kind} {id} exists already")));
        }
        Ok(switches.id_case(kind).of(id))
    }

    /// Has subscribers told something, once the change is made.
    pub(crate) fn notify(&mut self, kind: NotificationKind, id: Guid) {
        self.notes.push(note(kind, Some(id)));
    }

    /// Takes the change back.
    pub(crate) fn roll_back(self) {
        for (kind, id, before) in self.undo.into_iter().rev() {
            match before {
                Some(object) => {
                    self.state.put(object);
                }
                None => {
                    self.state.take(kind, id);
                }
            }
        }
    }

    /// The objects that were touched so far, each once.
    pub(crate) fn touched(&self) -> Vec<(Kind, Guid)> {
        let mut touched: Vec<(Kind, Guid)> = self.undo.iter().map(|(kind, id, _)| (*kind, *id)).collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// The objects that were touched, each once, as they were before.
    pub(crate) fn before(&self) -> Vec<crate::program::Touched> {
        if self.undo.len() == 1 {
            return self.undo.clone();
        }
        let mut seen = rustc_hash::FxHashSet::default();
        let first = self.undo.iter().filter(|(kind, id, _)| seen.insert((*kind, *id)));
        first.cloned().collect()
    }

    /// Keeps the change.
    pub(crate) fn finish(self) -> Vec<Notification> {
        if let Some(Hold { until }) = self.quirks.keep_ports {
            for object in &self.leaks {
                match object {
                    Object::Balancer(record) => {
                        let mut ports: Vec<_> = record.frontend_ports().collect();
                        ports.sort_unstable();
                        ports.dedup();
                        self.state.ports.leak(&ports, &record.blocks, object.id(), until);
                    }
                    Object::Endpoint(record) => {
                        self.state.ports.leak(&record.ports, &record.blocks, object.id(), until);
                    }
                    _ => {}
                }
            }
        }
        self.notes
    }
}

/// The error of naming an object that is not there.
pub(crate) fn missing(switches: &Switches, kind: Kind, id: Guid) -> Error {
    Error::detailed(switches.not_found(kind), format!("there is no {kind} {id}"))
}

/// A notification about an object.
pub(crate) fn note(kind: NotificationKind, id: Option<Guid>) -> Notification {
    let data = match id {
        Some(id) => format!(r#"{{"ID":"{id}","Flags":0}}"#),
        None => r#"{"Flags":0}"#.to_owned(),
    };
    Notification { kind, id, data }
}

/// An error that says what is wrong.
pub(crate) fn refuse(code: HResult, detail: impl Into<String>) -> Error {
    Error::detailed(code, detail)
}
