//! What is done to an emulated HNS from outside its API: by tests, by the machine around it, by a fault plan.

use std::net::IpAddr;
use std::time::Duration;

use hcn::api::NotificationKind;
use hcn::{Error, Guid, HResult, Kind, Result};

use super::{Hns, create_in, delete_in, modify_in};
use crate::faults::{FaultActions, Loss, Target};
use crate::host::Protocol;
use crate::journal::{Entry, Op};
use crate::ports::PortReport;
use crate::record::Object;
use crate::state::State;
use crate::store::is_persistent;
use crate::tx::{Quirks, note, refuse};

/// The host's interface on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostVnic {
    /// The network.
    pub network: Guid,
    /// The interface's alias: `vEthernet (<adapter>)`.
    pub name: String,
    /// Its MAC address.
    pub mac: hcn::Mac,
    /// Its addresses, taken over from the adapter.
    pub addresses: Vec<ipnet::IpNet>,
}

impl Hns {
    /// The service restarts. Subscribers are told and forgotten, hung calls end, non-persistent networks vanish with
    /// what lies on them, everything else comes back from the store, except what `loss` says.
    pub fn restart(&self, loss: Loss) -> Result<()> {
        self.restart_service(loss, true).map(|_| ())
    }

    fn restart_service(&self, loss: Loss, tell: bool) -> Result<usize> {
        let inner = &*self.inner;
        inner.faults.release_hung();
        let mut state = inner.state.write();
        let doomed: Vec<(Kind, Guid)> = state
            .objects()
            .filter(|object| !is_persistent(&state, object) || is_lost(loss, object))
            .map(|object| (object.kind(), object.id()))
            .collect();
        let mut left = state.clone();
        for &(kind, id) in &doomed {
            left.take(kind, id);
        }
        // The store forgets what is lost; it never had the rest.
        inner.store.commit(&left, &doomed)?;
        let objects = inner
            .store
            .load(&left)
            .map_err(|error| Error::detailed(HResult::REGKEY_FAILURE, error.to_string()))?;
        let ports = state.ports.carry_over(&inner.env.host.dynamic_ports);
        let mut fresh = State::new(&inner.env.host, ports);
        let mended = fresh.fill(objects);
        inner.store.commit(&fresh, &mended)?;
        *state = fresh;
        self.reprogram(&state, loss == Loss::Rules);
        if tell {
            inner.subscribers.queue(vec![note(NotificationKind::ServiceDisconnect, None)]);
        }
        drop(state);
        inner.subscribers.deliver();
        Ok(doomed.len())
    }

    /// A process of the host starts to listen on a port, on both families.
    pub fn listen(&self, protocol: Protocol, port: u16) -> Result<()> {
        self.inner.state.write().ports.listen(protocol, port).map_err(|(port, holder)| {
            refuse(HResult::PORT_ALREADY_EXISTS, format!("{port} is held by {holder}"))
        })
    }

    /// A process of the host stops listening; false when none did.
    pub fn unlisten(&self, protocol: Protocol, port: u16) -> bool {
        self.inner.state.write().ports.unlisten(protocol, port)
    }

    /// The host's port space.
    pub fn ports(&self) -> PortReport {
        let now = self.now();
        let mut state = self.inner.state.write();
        state.ports.expire(now);
        state.ports.report()
    }

    /// Puts an endpoint on the switch: what starting its container does where nothing else attaches it.
    pub fn attach_to_switch(&self, endpoint: Guid) -> Result<()> {
        let done = self.write(Quirks::default(), |tx| crate::endpoint::attach(tx, endpoint));
        self.inner.subscribers.deliver();
        done
    }

    /// The host's interfaces that have appeared: one per network that has a management address by now.
    pub fn host_vnics(&self) -> Vec<HostVnic> {
        let now = self.now();
        let state = self.inner.state.read();
        let vnic = |record: &std::sync::Arc<crate::record::NetworkRecord>| {
            let adapter = self.inner.env.host.adapter(record.adapter.as_deref()?)?;
            let ready = record.management.is_some() && now >= record.ready_at;
            ready.then(|| HostVnic {
                network: record.doc.id.unwrap_or_default(),
                name: format!("vEthernet ({})", adapter.name),
                mac: adapter.mac,
                addresses: adapter.addresses.clone(),
            })
        };
        state.networks.iter().filter_map(vnic).collect()
    }

    /// When every network has its management address, in the clock's time; for those that wait for it.
    pub fn settled_at(&self) -> Duration {
        let state = self.inner.state.read();
        state.networks.iter().map(|record| record.ready_at).max().unwrap_or_default()
    }

    /// The address that the host has on a network, once it has appeared.
    pub fn management_address(&self, network: Guid) -> Option<IpAddr> {
        let now = self.now();
        let state = self.inner.state.read();
        let record = state.networks.get(network)?;
        record.management.filter(|_| now >= record.ready_at)
    }

