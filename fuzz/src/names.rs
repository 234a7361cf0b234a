//! Messages to a cluster's DNS server. An input is a byte that chooses the transport, then the message.

use std::net::IpAddr;
use std::sync::LazyLock;

use hickory_proto::op::{Message, MessageType, ResponseCode};
use lab::dns::{self, Data, Zone};
use node::app::Transport;

use crate::Verdict;

/// Every kind of data, a name with more addresses than a datagram takes, aliases that lead on, outside and in a circle.
static ZONE: LazyLock<Zone> = LazyLock::new(|| {
    let mut zone = Zone::default();
    let web = "web.shop.svc.cluster.local";
    let alias = |target: &str| Data::Alias(target.to_owned());
    zone.add(web, Data::Address(IpAddr::from([10, 96, 0, 20])));
    zone.add(web, Data::Address(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x20])));
    zone.add("_http._tcp.web.shop.svc.cluster.local", Data::Service { port: 80, target: web.to_owned() });
    zone.add("20.0.96.10.in-addr.arpa", Data::Pointer(web.to_owned()));
    zone.add("dns-version.cluster.local", Data::Text("1.1.0".to_owned()));
    zone.add("on.shop.svc.cluster.local", alias(web));
    zone.add("out.shop.svc.cluster.local", alias("example.com"));
    zone.add("circle.shop.svc.cluster.local", alias("circle.shop.svc.cluster.local"));
    // What an object says need not be a name that a message can carry.
    zone.add("wrong.shop.svc.cluster.local", alias(&"x".repeat(80)));
    for last in 0..=255 {
        zone.add("crowd.shop.svc.cluster.local", Data::Address(IpAddr::from([10, 244, 1, last])));
    }
    zone
});

/// A message to a DNS server: the answer can be read, belongs to the question and is not too long for its transport.
pub fn dns_message(data: &[u8]) -> Verdict {
    let Some((&over, request)) = data.split_first() else { return Verdict::Refused };
    let over = if over & 1 == 0 { Transport::Udp } else { Transport::Tcp };
    let Some(answer) = dns::answer(&ZONE, request, over) else { return Verdict::Refused };
    let longest = if over == Transport::Udp { dns::LONGEST_UDP } else { u16::MAX };
    assert!(answer.len() <= usize::from(longest), "{} bytes over {over}", answer.len());
    let read = Message::from_vec(&answer).expect("own answers can be read");
    assert_eq!(read.metadata.message_type, MessageType::Response);
    assert_eq!(answer.get(..2), request.get(..2), "the question's id");
    if read.metadata.response_code == ResponseCode::FormErr {
        return Verdict::Refused;
    }
    if let Ok(request) = Message::from_vec(request) {
        assert_eq!(read.queries, request.queries);
        assert_eq!(read.edns.is_some(), request.edns.is_some());
    }
    // Who is told that a name does not exist is told for how long to believe that.
    if read.metadata.response_code == ResponseCode::NXDomain {
        assert!(!read.authorities.is_empty() || read.metadata.truncation);
    }
    Verdict::Read
}
