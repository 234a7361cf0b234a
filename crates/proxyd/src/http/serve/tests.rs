//! Clients that are slow, many, or say too much.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use tokio::runtime::Runtime;

use super::*;

/// How long a limit is where it is met, and what passes for ever otherwise.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_hours(1);

/// Limits that nobody meets.
const NONE: Limits = Limits { head: LONG, connection: LONG, connections: 128 };

/// A server whose answers are `body`.
struct Served {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    runtime: Runtime,
}

impl Served {
    fn start(limits: Limits, body: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("as tokio wants it");
        let address = listener.local_addr().expect("it is bound");
        let runtime = Runtime::new().expect("threads");
        let (stop, told) = watch::channel(false);
        let handler: Handler = Arc::new(move |_| Reply::text(200, body));
        runtime.spawn(serve(listener, handler, limits, told));
        Self { address, stop, runtime }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    /// A client that has sent something.
    fn sends(&self, text: &str) -> TcpStream {
        let mut client = self.connect();
        client.write_all(text.as_bytes()).expect("it is sent");
        client
    }

    fn end(self) {
        self.stop.send_replace(true);
        self.runtime.shutdown_background();
    }
}

/// What a connection ends with that the server closes with something unread, on the one system or the other.
const RESET: [ErrorKind; 2] = [ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted];

const WHOLE: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// All that is said until the server ends the connection; one that it resets is ended too.
fn rest(mut client: TcpStream) -> String {
    let mut said = Vec::new();
    let mut part = [0; 1024];
    loop {
        match client.read(&mut part) {
            Ok(0) => break,
            Ok(length) => said.extend_from_slice(&part[..length]),
            Err(error) if RESET.contains(&error.kind()) => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8(said).expect("UTF-8")
}

/// Reads an answer up to its body.
fn answer(client: &mut TcpStream, body: &str) {
    let mut said = Vec::new();
    while !said.ends_with(body.as_bytes()) {
        let mut one = [0];
        client.read_exact(&mut one).expect("an answer");
        said.push(one[0]);
    }
    assert!(said.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn a_head_that_does_not_end_ends_the_connection() {
    // Long enough for a client to ask, however slow this machine is.
    let served = Served::start(Limits { head: Duration::from_secs(1), ..NONE }, "ok");
    let unfinished = ["", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\nA: b"];
    let clients = unfinished.map(|text| (text, served.sends(text)));
    // Neither is one kept for ever that asks nothing more.
    let silent = served.sends(WHOLE);
    for (text, client) in clients {
        let said = rest(client);
        assert!(!said.contains("200"), "{text:?}: {said}");
    }
    let said = rest(silent);
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("\r\n\r\nok"), "{said}");
    served.end();
}

#[test]
fn a_connection_ends_in_time_however_busy_it_is() {
    let served = Served::start(Limits { connection: SHORT, ..NONE }, "ok");
    let mut client = served.connect();
    // Each question is answered until the connection is closed, which a client sees when it asks or reads.
    while client.write_all(WHOLE.as_bytes()).is_ok() {
        let mut part = [0; 1024];
        match client.read(&mut part) {
            Ok(0) => break,
            Ok(length) => assert!(part[..length].starts_with(b"HTTP/1.1 200 OK"), "{part:?}"),
            Err(error) => {
                assert!(RESET.contains(&error.kind()), "{error}");
                break;
            }
        }
    }
    served.end();
}

#[test]
fn an_answer_that_nobody_reads_does_not_keep_its_connection() {
    // More than the sockets of both sides hold, so that the server cannot hand it over.
    let body: &'static str = "x".repeat(64 << 20).leak();
    let served = Served::start(Limits { connection: SHORT, head: SHORT, connections: 1 }, body);
    let lazy = served.sends(WHOLE);
    // There is one place. It becomes free although the other client is still there.
    let mut next = served.connect();
    next.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it is sent");
    assert!(rest(next).starts_with("HTTP/1.1 200 OK"));
    assert!(rest(lazy).len() < body.len(), "it was not all there");
    served.end();
}

#[test]
fn more_clients_than_there_are_places_wait() {
    let served = Served::start(Limits { connections: 2, ..NONE }, "ok");
    let mut kept = [served.sends(WHOLE), served.sends(WHOLE)];
    for client in &mut kept {
        answer(client, "ok");
    }
    let mut third = served.sends(LAST);
    third.set_read_timeout(Some(SHORT)).expect("a limit");
    let early = third.read(&mut [0; 1]).expect_err("it is not its turn");
    assert!(matches!(early.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
    third.set_read_timeout(None).expect("no limit");
    let [first, mut second] = kept;
    drop(first);
    assert!(rest(third).ends_with("ok"));
    second.write_all(LAST.as_bytes()).expect("it is kept");
    assert!(rest(second).ends_with("ok"), "the other was not troubled");
    served.end();
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let served = Served::start(NONE, "ok");
    let long = "a".repeat(HEAD + 1);
    for text in [format!("GET /{long} HTTP/1.1\r\n"), format!("GET / HTTP/1.1\r\nA: {long}\r\n")] {
        let said = rest(served.sends(&text));
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
        assert!(!said.contains("ok"), "{said}");
    }
    for text in ["\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n"] {
        let said = rest(served.sends(text));
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{text:?}: {said}");
    }
    assert!(rest(served.sends(LAST)).ends_with("ok"), "it goes on");
    served.end();
}

#[test]
fn the_end_waits_for_nobody_who_asks_nothing() {
    let served = Served::start(NONE, "ok");
    let mut idle = served.sends(WHOLE);
    answer(&mut idle, "ok");
    served.stop.send_replace(true);
    assert_eq!(rest(idle), "");
    served.end();
}
