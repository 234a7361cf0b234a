//! What crosses the wire comes out as it went in: documents byte for byte, errors with all that they say.

use std::sync::Arc;

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::{Error, Guid, HResult, Hcn, Kind, Query, Version};
use hnsd::{Limits, Options, Remote, Running, Server, Service};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::Value;

/// An `Hcn` that hands back what it is given, or an error, and remembers what it was asked.
#[derive(Default)]
struct Mirror {
    error: Mutex<Option<Error>>,
    asked: Mutex<Vec<String>>,
}

impl Mirror {
    fn answer<T>(&self, asked: String, value: T) -> hcn::Result<T> {
        self.asked.lock().push(asked);
        self.error.lock().clone().map_or(Ok(value), Err)
    }
}

impl Hcn for Mirror {
    fn enumerate(&self, kind: Kind, query: &Query) -> hcn::Result<Vec<Guid>> {
        self.answer(
            format!("enumerate {kind} {}", query.to_json()),
            vec![Guid::from_u128(1).upper(), Guid::NIL],
        )
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> hcn::Result<String> {
        self.answer(format!("query {kind} {id}"), query.to_json())
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> hcn::Result<Guid> {
        self.answer(format!("create {kind} {network:?} {id} {settings}"), id)
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> hcn::Result<()> {
        self.answer(format!("modify {kind} {id} {settings}"), ())
    }

    fn delete(&self, kind: Kind, id: Guid) -> hcn::Result<()> {
        self.answer(format!("delete {kind} {id}"), ())
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> hcn::Result<String> {
        self.answer(format!("{} {path}", method.as_str()), body.to_owned())
    }

    fn version(&self) -> hcn::Result<Version> {
        self.answer("version".to_owned(), Version::new(13, 4_000_000_000))
    }

    fn subscribe(&self, _sink: NotificationSink) -> hcn::Result<SubscriptionId> {
        self.answer("subscribe".to_owned(), SubscriptionId(7))
    }

    fn unsubscribe(&self, _subscription: SubscriptionId) {}
}

struct Mirrored(Arc<Mirror>);

impl Service for Mirrored {
    fn hcn(&self, _actor: &str) -> Option<Arc<dyn Hcn>> {
        Some(Arc::clone(&self.0) as Arc<dyn Hcn>)
    }

    fn about(&self) -> Value {
        Value::Null
    }
}

fn mirror() -> (Arc<Mirror>, Remote, Running, tempfile::TempDir) {
    let mirror = Arc::<Mirror>::default();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("hns.sock");
    let server = Server::new(Arc::new(Mirrored(Arc::clone(&mirror))), Limits::default());
    let running = server.unix(&socket).unwrap().start().unwrap();
    let remote = Remote::connect(hnsd::Address::Unix(socket), Options::default()).unwrap();
    (mirror, remote, running, folder)
}

/// What an `Hcn` answers to each of its calls, with the ids as they are printed.
fn answers(hcn: &dyn Hcn, settings: &str) -> Vec<hcn::Result<String>> {
    let id = Guid::from_u128(0xabc).upper();
    let query = Query { filter: Some(settings.to_owned()), ..Query::all() };
    vec![
        hcn.enumerate(Kind::SdnRoute, &query).map(|ids| format!("{ids:?}")),
        hcn.query(Kind::Network, id, &query),
        hcn.create(Kind::Endpoint, Some(id.lower()), id, settings).map(|id| id.to_string()),
        hcn.create(Kind::LoadBalancer, None, Guid::NIL, settings).map(|id| id.to_string()),
        hcn.modify(Kind::Namespace, id, settings).map(|()| String::new()),
        hcn.delete(Kind::LoadBalancer, id).map(|()| String::new()),
        hcn.call_v1(V1Method::Get, "/endpoints/", settings),
        hcn.call_v1(V1Method::Post, settings, ""),
        hcn.call_v1(V1Method::Delete, "", settings),
        hcn.version().map(|version| version.to_string()),
    ]
}

#[test]
fn any_text_crosses_byte_for_byte_both_ways() {
    let (mirror, remote, _running, _folder) = mirror();
    let plain = Mirror::default();
    proptest!(ProptestConfig::with_cases(200), |(text in proptest::collection::vec(any::<char>(), 0..60))| {
        let text: String = text.into_iter().collect();
        prop_assert_eq!(answers(&remote, &text), answers(&plain, &text));
        prop_assert_eq!(std::mem::take(&mut *mirror.asked.lock()), std::mem::take(&mut *plain.asked.lock()));
    });
}

#[test]
fn odd_documents_keep_their_spaces_numbers_and_order() {
    let (mirror, remote, _running, _folder) = mirror();
    let plain = Mirror::default();
    let large = format!("{{\"x\":\"{}\"}}", "é\\u0000".repeat(500_000));
    for text in
        ["{ \"b\":1.0,\r\n\t\"a\" : 1e400, \"b\":2 }", "", "null", "\u{0}\u{7f}\u{2028}\u{10ffff}", &large]
    {
        assert_eq!(answers(&remote, text), answers(&plain, text));
        assert_eq!(std::mem::take(&mut *mirror.asked.lock()), std::mem::take(&mut *plain.asked.lock()));
    }
}

#[test]
fn errors_are_equal_on_both_sides() {
    let (mirror, remote, _running, _folder) = mirror();
    let detail = "what \"exactly\" was wrong\nin two lines";
    let mut errors: Vec<Error> = hcn::error::CODES.iter().map(|code| code.value.into()).collect();
    errors.extend([
        Error::new(HResult(0x8BAD_F00D)).in_call("HcnCreateLoadBalancer"),
        Error::detailed(HResult::INVALID_JSON, detail),
        Error::detailed(HResult(0), "").in_call(String::new()),
        Error::detailed(HResult(u32::MAX), detail).in_call("HcnModifyNetwork"),
    ]);
    let plain = Mirror::default();
    for error in errors {
        *mirror.error.lock() = Some(error.clone());
        *plain.error.lock() = Some(error.clone());
        let came = answers(&remote, "{}");
        assert_eq!(came, answers(&plain, "{}"));
        assert!(came.iter().all(|answer| answer.as_ref() == Err(&error)));
        assert_eq!(remote.subscribe(Arc::new(|_| ())), Err(error));
    }
}
