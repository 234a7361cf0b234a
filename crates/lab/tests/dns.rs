//! The cluster's names: from objects to answers, and any bytes to no harm.
#![cfg(target_os = "linux")]

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use lab::dns::{self, Data, LONGEST_UDP, TTL, Zone};
use node::app::Transport;
use proptest::prelude::*;
use services::source::manifests::{self, Options};
use services::{Change, Cluster, IpFamily, Perspective};

const OBJECTS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIPs: [10.96.0.20, "2001:db8:96::20"]
  ports: [{name: http, port: 80}, {name: syslog, port: 514, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-1
  namespace: shop
  labels: {kubernetes.io/service-name: db, service.kubernetes.io/headless: ""}
addressType: IPv4
ports: [{name: sql, port: 15432}]
endpoints:
- {addresses: [10.244.1.5], hostname: db-0}
- {addresses: [10.244.2.5]}
- {addresses: [10.244.3.5], conditions: {ready: false}}
---
apiVersion: v1
kind: Service
metadata: {name: queue, namespace: shop}
spec: {clusterIP: None, selector: {app: queue}, ports: [{name: amqp, port: 5672, targetPort: amqp}]}
---
apiVersion: v1
kind: Pod
metadata: {name: queue-0, namespace: shop, labels: {app: queue}}
spec:
  hostname: queue-0
  subdomain: queue
  containers: [{name: q, image: q, ports: [{name: amqp, containerPort: 15672}]}]
status:
  podIPs: [{ip: 10.244.1.9}, {ip: "2001:db8:244::9"}]
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: shop}
spec: {clusterIP: None}
---
apiVersion: v1
kind: Service
metadata: {name: shopfront, namespace: legacy}
spec: {type: ExternalName, externalName: Web.Shop.svc.cluster.local.}
---
apiVersion: v1
kind: Service
metadata: {name: bank, namespace: legacy}
spec: {type: ExternalName, externalName: bank.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: loop, namespace: legacy}
spec: {type: ExternalName, externalName: loop.legacy.svc.cluster.local}
"#;

fn zone() -> Zone {
    let parsed = manifests::parse_bytes("test.yaml", OBJECTS.as_bytes(), &Options::default());
    assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
    let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
    for object in parsed.objects {
        cluster.apply(Change::Set(object));
    }
    Zone::of(&cluster)
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

fn ask(zone: &Zone, question: &Message) -> Message {
    let bytes = question.to_vec().unwrap();
    let answer = dns::answer(zone, &bytes, Transport::Tcp).expect("a question is answered");
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.id, question.metadata.id);
    assert_eq!(answer.metadata.message_type, MessageType::Response);
    answer
}

fn text(record: &Record) -> String {
    let name = |name: &Name| name.to_ascii().trim_end_matches('.').to_owned();
    let data = match &record.data {
        RData::A(address) => address.to_string(),
        RData::AAAA(address) => address.to_string(),
        RData::CNAME(target) => format!("is {}", name(&target.0)),
        RData::PTR(target) => name(&target.0),
        RData::SRV(srv) => format!("{}:{}", name(&srv.target), srv.port),
        RData::SOA(_) => "SOA".to_owned(),
        other => other.to_string(),
    };
    format!("{} {data}", name(&record.name))
}

/// The answers, or what is said instead of them.
fn told(zone: &Zone, name: &str, kind: RecordType) -> String {
    let answer = ask(zone, &question(name, kind));
    assert!(answer.all_sections().all(|record| record.ttl == TTL));
    let soa = answer.authorities.iter().map(text).collect::<Vec<_>>().join("; ");
    let answers = answer.answers.iter().map(text).collect::<Vec<_>>().join("; ");
    match (answer.metadata.response_code, answers.as_str(), soa.as_str()) {
        (ResponseCode::NoError, _, "") => answers,
        (ResponseCode::NoError, "", _) => format!("no data ({soa})"),
        (code, _, _) => format!("{answers}{code:?} ({soa})"),
    }
}

#[test]
fn names_mean_what_the_specification_says() {
    use RecordType as R;
    let zone = zone();
    let nothing = "no data (cluster.local SOA)";
    let nobody = "NXDomain (cluster.local SOA)";
    for (name, kind, expected) in [
        ("web.shop.svc.cluster.local.", R::A, "web.shop.svc.cluster.local 10.96.0.20"),
        ("web.shop.svc.cluster.local.", R::AAAA, "web.shop.svc.cluster.local 2001:db8:96::20"),
        ("WEB.Shop.svc.cluster.LOCAL.", R::A, "WEB.Shop.svc.cluster.LOCAL 10.96.0.20"),
        ("web.shop.svc.cluster.local.", R::TXT, nothing),
        (
            "_http._tcp.web.shop.svc.cluster.local.",
            R::SRV,
            "_http._tcp.web.shop.svc.cluster.local web.shop.svc.cluster.local:80",
        ),
        (
            "_syslog._udp.web.shop.svc.cluster.local.",
            R::SRV,
            "_syslog._udp.web.shop.svc.cluster.local web.shop.svc.cluster.local:514",
        ),
        ("_http._udp.web.shop.svc.cluster.local.", R::SRV, nobody),
        ("20.0.96.10.in-addr.arpa.", R::PTR, "20.0.96.10.in-addr.arpa web.shop.svc.cluster.local"),
        ("21.0.96.10.in-addr.arpa.", R::PTR, "NXDomain (in-addr.arpa SOA)"),
        (
            "0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.8.b.d.0.1.0.0.2.ip6.arpa.",
            R::PTR,
            "0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.8.b.d.0.1.0.0.2.ip6.arpa web.shop.svc.cluster.local",
        ),
        // Endpoints that are not ready have no names.
        (
            "db.shop.svc.cluster.local.",
            R::A,
            "db.shop.svc.cluster.local 10.244.1.5; db.shop.svc.cluster.local 10.244.2.5",
        ),
        ("db-0.db.shop.svc.cluster.local.", R::A, "db-0.db.shop.svc.cluster.local 10.244.1.5"),
        ("10-244-2-5.db.shop.svc.cluster.local.", R::A, "10-244-2-5.db.shop.svc.cluster.local 10.244.2.5"),
        ("10-244-3-5.db.shop.svc.cluster.local.", R::A, nobody),
        (
            "_sql._tcp.db.shop.svc.cluster.local.",
            R::SRV,
            "_sql._tcp.db.shop.svc.cluster.local db-0.db.shop.svc.cluster.local:15432; \
             _sql._tcp.db.shop.svc.cluster.local 10-244-2-5.db.shop.svc.cluster.local:15432",
        ),
        // Without slices, Pods tell.
        ("queue.shop.svc.cluster.local.", R::A, "queue.shop.svc.cluster.local 10.244.1.9"),
        (
            "queue-0.queue.shop.svc.cluster.local.",
            R::AAAA,
            "queue-0.queue.shop.svc.cluster.local 2001:db8:244::9",
        ),
        (
            "_amqp._tcp.queue.shop.svc.cluster.local.",
            R::SRV,
            "_amqp._tcp.queue.shop.svc.cluster.local queue-0.queue.shop.svc.cluster.local:15672",
        ),
        // It is there and has nothing.
        ("empty.shop.svc.cluster.local.", R::A, nothing),
        ("dns-version.cluster.local.", R::TXT, "dns-version.cluster.local 1.1.0"),
        // Aliases are followed where they lead to names that are known.
        (
            "shopfront.legacy.svc.cluster.local.",
            R::A,
            "shopfront.legacy.svc.cluster.local is web.shop.svc.cluster.local; web.shop.svc.cluster.local 10.96.0.20",
        ),
        (
            "shopfront.legacy.svc.cluster.local.",
            R::CNAME,
            "shopfront.legacy.svc.cluster.local is web.shop.svc.cluster.local",
        ),
        ("bank.legacy.svc.cluster.local.", R::A, "bank.legacy.svc.cluster.local is bank.example.com"),
        // Names that others lie below exist; what lies nowhere does not.
        ("shop.svc.cluster.local.", R::A, nothing),
        ("_tcp.web.shop.svc.cluster.local.", R::SRV, nothing),
        ("cluster.local.", R::A, nothing),
        ("cluster.local.", R::SOA, "cluster.local SOA"),
        ("web.other.svc.cluster.local.", R::A, nobody),
        // A Windows client asks for this as it is; nobody forwards it.
        ("orders.legacy.", R::A, "NXDomain ( SOA)"),
        ("notcluster.local.", R::A, "NXDomain ( SOA)"),
        (".", R::NS, "NXDomain ( SOA)"),
    ] {
        let told = told(&zone, name, kind);
        assert_eq!(told, expected, "{name} {kind}");
    }
    let looped = ask(&zone, &question("loop.legacy.svc.cluster.local.", R::A));
    assert_eq!(looped.metadata.response_code, ResponseCode::ServFail);
    let hosts = ask(&zone, &question("_sql._tcp.db.shop.svc.cluster.local.", R::SRV));
    assert_eq!(hosts.additionals.iter().map(text).collect::<Vec<_>>().len(), 2, "addresses of the hosts");
    let any = ask(&zone, &question("web.shop.svc.cluster.local.", R::ANY));
    assert_eq!(any.answers.len(), 2);
}

#[test]
fn what_is_no_plain_question_is_told() {
    let zone = zone();
    let web = || question("web.shop.svc.cluster.local.", RecordType::A);
    let code = |message: &Message| ask(&zone, message).metadata.response_code;
    let mut message = web();
    message.metadata.op_code = OpCode::Notify;
    assert_eq!(code(&message), ResponseCode::NotImp);
    let mut message = web();
    message.queries.push(message.queries[0].clone());
    assert_eq!(code(&message), ResponseCode::FormErr);
    message.queries.clear();
    assert_eq!(code(&message), ResponseCode::FormErr);
    let mut message = web();
    message.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&message), ResponseCode::Refused);
    assert_eq!(code(&question("cluster.local.", RecordType::AXFR)), ResponseCode::Refused);
    let mut message = web();
    let mut edns = Edns::new();
    edns.set_version(1);
    message.set_edns(edns);
    let answer = ask(&zone, &message);
    // The number of BADVERS is also one of a signature's.
    assert_eq!(u16::from(answer.metadata.response_code), u16::from(ResponseCode::BADVERS));
    assert!(answer.edns.is_some());

    // An answer is never answered, nor what has no header; a header with garbage behind it is.
    let mut message = web();
    message.metadata.message_type = MessageType::Response;
    assert_eq!(dns::answer(&zone, &message.to_vec().unwrap(), Transport::Udp), None);
    let bytes = web().to_vec().unwrap();
    assert_eq!(dns::answer(&zone, &bytes[..11], Transport::Udp), None);
    let answer = dns::answer(&zone, &bytes[..20], Transport::Udp).unwrap();
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
}

