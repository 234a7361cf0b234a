//! Which endpoints of one service port serve, per scope. Pure functions.
//!
//! The rules, for every type of Service alike (KEP-1669, KEP-2086, KEP-2433, KEP-3015):
//!
//! 1. Endpoints that advertise different port numbers form groups; the group with most usable endpoints is served, the
//!    lowest number on a tie, because a load balancer has one internal port.
//! 2. Scope *cluster*: ready endpoints, filtered by hints; if none is ready, those that terminate but still serve.
//! 3. Scope *local*: the same over the endpoints of this node, without hints. An empty scope says nothing about the
//!    other one.
//! 4. Hints count only when *every* ready endpoint has them and at least one names this node (first choice) or this
//!    zone (second choice).
//! 5. An endpoint that is neither ready nor serving is never used.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use crate::limit;
use crate::model::{Endpoint, LeftOut, LeftOutReason};
use crate::record::EndpointRecord;

/// An endpoint as one slice offers it for the service port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) record: &'a EndpointRecord,
    pub(crate) port: u16,
    pub(crate) local: bool,
}

impl Candidate<'_> {
    fn endpoint(&self) -> Endpoint {
        let record = self.record;
        Endpoint {
            address: record.address,
            port: self.port,
            local: self.local,
            node: record.node.clone(),
            zone: record.zone.clone(),
            ready: record.ready,
            serving: record.serving,
            terminating: record.terminating,
            pod: record.pod.clone(),
        }
    }

    /// Terminating but still able to serve: the second choice.
    fn draining(&self) -> bool {
        !self.record.ready && self.record.serving && self.record.terminating
    }
}

/// Whose selection it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'a> {
    pub(crate) node: &'a str,
    pub(crate) zone: Option<&'a str>,
    pub(crate) limit: Option<usize>,
}

/// The outcome for one service port.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// 0 when there is no candidate.
    pub(crate) target_port: u16,
    pub(crate) cluster: Vec<Endpoint>,
    pub(crate) local: Vec<Endpoint>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Ready endpoints on this node before the limit.
    pub(crate) local_ready: Vec<IpAddr>,
    /// Every port number among the candidates, ascending.
    pub(crate) port_numbers: Vec<u16>,
    /// How many endpoints the cluster scope and the local scope would have had without the limit.
    pub(crate) unlimited: (usize, usize),
}

/// Selects the endpoints of one service port. The result does not depend on the order of `candidates`.
pub(crate) fn select(candidates: Vec<Candidate<'_>>, viewer: Viewer<'_>) -> Selection {
    let candidates = distinct(candidates);
    let mut selection = Selection { port_numbers: port_numbers(&candidates), ..Selection::default() };
    let Some(target_port) = served_port(&candidates, &selection.port_numbers) else { return selection };
    selection.target_port = target_port;

    let (group, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|c| c.port == target_port);
    let mut left: Vec<(Candidate<'_>, LeftOutReason)> =
        others.into_iter().map(|c| (c, LeftOutReason::OtherTargetPort)).collect();

    let any_ready = group.iter().any(|c| c.record.ready);
    let hints = HintMode::of(&group, viewer);
    let cluster: Vec<Candidate<'_>> = if any_ready {
        group.iter().filter(|c| c.record.ready && hints.allow(c.record, viewer)).copied().collect()
    } else {
        group.iter().filter(|c| c.draining()).copied().collect()
    };
    let local_ready: Vec<Candidate<'_>> =
        group.iter().filter(|c| c.local && c.record.ready).copied().collect();
    selection.local_ready = local_ready.iter().map(|c| c.record.address).collect();
    let local = if local_ready.is_empty() {
        group.iter().filter(|c| c.local && c.draining()).copied().collect()
    } else {
        local_ready
    };

    selection.unlimited = (cluster.len(), local.len());
    let (cluster, cluster_rest) = limited(cluster, viewer);
    let (local, local_rest) = limited(local, viewer);
    let used = |c: &Candidate<'_>| contains(&cluster, c) || contains(&local, c);
    let beyond = |c: &Candidate<'_>| contains(&cluster_rest, c) || contains(&local_rest, c);
    for candidate in group.iter().filter(|c| !used(c)) {
        let reason =
            if beyond(candidate) { LeftOutReason::BeyondLimit } else { unused_reason(candidate.record) };
        left.push((*candidate, reason));
    }
    left.sort_unstable_by_key(|(c, _)| (c.record.address, c.port));

    selection.cluster = cluster.iter().map(Candidate::endpoint).collect();
    selection.local = local.iter().map(Candidate::endpoint).collect();
    selection.left_out =
        left.iter().map(|(c, reason)| LeftOut { endpoint: c.endpoint(), reason: *reason }).collect();
    selection
}

