//! Calls in parallel: as many as the settings say are under way together and no more, a load balancer is made when its endpoints
//! are there, and one call that never returns does not keep the others of its round from being made.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use hcn::{Guid, HResult, Hcn, Kind, Result};
use hns::Profile;
use node::NetworkKind;
use parking_lot::Mutex;

use crate::world::{Setup, World, dump};
use crate::{balancers, set_service, set_slice};

/// How many calls are under way at a time.
const AT_ONCE: usize = 4;

/// Lets creations go on only in fours, so that whoever makes them one by one never comes to an end.
struct InFours {
    inner: Arc<dyn Hcn>,
    four: Barrier,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    under_way: AtomicUsize,
    most: AtomicUsize,
    /// Fours.
    rounds: AtomicUsize,
    /// Endpoints that load balancers named before they were there.
    early: AtomicUsize,
    endpoints: Mutex<Vec<Guid>>,
}

impl Hcn for InFours {
    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        let seen = &self.seen;
        let alone = match kind {
            Kind::LoadBalancer => {
                let document = hcn::LoadBalancer::parse(settings).expect("a document");
                let there = seen.endpoints.lock();
                let early = document.endpoints.iter().filter(|id| !there.contains(id)).count();
                seen.early.fetch_add(early, SeqCst);
                false
            }
            // A source VIP is made alone.
            _ => !hcn::Endpoint::parse(settings).expect("a document").is_remote(),
        };
        if alone {
            return self.inner.create(kind, network, id, settings);
        }
        let now = seen.under_way.fetch_add(1, SeqCst) + 1;
        seen.most.fetch_max(now, SeqCst);
        if self.four.wait().is_leader() {
            seen.rounds.fetch_add(1, SeqCst);
        }
        let result = self.inner.create(kind, network, id, settings);
        if kind == Kind::Endpoint {
            seen.endpoints.lock().extend(result.as_ref().ok());
        }
        seen.under_way.fetch_sub(1, SeqCst);
        result
    }

    pass_on! { enumerate query modify delete call_v1 version subscribe unsubscribe }
}

fn setup(network: NetworkKind) -> Setup {
    let mut setup = Setup { profile: Profile::Ws2022, network, threads: true, ..Setup::default() };
    setup.config.parallel_calls = AT_ONCE;
    setup
}

/// Eight Services with one endpoint each.
fn fill(world: &mut World) {
    for number in 0..8 {
        set_service(world, &format!("{{name: web-{number}, ip: 10.60.1.{number}, ports: ['80']}}"));
        set_slice(world, &format!("{{of: web-{number}, port: 80, endpoints: [10.50.2.{}]}}", number + 20));
    }
}

#[test]
fn four_are_under_way_and_endpoints_come_first() {
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        let seen: Arc<Seen> = Arc::default();
        let of = Arc::clone(&seen);
        let wrap = move |inner| {
            Arc::new(InFours { inner, four: Barrier::new(AT_ONCE), seen: Arc::clone(&of) }) as Arc<dyn Hcn>
        };
        let mut world = World::new(Setup { wrap: Some(Arc::new(wrap)), ..setup(network) });
        fill(&mut world);
        world.settle(10);
        assert_eq!(balancers(&world).len(), 8, "{network}");
        assert_eq!((seen.most.load(SeqCst), seen.early.load(SeqCst)), (AT_ONCE, 0), "{network}");
        // Endpoints of backends, on an overlay of cluster IPs too, and load balancers.
        let calls = if network == NetworkKind::Overlay { 24 } else { 16 };
        assert_eq!(seen.rounds.load(SeqCst), calls / AT_ONCE, "{network}");
    }
}

#[test]
fn a_call_that_hangs_keeps_no_other_of_its_round() {
    use hns::faults::{Fault, FaultRule, Release};
    for network in [NetworkKind::L2Bridge, NetworkKind::Overlay] {
        let mut world = World::new(setup(network));
        fill(&mut world);
        let hns = world.hns.clone();
        let rule = FaultRule::new(Fault::Hang).actor("proxy").on(hns::journal::Op::Create).times(1);
        hns.faults().add(rule).expect("the rule can be");
        let made = || dump::remotes(&hns).len();
        let all = if network == NetworkKind::Overlay { 16 } else { 8 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                hns.faults().wait_until_hung(1);
                // All but the one that hangs; a test that waits in vain is ended by its runner.
                while made() < all - 1 {
                    std::thread::yield_now();
                }
                assert!(dump::balancers(&hns).is_empty(), "{network}: a load balancer before its round");
                hns.faults().release_hung_as(Release::Fail(HResult::RPC_CALL_FAILED));
            });
            world.pass();
        });
        world.settle(20);
        assert_eq!(balancers(&world).len(), 8, "{network}");
        dump::assert_invariants(&world.hns, "afterwards");
    }
}
