//! What a change costs, what time and restarts bring, what faults leave.

use vfp::model::Change;

use super::*;
use crate::faults::{Fault, FaultRule, Loss};

const TCP_80: &str = r#""Protocol":6,"InternalPort":8080,"ExternalPort":80"#;

fn vip(n: u32) -> String {
    format!(r#""10.60.{}.{}""#, n / 250, 1 + n % 250)
}

/// An overlay with pods and load balancers over two of them and a remote endpoint.
fn filled(pods: u32, balancers: u32) -> (World, Vec<Guid>) {
    let world = World::new();
    let network = world.network("Overlay", "");
    let mut endpoints: Vec<Guid> =
        (0..pods).map(|n| world.pod(network, 0x100 + n, &format!("10.50.1.{}", 10 + n), "")).collect();
    endpoints.truncate(2);
    endpoints.push(world.endpoint(network, 9, "10.50.3.5", true, ""));
    for n in 0..balancers {
        world.balancer(0x10_0000 + n, &vip(n), TCP_80, &endpoints, 1);
    }
    world.ledger.take_log();
    (world, endpoints)
}

#[test]
fn one_balancer_costs_its_own_rules_however_many_pods_and_balancers_there_are() {
    let mut costs = Vec::new();
    for (pods, balancers) in [(2, 1), (2, 2000), (60, 300)] {
        let (world, endpoints) = filled(pods, balancers);
        let made = world.balancer(0x20_0000, r#""10.61.0.1""#, TCP_80, &endpoints, 1);
        let log = world.ledger.take_log();
        let own = |change: &Change| match change {
            Change::PutRule { rule, .. } => rule.id.contains("00200000"),
            Change::RemoveRule { rule, .. } => rule.contains("00200000"),
            _ => false,
        };
        assert!(log.iter().all(own), "{log:?}");
        let json = format!(
            r#"{{"HostComputeEndpoints":["{}"],"SourceVIP":"10.50.1.2","FrontendVIPs":["10.61.0.1"],"Flags":1,
            "PortMappings":[{{{TCP_80}}}],{SCHEMA}}}"#,
            endpoints[0]
        );
        world.hns.modify(Kind::LoadBalancer, made, &json).unwrap();
        let changed = world.ledger.take_log();
        assert!(changed.iter().all(own), "{changed:?}");
        world.hns.delete(Kind::LoadBalancer, made).unwrap();
        let gone = world.ledger.take_log();
        assert!(gone.iter().all(own), "{gone:?}");
        costs.push((log.len(), changed.len(), gone.len()));
        world.sound();
    }
    // LB_DSR, HairPin, LB_HOST; NAT_ and ALLOW_NAT_ at two backends.
    assert_eq!(costs, [(7, 5, 5); 3], "made, changed, deleted");
}

#[test]
fn an_endpoint_costs_itself_and_the_balancers_that_name_it() {
    let (world, endpoints) = filled(3, 40);
    let other = world.pod(id(1), 0x900, "10.50.1.200", "");
    let log = world.ledger.take_log();
    assert!(
        log.len() < 60 && !log.iter().any(|change| format!("{change:?}").contains("LB_DSR_0010")),
        "{log:?}"
    );
    world.hns.delete(Kind::Endpoint, other).unwrap();
    world.ledger.take_log();
    world.hns.delete(Kind::Endpoint, endpoints[0]).unwrap();
    let log = world.ledger.take_log();
    let balancers = log
        .iter()
        .filter(|change| matches!(change, Change::PutRule { rule, .. } if rule.id.starts_with("LB_DSR")))
        .count();
    assert_eq!(balancers, 40);
    world.sound();
}

