//! Notifications: who is told, from which thread, until when; and that telling never hangs, crashes or leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};

use hcn::api::{NotificationSink, SubscriptionId};
use hcn::{Guid, HResult, Hcn, Kind, Notification, NotificationKind};
use hcn_fake_dll::{Fake, Rule, Words};
use hcn_windows::Options;
use parking_lot::Mutex;

use crate::{all_is_back, open};

const CREATED: u32 = NotificationKind::NetworkCreate as u32;
const DISCONNECT: u32 = NotificationKind::ServiceDisconnect as u32;

fn recorder() -> (NotificationSink, Receiver<Notification>) {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sink = move |note: &Notification| {
        // Nobody listens any more when a test has ended.
        let _ = sender.lock().send(note.clone());
    };
    (Arc::new(sink), receiver)
}

/// Ends of registrations that go on a thread of their own are soon over; a hang shows as one.
fn settle(fake: &Fake) {
    while fake.counts().live_registrations > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_happens_is_told_until_the_subscription_ends() {
    let (fake, hns) = open(Options::default());
    let (sink, told) = recorder();
    let subscription = hns.subscribe(sink).unwrap();
    let id = hns.create(Kind::Network, None, Guid::NIL, r#"{"Name":"nat","Type":"NAT"}"#).unwrap();
    let notes: Vec<Notification> = told.try_iter().collect();
    let kinds: Vec<NotificationKind> = notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NotificationKind::NetworkPreCreate, NotificationKind::NetworkCreate]);
    assert_eq!(notes[1].id, Some(id));
    assert!(notes[1].data.contains(&id.to_string()), "{notes:?}");
    hns.unsubscribe(subscription);
    hns.delete(Kind::Network, id).unwrap();
    assert_eq!(told.try_iter().count(), 0);
    all_is_back(&fake, "a subscription");
    // Over, unknown, and twice: no error.
    hns.unsubscribe(subscription);
    hns.unsubscribe(SubscriptionId(0));
    hns.unsubscribe(SubscriptionId(u64::MAX));
    all_is_back(&fake, "ends of no subscription");
}

