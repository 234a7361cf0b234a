//! The fixture's nodes and host, and short forms of Services and EndpointSlices.

use hns::{Adapter, Host};
use node::NetworkKind;
use serde::Deserialize;
use services::Object;
use services::source::manifests::{self, parse_bytes};

use super::{Setup, address};

/// The machine of the node under test.
pub fn host(setup: &Setup) -> Host {
    let mut addresses = vec!["192.0.2.11/24".parse().expect("a prefix")];
    if setup.dual_stack {
        addresses.push("2001:db8:1::11/64".parse().expect("a prefix"));
    }
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
    let mut text = String::new();
    for (number, os) in [(1, "windows"), (2, "linux"), (3, "windows")] {
        let zone =
            if number == 1 { setup.zone.clone().unwrap_or_else(|| "a".to_owned()) } else { "b".to_owned() };
        let (cidrs, v6) = if setup.dual_stack {
            (
                format!("10.50.{number}.0/24, \"2001:db8:50:{number}::/64\""),
                format!(", {{type: InternalIP, address: \"2001:db8:1::1{number}\"}}"),
            )
        } else {
            (format!("10.50.{number}.0/24"), String::new())
        };
        text += &format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{number}, labels: {{kubernetes.io/os: {os}, topology.kubernetes.io/zone: {zone}}}}}\nspec: {{podCIDRs: [{cidrs}]}}\nstatus: {{addresses: [{{type: InternalIP, address: 192.0.2.1{number}}}{v6}]}}\n"
        );
    }
    parse(&text)
}

/// Objects of manifests that must be without fault.
pub fn parse(text: &str) -> Vec<Object> {
    let parsed = parse_bytes("scenario", text.as_bytes(), &manifests::Options::default());
    assert!(parsed.problems.is_empty(), "{:?}\n{text}", parsed.problems);
    parsed.objects
}

/// A Service in short.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ShortService {
    /// `name` or `namespace/name`.
    pub name: String,
    #[serde(default)]
    pub ip: Option<String>,
    #[serde(default)]
    pub ips: Vec<String>,
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
}

/// An EndpointSlice in short.
#[derive(Clone, Debug, Deserialize)]
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
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}

impl ShortService {
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
        parse(&object.to_string()).remove(0)
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
            self.endpoints.iter().map(|text| slice_endpoint(text)).collect();
        let v6 = self
            .endpoints
            .first()
            .is_some_and(|text| address(text.split_whitespace().next().unwrap_or_default()).is_ipv6());
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
