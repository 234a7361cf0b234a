//! The fixture's nodes and host, and short forms of Services and EndpointSlices.

use hns::{Adapter, Host};
use node::NetworkKind;
use serde::Deserialize;
use services::source::manifests::{self, parse_bytes};
use services::{IpFamily, Object};

use super::{Setup, address};

/// The machine of the node under test.
pub fn host(setup: &Setup) -> Host {
    let addresses = setup
        .families
        .iter()
        .map(|family| match family {
            IpFamily::V4 => "192.0.2.11/24".parse().expect("a prefix"),
            IpFamily::V6 => "2001:db8:1::11/64".parse().expect("a prefix"),
        })
        .collect();
    Host {
        name: super::NODE.to_owned(),
        adapters: vec![Adapter {
            name: "Ethernet".to_owned(),
            mac: "00-11-22-33-44-55".parse().expect("a MAC"),
            addresses,
        }],
        ..Host::default()
    }
}

/// The Node objects: n1 and n3 Windows, n2 Linux.
pub fn nodes(setup: &Setup) -> Vec<Object> {
    let node = |number: u8, os: &str| {
        let zone =
            if number == 1 { setup.zone.clone().unwrap_or_else(|| "a".to_owned()) } else { "b".to_owned() };
        let mut cidrs = Vec::new();
        let mut addresses = Vec::new();
        for family in &setup.families {
            let (cidr, address) = match family {
                IpFamily::V4 => (format!("10.50.{number}.0/24"), format!("192.0.2.1{number}")),
                IpFamily::V6 => (format!("2001:db8:50:{number}::/64"), format!("2001:db8:1::1{number}")),
            };
            cidrs.push(format!("\"{cidr}\""));
            addresses.push(format!("{{type: InternalIP, address: \"{address}\"}}"));
        }
        let (cidrs, addresses) = (cidrs.join(", "), addresses.join(", "));
        parse(&format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n{number}, labels: {{kubernetes.io/os: {os}, topology.kubernetes.io/zone: {zone}}}}}\nspec: {{podCIDRs: [{cidrs}]}}\nstatus: {{addresses: [{addresses}]}}\n"
        ))
    };
    [(1, "windows"), (2, "linux"), (3, "windows")]
        .into_iter()
        .flat_map(|(number, os)| node(number, os))
        .collect()
}

/// Objects of manifests that must be without fault.
pub fn parse(text: &str) -> Vec<Object> {
    let parsed = parse_bytes("scenario", text.as_bytes(), &manifests::Options::default());
    assert!(parsed.problems.is_empty(), "{:?}\n{text}", parsed.problems);
    parsed.objects
}

/// Objects of manifests with faults, as far as they can be read.
fn parse_faulty(text: &str) -> Vec<Object> {
    let parsed = parse_bytes("scenario", text.as_bytes(), &manifests::Options::default());
    assert!(!parsed.problems.is_empty(), "nothing is wrong with\n{text}");
    parsed.objects
}

/// A Service in short.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ShortService {
    /// `name` or `namespace/name`.
    pub name: String,
    #[serde(default)]
    pub ip: Option<String>,
    #[serde(default)]
    pub ips: Vec<String>,
    /// `spec.ipFamilyPolicy`: says how the API server chose the addresses; no proxy looks at it.
    #[serde(default)]
    pub family_policy: Option<String>,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// `"80"`, `"http 80/TCP"`, `"http 80/TCP nodePort=30080 target=8080"`.
    pub ports: Vec<String>,
    #[serde(default)]
    pub etp: Option<String>,
    #[serde(default)]
    pub itp: Option<String>,
    /// Timeout in seconds of ClientIP affinity.
    #[serde(default)]
    pub affinity: Option<u32>,
    #[serde(default)]
    pub ingress: Vec<serde_json::Value>,
    #[serde(default)]
    pub external_ips: Vec<String>,
    #[serde(default)]
    pub annotations: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub source_ranges: Vec<String>,
    #[serde(default)]
    pub health_check_node_port: Option<u16>,
    /// The manifest has faults on purpose: it is not required that it is read without complaint.
    #[serde(default)]
    pub faulty: bool,
    /// So many Services: `web-0` with the address given, `web-1` with the next one…
    #[serde(default)]
    pub count: Option<usize>,
}

