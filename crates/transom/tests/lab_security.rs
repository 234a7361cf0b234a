//! What a lab's processes may do, and who may talk to them.
#![cfg(target_os = "linux")]

mod lab_support;

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hcn::{Hcn as _, Kind, Query};
use hnsd::{Address, Options, Remote, Token};
use lab::netns::Netns;
use lab_support::Lab;
use lab_support::manifests::{Manifests, PORT};
use lab_support::tcp;
use rustix::process::{Resource, Rlimit};

/// The user that has no rights anywhere.
const NOBODY: u32 = 65_534;

fn up() -> Lab {
    let manifests = Manifests::default()
        .linux("linux-1", "192.0.2.11", "10.244.1.0/24")
        .windows("win-1", "192.0.2.12", "10.244.2.0/24")
        .pod("api", "linux-1", "10.244.1.7")
        .pod("web", "win-1", "10.244.2.5");
    Lab::up(manifests.text(), &["--without-proxy"])
}

/// A line of what the kernel says of a thread.
fn told(status: &str, key: &str) -> Vec<String> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {status}")).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn daemons_and_responders_have_no_privileges() {
    let lab = up();
    for name in ["hns-win-1", "responder"] {
        let pid = lab.process(name).pid.expect("it runs");
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let threads: Vec<PathBuf> = threads.map(|entry| entry.expect("a thread").path()).collect();
        assert!(!threads.is_empty());
        for thread in threads {
            // A thread that has ended has no privileges either.
            let Ok(status) = fs::read_to_string(thread.join("status")) else { continue };
            let nobody = vec![NOBODY.to_string(); 4];
            assert_eq!(told(&status, "Uid"), nobody, "{name}");
            assert_eq!(told(&status, "Gid"), nobody, "{name}");
            assert_eq!(told(&status, "Groups"), Vec::<String>::new(), "{name}");
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(told(&status, set), ["0000000000000000"], "{name}: {set}");
            }
            assert_eq!(told(&status, "NoNewPrivs"), ["1"], "{name}");
        }
        // Nothing that it holds leads to files of others: devices, sockets, its state, its log.
        for held in fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten() {
            let Ok(target) = fs::read_link(held.path()) else { continue };
            let own = target.starts_with(lab.names().folder())
                || target.starts_with("/dev/net/tun")
                || target == Path::new("/dev/null")
                || !target.starts_with("/");
            assert!(own, "{name} holds {} open", target.display());
        }
    }
    // They work like this, also after they were started again.
    lab.ask("shop/api", &tcp(&format!("10.244.2.5:{PORT}")));
    for name in ["hns-win-1", "responder"] {
        lab.restart(name, true);
    }
    lab.until("the pods answer again", || {
        lab.outcome("shop/api", &tcp(&format!("10.244.2.5:{PORT}"))).answer().is_some()
    });
    let pid = lab.process("hns-win-1").pid.expect("it runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    assert_eq!(told(&status, "CapEff"), ["0000000000000000"]);
}

#[test]
fn nothing_of_a_lab_is_for_other_users() {
    let lab = up();
    let mut paths = vec![lab.names().folder()];
    let (mut sockets, mut seen) = (0, 0);
    while let Some(path) = paths.pop() {
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        let mode = metadata.permissions().mode();
        assert_eq!((metadata.uid(), metadata.gid()), (0, 0), "{}", path.display());
        assert_eq!(mode & 0o022, 0, "{} may be written by others: {mode:o}", path.display());
        if metadata.file_type().is_socket() {
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
            sockets += 1;
        }
        seen += 1;
        if metadata.is_dir() {
            paths.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
    assert!(sockets >= 2 && seen > 10, "the supervisor's socket and the node's HNS: {sockets} of {seen}");
    let token = lab.names().hns_token("win-1");
    let mode = fs::metadata(&token).expect("the token is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", token.display());
}

#[test]
fn other_users_are_refused() {
    let lab = up();
    let (hns, control) = (lab.names().hns_socket("win-1"), lab.names().control());
    let token = lab.names().hns_token("win-1");
    for socket in [&hns, &control] {
        UnixStream::connect(socket).expect("root may connect");
    }
    // Privileges are a thread's own, and this one's end with it.
    let refused = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let dropped = lab::privileges::drop_all(Some(NOBODY)).expect("a thread becomes somebody else");
            assert_eq!(dropped.user, Some(NOBODY));
            let refused = [UnixStream::connect(&hns), UnixStream::connect(&control)].map(Result::err);
            let mut errors: Vec<Option<std::io::Error>> = refused.into();
            errors.push(fs::read(&token).err());
            errors.push(fs::write(lab.names().manifests().join("more.yaml"), "").err());
            errors
        });
        other.join().expect("it ends")
    });
    let kinds: Vec<Option<ErrorKind>> = refused.iter().map(|error| Some(error.as_ref()?.kind())).collect();
    assert_eq!(kinds, [Some(ErrorKind::PermissionDenied); 4], "{refused:?}");
}

#[test]
fn over_tcp_only_who_can_read_the_token_is_let_in() {
    let lab = up();
    let path = lab.names().hns_token("win-1");
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("root may read the token")).expect("it is JSON");
    let address = file["address"].as_str().expect("it says where the node listens");
    let address: SocketAddr = address.parse().expect("an address");
    assert!(address.ip().is_loopback(), "{address}");
    // The node listens on its own loopback device.
    let node = Netns::open(&lab.names().node("win-1")).expect("the node has a namespace");
    let token_file = Address::TokenFile(path);
    let connect = |address: Address, token: Option<Token>| {
        let options = Options { token, ..Options::actor("test") };
        node.run(|| Remote::connect(address, options)).expect("it can be entered")
    };
    connect(token_file, None).expect("the token lets in");
    let client = |token: Option<Token>| connect(Address::Tcp(address), token);
    for token in [None, Some(Token::new("")), Some(Token::new("0".repeat(64)))] {
        assert!(client(token.clone()).is_err(), "{token:?}");
    }
}

#[test]
fn clients_that_misbehave_do_not_stop_a_node() {
    let lab = up();
    let socket = lab.names().hns_socket("win-1");
    let connect = || UnixStream::connect(&socket).expect("the node listens");
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .expect("this test may have many files open");
    let networks = || lab.hns("win-1").enumerate(Kind::Network, &Query::all());
    let before = networks().expect("HNS answers");
    // A thousand that say nothing, some of which are sent away.
    let idle: Vec<UnixStream> = (0..1_000).map(|_| connect()).collect();
    for bytes in [vec![0xff; 64], b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![b'x'; 1 << 20]] {
        // It hangs up before all is written.
        let _ = connect().write_all(&bytes);
    }
    lab.until("HNS answers others", || networks().is_ok_and(|now| now == before));
    lab.ask("shop/api", &tcp(&format!("10.244.2.5:{PORT}")));
    drop(idle);
    assert_eq!(networks().expect("HNS answers"), before);
    assert_eq!(lab.process("hns-win-1").restarts, 0);
}
