//! What hcsshim's tests that call no service hold, and what the list of cases must be.

use std::collections::{BTreeMap, BTreeSet};

use hcn::namespace::NamespaceType;
use hcn::{ErrorClass, Feature, HResult, Namespace, Version};
use hcn_conformance::{PURE, cases};

#[test]
fn a_namespace_document_is_made_for_each_type() {
    for kind in NamespaceType::ALL {
        let namespace = Namespace { kind: Some(kind.clone()), ..Namespace::default() };
        let text = namespace.to_json();
        assert_eq!(text, format!(r#"{{"Type":"{kind}"}}"#));
        assert_eq!(Namespace::parse(&text).unwrap(), namespace);
    }
}

#[test]
fn not_found_is_told_from_every_other_error() {
    let not_found: BTreeSet<&str> = hcn::error::CODES
        .iter()
        .filter(|code| code.value.class() == ErrorClass::NotFound)
        .map(|code| code.name)
        .collect();
    assert_eq!(
        not_found.into_iter().collect::<Vec<_>>(),
        ["ERROR_NOT_FOUND", "HCN_E_ENDPOINT_NOT_FOUND", "HCN_E_NETWORK_NOT_FOUND"]
    );
    // A part that is missing does not say that the object is.
    assert_ne!(HResult::PORT_NOT_FOUND.class(), ErrorClass::NotFound);
    assert_ne!(HResult::RPC_CALL_FAILED.class(), ErrorClass::NotFound);
}

#[test]
fn feature_ranges_are_inclusive_and_may_be_two() {
    let supports = |feature: Feature, major, minor| Version::new(major, minor).supports(feature);
    for (version, wanted) in
        [((7, 1), false), ((7, 2), true), ((7, 3), true), ((8, 0), true), ((6, 9), false)]
    {
        assert_eq!(supports(Feature::AclRuleId, version.0, version.1), wanted, "{version:?}");
    }
    for (version, wanted) in [
        ((9, 2), false),
        ((9, 3), true),
        ((9, u32::try_from(i32::MAX).unwrap()), true),
        ((10, 0), false),
        ((10, 3), false),
        ((10, 4), true),
        ((11, 0), true),
    ] {
        assert_eq!(supports(Feature::Slash32EndpointPrefixes, version.0, version.1), wanted, "{version:?}");
    }
}

#[test]
fn every_test_of_hcsshim_hcn_is_held() {
    let of_hcn = |source: &str| source.starts_with("hcsshim hcn Test");
    let with_service: Vec<&str> =
        cases().iter().map(|case| case.source).filter(|source| of_hcn(source)).collect();
    let distinct: BTreeSet<&str> =
        with_service.iter().copied().chain(PURE.iter().map(|pure| pure.source)).collect();
    assert_eq!((with_service.len(), PURE.len(), distinct.len()), (75, 3, 78));
    let here = include_str!("pure.rs");
    for pure in PURE {
        assert!(here.contains(&format!("fn {}()", pure.covered_by)), "{} is not here", pure.covered_by);
    }
}

#[test]
fn names_are_unique_and_grouped() {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases() {
        *names.entry(case.name).or_default() += 1;
        assert!(case.name.contains('/') && !case.name.contains(' '), "{}", case.name);
    }
    let twice: Vec<_> = names.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
