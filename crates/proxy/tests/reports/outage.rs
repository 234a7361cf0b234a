//! HL-01: HNS goes down at any call of a sync that has changes to make, or loses the reply of any call, and comes back
//! with what it held (kubernetes/kubernetes#139519, #139503). Whatever the call was, nothing may be concluded from the
//! failure, and afterwards HNS holds what a sync without an outage leaves.

use std::collections::{BTreeMap, BTreeSet};

use hcn::Kind;
use hns::faults::{Fault, FaultRule};
use hns::{Loss, Profile};
use node::NetworkKind;
use services::ObjectKind;

use crate::world::{Setup, World, dump};
use crate::{balancers, delete, set_service, set_slice, writes_since};

/// Three Services that are served.
pub(crate) fn served(profile: Profile, network: NetworkKind, parallel_calls: usize) -> World {
    let locals = vec!["L1".to_owned(), "L2".to_owned()];
    let mut setup = Setup { profile, network, locals, ..Setup::default() };
    setup.config.parallel_calls = parallel_calls;
    let mut world = World::new(setup);
    set_service(&mut world, "{name: web, type: NodePort, ip: 10.60.0.20, ports: ['80 nodePort=30080']}");
    set_slice(&mut world, "{of: web, port: 8080, endpoints: [L1, R1, R2]}");
    set_service(&mut world, "{name: old, ip: 10.60.0.21, ports: ['81']}");
    set_slice(&mut world, "{of: old, port: 81, endpoints: [R2, R3]}");
    set_service(&mut world, "{name: kept, ip: 10.60.0.22, ports: ['82']}");
    set_slice(&mut world, "{of: kept, port: 82, endpoints: [R1]}");
    world.settle(10);
    assert_eq!(balancers(&world).len(), 4);
    world
}

/// How many calls are under way at a time.
pub(crate) const AT_ONCE: [usize; 2] = [1, 4];

/// One Service changes, one goes, one is new, one stays.
pub(crate) fn change(world: &mut World) {
    set_slice(world, "{of: web, port: 8080, endpoints: [L2, R2, S1]}");
    delete(world, ObjectKind::Service, "old");
    set_service(world, "{name: new, ip: 10.60.0.23, ports: ['83']}");
    set_slice(world, "{of: new, port: 83, endpoints: [S1, S2]}");
}

/// Load balancers, remote endpoints, and how many local endpoints there are.
type State = (BTreeMap<String, String>, BTreeSet<String>, usize);

/// What is there at the end.
fn state(world: &World) -> State {
    let own = dump::endpoints(&world.hns).values().filter(|endpoint| !endpoint.is_remote()).count();
    (balancers(world), dump::remotes(&world.hns), own)
}

/// The calls of the changing pass without an outage, and what it leaves.
fn undisturbed(profile: Profile, network: NetworkKind, parallel_calls: usize) -> (u32, State) {
    let mut world = served(profile, network, parallel_calls);
    change(&mut world);
    let mark = world.hns.journal().next_seq();
    // With a check first, so that reads are struck too.
    world.check();
    let calls = world.hns.journal().entries_since(mark).len();
    world.settle(10);
    (u32::try_from(calls).expect("few calls"), state(&world))
}

fn at_every_call(profile: Profile, network: NetworkKind, rule: impl Fn(u32) -> FaultRule, lasting: bool) {
    for parallel_calls in AT_ONCE {
        at_every_call_of(profile, network, parallel_calls, &rule, lasting);
    }
}

fn at_every_call_of(
    profile: Profile,
    network: NetworkKind,
    parallel_calls: usize,
    rule: impl Fn(u32) -> FaultRule,
    lasting: bool,
) {
    let (calls, wanted) = undisturbed(profile, network, parallel_calls);
    assert!(calls > 12, "the pass under test makes {calls} calls");
    for index in 0..calls {
        let when = format!(
            "{profile} {network}, {parallel_calls} at once: the call that fails is number {index} of {calls}"
        );
        let mut world = served(profile, network, parallel_calls);
        let before = balancers(&world);
        change(&mut world);
        world.hns.faults().add(rule(index).actor("proxy")).expect("the rule can be");
        world.check();
        dump::assert_invariants(&world.hns, &when);
        for (frontend, balancer) in &before {
            // Nothing was taken away but what has to go or to change.
            let touched = frontend.starts_with("10.60.0.20:") || frontend.starts_with("node:");
            let stays = touched || frontend.starts_with("10.60.0.21:");
            assert!(stays || balancers(&world).get(frontend) == Some(balancer), "{when}: {frontend}");
        }
        if lasting {
            let mark = world.hns.journal().next_seq();
            for _ in 0..3 {
                world.pass();
            }
            assert!(writes_since(&world, mark).is_empty(), "{when}: it wrote while HNS was down");
        }
        world.hns.faults().clear();
        world.hns.restart(Loss::None).expect("HNS restarts");
        world.settle(30);
        assert_eq!(state(&world), wanted, "{when}");
        let mark = world.hns.journal().next_seq();
        world.check();
        let writes = writes_since(&world, mark);
        assert!(writes.is_empty(), "{when}: it still wrote afterwards: {writes:?}");
    }
}

#[test]
fn down_from_any_call_on() {
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        for profile in [Profile::Ws2022, Profile::Newest] {
            at_every_call(profile, network, |index| FaultRule::new(Fault::Down).skip(index), true);
        }
    }
}

#[test]
fn one_call_is_struck() {
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        at_every_call(
            Profile::Ws2022,
            network,
            |index| FaultRule::new(Fault::Down).skip(index).times(1),
            false,
        );
    }
}

#[test]
fn the_reply_of_any_call_is_lost() {
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        for profile in [Profile::Ws2022, Profile::Newest] {
            let rule = |index| FaultRule::new(Fault::Down).skip(index).times(1).after_effect();
            at_every_call(profile, network, rule, false);
        }
    }
}

/// An outage of HNS also at the first start, over load balancers of an earlier run: none of them may go.
#[test]
fn down_from_any_call_of_the_start_on() {
    for (network, parallel_calls) in [NetworkKind::L2Bridge, NetworkKind::Overlay]
        .into_iter()
        .flat_map(|network| AT_ONCE.map(|calls| (network, calls)))
    {
        let mut world = served(Profile::Ws2022, network, parallel_calls);
        let wanted = state(&world);
        world.restart_proxy();
        let mark = world.hns.journal().next_seq();
        world.pass();
        let calls = u32::try_from(world.hns.journal().entries_since(mark).len()).expect("few calls");
        for index in 0..calls {
            let when = format!("{network}: the call of the start that fails is number {index} of {calls}");
            world.restart_proxy();
            let mark = world.hns.journal().next_seq();
            let rule = FaultRule::new(Fault::Down).skip(index).actor("proxy");
            world.hns.faults().add(rule).expect("the rule can be");
            world.pass();
            world.pass();
            world.hns.faults().clear();
            world.settle(30);
            assert!(writes_since(&world, mark).is_empty(), "{when}: it wrote");
            assert_eq!(state(&world), wanted, "{when}");
            assert_eq!(dump::balancers(&world.hns).len(), 4, "{when}: {:?}", Kind::LoadBalancer);
        }
    }
}
