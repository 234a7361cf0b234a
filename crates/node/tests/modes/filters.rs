//! Filters besides plain ACLs: sets of addresses, tiers, a network's own ACLs.

use hcn::Kind;
use node::app::Transport::{Tcp, Udp};
use vfp::DropReason;

use crate::objects::{Ep, Net, policy};
use crate::world::{OUTSIDE, PEER, World};

const A: &str = "192.0.2.105";
const IN_80: &str = "192.0.2.105:80";

fn set(id: &str, kind: &str, values: &str) -> String {
    let settings = format!(r#""Id":"{id}","Name":"{id}","PolicyType":"{kind}","Values":"{values}""#);
    policy("SetPolicy", &settings)
}

fn block_from(set: &str) -> String {
    let settings = format!(r#""Id":"stop","Action":"Block","Direction":"In","RemoteAddresses":"{set}""#);
    policy("ACL", &settings)
}

/// A bridge with these policies and a pod `a` with those.
fn world(network: &str, own: &str) -> (World, hcn::Guid, hcn::Guid) {
    let mut world = World::new();
    let network = Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1").policies(network);
    let network = world.network(&network);
    let a = world.pod(network, &Ep::new("a", &[A]).policies(own));
    world.pod(network, &Ep::new("b", &["192.0.2.106"]));
    (world, network, a)
}

const STOPPED: (&str, DropReason, &str) = ("a", DropReason::Acl, "stop");

#[test]
fn a_change_of_a_set_changes_the_verdict() {
    let (mut world, network, _) = world(&set("bad", "IPSET", "192.0.2.20"), &block_from("bad"));
    world.refused("peer", IN_80, Tcp, STOPPED);
    world.answered("outside", IN_80, Tcp, "a", OUTSIDE);
    world.change(Kind::Network, network, "Remove", &set("bad", "IPSET", "192.0.2.20"));
    world.change(Kind::Network, network, "Add", &set("bad", "IPSET", "198.51.100.0/24"));
    world.answered("peer", IN_80, Tcp, "a", PEER);
    world.refused("outside", IN_80, Udp, STOPPED);
}

#[test]
fn nested_sets_are_resolved_and_several_sets_mean_what_is_in_all() {
    let sets = [
        set("near", "IPSET", "192.0.2.0/24"),
        set("far", "IPSET", "198.51.100.0/24"),
        set("all", "NESTEDIPSET", "near,far"),
        set("peers", "IPSET", "192.0.2.20,198.51.100.9"),
    ];
    let (mut world, network, _) = world(&sets.join(","), &block_from("all"));
    world.refused("peer", IN_80, Tcp, STOPPED);
    world.refused("outside", IN_80, Tcp, STOPPED);
    world.change(Kind::Network, network, "Remove", &sets[1]);
    world.change(Kind::Network, network, "Add", &set("far", "IPSET", "203.0.113.0/24"));
    world.answered("outside", IN_80, Tcp, "a", OUTSIDE);
    world.refused("peer", IN_80, Tcp, STOPPED);
    let (mut world, ..) = self::world(&sets.join(","), &block_from("near,peers"));
    world.refused("peer", IN_80, Tcp, STOPPED);
    world.answered("outside", IN_80, Tcp, "a", OUTSIDE);
    world.answered("b", IN_80, Tcp, "a", "192.0.2.106");
}

#[test]
fn pass_leaves_the_answer_to_the_next_tier() {
    let tier = |name: &str, order: u16, rules: &str| {
        let settings =
            format!(r#""Name":"{name}","Direction":"In","Order":{order},"TierAclRules":[{rules}]"#);
        policy("TierAcl", &settings)
    };
    let rule = |id: &str, action: &str, more: &str| {
        format!(r#"{{"Id":"{id}","TierAclRuleAction":"{action}"{more}}}"#)
    };
    // The first tier passes on who comes from the LAN and blocks all others but one; the second decides for those
    // who were passed on; the plain ACL is asked only about what no tier has decided.
    let first = [
        rule("lan", "Pass", r#","RemoteAddresses":"192.0.2.0/24","Priority":10"#),
        rule("far", "Block", r#","RemoteAddresses":"198.51.100.9","Priority":20"#),
    ];
    let second =
        [rule("peer", "Block", r#","RemoteAddresses":"192.0.2.20","LocalPorts":"443","Protocols":"6""#)];
    let plain = policy("ACL", r#""Id":"plain","Action":"Block","Direction":"In","Protocols":"17""#);
    let policies = [tier("second", 20, &second.join(",")), tier("first", 10, &first.join(",")), plain];
    let (mut world, ..) = world("", &policies.join(","));
    world.refused("outside", IN_80, Tcp, ("a", DropReason::Acl, "far"));
    world.refused("peer", "192.0.2.105:443", Tcp, ("a", DropReason::Acl, "peer"));
    world.answered("peer", IN_80, Tcp, "a", PEER);
    world.answered("b", "192.0.2.105:443", Tcp, "a", "192.0.2.106");
    world.refused("b", IN_80, Udp, ("a", DropReason::Acl, "plain"));
}

#[test]
fn a_networks_acl_concerns_all_its_pods_beside_their_own() {
    let all =
        r#""Id":"all","Action":"Block","Direction":"Out","RemoteAddresses":"198.51.100.0/24","Priority":10"#;
    let own = policy("ACL", r#""Id":"own","Action":"Allow","Direction":"Out""#);
    let (mut world, network, _) = world(&policy("NetworkACL", all), &own);
    for pod in ["a", "b"] {
        let far = format!("{OUTSIDE}:80");
        world.refused(pod, &far, Tcp, (pod, DropReason::Acl, "all"));
        world.answered(pod, &format!("{PEER}:80"), Udp, "peer", if pod == "a" { A } else { "192.0.2.106" });
    }
    // Connections from there are not the pods' own.
    world.answered("outside", IN_80, Tcp, "a", OUTSIDE);
    world.change(Kind::Network, network, "Remove", &policy("NetworkACL", all));
    world.answered("b", &format!("{OUTSIDE}:80"), Tcp, "outside", "192.0.2.106");
}

#[test]
fn before_load_balancing_an_acl_sees_the_vip_and_behind_it_the_backend() {
    let vip = r#""Id":"vip","Action":"Block","Direction":"Out","RemoteAddresses":"10.60.0.20""#;
    let backend = r#""Id":"dip","Action":"Block","Direction":"Out","RemoteAddresses":"192.0.2.106""#;
    for (yaml, blocked) in [("acl_before_lb: false", "dip"), ("acl_before_lb: true", "vip")] {
        for (acl, name) in [(vip, "vip"), (backend, "dip")] {
            let mut world = World::with(yaml);
            let network = world.network(&Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1"));
            world.pod(network, &Ep::new("a", &[A]).policies(policy("ACL", acl)));
            let b = world.pod(network, &Ep::new("b", &["192.0.2.106"]));
            let balancer = format!(
                r#""HostComputeEndpoints":["{b}"],"FrontendVIPs":["10.60.0.20"],"Flags":1,
                "PortMappings":[{{"Protocol":6,"InternalPort":8080,"ExternalPort":80}}]"#
            );
            world.create("win", Kind::LoadBalancer, None, &balancer);
            if name == blocked {
                world.refused("a", "10.60.0.20:80", Tcp, ("a", DropReason::Acl, name));
            } else {
                world.answered("a", "10.60.0.20:80", Tcp, "b", A);
            }
        }
    }
}
