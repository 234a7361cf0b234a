//! One plan becomes another one, with real devices: what comes works, what goes is gone, what stays is not disturbed.

use node::NetworkKind;
use node::app::{Outcome, Request, Transport};

use hcn::time::SystemClock;
use lab::exchange::Conversation;
use lab::netns::Netns;

use crate::cluster::{Twins, manifests, pod};

/// The cluster with pod s on another node, q with another address, r gone and a new pod.
fn changed() -> String {
    let gone = ["name: q,", "name: r,", "name: s,"];
    let mut objects: Vec<String> = manifests()
        .split("\n---\n")
        .filter(|object| !(object.contains("kind: Pod") && gone.iter().any(|name| object.contains(name))))
        .filter(|object| !object.contains("EndpointSlice"))
        .map(str::to_owned)
        .collect();
    objects.extend([
        pod("q", "a", &["10.50.1.66", "fd00:50:0:1::66"]),
        pod("s", "b", &["10.50.2.7", "fd00:50:0:2::7"]),
        pod("t", "c", &["10.50.3.8", "fd00:50:0:3::8"]),
    ]);
    objects.join("\n---\n")
}

fn changes(kind: NetworkKind) {
    let mut twins = Twins::new(kind);
    let clock = SystemClock::default();
    let before = Netns::list(&twins.own.names.prefix()).unwrap();
    // A connection from outside of what changes, to a pod that stays.
    let node = Netns::open(&twins.own.names.node("c")).unwrap();
    let request = Request::new("10.50.1.5:8080".parse().unwrap(), Transport::Tcp);
    assert!(matches!(twins.real("node/c", "10.50.1.5:8080", Transport::Tcp, 0), Outcome::Answered(_)));
    let mut conversation = node.run(|| Conversation::open(&request, &clock)).unwrap().unwrap();

    let plan = twins.own.plan(&changed(), kind);
    twins.change(plan);
    for pod in ["t/q", "t/s", "t/t"] {
        twins.serve(pod);
    }
    assert!(matches!(conversation.ask(1000, request.timeout, &clock), Outcome::Answered(_)));
    for (client, to, server) in [
        ("pod/t/p", "10.50.1.66:8080", "t/q"),
        ("pod/t/p", "10.50.2.7:8080", "t/s"),
        ("pod/t/s", "10.50.3.8:8080", "t/t"),
        ("pod/t/t", "10.50.1.5:8080", "t/p"),
        ("outside", "192.0.2.11:8080", ""),
    ] {
        for transport in [Transport::Tcp, Transport::Udp] {
            match twins.real(client, to, transport, 500) {
                Outcome::Answered(answer) => assert_eq!(answer.server, server, "{client} to {to}"),
                Outcome::Refused => assert_eq!(server, "", "{client} to {to}"),
                other => panic!("{client} to {to} by {transport}: {other}"),
            }
        }
    }
    let names = &twins.own.names;
    let after = Netns::list(&names.prefix()).unwrap();
    assert!(before.contains(&names.pod("t/r")) && !after.contains(&names.pod("t/r")));
    assert_eq!(after.iter().collect::<Vec<_>>(), twins.plan.namespaces.keys().collect::<Vec<_>>());
    assert_eq!(twins.record.namespaces.iter().collect::<Vec<_>>(), after.iter().collect::<Vec<_>>());
    // And back again.
    let plan = twins.own.plan(&manifests(), kind);
    twins.change(plan);
    assert_eq!(Netns::list(&twins.own.names.prefix()).unwrap(), before);
    assert!(matches!(conversation.ask(1000, request.timeout, &clock), Outcome::Answered(_)));
}

#[test]
fn pods_come_and_go_on_an_overlay() {
    changes(NetworkKind::Overlay);
}

#[test]
fn pods_come_and_go_with_routes_by_nodes() {
    changes(NetworkKind::L2Bridge);
}
