//! Clients that do not behave. Whatever they do, another client is served.

use std::io::Write as _;
use std::time::Duration;

use hcn::Hcn;
use hns::Profile;
use hnsd::{ConnectError, ErrorKind, Limits, Options, Remote};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::world::{Raw, World};

/// As long as no test should take.
const EVER: Duration = Duration::from_hours(1);
/// Over at once.
const SHORT: Duration = Duration::from_millis(20);

fn patient() -> Limits {
    Limits { hello_time: EVER, request_time: EVER, write_time: EVER, ..Limits::default() }
}

fn world(limits: Limits) -> World {
    World::new(Profile::Ws2022, limits)
}

fn serves(world: &World) {
    world.remote("proxy").version().unwrap();
}

#[test]
fn garbage_instead_of_a_hello_ends_the_connection_with_a_word() {
    let world = world(patient());
    for (bytes, part) in [
        (&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "longer than the 4096 bytes"),
        (b"\x04\0\0\0null", "must be a hello"),
        (b"\x03\0\0\0\xff\xff\xff", "must be a hello"),
        (b"\0\0\0\0", "no bytes"),
        (b"\xff\xff\xff\xff", "4294967295 bytes"),
    ] {
        let mut raw = Raw::connect(&world);
        raw.stream.write_all(bytes).unwrap();
        let (kind, message) = raw.last_words();
        assert_eq!(kind, "invalid");
        assert!(message.contains(part), "{message}");
    }
    for (hello, part) in [
        (json!({ "hello": { "versions": [0, 2], "actor": "x" } }), "versions [0, 2] of the protocol"),
        (json!({ "hello": { "versions": [], "actor": "x" } }), "1 is"),
        (json!({ "hello": { "versions": [1] } }), "missing field `actor`"),
        (json!({ "hello": { "versions": [1], "actor": "" } }), "1 to 128 bytes"),
        (json!({ "hello": { "versions": [1], "actor": "x".repeat(129) } }), "this one 129"),
        (json!({ "id": 1, "method": "hcn.version" }), "must be a hello"),
    ] {
        let mut raw = Raw::connect(&world);
        raw.send(&hello);
        let (_, message) = raw.last_words();
        assert!(message.contains(part), "{message}");
    }
    serves(&world);
}

#[test]
fn an_oversized_frame_ends_the_connection_before_its_bytes_come() {
    let world = world(Limits { request_bytes: 1000, ..patient() });
    let mut raw = Raw::greeted(&world);
    raw.stream.write_all(&1001_u32.to_le_bytes()).unwrap();
    let (kind, message) = raw.last_words();
    assert_eq!(kind, "invalid");
    assert!(message.contains("1001 bytes is longer than the 1000 bytes"), "{message}");
    let mut raw = Raw::greeted(&world);
    raw.stream.write_all(b"\x02\0\0\0{}").unwrap();
    assert!(raw.last_words().1.contains("not a request"));
    serves(&world);
}

#[test]
fn a_connection_without_a_hello_is_closed_in_time() {
    let world = world(Limits { hello_time: SHORT, ..patient() });
    for bytes in [&b""[..], b"\x10\0", b"\x10\0\0\0{\"hel"] {
        let mut raw = Raw::connect(&world);
        raw.stream.write_all(bytes).unwrap();
        let (kind, message) = raw.last_words();
        assert_eq!(kind, "refused");
        assert!(message.contains("no hello within 0.02 s"), "{message}");
    }
    // Who has said it may be idle.
    let mut idle = Raw::greeted(&world);
    Raw::connect(&world).last_words();
    idle.send(&json!({ "id": 1, "method": "hcn.version" }));
    assert_eq!(idle.receive().unwrap()["id"], 1);
}

#[test]
fn half_a_request_and_then_silence_ends_the_connection_in_time() {
    let world = world(Limits { request_time: SHORT, ..patient() });
    for bytes in [&b"\x10"[..], b"\x10\0\0\0{\"id"] {
        let mut raw = Raw::greeted(&world);
        raw.stream.write_all(bytes).unwrap();
        let (_, message) = raw.last_words();
        assert!(message.contains("not whole within 0.02 s"), "{message}");
    }
    serves(&world);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let world = world(Limits { write_time: SHORT, ..patient() });
    let mut raw = Raw::greeted(&world);
    let request =
        hnsd::frame::encode(&json!({ "id": 1, "method": "echo", "params": "x".repeat(60_000) }), usize::MAX)
            .unwrap();
    // The server neither keeps the answers nor reads on without end: at some point it hangs up.
    let mut written = 0_u64;
    while raw.stream.write_all(&request).is_ok() {
        written += 1;
        assert!(written < 10_000, "600 MB were taken");
    }
    serves(&world);
}

#[test]
fn a_thousand_idle_clients_do_not_stop_service() {
    // Both ends of every connection are in this process.
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = 4_096;
    assert!(maximum.is_none_or(|maximum| maximum >= wanted), "this test needs {wanted} descriptors");
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
    let world = world(patient());
    let idle: Vec<Raw> = (0..1_000).map(|_| Raw::greeted(&world)).collect();
    // And some that have not even said hello.
    let silent: Vec<Raw> = (0..200).map(|_| Raw::connect(&world)).collect();
    let remote = world.remote("proxy");
    for _ in 0..100 {
        remote.version().unwrap();
    }
    serves(&world);
    // They were not forgotten.
    for (id, mut raw) in idle.into_iter().enumerate() {
        raw.send(&json!({ "id": id, "method": "hcn.version" }));
        assert_eq!(raw.receive().unwrap()["id"], id);
    }
    drop(silent);
}

#[test]
fn a_client_too_many_is_told_and_the_next_is_let_in_when_one_goes() {
    let world = world(Limits { clients: 2, ..patient() });
    let first = world.remote("one");
    let second = Raw::greeted(&world);
    match Remote::connect(world.unix(), Options::default()) {
        Err(ConnectError::Refused { error, .. }) => {
            assert_eq!(error.kind, ErrorKind::TooMany);
            assert!(error.message.contains("too many clients: 2"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    first.version().unwrap();
    drop(second);
    let third = Remote::new(world.unix(), Options::default());
    // The server notices in its own time that a client is gone.
    while let Err(error) = third.version() {
        assert!(error.to_string().contains("too many clients"), "{error}");
    }
}

#[test]
fn newcomers_take_no_clients_place_and_are_bounded() {
    let world = world(Limits { newcomers: 2, ..patient() });
    let remote = world.remote("proxy");
    let silent = [Raw::connect(&world), Raw::connect(&world)];
    let (kind, message) = Raw::connect(&world).last_words();
    assert_eq!(kind, "too-many");
    assert!(message.contains("2 clients that have not said hello"), "{message}");
    remote.version().unwrap();
    // Each socket has its own newcomers.
    let port = hnsd::Address::TokenFile(world.token_file());
    Remote::connect(port, Options::default()).unwrap().version().unwrap();
    drop(silent);
}

#[test]
fn requests_in_one_piece_or_byte_by_byte_are_the_same() {
    let world = world(patient());
    let mut raw = Raw::greeted(&world);
    let mut bytes = Vec::new();
    for id in 0..20 {
        bytes.extend(hnsd::frame::encode(&json!({ "id": id, "method": "hcn.version" }), 1000).unwrap());
    }
    raw.stream.write_all(&bytes).unwrap();
    for byte in &bytes {
        raw.stream.write_all(std::slice::from_ref(byte)).unwrap();
    }
    let mut ids: Vec<u64> = (0..40).map(|_| raw.receive().unwrap()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..20).flat_map(|id| [id, id]).collect::<Vec<_>>());
}
