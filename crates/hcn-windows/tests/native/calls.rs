//! Which calls are made for each function of the trait, and no others.

use hcn::api::V1Method;
use hcn::{Guid, Hcn, HcnExt, Kind, Query, Version};
use hcn_fake_dll::Fake;
use hcn_windows::{Native, Options, VerifyIds};

use crate::{all_is_back, open, over};

const NAT: &str = r#"{"Name":"nat","Type":"NAT","SchemaVersion":{"Major":2,"Minor":0}}"#;
const EMPTY: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;

const ID: Guid = Guid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_000a);
const OTHER: Guid = Guid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_000b);

#[track_caller]
fn made(fake: &Fake, wanted: &[&str]) {
    assert_eq!(fake.calls(), wanted);
}

#[test]
fn each_function_makes_the_calls_that_it_needs() {
    let (fake, hns) = open(Options::default());
    assert_eq!(hns.create(Kind::Network, None, ID, NAT).unwrap(), ID);
    made(&fake, &["HcnCreateNetwork", "HcnCloseNetwork"]);

    assert_eq!(hns.create(Kind::Endpoint, Some(ID), OTHER, EMPTY).unwrap(), OTHER);
    made(&fake, &["HcnOpenNetwork", "HcnCreateEndpoint", "HcnCloseEndpoint", "HcnCloseNetwork"]);

    assert_eq!(hns.enumerate(Kind::Endpoint, &Query::all()).unwrap(), [OTHER]);
    made(&fake, &["HcnEnumerateEndpoints"]);

    assert_eq!(hns.get::<hcn::Endpoint>(OTHER).unwrap().network, Some(ID));
    made(&fake, &["HcnOpenEndpoint", "HcnQueryEndpointProperties", "HcnCloseEndpoint"]);

    let policies = r#"{"ResourceType":"Policy","RequestType":"Update","Settings":{"Policies":[]}}"#;
    hns.modify(Kind::Endpoint, OTHER, policies).unwrap();
    made(&fake, &["HcnOpenEndpoint", "HcnModifyEndpoint", "HcnCloseEndpoint"]);

    hns.delete(Kind::Endpoint, OTHER).unwrap();
    made(&fake, &["HcnDeleteEndpoint"]);

    assert_eq!(hns.version().unwrap(), Version::new(16, 0));
    assert!(hns.call_v1(V1Method::Get, "/networks/", "").unwrap().contains("nat"));
    made(&fake, &["HNSCall", "HNSCall"]);
    all_is_back(&fake, "all functions");
}

#[test]
fn an_id_that_hns_chooses_is_learnt_from_the_handle() {
    let (fake, hns) = open(Options::default());
    let id = hns.create(Kind::Network, None, Guid::NIL, NAT).unwrap();
    made(&fake, &["HcnCreateNetwork", "HcnQueryNetworkProperties", "HcnCloseNetwork"]);
    assert!(!id.is_nil());
    assert_eq!(hns.enumerate(Kind::Network, &Query::by_name("nat")).unwrap(), [id]);
    // The network of an endpoint may stand in its document alone.
    let document = format!(r#"{{"HostComputeNetwork":"{id}","SchemaVersion":{{"Major":2,"Minor":0}}}}"#);
    let endpoint = hns.create(Kind::Endpoint, None, Guid::NIL, &document).unwrap();
    assert_eq!(hns.enumerate(Kind::Endpoint, &Query::all()).unwrap(), [endpoint]);
    let error = hns.create(Kind::Endpoint, None, Guid::NIL, EMPTY).unwrap_err();
    assert!(error.to_string().starts_with("HcnCreateEndpoint: "), "{error}");
    assert!(error.to_string().contains("HostComputeNetwork"), "{error}");
    all_is_back(&fake, "creates");
}

/// Creates an object with an id that the HNS keeps or does not.
fn namespace(hns: &Native, id: Guid) -> Guid {
    hns.create(Kind::Namespace, None, id, r#"{"Type":"Guest","SchemaVersion":{"Major":2,"Minor":0}}"#)
        .unwrap()
}

#[test]
fn ids_are_verified_as_asked() {
    let create = "HcnCreateNamespace";
    let query = "HcnQueryNamespaceProperties";
    let close = "HcnCloseNamespace";
    // A build that keeps ids: one reading is enough to know.
    let rows: [(VerifyIds, [&[&str]; 2]); 3] = [
        (VerifyIds::Never, [&[create, close], &[create, close]]),
        (VerifyIds::UntilKept, [&[create, query, close], &[create, close]]),
        (VerifyIds::Always, [&[create, query, close], &[create, query, close]]),
    ];
    for (verify_ids, wanted) in rows {
        let fake = Fake::with_switches("newest", "honour_id_parameter: true");
        let hns = over(Options { verify_ids });
        for (id, wanted) in [ID, OTHER].into_iter().zip(wanted) {
            assert_eq!(namespace(&hns, id), id, "{verify_ids:?}");
            assert_eq!(fake.calls(), wanted, "{verify_ids:?}");
        }
        all_is_back(&fake, "creates");
    }
    // A build that does not: it is read each time, and the id that counts is returned.
    let fake = Fake::with_switches("newest", "honour_id_parameter: false");
    let hns = over(Options { verify_ids: VerifyIds::UntilKept });
    for id in [ID, OTHER] {
        let created = namespace(&hns, id);
        assert_ne!(created, id);
        assert_eq!(fake.calls(), [create, query, close]);
        hns.get::<hcn::Namespace>(created).unwrap();
        fake.calls();
    }
    // Without verification the caller is told what it asked for.
    assert_eq!(namespace(&over(Options::default()), ID), ID);
    all_is_back(&fake, "creates");
}

#[test]
fn text_with_a_nul_is_refused_before_any_call() {
    let (fake, hns) = open(Options::default());
    let query = Query { filter: Some("{}".to_owned()), ..Query::all() };
    hns.enumerate(Kind::Network, &query).unwrap();
    fake.calls();
    for (error, call) in [
        (hns.create(Kind::Network, None, ID, "{\0}").unwrap_err(), "HcnCreateNetwork"),
        (hns.modify(Kind::Network, ID, "\0").unwrap_err(), "HcnModifyNetwork"),
        (hns.call_v1(V1Method::Post, "/networks/", "a\0").unwrap_err(), "HNSCall"),
        (hns.call_v1(V1Method::Get, "/net\0works/", "").unwrap_err(), "HNSCall"),
    ] {
        assert_eq!(error.code, hcn::HResult::INVALID_PARAMETER, "{error}");
        assert_eq!(error.call.as_deref(), Some(call), "{error}");
        assert!(error.to_string().contains("NUL"), "{error}");
    }
    made(&fake, &[]);
}
