//! Reading HNS: everything once, then ids every period and whole objects in slices. A failed read changes nothing
//! that is known. Nothing is written here.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use hcn::api::V1Method;
use hcn::{Endpoint, ErrorClass, Features, Guid, HResult, HcnExt, Kind, LoadBalancer, Network, Query};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::context::network_state;
use super::endpoints::conjured_mac;
use super::{OWNER, Pass, Proxy, Retryable};
use crate::observed::{EndpointOwner, ObservedBalancer, ObservedEndpoint};
use crate::status::{ConditionReason, ProxyCondition};

impl Proxy {
    pub(super) fn read_hns(&mut self, pass: &mut Pass) {
        if self.signals.disconnected.swap(false, Ordering::AcqRel) {
            tracing::warn!("HNS has disconnected; checking everything");
            self.subscription = None;
            self.verify_all = true;
            self.next_check = pass.now;
            self.backoff.hurry();
            if self.config.reapply_after_restart {
                self.reapply.extend(self.claims.keys().copied());
                self.all_pending();
            }
        }
        if self.signals.nudged.swap(false, Ordering::AcqRel) {
            self.next_check = pass.now;
        }
        if !self.backoff.is_due(&Retryable::Read, pass.now) {
            return;
        }
        let missing_due =
            !self.missing_locals.is_empty() && self.backoff.is_due(&Retryable::MissingLocals, pass.now);
        if self.context.is_some() && pass.now < self.next_check && !missing_due {
            return;
        }
        self.subscribe();
        let result = if self.context.is_none() { self.discover(pass) } else { self.check(pass) };
        match result {
            Ok(()) => {
                self.backoff.succeeded(&Retryable::Read);
                self.clear_condition(ConditionReason::HnsUnavailable);
                self.next_check = pass.now + self.config.sync_period;
                if self.missing_locals.is_empty() {
                    self.backoff.succeeded(&Retryable::MissingLocals);
                } else {
                    let what = "local endpoints are missing".to_owned();
                    self.backoff.failed(Retryable::MissingLocals, what, &*self.clock, &*self.entropy);
                }
            }
            Err(error) => {
                pass.failed("read HNS", &error);
                self.set_condition(ProxyCondition::new(
                    ConditionReason::HnsUnavailable,
                    format!("HNS cannot be read, so nothing is changed: {error}"),
                ));
                self.backoff.failed(Retryable::Read, error.to_string(), &*self.clock, &*self.entropy);
            }
        }
    }

    /// The first full reading: five calls and one for each load balancer that is there.
    fn discover(&mut self, pass: &mut Pass) -> hcn::Result<()> {
        self.features = Features::of(self.hcn.version()?);
        let Some((id, document)) = self.find_network()? else {
            self.set_condition(ProxyCondition::new(
                ConditionReason::NetworkMissing,
                format!(
                    "there is no HNS network named {:?}; the CNI must make it, or --network-name must name another",
                    self.config.network_name
                ),
            ));
            let what = "the network is missing".to_owned();
            self.next_check =
                self.backoff.failed(Retryable::MissingLocals, what, &*self.clock, &*self.entropy);
            return Ok(());
        };
        self.clear_condition(ConditionReason::NetworkMissing);
        self.network = Some(network_state(id, &document));
        // Endpoints in one call of the v1 API: it lists whole objects, where v2 takes three calls for each.
        let endpoints = self.list_endpoints()?;
        let balancers = self.list_balancers()?;
        for (id, endpoint) in endpoints {
            self.observed.put_endpoint(id, endpoint);
        }
        for (id, document) in &balancers {
            self.observed.put_balancer(*id, ObservedBalancer::of(document));
        }
        self.sweep();
        self.rebuild_context();
        pass.relisted = true;
        Ok(())
    }

