//! One frontend at a time: what is wanted there against what HNS holds there.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::loadbalancer::Frontend;
use hcn::{ErrorClass, Feature, Guid, HResult, HcnExt, Kind};
use services::ServiceKey;

use super::endpoints::NoEndpoint;
use super::target::{Target, all_fields, differences, document};
use super::wanted::ORDINARY;
use super::{OWNER, Pass, Proxy, Retryable};
use crate::observed::ObservedBalancer;
use crate::plan::{Backends, SourceVip, WantedBalancer};
use crate::status::{Action, Change, ConditionReason, FieldChange, ProxyCondition};

/// How many endpoints are made for one load balancer before others have their turn, where passes are bounded.
const ENDPOINTS_AT_ONCE: usize = 32;

/// Whether a frontend is done with.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    Later,
}

impl Proxy {
    pub(super) fn converge_pending(&mut self, pass: &mut Pass) {
        for (rank, frontend) in self.in_turn() {
            if pass.down {
                return;
            }
            if pass.shares.is_some_and(|(balancers, _)| self.clock.now() >= balancers) {
                self.turn = Some((rank, frontend));
                self.unfinished = true;
                return;
            }
            if self.converge(frontend, pass) == Step::Done {
                self.pending.remove(&(rank, frontend));
            }
        }
        self.turn = None;
    }

    /// What is pending, in the order in which it is tried: what nobody wants any more, which only becomes known as such; what
    /// all else needs; the rest from where the last pass ran out of time, so that nobody's changes can keep others waiting for
    /// ever.
    fn in_turn(&self) -> Vec<(u8, Frontend)> {
        let mut frontends: Vec<(u8, Frontend)> = self.pending.iter().copied().collect();
        let unwanted = frontends.partition_point(|&(rank, _)| rank < u8::MAX);
        if let Some(turn) = self.turn {
            let first = frontends.partition_point(|&(rank, _)| rank < ORDINARY);
            let rest = &mut frontends[first..unwanted];
            let next = rest.partition_point(|entry| *entry < turn);
            rest.rotate_left(next % rest.len().max(1));
        }
        frontends.rotate_left(unwanted);
        frontends
    }

    /// Frontends that found their port or name taken, or no block of ports, get a second chance once the deletions
    /// are done.
    pub(super) fn retry_taken(&mut self, pass: &mut Pass) {
        if !pass
            .report
            .changes
            .iter()
            .any(|change| change.action == Action::Delete && change.kind == Kind::LoadBalancer)
        {
            return;
        }
        let taken: Vec<(u8, Frontend)> = self
            .pending
            .iter()
            .copied()
            .filter(|(_, frontend)| match self.backoff.get(&Retryable::Frontend(*frontend)) {
                Some(retry) => retry.attempts == 1 && retry.error.contains("already exists"),
                None => self.trouble.get(frontend).is_some_and(|trouble| trouble.waiting.is_some()),
            })
            .collect();
        for (rank, frontend) in taken {
            if pass.down {
                return;
            }
            self.backoff.succeeded(&Retryable::Frontend(frontend));
            if self.converge(frontend, pass) == Step::Done {
                self.pending.remove(&(rank, frontend));
            }
        }
    }

    fn converge(&mut self, frontend: Frontend, pass: &mut Pass) -> Step {
        let key = Retryable::Frontend(frontend);
        let Some((service, wanted)) = self.winner(frontend) else {
            // A create whose reply was lost may have left one.
            if let Err(error) = self.clear_doubts(frontend, pass) {
                pass.failed(format!("read load balancer {frontend}"), &error);
                return Step::Later;
            }
            self.doom_unwanted(frontend);
            self.trouble.remove(&frontend);
            self.backoff.succeeded(&key);
            return Step::Done;
        };
        self.touched.insert(service.clone());
        if !self.backoff.is_due(&key, pass.now) {
            return Step::Later;
        }
        if let Err(error) = self.clear_doubts(frontend, pass) {
            return self.balancer_failed(frontend, "read", &error, pass);
        }
        let importance = self.importance(frontend);
        if let Some(why) = self.waits_for_ports(&wanted, importance) {
            self.wait(frontend, why);
            return Step::Later;
        }
        let Some(target) = self.resolve(frontend, service, wanted, pass) else { return Step::Later };
        let Some(target) = target else { return Step::Done };
        if self.observed.balancers_at(frontend).len() < 2
            && let Some(trouble) = self.trouble.get_mut(&frontend)
        {
            trouble.ambiguous = false;
        }
        let step = match *self.observed.balancers_at(frontend) {
            [] => self.create(&target, pass),
            [only] => self.compare(only, &target, pass),
            ref several => {
                let several = several.to_vec();
                self.several(&several, &target, pass)
            }
        };
        if step == Step::Done && target.partial { Step::Later } else { step }
    }

