//! Which policies a build takes, and the checks that HNS makes of their settings.

use std::net::IpAddr;

use hcn::json::NameOrNumber;
use hcn::needs::{self, Need};
use hcn::policy::endpoint::Acl;
use hcn::policy::{EndpointPolicy, NetworkPolicy, PolicyType, SubnetPolicy};
use hcn::{HResult, Policy, Result};
use ipnet::IpNet;

use super::host_port;
use crate::tx::{Env, refuse};

/// Where a policy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Network,
    Subnet,
    Endpoint,
}

/// Types that dumps of real objects show beside the ones in the schema.
const ALSO_ON_NETWORKS: [&str; 5] = ["VLAN", "VSID", "QOS", "ACL", "OutBoundNAT"];
const ALSO_ON_ENDPOINTS: [&str; 1] = ["VSID"];

/// Refuses a policy that the build does not have or whose settings it cannot use; turns a type given as a number
/// into its name.
pub(crate) fn admit(env: &Env, on: On, policy: &mut Policy) -> Result<()> {
    let known = match on {
        On::Network => admit_network(env, policy)?,
        On::Subnet => match SubnetPolicy::decode(policy)? {
            SubnetPolicy::Unknown(_) => None,
            known => Some(known.type_name().into_owned()),
        },
        On::Endpoint => admit_endpoint(env, policy)?,
    };
    let also: &[&str] = match on {
        On::Network => &ALSO_ON_NETWORKS,
        On::Subnet => &[],
        On::Endpoint => &ALSO_ON_ENDPOINTS,
    };
    match known {
        Some(name) => {
            if matches!(policy.kind.0, NameOrNumber::Number(_)) {
                policy.kind = PolicyType::named(&name);
            }
            Ok(())
        }
        None if also.iter().any(|name| policy.kind.is(name)) => Ok(()),
        None => {
            let detail = format!("policy Type {:?} is not one of this object", policy.kind.text());
            Err(refuse(HResult::INVALID_POLICY_TYPE, detail))
        }
    }
}

/// Checks an endpoint policy and gives its name; none when the type is not known.
fn admit_endpoint(env: &Env, policy: &Policy) -> Result<Option<String>> {
    let typed = EndpointPolicy::decode(policy)?;
    check_needs(env, &needs::of_endpoint_policy(policy))?;
    match &typed {
        EndpointPolicy::PortMapping(mapping) => host_port(mapping).map(|_| ())?,
        EndpointPolicy::ProviderAddress(provider) => {
            check_address("ProviderAddress", "ProviderAddress", &provider.provider_address)?;
        }
        EndpointPolicy::SdnRoute(route) => {
            check_prefix("SDNRoute", "DestinationPrefix", &route.destination_prefix)?;
        }
        EndpointPolicy::Acl(acl) => check_acl("ACL", acl)?,
        EndpointPolicy::TierAcl(tier) => {
            for rule in &tier.rules {
                let lists = rule.matching().map(|_| ());
                lists.map_err(|error| refuse(HResult::INVALID_POLICY, format!("policy TierAcl: {error}")))?;
            }
        }
        EndpointPolicy::Unknown(_) => return Ok(None),
        _ => {}
    }
    Ok(Some(typed.type_name().into_owned()))
}

fn admit_network(env: &Env, policy: &Policy) -> Result<Option<String>> {
    let typed = NetworkPolicy::decode(policy)?;
    check_needs(env, &needs::of_network_policy(policy))?;
    match &typed {
        NetworkPolicy::RemoteSubnetRoute(route) => {
            check_prefix("RemoteSubnetRoute", "DestinationPrefix", &route.destination_prefix)?;
            check_address("RemoteSubnetRoute", "ProviderAddress", &route.provider_address)?;
        }
        NetworkPolicy::Acl(acl) => check_acl("NetworkACL", acl)?,
        NetworkPolicy::Unknown(_) => return Ok(None),
        _ => {}
    }
    Ok(Some(typed.type_name().into_owned()))
}

fn check_needs(env: &Env, needs: &[Need]) -> Result<()> {
    match needs::missing(needs, env.features) {
        None => Ok(()),
        Some(need) => {
            let detail = format!("{need}; this is {}", env.version);
            Err(refuse(HResult::INVALID_POLICY_TYPE, detail))
        }
    }
}

fn invalid(name: &str, field: &str, problem: &str) -> hcn::Error {
    refuse(HResult::INVALID_POLICY, format!("policy {name}: {field} {problem}"))
}

fn check_address(name: &str, field: &str, text: &str) -> Result<()> {
    match text.parse::<IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) if text.is_empty() => Err(invalid(name, field, "is absent")),
        Err(_) => Err(invalid(name, field, &format!("{text:?} is not an address"))),
    }
}

fn check_prefix(name: &str, field: &str, text: &str) -> Result<()> {
    match text.parse::<IpNet>() {
        Ok(_) => Ok(()),
        Err(_) if text.is_empty() => Err(invalid(name, field, "is absent")),
        Err(_) => Err(invalid(name, field, &format!("{text:?} is not a CIDR"))),
    }
}

fn check_acl(name: &str, acl: &Acl) -> Result<()> {
    match &acl.action {
        Some(action) if action.is_known() => {}
        Some(action) => return Err(invalid(name, "Action", &format!("{action} is not known"))),
        None => return Err(invalid(name, "Action", "is absent")),
    }
    match &acl.direction {
        Some(direction) if direction.is_known() => {}
        Some(direction) => return Err(invalid(name, "Direction", &format!("{direction} is not known"))),
        None => return Err(invalid(name, "Direction", "is absent")),
    }
    let lists = acl.matching().map(|_| ());
    lists.map_err(|error| refuse(HResult::INVALID_POLICY, format!("policy {name}: {error}")))
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
                r#"{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","LocalPorts":"80-x"}}"#,
                HResult::INVALID_POLICY,
                "80-x",
            ),
            (
                On::Endpoint,
                r#"{"Type":"TierAcl","Settings":{"Name":"t","TierAclRules":[{"RemoteAddresses":"10.0.0"}]}}"#,
                HResult::INVALID_POLICY,
                "10.0.0",
            ),
            (
                On::Endpoint,
                r#"{"Type":"QOS","Settings":{"MaximumOutgoingBandwidthInBytes":"fast"}}"#,
                HResult::INVALID_POLICY,
                "MaximumOutgoing",
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
