//! The service: one function for every call.
//!
//! The order is: acts of others that are due → the fault plan decides → delay → effect → change under the lock →
//! store → journal → notifications. A call that hangs or waits holds no lock. Nothing here knows what a network or
//! a load balancer is; that is in the modules that [`Writer`] calls.

use std::sync::Arc;
use std::time::Duration;

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::{Guid, HResult, Hcn, Kind, Query, Result, Version, v1};
use parking_lot::{Mutex, RwLock};

use crate::faults::{Call, Effect, Faults, Release};
use crate::host::Host;
use crate::journal::{Entry, Journal, Op};
use crate::notify::Subscribers;
use crate::profile::Profile;
use crate::program;
use crate::record::{self, Object};
use crate::state::State;
use crate::store::Store;
use crate::switches::Switches;
use crate::tx::{Env, Hold, Quirks, Tx, missing, refuse};
use crate::view::Snapshot;
use crate::{endpoint, filter, loadbalancer, namespace, network, route};

mod admin;
mod datapath;
mod open;

pub use admin::HostVnic;
pub use datapath::{EndpointPort, HostRoute};
pub use open::{OpenError, Options, StoreKind};

/// One emulated HNS. Every clone acts on the same state.
#[derive(Clone)]
pub struct Hns {
    pub(crate) inner: Arc<Inner>,
    actor: Arc<str>,
}

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) clock: Arc<dyn hcn::time::Clock>,
    pub(crate) state: RwLock<State>,
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) subscribers: Subscribers,
    /// Held by a call where calls are worked on one at a time; locked before `state`.
    pub(crate) turn: Mutex<()>,
    /// The MAC addresses of the v1 path `/accelnet`: no object, not stored.
    pub(crate) accelnet: Mutex<Vec<v1::MacEntry>>,
    /// What keeps the datapath in step; locked after `state`.
    pub(crate) program: Option<program::Shared>,
}

impl std::fmt::Debug for Hns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hns")
            .field("profile", &self.profile())
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

/// A call as the service sees it before it is carried out.
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) kind: Option<Kind>,
    pub(crate) id: Option<Guid>,
    pub(crate) subject: String,
}

/// What an answer consists of: the value and the id of the object it is about.
pub(crate) type Answer<T> = Result<(T, Option<Guid>)>;

impl Hns {
    /// The same HNS, called by somebody else: the journal and the fault plan tell actors apart.
    #[must_use]
    pub fn actor(&self, name: &str) -> Self {
        Self { inner: Arc::clone(&self.inner), actor: name.into() }
    }

    /// The calls that were made.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// The running fault plan.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// The build that is emulated.
    pub fn profile(&self) -> Profile {
        self.inner.env.profile
    }

    /// The choices in force.
    pub fn switches(&self) -> &Switches {
        &self.inner.env.switches
    }

    /// The machine around it.
    pub fn host(&self) -> &Host {
        &self.inner.env.host
    }

    pub(crate) fn now(&self) -> Duration {
        self.inner.clock.now()
    }

    /// Has a call decided and, unless the plan says otherwise, carried out.
    pub(crate) fn run<T>(&self, request: Request, act: impl FnOnce(Effect) -> Answer<T>) -> Result<T> {
        let inner = &*self.inner;
        let at = self.now();
        self.catch_up();
        inner.faults.perform_due(at, self);
        let turn = inner.env.switches.one_call_at_a_time.then(|| inner.turn.lock());
        let call = Call {
            actor: &self.actor,
            op: request.op,
            kind: request.kind,
            id: request.id,
            subject: &request.subject,
        };
        let decision = inner.faults.decide(&call, at);
        if !decision.delay.is_zero() {
            inner.clock.sleep(decision.delay);
        }
        let answer = if inner.env.switches.denied_actors.iter().any(|denied| **denied == *self.actor) {
            Err(refuse(HResult::ACCESS_DENIED, format!("actor {} is not allowed to call HNS", self.actor)))
        } else {
            match decision.effect {
                Effect::Fail(code) => Err(code.into()),
                Effect::Hang(token) => match token.wait() {
                    Release::Proceed => act(Effect::Proceed),
                    Release::Fail(code) => Err(code.into()),
                },
                Effect::FailAfterEffect(code) | Effect::FailPartial(code) => {
                    act(decision.effect).and_then(|_| Err(code.into()))
                }
                effect => act(effect),
            }
        };
        let id = match &answer {
            Ok((_, id)) => id.or(request.id),
            Err(_) => request.id,
        };
        inner.journal.record(Entry {
            seq: 0,
            at,
            actor: Arc::clone(&self.actor),
            op: request.op,
            kind: request.kind,
            id,
            subject: request.subject,
            took: self.now().saturating_sub(at),
            result: answer.as_ref().map(|_| ()).map_err(|error| error.code),
            fault: decision.fault,
        });
        drop(turn);
        inner.subscribers.deliver();
        answer.map(|(value, _)| value)
    }

