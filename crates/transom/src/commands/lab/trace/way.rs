//! From what each node's switch saw to one packet's way: which steps belong to the exchange, in which order, and where
//! packets pass machines that nobody looks into.
//!
//! Pure: it asks nobody for anything.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use lab::supervisor::NodeStatus;
use node::app::Exchange;
use node::sim::Client;
use vfp::model::Direction;

use super::super::live::LiveLab;
use super::super::recording::Ends;
use crate::world::journey::{Crossing, Journey, Passage, Role, Step, Unseen};

/// Both ends of a connection, in the order of their addresses.
type Pair = (SocketAddr, SocketAddr);

fn pair(frame: &[u8]) -> Option<Pair> {
    let ends = Ends::of(frame)?;
    let of = |(address, port)| SocketAddr::new(address, port);
    Some(ordered(of(ends.source), of(ends.destination)))
}

fn ordered(one: SocketAddr, other: SocketAddr) -> Pair {
    if one <= other { (one, other) } else { (other, one) }
}

/// Addresses of the outermost IP header.
fn outer(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let parsed = wire::parse(frame).ok()?;
    let ip = parsed.ip()?;
    Some((ip.src, ip.dst))
}

/// What is known of an exchange.
pub(super) struct Way<'a> {
    pub(super) lab: &'a LiveLab,
    pub(super) client: &'a Client,
    pub(super) exchange: &'a Exchange,
}

impl Way<'_> {
    /// The exchange's steps out of all that were seen, which is in order for each node. `cut`: whether a node's link is.
    pub(super) fn of(&self, mut seen: Vec<(Role, Step)>, mut cut: impl FnMut(&str) -> bool) -> Journey {
        // The sightings of one machine's processes at one clock: a packet is seen by the next node after the one before.
        seen.sort_by_key(|(_, step)| step.at());
        let seen = self.own(seen);
        let mut steps: Vec<(Role, Step)> = Vec::new();
        for (role, step) in seen {
            let Step::Port(passage) = &step else { continue };
            let frame = passage.before.clone();
            if passage.port == "external" && passage.direction == Direction::Out {
                let from = outer(&frame).and_then(|(source, _)| self.kernel(source));
                Self::unseen(&mut steps, role, from, &step, frame);
                steps.push((role, step));
                continue;
            }
            let leaves = leaves(passage).then(|| (passage.node.clone(), passage.at, step.frame().to_vec()));
            steps.push((role, step));
            let Some((node, at, frame)) = leaves else { continue };
            let lost = cut(&node).then(|| "the link is cut".to_owned());
            let to = outer(&frame).filter(|_| lost.is_none()).and_then(|(_, to)| self.kernel(to));
            let crossing = Step::Wire(Crossing { at, from: node, frame: frame.clone(), lost });
            steps.push((role, crossing));
            if let Some((role, step)) = steps.last().cloned() {
                Self::unseen(&mut steps, role, to, &step, frame);
            }
        }
        // A client on a node of the kernel whose packets came to no switch.
        let home = self.lab.home(self.client).and_then(|home| self.lab.node(home).ok());
        let asked = steps.iter().any(|(role, _)| *role == Role::Request);
        if let Some(home) = home.filter(|home| !home.windows && !asked) {
            let unseen = Unseen { at: std::time::Duration::ZERO, node: home.name.clone(), frame: Vec::new() };
            steps.insert(0, (Role::Request, Step::Unseen(unseen)));
        }
        Journey { steps }
    }

    /// The Linux node that has an address, itself or on one of its pods.
    fn kernel(&self, address: IpAddr) -> Option<&NodeStatus> {
        let status = &self.lab.status;
        let pod = status.pods.iter().find(|pod| pod.addresses.contains(&address));
        let of = |node: &&NodeStatus| {
            node.addresses.contains(&address) || pod.is_some_and(|pod| pod.node == node.name)
        };
        status.nodes.iter().find(of).filter(|node| !node.windows)
    }

    /// Says that a packet passes a node of the kernel, once for each time that it does.
    fn unseen(
        steps: &mut Vec<(Role, Step)>,
        role: Role,
        node: Option<&NodeStatus>,
        beside: &Step,
        frame: Vec<u8>,
    ) {
        let Some(node) = node else { return };
        let last = steps.iter().rev().find(|(of, _)| *of == role);
        if matches!(last, Some((_, Step::Unseen(unseen))) if unseen.node == node.name) {
            return;
        }
        let unseen = Unseen { at: beside.at(), node: node.name.clone(), frame };
        steps.push((role, Step::Unseen(unseen)));
    }

    /// The steps of packets whose ends are the exchange's, or became these, or were these before.
    fn own(&self, seen: Vec<(Role, Step)>) -> Vec<(Role, Step)> {
        let exchange = self.exchange;
        let mut known: BTreeSet<Pair> = BTreeSet::new();
        known.extend(exchange.from.map(|from| ordered(from, exchange.request.to)));
        known.extend(exchange.outcome.answer().map(|answer| ordered(answer.peer, answer.local)));
        // A node of the kernel between client and switch may have changed the other end.
        let own = |(one, other): Pair| exchange.from.is_some_and(|from| one == from || other == from);
        let pairs: Vec<[Option<Pair>; 2]> = seen
            .iter()
            .map(|(_, step)| match step {
                Step::Port(passage) => [pair(&passage.before), passage.after.as_deref().and_then(pair)],
                Step::Wire(_) | Step::Unseen(_) => [None, None],
            })
            .collect();
        let is_own = |known: &BTreeSet<Pair>, pairs: &[Option<Pair>; 2]| {
            pairs.iter().flatten().any(|&pair| own(pair) || known.contains(&pair))
        };
        loop {
            let before = known.len();
            for pairs in &pairs {
                if is_own(&known, pairs) {
                    known.extend(pairs.iter().flatten());
                }
            }
            if known.len() == before {
                break;
            }
        }
        let mut which = pairs.iter().map(|pairs| is_own(&known, pairs));
        seen.into_iter().filter(|_| which.next().unwrap_or(false)).collect()
    }
}

/// A passage at whose end the packet is on the wire.
fn leaves(passage: &Passage) -> bool {
    passage.port == "external"
        && passage.direction == Direction::In
        && passage.after.is_some()
        && passage.dropped.is_none()
        && !passage.pending
        && !passage.hairpin
}

#[cfg(test)]
mod tests;
