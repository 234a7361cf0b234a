//! IP families: whether the proxy serves one or both, which address stands for the node, and what does not fit.
//!
//! Pure rules over facts that somebody else has found out. It must not know how HNS or the Node is asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::settings::{DetectLocalMode, ProxySettings};

/// An IP family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The address of the host to itself.
    fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::LOCALHOST.into(),
            Self::V6 => Ipv6Addr::LOCALHOST.into(),
        }
    }
}

/// Which families are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// One.
    Single(Family),
    /// Both; the primary one is named.
    Dual(Family),
}

impl Families {
    /// The family of the node's own address.
    pub fn primary(self) -> Family {
        match self {
            Self::Single(family) | Self::Dual(family) => family,
        }
    }
}

/// The address that stands for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAddress {
    /// The address.
    pub ip: IpAddr,
    /// Whether nothing better than the host's address to itself is known, so that an overlay cannot be served.
    pub is_loopback: bool,
}

/// The node's primary address: the one that was given, else the first of the Node's (in the order: internal before
/// external), else the host's own to itself.
pub fn node_address(given: Option<IpAddr>, node: &[IpAddr]) -> NodeAddress {
    match given.or_else(|| node.first().copied()) {
        Some(ip) => NodeAddress { ip, is_loopback: false },
        None => NodeAddress { ip: Family::V4.loopback(), is_loopback: true },
    }
}

/// What the decision for one family or both is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The family of the node's primary address.
    pub primary: Family,
    /// Whether this HNS can do both (from version 11.10).
    pub hns_has_both: bool,
    /// Whether the network is an overlay; `None`: it is not known yet.
    pub is_overlay: Option<bool>,
}

/// Whether both families are served; the text says why only one is.
pub fn families(facts: Facts) -> (Families, Option<&'static str>) {
    let single = |why| (Families::Single(facts.primary), Some(why));
    match facts {
        Facts { hns_has_both: false, .. } => single("this HNS is older than 11.10 and has one family only"),
        Facts { is_overlay: None, .. } => single("the network is not known"),
        Facts { is_overlay: Some(true), .. } => single("an overlay network has one family only"),
        Facts { is_overlay: Some(false), .. } => (Families::Dual(facts.primary), None),
    }
}

/// Something that does not fit the families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The setting as a file names it.
    pub key: &'static str,
    /// What does not fit.
    pub message: String,
    /// Whether the proxy must not start.
    pub is_fatal: bool,
}

/// What in the settings is of a family that is not served. `pod_ranges` are the Node's.
pub fn misfits(settings: &ProxySettings, families: Families, pod_ranges: &[ipnet::IpNet]) -> Vec<Misfit> {
    let primary = families.primary();
    let mut found = Vec::new();
    let mut misfit = |key, message, is_fatal| found.push(Misfit { key, message, is_fatal });
    if let (Some(vip), None) = (
        settings.source_vips.iter().next(),
        settings.source_vips.iter().find(|vip| Family::of(*vip) == primary),
    ) {
        let message = format!(
            "{vip} is not of the node's primary family; the source VIP is found or made as if none were given"
        );
        misfit("winkernel.sourceVip", message, false);
    }
    let Families::Single(family) = families else { return found };
    let other = |ranges: &[ipnet::IpNet]| {
        !ranges.is_empty() && ranges.iter().all(|range| Family::of(range.addr()) != family)
    };
    if other(&settings.cluster_cidrs) {
        let is_fatal = settings.detect_local_mode == DetectLocalMode::ClusterCidr;
        misfit("clusterCIDR", "no network is of the family that is served".to_owned(), is_fatal);
    }
    if settings.detect_local_mode == DetectLocalMode::NodeCidr && other(pod_ranges) {
        let message = "none of the Node's pod ranges is of the family that is served".to_owned();
        misfit("detectLocalMode", message, true);
    }
    for (key, address) in
        [("healthzBindAddress", settings.healthz), ("metricsBindAddress", Some(settings.metrics))]
    {
        if let Some(address) = address.filter(|address| Family::of(address.ip()) != family) {
            misfit(key, format!("{address} is not of the family that is served"), false);
        }
    }
    found
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
