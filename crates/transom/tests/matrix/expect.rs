//! What must happen, from the Services as a node sees them. It knows which backends may serve whom, nothing of HNS or
//! of packets.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use node::app::Outcome;
use node::sim::Client;
use services::{Endpoint, Protocol, ServicePort, TrafficPolicy};
use transom::world::World;

use crate::Seen;

/// A kind of frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Frontend {
    ClusterIp,
    NodePort,
    ExternalIp,
    IngressIp,
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::ExternalIp => "external IP",
            Self::IngressIp => "ingress IP",
        })
    }
}

/// A frontend to ask.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) frontend: Frontend,
    pub(crate) local: bool,
    pub(crate) preserve: bool,
    pub(crate) to: SocketAddr,
    pub(crate) udp: bool,
    pub(crate) service: String,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.udp { "UDP" } else { "TCP" };
        write!(f, "{} {} {}/{protocol}", self.service, self.frontend, self.to)
    }
}

/// What must be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// One of these answers; with `keeps`, it sees the client's own address.
    Answer { backends: BTreeSet<IpAddr>, keeps: bool },
    /// Nobody answers.
    Nothing(&'static str),
}

/// Every frontend of every Service that a node serves.
pub(crate) fn asks(world: &mut World, node: &str) -> Vec<Ask> {
    let spec = world.simulation.spec(node).expect("a Windows node").clone();
    let families = crate::families(&spec);
    let mut asks = Vec::new();
    for (service, port, preserve) in ports(world, node) {
        if !families.contains(&port.family) || port.protocol == Protocol::Sctp {
            continue;
        }
        let udp = port.protocol == Protocol::Udp;
        let mut add = |frontend, address, number, policy| {
            asks.push(Ask {
                frontend,
                local: policy == TrafficPolicy::Local,
                preserve: preserve && frontend == Frontend::IngressIp,
                to: SocketAddr::new(address, number),
                udp,
                service: service.clone(),
            });
        };
        add(Frontend::ClusterIp, port.cluster_ip, port.port, port.internal_policy);
        let own = spec.addresses.iter().copied().find(|own| own.is_ipv4() == port.cluster_ip.is_ipv4());
        if let (Some(number), Some(own)) = (port.node_port, own) {
            add(Frontend::NodePort, own, number, port.external_policy);
        }
        for &address in &port.external_ips {
            add(Frontend::ExternalIp, address, port.port, port.external_policy);
        }
        for &address in &port.ingress_ips {
            add(Frontend::IngressIp, address, port.port, port.external_policy);
        }
    }
    asks
}

/// The service ports that a node's proxy sees.
fn ports(world: &mut World, node: &str) -> Vec<(String, ServicePort, bool)> {
    let cluster = world.proxies.get_mut(node).expect("a proxy").driver().cluster();
    let mut ports = Vec::new();
    for key in cluster.services() {
        let Some(view) = cluster.view(key) else { continue };
        for port in view.ports {
            ports.push((key.to_string(), port, view.preserve_destination));
        }
    }
    ports
}

/// What must happen when a client asks a frontend that lies on `node`. None: nothing is known of it here.
pub(crate) fn expected(world: &mut World, node: &str, client: &Client, ask: &Ask) -> Option<Expected> {
    let on = match client {
        Client::Outside => None,
        Client::Node(name) => Some(name.clone()),
        Client::Pod(pod) => {
            world.simulation.pods().find(|(name, _)| name == pod).map(|(_, node)| node.to_owned())
        }
    };
    let here = on.as_deref() == Some(node);
    let is_windows = on.as_deref().is_some_and(|name| world.simulation.windows(name).is_some());
    if matches!(client, Client::Node(_)) && here && ask.frontend == Frontend::NodePort {
        return Some(Expected::Nothing("a node cannot use its own node port"));
    }
    // Whose proxy decides: the client's own node for addresses of Services, the node itself for its node ports.
    let decider = match (&on, ask.frontend) {
        (None, Frontend::ClusterIp) => return Some(Expected::Nothing("cluster IPs are not routed outside")),
        (None, _) => node.to_owned(),
        (Some(_), Frontend::NodePort) if !here => node.to_owned(),
        (Some(name), _) => name.clone(),
    };
    if on.is_some() && !is_windows && decider != node {
        // Other nodes' own service handling decides; see the Linux rows of the packet paths.
        return None;
    }
    let (_, port, _) = ports(world, &decider).into_iter().find(|(service, port, _)| {
        let number = ask.to.port();
        *service == ask.service
            && (port.protocol == Protocol::Udp) == ask.udp
            && port.cluster_ip.is_ipv4() == ask.to.is_ipv4()
            && match ask.frontend {
                Frontend::NodePort => port.node_port == Some(number),
                _ => port.port == number && port.protocol != Protocol::Sctp,
            }
    })?;
    let internal = ask.frontend == Frontend::ClusterIp;
    let mut usable: Vec<Endpoint> =
        if internal { port.internal().to_vec() } else { port.external().to_vec() };
    if ask.preserve {
        usable.retain(|endpoint| endpoint.local);
    }
    if usable.is_empty() {
        return Some(Expected::Nothing("no usable backend"));
    }
    let own = client_addresses(world, client);
    // A pod that asks itself is known by another address.
    let asks_itself = usable.iter().any(|endpoint| own.contains(&endpoint.address));
    let keeps = !internal && (ask.local || ask.preserve) && on.is_none() && !asks_itself;
    Some(Expected::Answer { backends: usable.iter().map(|endpoint| endpoint.address).collect(), keeps })
}

fn client_addresses(world: &mut World, client: &Client) -> Vec<IpAddr> {
    let of_stack = |stack: &mut node::stack::Stack, _| {
        stack.interfaces().flat_map(|interface| interface.addresses.clone()).map(|net| net.addr()).collect()
    };
    world.simulation.with_stack(client, of_stack).unwrap_or_default()
}

impl Expected {
    /// What is wrong with what was seen.
    pub(crate) fn problem(&self, seen: &Seen) -> Option<String> {
        match (self, &seen.outcome) {
            (Self::Answer { backends, keeps }, Outcome::Answered(answer)) => {
                let kept = seen.from.is_some_and(|from| from == answer.peer);
                // A VIP that was preserved tells nothing of the backend; its name does.
                let known = backends.contains(&answer.local.ip()) || answer.local == seen.target();
                if !known {
                    return Some(format!("answered at {}, which is none of {backends:?}", answer.local));
                }
                (*keeps && !kept).then(|| {
                    format!("the backend sees {}, not the client {:?}", answer.peer, seen.from)
                })
            }
            (Self::Answer { backends, .. }, other) => {
                Some(format!("{other}, but one of {backends:?} must answer"))
            }
            (Self::Nothing(why), Outcome::Answered(answer)) => {
                Some(format!("answered by {} although {why}", answer.server))
            }
            (Self::Nothing(_), _) => None,
        }
    }
}
