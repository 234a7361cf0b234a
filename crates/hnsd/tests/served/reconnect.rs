//! A server that goes away and comes back.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use hcn::{ErrorClass, Guid, HResult, Hcn, Kind, NotificationKind};
use hns::Profile;
use hns::faults::{Fault, FaultRule};
use hns::journal::Op;
use hnsd::{Address, ErrorKind, Limits, Options, Remote};
use serde_json::json;

use crate::world::World;

#[test]
fn a_lost_connection_fails_what_is_under_way_and_the_next_call_connects_anew() {
    let mut world = World::new(Profile::Ws2022, Limits::default());
    for address in [world.unix(), Address::TokenFile(world.token_file())] {
        let remote = Remote::connect(address, Options::actor("proxy")).unwrap();
        let (sender, told) = channel();
        let subscription = remote
            .subscribe(Arc::new(move |note| {
                // The test may be over.
                let _ = sender.send(note.kind);
            }))
            .unwrap();
        let mut stream = remote.stream_extension("events", &json!({})).unwrap();
        let rule = world.service.hns.faults().add(FaultRule::new(Fault::Hang).on(Op::Delete)).unwrap();
        let hung = {
            let remote = remote.clone();
            std::thread::spawn(move || remote.delete(Kind::Network, Guid::NIL))
        };
        world.service.hns.faults().wait_until_hung(1);
        world.running.take();
        let error = hung.join().unwrap().unwrap_err();
        assert_eq!((error.code, error.class()), (HResult::RPC_CALL_FAILED, ErrorClass::Unavailable));
        assert!(error.to_string().contains("the connection to HNS was lost"), "{error}");
        assert_eq!(
            told.iter().collect::<Vec<_>>(),
            [NotificationKind::ServiceDisconnect],
            "once, then never"
        );
        assert_eq!(stream.next().unwrap().unwrap_err().kind, ErrorKind::Lost);
        assert!(stream.next().is_none());

        let error = remote.version().unwrap_err();
        assert_eq!((error.code, error.class()), (HResult::RPC_SERVER_UNAVAILABLE, ErrorClass::Unavailable));
        assert_eq!(remote.call_extension("echo", &json!({})).unwrap_err().kind, ErrorKind::Unreachable);

        world.service.hns.faults().remove(rule);
        world.service.hns.faults().release_hung();
        world.start();
        assert_eq!(remote.version().unwrap(), Profile::Ws2022.version());
        // A subscription of before is void, and its id means nothing now.
        let (sender, told) = channel();
        let again = remote
            .subscribe(Arc::new(move |note| {
                let _ = sender.send(note.kind);
            }))
            .unwrap();
        assert_ne!(again, subscription);
        remote.unsubscribe(subscription);
        remote.create(Kind::Namespace, None, Guid::NIL, "{}").unwrap();
        assert_eq!(told.recv().unwrap(), NotificationKind::NamespaceCreate);
    }
}

#[test]
fn many_threads_live_through_restarts() {
    let mut world = World::new(Profile::Ws2022, Limits::default());
    let remote = world.remote("proxy");
    let (stop, stopped) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), channel::<()>());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (remote, stop) = (remote.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut answered = 0_u32;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    match remote.version() {
                        Ok(_) => answered += 1,
                        Err(error) => assert_eq!(error.class(), ErrorClass::Unavailable, "{error}"),
                    }
                }
                answered
            })
        })
        .collect();
    for _ in 0..10 {
        assert!(world.running.take().unwrap().shutdown(Duration::from_secs(10)));
        world.start();
        // A connection that has just been closed may still take a request; the next call is on a new one.
        while let Err(error) = remote.version() {
            assert_eq!(error.code, HResult::RPC_CALL_FAILED, "{error}");
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    drop(stopped);
    for worker in workers {
        assert!(worker.join().unwrap() > 0);
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let socket = Address::Unix(folder.path().join("hns.sock"));
    let error = Remote::connect(socket.clone(), Options::default()).unwrap_err().to_string();
    assert!(error.contains(&socket.to_string()) && error.contains("is its server running?"), "{error}");
    let file = Address::TokenFile(folder.path().join("token"));
    let error = Remote::connect(file, Options::default()).unwrap_err().to_string();
    assert!(error.contains("token file") && error.contains("No such file"), "{error}");
    let lazy = Remote::new(socket, Options::default());
    let error = lazy.version().unwrap_err();
    assert_eq!(error.code, HResult::RPC_SERVER_UNAVAILABLE);
    assert!(error.to_string().contains("hns.sock"), "{error}");
}

/// A server of the test's own, which sends these bytes to whoever connects and then waits for the end.
fn impostor(folder: &tempfile::TempDir, bytes: Vec<u8>) -> Address {
    let path = folder.path().join("impostor.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    Address::Unix(path)
}

#[test]
fn whoever_does_not_speak_the_protocol_is_no_server() {
    let later = json!({ "hello": {
        "version": 2, "server": "x", "about": null,
        "limits": { "request_bytes": 1, "answer_bytes": 1, "calls": 1, "subscriptions": 1 },
    } });
    for (bytes, part) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "a frame of 1347703880 bytes"),
        (b"\x02\0\0\0{}".to_vec(), "its first frame is no hello"),
        (b"\x02\0\0\0[[".to_vec(), "is no server of HNS"),
        (hnsd::frame::encode(&later, 1_000).unwrap(), "its first frame is no hello"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let error = Remote::connect(impostor(&folder, bytes), Options::default()).unwrap_err();
        assert!(!error.may_pass());
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { patience: Duration::from_millis(20), ..Options::default() };
    let error = Remote::connect(impostor(&folder, Vec::new()), options).unwrap_err();
    assert!(error.may_pass());
    assert!(error.to_string().contains("no hello came within 0.02 s"), "{error}");
}

#[test]
fn an_answer_longer_than_a_client_takes_ends_its_connection() {
    let world = World::new(Profile::Ws2022, Limits::default());
    let options = Options { answer_bytes: 1_000, ..Options::actor("operator") };
    let remote = Remote::connect(world.unix(), options).unwrap();
    let error = remote.call_extension("echo", &json!("x".repeat(2_000))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Lost);
    assert!(error.message.contains("longer than the 1000 bytes"), "{error}");
    remote.call_extension("echo", &json!("short")).unwrap();
}