    /// Changes the state by one operation: whole, or not at all.
    pub(crate) fn write<T>(&self, quirks: Quirks, act: impl FnOnce(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        let inner = &*self.inner;
        let now = self.now();
        let mut state = inner.state.write();
        state.ports.expire(now);
        let mut tx = Tx::new(&mut state, &inner.env, now, quirks);
        let value = match act(&mut tx) {
            Ok(value) => value,
            Err(error) => {
                tx.roll_back();
                return Err(error);
            }
        };
        if inner.store.is_file()
            && let Err(error) = inner.store.commit(tx.state, &tx.touched())
        {
            tx.roll_back();
            return Err(error);
        }
        let bend = tx.quirks.bend;
        let before = if inner.program.is_some() { tx.before() } else { Vec::new() };
        let notes = tx.finish();
        if let Some(program) = &inner.program {
            program.lock().follow(&state, &inner.env, now, &before, bend);
        }
        inner.subscribers.queue(notes);
        Ok(value)
    }

    pub(crate) fn subject_of(&self, kind: Kind, id: Guid) -> String {
        let object = self.inner.state.read().get(kind, id);
        object.map(|object| object.subject()).unwrap_or_default()
    }

    pub(crate) fn require(&self, kind: Kind, id: Guid) -> Result<Object> {
        let object = self.inner.state.read().get(kind, id);
        object.ok_or_else(|| missing(&self.inner.env.switches, kind, id))
    }
}

pub(crate) fn quirks(effect: &Effect) -> Quirks {
    match effect {
        Effect::FailPartial(_) => Quirks { partial: true, ..Quirks::default() },
        Effect::Unattached => Quirks { unattached: true, ..Quirks::default() },
        Effect::Degrade(code) => Quirks { degrade: Some(*code), ..Quirks::default() },
        Effect::KeepPorts { until } => {
            Quirks { keep_ports: Some(Hold { until: *until }), ..Quirks::default() }
        }
        Effect::Unprogrammed => {
            let bend = program::Bend { unprogrammed: true, ..program::Bend::default() };
            Quirks { bend, ..Quirks::default() }
        }
        Effect::LeaveRules => {
            let bend = program::Bend { stale: true, ..program::Bend::default() };
            Quirks { bend, ..Quirks::default() }
        }
        _ => Quirks::default(),
    }
}

/// A document to be created, read once.
pub(crate) enum Settings {
    Network(hcn::Network),
    Endpoint(hcn::Endpoint),
    Namespace(hcn::Namespace),
    Balancer(hcn::LoadBalancer),
    Route(hcn::SdnRoute),
}

impl Settings {
    fn read(kind: Kind, text: &str) -> Result<Self> {
        Ok(match kind {
            Kind::Network => Self::Network(v1::read_network(text)?),
            Kind::Endpoint => Self::Endpoint(v1::read_endpoint(text)?),
            Kind::Namespace => Self::Namespace(v1::read_namespace(text)?),
            Kind::LoadBalancer => Self::Balancer(v1::read_load_balancer(text)?),
            Kind::SdnRoute => Self::Route(v1::read_route(text)?),
        })
    }

    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Network(doc) => record::network_subject(doc),
            Self::Endpoint(doc) => record::endpoint_subject(doc),
            Self::Namespace(_) => String::new(),
            Self::Balancer(doc) => record::balancer_subject(doc),
            Self::Route(doc) => record::route_subject(doc),
        }
    }

    pub(crate) fn create(self, tx: &mut Tx<'_>, network: Option<Guid>, id: Guid) -> Result<Guid> {
        match self {
            Self::Network(doc) => network::create(tx, id, doc),
            Self::Endpoint(doc) => endpoint::create(tx, network, id, doc),
            Self::Namespace(doc) => namespace::create(tx, id, doc),
            Self::Balancer(doc) => loadbalancer::create(tx, id, doc),
            Self::Route(doc) => route::create(tx, id, doc),
        }
    }
}

pub(crate) fn create_in(
    tx: &mut Tx<'_>,
    kind: Kind,
    network: Option<Guid>,
    id: Guid,
    settings: &str,
) -> Result<Guid> {
    Settings::read(kind, settings)?.create(tx, network, id)
}