/// One candidate per address and port, sorted by address and port. Of several, the one that may serve best wins; what
/// remains equal is decided by content, never by order.
fn distinct(mut candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    candidates.sort_unstable_by(|a, b| {
        let place = |c: &Candidate<'_>| (c.record.address, c.port);
        place(a).cmp(&place(b)).then_with(|| better(a.record, b.record))
    });
    candidates
        .dedup_by(|later, first| later.record.address == first.record.address && later.port == first.port);
    candidates
}

/// `Less` when `a` should win over `b`: not terminating, ready, serving, with a node; then the rest of the content.
fn better(a: &EndpointRecord, b: &EndpointRecord) -> Ordering {
    let rank = |r: &EndpointRecord| (r.terminating, !r.ready, !r.serving, r.node.is_none());
    rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
}

fn port_numbers(candidates: &[Candidate<'_>]) -> Vec<u16> {
    let mut numbers: Vec<u16> = Vec::new();
    for candidate in candidates {
        if let Err(at) = numbers.binary_search(&candidate.port) {
            numbers.insert(at, candidate.port);
        }
    }
    numbers
}

/// The port number of the group with most usable endpoints; the lowest on a tie.
fn served_port(candidates: &[Candidate<'_>], numbers: &[u16]) -> Option<u16> {
    if numbers.len() <= 1 {
        return numbers.first().copied();
    }
    let any_ready = candidates.iter().any(|c| c.record.ready);
    let usable = |c: &&Candidate<'_>| if any_ready { c.record.ready } else { c.draining() };
    let mut counts = vec![0usize; numbers.len()];
    for candidate in candidates.iter().filter(usable) {
        if let Ok(at) = numbers.binary_search(&candidate.port) {
            counts[at] += 1;
        }
    }
    let most = counts.iter().copied().max()?;
    let at = counts.iter().position(|count| *count == most)?;
    numbers.get(at).copied()
}

/// Which hints filter the cluster scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintMode {
    None,
    Node,
    Zone,
}

impl HintMode {
    fn of(group: &[Candidate<'_>], viewer: Viewer<'_>) -> Self {
        let ready = || group.iter().filter(|c| c.record.ready).map(|c| c.record.hints.as_deref());
        let names = |list: &[Arc<str>], name: &str| list.iter().any(|n| **n == *name);
        let all_nodes = ready().all(|h| h.is_some_and(|h| !h.nodes.is_empty()));
        if all_nodes && ready().flatten().any(|h| names(&h.nodes, viewer.node)) {
            return Self::Node;
        }
        let Some(zone) = viewer.zone else { return Self::None };
        let all_zones = ready().all(|h| h.is_some_and(|h| !h.zones.is_empty()));
        if all_zones && ready().flatten().any(|h| names(&h.zones, zone)) { Self::Zone } else { Self::None }
    }

    fn allow(self, record: &EndpointRecord, viewer: Viewer<'_>) -> bool {
        let Some(hints) = record.hints.as_deref() else { return self == Self::None };
        match self {
            Self::None => true,
            Self::Node => hints.nodes.iter().any(|n| **n == *viewer.node),
            Self::Zone => hints.zones.iter().any(|z| Some(&**z) == viewer.zone),
        }
    }
}

/// Applies the limit; both parts come back sorted by address.
fn limited<'a>(chosen: Vec<Candidate<'a>>, viewer: Viewer<'_>) -> (Vec<Candidate<'a>>, Vec<Candidate<'a>>) {
    let Some(limit) = viewer.limit.filter(|limit| chosen.len() > *limit) else { return (chosen, Vec::new()) };
    let (mut kept, mut rest) =
        limit::keep(chosen, limit, limit::salt(viewer.node), |c| (c.record.address, c.local));
    kept.sort_unstable_by_key(|c| c.record.address);
    rest.sort_unstable_by_key(|c| c.record.address);
    (kept, rest)
}

/// Within the served group an address appears once, and the lists are sorted by it.
fn contains(list: &[Candidate<'_>], candidate: &Candidate<'_>) -> bool {
    list.binary_search_by_key(&candidate.record.address, |c| c.record.address).is_ok()
}

/// Why an endpoint of the served group is in neither scope although the limit would have let it in.
fn unused_reason(record: &EndpointRecord) -> LeftOutReason {
    match (record.ready, record.terminating, record.serving) {
        (true, ..) => LeftOutReason::Hints,
        (false, true, true) => LeftOutReason::Terminating,
        (false, true, false) => LeftOutReason::NotServing,
        (false, false, _) => LeftOutReason::NotReady,
    }
}
