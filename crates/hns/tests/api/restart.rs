//! Restarts: what comes back.

use hcn::{Guid, Hcn, HcnExt, Kind, Query};
use hns::{Hns, Loss, Profile, Protocol};

use crate::world::{balancer, local, make_balancer, network, network_json, open};

fn count(hns: &Hns, kind: Kind) -> usize {
    hns.enumerate(kind, &Query::all()).unwrap().len()
}

fn populate(hns: &Hns) -> (Guid, Vec<Guid>) {
    let network = network(hns, "Overlay", 0);
    let endpoints: Vec<Guid> = (10..110).map(|n| local(hns, network, &format!("10.50.0.{n}"))).collect();
    for n in 0..100u8 {
        let backends = &endpoints[usize::from(n)..=usize::from(n)];
        make_balancer(hns, &balancer(&[&format!("10.60.0.{n}")], (6, 80, 8080), backends, 0)).unwrap();
    }
    (network, endpoints)
}

#[test]
fn everything_persistent_comes_back_as_it_was() {
    let hns = open(Profile::Ws2022);
    let (_, endpoints) = populate(&hns);
    let ns = hns.create(Kind::Namespace, None, Guid::NIL, "{}").unwrap();
    let add = format!(
        r#"{{"ResourceType":"Endpoint","RequestType":"Add","Settings":{{"EndpointId":"{}"}}}}"#,
        endpoints[0]
    );
    hns.modify(Kind::Namespace, ns, &add).unwrap();
    hns.listen(Protocol::Tcp, 10256).unwrap();
    let clock_settles = hns.settled_at();
    let (before, ports) = (hns.digest(), hns.ports());
    hns.restart(Loss::None).unwrap();
    assert_eq!(hns.ports(), ports);
    // The management address is there at once after a restart; everything else is equal.
    let mut after = hns.digest();
    let mut wanted = before;
    for dump in [&mut after, &mut wanted] {
        for document in dump.objects.get_mut(&Kind::Network).unwrap().values_mut() {
            document.as_object_mut().unwrap().shift_remove("Policies");
        }
    }
    assert_eq!(after, wanted);
    assert!(hns.settled_at() <= clock_settles);
}

#[test]
fn non_persistent_networks_vanish_with_what_lies_on_them() {
    let hns = open(Profile::Ws2022);
    let json = network_json("Overlay", 5, r#""Flags":8,"#);
    let gone = hns.create(Kind::Network, None, Guid::NIL, &json).unwrap();
    let kept = network(&hns, "Overlay", 0);
    let (a, b) = (local(&hns, gone, "10.50.5.9"), local(&hns, kept, "10.50.0.9"));
    make_balancer(&hns, &balancer(&["10.60.0.1"], (6, 80, 8080), &[a], 1)).unwrap();
    let stays = make_balancer(&hns, &balancer(&["10.60.0.2"], (6, 80, 8080), &[b, a], 1)).unwrap();
    let ns = hns.create(Kind::Namespace, None, Guid::NIL, "{}").unwrap();
    for endpoint in [a, b] {
        let add = format!(
            r#"{{"ResourceType":"Endpoint","RequestType":"Add","Settings":{{"EndpointId":"{endpoint}"}}}}"#
        );
        hns.modify(Kind::Namespace, ns, &add).unwrap();
    }
    hns.restart(Loss::None).unwrap();
    assert_eq!(hns.enumerate(Kind::Network, &Query::all()).unwrap(), [kept]);
    assert_eq!(hns.enumerate(Kind::Endpoint, &Query::all()).unwrap(), [b]);
    assert_eq!(hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap(), [stays]);
    let namespace: hcn::Namespace = hns.get(ns).unwrap();
    assert_eq!(namespace.resources.len(), 1);
    make_balancer(&hns, &balancer(&["10.60.0.1"], (6, 80, 8080), &[b], 1)).unwrap();
}

#[test]
fn losses_are_what_is_asked_for() {
    for (loss, balancers, endpoints, networks) in [
        (Loss::None, 100, 100, 1),
        (Loss::LoadBalancers, 0, 100, 1),
        (Loss::Endpoints, 0, 0, 1),
        (Loss::Everything, 0, 0, 0),
        (Loss::Fraction { kind: Kind::LoadBalancer, share: 0.0, seed: 1 }, 100, 100, 1),
        (Loss::Fraction { kind: Kind::LoadBalancer, share: 1.0, seed: 1 }, 0, 100, 1),
        (Loss::Fraction { kind: Kind::Network, share: 1.0, seed: 1 }, 0, 0, 0),
    ] {
        let hns = open(Profile::Ws2022);
        populate(&hns);
        hns.restart(loss).unwrap();
        let left = (count(&hns, Kind::LoadBalancer), count(&hns, Kind::Endpoint), count(&hns, Kind::Network));
        assert_eq!(left, (balancers, endpoints, networks), "{loss:?}");
        let report = hns.ports();
        let blocks: usize = report.spaces.iter().map(|space| space.blocks.len()).sum();
        assert_eq!(blocks, balancers, "{loss:?}: what is lost holds no ports");
    }
}

#[test]
fn a_fraction_depends_on_the_seed_alone() {
    let left = |seed| {
        let hns = open(Profile::Ws2022);
        populate(&hns);
        hns.restart(Loss::Fraction { kind: Kind::LoadBalancer, share: 0.5, seed }).unwrap();
        hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap()
    };
    let half = left(7);
    assert!((25..75).contains(&half.len()), "{} of 100 left", half.len());
    assert_eq!(left(7), half);
    assert_ne!(left(8), half);
}
