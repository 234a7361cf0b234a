//! The endpoints that load balancers need: remote backends, cluster IPs on an overlay. Local endpoints are the
//! CNI's: they are looked up, never made, changed or deleted here.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcn::endpoint::{EndpointFlags, IpConfig};
use hcn::loadbalancer::Frontend;
use hcn::modify::{EndpointResource, ModifyEndpoint, RequestType};
use hcn::policy::PolicyList;
use hcn::query::SchemaVersion;
use hcn::{Endpoint, ErrorClass, Guid, Hcn, HcnExt, Kind, Policy};
use rustc_hash::FxHashSet;

use super::{OWNER, Pass, Proxy, Retryable};
use crate::observed::{EndpointOwner, ObservedEndpoint};
use crate::plan::{Backend, Backends, WantedBalancer};
use crate::status::{Action, Change, FieldChange};

/// What an endpoint is made for; part of the key its id is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointRole {
    /// A backend on another node or outside.
    Remote,
    /// A cluster IP.
    Vip,
}

/// How many endpoints are made for one load balancer before others have their turn, where passes are bounded.
pub(super) const ENDPOINTS_AT_ONCE: usize = 32;

pub(super) const SOURCE_VIP_KEY: &str = "endpoint/source-vip";

impl EndpointRole {
    pub(super) fn key(self, address: IpAddr) -> String {
        match self {
            Self::Remote => format!("endpoint/remote/{address}"),
            Self::Vip => format!("endpoint/vip/{address}"),
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Remote => "a backend that is not on this node",
            Self::Vip => "a cluster IP needs an endpoint on an overlay",
        }
    }
}

/// The endpoint of an address.
pub(super) struct Found {
    pub(super) id: Guid,
    /// Its provider address is not the wanted one yet; that is tried again.
    pub(super) behind: bool,
}

/// An endpoint that is to be made; everything is decided.
struct Missing {
    role: EndpointRole,
    address: IpAddr,
    network: Guid,
    id: Guid,
    mac: String,
    provider_address: Option<IpAddr>,
}

impl Missing {
    /// Calls HNS, and nothing else.
    fn call(&self, hcn: &dyn Hcn) -> hcn::Result<Guid> {
        let document = Endpoint {
            id: Some(self.id),
            owner: Some(OWNER.to_owned()),
            ip_configurations: vec![IpConfig { ip_address: self.address.to_string(), ..IpConfig::default() }],
            mac_address: Some(self.mac.clone()),
            flags: EndpointFlags::REMOTE_ENDPOINT,
            policies: self.provider_address.map(provider_policy).into_iter().collect(),
            schema_version: Some(SchemaVersion::V2),
            ..Endpoint::default()
        };
        hcn.make_endpoint(self.network, self.id, &document)
    }
}

/// Whether an endpoint is to be made.
enum Prepared {
    /// It has turned out to be there.
    There(Guid),
    Missing(Box<Missing>),
}

/// Why an address has no endpoint.
pub(super) enum NoEndpoint {
    /// The slice says local and HNS has none that is attached: it may appear any time.
    LocalMissing,
    /// It could not be made; it is tried again.
    Failed(String),
    /// HNS does not answer.
    Down,
}

/// The MAC kube-proxy gives to remote endpoints: `02-11-` and four bytes of the address (IPv6: the last four,
/// backwards). It is never on the wire; other tools know such endpoints by it.
pub(crate) fn conjured_mac(address: IpAddr) -> String {
    let [a, b, c, d] = match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            [octets[15], octets[14], octets[13], octets[12]]
        }
    };
    format!("02-11-{a:02X}-{b:02X}-{c:02X}-{d:02X}")
}

impl Proxy {
    /// The endpoint of a backend; made when it is remote and missing.
    pub(super) fn backend_endpoint(
        &mut self,
        backend: Backend,
        pass: &mut Pass,
    ) -> Result<Found, NoEndpoint> {
        if let Some(id) = self.observed.resolve(backend.address)
            && !self.observed.is_doubted(id)
            && self.can_serve(id, backend)
        {
            let behind = !self.follow_provider_address(id, backend.address, EndpointRole::Remote, pass);
            return Ok(Found { id, behind });
        }
        if backend.local {
            self.missing_locals.insert(backend.address);
            return Err(NoEndpoint::LocalMissing);
        }
        self.make(EndpointRole::Remote, backend.address, pass).map(|id| Found { id, behind: false })
    }

