//! PF-01 and its neighbours: HNS takes long, and many Services want something of it. Where passes are bounded, no Service waits
//! for another's thousand endpoints, DNS comes first whatever else is pending, changes that come all the time do not keep the rest
//! from its turn, and deletions get their share.

use std::collections::BTreeSet;
use std::time::Duration;

use hcn::time::Clock as _;
use hns::faults::{Fault, FaultRule, Latency};
use proxy::Config;

use crate::outage::AT_ONCE;
use crate::world::{Setup, World, dump};
use crate::{delete, set_service, set_slice};
use services::ObjectKind;

/// What each call takes.
const CALL: Duration = Duration::from_millis(10);

/// How long a pass may write.
const PASS: Duration = Duration::from_secs(1);

/// How far over its time a pass may go: the endpoints of one turn and what belongs to it.
const OVER: Duration = Duration::from_millis(400);

fn slow_world(parallel_calls: usize) -> World {
    let config =
        Config { network_name: "net".to_owned(), pass_time: Some(PASS), parallel_calls, ..Config::default() };
    let world = World::new(Setup { config, ..Setup::default() });
    let mut slow = FaultRule::new(Fault::Slow).actor("proxy");
    slow.latency = Some(Latency::Fixed(CALL));
    world.hns.faults().add(slow).expect("the rule can be");
    world
}

/// A Service with endpoints on other nodes, `10.50.SUBNET.FROM` and so on.
fn service(world: &mut World, name: &str, ip: &str, subnet: u8, endpoints: std::ops::Range<u8>) {
    set_service(world, &format!("{{name: {name}, ip: {ip}, ports: ['80']}}"));
    let list: Vec<String> = endpoints.map(|last| format!("10.50.{subnet}.{last}")).collect();
    set_slice(world, &format!("{{of: {name}, port: 80, endpoints: [{}]}}", list.join(", ")));
}

/// The cluster IPs that are served.
fn served(world: &World) -> BTreeSet<String> {
    dump::balancers(&world.hns).values().flat_map(|balancer| balancer.frontend_vips.clone()).collect()
}

/// One pass, which must heed its time.
fn bounded(world: &mut World) -> proxy::Report {
    let start = world.clock.now();
    let report = world.pass();
    let took = world.clock.now().saturating_sub(start);
    assert!(took <= PASS + OVER, "a pass took {took:?}");
    report
}

#[test]
fn a_large_service_does_not_hold_up_small_ones_and_dns_is_first() {
    AT_ONCE.into_iter().for_each(a_large_service_does_not_hold_up_small_ones_and_dns_is_first_with);
}

fn a_large_service_does_not_hold_up_small_ones_and_dns_is_first_with(parallel_calls: usize) {
    let mut world = slow_world(parallel_calls);
    // First by name, by address and by number.
    service(&mut world, "a-large", "10.60.0.1", 2, 1..250);
    for number in 0..40_u8 {
        service(&mut world, &format!("small-{number}"), &format!("10.60.1.{number}"), 3, number..number + 1);
    }
    service(&mut world, "z-dns", "10.60.9.9", 3, 200..202);
    set_service(&mut world, "{name: z-dns, ip: 10.60.9.9, ports: ['53/UDP']}");
    set_slice(&mut world, "{of: z-dns, port: 53, protocol: UDP, endpoints: [10.50.3.200, 10.50.3.201]}");
    let mut first = None;
    for _ in 0..20 {
        bounded(&mut world);
        let now = served(&world);
        if !now.is_empty() {
            first.get_or_insert(now.contains("10.60.9.9"));
        }
        if now.len() == 42 {
            break;
        }
        let small = now.iter().filter(|ip| ip.starts_with("10.60.1.")).count();
        assert!(
            small == 40 || !now.contains("10.60.0.1"),
            "the large one was served before {} small ones",
            40 - small
        );
    }
    assert_eq!(first, Some(true), "DNS is among the first that are served");
    assert_eq!(served(&world).len(), 42);
    let report = world.settle(50);
    assert!(report.is_settled(), "{:?}", report.failures);
}

#[test]
fn changes_without_end_do_not_starve_the_rest() {
    AT_ONCE.into_iter().for_each(changes_without_end_do_not_starve_the_rest_with);
}

fn changes_without_end_do_not_starve_the_rest_with(parallel_calls: usize) {
    let mut world = slow_world(parallel_calls);
    service(&mut world, "a-busy", "10.60.0.1", 2, 1..2);
    assert!(world.settle(10).is_settled());
    for number in 0..120_u8 {
        service(&mut world, &format!("quiet-{number}"), &format!("10.60.1.{number}"), 3, number..number + 1);
    }
    let mut last = 1;
    for round in 0..12_u8 {
        // Another endpoint in each pass, and a Service whose load balancer has to go.
        service(&mut world, "a-busy", "10.60.0.1", 2, round + 2..round + 3);
        bounded(&mut world);
        let now = served(&world).len();
        assert!(now > last || now == 121, "round {round}: {now} are served, as before");
        last = now;
    }
    assert_eq!(last, 121);
}

#[test]
fn deletions_get_their_share() {
    AT_ONCE.into_iter().for_each(deletions_get_their_share_with);
}

fn deletions_get_their_share_with(parallel_calls: usize) {
    let mut world = slow_world(parallel_calls);
    for number in 0..20_u8 {
        service(&mut world, &format!("old-{number}"), &format!("10.60.2.{number}"), 3, number..number + 1);
    }
    assert!(world.settle(50).is_settled());
    for number in 0..20_u8 {
        delete(&mut world, ObjectKind::Service, &format!("old-{number}"));
        delete(&mut world, ObjectKind::EndpointSlice, &format!("old-{number}"));
    }
    let old = |world: &World| served(world).iter().filter(|ip| ip.starts_with("10.60.2.")).count();
    let mut more = 0..;
    for _ in 0..4 {
        // More than a pass can do.
        for number in more.by_ref().take(60) {
            service(
                &mut world,
                &format!("new-{number}"),
                &format!("10.60.3.{number}"),
                2,
                number..number + 1,
            );
        }
        let before = old(&world);
        bounded(&mut world);
        assert!(old(&world) < before || before == 0, "{before} unwanted ones stay");
    }
    assert_eq!(old(&world), 0);
}

#[test]
fn what_was_touched_is_told_once() {
    let mut world = slow_world(1);
    service(&mut world, "web", "10.60.0.1", 2, 1..3);
    service(&mut world, "db", "10.60.0.2", 2, 5..6);
    world.settle(10);
    let names = |world: &mut World| -> Vec<String> {
        world.driver.proxy_mut().take_touched().iter().map(ToString::to_string).collect()
    };
    assert_eq!(names(&mut world), ["default/db", "default/web"]);
    assert!(names(&mut world).is_empty());
    world.settle(3);
    assert!(names(&mut world).is_empty(), "nothing has happened");
    service(&mut world, "web", "10.60.0.1", 2, 1..2);
    world.settle(10);
    assert_eq!(names(&mut world), ["default/web"]);
}
