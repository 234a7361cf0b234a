//! `--cleanup`: takes away what proxies have left in HNS, and ends.
//!
//! Load balancers go first, as they refer to endpoints. Others' load balancers stay unless all was asked for; others'
//! endpoints stay always, as it cannot be told whose they are.

use std::collections::HashSet;
use std::fmt::Write as _;

use anyhow::{Context, bail};
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, LoadBalancer, Query};
use proxy::engine::{OWNER, is_derived_balancer, is_derived_endpoint};
use proxy_config::Cleanup;

use super::render;
use crate::exit::Exit;

/// Removes what `cleanup` names, and says what that was.
pub(super) fn run(hcn: &dyn Hcn, cleanup: Cleanup) -> anyhow::Result<Exit> {
    let (text, failed) = remove(hcn, cleanup)?;
    render::print(&text)?;
    if failed > 0 {
        bail!("{failed} objects could not be removed");
    }
    Ok(Exit::Success)
}

/// Removes, and returns what is to be said and how much could not be removed.
fn remove(hcn: &dyn Hcn, cleanup: Cleanup) -> anyhow::Result<(String, usize)> {
    let mut text = String::new();
    let mut failed = 0;
    // Ids tell whose an object is where HNS does not say it.
    let networks = hcn.enumerate(Kind::Network, &Query::all()).context("cannot list networks")?;
    let balancers: Vec<(Guid, LoadBalancer)> =
        hcn.list(&Query::all()).context("cannot list load balancers")?;
    let mut used = HashSet::new();
    let mut delete = |kind: Kind, id: Guid| match hcn.delete(kind, id) {
        Ok(()) => {
            let _ = writeln!(text, "Removed {kind} {id}");
            true
        }
        // Somebody else was quicker.
        Err(error) if error.is_not_found() => true,
        Err(error) => {
            let _ = writeln!(text, "Failed: {kind} {id}: {error}");
            failed += 1;
            false
        }
    };
    for (id, balancer) in balancers {
        let is_own = balancer.owner.as_deref() == Some(OWNER) || {
            let frontends = balancer.frontends();
            networks.iter().any(|&network| is_derived_balancer(network, id, &frontends))
        };
        if !(cleanup == Cleanup::All || is_own) || !delete(Kind::LoadBalancer, id) {
            used.extend(balancer.endpoints);
        }
    }
    let endpoints: Vec<(Guid, Endpoint)> = hcn.list(&Query::all()).context("cannot list endpoints")?;
    for (id, endpoint) in endpoints {
        let is_own = endpoint.owner.as_deref() == Some(OWNER) || {
            let addresses: Vec<_> = endpoint.addresses().collect();
            networks.iter().any(|&network| is_derived_endpoint(network, id, &addresses))
        };
        if is_own && !used.contains(&id) {
            delete(Kind::Endpoint, id);
        }
    }
    if text.is_empty() {
        text.push_str("There was nothing to remove.\n");
    }
    Ok((text, failed))
}

#[cfg(test)]
mod tests {
    use hcn::loadbalancer::PortMapping;
    use hns::faults::{Fault, FaultRule};
    use hns::journal::Op;
    use hns::{Hns, Options, Profile};

    use super::*;

    /// An HNS with a load balancer and an endpoint each: with our owner, with an id of ours and no owner, of somebody else.
    fn used() -> Hns {
        let hns = Hns::open(Options::new(Profile::Newest)).expect("an HNS");
        let network = hns
            .create(
                Kind::Network,
                None,
                Guid::NIL,
                r#"{"Name":"net","Type":"Internal","SchemaVersion":{"Major":2,"Minor":0}}"#,
            )
            .expect("a network");
        for (number, owner) in [(1, Some(OWNER)), (2, None), (3, Some("somebody"))] {
            let address = format!("10.1.0.{number}");
            let mut balancer = LoadBalancer {
                owner: owner.map(str::to_owned),
                frontend_vips: vec![format!("10.60.0.{number}")],
                port_mappings: vec![PortMapping {
                    protocol: 6,
                    external_port: 80,
                    internal_port: 80,
                    ..PortMapping::default()
                }],
                ..LoadBalancer::default()
            };
            let of_us = owner.is_none();
            let derived = |key: &str| if of_us { network.derive(key) } else { Guid::NIL };
            let endpoint = Endpoint {
                owner: owner.map(str::to_owned),
                ip_configurations: vec![hcn::endpoint::IpConfig {
                    ip_address: address.clone(),
                    ..Default::default()
                }],
                flags: hcn::endpoint::EndpointFlags::REMOTE_ENDPOINT,
                ..Endpoint::default()
            };
            let endpoint = hns
                .make_endpoint(network, derived(&format!("endpoint/remote/{address}")), &endpoint)
                .expect("an endpoint");
            balancer.endpoints = vec![endpoint];
            let key = proxy::status::frontend_key(&balancer.frontends()[0]);
            hns.make(derived(&key), &balancer).expect("a load balancer");
        }
        hns
    }

    /// How many load balancers and endpoints are left.
    fn left(hns: &Hns) -> (usize, usize) {
        let count = |kind| hns.enumerate(kind, &Query::all()).expect("a list").len();
        (count(Kind::LoadBalancer), count(Kind::Endpoint))
    }

    #[test]
    fn what_is_ours_goes_and_what_is_not_stays() {
        let hns = used();
        assert_eq!(left(&hns), (3, 3));
        let (text, failed) = remove(&hns, Cleanup::Own).expect("it can be listed");
        assert_eq!((failed, text.lines().count()), (0, 4), "{text}");
        assert_eq!(left(&hns), (1, 1));
        let (text, _) = remove(&hns, Cleanup::Own).expect("it can be listed");
        assert_eq!(text, "There was nothing to remove.\n");
    }

    #[test]
    fn all_load_balancers_go_and_the_endpoints_of_others_stay() {
        let hns = used();
        let (text, failed) = remove(&hns, Cleanup::All).expect("it can be listed");
        assert_eq!((failed, text.lines().count()), (0, 5), "{text}");
        assert_eq!(left(&hns), (0, 1));
    }

    #[test]
    fn what_cannot_be_removed_is_said_and_keeps_its_endpoint() {
        let hns = used();
        let rule = FaultRule::new(Fault::DelFail).on(Op::Delete).kind(Kind::LoadBalancer).times(1);
        hns.faults().add(rule).expect("the rule can be");
        let (text, failed) = remove(&hns, Cleanup::All).expect("it can be listed");
        assert_eq!(failed, 1, "{text}");
        assert_eq!(text.matches("Failed: load balancer ").count(), 1, "{text}");
        let (balancers, endpoints) = left(&hns);
        assert_eq!(balancers, 1);
        assert!(endpoints >= 1, "{text}");
        assert!(remove(&hns, Cleanup::All).is_ok_and(|(_, failed)| failed == 0));
        assert_eq!(left(&hns), (0, 1));
    }

    #[test]
    fn a_list_that_fails_removes_nothing() {
        for kind in [Kind::Network, Kind::LoadBalancer] {
            let hns = used();
            hns.faults().add(FaultRule::new(Fault::Down).kind(kind)).expect("the rule can be");
            assert!(remove(&hns, Cleanup::All).is_err());
            hns.faults().clear();
            assert_eq!(left(&hns), (3, 3), "{kind}");
        }
    }
}
