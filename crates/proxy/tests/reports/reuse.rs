//! HL-04: an address moves from a pod on another node to a pod on this one, and the four events of that come in any
//! order (kubernetes/kubernetes#138000, #137381). Several Services select the pod. In the end the address has one
//! endpoint, a local one, and every load balancer is on it; on the way no local endpoint is ever deleted.

use hns::Profile;
use hns::journal::Op;
use node::NetworkKind;
use services::{Change, ObjectKind};

use crate::world::objects::parse;
use crate::world::{Setup, World, address, dump};
use crate::{balancers, delete, set_service, set_slice, writes_since};

const ADDRESS: &str = "L5";
const SERVICES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The Pod object on the other node goes.
    PodDeleted,
    /// The slice that names the old pod lets go of it.
    SliceUpdated,
    /// The CNI makes the new pod's endpoint on this node.
    CniAdd,
    /// A slice names the new pod.
    SliceAdded,
}

const EVENTS: [Event; 4] = [Event::PodDeleted, Event::SliceUpdated, Event::CniAdd, Event::SliceAdded];

fn orders() -> Vec<[Event; 4]> {
    let mut orders = Vec::new();
    for (a, b, c, d) in (0..256).map(|n| (n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6)) {
        let order = [EVENTS[a], EVENTS[b], EVENTS[c], EVENTS[d]];
        if EVENTS.iter().all(|event| order.contains(event)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    orders
}

fn before(profile: Profile, network: NetworkKind, list_order: &str) -> World {
    let switches = Some(format!("list_order: {list_order}"));
    let locals = vec!["L1".to_owned()];
    let mut world = World::new(Setup { profile, network, locals, switches, ..Setup::default() });
    for object in parse(
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": "default"}, "spec": {"nodeName": "n2", "containers": [{"name": "c"}]}, "status": {"podIP": "10.50.1.9", "podIPs": [{"ip": "10.50.1.9"}], "phase": "Running"}}"#,
    ) {
        world.apply(Change::Set(object));
    }
    for number in 0..SERVICES {
        let service = format!("{{name: s{number}, ip: 10.60.0.2{number}, ports: ['80']}}");
        set_service(&mut world, &service);
        set_slice(
            &mut world,
            &format!("{{of: s{number}, port: 8080, endpoints: [{ADDRESS} node=n2, L1, R1]}}"),
        );
    }
    world.settle(10);
    assert!(dump::remotes(&world.hns).contains(ADDRESS));
    world
}

fn happen(world: &mut World, event: Event) {
    match event {
        Event::PodDeleted => delete(world, ObjectKind::Pod, "old"),
        Event::SliceUpdated => {
            for number in 0..SERVICES {
                set_slice(world, &format!("{{of: s{number}, port: 8080, endpoints: [L1, R1]}}"));
            }
        }
        Event::CniAdd => {
            world.locals.push(ADDRESS.to_owned());
            world.furnish();
        }
        Event::SliceAdded => {
            for number in 0..SERVICES {
                let slice =
                    format!("{{of: s{number}, name: s{number}-new, port: 8080, endpoints: [{ADDRESS}]}}");
                set_slice(world, &slice);
            }
        }
    }
}

/// The remote flags of the address' endpoints.
fn kinds(world: &World) -> Vec<bool> {
    let wanted = address(ADDRESS);
    let endpoints = dump::endpoints(&world.hns);
    let here = endpoints.values().filter(|endpoint| endpoint.addresses().any(|address| address == wanted));
    here.map(hcn::Endpoint::is_remote).collect()
}

fn every_order(profile: Profile, network: NetworkKind, list_order: &str, restart_after: Option<usize>) {
    for order in orders() {
        let when = format!("{profile} {network}, lists {list_order} first, {order:?}");
        let mut world = before(profile, network, list_order);
        let mark = world.hns.journal().next_seq();
        let mut here = false;
        for (number, event) in order.into_iter().enumerate() {
            happen(&mut world, event);
            here |= event == Event::CniAdd;
            if restart_after == Some(number) {
                world.restart_proxy();
            }
            world.check();
            dump::assert_invariants(&world.hns, &when);
            if here {
                assert_eq!(kinds(&world), [false], "{when}: after {event:?} the local endpoint stands alone");
            }
        }
        world.settle(10);
        assert_eq!(kinds(&world), [false], "{when}");
        for number in 0..SERVICES {
            let balancer = &balancers(&world)[&format!("10.60.0.2{number}:80/TCP")];
            assert!(balancer.contains("[L1 L5 R1]"), "{when}: {balancer}");
        }
        let writes = writes_since(&world, mark);
        let local_id = dump::endpoints(&world.hns)
            .into_iter()
            .find(|(_, endpoint)| {
                !endpoint.is_remote() && endpoint.addresses().any(|a| a == address(ADDRESS))
            })
            .map(|(id, _)| id);
        let touched = writes.iter().filter(|entry| entry.id == local_id && entry.op != Op::Create).count();
        assert_eq!(touched, 0, "{when}: the pod's endpoint was touched");
    }
}

#[test]
fn all_orders_on_a_bridge() {
    for profile in [Profile::Ws2019, Profile::Ws2022, Profile::Newest] {
        every_order(profile, NetworkKind::L2Bridge, "oldest", None);
        every_order(profile, NetworkKind::L2Bridge, "newest", None);
    }
}

#[test]
fn all_orders_on_an_overlay() {
    for profile in [Profile::Ws2022, Profile::Newest] {
        every_order(profile, NetworkKind::Overlay, "oldest", None);
        every_order(profile, NetworkKind::Overlay, "newest", None);
    }
}

#[test]
fn all_orders_with_a_restart_after_each_event() {
    for number in 0..EVENTS.len() {
        every_order(Profile::Ws2022, NetworkKind::L2Bridge, "id", Some(number));
    }
}
