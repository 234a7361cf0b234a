//! Which policies a build takes, and the checks that HNS makes of their settings.

use std::net::IpAddr;

use hcn::json::NameOrNumber;
use hcn::policy::PolicyType;
use hcn::{Feature, HResult, Policy, Result};
use ipnet::IpNet;

use super::{port_mapping, setting};
use crate::tx::{Env, refuse};

/// Where a policy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Network,
    Subnet,
    Endpoint,
}

struct Known {
    name: &'static str,
    /// The number, where one is known.
    number: Option<u32>,
    /// The feature that a build must have.
    feature: Option<Feature>,
}

const fn known(name: &'static str, number: Option<u32>, feature: Option<Feature>) -> Known {
    Known { name, number, feature }
}

/// Endpoint policies; the numbers are the order of Microsoft's schema, of which 9 and 18 are confirmed by WSL.
const ENDPOINT: &[Known] = &[
    known("PortMapping", Some(0), None),
    known("ACL", Some(1), None),
    known("QOS", Some(2), None),
    known("L2Driver", Some(3), None),
    known("OutBoundNAT", Some(4), None),
    known("SDNRoute", Some(5), None),
    known("L4Proxy", Some(6), Some(Feature::L4Proxy)),
    known("L4WFPPROXY", Some(7), Some(Feature::L4WfpProxy)),
    known("ProviderAddress", Some(8), None),
    known("PortName", Some(9), None),
    known("EncapOverhead", Some(10), None),
    known("InterfaceConstraint", Some(11), None),
    known("Encryption", Some(12), None),
    known("VLAN", Some(13), None),
    known("InterfaceParameters", Some(14), None),
    known("Iov", Some(15), None),
    known("TierAcl", Some(16), Some(Feature::TierAcl)),
    known("Firewall", Some(18), None),
    known("VSID", None, None),
];

const NETWORK: &[Known] = &[
    known("SourceMacAddress", Some(0), None),
    known("NetAdapterName", Some(1), None),
    known("InterfaceConstraint", Some(2), None),
    known("VSwitchExtension", None, None),
    known("ProviderAddress", None, None),
    known("DrMacAddress", None, None),
    known("AutomaticDNS", None, None),
    known("RemoteSubnetRoute", None, Some(Feature::RemoteSubnet)),
    known("VxlanPort", None, Some(Feature::VxlanPort)),
    known("HostRoute", None, Some(Feature::HostRoute)),
    known("SetPolicy", None, Some(Feature::SetPolicy)),
    known("L4Proxy", None, Some(Feature::L4Proxy)),
    known("LayerConstraint", None, None),
    known("NetworkACL", None, Some(Feature::NetworkAcl)),
    known("NeighborDiscovery", None, None),
    known("VLAN", None, None),
    known("VSID", None, None),
    known("QOS", None, None),
    known("ACL", None, None),
    known("OutBoundNAT", None, None),
];

const SUBNET: &[Known] = &[known("VLAN", Some(0), None), known("VSID", Some(1), None)];

/// Refuses a policy that the build does not have or whose settings it cannot use; turns a type given as a number
/// into its name.
pub(crate) fn admit(env: &Env, on: On, policy: &mut Policy) -> Result<()> {
    let table = match on {
        On::Network => NETWORK,
        On::Subnet => SUBNET,
        On::Endpoint => ENDPOINT,
    };
    let found = table.iter().find(|known| match &policy.kind.0 {
        NameOrNumber::Name(name) => name.eq_ignore_ascii_case(known.name),
        NameOrNumber::Number(number) => known.number == Some(*number),
    });
    let Some(found) = found else {
        let detail = format!("policy Type {:?} is not one of this object", policy.kind.text());
        return Err(refuse(HResult::INVALID_POLICY_TYPE, detail));
    };
    if let Some(feature) = found.feature {
        require(env, found.name, feature)?;
    }
    if matches!(policy.kind.0, NameOrNumber::Number(_)) {
        policy.kind = PolicyType::named(found.name);
    }
    check_settings(env, found.name, policy)
}

fn require(env: &Env, name: &str, feature: Feature) -> Result<()> {
    if env.supports(feature) {
        return Ok(());
    }
    let detail = format!("policy {name}: HNS {} does not support {}", env.version, feature.name());
    Err(refuse(HResult::INVALID_POLICY_TYPE, detail))
}

fn invalid(name: &str, field: &str, problem: &str) -> hcn::Error {
    refuse(HResult::INVALID_POLICY, format!("policy {name}: {field} {problem}"))
}

