//! Notifications and streams: in order, whole or counted, and over when one side wants it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hcn::{Guid, Hcn, Kind, Notification, NotificationKind as N};
use hns::Profile;
use hnsd::{ErrorKind, Limits, Options, Remote, StreamSink};
use serde_json::{Value, json};

use crate::world::{Raw, World};

fn listen(hcn: &dyn Hcn) -> (Receiver<(N, Option<Guid>)>, hcn::api::SubscriptionId) {
    let (sender, heard) = channel();
    let id = hcn
        .subscribe(Arc::new(move |note: &Notification| {
            // The test may be over.
            let _ = sender.send((note.kind, note.id));
        }))
        .unwrap();
    (heard, id)
}

fn namespace(hcn: &dyn Hcn) -> Guid {
    hcn.create(Kind::Namespace, None, Guid::NIL, "{}").unwrap()
}

#[test]
fn notifications_come_in_order_and_end_when_asked() {
    let world = World::new(Profile::Ws2022, Limits::default());
    let remote = world.remote("proxy");
    let (heard, subscription) = listen(&remote);
    let (others, _) = listen(&world.remote("cni"));
    let mut wanted = Vec::new();
    for _ in 0..20 {
        let id = namespace(&remote);
        remote.delete(Kind::Namespace, id).unwrap();
        wanted.extend([(N::NamespaceCreate, Some(id)), (N::NamespaceDelete, Some(id))]);
    }
    assert_eq!(heard.iter().take(wanted.len()).collect::<Vec<_>>(), wanted);
    remote.unsubscribe(subscription);
    let last = namespace(&remote);
    // The other's connection was dropped with its client: it has heard that, as the last thing.
    assert_eq!(others.iter().last(), Some((N::ServiceDisconnect, None)));
    assert_eq!(heard.iter().next(), None, "the subscriber is dropped, and heard nothing of {last}");
}

#[test]
fn a_restart_of_hns_is_told_once_and_ends_the_subscription() {
    let world = World::new(Profile::Ws2022, Limits { subscriptions: 1, ..Limits::default() });
    let remote = world.remote("proxy");
    let (heard, _) = listen(&remote);
    world.service.hns.restart(hns::Loss::None).unwrap();
    assert_eq!(heard.iter().collect::<Vec<_>>(), [(N::ServiceDisconnect, None)]);
    // The end of it is on its way when the word is heard; after an answer to a later request it has come.
    let mut subscribed = remote.subscribe(Arc::new(|_| ()));
    while let Err(error) = &subscribed {
        assert!(error.to_string().contains("too many subscriptions"), "{error}");
        subscribed = remote.subscribe(Arc::new(|_| ()));
    }
}

#[test]
fn subscriptions_of_a_connection_are_bounded() {
    let world = World::new(Profile::Ws2022, Limits { subscriptions: 2, ..Limits::default() });
    let remote = world.remote("proxy");
    let (_first, first) = listen(&remote);
    let stream = remote.stream_extension("events", &Value::Null).unwrap();
    let error = remote.subscribe(Arc::new(|_| ())).unwrap_err();
    assert!(error.to_string().contains("too many subscriptions: this connection has 2"), "{error}");
    let error = remote.stream_extension("events", &Value::Null).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooMany);
    remote.unsubscribe(first);
    let (_second, _) = listen(&remote);
    drop(stream);
    assert!(remote.stream_extension("events", &Value::Null).is_ok());
    let error = remote.stream_extension("nothing", &Value::Null).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownMethod);
    assert!(remote.stream_extension("events", &Value::Null).is_ok(), "one that failed takes no place");
}

fn sink(world: &World) -> StreamSink {
    world.service.sinks.lock().pop().unwrap()
}

#[test]
fn a_stream_ends_with_its_sink_and_says_why() {
    let world = World::new(Profile::Ws2022, Limits::default());
    let remote = world.remote("operator");
    let stream = remote.stream_extension("events", &json!({})).unwrap();
    let source = sink(&world);
    for number in 0..100 {
        source.send(&json!({ "n": number })).unwrap();
    }
    drop(source);
    let items: Vec<Value> = stream.map(|item| item.unwrap().value["n"].clone()).collect();
    assert_eq!(items, (0..100).map(Value::from).collect::<Vec<_>>());

    let mut stream = remote.stream_extension("events", &json!({})).unwrap();
    let source = sink(&world);
    source.send(&json!(1)).unwrap();
    source.fail(hnsd::CallError::failed("the switch is gone"));
    drop(source);
    assert_eq!(stream.next().unwrap().unwrap().value, 1);
    assert_eq!(stream.next().unwrap().unwrap_err().message, "the switch is gone");
    assert!(stream.next().is_none());
    assert!(stream.next_within(Duration::from_secs(1)).is_err(), "it is over");
}

