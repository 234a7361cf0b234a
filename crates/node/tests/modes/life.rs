//! Endpoints that go, come and move, and what faults of HNS leave, seen as packets.

use std::time::Duration;

use hcn::Kind;
use hns::Loss;
use hns::faults::{Fault, FaultRule};
use hns::journal::Op;
use node::app::{Request, Transport};

use crate::objects::{Ep, Net, policy};
use crate::world::{NODE, OUTSIDE, World, request, serve, silent};

const A: &str = "192.0.2.105";
const B: &str = "192.0.2.106";

fn bridge() -> (World, hcn::Guid) {
    let mut world = World::new();
    let network = world.network(&Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1"));
    (world, network)
}

fn long(to: &str) -> Request {
    Request { timeout: Duration::from_secs(20), ..request(to, Transport::Tcp) }.payload(1_000_000)
}

#[test]
fn an_endpoint_that_is_deleted_under_traffic_stops_it_and_nothing_else() {
    let (mut world, network) = bridge();
    let a = world.pod(network, &Ep::new("a", &[A]));
    world.pod(network, &Ep::new("b", &[B]));
    world.slow("peer", Duration::from_millis(20));
    let other = world.start("peer", long("192.0.2.106:80"));
    let stopped = world.start("peer", long("192.0.2.105:80"));
    world.run(Duration::from_millis(100));
    world.delete("win", Kind::Endpoint, a);
    assert!(silent(&world.finish("peer", stopped)));
    let done = world.finish("peer", other);
    assert!(done.outcome.answer().is_some(), "{}", done.outcome);
    // Another pod takes the address over.
    world.pod(network, &Ep::new("c", &[A]));
    world.answered("peer", "192.0.2.105:80", Transport::Tcp, "c", "192.0.2.20");
}

#[test]
fn an_endpoint_that_leaves_its_namespace_is_off_the_switch_and_comes_back_elsewhere() {
    let (mut world, network) = bridge();
    let a = world.endpoint_on("win", network, &Ep::new("a", &[A]));
    let (first, second) = (world.namespace("win"), world.namespace("win"));
    world.join("win", first, "Add", a);
    world.act("a", |stack, _| serve(stack));
    world.answered("peer", "192.0.2.105:80", Transport::Tcp, "a", "192.0.2.20");
    world.join("win", first, "Remove", a);
    let done = world.ask("peer", "192.0.2.105:80", Transport::Udp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    world.join("win", second, "Add", a);
    // A namespace is a stack of its own: nothing of the old one's servers is there.
    let done = world.ask("peer", "192.0.2.105:80", Transport::Tcp);
    assert_eq!(done.outcome, node::app::Outcome::Refused);
    world.act("a", |stack, _| serve(stack));
    world.answered("peer", "192.0.2.105:80", Transport::Tcp, "a", "192.0.2.20");
}

#[test]
fn an_endpoint_without_its_nat_is_seen_with_its_own_address() {
    let (mut world, network) = bridge();
    let a = world.pod(network, &Ep::new("a", &[A]));
    let lost = FaultRule::new(Fault::NoRules).on(Op::Modify).kind(Kind::Endpoint).times(1);
    world.hns("win").faults().add(lost).unwrap();
    world.change(Kind::Endpoint, a, "Add", &policy("OutBoundNAT", r#""Exceptions":["192.0.2.0/24"]"#));
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", A);
    // The next write brings all of the endpoint's rules.
    let other = r#""Action":"Block","Direction":"In","RemoteAddresses":"203.0.113.0/24""#;
    world.change(Kind::Endpoint, a, "Add", &policy("ACL", other));
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", NODE);
}

fn balancer(world: &mut World, backend: hcn::Guid) -> hcn::Guid {
    let members = format!(
        r#""HostComputeEndpoints":["{backend}"],"FrontendVIPs":["10.60.0.20"],"Flags":1,
        "PortMappings":[{{"Protocol":6,"InternalPort":8080,"ExternalPort":80}}]"#
    );
    world.create("win", Kind::LoadBalancer, None, &members)
}

const VIP: &str = "10.60.0.20:80";

#[test]
fn stale_rules_of_a_balancer_still_lead_to_its_backend() {
    for stale in [false, true] {
        let (mut world, network) = bridge();
        world.pod(network, &Ep::new("a", &[A]));
        let b = world.pod(network, &Ep::new("b", &[B]));
        let made = balancer(&mut world, b);
        world.answered("a", VIP, Transport::Tcp, "b", A);
        if stale {
            world.hns("win").faults().add(FaultRule::new(Fault::StaleRules).times(1)).unwrap();
        }
        world.delete("win", Kind::LoadBalancer, made);
        let done = world.ask("a", VIP, Transport::Tcp);
        assert_eq!(done.outcome.answer().is_some(), stale, "{}", done.outcome);
        world.hns("win").restart(Loss::None).unwrap();
        world.follow();
        let done = world.ask("a", VIP, Transport::Tcp);
        assert!(done.outcome.answer().is_none(), "a restart clears them: {}", done.outcome);
    }
}

#[test]
fn a_switch_that_lost_its_balancers_leaves_services_dark_and_pods_alive() {
    let (mut world, network) = bridge();
    world.pod(network, &Ep::new("a", &[A]));
    let b = world.pod(network, &Ep::new("b", &[B]));
    let made = balancer(&mut world, b);
    world.hns("win").restart(Loss::Rules).unwrap();
    world.follow();
    let done = world.ask("a", VIP, Transport::Tcp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    world.answered("a", "192.0.2.106:8080", Transport::Tcp, "b", A);
    // HNS says that the balancer is there; made again, it works.
    world.delete("win", Kind::LoadBalancer, made);
    balancer(&mut world, b);
    world.answered("a", VIP, Transport::Tcp, "b", A);
}
