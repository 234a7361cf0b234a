//! Objects of HNS as a client makes them: documents in JSON.

use std::time::Duration;

use hcn::time::Clock as _;
use hcn::{Guid, Hcn as _, Kind};
use hns::Hns;

use crate::world::{World, serve};

/// Members of every document.
const SCHEMA: &str = r#""SchemaVersion":{"Major":2,"Minor":0}"#;

/// A policy.
pub(crate) fn policy(kind: &str, settings: &str) -> String {
    format!(r#"{{"Type":"{kind}","Settings":{{{settings}}}}}"#)
}

/// A network to be made.
#[derive(Clone, Debug)]
pub(crate) struct Net<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: &'a str,
    /// Prefix, gateway (empty: none), policies.
    pub(crate) subnets: Vec<(&'a str, &'a str, String)>,
    pub(crate) policies: String,
}

impl<'a> Net<'a> {
    pub(crate) fn new(mode: &'a str, prefix: &'a str, gateway: &'a str) -> Self {
        let subnets = vec![(prefix, gateway, String::new())];
        Self { name: "net", mode, subnets, policies: String::new() }
    }

    /// An overlay's, with a virtual subnet.
    pub(crate) fn overlay(name: &'a str, prefix: &'a str, gateway: &'a str, vsid: u32) -> Self {
        let subnets = vec![(prefix, gateway, policy("VSID", &format!(r#""IsolationId":{vsid}"#)))];
        Self { name, mode: "Overlay", subnets, policies: String::new() }
    }

    pub(crate) fn named(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    pub(crate) fn policies(mut self, policies: impl Into<String>) -> Self {
        self.policies = policies.into();
        self
    }

    pub(crate) fn subnet(mut self, prefix: &'a str, gateway: &'a str, policies: impl Into<String>) -> Self {
        self.subnets.push((prefix, gateway, policies.into()));
        self
    }
}

/// An endpoint to be made.
#[derive(Clone, Debug)]
pub(crate) struct Ep<'a> {
    pub(crate) name: &'a str,
    pub(crate) ips: &'a [&'a str],
    pub(crate) policies: String,
    /// More members of the document, each with a comma in front.
    pub(crate) more: String,
}

impl<'a> Ep<'a> {
    pub(crate) fn new(name: &'a str, ips: &'a [&'a str]) -> Self {
        Self { name, ips, policies: String::new(), more: String::new() }
    }

    pub(crate) fn policies(mut self, policies: impl Into<String>) -> Self {
        self.policies = policies.into();
        self
    }

    pub(crate) fn more(mut self, members: &str) -> Self {
        self.more.push(',');
        self.more.push_str(members);
        self
    }
}

impl World {
    pub(crate) fn hns(&self, node: &str) -> &Hns {
        &self.nodes[node].hns
    }

    pub(crate) fn create(&mut self, node: &str, kind: Kind, network: Option<Guid>, members: &str) -> Guid {
        self.made += 1;
        let id = Guid::from_u128(u128::from(self.made) << 96 | 0x0000_4000_8000_0000_0000_0000);
        let json = format!("{{{members},{SCHEMA}}}");
        let made = self.hns(node).create(kind, network, id, &json);
        let made = made.unwrap_or_else(|error| panic!("{json}: {error}"));
        self.follow();
        made
    }

    pub(crate) fn modify(&mut self, node: &str, kind: Kind, object: Guid, json: &str) {
        self.hns(node).modify(kind, object, json).unwrap_or_else(|error| panic!("{json}: {error}"));
        self.follow();
    }

    pub(crate) fn delete(&mut self, node: &str, kind: Kind, object: Guid) {
        self.hns(node).delete(kind, object).unwrap();
        self.follow();
    }

    /// Makes a network and waits until it has its management address.
    pub(crate) fn network_on(&mut self, node: &str, network: &Net<'_>) -> Guid {
        let subnets: Vec<String> = network
            .subnets
            .iter()
            .map(|(prefix, gateway, policies)| {
                let all = if prefix.contains(':') { "::/0" } else { "0.0.0.0/0" };
                let routes = match *gateway {
                    "" => String::new(),
                    gateway => format!(r#"{{"NextHop":"{gateway}","DestinationPrefix":"{all}"}}"#),
                };
                format!(r#"{{"IpAddressPrefix":"{prefix}","Policies":[{policies}],"Routes":[{routes}]}}"#)
            })
            .collect();
        let members = format!(
            r#""Name":"{}","Type":"{}","Policies":[{}],"Ipams":[{{"Subnets":[{}]}}]"#,
            network.name,
            network.mode,
            network.policies,
            subnets.join(",")
        );
        let id = self.create(node, Kind::Network, None, &members);
        let Self { nodes, .. } = &*self;
        let clock = &nodes[node].clock;
        let settled = self.hns(node).settled_at() + Duration::from_millis(1);
        clock.advance(settled.saturating_sub(clock.now()));
        self.hns(node).catch_up();
        self.follow();
        id
    }

    pub(crate) fn network(&mut self, network: &Net<'_>) -> Guid {
        self.network_on("win", network)
    }

    /// Makes an endpoint.
    pub(crate) fn endpoint_on(&mut self, node: &str, network: Guid, endpoint: &Ep<'_>) -> Guid {
        let ips: Vec<String> = endpoint.ips.iter().map(|ip| format!(r#"{{"IpAddress":"{ip}"}}"#)).collect();
        let members = format!(
            r#""Name":"{}","IpConfigurations":[{}],"Policies":[{}]{}"#,
            endpoint.name,
            ips.join(","),
            endpoint.policies,
            endpoint.more
        );
        self.create(node, Kind::Endpoint, Some(network), &members)
    }

    /// A namespace of a pod.
    pub(crate) fn namespace(&mut self, node: &str) -> Guid {
        self.create(node, Kind::Namespace, None, r#""Type":"Host""#)
    }

    /// Adds an endpoint to a namespace, or takes it out.
    pub(crate) fn join(&mut self, node: &str, namespace: Guid, request: &str, endpoint: Guid) {
        let json = format!(
            r#"{{"ResourceType":"Endpoint","RequestType":"{request}","Settings":{{"EndpointId":"{endpoint}"}}}}"#
        );
        self.modify(node, Kind::Namespace, namespace, &json);
    }

    /// An endpoint in a namespace of its own, with servers on it.
    pub(crate) fn pod_on(&mut self, node: &str, network: Guid, endpoint: &Ep<'_>) -> Guid {
        let id = self.endpoint_on(node, network, endpoint);
        let namespace = self.namespace(node);
        self.join(node, namespace, "Add", id);
        self.act(endpoint.name, |stack, _| serve(stack));
        id
    }

    pub(crate) fn pod(&mut self, network: Guid, endpoint: &Ep<'_>) -> Guid {
        self.pod_on("win", network, endpoint)
    }

    /// Adds, updates or removes policies of a network or an endpoint.
    pub(crate) fn change(&mut self, kind: Kind, object: Guid, request: &str, policies: &str) {
        let json = format!(
            r#"{{"ResourceType":"Policy","RequestType":"{request}","Settings":{{"Policies":[{policies}]}}}}"#
        );
        self.modify("win", kind, object, &json);
    }

    /// An endpoint's MAC.
    pub(crate) fn mac_of(&self, pod: &str) -> wire::Mac {
        self.stack(pod).interfaces().next().unwrap().mac
    }
}