/// An EndpointSlice in short.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ShortSlice {
    /// The slice's name; default: the Service's name with `-1`.
    #[serde(default)]
    pub name: Option<String>,
    /// The Service, `name` or `namespace/name`.
    pub of: String,
    /// Port name → number; an unnamed port is `""`. A number alone means one unnamed port.
    #[serde(default)]
    pub ports: std::collections::BTreeMap<String, u16>,
    #[serde(default)]
    pub port: Option<u16>,
    #[serde(default)]
    pub protocol: Option<String>,
    /// `"R1"`, `"L1 terminating"`, `"R2 unready"`, `"R1 terminating unserving"`, `"R1 zones=a,b"`, `"R1 hintnodes=n1"`,
    /// `"10.50.2.9 node=n2"`, `"OUT nonode"`.
    pub endpoints: Vec<String>,
    /// Labels beside the Service's name: changing them changes nothing that is used.
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, String>,
    /// So many slices, one for each Service that `count` made.
    #[serde(default)]
    pub count: Option<usize>,
    /// With `count`: each slice has endpoints of its own, following those of the one before.
    #[serde(default)]
    pub own: bool,
}

/// The addresses of `10.50.2.20+64`, or the one address of `R1`.
pub fn range(text: &str) -> Vec<std::net::IpAddr> {
    match text.split_once('+') {
        None => vec![address(text)],
        Some((first, count)) => {
            let first = address(first);
            (0..count.parse().expect("a number after +")).map(|i| shifted(first, i)).collect()
        }
    }
}

fn shifted(address: std::net::IpAddr, by: usize) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(v4) => {
            std::net::Ipv4Addr::from_bits(v4.to_bits() + u32::try_from(by).expect("a small number")).into()
        }
        std::net::IpAddr::V6(v6) => std::net::Ipv6Addr::from_bits(v6.to_bits() + by as u128).into(),
    }
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}

impl ShortService {
    /// The Service, or as many as `count` says.
    pub fn objects(&self) -> Vec<Object> {
        let Some(count) = self.count else { return vec![self.object()] };
        let numbered = |i: usize| {
            let mut one = Self { name: format!("{}-{i}", self.name), ..self.clone() };
            for ip in one.ip.iter_mut().chain(&mut one.ips) {
                *ip = shifted(address(ip), i).to_string();
            }
            one.object()
        };
        (0..count).map(numbered).collect()
    }

    pub fn object(&self) -> Object {
        let (namespace, name) = split(&self.name);
        let ips: Vec<String> =
            if self.ips.is_empty() { self.ip.iter().cloned().collect() } else { self.ips.clone() };
        let ips: Vec<String> =
            ips.iter().map(|ip| if ip == "None" { ip.clone() } else { address(ip).to_string() }).collect();
        let ports: Vec<serde_json::Value> = self.ports.iter().map(|port| service_port(port)).collect();
        let mut spec =
            serde_json::json!({ "ports": ports, "type": self.kind.as_deref().unwrap_or("ClusterIP") });
        if let Some(first) = ips.first() {
            spec["clusterIP"] = first.clone().into();
            spec["clusterIPs"] = ips.clone().into();
            if first != "None" {
                let families: Vec<&str> =
                    ips.iter().map(|ip| if ip.contains(':') { "IPv6" } else { "IPv4" }).collect();
                spec["ipFamilies"] = families.into();
            }
        }
        if let Some(policy) = &self.family_policy {
            spec["ipFamilyPolicy"] = policy.clone().into();
        }
        if let Some(etp) = &self.etp {
            spec["externalTrafficPolicy"] = etp.clone().into();
        }
        if let Some(itp) = &self.itp {
            spec["internalTrafficPolicy"] = itp.clone().into();
        }
        if let Some(timeout) = self.affinity {
            spec["sessionAffinity"] = "ClientIP".into();
            spec["sessionAffinityConfig"] = serde_json::json!({ "clientIP": { "timeoutSeconds": timeout } });
        }
        if !self.external_ips.is_empty() {
            let ips: Vec<String> = self.external_ips.iter().map(|ip| address(ip).to_string()).collect();
            spec["externalIPs"] = ips.into();
        }
        if !self.source_ranges.is_empty() {
            spec["loadBalancerSourceRanges"] = self.source_ranges.clone().into();
        }
        if let Some(port) = self.health_check_node_port {
            spec["healthCheckNodePort"] = port.into();
        }
        let ingress: Vec<serde_json::Value> = self
            .ingress
            .iter()
            .map(|ingress| match ingress.as_str() {
                Some(ip) => serde_json::json!({ "ip": address(ip).to_string() }),
                None => ingress.clone(),
            })
            .collect();
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": namespace, "annotations": self.annotations, "labels": self.labels },
            "spec": spec,
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        let mut objects =
            if self.faulty { parse_faulty(&object.to_string()) } else { parse(&object.to_string()) };
        objects.remove(0)
    }
}