    /// Whether an endpoint with the backend's address is the backend's. What the slice places on this node is not
    /// reached through a remote endpoint, which stands for an earlier owner of the address on another node
    /// (kubernetes/kubernetes#138000).
    fn can_serve(&self, id: Guid, backend: Backend) -> bool {
        let remote = self.observed.endpoint(id).is_some_and(|endpoint| endpoint.remote);
        !(backend.local && remote || self.observed.is_portless(id))
    }

    /// The endpoint of a cluster IP on an overlay.
    pub(super) fn vip_endpoint(&mut self, vip: IpAddr, pass: &mut Pass) -> Result<Found, NoEndpoint> {
        if let Some(id) = self.observed.resolve(vip)
            && !self.observed.is_doubted(id)
        {
            let behind = !self.follow_provider_address(id, vip, EndpointRole::Vip, pass);
            return Ok(Found { id, behind });
        }
        self.make(EndpointRole::Vip, vip, pass).map(|id| Found { id, behind: false })
    }

    fn wanted_provider_address(&self, role: EndpointRole, address: IpAddr) -> Option<IpAddr> {
        let context = self.context.as_ref().filter(|context| context.overlay)?;
        let own = context.node_addresses.values().next().copied()?;
        Some(match role {
            EndpointRole::Remote => context.book.provider_address(address, own),
            EndpointRole::Vip => own,
        })
    }

    fn make(&mut self, role: EndpointRole, address: IpAddr, pass: &mut Pass) -> Result<Guid, NoEndpoint> {
        match self.prepare_endpoint(role, address, pass)? {
            Prepared::There(id) => Ok(id),
            Prepared::Missing(missing) => {
                let answer = missing.call(&*self.hcn);
                self.endpoint_made(&missing, answer, pass)
            }
        }
    }

    /// Makes the endpoints that the load balancers of frontends lack, as many of each as are made before others have their turn.
    /// Returns the frontends that lack more.
    pub(super) fn make_endpoints(
        &mut self,
        frontends: &[(u8, Frontend)],
        until: Option<Duration>,
        pass: &mut Pass,
    ) -> FxHashSet<Frontend> {
        let mut jobs: Vec<Box<Missing>> = Vec::new();
        let mut seen: FxHashSet<Guid> = FxHashSet::default();
        let mut crowded = FxHashSet::default();
        let most = if until.is_some() { ENDPOINTS_AT_ONCE } else { usize::MAX };
        for &(_, frontend) in frontends {
            // What is in doubt is read first, which takes its time.
            if until.is_some_and(|until| self.clock.now() >= until) {
                break;
            }
            let Some((_, wanted)) = self.winner(frontend) else { continue };
            if !self.backoff.is_due(&Retryable::Frontend(frontend), pass.now) {
                continue;
            }
            let mut lacking = self.lacking(&wanted, pass.now);
            if lacking.len() > most {
                lacking.truncate(most);
                crowded.insert(frontend);
            }
            for (role, address) in lacking {
                // What cannot be made is found again by who needs it.
                if let Ok(Prepared::Missing(missing)) = self.prepare_endpoint(role, address, pass)
                    && seen.insert(missing.id)
                {
                    jobs.push(missing);
                }
            }
        }
        let hcn = Arc::clone(&self.hcn);
        let answers = self.together(&jobs, until, |missing| missing.call(&*hcn));
        for (missing, answer) in jobs.iter().zip(answers) {
            if let Some(answer) = answer {
                // A failure is noted, and told to who needs the endpoint.
                let _ = self.endpoint_made(missing, answer, pass);
            }
        }
        crowded
    }