    /// Reads again what an earlier failed write may have changed.
    fn clear_doubts(&mut self, frontend: Frontend, pass: &mut Pass) -> hcn::Result<()> {
        let mut ids = self.observed.balancers_at(frontend).to_vec();
        ids.push(self.balancer_id(&frontend));
        for id in ids {
            if self.observed.is_doubted(id) && !pass.down {
                self.reread_balancer(id)?;
            }
        }
        Ok(())
    }

    /// Outer `None`: it waits and stays pending. Inner `None`: nothing can be wanted there as things are.
    #[expect(clippy::option_option, reason = "waiting and not wanted are different answers")]
    fn resolve(
        &mut self,
        frontend: Frontend,
        service: ServiceKey,
        wanted: Arc<WantedBalancer>,
        pass: &mut Pass,
    ) -> Option<Option<Target>> {
        let mut left_out: Vec<(IpAddr, String)> = Vec::new();
        let mut backends = Vec::new();
        let mut partial = false;
        match &wanted.backends {
            Backends::Gateway => backends.extend(self.gateway),
            Backends::Addresses(list) => {
                backends.reserve(list.len());
                let begun = pass.report.changes.len();
                for &backend in &**list {
                    let made = pass.report.changes.len() - begun;
                    if made >= ENDPOINTS_AT_ONCE && pass.shares.is_some() {
                        self.unfinished = true;
                        return None;
                    }
                    match self.backend_endpoint(backend, pass) {
                        Ok(found) => {
                            backends.push(found.id);
                            partial |= found.behind;
                        }
                        Err(NoEndpoint::Down) => return None,
                        Err(NoEndpoint::LocalMissing) => left_out.push((
                            backend.address,
                            "the slice places it on this node, but HNS has no attached local endpoint with this address"
                                .to_owned(),
                        )),
                        Err(NoEndpoint::Failed(error)) => {
                            partial = true;
                            left_out.push((backend.address, error));
                        }
                    }
                }
            }
        }
        backends.sort_unstable();
        backends.dedup();
        let trouble = self.trouble.entry(frontend).or_default();
        trouble.left_out = left_out;
        trouble.waiting = None;
        if backends.is_empty() {
            trouble.waiting = Some("no backend has an endpoint in HNS".to_owned());
            self.doom_unwanted(frontend);
            return if partial { None } else { Some(None) };
        }
        if let Some(vip) = wanted.vip_endpoint {
            match self.vip_endpoint(vip, pass) {
                Ok(found) => partial |= found.behind,
                Err(NoEndpoint::Down | NoEndpoint::LocalMissing) => return None,
                Err(NoEndpoint::Failed(error)) => {
                    self.wait(
                        frontend,
                        format!("the endpoint of cluster IP {vip} could not be made: {error}"),
                    );
                    return None;
                }
            }
        }
        let source_vip = match wanted.source_vip {
            SourceVip::Node(address) => Some(address),
            SourceVip::Absent => None,
            SourceVip::Dedicated => {
                if let Some(address) = self.source_vip(pass) {
                    Some(address)
                } else {
                    self.wait(frontend, "there is no source VIP".to_owned());
                    return None;
                }
            }
        };
        if self.trouble.get(&frontend).is_some_and(super::Trouble::is_empty) {
            self.trouble.remove(&frontend);
        }
        Some(Some(Target { service, wanted, source_vip, backends, partial }))
    }