#[test]
fn rules_come_with_the_management_address() {
    let world = World::new();
    let members = r#""Name":"net","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.1.0/24",
        "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]}]}]"#;
    let network = world.make(Kind::Network, 1, None, members);
    let pod = world.pod(network, 5, "10.50.1.5", "");
    world.balancer(0xAB, r#""10.60.0.20""#, TCP_80, &[pod], 1);
    assert!(world.rules("LB_DSR").is_empty() && world.rules("PA_ROUTE").is_empty());
    world.settle();
    assert_eq!(world.rules("LB_DSR").len(), 1);
    assert!(!world.rules("PA_ROUTE").is_empty() && !world.rules("VNET_DECAP").is_empty());
    world.sound();
}

#[test]
fn any_call_brings_what_time_has_brought() {
    let world = World::new();
    let members = r#""Name":"net","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.1.0/24",
        "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]}]}]"#;
    world.make(Kind::Network, 1, None, members);
    world.clock.advance(Duration::from_secs(5));
    world.hns.version().unwrap();
    assert!(!world.rules("VNET_DECAP").is_empty());
}

#[test]
fn remote_subnets_wait_for_the_first_endpoint_unless_told() {
    let remote = r#"{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.50.3.0/24","IsolationId":4096,
        "ProviderAddress":"192.0.2.13","DistributedRouterMacAddress":"00-15-5D-AA-33-13"}}"#;
    for (yaml, before) in [("{}", 0), ("remote_routes_need_endpoint: false", 1)] {
        let world = World::with(yaml);
        let network = world.network("Overlay", remote);
        let count = |world: &World| world.rules("REMOTESUBNETROUTE").len();
        assert_eq!(count(&world), before);
        let pod = world.pod(network, 5, "10.50.1.5", "");
        assert_eq!(count(&world), 1);
        world.hns.delete(Kind::Endpoint, pod).unwrap();
        assert_eq!(count(&world), before);
        world.sound();
    }
}

#[test]
fn deleting_everything_leaves_the_machine() {
    let empty = World::new().ledger.items();
    let (world, _) = filled(3, 5);
    world.hns.delete(Kind::Network, id(1)).unwrap();
    assert_eq!(world.ledger.items(), empty);
    world.sound();
}

#[test]
fn a_restart_brings_the_same() {
    let (world, _) = filled(3, 5);
    let before = world.ledger.items();
    world.hns.restart(Loss::None).unwrap();
    assert_eq!(world.ledger.items(), before);
    assert!(world.ledger.take_log().is_empty(), "nothing is different, so nothing is said");
}

#[test]
fn a_switch_that_lost_its_balancers_gets_them_back_one_by_one() {
    let (world, endpoints) = filled(2, 3);
    world.hns.restart(Loss::Rules).unwrap();
    assert_eq!(world.hns.enumerate(Kind::LoadBalancer, &hcn::Query::all()).unwrap().len(), 3);
    assert!(world.rules("LB_DSR").is_empty() && world.rules("HairPin").is_empty());
    world.hns.delete(Kind::LoadBalancer, id(0x10_0001)).unwrap();
    world.balancer(0x10_0001, &vip(1), TCP_80, &endpoints, 1);
    assert_eq!(world.rules("LB_DSR").len(), 1);
    world.hns.restart(Loss::None).unwrap();
    assert_eq!(world.rules("LB_DSR").len(), 3);
    world.sound();
}

#[test]
fn an_endpoint_without_its_nat_gets_it_with_the_next_write() {
    let world = World::new();
    let network = world.network("L2Bridge", "");
    world.hns.faults().add(FaultRule::new(Fault::NoRules).times(1)).unwrap();
    let nat = r#"{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.0.0.0/8"]}}"#;
    let endpoint = world.endpoint(network, 5, "10.50.1.5", false, nat);
    assert!(world.rules("SNAT").is_empty());
    world.hns.attach_to_switch(endpoint).unwrap();
    assert_eq!(world.rules("SNAT_TCP").len(), 1);
    world.sound();
}

#[test]
fn a_load_balancer_without_its_rules_gets_them_when_it_is_made_anew() {
    let (world, endpoints) = filled(2, 1);
    world.hns.faults().add(FaultRule::new(Fault::NoRules).kind(Kind::LoadBalancer).times(1)).unwrap();
    let balancer = world.balancer(0x10_0005, &vip(7), TCP_80, &endpoints, 1);
    assert_eq!(world.rules("LB_DSR").len(), 1, "those of the other");
    world.sound();
    world.hns.delete(Kind::LoadBalancer, balancer).unwrap();
    world.balancer(0x10_0005, &vip(7), TCP_80, &endpoints, 1);
    assert_eq!(world.rules("LB_DSR").len(), 2);
    world.sound();
}

