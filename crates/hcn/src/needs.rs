//! Which feature of HNS a document, flag or policy needs.
//!
//! One table per kind of thing, so that a client can ask before it sends and an emulated HNS can refuse what its
//! version lacks. Sources: hcsshim's feature checks and what each guards; rows marked *inferred* have no public
//! evidence that HNS refuses the thing. Operations are not here: the v2 API needs [`Feature::ApiV2`], changing a
//! load balancer [`Feature::ModifyLoadBalancer`], `/accelnet/` [`Feature::Accelnet`].

use std::fmt;

use crate::endpoint::IpConfig;
use crate::loadbalancer::{Distribution, LoadBalancerFlags};
use crate::network::NetworkFlags;
use crate::policy::endpoint::TierAclRule;
use crate::policy::network::SetPolicyType;
use crate::policy::{EndpointPolicy, NatFlags, NetworkPolicy, RuleType};
use crate::version::{Feature, Features};
use crate::{Endpoint, LoadBalancer, Network, Policy};

/// Something that only some versions of HNS can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What is needed.
    pub feature: Feature,
    /// By what, in words.
    pub what: &'static str,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} needs feature {}, which HNS has in", self.what, self.feature.name())?;
        for (at, (low, high)) in self.feature.ranges().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if high.major == low.major {
                write!(f, "{comma} {low} to {}.x", low.major)?;
            } else {
                write!(f, "{comma} {low} and later")?;
            }
        }
        Ok(())
    }
}

/// The first need that is not met.
pub fn missing(needs: &[Need], features: Features) -> Option<&Need> {
    needs.iter().find(|need| !features.supports(need.feature))
}

struct Row<T: 'static> {
    feature: Feature,
    what: &'static str,
    applies: fn(&T) -> bool,
}

const NETWORK: &[Row<Network>] = &[
    Row {
        feature: Feature::DisableHostPort,
        what: "network flag DisableHostPort",
        applies: |network| network.flags.contains(NetworkFlags::DISABLE_HOST_PORT),
    },
    Row {
        feature: Feature::IPv6DualStack,
        what: "a network with IPv4 and IPv6 subnets",
        applies: |network| both_families(network.subnets().map(|subnet| subnet.prefix.as_str())),
    },
];

const NETWORK_POLICY: &[Row<NetworkPolicy>] = &[
    Row {
        feature: Feature::RemoteSubnet,
        what: "network policy RemoteSubnetRoute",
        applies: |policy| matches!(policy, NetworkPolicy::RemoteSubnetRoute(_)),
    },
    Row {
        feature: Feature::HostRoute,
        what: "network policy HostRoute",
        applies: |policy| matches!(policy, NetworkPolicy::HostRoute(_)),
    },
    Row {
        feature: Feature::VxlanPort,
        what: "network policy VxlanPort",
        applies: |policy| matches!(policy, NetworkPolicy::VxlanPort(_)),
    },
    Row {
        feature: Feature::SetPolicy,
        what: "network policy SetPolicy",
        applies: |policy| matches!(policy, NetworkPolicy::Set(_)),
    },
    Row {
        feature: Feature::NestedIpSet,
        what: "network policy SetPolicy of type NESTEDIPSET",
        applies: |policy| matches!(policy, NetworkPolicy::Set(set) if set.policy_type == Some(SetPolicyType::NestedIpSet)),
    },
    Row {
        feature: Feature::L4Proxy,
        what: "network policy L4Proxy",
        applies: |policy| matches!(policy, NetworkPolicy::L4Proxy(_)),
    },
    Row {
        feature: Feature::NetworkAcl,
        what: "network policy NetworkACL",
        applies: |policy| matches!(policy, NetworkPolicy::Acl(_)),
    },
];

const ENDPOINT: &[Row<Endpoint>] = &[
    Row {
        feature: Feature::Slash32EndpointPrefixes,
        what: "an endpoint address with prefix length 32",
        applies: |endpoint| endpoint.ip_configurations.iter().any(is_slash_32),
    },
    Row {
        feature: Feature::IPv6DualStack,
        what: "an endpoint with IPv4 and IPv6 addresses",
        applies: |endpoint| {
            both_families(endpoint.ip_configurations.iter().map(|config| config.ip_address.as_str()))
        },
    },
];