    /// The endpoints that a load balancer needs, HNS is not known to have, and may be tried now.
    fn lacking(&self, wanted: &WantedBalancer, now: Duration) -> Vec<(EndpointRole, IpAddr)> {
        let backends = match &wanted.backends {
            Backends::Addresses(list) => &**list,
            Backends::Gateway => &[],
        };
        let known =
            |address: IpAddr| self.observed.resolve(address).filter(|&id| !self.observed.is_doubted(id));
        let due =
            |(_, address): &(EndpointRole, IpAddr)| self.backoff.is_due(&Retryable::Endpoint(*address), now);
        let remote = backends
            .iter()
            .filter(|backend| !backend.local)
            .filter(|backend| known(backend.address).is_none_or(|id| !self.can_serve(id, **backend)))
            .map(|backend| (EndpointRole::Remote, backend.address));
        // A load balancer without backends is not made, and needs no VIP.
        let served = backends.iter().any(|backend| {
            !backend.local || known(backend.address).is_some_and(|id| self.can_serve(id, *backend))
        });
        let vip = wanted.vip_endpoint.filter(|&vip| served && known(vip).is_none());
        let vip = vip.map(|vip| (EndpointRole::Vip, vip));
        remote.chain(vip).filter(due).collect()
    }

    /// All that comes before an endpoint is made, and whether it is.
    fn prepare_endpoint(
        &mut self,
        role: EndpointRole,
        address: IpAddr,
        pass: &mut Pass,
    ) -> Result<Prepared, NoEndpoint> {
        if role == EndpointRole::Remote {
            self.missing_locals.remove(&address);
        }
        if pass.down {
            return Err(NoEndpoint::Down);
        }
        let key = Retryable::Endpoint(address);
        if !self.backoff.is_due(&key, pass.now) {
            let error = self.backoff.get(&key).map(|retry| retry.error.clone()).unwrap_or_default();
            return Err(NoEndpoint::Failed(error));
        }
        let Some(network) = self.network.as_ref().map(|network| network.id) else {
            return Err(NoEndpoint::Down);
        };
        let id = self.derived(&role.key(address));
        // An earlier write to this id failed: it may be there.
        if self.observed.is_doubted(id) {
            match self.reread_endpoint(id) {
                Ok(true) => {
                    self.backoff.succeeded(&key);
                    return Ok(Prepared::There(id));
                }
                Ok(false) => {}
                Err(error) => return Err(self.endpoint_failed(address, id, &error, pass)),
            }
        }
        let provider_address = self.wanted_provider_address(role, address);
        let mac = match role {
            EndpointRole::Remote => conjured_mac(address),
            EndpointRole::Vip => self.node.host_mac().map_or_else(|| conjured_mac(address), str::to_owned),
        };
        Ok(Prepared::Missing(Box::new(Missing { role, address, network, id, mac, provider_address })))
    }

    /// Notes what came of making an endpoint.
    fn endpoint_made(
        &mut self,
        missing: &Missing,
        answer: hcn::Result<Guid>,
        pass: &mut Pass,
    ) -> Result<Guid, NoEndpoint> {
        let (id, address) = (missing.id, missing.address);
        let made = match answer {
            Ok(made) => made,
            // It is there after all: somebody, perhaps an earlier run, was quicker than the last read.
            Err(error) if error.class() == ErrorClass::AlreadyExists => match self.reread_endpoint(id) {
                Ok(true) => id,
                Ok(false) => return Err(self.endpoint_failed(address, id, &error, pass)),
                Err(error) => return Err(self.endpoint_failed(address, id, &error, pass)),
            },
            Err(error) => return Err(self.endpoint_failed(address, id, &error, pass)),
        };
        self.backoff.succeeded(&Retryable::Endpoint(address));
        let mut fields = vec![
            field("IpConfigurations", "", address.to_string()),
            field("MacAddress", "", missing.mac.clone()),
            field("Flags", "", EndpointFlags::REMOTE_ENDPOINT.names()),
        ];
        if let Some(provider) = missing.provider_address {
            fields.push(field("ProviderAddress", "", provider.to_string()));
        }
        self.observed.put_endpoint(
            made,
            ObservedEndpoint {
                addresses: [address].into_iter().collect(),
                remote: true,
                owner: EndpointOwner::Ours,
                provider_address: missing.provider_address,
                mac: missing.mac.as_str().into(),
                name: "".into(),
                namespace: None,
            },
        );
        pass.changed(Change {
            action: Action::Create,
            kind: Kind::Endpoint,
            subject: address.to_string(),
            id: made,
            service: None,
            role: None,
            fields,
            why: missing.role.why().to_owned(),
        });
        Ok(made)
    }