pub(crate) fn modify_in(tx: &mut Tx<'_>, kind: Kind, id: Guid, settings: &str) -> Result<()> {
    match kind {
        Kind::Network => network::modify(tx, id, settings),
        Kind::Endpoint => endpoint::modify(tx, id, settings),
        Kind::Namespace => namespace::modify(tx, id, settings),
        Kind::LoadBalancer => loadbalancer::modify(tx, id, settings),
        Kind::SdnRoute => {
            tx.route(id)?;
            Err(refuse(HResult::E_NOTIMPL, "SDN routes are deleted and made again, not modified"))
        }
    }
}

pub(crate) fn delete_in(tx: &mut Tx<'_>, kind: Kind, id: Guid) -> Result<()> {
    match kind {
        Kind::Network => network::delete(tx, id),
        Kind::Endpoint => endpoint::delete(tx, id),
        Kind::Namespace => namespace::delete(tx, id),
        Kind::LoadBalancer => loadbalancer::delete(tx, id),
        Kind::SdnRoute => route::delete(tx, id),
    }
}

fn call_name(verb: &str, kind: Kind, properties: bool) -> String {
    format!("Hcn{verb}{}{}", kind.export_word(), if properties { "Properties" } else { "" })
}

impl Hcn for Hns {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        let request = Request { op: Op::Enumerate, kind: Some(kind), id: None, subject: String::new() };
        let list = self.run(request, |effect| {
            let list = filter::select(&self.inner.state.read(), &self.inner.env, kind, query, self.now())?;
            Ok((if effect == Effect::NilGet { Vec::new() } else { list }, None))
        });
        list.map_err(|error| error.in_call(format!("HcnEnumerate{}s", kind.export_word())))
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        let subject = self.subject_of(kind, id);
        let request = Request { op: Op::Query, kind: Some(kind), id: Some(id), subject };
        let text = self.run(request, |effect| {
            let snapshot = {
                let state = self.inner.state.read();
                let object = state.get(kind, id);
                object.map(|object| Snapshot::of(&state, object, self.now()))
            };
            let Some(snapshot) = snapshot else {
                return Err(missing(&self.inner.env.switches, kind, id));
            };
            if effect == Effect::NilGet {
                return Ok(("{}".to_owned(), None));
            }
            Ok((snapshot.print(&self.inner.env, query), None))
        });
        text.map_err(|error| error.in_call(call_name("Query", kind, true)))
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        let document = Settings::read(kind, settings);
        let subject = document.as_ref().map(Settings::subject).unwrap_or_default();
        let request =
            Request { op: Op::Create, kind: Some(kind), id: Some(id).filter(|id| !id.is_nil()), subject };
        let created = self.run(request, |effect| {
            if effect == Effect::Ghost {
                return Ok((self.inner.env.random_id(), None));
            }
            let id = self.write(quirks(&effect), |tx| document?.create(tx, network, id))?;
            Ok((id, Some(id)))
        });
        created.map_err(|error| error.in_call(call_name("Create", kind, false)))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        let subject = self.subject_of(kind, id);
        let request = Request { op: Op::Modify, kind: Some(kind), id: Some(id), subject };
        let done = self.run(request, |effect| {
            if effect == Effect::Ghost {
                return self.require(kind, id).map(|_| ((), None));
            }
            self.write(quirks(&effect), |tx| modify_in(tx, kind, id, settings))?;
            Ok(((), None))
        });
        done.map_err(|error| error.in_call(call_name("Modify", kind, false)))
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        let subject = self.subject_of(kind, id);
        let request = Request { op: Op::Delete, kind: Some(kind), id: Some(id), subject };
        let done = self.run(request, |effect| {
            if effect == Effect::Ghost {
                return self.require(kind, id).map(|_| ((), None));
            }
            self.write(quirks(&effect), |tx| delete_in(tx, kind, id))?;
            Ok(((), None))
        });
        done.map_err(|error| error.in_call(call_name("Delete", kind, false)))
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        self.v1(method, path, body)
    }

    fn version(&self) -> Result<Version> {
        let request = Request { op: Op::Version, kind: None, id: None, subject: String::new() };
        self.run(request, |_| Ok((self.inner.env.version, None)))
    }

    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId> {
        let request = Request { op: Op::Subscribe, kind: None, id: None, subject: String::new() };
        self.run(request, |_| Ok((self.inner.subscribers.add(sink), None)))
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        self.inner.subscribers.remove(subscription);
    }
}