#[test]
fn a_source_learns_that_its_client_is_gone() {
    let world = World::new(Profile::Ws2022, Limits::default());
    let remote = world.remote("operator");
    let kept = remote.stream_extension("events", &json!({})).unwrap();
    let source = sink(&world);
    let (closed, learnt) = channel();
    let later = closed.clone();
    source.on_close(move || closed.send("dropped").unwrap());
    assert!(!source.is_closed());
    drop(kept);
    assert_eq!(learnt.recv().unwrap(), "dropped");
    assert!(source.is_closed() && source.send(&json!(1)).is_err());
    source.on_close(move || later.send("at once").unwrap());
    assert_eq!(learnt.recv().unwrap(), "at once");

    // The same when the whole connection goes.
    let (closed, learnt) = channel();
    let stream = remote.stream_extension("events", &json!({})).unwrap();
    sink(&world).on_close(move || closed.send(()).unwrap());
    drop((stream, remote));
    learnt.recv().unwrap();
}

#[test]
fn a_slow_client_loses_events_of_a_stream_and_is_told_how_many() {
    let world = World::new(Profile::Ws2022, Limits { events: 4, ..Limits::default() });
    let mut raw = Raw::greeted(&world);
    raw.send(&json!({ "id": 3, "method": "events", "stream": true }));
    assert_eq!(raw.receive().unwrap()["id"], 3);
    let source = sink(&world);
    let event = json!("x".repeat(100_000));
    let mut sent = 0_u64;
    // The client does not read: sockets and queues fill up, then events are lost.
    while source.lost() < 10 {
        source.send(&event).unwrap();
        sent += 1;
    }
    let lost = source.lost();
    drop(source);
    let (mut came, mut told) = (0, 0);
    loop {
        let message = raw.receive().unwrap();
        assert_eq!(message["subscription"], 3);
        told += message["dropped"].as_u64().unwrap_or(0);
        if message["end"] == true {
            break;
        }
        came += 1;
    }
    assert_eq!((came + lost, told), (sent, lost));
}

#[test]
fn a_client_that_takes_no_events_counts_what_it_loses() {
    let world = World::new(Profile::Ws2022, Limits::default());
    let options = Options { events: 2, ..Options::actor("operator") };
    let remote = Remote::connect(world.unix(), options).unwrap();
    let mut stream = remote.stream_extension("events", &json!({})).unwrap();
    let source = sink(&world);
    for number in 0..10 {
        source.send(&json!(number)).unwrap();
    }
    // Events and answers come in order over one connection: what was sent before has come with this answer.
    while stream.dropped() < 8 {
        remote.call_extension("echo", &json!({})).unwrap();
    }
    assert_eq!([0, 1], [(); 2].map(|()| stream.next().unwrap().unwrap().value));
    source.send(&json!(10)).unwrap();
    let item = stream.next().unwrap().unwrap();
    assert_eq!((item.value, item.dropped), (json!(10), 8));
}

#[test]
fn a_slow_subscriber_of_hns_is_told_to_start_anew() {
    let world = World::new(Profile::Ws2022, Limits { events: 1, ..Limits::default() });
    let mut raw = Raw::greeted(&world);
    raw.send(&json!({ "id": 3, "method": "hcn.subscribe" }));
    assert_eq!(raw.receive().unwrap()["id"], 3);
    // Far more notifications than sockets and queues hold.
    for _ in 0..5_000 {
        let id = namespace(&world.service.hns);
        world.service.hns.delete(Kind::Namespace, id).unwrap();
    }
    loop {
        let message = raw.receive().unwrap();
        if message["end"] == true {
            assert_eq!(message["error"]["kind"], "lagged", "{message}");
            break;
        }
        assert_eq!(message["subscription"], 3);
    }
}

#[test]
fn an_event_that_is_too_long_is_lost_and_counted() {
    let world = World::new(Profile::Ws2022, Limits { answer_bytes: 1_000, ..Limits::default() });
    let remote = world.remote("operator");
    let mut stream = remote.stream_extension("events", &json!({})).unwrap();
    let source = sink(&world);
    source.send(&json!("x".repeat(2_000))).unwrap();
    source.send(&json!("short")).unwrap();
    let item = stream.next().unwrap().unwrap();
    assert_eq!((item.value, item.dropped), (json!("short"), 1));
}
