//! What a trace reports: the document of `-o json`, whose names are stable, and what the text is made of.

use std::borrow::Cow;
use std::net::SocketAddr;

use node::app::Outcome;
use serde::Serialize;
use vfp::trace::{LayerEvent, RuleRef, Why};

use super::diagnose::Reason;
use super::headers::{Headers, Rewrite, differences, view_differences};
use crate::world::journey::{Crossing, Journey, Passage, Role, Step, Unseen};

/// A whole exchange.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Report {
    /// Who asks: `pod/NAMESPACE/NAME`, `node/NAME` or `outside`.
    pub(super) from: String,
    /// What was asked for, as on the command line.
    pub(super) to: String,
    /// `TCP` or `UDP`.
    pub(super) protocol: &'static str,
    /// `overlay` or `l2bridge`.
    pub(super) network: String,
    /// Whether load balancers use direct server return.
    pub(super) dsr: bool,
    /// The client's end, if it got as far as having one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<SocketAddr>,
    /// What the client connects to.
    pub(super) target: SocketAddr,
    /// The first packet's way; with --all, every packet of the client and those that have no role of their own.
    pub(super) request: Vec<Hop>,
    /// The answer's way.
    pub(super) reply: Vec<Hop>,
    /// The way of a reset or an ICMP error.
    pub(super) refusal: Vec<Hop>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backend: Option<Backend>,
    /// How it ended.
    pub(in crate::commands) verdict: Verdict,
}

/// Who answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Backend {
    /// `namespace/name` of a pod, else the machine's name.
    pub(super) name: String,
    /// Its own end.
    pub(super) address: SocketAddr,
    /// Whom it takes for the client.
    pub(super) sees: SocketAddr,
    /// That is the client's own end.
    pub(super) sees_client: bool,
}

/// How it ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Verdict {
    /// The whole answer came.
    pub(in crate::commands) answered: bool,
    /// `answered`, `refused`, `reset`, `garbled`, `unreachable` or `timed-out`.
    pub(super) outcome: &'static str,
    /// Time from the first packet to the end.
    pub(super) microseconds: u64,
    /// Why there was no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Reason>,
}

/// The stable word for an outcome.
pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Refused => "refused",
        Outcome::Reset => "reset",
        Outcome::Garbled(_) => "garbled",
        Outcome::Unreachable(_) => "unreachable",
        Outcome::TimedOut => "timed-out",
    }
}

/// One step of a packet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hop {
    /// `port`, `wire` or `kernel`.
    pub(super) kind: &'static str,
    /// Virtual time since the emulated cluster began; in a lab, real time since the exchange began.
    pub(super) microseconds: u64,
    /// The machine.
    pub(super) node: String,
    /// The port of its switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<String>,
    /// `OUT`: from the adapter at the port into the switch; `IN`: out of the switch to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) direction: Option<String>,
    /// The packet as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packet: Option<Headers>,
    /// The packet behind the layers, for the text.
    #[serde(skip)]
    pub(super) after: Option<Headers>,
    /// What each layer did, in the order in which they were passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) layers: Vec<LayerHop>,
    /// What the port did with the headers, all layers together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rewrites: Vec<Rewrite>,
    /// Where it goes.
    pub(super) next: Next,
}

/// What a layer did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayerHop {
    pub(super) layer: String,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<RuleName>,
    /// The decision was kept with the connection; no rule was asked.
    pub(super) kept: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rewrites: Vec<Rewrite>,
    /// Why the packet was dropped here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dropped: Option<String>,
}

/// A rule by its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleName {
    /// The layer's name.
    pub layer: String,
    /// The group's.
    pub group: String,
    /// The rule's.
    pub rule: String,
    /// What it does, in a word.
    pub action: Cow<'static, str>,
}

impl RuleName {
    pub(super) fn of(rule: &RuleRef) -> Self {
        Self {
            layer: rule.layer.to_string(),
            group: rule.group.to_string(),
            rule: rule.rule.to_string(),
            action: rule.action.clone(),
        }
    }
}