/// A zone with one name of so many addresses.
fn crowd(count: u32) -> Zone {
    let mut zone = Zone::default();
    for number in 0..count {
        let address = std::net::IpAddr::from((0x0a00_0000 | number).to_be_bytes());
        zone.add("crowd.shop.svc.cluster.local", Data::Address(address));
    }
    zone
}

proptest! {
    #[test]
    fn answers_fit_and_say_when_they_are_cut(count in 0_u32..2_000, edns in proptest::option::of(0_u16..), tcp: bool) {
        let zone = crowd(count.max(1));
        let mut message = question("crowd.shop.svc.cluster.local.", RecordType::A);
        if let Some(size) = edns {
            let mut edns = Edns::new();
            edns.set_max_payload(size);
            message.set_edns(edns);
        }
        let (over, limit) = if tcp {
            (Transport::Tcp, u16::MAX)
        } else {
            (Transport::Udp, edns.unwrap_or(512).clamp(512, LONGEST_UDP))
        };
        let bytes = dns::answer(&zone, &message.to_vec().unwrap(), over).unwrap();
        prop_assert!(bytes.len() <= usize::from(limit), "{} > {limit}", bytes.len());
        let answer = Message::from_vec(&bytes).unwrap();
        prop_assert_eq!(answer.edns.is_some(), edns.is_some());
        let complete = answer.answers.len() == zone.get("crowd.shop.svc.cluster.local").unwrap().len();
        prop_assert_eq!(answer.metadata.truncation, !complete);
    }

    #[test]
    fn any_bytes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), place: usize, value: u8) {
        let zone = crowd(3);
        let _ = dns::answer(&zone, &bytes, Transport::Udp);
        // Most bytes are refused at once; a question with one other byte gets further.
        bytes = question("crowd.shop.svc.cluster.local.", RecordType::A).to_vec().unwrap();
        let place = place % bytes.len();
        bytes[place] = value;
        if let Some(answer) = dns::answer(&zone, &bytes, Transport::Udp) {
            prop_assert_eq!(&answer[..2], &bytes[..2], "the question's id");
            prop_assert!(Message::from_vec(&answer).is_ok());
        }
    }

    #[test]
    fn a_zone_travels_as_it_is(names in proptest::collection::vec("[a-z]{1,8}(\\.[a-z]{1,8}){0,3}", 0..20)) {
        let mut zone = Zone::default();
        for (number, name) in (0_u16..).zip(&names) {
            zone.add(name, Data::Service { port: number, target: "host.cluster.local".to_owned() });
            zone.add(name, Data::Text(name.clone()));
        }
        let again: Zone = serde_json::from_str(&serde_json::to_string(&zone).unwrap()).unwrap();
        prop_assert_eq!(&again, &zone);
        // Whatever has a name has names above it.
        for name in zone.names() {
            let above = name.split_once('.').map(|(_, above)| above);
            prop_assert!(above.is_none_or(|above| zone.get(above).is_some()));
        }
    }
}
