//! Load balancers.

use hcn::{Guid, HResult, Hcn, HcnExt, Kind, LoadBalancer, Query};
use hns::{Hns, Profile};

use crate::world::{balancer, local, make_balancer, network, open, refused, remote};

const TCP: u32 = 6;

fn overlay(profile: Profile) -> (Hns, Guid, Guid) {
    let hns = open(profile);
    let network = network(&hns, "Overlay", 0);
    let endpoint = local(&hns, network, "10.50.0.9");
    (hns, network, endpoint)
}

#[test]
fn a_balancer_is_made_found_read_and_deleted() {
    for profile in Profile::ALL {
        let (hns, network, endpoint) = overlay(profile);
        let other = remote(&hns, network, "10.50.9.9");
        let id = make_balancer(
            &hns,
            &balancer(&["10.60.0.1", "10.60.0.2"], (TCP, 443, 6443), &[endpoint, other], 1),
        )
        .unwrap();
        assert_eq!(hns.enumerate(Kind::LoadBalancer, &Query::by_id(id)).unwrap(), [id]);
        let read: LoadBalancer = hns.get(id).unwrap();
        assert_eq!(read.endpoints, [endpoint, other]);
        assert_eq!(read.frontends().len(), 2);
        assert_eq!(read.flags.bits(), 1);
        hns.delete(Kind::LoadBalancer, id).unwrap();
        assert_eq!(
            refused(hns.delete(Kind::LoadBalancer, id), &[&id.to_string()]),
            HResult::ELEMENT_NOT_FOUND
        );
        assert!(hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap().is_empty());
    }
}

#[test]
fn a_frontend_is_held_once_whatever_the_network() {
    let (hns, _, endpoint) = overlay(Profile::Ws2022);
    let document = balancer(&["10.60.0.1"], (TCP, 443, 6443), &[endpoint], 1);
    let holder = make_balancer(&hns, &document).unwrap();
    let other_network = network(&hns, "Overlay", 7);
    let other = local(&hns, other_network, "10.50.7.9");
    let again = balancer(&["10.60.0.1"], (TCP, 443, 8443), &[other], 1);
    let code = refused(make_balancer(&hns, &again), &["10.60.0.1:443/TCP", &holder.to_string()]);
    assert_eq!(code, HResult::ALREADY_EXISTS);
    make_balancer(&hns, &balancer(&["10.60.0.1"], (17, 443, 8443), &[other], 1)).unwrap();
    hns.delete(Kind::LoadBalancer, holder).unwrap();
    make_balancer(&hns, &again).unwrap();
}