/// Where a packet goes from a hop.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(super) enum Next {
    /// To another port of the switch.
    Port { port: String, why: &'static str },
    /// To several ports.
    Several,
    /// To whatever is attached to the port.
    Delivered,
    /// Back out of the same port, by a rule.
    Back,
    /// Nowhere.
    Dropped {
        reason: String,
        explanation: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<RuleName>,
    },
    /// Over the wire.
    Sent,
    /// Into a machine that is not looked into.
    Unseen,
    /// Nowhere, by a fault of the wire.
    Lost { reason: String },
}

/// The hops of the packets of a role; `all`: of every such packet, and those without a role along with requests.
pub(super) fn hops(journey: &Journey, role: Role, all: bool) -> Vec<Hop> {
    let steps: Vec<&Step> = if all {
        journey
            .steps
            .iter()
            .filter(|(of, _)| *of == role || *of == Role::Other && role == Role::Request)
            .map(|(_, step)| step)
            .collect()
    } else {
        journey.first(role)
    };
    steps
        .into_iter()
        .map(|step| match step {
            Step::Port(passage) => at_port(passage),
            Step::Wire(crossing) => on_wire(crossing),
            Step::Unseen(unseen) => self::unseen(unseen),
        })
        .collect()
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn on_wire(crossing: &Crossing) -> Hop {
    let next = match &crossing.lost {
        Some(reason) => Next::Lost { reason: reason.clone() },
        None => Next::Sent,
    };
    untouched("wire", (crossing.at, &crossing.from), &crossing.frame, next)
}

fn unseen(unseen: &Unseen) -> Hop {
    untouched("kernel", (unseen.at, &unseen.node), &unseen.frame, Next::Unseen)
}

/// A hop at which no layer does anything.
fn untouched(kind: &'static str, (at, node): (std::time::Duration, &str), frame: &[u8], next: Next) -> Hop {
    let packet = Headers::of_frame(frame);
    Hop {
        kind,
        microseconds: micros(at),
        node: node.to_owned(),
        port: None,
        direction: None,
        after: packet.clone(),
        packet,
        layers: Vec::new(),
        rewrites: Vec::new(),
        next,
    }
}

fn at_port(passage: &Passage) -> Hop {
    let packet = Headers::of_frame(&passage.before);
    let after = passage.after.as_deref().and_then(Headers::of_frame);
    let rewrites = match (&packet, &after) {
        (Some(before), Some(after)) => differences(before, after),
        _ => Vec::new(),
    };
    Hop {
        kind: "port",
        microseconds: micros(passage.at),
        node: passage.node.clone(),
        port: Some(passage.port.clone()),
        direction: Some(passage.direction.to_string()),
        after: after.or_else(|| packet.clone()),
        packet,
        layers: passage.layers.iter().map(layer).collect(),
        rewrites,
        next: next(passage),
    }
}

fn next(passage: &Passage) -> Next {
    if let Some((reason, rule)) = &passage.dropped {
        return Next::Dropped {
            reason: reason.to_string(),
            explanation: reason.explain(),
            rule: rule.as_ref().map(RuleName::of),
        };
    }
    if passage.hairpin {
        return Next::Back;
    }
    match &passage.forward {
        Some((Some(to), why)) => Next::Port {
            port: to.clone(),
            why: match why {
                Why::Mac => "it has the destination MAC",
                Why::NatOwner => "it owns the NAT port",
                Why::Unknown => "no other port has the destination MAC",
                Why::Flood => "broadcast",
                Why::Hairpin => "a rule says so",
            },
        },
        Some((None, _)) => Next::Several,
        None => Next::Delivered,
    }
}

fn layer(event: &LayerEvent) -> LayerHop {
    LayerHop {
        layer: event.layer.to_string(),
        rule: event.rule.as_ref().map(RuleName::of),
        kept: event.from_flow,
        rewrites: view_differences(&event.before, &event.after),
        dropped: event.dropped.map(|reason| reason.to_string()),
    }
}
