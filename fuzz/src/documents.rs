//! HCN and HNS documents and queries: read, converted and written without loss.

use hcn::json::Extra;
use hcn::policy::endpoint::EndpointPolicy;
use hcn::policy::network::NetworkPolicy;
use hcn::policy::subnet::SubnetPolicy;
use hcn::{Kind, Query, v1};

use crate::{Verdict, keeps, text};

/// HCN v2 documents of every kind, requests and answers.
pub fn hcn_document(data: &[u8]) -> Verdict {
    let text = text(data);
    let mut verdict = Verdict::Refused;
    macro_rules! each {
        ($($document:ty),* $(,)?) => { $(
            if let Ok(read) = <$document>::parse(&text) {
                keeps(&read, <$document>::to_json, <$document>::parse);
                verdict = Verdict::Read;
            }
        )* };
    }
    each!(
        hcn::Network,
        hcn::Endpoint,
        hcn::Namespace,
        hcn::LoadBalancer,
        hcn::SdnRoute,
        hcn::Policy,
        hcn::api::V1Response,
    );
    if let Ok(policy) = hcn::Policy::parse(&text) {
        policies(&policy);
    }
    for kind in Kind::ALL {
        let _ = v1::is_v1(kind, &text);
    }
    verdict
}

/// Typed policies: whatever an envelope holds is read or refused, and an ACL's lists too.
fn policies(policy: &hcn::Policy) {
    if let Ok(EndpointPolicy::Acl(acl)) = EndpointPolicy::decode(policy) {
        let _ = acl.matching();
    }
    let _ = NetworkPolicy::decode(policy);
    let _ = SubnetPolicy::decode(policy);
}

/// HNS v1 documents. One that is converted to v2 and back is in its canonical spelling, and then stays as it is;
/// this is not asked of a document in which a member comes twice.
pub fn v1_document(data: &[u8]) -> Verdict {
    let text = text(data);
    let mut verdict = Verdict::Refused;
    if let Ok(network) = v1::Network::parse(&text) {
        let facts = v1::Facts::of_network(&network);
        let canonical = v1::network_from_v2(&v1::network_to_v2(&network), &facts);
        if !repeats(&network.extra) {
            let again = v1::network_from_v2(&v1::network_to_v2(&canonical), &facts);
            stays(&canonical.to_json(), &again.to_json());
        }
        keeps(&canonical, v1::Network::to_json, v1::Network::parse);
        verdict = Verdict::Read;
    }
    if let Ok(endpoint) = v1::Endpoint::parse(&text) {
        let facts = v1::Facts::of_endpoint(&endpoint);
        let canonical = v1::endpoint_from_v2(&v1::endpoint_to_v2(&endpoint), &facts);
        if !repeats(&endpoint.extra) {
            let again = v1::endpoint_from_v2(&v1::endpoint_to_v2(&canonical), &facts);
            stays(&canonical.to_json(), &again.to_json());
        }
        keeps(&canonical, v1::Endpoint::to_json, v1::Endpoint::parse);
        verdict = Verdict::Read;
    }
    if let Ok(namespace) = v1::Namespace::parse(&text) {
        let facts = v1::Facts::of_namespace(&namespace);
        let canonical = v1::namespace_from_v2(&v1::namespace_to_v2(&namespace), &facts);
        if !repeats(&namespace.extra) {
            let again = v1::namespace_from_v2(&v1::namespace_to_v2(&canonical), &facts);
            stays(&canonical.to_json(), &again.to_json());
        }
        keeps(&canonical, v1::Namespace::to_json, v1::Namespace::parse);
        verdict = Verdict::Read;
    }
    if let Ok(list) = v1::PolicyList::parse(&text) {
        let facts = v1::Facts::of_policy_list(&list);
        if let Some(canonical) = policy_list_there_and_back(&list, &facts) {
            if !repeats(&list.extra) {
                let again = policy_list_there_and_back(&canonical, &facts);
                stays(&canonical.to_json(), &again.map(|list| list.to_json()).unwrap_or_default());
            }
            keeps(&canonical, v1::PolicyList::to_json, v1::PolicyList::parse);
            verdict = Verdict::Read;
        }
    }
    // Either form is read by what the text looks like.
    let read = [
        v1::read_network(&text).is_ok(),
        v1::read_endpoint(&text).is_ok(),
        v1::read_namespace(&text).is_ok(),
        v1::read_load_balancer(&text).is_ok(),
        v1::read_route(&text).is_ok(),
    ];
    if read.contains(&true) { Verdict::Read } else { verdict }
}

/// Two texts of one document, whose members may stand in another order. A number that is out of any range is
/// outside what can be compared.
fn stays(before: &str, after: &str) {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(before) else { return };
    let after = serde_json::from_str::<serde_json::Value>(after).ok();
    assert_eq!(Some(value), after, "not in its canonical spelling:\n{before}");
}

/// Whether a member comes twice.
fn repeats(members: &Extra) -> bool {
    let mut names: Vec<String> = members.0.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

fn policy_list_there_and_back(list: &v1::PolicyList, facts: &v1::Facts) -> Option<v1::PolicyList> {
    Some(match v1::policy_list_to_v2(list).ok()? {
        v1::PolicyListObject::LoadBalancer(balancer) => v1::policy_list_from_load_balancer(&balancer, facts),
        v1::PolicyListObject::SdnRoute(route) => v1::policy_list_from_route(&route, facts),
    })
}

/// Queries with a filter, which is JSON within a string.
pub fn filter(data: &[u8]) -> Verdict {
    let Ok(query) = Query::from_text(&text(data)) else {
        return Verdict::Refused;
    };
    keeps(&query, Query::to_json, Query::parse);
    match query.filter_properties() {
        Ok(properties) => {
            for (name, value) in &properties.0 {
                assert!(properties.get(name).is_some(), "{name} is there");
                let _ = value.read::<String>();
            }
            Verdict::Read
        }
        Err(_) => Verdict::Refused,
    }
}
