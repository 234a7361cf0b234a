//! Many threads at once.

use std::sync::Barrier;

use hcn::{Guid, Hcn, Kind, Query};
use hns::faults::{Fault, FaultRule, Release};
use hns::{Hns, Loss, Options, Profile};

use crate::world::{balancer, id, make_balancer, network, open, remote};

#[test]
fn threads_that_create_query_and_delete_leave_nothing_behind() {
    let hns = open(Profile::Newest);
    let net = network(&hns, "Overlay", 0);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8u128 {
            let (hns, start) = (hns.actor(&format!("thread-{thread}")), &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..50u128 {
                    let own = id(thread << 16 | round);
                    let json = format!(
                        r#"{{"IpConfigurations":[{{"IpAddress":"10.{}.{round}.1"}}],"Flags":1}}"#,
                        100 + thread
                    );
                    hns.create(Kind::Endpoint, Some(net), own, &json).unwrap();
                    let vip = format!("10.60.{thread}.{round}");
                    let lb = make_balancer(&hns, &balancer(&[&vip], (6, 80, 8080), &[own], 0)).unwrap();
                    hns.query(Kind::LoadBalancer, lb, &Query::all()).unwrap();
                    hns.enumerate(Kind::Endpoint, &Query::endpoints_of(net)).unwrap();
                    hns.delete(Kind::LoadBalancer, lb).unwrap();
                    hns.delete(Kind::Endpoint, own).unwrap();
                }
            });
        }
    });
    assert!(hns.enumerate(Kind::Endpoint, &Query::all()).unwrap().is_empty());
    assert!(hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap().is_empty());
    assert!(hns.ports().spaces.iter().all(|space| space.free == space.total));
    assert_eq!(hns.journal().counters().by("thread-3").total(), 300);
}

/// Two calls hang, one after the other; where calls are worked on together, both do at the same time.
#[test]
fn calls_are_worked_on_together_or_one_at_a_time() {
    for together in [true, false] {
        let mut options = Options::new(Profile::Newest);
        options.switches.one_call_at_a_time = !together;
        let hns = Hns::open(options).unwrap();
        hns.faults().add(FaultRule::new(Fault::Hang).times(2)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let hns = hns.clone();
                scope.spawn(move || hns.version().unwrap());
            }
            if together {
                hns.faults().wait_until_hung(2);
                hns.faults().release_hung_as(Release::Proceed);
            } else {
                for returned in 1..=2 {
                    hns.faults().wait_until_hung(1);
                    hns.faults().release_hung_as(Release::Proceed);
                    while hns.journal().counters().total() < returned {
                        std::thread::yield_now();
                    }
                }
            }
        });
        assert_eq!(hns.journal().counters().total(), 2);
    }
}

#[test]
fn one_of_many_gets_the_frontend() {
    for _ in 0..20 {
        let hns = open(Profile::Newest);
        let net = network(&hns, "Overlay", 0);
        let endpoint = remote(&hns, net, "10.99.0.1");
        let document = balancer(&["10.60.0.1"], (6, 80, 8080), &[endpoint], 1);
        let start = Barrier::new(4);
        let made: usize = std::thread::scope(|scope| {
            let attempts: Vec<_> = (0..4)
                .map(|_| {
                    let (hns, start, document) = (hns.clone(), &start, &document);
                    scope.spawn(move || {
                        start.wait();
                        usize::from(make_balancer(&hns, document).is_ok())
                    })
                })
                .collect();
            attempts.into_iter().map(|attempt| attempt.join().unwrap()).sum()
        });
        assert_eq!(made, 1);
    }
}

#[test]
fn restarts_in_the_middle_keep_the_state_whole() {
    let hns = open(Profile::Newest);
    let net = network(&hns, "Overlay", 0);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let hns = hns.clone();
            scope.spawn(move || {
                for round in 0..60u8 {
                    let ip = format!("10.{}.{round}.1", 100 + thread);
                    let json = format!(r#"{{"IpConfigurations":[{{"IpAddress":"{ip}"}}],"Flags":1}}"#);
                    let made = hns.create(Kind::Endpoint, Some(net), Guid::NIL, &json).unwrap();
                    let vip = format!("10.60.{thread}.{round}");
                    // A restart may have lost the endpoint in between; nothing else may go wrong.
                    if let Err(error) = make_balancer(&hns, &balancer(&[&vip], (6, 80, 8080), &[made], 0)) {
                        assert_eq!(error.code, hcn::HResult::INVALID_JSON_REFERENCE, "{error}");
                    }
                }
            });
        }
        for round in 0..10 {
            let loss = if round % 2 == 0 { Loss::None } else { Loss::Endpoints };
            hns.restart(loss).unwrap();
        }
    });
    let dump = hns.digest();
    assert_eq!(
        dump.count(Kind::LoadBalancer),
        hns.ports().spaces.iter().map(|space| space.blocks.len()).sum::<usize>()
    );
    assert!(dump.count(Kind::Endpoint) >= dump.count(Kind::LoadBalancer));
}