const ENDPOINT_POLICY: &[Row<EndpointPolicy>] = &[
    Row {
        feature: Feature::L4Proxy,
        what: "endpoint policy L4Proxy",
        applies: |policy| matches!(policy, EndpointPolicy::L4Proxy(_)),
    },
    Row {
        feature: Feature::L4WfpProxy,
        what: "endpoint policy L4WFPPROXY",
        applies: |policy| matches!(policy, EndpointPolicy::L4WfpProxy(_)),
    },
    Row {
        feature: Feature::TierAcl,
        what: "endpoint policy TierAcl",
        applies: |policy| matches!(policy, EndpointPolicy::TierAcl(_)),
    },
    Row {
        feature: Feature::AclAddressLists,
        what: "an ACL with a list of addresses",
        applies: |policy| {
            acl_lists(policy).iter().any(|lists| lists.addresses.iter().any(|list| list.contains(',')))
        },
    },
    Row {
        feature: Feature::AclPortRanges,
        what: "an ACL with lists or ranges of ports",
        applies: |policy| {
            acl_lists(policy).iter().any(|lists| lists.ports.iter().any(|list| list.contains([',', '-'])))
        },
    },
    Row {
        feature: Feature::AclSupportForProtocol252,
        what: "an ACL for protocol 252",
        applies: |policy| {
            acl_lists(policy)
                .iter()
                .any(|lists| lists.protocols.split(',').any(|number| number.trim() == "252"))
        },
    },
    Row {
        feature: Feature::AclRuleId,
        what: "an ACL with an id",
        applies: |policy| matches!(policy, EndpointPolicy::Acl(acl) if acl.id.as_ref().is_some_and(|id| !id.is_empty())),
    },
    // Calico sends priority 100 on Host rules of builds without the feature and none on those with it.
    Row {
        feature: Feature::AclHostRulePriority,
        what: "an ACL of rule type Host without a priority",
        applies: |policy| {
            matches!(policy, EndpointPolicy::Acl(acl)
                if acl.rule_type == Some(RuleType::Host) && acl.priority == 0)
        },
    },
    // Inferred: the flag is schema 2.8, later than the first dual-stack build.
    Row {
        feature: Feature::IPv6DualStack,
        what: "NAT flag IPv6",
        applies: |policy| match policy {
            EndpointPolicy::PortMapping(mapping) => mapping.flags.contains(NatFlags::IPV6),
            EndpointPolicy::OutboundNat(nat) => nat.flags.contains(NatFlags::IPV6),
            _ => false,
        },
    },
];

const LOAD_BALANCER: &[Row<LoadBalancer>] = &[
    Row {
        feature: Feature::Dsr,
        what: "load balancer flag DSR",
        applies: |balancer| balancer.flags.contains(LoadBalancerFlags::DSR),
    },
    // Inferred: the flag is schema 2.8, later than the first dual-stack build.
    Row {
        feature: Feature::IPv6DualStack,
        what: "load balancer flag IPv6",
        applies: |balancer| balancer.flags.contains(LoadBalancerFlags::IPV6),
    },
    Row {
        feature: Feature::SessionAffinity,
        what: "a port mapping with a distribution type",
        applies: |balancer| {
            let distributions =
                balancer.port_mappings.iter().filter_map(|mapping| mapping.distribution.as_ref());
            distributions.into_iter().any(|distribution| *distribution != Distribution::None)
        },
    },
];

/// What a network needs, its policies included.
pub fn of_network(network: &Network) -> Vec<Need> {
    let mut needs = rows(NETWORK, network);
    needs.extend(network.policies.iter().flat_map(of_network_policy));
    needs
}

/// What a policy on a network needs. Settings that cannot be read need nothing: they are wrong everywhere.
pub fn of_network_policy(policy: &Policy) -> Vec<Need> {
    NetworkPolicy::decode(policy).map(|policy| rows(NETWORK_POLICY, &policy)).unwrap_or_default()
}

/// What an endpoint needs, its policies included.
pub fn of_endpoint(endpoint: &Endpoint) -> Vec<Need> {
    let mut needs = rows(ENDPOINT, endpoint);
    needs.extend(endpoint.policies.iter().flat_map(of_endpoint_policy));
    needs
}

/// What a policy on an endpoint needs. Settings that cannot be read need nothing: they are wrong everywhere.
pub fn of_endpoint_policy(policy: &Policy) -> Vec<Need> {
    EndpointPolicy::decode(policy).map(|policy| rows(ENDPOINT_POLICY, &policy)).unwrap_or_default()
}

/// What a load balancer needs.
pub fn of_load_balancer(balancer: &LoadBalancer) -> Vec<Need> {
    rows(LOAD_BALANCER, balancer)
}

fn rows<T>(table: &[Row<T>], thing: &T) -> Vec<Need> {
    let applying = table.iter().filter(|row| (row.applies)(thing));
    applying.map(|row| Need { feature: row.feature, what: row.what }).collect()
}

fn both_families<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    let (mut v4, mut v6) = (false, false);
    for text in texts.filter(|text| !text.is_empty()) {
        if text.contains(':') {
            v6 = true;
        } else {
            v4 = true;
        }
    }
    v4 && v6
}

fn is_slash_32(config: &IpConfig) -> bool {
    config.prefix_length == 32 && !config.ip_address.contains(':')
}

/// The lists of one rule.
struct Lists<'a> {
    protocols: &'a str,
    addresses: [&'a str; 2],
    ports: [&'a str; 2],
}

fn acl_lists(policy: &EndpointPolicy) -> Vec<Lists<'_>> {
    match policy {
        EndpointPolicy::Acl(acl) => vec![Lists {
            protocols: &acl.protocols,
            addresses: [&acl.local_addresses, &acl.remote_addresses],
            ports: [&acl.local_ports, &acl.remote_ports],
        }],
        EndpointPolicy::TierAcl(tier) => tier.rules.iter().map(tier_lists).collect(),
        _ => Vec::new(),
    }
}

fn tier_lists(rule: &TierAclRule) -> Lists<'_> {
    Lists {
        protocols: &rule.protocols,
        addresses: [&rule.local_addresses, &rule.remote_addresses],
        ports: [&rule.local_ports, &rule.remote_ports],
    }
}
