//! ACLs: which exchange passes, and which rule refuses the others.

use node::app::Transport::{self, Tcp, Udp};
use vfp::DropReason;

use crate::objects::{Ep, Net};
use crate::world::{BOTH, OUTSIDE, PEER, World};

const A: &str = "192.0.2.105";
const A6: &str = "2001:db8:1::105";
const PEER6: &str = "2001:db8:1::20";

/// An ACL: id, action, direction, more members.
fn acl(id: &str, action: &str, direction: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    let settings = format!(r#""Id":"{id}","Action":"{action}","Direction":"{direction}"{more}"#);
    crate::objects::policy("ACL", &settings)
}

/// A node with the pods `a`, which has these policies, and `b`.
fn world(switches: &str, policies: &str) -> World {
    let mut world = World::with(switches);
    let network =
        Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1").subnet("2001:db8:1::/64", "2001:db8:1::1", "");
    let network = world.network(&network);
    world.pod(network, &Ep::new("a", &[A, A6]).policies(policies));
    world.pod(network, &Ep::new("b", &["192.0.2.106", "2001:db8:1::106"]));
    world
}

/// One exchange of a case: from whom, to which address and port, over what, and the rule that refuses it, if any.
type Try<'a> = (&'a str, &'a str, Transport, Option<&'a str>);

struct Case<'a> {
    name: &'a str,
    switches: &'a str,
    acls: &'a [(&'a str, &'a str, &'a str, &'a str)],
    tries: &'a [Try<'a>],
}

