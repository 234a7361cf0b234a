//! What is spoken on a port.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use node::app::{self, Outcome, Transport};

use crate::{Served, answered};

impl Served {
    fn connect(&self) -> TcpStream {
        self.place.netns.run(|| TcpStream::connect("127.0.0.1:80")).unwrap().unwrap()
    }

    /// Says something, ends, and reads all that comes.
    fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    fn say_text(&self, text: &str) -> String {
        String::from_utf8(self.say(text.as_bytes())).unwrap()
    }
}

#[test]
fn requests_of_both_families_and_transports_are_answered_whole() {
    let served = Served::pod();
    for transport in [Transport::Tcp, Transport::Udp] {
        for (to, peer) in [("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "::1")] {
            for payload in [0, 1, 60_000] {
                let outcome = served.place.ask(to, transport, payload);
                assert!(answered(&outcome, "shop/web-1", to, peer), "{transport} {to} {payload}: {outcome}");
            }
        }
    }
    let outcome = served.place.ask("127.0.0.1:80", Transport::Tcp, 200_000_000);
    assert!(answered(&outcome, "shop/web-1", "127.0.0.1:80", "127.0.0.1"), "{outcome}");
    let outcome = served.place.ask("127.0.0.1:80", Transport::Udp, 70_000);
    assert!(matches!(outcome, Outcome::Garbled(_)), "no datagram is that long: {outcome}");
}

#[test]
fn requests_follow_each_other_and_need_not_wait() {
    let served = Served::pod();
    let text = served.say_text("HELLO 3\nabcHELLO 0\nHELLO 2\nxy");
    let lines: Vec<&str> = text.lines().collect();
    let [one, two, three, rest] = lines[..] else { panic!("{text}") };
    let line = "shop/web-1 127.0.0.1:80 127.0.0.1:";
    assert!(one.starts_with(line) && three.starts_with(line), "{text}");
    assert_eq!((two.starts_with(&format!("abc{line}")), rest), (true, "xy"), "{text}");
}

#[test]
fn what_is_no_request_comes_back() {
    let served = Served::pod();
    let long = [b"HELLO ".to_vec(), vec![b'1'; 5_000]].concat();
    let bytes: Vec<u8> = app::filler(3_000_000).map(|byte| byte ^ 0xa5).collect();
    for garbage in [
        &b"\0"[..],
        b"G",
        b"HELL",
        b"HELLO me\nand more",
        b"HELLO -1\n",
        b"HELLO 99999999999999999999999\n",
        b"SOURCE all\nrest",
        b"SINK",
        b"\xff\xfe\n\n\n",
        &long,
        &bytes,
    ] {
        // A client that only writes at first would wait for ever for one that echoes.
        let mut stream = served.connect();
        let mut writer = stream.try_clone().unwrap();
        let owned = garbage.to_vec();
        let write = std::thread::spawn(move || {
            writer.write_all(&owned).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        write.join().unwrap();
        assert!(back == garbage, "{}", garbage.get(..30).unwrap_or(garbage).escape_ascii());
    }
    assert_eq!(served.say(b""), b"");
    // A request that stops in the middle of its payload; then something that is no request behind one.
    assert!(served.say_text("HELLO 10\nabc").ends_with("\nabc"));
    assert_eq!(served.say_text("HELLO 0\nnonsense\nmore").lines().count(), 1);
    let outcome = served.place.ask("127.0.0.1:80", Transport::Tcp, 10);
    assert!(outcome.answer().is_some(), "after all of this: {outcome}");
}

#[test]
fn bytes_are_swallowed_and_sent_for_benches() {
    let served = Served::pod();
    assert_eq!(served.say_text("SINK\n"), "0\n");
    let mut all = b"SINK\n".to_vec();
    all.resize(5 + 10_000_000, 7);
    assert_eq!(served.say(&all), b"10000000\n");
    let sent = served.say(b"SOURCE 10000000\n");
    assert!(sent.iter().copied().eq(app::filler(10_000_000)), "{}", sent.len());
    assert_eq!(served.say(b"SOURCE 0\n"), b"");
}

#[test]
fn http_tells_who_answers_whom() {
    let served = Served::pod();
    let text = served.say_text("GET /a?b=1 HTTP/1.1\r\nHost: web\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("content-type: text/plain"), "{text}");
    for line in [
        "server: shop/web-1",
        "node: win-1",
        "local: 127.0.0.1:80",
        "request: GET /a?b=1",
        "header: host: web",
        "header: x-two: 1",
        "header: x-two: 2",
    ] {
        assert!(body.lines().any(|found| found == line), "{line} in {body}");
    }
    assert!(body.contains("client: 127.0.0.1:"), "{body}");
    for request in
        ["GET /?format=json HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nAccept: application/json\r\n\r\n"]
    {
        let text = served.say_text(request);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: application/json"), "{text}");
        let account: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(account["server"], "shop/web-1");
        assert_eq!(account["local"], "127.0.0.1:80");
        assert_eq!(account["method"], "GET");
    }
    assert!(served.say_text("HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(served.say_text("GET nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn http_connections_are_kept_and_bodies_come_back() {
    let served = Served::pod();
    let stream = served.connect();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    let mut answer = |length: usize| {
        let mut head = String::new();
        while reader.read_line(&mut head).unwrap() > 2 {}
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (head, body)
    };
    for _ in 0..3 {
        writer.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        let (head, body) = answer(3);
        assert!(head.contains("content-length: 3") && body == b"ok\n", "{head}");
    }
    let body: Vec<u8> = app::filler(5_000_000).collect();
    let head = format!("POST /x HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: {}\r\n\r\n", body.len());
    let sent = body.clone();
    let write = std::thread::spawn(move || {
        writer.write_all(head.as_bytes()).unwrap();
        writer.write_all(&sent).unwrap();
        writer
    });
    let (head, back) = answer(body.len());
    write.join().unwrap();
    assert!(head.contains("content-type: a/b") && back == body, "{head}");
}