fn check_settings(env: &Env, name: &str, policy: &Policy) -> Result<()> {
    let address = |field: &str| match setting::<String>(policy, field) {
        Some(text) if text.parse::<IpAddr>().is_ok() => Ok(()),
        Some(text) => Err(invalid(name, field, &format!("{text:?} is not an address"))),
        None => Err(invalid(name, field, "is absent")),
    };
    let prefix = |field: &str| match setting::<String>(policy, field) {
        Some(text) if text.parse::<IpNet>().is_ok() => Ok(()),
        Some(text) => Err(invalid(name, field, &format!("{text:?} is not a CIDR"))),
        None => Err(invalid(name, field, "is absent")),
    };
    let one_of = |field: &str, values: &[&str]| match setting::<String>(policy, field) {
        Some(text) if values.iter().any(|value| value.eq_ignore_ascii_case(&text)) => Ok(()),
        Some(text) => Err(invalid(name, field, &format!("{text:?} is not one of {}", values.join(", ")))),
        None => Err(invalid(name, field, "is absent")),
    };
    match name {
        "PortMapping" => port_mapping(policy).map(|_| ()),
        "ProviderAddress" => address("ProviderAddress"),
        "RemoteSubnetRoute" => prefix("DestinationPrefix").and_then(|()| address("ProviderAddress")),
        "SDNRoute" => prefix("DestinationPrefix"),
        "ACL" | "NetworkACL" => {
            one_of("Action", &["Allow", "Block", "Pass"])?;
            one_of("Direction", &["In", "Out"])?;
            let protocols: String = setting(policy, "Protocols").unwrap_or_default();
            if protocols.split(',').any(|protocol| protocol.trim() == "252") {
                require(env, name, Feature::AclSupportForProtocol252)?;
            }
            Ok(())
        }
        "SetPolicy" => {
            let kind: Option<NameOrNumber> = setting(policy, "PolicyType");
            let nested = match kind {
                Some(NameOrNumber::Name(kind)) => kind.eq_ignore_ascii_case("NESTEDIPSET"),
                Some(NameOrNumber::Number(kind)) => kind == 1,
                None => false,
            };
            if nested { require(env, name, Feature::NestedIpSet) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hcn::Version;

    use super::*;
    use crate::testing::env_of;

    fn policy(json: &str) -> Policy {
        Policy::parse(json).unwrap()
    }

    #[test]
    fn builds_take_the_policies_they_have() {
        let cases = [
            (On::Endpoint, r#"{"Type":"TierAcl","Settings":{}}"#, Version::new(13, 3), Version::new(14, 0)),
            (
                On::Endpoint,
                r#"{"Type":"L4WFPPROXY","Settings":{}}"#,
                Version::new(13, 1),
                Version::new(13, 2),
            ),
            (
                On::Network,
                r#"{"Type":"setpolicy","Settings":{"PolicyType":"IPSET"}}"#,
                Version::new(12, 9),
                Version::new(13, 0),
            ),
            (
                On::Network,
                r#"{"Type":"SetPolicy","Settings":{"PolicyType":1}}"#,
                Version::new(14, 9),
                Version::new(15, 0),
            ),
            (
                On::Network,
                r#"{"Type":"VxlanPort","Settings":{"Port":4790}}"#,
                Version::new(9, 5),
                Version::new(10, 3),
            ),
            (
                On::Endpoint,
                r#"{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","Protocols":"6, 252"}}"#,
                Version::new(9, 5),
                Version::new(11, 0),
            ),
        ];
        for (on, json, without, with) in cases {
            let error = admit(&env_of(without), on, &mut policy(json)).unwrap_err();
            assert_eq!(error.code, HResult::INVALID_POLICY_TYPE, "{json}");
            assert!(error.to_string().contains(&without.to_string()), "{error}");
            admit(&env_of(with), on, &mut policy(json)).unwrap();
        }
    }

    #[test]
    fn settings_that_hns_cannot_use_are_refused_by_field() {
        let env = env_of(Version::new(16, 0));
        for (on, json, code, field) in [
            (On::Endpoint, r#"{"Type":"Nonsense"}"#, HResult::INVALID_POLICY_TYPE, "Nonsense"),
            (
                On::Endpoint,
                r#"{"Type":"HostRoute","Settings":{}}"#,
                HResult::INVALID_POLICY_TYPE,
                "HostRoute",
            ),
            (
                On::Endpoint,
                r#"{"Type":"ProviderAddress"}"#,
                HResult::INVALID_POLICY,
                "ProviderAddress is absent",
            ),
            (
                On::Endpoint,
                r#"{"Type":"ACL","Settings":{"Action":"Maybe","Direction":"In"}}"#,
                HResult::INVALID_POLICY,
                "Action",
            ),
            (
                On::Endpoint,
                r#"{"Type":"ACL","Settings":{"Action":"Allow"}}"#,
                HResult::INVALID_POLICY,
                "Direction",
            ),
            (
                On::Endpoint,
                r#"{"Type":"PortMapping","Settings":{"ExternalPort":1}}"#,
                HResult::INVALID_INTERNAL_PORT,
                "InternalPort",
            ),
            (
                On::Network,
                r#"{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.1.0.0","ProviderAddress":"1.1.1.1"}}"#,
                HResult::INVALID_POLICY,
                "DestinationPrefix",
            ),
        ] {
            let error = admit(&env, on, &mut policy(json)).unwrap_err();
            assert_eq!(error.code, code, "{json}");
            assert!(error.to_string().contains(field), "{error}");
        }
    }

    #[test]
    fn numbers_become_names_and_settings_stay() {
        let mut mapping = policy(r#"{"Type":0,"Settings":{"InternalPort" : 80}}"#);
        admit(&env_of(Version::new(16, 0)), On::Endpoint, &mut mapping).unwrap();
        assert!(mapping.kind.is("PortMapping"));
        assert_eq!(mapping.settings.unwrap().get(), r#"{"InternalPort" : 80}"#);
    }
}
