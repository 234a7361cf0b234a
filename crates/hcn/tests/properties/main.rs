//! Properties of documents and of the conversion: nothing is lost, nothing panics, printing is stable.

use hcn::v1::{self, Facts, PolicyListObject};
use hcn::{Endpoint, Kind, LoadBalancer, Namespace, Network, Policy, Query, SdnRoute};
use proptest::prelude::*;
use serde_json::Value;

mod canonical;
mod random;

use random::{TEXTS, object, value};

/// A failing case is printed whole; one worth keeping becomes an example in another file.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What is read prints, and what was printed reads as the same.
macro_rules! stable {
    ($text:expr, $($document:ty),*) => { $(
        if let Ok(document) = <$document>::parse($text) {
            let printed = document.to_json();
            let again = <$document>::parse(&printed).map_err(|e| TestCaseError::fail(format!("{e}: {printed}")))?;
            prop_assert_eq!(again.to_json(), printed);
            prop_assert_eq!(again, document);
        }
    )* };
}

/// Converting twice gives what converting once gave: the first time finds the canonical spelling. The order of
/// members is not part of it.
fn settles<T>(
    document: &T,
    there_and_back: impl Fn(&T) -> T,
    print: impl Fn(&T) -> String,
) -> Result<(), TestCaseError> {
    let first = there_and_back(document);
    let second = there_and_back(&first);
    let (first, second) = (print(&first), print(&second));
    let value = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| TestCaseError::fail(error.to_string()))
    };
    prop_assert_eq!(value(&second)?, value(&first)?);
    Ok(())
}

/// No member is written twice: what is printed reads as the document it was printed from.
macro_rules! once {
    ($document:expr, $type:ty) => {{
        let document = $document;
        prop_assert_eq!(&<$type>::parse(&document.to_json()).unwrap(), &document);
        document
    }};
}

