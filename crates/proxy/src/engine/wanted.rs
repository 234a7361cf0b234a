//! The wanted side: Services, their plans, who claims which frontend and which address is used by whom.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::loadbalancer::{Frontend, protocol};
use rustc_hash::FxHashSet;
use services::{ServiceKey, ServiceView};
use smallvec::SmallVec;

use super::{Proxy, Retryable};
use crate::plan::{Backends, NodeContext, Role, ServicePlan, WantedBalancer, plan_service};
use crate::status::{ConditionReason, FrontendState, FrontendStatus, ProxyCondition, ServiceStatus};

/// A Service as last seen, and its plan.
pub(super) struct Service {
    view: ServiceView,
    plan: ServicePlan,
    /// DNS, then the API server, then the rest.
    importance: u8,
}

/// One Service's claim on a frontend.
struct Claim {
    service: ServiceKey,
    importance: u8,
    balancer: Arc<WantedBalancer>,
}

/// The first rank of frontends whose Services are of no special importance.
pub(super) const ORDINARY: u8 = 2 * ROLES;

/// Ranks that each importance has, of which roles use some.
const ROLES: u8 = 8;

/// All claims on a frontend, the winner first.
#[derive(Default)]
pub(super) struct Claims(SmallVec<[Claim; 1]>);

impl Claims {
    pub(super) fn rank(&self) -> u8 {
        self.0.first().map_or(u8::MAX, |claim| claim.importance * ROLES + claim.balancer.role as u8)
    }

    fn winner(&self) -> Option<&Claim> {
        self.0.first()
    }

    fn sort(&mut self) {
        // A health check gives way to a real service port; else the first by name wins, so that every node and
        // every run decides alike.
        self.0.sort_by(|a, b| {
            (a.balancer.role == Role::HealthCheck, &a.service)
                .cmp(&(b.balancer.role == Role::HealthCheck, &b.service))
        });
    }
}

/// A set of frontends that is small nearly always.
pub(super) enum FrontendSet {
    Few(SmallVec<[Frontend; 2]>),
    Many(FxHashSet<Frontend>),
}

impl FrontendSet {
    fn new() -> Self {
        Self::Few(SmallVec::new())
    }

    fn insert(&mut self, frontend: Frontend) {
        match self {
            Self::Few(few) if few.contains(&frontend) => {}
            Self::Few(few) if few.len() < 16 => few.push(frontend),
            Self::Few(few) => {
                let mut many: FxHashSet<Frontend> = few.drain(..).collect();
                many.insert(frontend);
                *self = Self::Many(many);
            }
            Self::Many(many) => {
                many.insert(frontend);
            }
        }
    }

