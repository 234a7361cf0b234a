//! The proxy's process dies at any call: at a change, at its start over what an earlier run left, and while it takes over what
//! kube-proxy left. A new one starts over the same HNS. The journal proves that no frontend that stays wanted was away at any
//! moment, except where this HNS can change a load balancer only by making it anew: then no other load balancer is written before
//! it is back.
//!
//! Dying after a call had its effect is dying before the next call: all that the process knew is lost either way.

use std::collections::{BTreeMap, BTreeSet};

use hcn::{Feature, Features, Guid, Hcn as _, Kind};
use hns::Profile;
use hns::faults::{Fault, FaultRule};
use hns::journal::Op;
use node::NetworkKind;

use crate::outage::{AT_ONCE, change, served};
use crate::world::{World, dump};
use crate::{balancers, writes_since};

/// Load balancers by id, with what the journal calls them.
type Present = BTreeMap<Guid, String>;

/// HNS as kube-proxy leaves it: the same frontends and endpoints, ids by chance, no name of ours.
fn as_kube_proxy_leaves_it(world: &World) {
    let bridge = world.setup.network == NetworkKind::L2Bridge;
    let somebody = world.hns.actor("kube-proxy");
    for (number, (id, mut balancer)) in dump::balancers(&world.hns).into_iter().enumerate() {
        somebody.delete(Kind::LoadBalancer, id).expect("it goes");
        balancer.id = None;
        balancer.owner = None;
        if bridge {
            // kube-proxy gives none there, and each load balancer is changed once for that reason.
            balancer.source_vip = String::new();
        }
        let id = Guid::from_u128(0x6b70_0000_0000_4000_8000_0000_0000_0000 + number as u128);
        somebody.create(Kind::LoadBalancer, None, id, &balancer.to_json()).expect("it can be made again");
    }
}

/// Follows the load balancers through the journal, telling what is there after each call that changed one from `mark` on.
fn fold(world: &World, mark: u64, mut look: impl FnMut(&Present, &str)) -> Present {
    let mut present = Present::new();
    for entry in world.hns.journal().writes_since(0) {
        let Some(id) = entry.id.filter(|_| entry.kind == Some(Kind::LoadBalancer) && entry.result.is_ok())
        else {
            continue;
        };
        match entry.op {
            Op::Delete => drop(present.remove(&id)),
            _ => drop(present.insert(id, entry.subject.clone())),
        }
        if entry.seq >= mark {
            look(&present, &entry.to_string());
        }
    }
    present
}

fn names(present: &Present) -> BTreeSet<&str> {
    present.values().map(String::as_str).collect()
}

/// Lets the process die at each call of what `act` begins, and looks at what the next one does.
fn at_each_call(
    profile: Profile,
    network: NetworkKind,
    what: &str,
    before: fn(&mut World),
    act: fn(&mut World),
) {
    for parallel_calls in AT_ONCE {
        at_each_call_of(profile, network, parallel_calls, what, before, act);
    }
}

fn at_each_call_of(
    profile: Profile,
    network: NetworkKind,
    parallel_calls: usize,
    what: &str,
    before: fn(&mut World),
    act: fn(&mut World),
) {
    let begun = || {
        let mut world = served(profile, network, parallel_calls);
        before(&mut world);
        let mark = world.hns.journal().next_seq();
        act(&mut world);
        (world, mark)
    };
    let (mut world, mark) = begun();
    world.check();
    let calls = u32::try_from(world.hns.journal().entries_since(mark).len()).expect("few calls");
    assert!(calls > 3, "{what}: {calls} calls");
    world.settle(10);
    let wanted = balancers(&world);
    let modifies =
        Features::of(world.hns.version().expect("a version")).supports(Feature::ModifyLoadBalancer);

    let mut gaps = 0;
    for index in 0..calls {
        let when = format!(
            "{profile} {network}, {parallel_calls} at once, {what}: the process dies at call {index} of {calls}"
        );
        let (mut world, mark) = begun();
        let start = fold(&world, mark, |_, _| ());
        world.hns.faults().add(FaultRule::new(Fault::Down).skip(index).actor("proxy")).expect("a rule");
        world.check();
        world.hns.faults().clear();
        world.restart_proxy();
        world.settle(30);
        assert_eq!(balancers(&world), wanted, "{when}");

        let end = fold(&world, mark, |_, _| ());
        let stay: BTreeSet<&str> = names(&start).intersection(&names(&end)).copied().collect();
        assert!(stay.len() >= 3, "{when}: {stay:?}");
        let mut away: BTreeSet<String> = BTreeSet::new();
        fold(&world, mark, |now, call| {
            let now = names(now);
            let missing: BTreeSet<String> =
                stay.iter().filter(|name| !now.contains(*name)).map(|name| (*name).to_owned()).collect();
            assert!(!modifies || missing.is_empty(), "{when}: {missing:?} away after {call}");
            // One is made anew at a time, and nothing comes between.
            assert!(missing.len() <= 1, "{when}: {missing:?} away after {call}");
            assert!(away.is_empty() || missing.is_empty(), "{when}: {away:?} still away after {call}");
            gaps += missing.len();
            away = missing;
        });
        assert!(away.is_empty(), "{when}: {away:?} away at the end");

        let mark = world.hns.journal().next_seq();
        world.check();
        assert!(writes_since(&world, mark).is_empty(), "{when}: it still wrote afterwards");
        dump::assert_invariants(&world.hns, &when);
    }
    assert_eq!(gaps > 0, !modifies, "{profile} {network}, {what}: {gaps} times one was away");
}

const PROFILES: [Profile; 3] = [Profile::Ws2019, Profile::Ws2022, Profile::Newest];
const NETWORKS: [NetworkKind; 2] = [NetworkKind::L2Bridge, NetworkKind::Overlay];

#[test]
fn at_a_change() {
    for (profile, network) in
        PROFILES.into_iter().flat_map(|profile| NETWORKS.map(|network| (profile, network)))
    {
        at_each_call(profile, network, "a change", |_| (), change);
    }
}

#[test]
fn at_a_start_with_changes_over_an_earlier_run() {
    for (profile, network) in
        PROFILES.into_iter().flat_map(|profile| NETWORKS.map(|network| (profile, network)))
    {
        at_each_call(profile, network, "a start", change, World::restart_proxy);
    }
}

#[test]
fn while_taking_over_from_kube_proxy() {
    for (profile, network) in
        PROFILES.into_iter().flat_map(|profile| NETWORKS.map(|network| (profile, network)))
    {
        let left = |world: &mut World| {
            as_kube_proxy_leaves_it(world);
            change(world);
        };
        at_each_call(profile, network, "taking over", left, World::restart_proxy);
    }
}
