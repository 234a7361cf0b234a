//! Deletions: load balancers of ours that nobody wants, then endpoints of ours that nobody uses. Both lists are
//! derived from state, so nothing is forgotten when a deletion fails or a pass ends early.

use std::net::IpAddr;

use hcn::{Guid, Kind, Query};

use super::endpoints::{EndpointRole, SOURCE_VIP_KEY};
use super::{Pass, Proxy, Retryable};
use crate::observed::EndpointOwner;
use crate::status::{Action, Change};

impl Proxy {
    pub(super) fn delete_doomed(&mut self, pass: &mut Pass) {
        let doomed: Vec<Guid> = self.doomed.iter().copied().collect();
        for id in doomed {
            if pass.down || self.is_over(pass) {
                return;
            }
            self.delete_balancer(id, pass);
        }
    }

    /// Whether the pass has no time left; the next one goes on.
    fn is_over(&mut self, pass: &Pass) -> bool {
        let over = pass.shares.is_some_and(|(_, all)| self.clock.now() >= all);
        self.unfinished |= over;
        over
    }

    fn delete_balancer(&mut self, id: Guid, pass: &mut Pass) {
        let key = Retryable::Delete(id);
        if !self.backoff.is_due(&key, pass.now) {
            return;
        }
        if self.observed.is_doubted(id)
            && let Err(error) = self.reread_balancer(id)
        {
            self.deletion_failed(id, "load balancer", &error, pass);
            return;
        }
        let Some(balancer) = self.observed.balancer(id) else {
            self.doomed.remove(&id);
            self.backoff.succeeded(&key);
            return;
        };
        // Wanted again in the meantime, or turned into somebody else's: no longer ours to delete.
        let frontends = balancer.frontends.clone();
        let wanted = frontends.iter().any(|&frontend| {
            self.winner(frontend).is_some()
                && self.trouble.get(&frontend).is_none_or(|trouble| trouble.waiting.is_none())
        });
        if wanted || !self.is_ours(id) {
            self.doomed.remove(&id);
            self.backoff.succeeded(&key);
            return;
        }
        if let Err(error) = self.delete_object(Kind::LoadBalancer, id) {
            self.observed.doubt(id);
            self.deletion_failed(id, "load balancer", &error, pass);
            return;
        }
        self.forget_balancer(id);
        self.doomed.remove(&id);
        self.backoff.succeeded(&key);
        let subject: Vec<String> = frontends.iter().map(ToString::to_string).collect();
        pass.changed(Change {
            action: Action::Delete,
            kind: Kind::LoadBalancer,
            subject: subject.join(" "),
            id,
            service: None,
            role: None,
            fields: Vec::new(),
            why: "no Service wants the frontend".to_owned(),
        });
    }

    /// Deletes an object. "Not found" may be about something else, such as the network that it was on, so it counts
    /// as success only when the object cannot be found afterwards either.
    pub(super) fn delete_object(&self, kind: Kind, id: Guid) -> hcn::Result<()> {
        let error = match self.hcn.delete(kind, id) {
            Err(error) if error.is_not_found() => error,
            other => return other,
        };
        match self.hcn.query(kind, id, &Query::all()) {
            Ok(_) => Err(error),
            Err(gone) if gone.is_not_found() => Ok(()),
            Err(unknown) => Err(unknown),
        }
    }

    pub(super) fn collect_garbage(&mut self, pass: &mut Pass) {
        let candidates: Vec<Guid> = self.garbage.iter().copied().collect();
        for id in candidates {
            if pass.down || self.is_over(pass) {
                return;
            }
            self.collect(id, pass);
        }
    }

    fn collect(&mut self, id: Guid, pass: &mut Pass) {
        let key = Retryable::Delete(id);
        if !self.backoff.is_due(&key, pass.now) {
            return;
        }
        if self.observed.is_doubted(id)
            && let Err(error) = self.reread_endpoint(id)
        {
            self.deletion_failed(id, "endpoint", &error, pass);
            return;
        }
        if !self.is_collectable(id) {
            // Used, not ours or gone. When it is released later it becomes a candidate again.
            self.garbage.remove(&id);
            self.backoff.succeeded(&key);
            return;
        }
        if self.observed.is_referenced(id) || self.stands_under_vip(id) {
            // A load balancer that is somebody else's, or whose deletion is still to come, refers to it.
            return;
        }
        if let Err(error) = self.delete_object(Kind::Endpoint, id) {
            self.observed.doubt(id);
            self.deletion_failed(id, "endpoint", &error, pass);
            return;
        }
        let old = self.observed.remove_endpoint(id);
        self.garbage.remove(&id);
        self.backoff.succeeded(&key);
        let addresses: Vec<String> =
            old.iter().flat_map(|old| &old.addresses).map(IpAddr::to_string).collect();
        pass.changed(Change {
            action: Action::Delete,
            kind: Kind::Endpoint,
            subject: addresses.join(" "),
            id,
            service: None,
            role: None,
            fields: Vec::new(),
            why: "no load balancer uses it".to_owned(),
        });
    }

    /// Whether an endpoint is there, ours and of no use.
    fn is_collectable(&self, id: Guid) -> bool {
        let Some(endpoint) = self.observed.endpoint(id) else { return false };
        if self.source_vip.is_some_and(|(source_vip, _)| source_vip == id) {
            return false;
        }
        if endpoint.owner == EndpointOwner::Foreign
            || (endpoint.owner == EndpointOwner::KubeProxy && !endpoint.remote)
        {
            return false;
        }
        if !endpoint.remote && id != self.derived(SOURCE_VIP_KEY) {
            return false;
        }
        if id == self.derived(SOURCE_VIP_KEY) {
            // Kept while an overlay may need it and no other source VIP is known.
            return self.source_vip.is_some()
                || self.network.as_ref().is_some_and(|network| !network.overlay);
        }
        let stands_for = |address: &IpAddr| {
            // What is looked for on this node is not what a remote endpoint stands for.
            let looked_for = endpoint.remote && self.missing_locals.contains(address);
            !looked_for
                && (self.uses.contains_key(address) || self.vip_uses.contains_key(address))
                && self.observed.resolve(*address) == Some(id)
        };
        !endpoint.addresses.iter().any(stands_for)
    }

    /// Whether it is the endpoint of a cluster IP, on an overlay, that a load balancer still has as its VIP.
    fn stands_under_vip(&self, id: Guid) -> bool {
        self.observed
            .endpoint(id)
            .is_some_and(|endpoint| endpoint.addresses.iter().any(|&address| self.observed.is_vip(address)))
    }

    fn deletion_failed(&mut self, id: Guid, kind: &str, error: &hcn::Error, pass: &mut Pass) {
        pass.failed(format!("delete {kind} {id}"), error);
        if !pass.down {
            self.backoff.failed(Retryable::Delete(id), error.to_string(), &*self.clock, &*self.entropy);
        }
    }

    /// Whether an endpoint's id is one that this proxy derives for its address.
    pub(super) fn is_derived_endpoint(&self, id: Guid, addresses: &[IpAddr]) -> bool {
        id == self.derived(SOURCE_VIP_KEY)
            || addresses.iter().any(|&address| {
                id == self.derived(&EndpointRole::Remote.key(address))
                    || id == self.derived(&EndpointRole::Vip.key(address))
            })
    }
}
