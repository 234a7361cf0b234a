//! Why an exchange had no answer: the rule that dropped a packet, the object that is missing, the link that is cut.
//!
//! Each kind has a stable word, so that scripts need not read sentences.

use std::net::{IpAddr, SocketAddr};

use hcn::loadbalancer::Frontend;
use node::app::{Outcome, Transport, Unreachable};
use node::sim::Client;
use serde::Serialize;
use services::{Cluster, ServiceKey, ServicePort, TrafficPolicy};
use vfp::DropReason;

use super::headers::Headers;
use super::report::RuleName;
use super::surroundings::Surroundings;
use crate::world::record::{Journey, Passage, Role, Step};

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A stable word.
    pub kind: Kind,
    /// A clause for people.
    pub text: String,
    /// The node that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The switch port where it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleName>,
    /// The Service that the address belongs to, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl Reason {
    fn new(kind: Kind, text: String) -> Self {
        Self { kind, text, node: None, port: None, rule: None, service: None }
    }

    fn on(self, node: impl Into<String>) -> Self {
        Self { node: Some(node.into()), ..self }
    }

    fn of(self, service: &ServiceKey) -> Self {
        Self { service: Some(service.to_string()), ..self }
    }
}

/// The kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The switch dropped a packet.
    Dropped,
    /// The Service has no usable backend.
    NoBackend,
    /// A policy asks for backends on the node, and there are none.
    NoLocalBackend,
    /// HNS of the node holds no load balancer for the address.
    NoLoadBalancer,
    /// HNS holds a load balancer, and the switch did not act by it.
    NotProgrammed,
    /// The address is a Service's, the port is not.
    UnknownPort,
    /// A node's own node port, from the node itself.
    OwnNodePort,
    /// The client's own address, where nobody listens.
    OwnAddress,
    /// HNS of the node holds no endpoint with the address.
    NoEndpoint,
    /// A pod reached itself through a Service without the loopback policy.
    SelfAccess,
    /// A link lost a packet.
    Link,
    /// The server's machine refused.
    Refused,
    /// Somebody on the way says that there is no way.
    Unreachable,
    /// The answer is not what was asked for.
    Garbled,
    /// A packet went nowhere.
    NoAnswer,
}

/// An exchange that had no answer.
pub struct Failed<'a> {
    /// Who asked.
    pub client: &'a Client,
    /// What was asked.
    pub target: SocketAddr,
    /// How.
    pub transport: Transport,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// What was seen of its packets.
    pub journey: &'a Journey,
}

/// The Service that an address belongs to.
struct Found {
    service: ServiceKey,
    port: ServicePort,
    policy: TrafficPolicy,
    /// How the policy is called in the Service.
    field: &'static str,
    frontend: Frontend,
}