fn check(cases: &[Case<'_>]) {
    for case in cases {
        let acls: Vec<String> =
            case.acls.iter().map(|(id, action, direction, more)| acl(id, action, direction, more)).collect();
        let mut world = world(case.switches, &acls.join(","));
        for &(from, to, transport, rule) in case.tries {
            world.log.clear();
            let done = world.ask(from, to, transport);
            let drops = world.log.take_drops();
            let what = format!("{}: {from} to {to} by {transport}: {}\n{drops:#?}", case.name, done.outcome);
            match rule {
                None => assert!(done.outcome.answer().is_some(), "{what}"),
                Some(rule) => {
                    assert!(done.outcome.answer().is_none(), "{what}");
                    let by = |drop: &crate::log::Dropped| {
                        let name = drop.rule.as_ref().map_or("", |rule| &*rule.name);
                        drop.port == "a" && drop.reason == DropReason::Acl && name == rule
                    };
                    assert!(drops.iter().any(by), "{what}");
                }
            }
        }
    }
}

const IN_80: &str = "192.0.2.105:80";
const IN_443: &str = "192.0.2.105:443";
const IN6_80: &str = "[2001:db8:1::105]:80";
const OUT_80: &str = "192.0.2.20:80";
const OUT_443: &str = "192.0.2.20:443";
const FAR_80: &str = "198.51.100.9:80";

#[test]
fn directions_protocols_ports_and_addresses() {
    check(&[
        Case {
            name: "nothing matches: it passes",
            switches: "{}",
            acls: &[("x", "Block", "In", r#""RemoteAddresses":"203.0.113.0/24""#)],
            tries: &[("peer", IN_80, Tcp, None), ("a", OUT_80, Udp, None), ("peer", IN6_80, Tcp, None)],
        },
        Case {
            name: "what comes in, not what goes out",
            switches: "{}",
            acls: &[("in", "Block", "In", "")],
            tries: &[
                ("peer", IN_80, Tcp, Some("in")),
                ("outside", IN_80, Udp, Some("in")),
                ("b", IN_80, Tcp, Some("in")),
                ("win", IN_80, Tcp, Some("in")),
                ("peer", IN6_80, Tcp, Some("in")),
                // Replies to the pod's own connections are theirs.
                ("a", OUT_80, Tcp, None),
                ("a", OUT_80, Udp, None),
                ("a", FAR_80, Tcp, None),
                ("a", "[2001:db8:1::20]:80", Tcp, None),
            ],
        },
        Case {
            name: "what goes out, not what comes in",
            switches: "{}",
            acls: &[("out", "Block", "Out", "")],
            tries: &[
                ("a", OUT_80, Tcp, Some("out")),
                ("a", FAR_80, Udp, Some("out")),
                ("a", "192.0.2.106:80", Tcp, Some("out")),
                ("a", "192.0.2.11:80", Tcp, Some("out")),
                ("peer", IN_80, Tcp, None),
                ("outside", IN_80, Udp, None),
                ("b", IN_80, Tcp, None),
            ],
        },
        Case {
            name: "one protocol",
            switches: "{}",
            acls: &[("tcp", "Block", "In", r#""Protocols":"6""#)],
            tries: &[("peer", IN_80, Tcp, Some("tcp")), ("peer", IN_80, Udp, None)],
        },
        Case {
            name: "a list of protocols",
            switches: "{}",
            acls: &[("both", "Block", "In", r#""Protocols":"6,17""#)],
            tries: &[("peer", IN_80, Tcp, Some("both")), ("peer", IN_80, Udp, Some("both"))],
        },
        Case {
            name: "own ports, in a list with a range",
            switches: "{}",
            acls: &[("ports", "Block", "In", r#""Protocols":"6,17","LocalPorts":"53,8000-8080,443""#)],
            tries: &[
                ("peer", "192.0.2.105:53", Udp, Some("ports")),
                ("peer", "192.0.2.105:8000", Tcp, Some("ports")),
                ("peer", "192.0.2.105:8080", Tcp, Some("ports")),
                ("peer", IN_443, Udp, Some("ports")),
                ("peer", IN_80, Tcp, None),
                ("peer", "192.0.2.105:8443", Tcp, None),
                ("a", OUT_443, Tcp, None),
            ],
        },
        Case {
            name: "remote ports on the way out",
            switches: "{}",
            acls: &[("443", "Block", "Out", r#""Protocols":"6","RemotePorts":"443""#)],
            tries: &[
                ("a", OUT_443, Tcp, Some("443")),
                ("a", OUT_443, Udp, None),
                ("a", OUT_80, Tcp, None),
                ("peer", IN_443, Tcp, None),
            ],
        },
        Case {
            name: "addresses of both families in one list",
            switches: "{}",
            acls: &[(
                "who",
                "Block",
                "In",
                r#""RemoteAddresses":"198.51.100.0/24,2001:db8:1::20,192.0.2.106""#,
            )],
            tries: &[
                ("outside", IN_80, Tcp, Some("who")),
                ("b", IN_80, Tcp, Some("who")),
                ("peer", IN6_80, Tcp, Some("who")),
                ("peer", IN_80, Tcp, None),
                ("outside", IN6_80, Tcp, None),
            ],
        },
        Case {
            name: "own addresses: one family of a pod of both",
            switches: "{}",
            acls: &[("own", "Block", "In", r#""LocalAddresses":"2001:db8:1::105""#)],
            tries: &[("peer", IN6_80, Tcp, Some("own")), ("peer", IN_80, Tcp, None)],
        },
    ]);
}

#[test]
fn priorities_and_ties() {
    check(&[
        Case {
            name: "the lower number wins, wherever it stands",
            switches: "{}",
            acls: &[
                ("late", "Block", "In", r#""Priority":500"#),
                ("web", "Allow", "In", r#""Protocols":"6","LocalPorts":"80","Priority":100"#),
            ],
            tries: &[
                ("peer", IN_80, Tcp, None),
                ("peer", IN_443, Tcp, Some("late")),
                ("peer", IN_80, Udp, Some("late")),
            ],
        },
        Case {
            name: "a block before an allow",
            switches: "{}",
            acls: &[
                ("all", "Allow", "In", r#""Priority":500"#),
                ("peer", "Block", "In", r#""RemoteAddresses":"192.0.2.20","Priority":499"#),
            ],
            tries: &[("peer", IN_80, Tcp, Some("peer")), ("b", IN_80, Tcp, None)],
        },
        Case {
            name: "of equal ones the first given: a block",
            switches: "{}",
            acls: &[("one", "Block", "In", r#""Priority":200"#), ("two", "Allow", "In", r#""Priority":200"#)],
            tries: &[("peer", IN_80, Tcp, Some("one"))],
        },
        Case {
            name: "of equal ones the first given: an allow",
            switches: "{}",
            acls: &[("two", "Allow", "In", r#""Priority":200"#), ("one", "Block", "In", r#""Priority":200"#)],
            tries: &[("peer", IN_80, Tcp, None)],
        },
    ]);
}

#[test]
fn filters_of_the_host_and_of_the_switch_must_both_let_through() {
    let host = r#""RuleType":"Host","Priority":100"#;
    let switch = r#""RuleType":"Switch","Priority":100"#;
    check(&[
        Case {
            name: "the host allows, the switch blocks",
            switches: "{}",
            acls: &[("h", "Allow", "In", host), ("s", "Block", "In", switch)],
            tries: &[("peer", IN_80, Tcp, Some("s"))],
        },
        Case {
            name: "the host blocks, the switch allows",
            switches: "{}",
            acls: &[("h", "Block", "In", host), ("s", "Allow", "In", switch)],
            tries: &[("peer", IN_80, Tcp, Some("h"))],
        },
        Case {
            name: "both allow, and replies pass as well",
            switches: "{}",
            acls: &[("h", "Allow", "In", host), ("s", "Allow", "In", switch), ("o", "Block", "Out", switch)],
            tries: &[("peer", IN_80, Tcp, None), ("peer", IN_80, Udp, None), ("a", OUT_80, Tcp, Some("o"))],
        },
    ]);
}

#[test]
fn what_no_acl_matches_is_the_switchs_choice() {
    let web = r#""Protocols":"6","LocalPorts":"80""#;
    for (yaml, denied) in [("acl_default_deny: false", false), ("acl_default_deny: true", true)] {
        let mut world = world(yaml, &acl("web", "Allow", "In", web));
        world.answered("peer", IN_80, Tcp, "a", PEER);
        // The other direction has no ACL, so that nothing is denied there.
        world.answered("a", OUT_443, Tcp, "peer", A);
        let done = world.ask("peer", IN_443, Tcp);
        assert_eq!(done.outcome.answer().is_none(), denied, "{yaml}: {}", done.outcome);
        if denied {
            let drops = world.log.take_drops();
            let last = drops.last().unwrap();
            let what = (&*last.port, last.reason, last.direction);
            assert_eq!(what, ("a", DropReason::Acl, vfp::model::Direction::In));
            assert!(last.rule.as_ref().unwrap().group.starts_with("ACL_DEFAULT_GROUP_IPV4"), "{last:?}");
        }
        // The neighbour without ACLs is untouched.
        world.answered("peer", "192.0.2.106:443", Tcp, "b", PEER);
    }
}

#[test]
fn pings_are_filtered_like_everything_else() {
    let mut world = world("{}", &acl("icmp", "Block", "In", r#""Protocols":"1,58""#));
    world.log.clear();
    assert!(!world.ping("peer", A));
    world.dropped(("a", DropReason::Acl, "icmp"));
    assert!(!world.ping("peer", A6));
    world.dropped(("a", DropReason::Acl, "icmp"));
    // The pod's own pings come back, and TCP passes.
    assert!(world.ping("a", PEER) && world.ping("a", OUTSIDE) && world.ping("a", PEER6));
    for transport in BOTH {
        world.answered("peer", IN_80, transport, "a", PEER);
    }
}

#[test]
fn the_port_has_the_name_that_the_policy_gives_and_drops_are_counted_there() {
    let policies = [acl("in", "Block", "In", ""), crate::objects::policy("PortName", r#""Name":"my-port""#)];
    let mut world = world("{}", &policies.join(","));
    world.refused("peer", IN_80, Tcp, ("a", DropReason::Acl, "in"));
    let switch = &world.nodes["win"].switch;
    let port = switch.ports().into_iter().find(|port| port.friendly_name == "my-port").unwrap();
    assert_eq!(port.nic_name, "a");
    let counted = switch.with(|switch| {
        switch.counters(port.name, vfp::model::Direction::In).unwrap().dropped(DropReason::Acl)
    });
    assert!(counted > 0);
}
