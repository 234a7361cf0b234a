//! Ways out of sightings that no lab was needed for.

use std::net::Ipv4Addr;
use std::time::Duration;

use lab::names::Names;
use lab::supervisor::{PodStatus, Status};
use node::app::{Answer, Outcome, Request, Transport};
use wire::TcpFlags;
use wire::build::FrameBuilder;

use super::*;

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 244, 2, 5), 50_000);
const VIP: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 96, 20, 2), 8000);
const BACKEND: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 244, 1, 7), 8000);
const STRANGER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 244, 2, 6), 50_001);

fn node(name: &str, windows: bool) -> NodeStatus {
    NodeStatus {
        name: name.to_owned(),
        windows,
        profile: None,
        namespace: String::new(),
        addresses: Vec::new(),
        hns: None,
        token: None,
        port: None,
    }
}

fn lab() -> LiveLab {
    let pod = |name: &str, node: &str, address: Ipv4Addr| PodStatus {
        name: name.to_owned(),
        node: node.to_owned(),
        namespace: String::new(),
        addresses: vec![address.into()],
        netns: None,
    };
    let status = Status {
        nodes: vec![node("linux-1", false), node("win-1", true)],
        pods: vec![pod("shop/web", "win-1", CLIENT.0), pod("shop/api", "linux-1", BACKEND.0)],
        ..Status::default()
    };
    LiveLab { names: Names::new("lab".parse().unwrap()), status }
}

type End = (Ipv4Addr, u16);

fn frame(from: End, to: End, flags: TcpFlags) -> Vec<u8> {
    FrameBuilder::eth([2; 6], [4; 6]).ipv4(from.0, to.0).tcp(from.1, to.1, flags).build()
}

/// A packet passes a port of win-1: so it came, so it went.
fn seen(
    micros: u64,
    port: &str,
    direction: Direction,
    before: (End, End),
    after: (End, End),
) -> (Role, Step) {
    let is_reply = before.0 == BACKEND;
    let (role, flags) =
        if is_reply { (Role::Reply, TcpFlags::SYN | TcpFlags::ACK) } else { (Role::Request, TcpFlags::SYN) };
    let passage = Passage {
        at: Duration::from_micros(micros),
        node: "win-1".to_owned(),
        port: port.to_owned(),
        direction,
        group: micros,
        before: frame(before.0, before.1, flags),
        after: Some(frame(after.0, after.1, flags)),
        layers: Vec::new(),
        forward: None,
        hairpin: false,
        pending: false,
        dropped: None,
    };
    (role, Step::Port(Box::new(passage)))
}

fn exchange(outcome: Outcome) -> Exchange {
    Exchange {
        request: Request::new(VIP.into(), Transport::Tcp),
        from: Some(CLIENT.into()),
        started: Duration::ZERO,
        took: Duration::ZERO,
        outcome,
    }
}

/// The machines of the steps, in order.
fn places(journey: &Journey) -> Vec<String> {
    let place = |(role, step): &(Role, Step)| match step {
        Step::Port(passage) => format!("{role:?} {} {}", passage.port, passage.direction),
        Step::Wire(crossing) => {
            format!("{role:?} wire behind {}{}", crossing.from, crossing.lost.as_deref().unwrap_or_default())
        }
        Step::Unseen(unseen) => format!("{role:?} through {}", unseen.node),
    };
    journey.steps.iter().map(place).collect()
}

#[test]
fn translated_packets_are_followed_and_others_are_left_out() {
    let (lab, client) = (lab(), Client::Pod("shop/web".to_owned()));
    let answer = Answer { server: "shop/api".to_owned(), local: BACKEND.into(), peer: CLIENT.into() };
    let exchange = exchange(Outcome::Answered(answer));
    let way = Way { lab: &lab, client: &client, exchange: &exchange };
    // As two nodes could have told it: not in the order of time.
    let told = vec![
        seen(40, "pod/shop/web", Direction::In, (BACKEND, CLIENT), (VIP, CLIENT)),
        seen(30, "external", Direction::Out, (BACKEND, CLIENT), (BACKEND, CLIENT)),
        seen(10, "pod/shop/web", Direction::Out, (CLIENT, VIP), (CLIENT, BACKEND)),
        seen(15, "pod/shop/other", Direction::Out, (STRANGER, VIP), (STRANGER, BACKEND)),
        seen(20, "external", Direction::In, (CLIENT, BACKEND), (CLIENT, BACKEND)),
        seen(25, "external", Direction::In, (STRANGER, BACKEND), (STRANGER, BACKEND)),
    ];
    let journey = way.of(told.clone(), |_| false);
    assert_eq!(
        places(&journey),
        [
            "Request pod/shop/web OUT",
            "Request external IN",
            "Request wire behind win-1",
            "Request through linux-1",
            "Reply through linux-1",
            "Reply external OUT",
            "Reply pod/shop/web IN",
        ]
    );
    let journey = way.of(told, |node| node == "win-1");
    assert_eq!(places(&journey)[2..4], ["Request wire behind win-1the link is cut", "Reply through linux-1"]);
}

#[test]
fn a_client_of_the_kernel_is_told_though_nobody_saw_its_packets() {
    let (lab, client) = (lab(), Client::Pod("shop/api".to_owned()));
    let exchange = exchange(Outcome::TimedOut);
    let way = Way { lab: &lab, client: &client, exchange: &exchange };
    assert_eq!(places(&way.of(Vec::new(), |_| false)), ["Request through linux-1"]);
    let client = Client::Pod("shop/web".to_owned());
    let way = Way { client: &client, ..way };
    assert_eq!(places(&way.of(Vec::new(), |_| false)), [""; 0]);
}