impl Failed<'_> {
    /// Why there was no answer: the first of the known causes that fits.
    pub fn reason(&self, world: &mut impl Surroundings) -> Reason {
        self.self_access()
            .or_else(|| self.hard_drop())
            .or_else(|| self.service(world))
            .or_else(|| self.own_address())
            .or_else(|| self.unknown_port(world.cluster()))
            .or_else(|| self.lost())
            .or_else(|| self.cut(world))
            .or_else(|| self.no_endpoint(world))
            .or_else(|| self.drop(|_, reason| reason != DropReason::Answered))
            .unwrap_or_else(|| self.end())
    }

    /// A drop that a rule, a guard or a limit is to blame for, whatever else is missing.
    /// Packets that come after others failed, such as the reset of a client that gives up, prove nothing.
    fn hard_drop(&self) -> Option<Reason> {
        self.drop(|role, reason| {
            matches!(role, Role::Request | Role::Reply)
                && !matches!(
                    reason,
                    DropReason::Forwarding | DropReason::PaRoute | DropReason::Arp | DropReason::Answered
                )
        })
    }

    fn drop(&self, counts: impl Fn(Role, DropReason) -> bool) -> Option<Reason> {
        let mut steps = self.journey.steps.iter();
        let (passage, reason, rule) = steps.find_map(|(role, step)| match step {
            Step::Port(passage) => {
                let (reason, rule) = passage.dropped.as_ref()?;
                counts(*role, *reason).then_some((passage, *reason, rule))
            }
            Step::Wire(_) | Step::Unseen(_) => None,
        })?;
        let by = rule.as_ref().map(|rule| format!(" by rule {} of {}/{}", rule.rule, rule.layer, rule.group));
        let text = format!(
            "dropped{} on {} {} {}: {reason}: {}",
            by.unwrap_or_default(),
            passage.node,
            passage.port,
            passage.direction,
            reason.explain()
        );
        Some(Reason {
            port: Some(passage.port.clone()),
            rule: rule.as_ref().map(RuleName::of),
            ..Reason::new(Kind::Dropped, text).on(&passage.node)
        })
    }

    fn passages(&self) -> impl Iterator<Item = &Passage> {
        self.journey.steps.iter().filter_map(|(_, step)| match step {
            Step::Port(passage) => Some(&**passage),
            Step::Wire(_) | Step::Unseen(_) => None,
        })
    }

    /// The node that had to act on the request: the first whose switch it came to, else the client's.
    fn node(&self, world: &impl Surroundings) -> Option<String> {
        let first = self.passages().next().map(|passage| passage.node.clone());
        match self.client {
            Client::Node(name) => Some(name.clone()),
            Client::Pod(pod) => world.node_of(pod),
            Client::Outside => first.or_else(|| owner(world, self.target.ip())),
        }
    }

    /// What is missing for a Service's address that no load balancer translated.
    fn service(&self, world: &mut impl Surroundings) -> Option<Reason> {
        if self.journey.decided_by("lbnat") || self.journey.decided_by("nat") {
            return None;
        }
        let node = self.node(world)?;
        let local = world.seen_by(&node).and_then(|cluster| self.find(cluster));
        let is_windows = world.is_windows(&node);
        let found = local.or_else(|| self.find(world.cluster()))?;
        let service = &found.service;
        let what = format!("{} of Service {service}", self.target);
        let reason = |kind, text| Reason::new(kind, text).on(node.clone()).of(service);
        if found.frontend.vip.is_none() && owner(world, self.target.ip()).is_none() {
            return None;
        }
        if matches!(self.client, Client::Node(_)) && self.journey.steps.is_empty() {
            if found.frontend.vip.is_some() {
                // No switch saw it: the address has become the machine's own.
                return None;
            }
            let text = format!(
                "a Windows node cannot use its own node ports: packets from {node} to its own address never come to \
                the virtual switch, where port {} of Service {service} is served",
                self.target.port()
            );
            return Some(reason(Kind::OwnNodePort, text));
        }
        let usable = found.port.cluster.len();
        if usable == 0 {
            let left: Vec<String> = found
                .port
                .left_out
                .iter()
                .map(|left| format!("{}: {}", left.endpoint.address, left.reason.explain()))
                .collect();
            let left = if left.is_empty() { String::new() } else { format!(" ({})", left.join("; ")) };
            return Some(reason(Kind::NoBackend, format!("{what} has no usable backend{left}")));
        }
        let here = |endpoint: &services::Endpoint| endpoint.node.as_deref() == Some(&*node);
        let no_local = match (found.policy, is_windows) {
            (TrafficPolicy::Cluster, _) => false,
            (TrafficPolicy::Local, true) => found.port.local.is_empty(),
            // Linux lets its own pods and itself use any backend.
            (TrafficPolicy::Local, false) => {
                *self.client == Client::Outside && !found.port.cluster.iter().any(here)
            }
        };
        if no_local {
            let elsewhere = match usable {
                1 => "its only usable backend is".to_owned(),
                several => format!("all {several} usable backends are"),
            };
            let text = format!("{} of Service {service} is Local and {elsewhere} not on {node}", found.field);
            return Some(reason(Kind::NoLocalBackend, text));
        }
        if !is_windows {
            return None;
        }
        let held = world.balancer(&node, &found.frontend);
        let why = world.unprogrammed(&node, service, &found.frontend);
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        Some(match held {
            Some(id) => reason(
                Kind::NotProgrammed,
                format!(
                    "HNS of {node} lists load balancer {id} for {what}, but the switch did not act by it{why}"
                ),
            ),
            None => {
                reason(Kind::NoLoadBalancer, format!("HNS of {node} holds no load balancer for {what}{why}"))
            }
        })
    }

    /// The service port that the target is, in a cluster as a node sees it.
    fn find(&self, cluster: &Cluster) -> Option<Found> {
        let (ip, number) = (self.target.ip(), self.target.port());
        for service in cluster.services() {
            let Some(view) = cluster.view(service) else { continue };
            for port in view.ports {
                if port.protocol.number() != self.transport.number()
                    || port.cluster_ip.is_ipv4() != ip.is_ipv4()
                {
                    continue;
                }
                let external = port.external_ips.contains(&ip) || port.ingress_ips.contains(&ip);
                let (policy, field, vip) = if port.cluster_ip == ip && port.port == number {
                    (port.internal_policy, "internalTrafficPolicy", Some(ip))
                } else if external && port.port == number {
                    (port.external_policy, "externalTrafficPolicy", Some(ip))
                } else if port.node_port == Some(number) {
                    (port.external_policy, "externalTrafficPolicy", None)
                } else {
                    continue;
                };
                let frontend = Frontend {
                    ipv6: ip.is_ipv6(),
                    vip,
                    protocol: self.transport.number().into(),
                    port: number,
                };
                return Some(Found { service: service.clone(), port, policy, field, frontend });
            }
        }
        None
    }

    fn own_address(&self) -> Option<Reason> {
        let Client::Node(node) = self.client else { return None };
        (self.journey.steps.is_empty() && *self.outcome == Outcome::Refused).then(|| {
            let text =
                format!("{} is {node}'s own address, and nobody there listens on the port", self.target);
            Reason::new(Kind::OwnAddress, text).on(node)
        })
    }

    fn unknown_port(&self, cluster: &Cluster) -> Option<Reason> {
        let ip = self.target.ip();
        for service in cluster.services() {
            let Some(view) = cluster.view(service) else { continue };
            let mut owns = false;
            let mut ports = Vec::new();
            for port in &view.ports {
                owns |= port.cluster_ip == ip
                    || port.external_ips.contains(&ip)
                    || port.ingress_ips.contains(&ip);
                ports.push(format!("{}/{}", port.port, port.protocol));
            }
            ports.sort_unstable();
            ports.dedup();
            let wanted = format!("{}/{}", self.target.port(), self.transport);
            if owns && !ports.contains(&wanted) {
                let text = format!(
                    "Service {service}, whose address {ip} is, has no port {wanted}; it has {}",
                    ports.join(", ")
                );
                return Some(Reason::new(Kind::UnknownPort, text).of(service));
            }
        }
        None
    }

    fn lost(&self) -> Option<Reason> {
        self.journey.steps.iter().find_map(|(_, step)| match step {
            Step::Wire(crossing) => {
                let text = format!("lost on the wire behind {}: {}", crossing.from, crossing.lost.as_ref()?);
                Some(Reason::new(Kind::Link, text).on(&crossing.from))
            }
            Step::Port(_) | Step::Unseen(_) => None,
        })
    }

    /// A cut link where nothing was sent because neighbours could not be resolved.
    fn cut(&self, world: &mut impl Surroundings) -> Option<Reason> {
        let unresolved = self.passages().find(|passage| {
            passage.dropped.as_ref().is_some_and(|(reason, _)| *reason == DropReason::PaRoute)
        });
        let target = self.last_request().map_or(self.target.ip(), |headers| headers.destination.address);
        let asker = unresolved.map(|passage| passage.node.clone()).or_else(|| self.node(world));
        let nodes = [asker, owner(world, target), home(world, target)];
        nodes.into_iter().flatten().find_map(|node| {
            let why = match self.journey.steps.iter().rev().find(|(role, _)| *role == Role::Request) {
                Some((_, Step::Wire(_))) => "so that nothing comes through it",
                _ => "so that no neighbour behind it can be resolved",
            };
            let text = format!("the link of {node} is cut, {why}");
            world.is_cut(&node).then(|| Reason::new(Kind::Link, text).on(node))
        })
    }

    /// The last headers of the request, as far as it came.
    fn last_request(&self) -> Option<Headers> {
        let steps = self.journey.steps.iter().rev();
        let mut requests = steps.filter(|(role, _)| *role == Role::Request);
        requests.find_map(|(_, step)| Headers::of_frame(step.frame()))
    }

    fn self_access(&self) -> Option<Reason> {
        let Client::Pod(pod) = self.client else { return None };
        let headers = self.last_request()?;
        let own = headers.source.address;
        (own == headers.destination.address && self.target.ip() != own).then(|| {
            let text = format!(
                "the load balancer chose pod {pod} itself, which sees its own address {own} as the client and never \
                answers over the network; pods reach themselves through a Service only with the loopback policy, \
                an OutBoundNAT policy whose destinations hold the pod's own address"
            );
            let node = self.passages().next().map(|passage| passage.node.clone());
            Reason { node, ..Reason::new(Kind::SelfAccess, text) }
        })
    }

    fn no_endpoint(&self, world: &mut impl Surroundings) -> Option<Reason> {
        let address = self.last_request().map_or(self.target.ip(), |headers| headers.destination.address);
        let cluster = world.cluster();
        let mut pods =
            cluster.nodes().flat_map(|node| cluster.pods_on(&node.name).map(move |pod| (node, pod)));
        let (node, pod) = pods.find(|(_, pod)| pod.ips.contains(&address))?;
        let held = world.endpoints(&node.name)?.contains(&address);
        (!held).then(|| {
            let text = format!(
                "HNS of {} holds no endpoint with {address}, the address of pod {}/{}",
                node.name, pod.namespace, pod.name
            );
            Reason::new(Kind::NoEndpoint, text).on(&*node.name)
        })
    }

    /// Nothing is known to be wrong but how it ended.
    fn end(&self) -> Reason {
        let refusal = self.journey.first(Role::Refusal);
        match (self.outcome, refusal.first()) {
            (Outcome::Refused | Outcome::Reset, Some(step)) => {
                let by = self
                    .last_request()
                    .map_or(self.target.to_string(), |headers| headers.destination.to_string());
                let text = format!("{} refuses: nothing listens on {by}", who(step));
                Reason::new(Kind::Refused, text).on(machine(step))
            }
            (Outcome::Refused | Outcome::Reset, None) => Reason::new(
                Kind::Refused,
                format!("refused, and no packet of a refusal was seen; {}", self.last()),
            ),
            (Outcome::Unreachable(why), step) => {
                let text = match why {
                    Unreachable::Host(by) => match step {
                        Some(step) => format!("{} ({by}) says that it knows no way to the host", who(step)),
                        None => format!("{by} says that it knows no way to the host"),
                    },
                    other => other.to_string(),
                };
                let reason = Reason::new(Kind::Unreachable, text);
                match step {
                    Some(step) => reason.on(machine(step)),
                    None => reason,
                }
            }
            (Outcome::Garbled(why), _) => Reason::new(Kind::Garbled, why.clone()),
            _ => Reason::new(Kind::NoAnswer, self.last()),
        }
    }

    fn last(&self) -> String {
        let of = |role| self.journey.steps.iter().rev().find(|(of, _)| *of == role);
        match (of(Role::Reply), of(Role::Request)) {
            (Some((_, step)), _) => format!("an answer was last seen at {}", place(step)),
            (None, Some((_, step))) => {
                format!("no answer came; the request was last seen at {}", place(step))
            }
            (None, None) => "no packet left the client".to_owned(),
        }
    }
}