    fn remove(&mut self, frontend: &Frontend) {
        match self {
            Self::Few(few) => few.retain(|other| other != frontend),
            Self::Many(many) => {
                many.remove(frontend);
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = Frontend> + '_> {
        match self {
            Self::Few(few) => Box::new(few.iter().copied()),
            Self::Many(many) => Box::new(many.iter().copied()),
        }
    }
}

impl Proxy {
    /// Sets one Service, or removes it (`None`). Nothing is written before the next [`Proxy::sync`].
    pub fn set_service(&mut self, key: &ServiceKey, view: Option<ServiceView>) {
        self.touched.insert(key.clone());
        let Some(view) = view else {
            if let Some(old) = self.services.remove(key) {
                self.swap_plan(key, &old.plan, &ServicePlan::default(), old.importance);
            }
            return;
        };
        let plan =
            self.context.as_ref().map_or_else(ServicePlan::default, |context| plan_service(&view, context));
        let importance = importance(&view);
        let old =
            self.services.get_mut(key).map(|service| std::mem::take(&mut service.plan)).unwrap_or_default();
        self.swap_plan(key, &old, &plan, importance);
        self.services.insert(key.clone(), Service { view, plan, importance });
    }

    /// Replans every Service after the context has changed.
    pub(super) fn replan(&mut self, context: &NodeContext) {
        let keys: Vec<ServiceKey> = self.services.keys().cloned().collect();
        for key in keys {
            self.touched.insert(key.clone());
            let Some(service) = self.services.get_mut(&key) else { continue };
            let plan = plan_service(&service.view, context);
            let old = std::mem::replace(&mut service.plan, plan.clone());
            let importance = service.importance;
            self.swap_plan(&key, &old, &plan, importance);
        }
        self.all_pending();
    }

    fn swap_plan(&mut self, key: &ServiceKey, old: &ServicePlan, new: &ServicePlan, importance: u8) {
        for balancer in &old.balancers {
            if !new.balancers.iter().any(|other| other.frontend == balancer.frontend) {
                self.claim(key, balancer.frontend, None, importance);
            }
        }
        for balancer in &new.balancers {
            let same = old.balancers.iter().any(|other| other == balancer);
            if !same || !self.claims.contains_key(&balancer.frontend) {
                self.claim(key, balancer.frontend, Some(Arc::clone(balancer)), importance);
            }
        }
    }

    /// Sets or withdraws one claim and keeps the users of addresses right.
    fn claim(
        &mut self,
        key: &ServiceKey,
        frontend: Frontend,
        balancer: Option<Arc<WantedBalancer>>,
        importance: u8,
    ) {
        let claims = self.claims.entry(frontend).or_default();
        let before = claims.winner().map(|claim| Arc::clone(&claim.balancer));
        claims.0.retain(|claim| claim.service != *key);
        if let Some(balancer) = balancer {
            claims.0.push(Claim { service: key.clone(), importance, balancer });
            claims.sort();
        }
        let after = claims.winner().map(|claim| Arc::clone(&claim.balancer));
        if claims.0.is_empty() {
            self.claims.remove(&frontend);
        }
        if before == after {
            return;
        }
        // What is wanted has changed: earlier failures say nothing about it.
        self.backoff.succeeded(&Retryable::Frontend(frontend));
        self.trouble.remove(&frontend);
        self.pending.drop_frontend(frontend);
        if let Some(before) = &before {
            self.count_uses(before, false);
        }
        if let Some(after) = &after {
            self.count_uses(after, true);
        }
        if let Some(before) = &before {
            self.release_unused(before);
        }
        self.touch(frontend);
    }

    fn count_uses(&mut self, balancer: &WantedBalancer, add: bool) {
        let frontend = balancer.frontend;
        let count = |map: &mut rustc_hash::FxHashMap<IpAddr, FrontendSet>, address: IpAddr| {
            if add {
                map.entry(address).or_insert_with(FrontendSet::new).insert(frontend);
            } else if let Some(set) = map.get_mut(&address) {
                set.remove(&frontend);
                if set.is_empty() {
                    map.remove(&address);
                }
            }
        };
        if let Backends::Addresses(backends) = &balancer.backends {
            for backend in &**backends {
                count(&mut self.uses, backend.address);
            }
        }
        if let Some(vip) = balancer.vip_endpoint {
            count(&mut self.vip_uses, vip);
        }
    }

    /// Endpoints of addresses that nobody uses any more are looked at by the collector.
    fn release_unused(&mut self, balancer: &WantedBalancer) {
        let mut addresses: Vec<IpAddr> = balancer.vip_endpoint.into_iter().collect();
        if let Backends::Addresses(backends) = &balancer.backends {
            addresses.extend(backends.iter().map(|backend| backend.address));
        }
        for address in addresses {
            if !self.uses.contains_key(&address) && !self.vip_uses.contains_key(&address) {
                self.missing_locals.remove(&address);
                self.backoff.succeeded(&Retryable::Endpoint(address));
                self.garbage.extend(self.observed.endpoints_at(address).iter().copied());
            }
        }
    }

    /// How important the Service is that a frontend is for: 0 for DNS, 1 for the API server, 2 for the rest.
    pub(super) fn importance(&self, frontend: Frontend) -> u8 {
        self.claims.get(&frontend).and_then(Claims::winner).map_or(2, |claim| claim.importance)
    }

    /// What is wanted at a frontend.
    pub(super) fn winner(&self, frontend: Frontend) -> Option<(ServiceKey, Arc<WantedBalancer>)> {
        let claim = self.claims.get(&frontend)?.winner()?;
        Some((claim.service.clone(), Arc::clone(&claim.balancer)))
    }

    /// Every wanted load balancer, by frontend.
    pub fn wanted(&self) -> impl Iterator<Item = (&Frontend, &ServiceKey, &WantedBalancer)> {
        self.claims.iter().filter_map(|(frontend, claims)| {
            claims.winner().map(|claim| (frontend, &claim.service, &*claim.balancer))
        })
    }

    /// The Services that are known.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceView)> {
        self.services.iter().map(|(key, service)| (key, &service.view))
    }

    /// One of them.
    pub fn service(&self, key: &ServiceKey) -> Option<&ServiceView> {
        self.services.get(key).map(|service| &service.view)
    }

    /// What the proxy knows about a Service.
    pub fn status(&self, key: &ServiceKey) -> Option<ServiceStatus> {
        let service = self.services.get(key)?;
        let mut conditions = service.plan.conditions.clone();
        let mut frontends = Vec::new();
        for balancer in &service.plan.balancers {
            let frontend = balancer.frontend;
            let claims = self.claims.get(&frontend);
            let won = claims.and_then(Claims::winner);
            if let Some(won) = won.filter(|won| won.service != *key && won.balancer != *balancer) {
                let message = format!("{frontend} is served for Service {}", won.service);
                conditions.push(ProxyCondition::new(ConditionReason::FrontendConflict, message.clone()));
                let state = FrontendState::Waiting { reason: message };
                frontends.push(frontend_status(balancer, None, state, Vec::new()));
                continue;
            }
            let (id, state, left_out) = self.frontend_state(frontend, &mut conditions);
            frontends.push(frontend_status(balancer, id, state, left_out));
        }
        conditions.sort();
        conditions.dedup();
        Some(ServiceStatus { frontends, conditions })
    }

    fn frontend_state(
        &self,
        frontend: Frontend,
        conditions: &mut Vec<ProxyCondition>,
    ) -> (Option<hcn::Guid>, FrontendState, Vec<String>) {
        let id = self.observed.balancers_at(frontend).first().copied();
        let trouble = self.trouble.get(&frontend);
        let mut left_out = Vec::new();
        if let Some(trouble) = trouble {
            for (address, why) in &trouble.left_out {
                left_out.push(format!("{address}: {why}"));
                let reason = if self.missing_locals.contains(address) {
                    ConditionReason::LocalEndpointMissing
                } else {
                    ConditionReason::RemoteEndpointFailed
                };
                conditions.push(ProxyCondition::new(reason, format!("{address} does not serve: {why}")));
            }
            if let Some(foreign) = trouble.foreign {
                conditions.push(ProxyCondition::new(
                    ConditionReason::ForeignReplaced,
                    format!("{frontend} was held by load balancer {foreign}, which was not this proxy's; it was replaced"),
                ));
            }
            if trouble.ambiguous {
                conditions.push(ProxyCondition::new(
                    ConditionReason::AmbiguousFrontend,
                    format!("several load balancers hold {frontend}; delete all but one"),
                ));
            }
        }
        let state = if let Some(retry) = self.backoff.get(&Retryable::Frontend(frontend)) {
            conditions.push(ProxyCondition::new(
                ConditionReason::LoadBalancerFailed,
                format!("{frontend}: {}", retry.error),
            ));
            FrontendState::Failed { error: retry.error.clone(), attempts: retry.attempts, retry_at: retry.at }
        } else if let Some(reason) = trouble.and_then(|trouble| trouble.waiting.clone()) {
            FrontendState::Waiting { reason }
        } else if id.is_none() || (left_out.is_empty() && self.pending.has_frontend(frontend)) {
            FrontendState::Pending
        } else {
            FrontendState::Programmed
        };
        (id, state, left_out)
    }
}

fn frontend_status(
    balancer: &WantedBalancer,
    id: Option<hcn::Guid>,
    state: FrontendState,
    left_out: Vec<String>,
) -> FrontendStatus {
    FrontendStatus {
        frontend: balancer.frontend.to_string(),
        role: balancer.role,
        id: id.map(|id| id.to_string()),
        state,
        left_out,
    }
}

/// 0 for DNS, 1 for the API server, 2 for the rest: nothing works without the first two.
fn importance(view: &ServiceView) -> u8 {
    let key = &view.key;
    if &*key.namespace == "kube-system" && (&*key.name == "kube-dns" || &*key.name == "coredns")
        || view.ports.iter().any(|port| port.port == 53 && u32::from(port.protocol.number()) == protocol::UDP)
    {
        0
    } else if &*key.namespace == "default" && &*key.name == "kubernetes" {
        1
    } else {
        2
    }
}

/// Finding a frontend in the pending set whatever rank it stands under.
trait PendingSet {
    fn drop_frontend(&mut self, frontend: Frontend);
    fn has_frontend(&self, frontend: Frontend) -> bool;
}

/// Every rank there is; they are few, so trying each is cheaper than walking the set.
fn ranks() -> impl Iterator<Item = u8> {
    (0..3_u8).flat_map(|importance| (0..5_u8).map(move |role| importance * ROLES + role)).chain([u8::MAX])
}

impl PendingSet for std::collections::BTreeSet<(u8, Frontend)> {
    fn drop_frontend(&mut self, frontend: Frontend) {
        for rank in ranks() {
            self.remove(&(rank, frontend));
        }
    }

    fn has_frontend(&self, frontend: Frontend) -> bool {
        ranks().any(|rank| self.contains(&(rank, frontend)))
    }
}
