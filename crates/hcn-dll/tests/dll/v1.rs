//! `HNSCall`.

use hcn::HResult;

use crate::world::{World, code, taken, with_text};

fn hns_call(
    world: &World,
    method: Option<&str>,
    path: Option<&str>,
    body: Option<&str>,
) -> Result<String, HResult> {
    let mut out = std::ptr::null_mut();
    let answer = with_text(method, |method| {
        with_text(path, |path| {
            with_text(body, |body| unsafe { world.dll.hns_call(method, path, body, &raw mut out) })
        })
    });
    let answer = code(answer);
    let text = taken(out);
    assert_eq!(text.is_some(), !answer.is_failure());
    text.ok_or(answer)
}

#[test]
fn v1_calls_cross_as_they_are() {
    let world = World::new();
    for body in [None, Some("")] {
        let answer = hns_call(&world, Some("GET"), Some("/globals/version"), body).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["Success"], true, "{answer}");
        assert!(answer["Output"]["Major"].is_number(), "{answer}");
    }
    let body = r#"{"Name":"größe","Type":"NAT","Subnets":[{"AddressPrefix":"192.168.100.0/24","GatewayAddress":"192.168.100.1"}]}"#;
    let made = hns_call(&world, Some("POST"), Some("/networks/"), Some(body)).unwrap();
    assert!(made.contains("größe"), "{made}");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let path = format!("/networks/{}", made["Output"]["ID"].as_str().unwrap());
    hns_call(&world, Some("DELETE"), Some(&path), None).unwrap();
    // Refused either by an envelope or by a code, as the server has it.
    match hns_call(&world, Some("GET"), Some(&path), None) {
        Ok(text) => assert!(text.contains("\"Success\":false"), "{text}"),
        Err(code) => assert_eq!(code, HResult::NETWORK_NOT_FOUND),
    }
}

#[test]
fn what_is_no_call_is_refused() {
    let world = World::new();
    for (method, path) in [
        (Some("PUT"), Some("/networks/")),
        (Some(""), Some("/")),
        (None, Some("/networks/")),
        (Some("GET"), None),
    ] {
        let refused = hns_call(&world, method, path, None).unwrap_err();
        assert_eq!(refused, HResult::INVALID_PARAMETER, "{method:?} {path:?}");
    }
}