/// The node of the pod whose address it is.
fn home(world: &impl Surroundings, address: IpAddr) -> Option<String> {
    let cluster = world.cluster();
    let mut nodes = cluster.nodes();
    let home = nodes.find(|node| cluster.pods_on(&node.name).any(|pod| pod.ips.contains(&address)));
    home.map(|node| node.name.to_string())
}

/// The node whose own address it is.
fn owner(world: &impl Surroundings, address: IpAddr) -> Option<String> {
    let mut nodes = world.cluster().nodes();
    nodes.find(|node| node.addresses.contains(&address)).map(|node| node.name.to_string())
}

fn machine(step: &Step) -> &str {
    match step {
        Step::Port(passage) => &passage.node,
        Step::Wire(crossing) => &crossing.from,
        Step::Unseen(unseen) => &unseen.node,
    }
}

/// Who sent the packet that was first seen there.
fn who(step: &Step) -> String {
    match step {
        Step::Port(passage) => match &*passage.port {
            "host" => format!("the host {}", passage.node),
            port => format!("{port} on {}", passage.node),
        },
        Step::Wire(crossing) => crossing.from.clone(),
        Step::Unseen(unseen) => unseen.node.clone(),
    }
}

fn place(step: &Step) -> String {
    match step {
        Step::Port(passage) => format!("{} {} {}", passage.node, passage.port, passage.direction),
        Step::Wire(crossing) => format!("the wire behind {}", crossing.from),
        Step::Unseen(unseen) => format!("{} (kernel)", unseen.node),
    }
}