#[test]
fn stale_rules_stay_until_the_network_goes_or_the_service_restarts() {
    for restart in [false, true] {
        let (world, endpoints) = filled(2, 1);
        world.hns.faults().add(FaultRule::new(Fault::StaleRules).times(1)).unwrap();
        world.hns.delete(Kind::LoadBalancer, id(0x10_0000)).unwrap();
        assert_eq!((world.rules("LB_DSR").len(), world.rules("HairPin").len()), (1, 0));
        world.balancer(0x10_0005, &vip(0), TCP_80, &endpoints, 1);
        assert_eq!(world.rules("LB_DSR").len(), 2);
        if restart {
            world.hns.restart(Loss::None).unwrap();
            assert_eq!(world.rules("LB_DSR").len(), 1);
        } else {
            world.hns.delete(Kind::Network, id(1)).unwrap();
            assert!(world.rules("LB_DSR").is_empty());
        }
        world.sound();
    }
}

#[test]
fn who_joins_the_switch_to_a_machine_finds_its_way() {
    let world = World::new();
    let network = world.network("Overlay", "");
    let pod = world.pod(network, 5, "10.50.1.5", "");
    let other = world.endpoint(network, 6, "10.50.1.6", false, "");
    let namespace = world.make(Kind::Namespace, 0xA, None, r#""Type":"Host""#);
    let json =
        format!(r#"{{"ResourceType":"Endpoint","RequestType":"Add","Settings":{{"EndpointId":"{other}"}}}}"#);
    world.hns.modify(Kind::Namespace, namespace, &json).unwrap();
    let items = world.ledger.items();
    let port = |id: Uuid| match items.get(&Key::Port(id)) {
        Some(Item::Port(port)) => (**port).clone(),
        found => panic!("{id}: {found:?}"),
    };
    assert_eq!(port(world.hns.host_port()).kind, vfp::model::PortKind::Host);
    assert_eq!(port(world.hns.external_port()).kind, vfp::model::PortKind::External);
    let seat = world.hns.port_of(pod).unwrap();
    assert_eq!((seat.port, seat.namespace, seat.compartment), (id(0x1005).uuid(), None, None));
    assert_eq!(seat.addresses[0].to_string(), "10.50.1.5/24");
    assert_eq!(seat.gateways[0].to_string(), "10.50.1.1");
    let joined = world.hns.ports_of_namespace(namespace);
    assert_eq!((joined.len(), joined[0].endpoint, joined[0].compartment), (1, other, Some(2)));
    assert_eq!(world.hns.ports_of_compartment(2), joined);
    assert_eq!(world.hns.endpoint_ports().len(), 2);
    let segment = world.hns.segment_of(network).unwrap();
    assert_eq!(
        (port(joined[0].port).segment, world.hns.network_of_segment(segment)),
        (segment, Some(network))
    );
    assert_eq!(world.hns.port_of(id(99)), None);
    world.hns.restart(Loss::None).unwrap();
    assert_eq!(world.hns.segment_of(network), Some(segment));
}

/// A datapath that refuses everything.
struct Refuses;

impl Datapath for Refuses {
    fn apply(&self, _: &[Change]) -> Result<(), vfp::model::ApplyError> {
        Err(vfp::model::ApplyError { index: 0, what: "no".to_owned() })
    }
}

#[test]
fn a_refusal_is_kept_and_hns_goes_on() {
    let options = Options { datapath: Some(Arc::new(Refuses)), ..Options::new(Profile::Newest) };
    let hns = Hns::open(options).unwrap();
    hns.create(Kind::Network, None, Guid::NIL, r#"{"Name":"nat","Type":"NAT"}"#).unwrap();
    let errors = hns.datapath_errors();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].starts_with("change 0: no: Settings"), "{errors:?}");
}