fn service_port(text: &str) -> serde_json::Value {
    let mut port = serde_json::json!({ "protocol": "TCP" });
    for word in text.split_whitespace() {
        if let Some(number) = word.strip_prefix("nodePort=") {
            port["nodePort"] = number.parse::<u16>().expect("a node port").into();
        } else if let Some(target) = word.strip_prefix("target=") {
            port["targetPort"] = target.parse::<u16>().map_or_else(|_| target.into(), Into::into);
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            let (number, protocol) = word.split_once('/').unwrap_or((word, "TCP"));
            port["port"] = number.parse::<u16>().expect("a port").into();
            port["protocol"] = protocol.into();
        } else {
            port["name"] = word.into();
        }
    }
    port
}

impl ShortSlice {
    pub fn reference(&self) -> (String, String) {
        let (namespace, service) = split(&self.of);
        (namespace.to_owned(), self.name.clone().unwrap_or_else(|| format!("{service}-1")))
    }

    /// The slice, or as many as `count` says.
    pub fn objects(&self) -> Vec<Object> {
        let Some(count) = self.count else { return vec![self.object()] };
        let all = self.expanded();
        let numbered = |i: usize| {
            let mut one = Self { of: format!("{}-{i}", self.of), ..self.clone() };
            if self.own {
                one.endpoints = all.iter().map(|text| moved(text, i * all.len())).collect();
            }
            one.object()
        };
        (0..count).map(numbered).collect()
    }

    /// The endpoints with ranges written out; what follows the range holds for each.
    fn expanded(&self) -> Vec<String> {
        let mut all = Vec::new();
        for text in &self.endpoints {
            let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
            if first.contains('+') {
                all.extend(range(first).iter().map(|address| format!("{address} {rest}")));
            } else {
                all.push(text.clone());
            }
        }
        all
    }

    pub fn object(&self) -> Object {
        let (namespace, service) = split(&self.of);
        let mut ports = self.ports.clone();
        if let Some(port) = self.port {
            ports.insert(String::new(), port);
        }
        let protocol = self.protocol.as_deref().unwrap_or("TCP");
        let ports: Vec<serde_json::Value> = ports
            .iter()
            .map(|(name, port)| serde_json::json!({ "name": name, "port": port, "protocol": protocol }))
            .collect();
        let endpoints: Vec<serde_json::Value> =
            self.expanded().iter().map(|text| slice_endpoint(text)).collect();
        let v6 = self
            .endpoints
            .first()
            .is_some_and(|text| range(text.split_whitespace().next().unwrap_or_default())[0].is_ipv6());
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/service-name".to_owned(), service.to_owned());
        let object = serde_json::json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": self.reference().1, "namespace": namespace, "labels": labels },
            "addressType": if v6 { "IPv6" } else { "IPv4" },
            "ports": ports, "endpoints": endpoints,
        });
        parse(&object.to_string()).remove(0)
    }
}

fn moved(text: &str, by: usize) -> String {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    format!("{} {rest}", shifted(address(first), by))
}

fn slice_endpoint(text: &str) -> serde_json::Value {
    let mut words = text.split_whitespace();
    let name = words.next().expect("an endpoint has an address");
    // The first letter of a fixture name tells the node.
    let mut node = match name.chars().next() {
        Some('L') => Some("n1".to_owned()),
        Some('R') => Some("n2".to_owned()),
        Some('S') => Some("n3".to_owned()),
        _ => None,
    };
    let (mut ready, mut serving, mut terminating) = (true, true, false);
    let mut hints = serde_json::Value::Null;
    let mut zone = None;
    for word in words {
        match word {
            "terminating" => (ready, terminating) = (false, true),
            "unready" => (ready, serving) = (false, false),
            "unserving" => serving = false,
            "nonode" => node = None,
            _ => {
                let (key, value) =
                    word.split_once('=').unwrap_or_else(|| panic!("{word:?} in endpoint {text:?}"));
                let list: Vec<serde_json::Value> =
                    value.split(',').map(|value| serde_json::json!({ "name": value })).collect();
                match key {
                    "node" => node = Some(value.to_owned()),
                    "zone" => zone = Some(value.to_owned()),
                    "zones" => hints["forZones"] = list.into(),
                    "hintnodes" => hints["forNodes"] = list.into(),
                    _ => panic!("{word:?} in endpoint {text:?}"),
                }
            }
        }
    }
    let mut endpoint = serde_json::json!({
        "addresses": [address(name).to_string()],
        "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
    });
    if let Some(node) = node {
        endpoint["nodeName"] = node.into();
    }
    if let Some(zone) = zone {
        endpoint["zone"] = zone.into();
    }
    if !hints.is_null() {
        endpoint["hints"] = hints;
    }
    endpoint
}

/// The two network kinds.
pub const KINDS: [NetworkKind; 2] = [NetworkKind::L2Bridge, NetworkKind::Overlay];
