//! What is used of a Node.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};

use super::{Fault, Faults, ObjectKind, RecordError, identity};
use crate::address;
use crate::condition::ConditionKind;

const OS_LABEL: &str = "kubernetes.io/os";
const BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// A node with this taint is about to be removed, so load balancers should stop using it.
const REMOVAL_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// What the overlay's agent published about a node. Flannel's annotations are read first, then Calico's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlayFacts {
    /// MAC address of the node's VXLAN tunnel endpoint.
    pub vtep_mac: Option<[u8; 6]>,
    /// The VXLAN network identifier.
    pub vni: Option<u32>,
    /// The address that tunnel packets go to, when it is not the node's own.
    pub public_ip: Option<IpAddr>,
    /// Flannel's backend type, such as `vxlan` or `host-gw`.
    pub backend: Option<Arc<str>>,
}

/// What is used of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The Node's name.
    pub name: Arc<str>,
    /// It runs Windows, by its label or else by what kubelet reports.
    pub windows: bool,
    /// The Windows build, such as `10.0.20348`.
    pub build: Option<Arc<str>>,
    /// Its addresses, InternalIP before ExternalIP, each once.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<IpNet>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// What the overlay's agent published.
    pub overlay: OverlayFacts,
    /// Whether load balancers should use the node: false once it is being deleted or carries the cluster
    /// autoscaler's removal taint.
    pub eligible: bool,
    pub(crate) faults: Box<[Fault]>,
}

impl TryFrom<&Node> for NodeFacts {
    type Error = RecordError;

    fn try_from(node: &Node) -> Result<Self, RecordError> {
        let (_, name) = identity(ObjectKind::Node, &node.metadata)?;
        let mut faults = Faults::default();
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        let label = |key: &str| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
        let info = status.and_then(|s| s.node_info.as_ref());
        let windows = label(OS_LABEL).or(info.map(|i| i.operating_system.as_str())) == Some("windows");
        let build = label(BUILD_LABEL).map(Arc::from).or_else(|| kernel_build(&info?.kernel_version));
        let tainted = spec.is_some_and(|s| s.taints.iter().flatten().any(|t| t.key == REMOVAL_TAINT));
        Ok(Self {
            name,
            windows,
            build: build.filter(|_| windows),
            addresses: addresses(status, &mut faults),
            pod_cidrs: pod_cidrs(spec, &mut faults),
            zone: label(ZONE_LABEL).filter(|z| !z.is_empty()).map(Arc::from),
            overlay: overlay(node),
            eligible: node.metadata.deletion_timestamp.is_none() && !tainted,
            faults: faults.finish(),
        })
    }
}

/// `10.0.20348.3453` is build `10.0.20348` with an update revision.
fn kernel_build(version: &str) -> Option<Arc<str>> {
    let mut parts = version.splitn(4, '.');
    let (major, minor, build) = (parts.next()?, parts.next()?, parts.next()?);
    let numeric =
        [major, minor, build].iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    numeric.then(|| format!("{major}.{minor}.{build}").into())
}

fn addresses(status: Option<&NodeStatus>, faults: &mut Faults) -> Vec<IpAddr> {
    let listed = status.and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    let mut found: Vec<IpAddr> = Vec::new();
    for wanted in ["InternalIP", "ExternalIP"] {
        for (i, entry) in listed.iter().enumerate().filter(|(_, a)| a.type_ == wanted) {
            match address::unicast(&entry.address) {
                Ok(ip) if found.contains(&ip) => {}
                Ok(ip) => found.push(ip),
                Err(error) => {
                    let message = format!("{:?} {error}", entry.address);
                    faults.push(
                        ConditionKind::InvalidAddress,
                        format!("status.addresses[{i}].address"),
                        message,
                    );
                }
            }
        }
    }
    found
}

fn pod_cidrs(spec: Option<&NodeSpec>, faults: &mut Faults) -> Vec<IpNet> {
    let Some(spec) = spec else { return Vec::new() };
    let mut found: Vec<IpNet> = Vec::new();
    let mut add = |field: String, text: &str| match address::network(text) {
        Ok(net) if found.contains(&net) => {}
        Ok(net) => found.push(net),
        Err(error) => faults.push(ConditionKind::InvalidAddress, field, format!("{text:?} {error}")),
    };
    let listed = spec.pod_cidrs.as_deref().unwrap_or_default();
    if listed.is_empty() {
        if let Some(single) = spec.pod_cidr.as_deref().filter(|c| !c.is_empty()) {
            add("spec.podCIDR".to_owned(), single);
        }
    } else {
        for (i, text) in listed.iter().enumerate() {
            add(format!("spec.podCIDRs[{i}]"), text);
        }
    }
    found
}

fn overlay(node: &Node) -> OverlayFacts {
    let annotation = |key: &str| node.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let data = annotation("flannel.alpha.coreos.com/backend-data");
    let data: Option<serde_json::Value> = data.and_then(|text| serde_json::from_str(text).ok());
    let field = |name: &str| data.as_ref().and_then(|d| d.get(name));
    let flannel_mac = field("VtepMAC").and_then(serde_json::Value::as_str).and_then(mac);
    let vni = field("VNI").and_then(serde_json::Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let public_ip = annotation("flannel.alpha.coreos.com/public-ip-overwrite")
        .or_else(|| annotation("flannel.alpha.coreos.com/public-ip"));
    OverlayFacts {
        vtep_mac: flannel_mac.or_else(|| annotation("projectcalico.org/VXLANTunnelMACAddr").and_then(mac)),
        vni,
        public_ip: public_ip.and_then(|text| address::unicast(text).ok()),
        backend: annotation("flannel.alpha.coreos.com/backend-type").map(Arc::from),
    }
}

/// Six bytes in hex, separated by colons or hyphens.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_six_bytes() {
        assert_eq!(mac("66:0b:0D:e0:00:01"), Some([0x66, 0x0b, 0x0d, 0xe0, 0, 1]));
        assert_eq!(mac("66-0b-0d-e0-00-01"), Some([0x66, 0x0b, 0x0d, 0xe0, 0, 1]));
        for wrong in ["", "66:0b:0d:e0:00", "66:0b:0d:e0:00:01:02", "6:0b:0d:e0:00:01", "+1:0b:0d:e0:00:01"] {
            assert_eq!(mac(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn builds_come_without_the_update_revision() {
        assert_eq!(kernel_build("10.0.20348.3453").as_deref(), Some("10.0.20348"));
        assert_eq!(kernel_build("10.0.26100").as_deref(), Some("10.0.26100"));
        assert_eq!(kernel_build("6.12.0-rc1"), None);
        assert_eq!(kernel_build("10.0"), None);
    }
}