#[test]
fn odd_notifications_are_told_as_far_as_they_can_be() {
    let (fake, hns) = open(Options::default());
    let (sink, told) = recorder();
    hns.subscribe(sink).unwrap();
    let id = "0badcafe-0000-4000-8000-00000000000a";
    let text = |text: &str| Words::Text(text.to_owned());
    for (kind, data, wanted) in [
        (CREATED, text(&format!(r#"{{"ID":"{id}"}}"#)), Some(Some(id))),
        (CREATED, text(&format!(r#"{{"Flags":0,"Id":"{}"}}"#, id.to_uppercase())), Some(Some(id))),
        (CREATED, Words::Null, Some(None)),
        (CREATED, text(""), Some(None)),
        (CREATED, text("{"), Some(None)),
        (CREATED, text(r#"{"ID":"x"}"#), Some(None)),
        (CREATED, Words::Units(vec![0xD800]), Some(None)),
        (CREATED | 0x8000_0000, Words::Null, Some(None)),
        (0, Words::Null, None),
        (0x0A, Words::Null, None),
        (u32::MAX, Words::Null, None),
    ] {
        for thread in [true, false] {
            fake.notify(kind, data.clone(), thread);
            let note = told.try_recv().ok();
            let wanted = wanted.map(|id| id.map(|id| id.parse::<Guid>().unwrap()));
            assert_eq!(note.map(|note| note.id), wanted, "{kind:#x} {data:?}");
        }
    }
    drop(hns);
    all_is_back(&fake, "the last clone is gone");
}

#[test]
fn a_receiver_that_panics_harms_nobody() {
    let (fake, hns) = open(Options::default());
    let (sink, told) = recorder();
    let panics = hns.subscribe(Arc::new(|_: &Notification| panic!("on purpose"))).unwrap();
    let hears = hns.subscribe(sink).unwrap();
    for thread in [true, false] {
        fake.notify(CREATED, Words::Null, thread);
        assert_eq!(told.try_iter().count(), 1);
    }
    hns.unsubscribe(panics);
    hns.unsubscribe(hears);
    all_is_back(&fake, "panics");
    // A panic while the service goes: void all the same.
    hns.subscribe(Arc::new(|_: &Notification| panic!("on purpose"))).unwrap();
    fake.notify(DISCONNECT, Words::Null, true);
    settle(&fake);
    all_is_back(&fake, "a panic at the disconnect");
}

#[test]
fn a_receiver_may_unsubscribe_itself_and_others() {
    let (fake, hns) = open(Options::default());
    let (sink, told) = recorder();
    let other = hns.subscribe(sink).unwrap();
    let own: Arc<Mutex<Option<SubscriptionId>>> = Arc::default();
    let heard = Arc::new(AtomicUsize::new(0));
    let sink: NotificationSink = {
        let (hns, own, heard) = (hns.clone(), Arc::clone(&own), Arc::clone(&heard));
        Arc::new(move |_| {
            heard.fetch_add(1, Ordering::Relaxed);
            // The shared object waits for callbacks under way before a registration has ended: this one is.
            if let Some(own) = own.lock().take() {
                hns.unsubscribe(own);
            }
            hns.unsubscribe(other);
        })
    };
    *own.lock() = Some(hns.subscribe(sink).unwrap());
    for thread in [true, false, true] {
        fake.notify(CREATED, Words::Null, thread);
    }
    assert_eq!(heard.load(Ordering::Relaxed), 1);
    assert_eq!(told.try_iter().count(), 1, "it was told before it was unsubscribed");
    settle(&fake);
    all_is_back(&fake, "ends from within");
}

#[test]
fn a_notification_that_comes_while_the_subscription_ends_finds_nobody() {
    let (fake, hns) = open(Options::default());
    let (sink, told) = recorder();
    let subscription = hns.subscribe(sink).unwrap();
    fake.late(true);
    hns.unsubscribe(subscription);
    assert_eq!(told.try_iter().count(), 0);
    fake.late(false);
    all_is_back(&fake, "a late callback");
}

#[test]
fn a_disconnect_voids_and_one_may_subscribe_anew_from_within() {
    let (fake, hns) = open(Options::default());
    let (again, told_again) = recorder();
    let (sender, void) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sink: NotificationSink = {
        let hns = hns.clone();
        Arc::new(move |note| {
            if note.kind == NotificationKind::ServiceDisconnect {
                let anew = hns.subscribe(Arc::clone(&again)).unwrap();
                sender.lock().send(anew).unwrap();
            }
        })
    };
    let subscription = hns.subscribe(sink).unwrap();
    fake.restart();
    let anew = void.try_recv().unwrap();
    assert_ne!(anew, subscription);
    fake.notify(CREATED, Words::Null, true);
    assert_eq!(told_again.try_iter().filter(|note| note.kind == NotificationKind::NetworkCreate).count(), 1);
    assert!(void.try_recv().is_err(), "the old one heard something");
    hns.unsubscribe(subscription);
    hns.unsubscribe(anew);
    settle(&fake);
    all_is_back(&fake, "a restart of HNS");
}

#[test]
fn many_subscribe_unsubscribe_and_notify_at_once() {
    let (fake, hns) = open(Options::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let (sink, _told) = recorder();
                    let subscription = hns.subscribe(sink).unwrap();
                    hns.unsubscribe(subscription);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                fake.notify(CREATED, Words::Text("{}".to_owned()), false);
            }
        });
    });
    all_is_back(&fake, "many at once");
}

#[test]
fn subscribing_may_fail() {
    for rule in [
        Rule::of("HcnRegisterServiceCallback").fails(HResult::RPC_SERVER_UNAVAILABLE),
        Rule::of("HcnRegisterServiceCallback").fails(HResult::E_NOTIMPL),
    ] {
        let (fake, hns) = open(Options::default());
        let code = HResult(rule.result.unwrap());
        fake.rule(rule);
        let (sink, told) = recorder();
        let error = hns.subscribe(sink).unwrap_err();
        assert_eq!(error, hcn::Error::new(code).in_call("HcnRegisterServiceCallback"));
        fake.notify(CREATED, Words::Null, true);
        assert_eq!(told.try_iter().count(), 0);
        all_is_back(&fake, "a refused subscription");
    }
}

#[test]
fn a_registration_without_a_handle_is_an_error() {
    let (fake, hns) = open(Options::default());
    fake.rule(Rule { acts: false, ..Rule::of("HcnRegisterServiceCallback") });
    assert_eq!(hns.subscribe(recorder().0).unwrap_err().code, HResult::E_POINTER);
    all_is_back(&fake, "no handle");
}

#[test]
fn an_end_that_fails_is_no_error() {
    let (fake, hns) = open(Options::default());
    fake.rule(Rule::of("HcnUnregisterServiceCallback").result(HResult::RPC_CALL_FAILED.0));
    let subscription = hns.subscribe(recorder().0).unwrap();
    hns.unsubscribe(subscription);
    all_is_back(&fake, "an end that fails");
}
