//! What is made of answers that are wrong, late, odd or missing: the same [`hcn::Error`]s as any HNS gives, and nothing kept or given
//! back twice.

use hcn::api::V1Method;
use hcn::error::ErrorRecord;
use hcn::{Error, ErrorClass, Guid, HResult, Hcn, Kind, Query};
use hcn_fake_dll::{Fake, Rule, Words};
use hcn_windows::{Native, Options, VerifyIds};

use crate::{all_is_back, open};

const ID: Guid = Guid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_000a);
const MADE: Guid = Guid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_000c);
const NAT: &str = r#"{"Name":"nat","Type":"NAT","SchemaVersion":{"Major":2,"Minor":0}}"#;
const EMPTY: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;
const POLICIES: &str = r#"{"ResourceType":"Policy","RequestType":"Update","Settings":{"Policies":[]}}"#;

/// One use of the trait, with the exports that it goes through and whether each has a payload, a handle and a record.
struct Use {
    name: &'static str,
    act: fn(&Native) -> hcn::Result<()>,
    through: &'static [Export],
}

#[derive(Clone, Copy)]
struct Export {
    name: &'static str,
    payload: bool,
    handle: bool,
    record: bool,
}

const fn export(name: &'static str) -> Export {
    Export { name, payload: false, handle: false, record: true }
}

const fn with_payload(name: &'static str) -> Export {
    Export { payload: true, ..export(name) }
}

const fn with_handle(name: &'static str) -> Export {
    Export { handle: true, ..export(name) }
}

/// Network [`ID`] and endpoint [`ID`] are there.
const USES: &[Use] = &[
    Use {
        name: "enumerate",
        act: |hns| hns.enumerate(Kind::LoadBalancer, &Query::all()).map(drop),
        through: &[with_payload("HcnEnumerateLoadBalancers")],
    },
    Use {
        name: "query",
        act: |hns| hns.query(Kind::Network, ID, &Query::all()).map(drop),
        through: &[with_handle("HcnOpenNetwork"), with_payload("HcnQueryNetworkProperties")],
    },
    Use {
        name: "create",
        act: |hns| hns.create(Kind::Namespace, None, MADE, EMPTY).map(drop),
        through: &[with_handle("HcnCreateNamespace"), with_payload("HcnQueryNamespaceProperties")],
    },
    Use {
        name: "create endpoint",
        act: |hns| hns.create(Kind::Endpoint, Some(ID), MADE, EMPTY).map(drop),
        through: &[
            with_handle("HcnOpenNetwork"),
            with_handle("HcnCreateEndpoint"),
            with_payload("HcnQueryEndpointProperties"),
        ],
    },
    Use {
        name: "modify",
        act: |hns| hns.modify(Kind::Endpoint, ID, POLICIES),
        through: &[with_handle("HcnOpenEndpoint"), export("HcnModifyEndpoint")],
    },
    Use {
        name: "delete",
        act: |hns| hns.delete(Kind::Endpoint, ID),
        through: &[export("HcnDeleteEndpoint")],
    },
    Use {
        name: "v1",
        act: |hns| hns.call_v1(V1Method::Get, "/networks/", "").map(drop),
        through: &[Export { record: false, ..with_payload("HNSCall") }],
    },
];

/// A furnished HNS.
fn furnished() -> (Fake, Native) {
    let (fake, hns) = open(Options { verify_ids: VerifyIds::Always });
    hns.create(Kind::Network, None, ID, NAT).unwrap();
    hns.create(Kind::Endpoint, Some(ID), ID, EMPTY).unwrap();
    (fake, hns)
}

/// Every use with every one of its exports bent by `bend`; `wanted` says what must come of it.
fn each(
    bend: impl Fn(Export, Rule) -> Option<Rule>,
    wanted: impl Fn(Export, &hcn::Result<()>) -> Result<(), String>,
) {
    let mut tried = 0;
    for case in USES {
        for &export in case.through {
            let Some(rule) = bend(export, Rule::of(export.name)) else { continue };
            let (fake, hns) = furnished();
            fake.rule(rule.clone());
            let outcome = (case.act)(&hns);
            if let Err(problem) = wanted(export, &outcome) {
                panic!("{} with {rule:?}: {problem}: {outcome:?}", case.name);
            }
            all_is_back(&fake, &format!("{} with {rule:?}", case.name));
            tried += 1;
        }
    }
    assert!(tried > 0, "nothing was bent");
}

fn fails_with(wanted: &Error, outcome: &hcn::Result<()>) -> Result<(), String> {
    if outcome.as_ref() == Err(wanted) { Ok(()) } else { Err(format!("wanted {wanted:?}")) }
}