    fn wait(&mut self, frontend: Frontend, why: String) {
        self.trouble.entry(frontend).or_default().waiting = Some(why);
    }

    /// Load balancers at a frontend that nobody wants are deleted when they are ours, else left.
    pub(super) fn doom_unwanted(&mut self, frontend: Frontend) {
        let ids: Vec<Guid> =
            self.observed.balancers_at(frontend).iter().copied().filter(|&id| self.is_ours(id)).collect();
        self.doomed.extend(ids);
    }

    /// Made by this proxy, now or in an earlier run, or adopted by it.
    pub(super) fn is_ours(&self, id: Guid) -> bool {
        self.mine.contains(&id)
            || self.observed.balancer(id).is_some_and(|balancer| {
                balancer.owner.as_deref() == Some(OWNER)
                    || balancer.frontends.iter().any(|frontend| self.balancer_id(frontend) == id)
            })
    }

    fn several(&mut self, ids: &[Guid], target: &Target, pass: &mut Pass) -> Step {
        let ours: Vec<Guid> = ids.iter().copied().filter(|&id| self.is_ours(id)).collect();
        if let [only] = ours[..] {
            // One is ours: it is kept right, the others are not ours to delete.
            self.trouble.entry(target.wanted.frontend).or_default().ambiguous = true;
            return self.compare(only, target, pass);
        }
        let frontend = target.wanted.frontend;
        self.trouble.entry(frontend).or_default().ambiguous = true;
        let error = hcn::Error::detailed(
            HResult::ALREADY_EXISTS,
            format!("load balancers {ids:?} all hold {frontend}; which of them is right cannot be told"),
        );
        self.balancer_failed(frontend, "choose", &error, pass)
    }

    fn compare(&mut self, id: Guid, target: &Target, pass: &mut Pass) -> Step {
        let Some(observed) = self.observed.balancer(id) else { return self.create(target, pass) };
        let differences = differences(observed, target);
        let frontend = target.wanted.frontend;
        let forced = self.reapply.contains(&frontend);
        if differences.is_empty() && !forced {
            self.mine.insert(id);
            self.doomed.remove(&id);
            self.backoff.succeeded(&Retryable::Frontend(frontend));
            return Step::Done;
        }
        let foreign = !self.is_ours(id)
            && (observed.odd || observed.owner.as_deref().is_some_and(|owner| owner != OWNER));
        let modifiable = self.features.supports(Feature::ModifyLoadBalancer)
            && !self.modify_ineffective
            && !observed.odd
            && !observed.degraded
            && !forced;
        if foreign {
            self.trouble.entry(frontend).or_default().foreign = Some(id);
        }
        if modifiable
            && !foreign
            && let Some(step) = self.modify(id, target, &differences, pass)
        {
            return step;
        }
        let why = if forced {
            "HNS has restarted"
        } else if foreign {
            "a load balancer of somebody else holds the frontend"
        } else {
            "it differs from what is wanted"
        };
        self.replace(id, target, differences, why, pass)
    }

    /// `None`: in place does not work here; replace.
    fn modify(
        &mut self,
        id: Guid,
        target: &Target,
        differences: &[FieldChange],
        pass: &mut Pass,
    ) -> Option<Step> {
        let frontend = target.wanted.frontend;
        match self.hcn.modify(Kind::LoadBalancer, id, &document(id, target).to_json()) {
            Ok(()) => {}
            Err(error) if error.class() == ErrorClass::Unsupported => {
                self.note_modify_ineffective(&format!("HNS answered {}", error.code));
                return None;
            }
            Err(error) if error.class() == ErrorClass::NotFound => {
                self.observed.remove_balancer(id);
                return Some(self.create(target, pass));
            }
            Err(error) => {
                self.observed.doubt(id);
                return Some(self.write_failed(frontend, "modify", &error, target, pass));
            }
        }
        // Some builds report success and change nothing (kubernetes/kubernetes#131466).
        match self.reread_balancer(id) {
            Ok(true) => {}
            Ok(false) => return Some(self.create(target, pass)),
            Err(error) => {
                self.observed.doubt(id);
                return Some(self.balancer_failed(frontend, "verify", &error, pass));
            }
        }
        if self
            .observed
            .balancer(id)
            .is_none_or(|observed| !super::target::differences(observed, target).is_empty())
        {
            self.note_modify_ineffective("a modified load balancer read back unchanged");
            return None;
        }
        self.wrote(id, target, Action::Modify, differences.to_vec(), "it differs from what is wanted", pass);
        Some(Step::Done)
    }

