//! HL-08: a call to HNS never returns (Azure/aks-engine#4315). The pass that made it hangs with it, on the caller's
//! thread; from any other thread it can be seen which call hangs and for how long, no second call waits behind it,
//! and when it ends, in whatever way, the proxy goes on where it was.

use std::sync::Arc;
use std::time::Duration;

use hcn::{HResult, Hcn};
use hns::faults::{Fault, FaultRule, Release};
use node::NetworkKind;
use parking_lot::Mutex;
use proxy::meter::{Metered, Watch};

use crate::world::{Setup, World, dump};
use crate::{balancers, set_service, set_slice};

/// How long a call may take before the proxy counts as hanging.
const LIMIT: Duration = Duration::from_secs(30);

/// A world whose proxy is watched.
fn watched(network: NetworkKind) -> (World, Watch) {
    let seen: Arc<Mutex<Option<Watch>>> = Arc::default();
    let clock = hcn::time::ManualClock::jumping();
    let (sink, of) = (Arc::clone(&seen), clock.clone());
    let setup = Setup {
        network,
        clock: Some(clock),
        locals: vec!["L1".to_owned()],
        wrap: Some(Arc::new(move |inner: Arc<dyn Hcn>| -> Arc<dyn Hcn> {
            let metered = Metered::new(inner, Arc::new(of.clone()));
            *sink.lock() = Some(metered.watch());
            Arc::new(metered)
        })),
        ..Setup::default()
    };
    let world = World::new(setup);
    let watch = seen.lock().clone().expect("the proxy is wrapped when it is made");
    (world, watch)
}

fn fill(world: &mut World) {
    set_service(world, "{name: web, type: NodePort, ip: 10.60.0.20, ports: ['80 nodePort=30080']}");
    set_slice(world, "{of: web, port: 8080, endpoints: [L1, R1]}");
    set_service(world, "{name: db, ip: 10.60.0.21, ports: ['81']}");
    set_slice(world, "{of: db, port: 81, endpoints: [R2]}");
}

/// Hangs the call with this number, looks from outside, lets go. False: the first pass makes fewer calls.
fn hang(network: NetworkKind, number: u32, release: Release) -> bool {
    let (mut world, watch) = watched(network);
    fill(&mut world);
    let hns = world.hns.clone();
    let clock = world.clock.clone();
    let rule = FaultRule::new(Fault::Hang).actor("proxy").skip(number).times(1);
    let rule = hns.faults().add(rule).expect("the rule can be");
    // A pass without the call that was to hang would never be seen hanging.
    let enough = first_pass_calls(network) > u64::from(number);
    if !enough {
        return false;
    }
    let calls_before = watch.meters().calls();
    std::thread::scope(|scope| {
        let pass = scope.spawn(|| world.pass());
        hns.faults().wait_until_hung(1);
        let (operation, _, since) = watch.longest_under_way().expect("a call is under way");
        assert_eq!(since, Duration::ZERO, "{operation:?}: no time has passed");
        assert!(!watch.hangs(LIMIT), "{operation:?}: not yet");
        clock.advance(LIMIT + Duration::from_secs(1));
        assert!(watch.hangs(LIMIT), "{operation:?} has been under way for {LIMIT:?} and longer");
        // Nobody waits behind it, and the figures can be read meanwhile.
        assert_eq!(hns.faults().hung(), 1);
        assert_eq!(watch.meters().calls(), calls_before + u64::from(number));
        assert!(!pass.is_finished());
        hns.faults().release_hung_as(release);
        pass.join().expect("the pass ends");
    });
    assert_eq!(hns.faults().struck(rule), 1);
    assert_eq!(watch.longest_under_way(), None);
    assert!(!watch.hangs(LIMIT));
    world.settle(20);
    dump::assert_invariants(&world.hns, "after the hang");
    let found = balancers(&world);
    for (frontend, backends) in
        [("10.60.0.20:80/TCP", "[L1 R1]"), ("node:30080/TCP", "[L1 R1]"), ("10.60.0.21:81/TCP", "[R2]")]
    {
        assert!(found[frontend].contains(backends), "{network}, call {number}, {release:?}: {found:?}");
    }
    assert_eq!(found.len(), 3);
    true
}

fn first_pass_calls(network: NetworkKind) -> u64 {
    let (mut world, watch) = watched(network);
    fill(&mut world);
    world.pass();
    watch.meters().calls()
}

fn at_every_call(network: NetworkKind, release: Release) {
    let mut number = 0;
    while hang(network, number, release) {
        number += 1;
    }
    assert!(number > 10, "only {number} calls were tried");
}

#[test]
fn a_hung_call_fails_in_the_end() {
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        at_every_call(network, Release::Fail(HResult::RPC_CALL_FAILED));
    }
}

#[test]
fn a_hung_call_has_its_effect_late() {
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        at_every_call(network, Release::Proceed);
    }
}
