//! One frontend at a time: what is wanted there against what HNS holds there.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::loadbalancer::{Frontend, LoadBalancerFlags};
use hcn::{Feature, Guid, HResult, Kind};
use rustc_hash::FxHashSet;
use services::ServiceKey;

use super::endpoints::{ENDPOINTS_AT_ONCE, NoEndpoint};
use super::target::{Target, differences};
use super::wanted::ORDINARY;
use super::write::{Replacement, Write};
use super::{OWNER, Pass, Proxy, Retryable};
use crate::plan::{Backends, SourceVip, WantedBalancer};
use crate::status::Action;

/// Whether a frontend is done with.
#[derive(PartialEq, Eq)]
pub(super) enum Step {
    Done,
    Later,
}

impl Step {
    /// Whether a frontend is done with when its load balancer is: not while an endpoint of it is still to come.
    pub(super) fn of(self, target: &Target) -> Self {
        if target.partial { Self::Later } else { self }
    }
}

/// What comes next for a frontend.
enum Next {
    /// Nothing more in this pass.
    Is(Step),
    /// Its load balancer is written.
    Write(Box<Write>),
    /// Its load balancer is made anew.
    Replace(Box<Replacement>),
}

impl Proxy {
    pub(super) fn converge_pending(&mut self, pass: &mut Pass) {
        let order = self.in_turn();
        let mut rest = &order[..];
        while let Some(&first) = rest.first() {
            if pass.down {
                return;
            }
            if pass.shares.is_some_and(|(balancers, _)| self.clock.now() >= balancers) {
                self.turn = Some(first);
                self.unfinished = true;
                return;
            }
            // What matters more is done before anything that matters less is begun.
            let alike = rest.iter().take_while(|(rank, _)| *rank == first.0).count();
            let (window, later) = rest.split_at(alike.min(self.window()));
            rest = later;
            if let Some(stopped) = self.converge_window(window, pass) {
                self.turn = Some(stopped);
                self.unfinished = true;
                return;
            }
        }
        self.turn = None;
    }