    fn note_modify_ineffective(&mut self, how: &str) {
        self.modify_ineffective = true;
        self.set_condition(ProxyCondition::new(
            ConditionReason::ModifyIneffective,
            format!("load balancers are replaced instead of modified: {how}"),
        ));
    }

    fn replace(
        &mut self,
        id: Guid,
        target: &Target,
        differences: Vec<FieldChange>,
        why: &str,
        pass: &mut Pass,
    ) -> Step {
        let frontend = target.wanted.frontend;
        if let Err(error) = self.delete_object(Kind::LoadBalancer, id) {
            self.observed.doubt(id);
            return self.balancer_failed(frontend, "delete", &error, pass);
        }
        let old = self.forget_balancer(id);
        let made = self.hcn.make(self.balancer_id(&frontend), &document(self.balancer_id(&frontend), target));
        match made {
            Ok(made) => {
                self.put_target(made, target);
                self.wrote(made, target, Action::Replace, differences, why, pass);
                // Whatever else the old one held is missing now.
                for other in old.iter().flat_map(|old| &old.frontends).filter(|&&other| other != frontend) {
                    self.touch(*other);
                }
                Step::Done
            }
            Err(error) => {
                // Either may be there: the new one when the reply was lost, the old one when its deletion was a lie.
                let backends = old.iter().flat_map(|old| &old.backends).chain(&target.backends).copied();
                self.observed.doubt_balancer(self.balancer_id(&frontend), backends);
                self.write_failed(frontend, "create", &error, target, pass)
            }
        }
    }

    fn create(&mut self, target: &Target, pass: &mut Pass) -> Step {
        let frontend = target.wanted.frontend;
        let id = self.balancer_id(&frontend);
        if self.observed.balancer(id).is_some() {
            // Something malformed stands under the id: a create that failed half-way left it.
            if let Err(error) = self.delete_object(Kind::LoadBalancer, id) {
                self.observed.doubt(id);
                return self.balancer_failed(frontend, "delete a malformed load balancer at", &error, pass);
            }
            self.forget_balancer(id);
        }
        match self.hcn.make(id, &document(id, target)) {
            Ok(made) => {
                self.put_target(made, target);
                let fields = all_fields(target);
                self.wrote(made, target, Action::Create, fields, "it is wanted and HNS has none", pass);
                Step::Done
            }
            Err(error) => {
                self.observed.doubt_balancer(id, target.backends.iter().copied());
                self.write_failed(frontend, "create", &error, target, pass)
            }
        }
    }

    fn wrote(
        &mut self,
        id: Guid,
        target: &Target,
        action: Action,
        fields: Vec<FieldChange>,
        why: &str,
        pass: &mut Pass,
    ) {
        let frontend = target.wanted.frontend;
        self.mine.insert(id);
        self.doomed.remove(&id);
        self.reapply.remove(&frontend);
        self.backoff.succeeded(&Retryable::Frontend(frontend));
        pass.changed(Change {
            action,
            kind: Kind::LoadBalancer,
            subject: frontend.to_string(),
            id,
            service: Some(target.service.clone()),
            role: Some(target.wanted.role),
            fields,
            why: why.to_owned(),
        });
        if self.config.verify_writes && action != Action::Modify && !pass.down {
            match self.reread_balancer(id) {
                Ok(_) => {
                    if self
                        .observed
                        .balancer(id)
                        .is_none_or(|observed| !differences(observed, target).is_empty())
                    {
                        self.touch(frontend);
                    }
                }
                Err(error) => {
                    self.observed.doubt(id);
                    pass.failed(format!("verify load balancer {frontend}"), &error);
                }
            }
        }
    }

