//! Names over the responder's sockets.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use lab::dns::{Data, Zone};
use lab::responder::Service;
use node::app::Transport;

use crate::Served;

fn question(name: &str) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    message
}

fn read_over_tcp(stream: &mut TcpStream) -> Message {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).unwrap();
    Message::from_vec(&bytes).unwrap()
}

#[test]
fn names_are_answered_over_both_transports_as_the_zone_is_now() {
    let mut served = Served::nothing();
    let ports = [Transport::Tcp, Transport::Udp].map(|transport| {
        let mut port = served.port(transport, 53);
        port.service = Service::Dns;
        port
    });
    assert!(served.set(&BTreeSet::from(ports)).is_empty());
    let socket = served.place.netns.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    socket.connect("127.0.0.1:53").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ask = |message: &Message| {
        socket.send(&message.to_vec().unwrap()).unwrap();
        let mut buffer = [0; 2_000];
        let count = socket.recv(&mut buffer).unwrap();
        Message::from_vec(&buffer[..count]).unwrap()
    };
    let web = question("web.shop.svc.cluster.local.");
    assert_eq!(ask(&web).metadata.response_code, ResponseCode::NXDomain);

    // Longer than one message between the processes.
    let mut zone = Zone::default();
    for number in 0..5_000_u32 {
        let address = IpAddr::from((0x0a60_0000 | number).to_be_bytes());
        zone.add(&format!("some-service-{number}.shop.svc.cluster.local"), Data::Address(address));
        zone.add("web.shop.svc.cluster.local", Data::Address(address));
    }
    assert!(serde_json::to_vec(&zone).unwrap().len() > 200_000);
    served.sockets().names(&zone).unwrap();
    let answer = ask(&web);
    assert!(answer.metadata.truncation && answer.answers.len() < 40, "{}", answer.answers.len());
    // Garbage gets no answer or a refusal; what follows is answered.
    socket.send(b"?").unwrap();
    assert_eq!(ask(&question("some-service-7.shop.svc.cluster.local.")).answers.len(), 1);

    let mut stream = served.place.netns.run(|| TcpStream::connect("[::1]:53")).unwrap().unwrap();
    for _ in 0..2 {
        let bytes = web.to_vec().unwrap();
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        // In pieces: the length is no message of its own.
        stream.write_all(&length).unwrap();
        stream.write_all(&bytes[..5]).unwrap();
        stream.write_all(&bytes[5..]).unwrap();
        let answer = read_over_tcp(&mut stream);
        assert_eq!(answer.metadata.id, web.metadata.id);
        assert!(answer.answers.len() > 1_000, "{}", answer.answers.len());
    }
    stream.write_all(b"\0\x01?").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "what is no message ends the connection");
}

#[test]
fn a_port_for_names_also_tells_who_answers_whom() {
    let mut served = Served::nothing();
    let ports = [Transport::Tcp, Transport::Udp].map(|transport| {
        let mut port = served.port(transport, 53);
        port.service = Service::Dns;
        port
    });
    assert!(served.set(&BTreeSet::from(ports)).is_empty());
    for (to, transport) in
        [("127.0.0.1:53", Transport::Tcp), ("[::1]:53", Transport::Tcp), ("127.0.0.1:53", Transport::Udp)]
    {
        let outcome = served.place.ask(to, transport, 700);
        let answer = outcome.answer().unwrap_or_else(|| panic!("{to} {transport}: {outcome}"));
        assert_eq!(answer.local, to.parse().unwrap());
        assert_eq!(answer.peer.ip(), answer.local.ip());
    }
    // A message that is as long as a request looks is read as one.
    let mut stream = served.place.netns.run(|| TcpStream::connect("127.0.0.1:53")).unwrap().unwrap();
    stream.write_all(b"HE").unwrap();
    stream.write_all(&vec![0; usize::from(u16::from_be_bytes(*b"HE"))]).unwrap();
    let web = question("web.shop.svc.cluster.local.").to_vec().unwrap();
    stream.write_all(&u16::try_from(web.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&web).unwrap();
    // Zeros are a question without a name, which is refused; what follows is answered.
    let mut last = read_over_tcp(&mut stream);
    if last.queries.is_empty() {
        last = read_over_tcp(&mut stream);
    }
    assert_eq!(last.metadata.response_code, ResponseCode::NXDomain);
}