    /// The objects of a kind that a target means.
    fn targets(&self, kind: Kind, target: &Target) -> Vec<Object> {
        let state = self.inner.state.read();
        let objects = state.objects().filter(|object| object.kind() == kind);
        objects.filter(|object| target.matches(object.id(), &object.subject())).collect()
    }

    /// Notes an act of somebody else in the journal.
    fn note_act(
        &self,
        actor: &str,
        op: Op,
        kind: Kind,
        id: Option<Guid>,
        subject: String,
        result: &Result<()>,
    ) {
        self.inner.journal.record(Entry {
            seq: 0,
            at: self.now(),
            actor: actor.into(),
            op,
            kind: Some(kind),
            id,
            subject,
            took: Duration::ZERO,
            result: result.as_ref().copied().map_err(|error| error.code),
            fault: Some("F-EXT"),
        });
    }

    fn each(
        &self,
        actor: &str,
        op: Op,
        kind: Kind,
        target: &Target,
        act: impl Fn(Guid) -> Result<()>,
    ) -> Result<usize> {
        let mut done = 0;
        for object in self.targets(kind, target) {
            let result = act(object.id());
            self.note_act(actor, op, kind, Some(object.id()), object.subject(), &result);
            result?;
            done += 1;
        }
        Ok(done)
    }
}

fn is_lost(loss: Loss, object: &Object) -> bool {
    match loss {
        // The switch loses its rules, HNS nothing.
        Loss::None | Loss::Rules => false,
        Loss::Everything => true,
        Loss::LoadBalancers => object.kind() == Kind::LoadBalancer,
        // Load balancers and SDN routes cannot be without their endpoints.
        Loss::Endpoints => {
            matches!(object.kind(), Kind::Endpoint | Kind::LoadBalancer | Kind::SdnRoute)
        }
        Loss::Fraction { kind, share, seed } => {
            // The draw depends on the object alone, not on how many there are or in which order they stand.
            object.kind() == kind && crate::draw(seed, object.id()) < share
        }
    }
}

impl FaultActions for Hns {
    fn restart(&self, loss: Loss, notify: bool) -> Result<usize> {
        self.restart_service(loss, notify)
    }

    fn delete(&self, actor: &str, kind: Kind, target: &Target) -> Result<usize> {
        self.each(actor, Op::Delete, kind, target, |id| {
            self.write(Quirks::default(), |tx| delete_in(tx, kind, id))
        })
    }

    fn modify(&self, actor: &str, kind: Kind, target: &Target, settings: &str) -> Result<usize> {
        self.each(actor, Op::Modify, kind, target, |id| {
            self.write(Quirks::default(), |tx| modify_in(tx, kind, id, settings))
        })
    }

    fn create(&self, actor: &str, kind: Kind, network: Option<&Target>, settings: &str) -> Result<usize> {
        let network = match network {
            None => None,
            Some(target) => {
                let found = self.targets(Kind::Network, target);
                let first = found.first().map(Object::id);
                Some(first.ok_or_else(|| refuse(HResult::NETWORK_NOT_FOUND, "no network matches"))?)
            }
        };
        let made = self.write(Quirks::default(), |tx| create_in(tx, kind, network, Guid::NIL, settings));
        let id = made.as_ref().ok().copied();
        let subject = id.map(|id| self.subject_of(kind, id)).unwrap_or_default();
        self.note_act(actor, Op::Create, kind, id, subject, &made.as_ref().map(|_| ()).map_err(Clone::clone));
        made.map(|_| 1)
    }

    fn duplicate_endpoint(&self, target: &Target, remote: bool, first: bool) -> Result<usize> {
        let mut done = 0;
        for object in self.targets(Kind::Endpoint, target) {
            let Object::Endpoint(record) = &object else { continue };
            let mut doc = hcn::Endpoint {
                name: record.doc.name.clone(),
                ip_configurations: record.doc.ip_configurations.clone(),
                ..hcn::Endpoint::default()
            };
            doc.flags.set(hcn::endpoint::EndpointFlags::REMOTE_ENDPOINT, remote);
            let id = crate::faults::neighbour_id(object.id(), first);
            let quirks = Quirks { beside: Some((record.seq, first)), ..Quirks::default() };
            let network = Some(record.network);
            self.write(quirks, |tx| crate::endpoint::create(tx, network, id, doc))?;
            done += 1;
        }
        Ok(done)
    }

    fn listen(&self, protocol: u32, port: u16, open: bool) -> Result<usize> {
        let Some(protocol) = Protocol::from_number(protocol) else {
            let detail = format!("protocol {protocol} has no host ports; use 6 (TCP) or 17 (UDP)");
            return Err(refuse(HResult::INVALID_PARAMETER, detail));
        };
        if open {
            Self::listen(self, protocol, port).map(|()| 1)
        } else {
            Ok(usize::from(self.unlisten(protocol, port)))
        }
    }
}