    /// Brings frontends that do not depend on each other to what is wanted: first the endpoints that they need, then their
    /// load balancers. Returns where it stopped because the time was over.
    fn converge_window(&mut self, window: &[(u8, Frontend)], pass: &mut Pass) -> Option<(u8, Frontend)> {
        let end = pass.shares.map(|(balancers, _)| balancers).filter(|_| self.is_parallel());
        let relisted = pass.relisted;
        let crowded =
            if self.is_parallel() { self.make_endpoints(window, end, pass) } else { FxHashSet::default() };
        let (mut writes, mut replacements, mut left) = (Vec::new(), Vec::new(), FxHashSet::default());
        for &(rank, frontend) in window {
            if end.is_some_and(|end| self.clock.now() >= end) {
                left.insert(frontend);
                continue;
            }
            if crowded.contains(&frontend) {
                self.unfinished = true;
                continue;
            }
            match self.prepare(frontend, pass) {
                Next::Is(Step::Done) => {
                    self.pending.remove(&(rank, frontend));
                }
                Next::Is(Step::Later) => {}
                Next::Write(write) => writes.push(((rank, frontend), write)),
                Next::Replace(replacement) => replacements.push(((rank, frontend), replacement)),
            }
            if pass.down {
                return None;
            }
        }
        let hcn = Arc::clone(&self.hcn);
        let answers = self.together(&writes, end, |(_, write)| write.call(&*hcn));
        pass.creating.clear();
        let mut done = Vec::new();
        for ((entry, write), answer) in writes.into_iter().zip(answers) {
            let Some(answer) = answer else {
                left.insert(entry.1);
                continue;
            };
            if self.written(*write, answer, pass) == Step::Done {
                done.push(entry);
            }
        }
        // Last, and one by one: while one is made anew its frontend is away, and no other should be.
        for (entry, replacement) in replacements {
            if pass.down {
                break;
            }
            if end.is_some_and(|end| self.clock.now() >= end) {
                left.insert(entry.1);
            } else if self.replace(*replacement, pass) == Step::Done {
                done.push(entry);
            }
        }
        // If HNS turned out to be another than what was decided by, it is decided again.
        let again = self.is_parallel() && pass.relisted != relisted;
        for entry in done {
            if !again || !pass.down && self.converge(entry.1, pass) == Step::Done {
                self.pending.remove(&entry);
            }
        }
        window.iter().find(|(_, frontend)| !pass.down && left.contains(frontend)).copied()
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

    pub(super) fn converge(&mut self, frontend: Frontend, pass: &mut Pass) -> Step {
        match self.prepare(frontend, pass) {
            Next::Is(step) => step,
            Next::Write(write) => self.write(*write, pass),
            Next::Replace(replacement) => self.replace(*replacement, pass),
        }
    }

    /// All that comes before the load balancer of a frontend is written, and whether it is.
    fn prepare(&mut self, frontend: Frontend, pass: &mut Pass) -> Next {
        let key = Retryable::Frontend(frontend);
        let Some((service, wanted)) = self.winner(frontend) else {
            // A create whose reply was lost may have left one.
            if let Err(error) = self.clear_doubts(frontend, pass) {
                pass.failed(format!("read load balancer {frontend}"), &error);
                return Next::Is(Step::Later);
            }
            self.doom_unwanted(frontend);
            self.trouble.remove(&frontend);
            self.backoff.succeeded(&key);
            return Next::Is(Step::Done);
        };
        self.touched.insert(service.clone());
        if !self.backoff.is_due(&key, pass.now) {
            return Next::Is(Step::Later);
        }
        if let Err(error) = self.clear_doubts(frontend, pass) {
            return Next::Is(self.balancer_failed(frontend, "read", &error, pass));
        }
        let importance = self.importance(frontend);
        if let Some(why) = self.waits_for_ports(&wanted, importance, &pass.creating) {
            self.wait(frontend, why);
            return Next::Is(Step::Later);
        }
        let Some(target) = self.resolve(frontend, service, wanted, pass) else {
            return Next::Is(Step::Later);
        };
        let Some(target) = target else { return Next::Is(Step::Done) };
        if self.observed.balancers_at(frontend).len() < 2
            && let Some(trouble) = self.trouble.get_mut(&frontend)
        {
            trouble.ambiguous = false;
        }
        match *self.observed.balancers_at(frontend) {
            [] => self.create(target, pass),
            [only] => self.compare(only, target, pass),
            ref several => {
                let several = several.to_vec();
                self.several(&several, target, pass)
            }
        }
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

    /// Load balancers at a frontend that nobody wants are deleted when they are ours, else left. So is what stands under the
    /// frontend's id without any frontend: a create that failed half-way left it.
    pub(super) fn doom_unwanted(&mut self, frontend: Frontend) {
        let id = self.balancer_id(&frontend);
        let malformed =
            self.observed.balancer(id).filter(|balancer| balancer.frontends.is_empty()).map(|_| id);
        let at = self.observed.balancers_at(frontend).iter().copied().filter(|&id| self.is_ours(id));
        self.doomed.extend(at.chain(malformed).collect::<Vec<_>>());
    }

    /// Made by this proxy, now or in an earlier run, or adopted by it.
    pub(super) fn is_ours(&self, id: Guid) -> bool {
        self.mine.contains(&id)
            || self.observed.balancer(id).is_some_and(|balancer| {
                balancer.owner.as_deref() == Some(OWNER)
                    || balancer.frontends.iter().any(|frontend| self.balancer_id(frontend) == id)
            })
    }

    fn several(&mut self, ids: &[Guid], target: Target, pass: &mut Pass) -> Next {
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
        Next::Is(self.balancer_failed(frontend, "choose", &error, pass))
    }

    fn compare(&mut self, id: Guid, target: Target, pass: &mut Pass) -> Next {
        let Some(observed) = self.observed.balancer(id) else { return self.create(target, pass) };
        let differences = differences(observed, &target);
        let frontend = target.wanted.frontend;
        let forced = self.reapply.contains(&frontend);
        if differences.is_empty() && !forced {
            self.mine.insert(id);
            self.doomed.remove(&id);
            self.backoff.succeeded(&Retryable::Frontend(frontend));
            return Next::Is(Step::Done.of(&target));
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
        if modifiable && !foreign {
            return Next::Write(Box::new(Write::modify(id, target, differences)));
        }
        let why = if forced {
            "HNS has restarted"
        } else if foreign {
            "a load balancer of somebody else holds the frontend"
        } else {
            "it differs from what is wanted"
        };
        Next::Replace(Box::new(Replacement { id, target, differences, why }))
    }

    fn create(&mut self, target: Target, pass: &mut Pass) -> Next {
        let frontend = target.wanted.frontend;
        if let Some(step) = self.clear_id(frontend, pass) {
            return Next::Is(step);
        }
        if !target.wanted.flags.contains(LoadBalancerFlags::DSR) {
            pass.creating.push(frontend);
        }
        Next::Write(Box::new(Write::create(self.balancer_id(&frontend), target)))
    }
}