    fn put_target(&mut self, id: Guid, target: &Target) {
        self.observed.put_balancer(
            id,
            ObservedBalancer {
                frontends: [target.wanted.frontend].into_iter().collect(),
                internal_port: target.wanted.internal_port,
                distribution: target.wanted.distribution.clone(),
                mapping_flags: target.wanted.mapping_flags,
                flags: target.wanted.flags,
                source_vip: target.source_vip,
                backends: target.backends.clone().into(),
                owner: Some(OWNER.into()),
                odd: false,
                degraded: false,
            },
        );
    }

    /// A load balancer is gone: its backends may be unused now.
    pub(super) fn forget_balancer(&mut self, id: Guid) -> Option<ObservedBalancer> {
        let old = self.observed.remove_balancer(id)?;
        self.mine.remove(&id);
        self.garbage.extend(old.backends.iter().copied());
        Some(old)
    }

    /// A refused create or modify: the refusal may tell that the picture of HNS is out of date.
    fn write_failed(
        &mut self,
        frontend: Frontend,
        what: &str,
        error: &hcn::Error,
        target: &Target,
        pass: &mut Pass,
    ) -> Step {
        if error.code == HResult::INVALID_PARAMETER
            && target.backends.len() > 64
            && self.learned_limit.is_none()
        {
            self.learned_limit = Some(64);
            self.set_condition(ProxyCondition::new(
                ConditionReason::DestinationLimitLearned,
                format!(
                    "HNS refused a load balancer with {} backends; at most 64 are used from now on",
                    target.backends.len()
                ),
            ));
        }
        if error.code == HResult::PORT_NOT_FOUND && !pass.down && self.learn_portless(target) {
            return self.converge(frontend, pass);
        }
        let taken = matches!(error.class(), ErrorClass::AlreadyExists | ErrorClass::PortTaken)
            || error.code == HResult::INVALID_JSON_REFERENCE
            || error.class() == ErrorClass::NotFound;
        if taken && !pass.relisted && !pass.down {
            pass.relisted = true;
            match self.relist(pass) {
                // Trying again at once is worth while only if something was out of date.
                Ok(()) if self.is_outdated(target) => return self.converge(frontend, pass),
                Ok(()) => {}
                Err(error) => return self.balancer_failed(frontend, "list load balancers for", &error, pass),
            }
        }
        self.balancer_failed(frontend, what, error, pass)
    }

    /// HNS found no switch port for some backend. A pod that is being set up, or was not cleared away, must not cost
    /// the others their load balancer: local endpoints that are in no namespace are left out until they are.
    fn learn_portless(&mut self, target: &Target) -> bool {
        let mut learned = false;
        for &backend in &target.backends {
            let local = self.observed.endpoint(backend).is_some_and(|endpoint| !endpoint.remote);
            // What was read when it was attached may not hold any more.
            if local && self.reread_endpoint(backend).is_ok() {
                learned |= self.observed.note_portless(backend);
            }
        }
        learned
    }

    /// Whether HNS holds something at the target's frontend, or lacks a backend, that the target did not know of.
    fn is_outdated(&self, target: &Target) -> bool {
        let frontend = target.wanted.frontend;
        !self.observed.balancers_at(frontend).is_empty()
            || self.observed.balancer(self.balancer_id(&frontend)).is_some()
            || target.backends.iter().any(|&id| self.observed.endpoint(id).is_none())
    }

    fn balancer_failed(
        &mut self,
        frontend: Frontend,
        what: &str,
        error: &hcn::Error,
        pass: &mut Pass,
    ) -> Step {
        pass.failed(format!("{what} load balancer {frontend}"), error);
        if !pass.down {
            self.backoff.failed(
                Retryable::Frontend(frontend),
                error.to_string(),
                &*self.clock,
                &*self.entropy,
            );
        }
        Step::Later
    }
}