fn error(code: HResult, call: &'static str, detail: Option<&str>) -> Error {
    Error { code, call: Some(call.into()), detail: detail.map(str::to_owned) }
}

#[test]
fn every_use_works_unbent() {
    for case in USES {
        let (fake, hns) = furnished();
        fake.calls();
        (case.act)(&hns).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let calls = fake.calls();
        for export in case.through {
            assert!(calls.iter().any(|call| call == export.name), "{}: {calls:?}", case.name);
        }
        all_is_back(&fake, case.name);
    }
}

#[test]
fn any_failing_code_is_told_with_the_export() {
    for code in [
        HResult::RPC_CALL_FAILED,
        HResult::NETWORK_NOT_FOUND,
        HResult::E_NOTIMPL,
        HResult::ACCESS_DENIED,
        HResult(0x8123_4567),
        HResult(0xFFFF_FFFF),
    ] {
        each(
            |_, rule| Some(rule.fails(code)),
            |export, outcome| fails_with(&error(code, export.name, None), outcome),
        );
    }
}

#[test]
fn a_record_explains_a_failure() {
    let code = HResult::INVALID_ENDPOINT;
    each(
        |export, rule| {
            let record = ErrorRecord { error: "VSID is missing. ".to_owned(), ..ErrorRecord::of(code) };
            export.record.then(|| rule.fails(code).record(Words::Text(record.to_json())))
        },
        |export, outcome| fails_with(&error(code, export.name, Some("VSID is missing.")), outcome),
    );
    // What every code's record says is not said twice.
    each(
        |export, rule| {
            let record = Words::Text(ErrorRecord::of(code).to_json());
            export.record.then(|| rule.fails(code).record(record))
        },
        |export, outcome| fails_with(&error(code, export.name, None), outcome),
    );
}