    fn endpoint_failed(
        &mut self,
        address: IpAddr,
        id: Guid,
        error: &hcn::Error,
        pass: &mut Pass,
    ) -> NoEndpoint {
        pass.failed(format!("create endpoint {address}"), error);
        self.observed.doubt(id);
        if pass.down {
            return NoEndpoint::Down;
        }
        let text = error.to_string();
        self.backoff.failed(Retryable::Endpoint(address), text.clone(), &*self.clock, &*self.entropy);
        NoEndpoint::Failed(text)
    }

    /// Reads an endpoint whose state is unknown. False: it is known not to be there.
    pub(super) fn reread_endpoint(&mut self, id: Guid) -> hcn::Result<bool> {
        match self.read_endpoint(id) {
            Ok(Some(endpoint)) => {
                self.observed.put_endpoint(id, endpoint);
                Ok(true)
            }
            Ok(None) => {
                self.observed.remove_endpoint(id);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Pods move between nodes' ranges and nodes change addresses: the endpoint follows in place.
    /// False: it could not, and is tried again.
    fn follow_provider_address(
        &mut self,
        id: Guid,
        address: IpAddr,
        role: EndpointRole,
        pass: &mut Pass,
    ) -> bool {
        let Some(wanted) = self.wanted_provider_address(role, address) else { return true };
        let Some(endpoint) = self.observed.endpoint(id) else { return true };
        if !endpoint.remote
            || endpoint.owner == EndpointOwner::Foreign
            || endpoint.provider_address == Some(wanted)
        {
            return true;
        }
        let key = Retryable::Endpoint(address);
        if pass.down || !self.backoff.is_due(&key, pass.now) {
            return false;
        }
        let from = endpoint.provider_address.map(|address| address.to_string()).unwrap_or_default();
        let policies = PolicyList { policies: vec![provider_policy(wanted)], ..PolicyList::default() };
        let request = ModifyEndpoint::new(EndpointResource::Policy, RequestType::Update, &policies);
        match self.hcn.modify(Kind::Endpoint, id, &request.to_json()) {
            Ok(()) => {
                self.backoff.succeeded(&key);
                if let Some(mut endpoint) = self.observed.remove_endpoint(id) {
                    endpoint.provider_address = Some(wanted);
                    self.observed.put_endpoint(id, endpoint);
                }
                pass.changed(Change {
                    action: Action::Modify,
                    kind: Kind::Endpoint,
                    subject: address.to_string(),
                    id,
                    service: None,
                    role: None,
                    fields: vec![field("ProviderAddress", &from, wanted.to_string())],
                    why: "the node behind the address has changed".to_owned(),
                });
                true
            }
            Err(error) => {
                pass.failed(format!("modify endpoint {address}"), &error);
                if !pass.down {
                    self.backoff.failed(key, error.to_string(), &*self.clock, &*self.entropy);
                }
                false
            }
        }
    }
}

fn provider_policy(address: IpAddr) -> Policy {
    Policy::new("ProviderAddress", &serde_json::json!({ "ProviderAddress": address.to_string() }))
}

pub(super) fn field(field: &'static str, from: &str, to: String) -> FieldChange {
    FieldChange { field, from: from.to_owned(), to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_is_kube_proxys() {
        assert_eq!(conjured_mac("192.168.2.3".parse().unwrap()), "02-11-C0-A8-02-03");
        assert_eq!(conjured_mac("2001:db8::0a0b:0c0d".parse().unwrap()), "02-11-0D-0C-0B-0A");
    }
}
