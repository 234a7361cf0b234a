//! Deletions: load balancers of ours that nobody wants, then endpoints of ours that nobody uses. Both lists are
//! derived from state, so nothing is forgotten when a deletion fails or a pass ends early.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::{Guid, Hcn, Kind, Query};

use super::endpoints::SOURCE_VIP_KEY;
use super::ids::is_derived_endpoint;
use super::{Pass, Proxy, Retryable};
use crate::observed::EndpointOwner;
use crate::status::{Action, Change};

impl Proxy {
    pub(super) fn delete_doomed(&mut self, pass: &mut Pass) {
        let doomed: Vec<Guid> = self.doomed.iter().copied().collect();
        for window in doomed.chunks(self.window()) {
            if pass.down || self.is_over(pass) {
                return;
            }
            let due: Vec<Guid> =
                window.iter().copied().filter(|&id| self.must_delete_balancer(id, pass)).collect();
            for (id, answer) in self.delete(Kind::LoadBalancer, due, pass) {
                self.balancer_deleted(id, answer, pass);
            }
        }
    }

    /// Whether the pass has no time left; the next one goes on.
    fn is_over(&mut self, pass: &Pass) -> bool {
        let over = pass.shares.is_some_and(|(_, all)| self.clock.now() >= all);
        self.unfinished |= over;
        over
    }

    /// Deletes objects that do not depend on each other. What there was no time for is not among the answers.
    fn delete(&mut self, kind: Kind, ids: Vec<Guid>, pass: &Pass) -> Vec<(Guid, hcn::Result<()>)> {
        if pass.down {
            return Vec::new();
        }
        let hcn = Arc::clone(&self.hcn);
        let until = pass.shares.map(|(_, all)| all);
        let answers = self.together(&ids, until, |&id| delete_object(&*hcn, kind, id));
        self.unfinished |= answers.iter().any(Option::is_none);
        ids.into_iter().zip(answers).filter_map(|(id, answer)| Some((id, answer?))).collect()
    }

    fn must_delete_balancer(&mut self, id: Guid, pass: &mut Pass) -> bool {
        let key = Retryable::Delete(id);
        if pass.down || !self.backoff.is_due(&key, pass.now) {
            return false;
        }
        if self.observed.is_doubted(id)
            && let Err(error) = self.reread_balancer(id)
        {
            self.deletion_failed(id, "load balancer", &error, pass);
            return false;
        }
        let must = self.observed.balancer(id).is_some_and(|balancer| {
            // Wanted again in the meantime, or turned into somebody else's: no longer ours to delete.
            let wanted = balancer.frontends.iter().any(|&frontend| {
                self.winner(frontend).is_some()
                    && self.trouble.get(&frontend).is_none_or(|trouble| trouble.waiting.is_none())
            });
            !wanted && self.is_ours(id)
        });
        if !must {
            self.doomed.remove(&id);
            self.backoff.succeeded(&key);
        }
        must
    }

    fn balancer_deleted(&mut self, id: Guid, answer: hcn::Result<()>, pass: &mut Pass) {
        if let Err(error) = answer {
            self.observed.doubt(id);
            self.deletion_failed(id, "load balancer", &error, pass);
            return;
        }
        let old = self.forget_balancer(id);
        self.doomed.remove(&id);
        self.backoff.succeeded(&Retryable::Delete(id));
        let subject: Vec<String> =
            old.iter().flat_map(|old| &old.frontends).map(ToString::to_string).collect();
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

    pub(super) fn collect_garbage(&mut self, pass: &mut Pass) {
        let candidates: Vec<Guid> = self.garbage.iter().copied().collect();
        for window in candidates.chunks(self.window()) {
            if pass.down || self.is_over(pass) {
                return;
            }
            let due: Vec<Guid> = window.iter().copied().filter(|&id| self.must_collect(id, pass)).collect();
            for (id, answer) in self.delete(Kind::Endpoint, due, pass) {
                self.collected(id, answer, pass);
            }
        }
    }

    fn must_collect(&mut self, id: Guid, pass: &mut Pass) -> bool {
        let key = Retryable::Delete(id);
        if pass.down || !self.backoff.is_due(&key, pass.now) {
            return false;
        }
        if self.observed.is_doubted(id)
            && let Err(error) = self.reread_endpoint(id)
        {
            self.deletion_failed(id, "endpoint", &error, pass);
            return false;
        }
        if !self.is_collectable(id) {
            // Used, not ours or gone. When it is released later it becomes a candidate again.
            self.garbage.remove(&id);
            self.backoff.succeeded(&key);
            return false;
        }
        // Else a load balancer that is somebody else's, or whose deletion is still to come, refers to it.
        !self.observed.is_referenced(id) && !self.stands_under_vip(id)
    }

    fn collected(&mut self, id: Guid, answer: hcn::Result<()>, pass: &mut Pass) {
        if let Err(error) = answer {
            self.observed.doubt(id);
            self.deletion_failed(id, "endpoint", &error, pass);
            return;
        }
        let old = self.observed.remove_endpoint(id);
        self.garbage.remove(&id);
        self.backoff.succeeded(&Retryable::Delete(id));
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
        let network = self.network.as_ref().map(|network| network.id);
        network.is_some_and(|network| is_derived_endpoint(network, id, addresses))
    }
}

/// Deletes an object. "Not found" may be about something else, such as the network that it was on, so it counts as
/// success only when the object cannot be found afterwards either.
pub(super) fn delete_object(hcn: &dyn Hcn, kind: Kind, id: Guid) -> hcn::Result<()> {
    let error = match hcn.delete(kind, id) {
        Err(error) if error.is_not_found() => error,
        other => return other,
    };
    match hcn.query(kind, id, &Query::all()) {
        Ok(_) => Err(error),
        Err(gone) if gone.is_not_found() => Ok(()),
        Err(unknown) => Err(unknown),
    }
}