#[test]
fn a_record_that_cannot_be_read_hides_no_failure() {
    let code = HResult::PORT_ALREADY_EXISTS;
    for record in [
        Words::Text("{".to_owned()),
        Words::Text("[]".to_owned()),
        Words::Text("null".to_owned()),
        Words::Text(r#"{"Success":false,"ErrorCode":-1}"#.to_owned()),
        Words::Units(vec![0xD800, 0xDC00, 0xDC00]),
        Words::Text("x".repeat(100_000)),
    ] {
        each(
            |export, rule| export.record.then(|| rule.fails(code).record(record.clone())),
            |export, outcome| match outcome {
                Err(error) if error.code == code && error.call.as_deref() == Some(export.name) => {
                    let length = error.to_string().len();
                    if length < 1500 { Ok(()) } else { Err(format!("a message of {length} bytes")) }
                }
                _ => Err("another error".to_owned()),
            },
        );
    }
    each(
        |export, rule| export.record.then(|| rule.fails(code).record(Words::Text(String::new()))),
        |export, outcome| fails_with(&error(code, export.name, None), outcome),
    );
}

#[test]
fn a_success_with_a_record_is_a_failure() {
    let record = Words::Text(ErrorRecord::of(HResult::PORT_NOT_FOUND).to_json());
    each(
        |export, rule| export.record.then(|| rule.record(record.clone())),
        |export, outcome| fails_with(&error(HResult::PORT_NOT_FOUND, export.name, None), outcome),
    );
}

#[test]
fn a_success_that_is_not_zero_is_a_success() {
    each(
        |_, rule| Some(rule.result(1)),
        |_, outcome| outcome.clone().map_err(|_| "wanted a success".to_owned()),
    );
}

#[test]
fn a_payload_that_is_missing_is_an_error() {
    each(
        |export, rule| export.payload.then(|| rule.payload(Words::Null)),
        |export, outcome| {
            let detail = "the call succeeded and handed out no answer";
            fails_with(&error(HResult::E_POINTER, export.name, Some(detail)), outcome)
        },
    );
}

#[test]
fn a_handle_that_is_missing_is_an_error() {
    each(
        |export, rule| export.handle.then(|| rule.null_handle()),
        |export, outcome| {
            let detail = "the call succeeded and handed out no handle";
            fails_with(&error(HResult::E_POINTER, export.name, Some(detail)), outcome)
        },
    );
}

#[test]
fn a_payload_beside_a_failure_is_freed() {
    let code = HResult::TIMEOUT;
    each(
        |export, rule| export.payload.then(|| rule.fails(code).payload(Words::Text("[]".to_owned()))),
        |export, outcome| fails_with(&error(code, export.name, None), outcome),
    );
}

#[test]
fn payloads_that_are_no_json_are_errors_where_they_are_read() {
    for payload in [
        Words::Text(String::new()),
        Words::Text("{".to_owned()),
        Words::Text("7".to_owned()),
        Words::Units(vec![u16::from(b'['), 0xD800]),
    ] {
        for (name, export, act) in [
            ("enumerate", "HcnEnumerateLoadBalancers", USES[0].act),
            ("create", "HcnQueryNamespaceProperties", USES[2].act),
        ] {
            let (fake, hns) = furnished();
            fake.rule(Rule::of(export).payload(payload.clone()));
            let error = act(&hns).unwrap_err();
            assert_eq!((error.code, error.call.as_deref()), (HResult::INVALID_JSON, Some(export)), "{name}");
            all_is_back(&fake, name);
        }
    }
}

#[test]
fn units_that_are_no_utf_16_are_replaced() {
    let (fake, hns) = furnished();
    let units: Vec<u16> = "{\"Name\":\"".encode_utf16().chain([0xDC00]).chain("\"}".encode_utf16()).collect();
    fake.rule(Rule::of("HcnQueryNetworkProperties").payload(Words::Units(units)));
    assert_eq!(hns.query(Kind::Network, ID, &Query::all()).unwrap(), "{\"Name\":\"\u{FFFD}\"}");
    all_is_back(&fake, "query");
}

#[test]
fn a_close_that_fails_does_not_fail_what_was_done() {
    for code in [HResult::INVALID_HANDLE, HResult::RPC_SERVER_UNAVAILABLE] {
        let (fake, hns) = furnished();
        let rule = Rule::of("HcnClose*").result(code.0);
        fake.rule(rule);
        for case in USES {
            (case.act)(&hns).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
        all_is_back(&fake, "closes that say that they failed");
    }
}

#[test]
fn errors_are_those_of_the_hns_behind() {
    let (fake, hns) = furnished();
    let absent = Guid::from_u128(1);
    for (kind, code) in [
        (Kind::Network, HResult::NETWORK_NOT_FOUND),
        (Kind::Endpoint, HResult::ENDPOINT_NOT_FOUND),
        (Kind::Namespace, HResult::ELEMENT_NOT_FOUND),
        (Kind::LoadBalancer, HResult::ELEMENT_NOT_FOUND),
        (Kind::SdnRoute, HResult::ELEMENT_NOT_FOUND),
    ] {
        let word = kind.export_word();
        let query = hns.query(kind, absent, &Query::all()).unwrap_err();
        assert!(query.is_not_found(), "{query}");
        assert_eq!(query, Error::new(code).in_call(format!("HcnOpen{word}")));
        assert_eq!(
            hns.delete(kind, absent).unwrap_err(),
            Error::new(code).in_call(format!("HcnDelete{word}"))
        );
        assert_eq!(hns.modify(kind, absent, "{}").unwrap_err().class(), ErrorClass::NotFound);
    }
    let taken = hns.create(Kind::Network, None, MADE, NAT).unwrap_err();
    assert_eq!(taken.class(), ErrorClass::AlreadyExists, "{taken}");
    all_is_back(&fake, "refusals");
}

#[test]
fn the_version_is_what_the_v1_call_says() {
    for (payload, wanted) in [
        (r#"{"Success":true,"Output":{"Major":13,"Minor":4}}"#, Ok((13, 4))),
        (r#"{"Success":true}"#, Err(HResult::INVALID_JSON)),
        (r#"{"Success":true,"Output":{"Major":"x"}}"#, Err(HResult::INVALID_JSON)),
        (r#"{"Success":false,"Error":"Element not found. "}"#, Err(HResult::ELEMENT_NOT_FOUND)),
        (r#"{"Success":false,"Error":"","ErrorCode":2151350273}"#, Err(HResult::NETWORK_NOT_FOUND)),
        ("oops", Err(HResult::INVALID_JSON)),
    ] {
        let (fake, hns) = open(Options::default());
        fake.rule(Rule::of("HNSCall").payload(Words::Text(payload.to_owned())));
        match (hns.version(), wanted) {
            (Ok(version), Ok((major, minor))) => assert_eq!((version.major, version.minor), (major, minor)),
            (Err(error), Err(code)) => {
                assert_eq!((error.code, error.call.as_deref()), (code, Some("HNSCall")), "{payload}");
            }
            (outcome, _) => panic!("{payload}: {outcome:?}, wanted {wanted:?}"),
        }
        all_is_back(&fake, payload);
    }
}