    /// After a full reading everything of ours is a candidate for deletion; what is wanted is spared when its turn
    /// comes.
    fn sweep(&mut self) {
        let balancers: Vec<Guid> =
            self.observed.balancers().map(|(id, _)| id).filter(|&id| self.is_ours(id)).collect();
        for id in balancers {
            let wanted = self.observed.balancer(id).is_some_and(|balancer| {
                balancer.frontends.iter().any(|frontend| self.claims.contains_key(frontend))
            });
            if !wanted {
                self.doomed.insert(id);
            }
        }
        let endpoints: Vec<Guid> = self
            .observed
            .endpoints()
            .filter(|(_, endpoint)| endpoint.owner != EndpointOwner::Foreign)
            .map(|(id, _)| id)
            .collect();
        self.garbage.extend(endpoints);
        self.all_pending();
    }

    fn find_network(&mut self) -> hcn::Result<Option<(Guid, Network)>> {
        let name = &self.config.network_name;
        let found = self.hcn.list::<Network>(&Query::by_name(name))?;
        if let Some((id, _)) = found.iter().find(|(id, document)| document.id != Some(*id)) {
            return Err(empty_answer("network", *id));
        }
        Ok(found.into_iter().find(|(_, network)| network.name.as_deref() == Some(name)))
    }

    fn list_endpoints(&mut self) -> hcn::Result<Vec<(Guid, ObservedEndpoint)>> {
        let network = self.network.as_ref().map_or(Guid::NIL, |network| network.id);
        let root = self.config.root_endpoint_name.clone();
        let mut gateway = None;
        let mut endpoints = Vec::new();
        match self.hcn.output_v1(V1Method::Get, "/endpoints/", "") {
            Ok(output) => {
                let documents: Vec<hcn::v1::Endpoint> = output.read::<Option<_>>()?.unwrap_or_default();
                for document in documents {
                    let document: Endpoint = hcn::v1::endpoint_to_v2(&document);
                    note_endpoint(self, network, &root, &document, &mut gateway, &mut endpoints);
                }
            }
            Err(error) if error.class() == ErrorClass::Unsupported => {
                for (id, mut document) in self.hcn.list::<Endpoint>(&Query::all())? {
                    document.id = Some(id);
                    note_endpoint(self, network, &root, &document, &mut gateway, &mut endpoints);
                }
            }
            Err(error) => return Err(error),
        }
        self.gateway = gateway;
        Ok(endpoints)
    }