/// Runs everything that takes text from outside.
fn read_everything(text: &str) -> Result<(), TestCaseError> {
    stable!(text, Network, Endpoint, Namespace, LoadBalancer, SdnRoute, Policy, Query);
    stable!(
        text,
        v1::Network,
        v1::Endpoint,
        v1::Namespace,
        v1::PolicyList,
        v1::AttachRequest,
        v1::EndpointStats
    );
    for kind in Kind::ALL {
        let _ = v1::is_v1(kind, text);
    }
    let _ = v1::read_network(text).map(|document| hcn::needs::of_network(&document));
    let _ = v1::read_endpoint(text).map(|document| hcn::needs::of_endpoint(&document));
    let _ = v1::read_load_balancer(text)
        .map(|document| (document.frontends(), hcn::needs::of_load_balancer(&document)));
    let _ = (v1::read_namespace(text), v1::read_route(text));
    let _ = Query::from_text(text).and_then(|query| query.filter_properties());
    let _ = hcn::policy::acl::addresses("RemoteAddresses", text);
    let _ = hcn::policy::acl::ports("RemotePorts", text);
    let _ = hcn::policy::acl::protocols("Protocols", text);
    let _ = text.parse::<hcn::Mac>();
    let _ = text.parse::<hcn::Guid>();
    Ok(())
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn unknown_members_survive_to_the_byte(
        members in prop::collection::vec(("[k-z]{1,6}|\u{e9}|\"|\\\\", value(), any::<bool>()), 0..8)
    ) {
        // Made-up names; values printed compact or with white space, which must survive.
        let mut text = String::new();
        for (name, value, pretty) in &members {
            let value = if *pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
            let name = Value::from(format!("?{name}")).to_string();
            let comma = if text.is_empty() { "" } else { "," };
            text = format!("{text}{comma}{name}:{}", value.unwrap());
        }
        let text = format!("{{{text}}}");
        prop_assert_eq!(Network::parse(&text).unwrap().to_json(), text.clone());
        prop_assert_eq!(Endpoint::parse(&text).unwrap().to_json(), text.clone());
        prop_assert_eq!(LoadBalancer::parse(&text).unwrap().to_json(), text.clone());
        prop_assert_eq!(v1::Network::parse(&text).unwrap().to_json(), text.clone());
        // They also survive the conversion and back.
        let there = v1::network_from_v2(&Network::parse(&text).unwrap(), &Facts::default());
        prop_assert_eq!(v1::network_to_v2(&there).to_json(), text);
    }

    #[test]
    fn documents_of_known_names_print_stably(document in object()) {
        read_everything(&document.to_string())?;
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,64}|[\\[\\]{}:,\"0-9a-z\\\\.+-]{0,64}") {
        read_everything(&text)?;
    }

    #[test]
    fn broken_documents_are_read_or_refused(document in object(), at in any::<prop::sample::Index>(), with in any::<char>()) {
        let mut text: Vec<char> = document.to_string().chars().collect();
        let at = at.index(text.len());
        text[at] = with;
        read_everything(&text.iter().collect::<String>())?;
        read_everything(&text[..at].iter().collect::<String>())?;
    }

    #[test]
    fn conversions_settle(document in object()) {
        let text = &document.to_string();
        let none = &Facts::default();
        if let Ok(old) = v1::Network::parse(text) {
            once!(v1::network_to_v2(&old), Network);
            settles(&old, |old| v1::network_from_v2(&v1::network_to_v2(old), &Facts::of_network(old)), v1::Network::to_json)?;
        }
        if let Ok(old) = v1::Endpoint::parse(text) {
            once!(v1::endpoint_to_v2(&old), Endpoint);
            settles(&old, |old| v1::endpoint_from_v2(&v1::endpoint_to_v2(old), &Facts::of_endpoint(old)), v1::Endpoint::to_json)?;
        }
        if let Ok(old) = v1::Namespace::parse(text) {
            once!(v1::namespace_to_v2(&old), Namespace);
            settles(&old, |old| v1::namespace_from_v2(&v1::namespace_to_v2(old), &Facts::of_namespace(old)), v1::Namespace::to_json)?;
        }
        if let Ok(new) = Network::parse(text) {
            once!(v1::network_from_v2(&new, none), v1::Network);
            settles(&new, |new| v1::network_to_v2(&v1::network_from_v2(new, none)), Network::to_json)?;
        }
        if let Ok(new) = Endpoint::parse(text) {
            once!(v1::endpoint_from_v2(&new, none), v1::Endpoint);
            settles(&new, |new| v1::endpoint_to_v2(&v1::endpoint_from_v2(new, none)), Endpoint::to_json)?;
        }
        if let Ok(new) = Namespace::parse(text) {
            once!(v1::namespace_from_v2(&new, none), v1::Namespace);
            settles(&new, |new| v1::namespace_to_v2(&v1::namespace_from_v2(new, none)), Namespace::to_json)?;
        }
        if let Ok(new) = LoadBalancer::parse(text) {
            let list = once!(v1::policy_list_from_load_balancer(&new, none), v1::PolicyList);
            let Ok(PolicyListObject::LoadBalancer(back)) = v1::policy_list_to_v2(&list) else {
                return Err(TestCaseError::fail("a load balancer does not come back as one"));
            };
            once!(back.clone(), LoadBalancer);
            prop_assert_eq!(v1::policy_list_from_load_balancer(&back, &Facts::of_policy_list(&list)), list);
        }
        if let Ok(new) = SdnRoute::parse(text) {
            let list = once!(v1::policy_list_from_route(&new, none), v1::PolicyList);
            match v1::policy_list_to_v2(&list) {
                Ok(PolicyListObject::SdnRoute(back)) => {
                    once!(back.clone(), SdnRoute);
                    prop_assert_eq!(v1::policy_list_from_route(&back, &Facts::of_policy_list(&list)), list);
                }
                Ok(other) => prop_assert!(false, "{:?}", other),
                // A route without settings is a list without policies, which is nothing.
                Err(error) => prop_assert!(new.settings().is_empty(), "{}", error),
            }
        }
    }

    #[test]
    fn policies_settle(policy in object(), kind in prop::sample::select(TEXTS)) {
        let Value::Object(mut members) = policy else { unreachable!("made as an object") };
        members.insert("Type".to_owned(), kind.into());
        let text = Value::Object(members).to_string();
        if let Ok(policy) = Policy::parse(&text) {
            settles(&policy, |policy| v1::policy_from_v2(&v1::policy_to_v2(policy)), Policy::to_json)?;
            settles(&policy, |policy| v1::policy_to_v2(&v1::policy_from_v2(policy)), Policy::to_json)?;
        }
    }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn canonical_v1_networks_come_back_exactly(old in canonical::network()) {
        let back = v1::network_from_v2(&v1::network_to_v2(&old), &Facts::of_network(&old));
        prop_assert_eq!(back.to_json(), old.to_json());
    }

    #[test]
    fn canonical_v1_endpoints_come_back_exactly(old in canonical::endpoint()) {
        let back = v1::endpoint_from_v2(&v1::endpoint_to_v2(&old), &Facts::of_endpoint(&old));
        prop_assert_eq!(back.to_json(), old.to_json());
    }

    #[test]
    fn load_balancers_come_back_exactly(new in canonical::balancer()) {
        let old = v1::policy_list_from_load_balancer(&new, &Facts::default());
        match v1::policy_list_to_v2(&old) {
            Ok(PolicyListObject::LoadBalancer(back)) => prop_assert_eq!(back.to_json(), new.to_json()),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