    /// One that vanishes between enumeration and query is left out; any other failure fails the list.
    fn list_balancers(&self) -> hcn::Result<Vec<(Guid, LoadBalancer)>> {
        let ids = self.hcn.enumerate(Kind::LoadBalancer, &Query::all())?;
        let mut balancers = Vec::with_capacity(ids.len());
        for window in ids.chunks(self.window()) {
            for (&id, read) in window.iter().zip(self.read_balancers(window)?) {
                match read {
                    Ok(document) if document.id != Some(id) => return Err(empty_answer("load balancer", id)),
                    Ok(document) => balancers.push((id, document)),
                    Err(error) if error.class() == ErrorClass::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(balancers)
    }

    /// Reads some load balancers. An error: HNS went away.
    fn read_balancers(&self, ids: &[Guid]) -> hcn::Result<Vec<hcn::Result<LoadBalancer>>> {
        let hcn = &*self.hcn;
        let mut answers = Vec::with_capacity(ids.len());
        let mut gone = None;
        for answer in self.together(ids, None, |&id| hcn.get(id)) {
            match answer {
                Some(Err(error)) if error.class() == ErrorClass::Unavailable => gone = Some(error),
                Some(answer) => answers.push(answer),
                None => {}
            }
        }
        gone.map_or(Ok(answers), Err)
    }

    /// The periodic check: the network, the ids of everything, and a slice of whole objects.
    fn check(&mut self, pass: &mut Pass) -> hcn::Result<()> {
        let Some(network) = self.network.clone() else { return Ok(()) };
        match self.hcn.get::<Network>(network.id) {
            Ok(document) if document.id != Some(network.id) => {
                return Err(empty_answer("network", network.id));
            }
            Ok(document) => {
                let now = network_state(network.id, &document);
                if now != network {
                    tracing::info!(network = %network.id, "The HNS network has changed");
                    self.network = Some(now);
                    self.rebuild_context();
                }
            }
            Err(error) if error.is_not_found() => {
                tracing::warn!(network = %network.id, "The HNS network is gone");
                self.forget_network();
                return self.discover(pass);
            }
            Err(error) => return Err(error),
        }
        let endpoint_ids = self.hcn.enumerate(Kind::Endpoint, &Query::endpoints_of(network.id))?;
        self.follow_endpoint_ids(&endpoint_ids, pass)?;
        self.follow_balancer_ids(pass)?;
        self.verify_slice(pass)
    }

    fn follow_endpoint_ids(&mut self, ids: &[Guid], pass: &mut Pass) -> hcn::Result<()> {
        let listed: FxHashSet<Guid> = ids.iter().copied().collect();
        let vanished: Vec<Guid> =
            self.observed.endpoints().map(|(id, _)| id).filter(|id| !listed.contains(id)).collect();
        for id in vanished {
            if self.source_vip.is_some_and(|(source_vip, _)| source_vip == id) {
                self.source_vip_lost();
            }
            let users = self.observed.frontends_of_endpoint(id);
            if let Some(old) = self.observed.remove_endpoint(id) {
                if old.owner == EndpointOwner::Ours {
                    pass.report.repairs += 1;
                }
                for &address in &old.addresses {
                    self.touch_users_of(address);
                }
            }
            for frontend in users {
                self.touch(frontend);
            }
            self.garbage.remove(&id);
        }
        for &id in ids {
            let portless = self.observed.is_portless(id);
            if self.observed.endpoint(id).is_some() && !self.observed.is_doubted(id) && !portless {
                continue;
            }
            if let Some(endpoint) = self.read_endpoint(id)? {
                if !portless || self.observed.endpoint(id) != Some(&endpoint) {
                    self.appeared(id, endpoint);
                }
            } else {
                self.observed.remove_endpoint(id);
            }
        }
        Ok(())
    }

    /// An endpoint is new or has changed: whoever uses its addresses looks again, and remote endpoints of ours that
    /// it makes superfluous go.
    fn appeared(&mut self, id: Guid, endpoint: ObservedEndpoint) {
        let addresses = endpoint.addresses.clone();
        if endpoint.owner != EndpointOwner::Foreign {
            self.garbage.insert(id);
        }
        if !endpoint.remote
            && endpoint.name.eq_ignore_ascii_case(&self.config.root_endpoint_name)
            && self.gateway.is_none()
        {
            self.gateway = Some(id);
            self.observed.put_endpoint(id, endpoint);
            self.rebuild_context();
        } else {
            self.observed.put_endpoint(id, endpoint);
        }
        for address in addresses {
            self.missing_locals.remove(&address);
            self.garbage
                .extend(self.observed.endpoints_at(address).iter().copied().filter(|&other| other != id));
            self.touch_users_of(address);
        }
    }

    fn follow_balancer_ids(&mut self, pass: &mut Pass) -> hcn::Result<()> {
        let ids = self.hcn.enumerate(Kind::LoadBalancer, &Query::all())?;
        let listed: FxHashSet<Guid> = ids.iter().copied().collect();
        let vanished: Vec<Guid> =
            self.observed.balancers().map(|(id, _)| id).filter(|id| !listed.contains(id)).collect();
        for id in vanished {
            if let Some(old) = self.forget_balancer(id) {
                for frontend in old.frontends {
                    if self.claims.contains_key(&frontend) {
                        pass.report.repairs += 1;
                        self.touch(frontend);
                    }
                }
            }
            self.doomed.remove(&id);
        }
        for id in ids {
            if self.observed.balancer(id).is_some() && !self.observed.is_doubted(id) {
                continue;
            }
            self.reread_balancer(id)?;
            self.look_at_balancer(id);
        }
        Ok(())
    }

    /// Lists load balancers and endpoints by id after a refusal that says that the picture is out of date.
    pub(super) fn relist(&mut self, pass: &mut Pass) -> hcn::Result<()> {
        if let Some(network) = self.network.as_ref().map(|network| network.id) {
            let ids = self.hcn.enumerate(Kind::Endpoint, &Query::endpoints_of(network))?;
            self.follow_endpoint_ids(&ids, pass)?;
        }
        self.follow_balancer_ids(pass)
    }

    fn look_at_balancer(&mut self, id: Guid) {
        let Some(balancer) = self.observed.balancer(id) else { return };
        let frontends = balancer.frontends.clone();
        if frontends.is_empty() && self.is_ours(id) {
            self.doomed.insert(id);
        }
        for frontend in frontends {
            self.touch(frontend);
        }
    }

    /// Reads a few objects whole, going round, so that changes made by others are found without reading all.
    fn verify_slice(&mut self, pass: &mut Pass) -> hcn::Result<()> {
        let count = if self.verify_all { usize::MAX } else { self.config.check_slice };
        let balancers =
            next_slice(self.observed.balancers().map(|(id, _)| id).collect(), self.balancer_cursor, count);
        for window in balancers.chunks(self.window()) {
            for (&id, read) in window.iter().zip(self.read_balancers(window)?) {
                self.verify_balancer(id, read, pass)?;
            }
        }
        self.verify_all = false;
        let endpoints = next_slice(
            self.observed.endpoints().filter(|(_, endpoint)| endpoint.remote).map(|(id, _)| id).collect(),
            self.endpoint_cursor,
            self.config.check_slice,
        );
        for id in endpoints {
            let read = self.read_endpoint(id)?;
            self.endpoint_cursor = Some(id);
            if self.observed.endpoint(id) == read.as_ref() {
                continue;
            }
            let old = self.observed.remove_endpoint(id);
            if old.as_ref().is_some_and(|old| old.owner == EndpointOwner::Ours)
                && read.as_ref().is_none_or(|read| {
                    old.as_ref().is_some_and(|old| {
                        old.addresses != read.addresses || old.provider_address != read.provider_address
                    })
                })
            {
                pass.report.repairs += 1;
            }
            for address in old.iter().flat_map(|old| &old.addresses) {
                self.touch_users_of(*address);
            }
            if let Some(read) = read {
                self.appeared(id, read);
            }
        }
        Ok(())
    }

    /// Compares a load balancer with what was known of it.
    fn verify_balancer(
        &mut self,
        id: Guid,
        read: hcn::Result<LoadBalancer>,
        pass: &mut Pass,
    ) -> hcn::Result<()> {
        let before = self.observed.balancer(id).cloned();
        self.take_balancer(id, read)?;
        self.balancer_cursor = Some(id);
        let same = match (&before, self.observed.balancer(id)) {
            (Some(before), Some(after)) => before.same_as(after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !same {
            pass.report.repairs += 1;
            self.look_at_balancer(id);
            for frontend in before.iter().flat_map(|before| &before.frontends) {
                self.touch(*frontend);
            }
        }
        Ok(())
    }

    /// Reads one load balancer. False: it is known not to be there.
    pub(super) fn reread_balancer(&mut self, id: Guid) -> hcn::Result<bool> {
        let read = self.hcn.get(id);
        self.take_balancer(id, read)
    }

    /// Notes what reading a load balancer brought. False: it is known not to be there.
    pub(super) fn take_balancer(&mut self, id: Guid, read: hcn::Result<LoadBalancer>) -> hcn::Result<bool> {
        match read {
            // An answer without an id is no answer (seen: neither object nor error).
            Ok(document) if document.id != Some(id) => Err(empty_answer("load balancer", id)),
            Ok(document) => {
                let old = self.observed.remove_balancer(id);
                for backend in old.iter().flat_map(|old| old.backends.iter()) {
                    if !document.endpoints.contains(backend) {
                        self.garbage.insert(*backend);
                    }
                }
                self.observed.put_balancer(id, ObservedBalancer::of(&document));
                Ok(true)
            }
            Err(error) if error.is_not_found() => {
                self.forget_balancer(id);
                self.observed.settle(id);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads one endpoint; `None` when it is known not to be there (or is on another network).
    pub(super) fn read_endpoint(&mut self, id: Guid) -> hcn::Result<Option<ObservedEndpoint>> {
        match self.hcn.get::<Endpoint>(id) {
            Ok(document) if document.id != Some(id) => Err(empty_answer("endpoint", id)),
            Ok(document) => {
                let network = self.network.as_ref().map(|network| network.id);
                Ok((document.network == network).then(|| self.observe_endpoint(id, &document)))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn observe_endpoint(&self, id: Guid, document: &Endpoint) -> ObservedEndpoint {
        let addresses: SmallVec<[IpAddr; 2]> = document.addresses().collect();
        let mac = document.mac_address.as_deref().unwrap_or_default().replace(':', "-").to_ascii_uppercase();
        let remote = document.is_remote();
        let name = document.name.as_deref().unwrap_or_default();
        let owner = if document.owner.as_deref() == Some(OWNER) || self.is_derived_endpoint(id, &addresses) {
            EndpointOwner::Ours
        } else if remote
            && (name.is_empty() || name == "Ethernet")
            && document.owner.as_deref().unwrap_or_default().is_empty()
            && (addresses.iter().any(|&address| conjured_mac(address) == mac)
                || self.node.host_mac().is_some_and(|host| host.eq_ignore_ascii_case(&mac)))
        {
            EndpointOwner::KubeProxy
        } else {
            EndpointOwner::Foreign
        };
        ObservedEndpoint {
            provider_address: document
                .policies
                .iter()
                .find(|policy| policy.kind.is("ProviderAddress"))
                .and_then(|policy| policy.read::<ProviderAddress>().ok())
                .and_then(|settings| settings.address.parse().ok()),
            addresses,
            remote,
            owner,
            mac: mac.into(),
            name: name.into(),
            namespace: document.namespace.filter(|namespace| !namespace.is_nil()),
        }
    }

    /// The network has gone or another one is named: what was known of it is void.
    pub(super) fn forget_network(&mut self) {
        self.network = None;
        self.context = None;
        self.gateway = None;
        self.source_vip = None;
        self.observed = crate::observed::Observed::default();
        self.doomed.clear();
        self.garbage.clear();
        self.missing_locals.clear();
        self.backoff.clear();
        self.balancer_cursor = None;
        self.endpoint_cursor = None;
    }
}

/// The settings of a ProviderAddress policy.
#[derive(serde::Deserialize)]
struct ProviderAddress {
    #[serde(rename = "ProviderAddress")]
    address: String,
}

fn note_endpoint(
    proxy: &Proxy,
    network: Guid,
    root: &str,
    document: &Endpoint,
    gateway: &mut Option<Guid>,
    endpoints: &mut Vec<(Guid, ObservedEndpoint)>,
) {
    let Some(id) = document.id else { return };
    if document.network != Some(network) {
        return;
    }
    let endpoint = proxy.observe_endpoint(id, document);
    if !endpoint.remote && endpoint.name.eq_ignore_ascii_case(root) {
        *gateway = Some(id);
    }
    endpoints.push((id, endpoint));
}

/// The next `count` ids after the cursor, going round.
fn next_slice(mut ids: Vec<Guid>, cursor: Option<Guid>, count: usize) -> Vec<Guid> {
    ids.sort_unstable();
    let start = cursor.map_or(0, |cursor| ids.partition_point(|&id| id <= cursor));
    ids.iter().cycle().skip(start).take(count.min(ids.len())).copied().collect()
}

fn empty_answer(kind: &str, id: Guid) -> hcn::Error {
    hcn::Error::detailed(HResult::E_UNEXPECTED, format!("HNS answered neither {kind} {id} nor an error"))
}
