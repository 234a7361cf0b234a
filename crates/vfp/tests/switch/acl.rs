//! Layers that allow and block: state, order, flags, defaults.

use vfp::DropReason;
use vfp::model::{Action, Change, Conditions, Direction, LayerFlags, Rule, RuleFlags, TagSpec};

use crate::fixture::*;

fn block(id: &str, conditions: Conditions) -> Rule {
    rule(id, conditions, Action::Block)
}

fn allow(id: &str, conditions: Conditions) -> Rule {
    rule(id, conditions, Action::Allow)
}

#[test]
fn an_allowed_connection_gets_its_replies() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(L1, "ACL", 200, true);
        rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![allow("out", to(ips.pod(L2)))]);
        rig.group((L1, "ACL"), Direction::In, ips, 100, vec![block("in", Conditions::any())]);
        let (a, b) = ((ips.pod(L1), 1000), (ips.pod(L2), 2000));
        rig.dropped(L2, udp(between(L2, L1), b, a), DropReason::Acl);
        rig.one(L1, udp(between(L1, L2), a, b), L2);
        rig.one(L2, udp(between(L2, L1), b, a), L1);
        // Another connection of the other side is blocked still.
        rig.dropped(L2, udp(between(L2, L1), (b.0, 2001), a), DropReason::Acl);
        // A new rule against it does not concern replies.
        let key = vfp::model::GroupKey(format!("ACL/{}/IN/{}/100", mac_of(L1), ips.family()).into());
        rig.apply(&[Change::PutRule { group: key, rule: block("more", from(ips.pod(L2))).into() }]);
        rig.one(L2, udp(between(L2, L1), b, a), L1);
    }
}

/// A connection that began before any rule was there: whoever opened it is blocked or not by the rules of that way,
/// whichever side sends first when they come.
#[test]
fn rules_that_come_later_know_who_opened_a_connection() {
    for ips in FAMILIES {
        let (pod, peer) = ((ips.pod(L1), 1000), (ips.pod(L2), 2000));
        let out = |flags| tcp(between(L1, L2), pod, peer, flags);
        let back = |flags| tcp(between(L2, L1), peer, pod, flags);
        for (by_pod, pod_sends_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut rig = Rig::new();
            rig.layer(L1, "ACL", 200, true);
            for flags in [SYN, SYN_ACK, ACK] {
                if by_pod == (flags != SYN_ACK) {
                    rig.one(L1, out(flags), L2);
                } else {
                    rig.one(L2, back(flags), L1);
                }
            }
            rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![allow("out", Conditions::any())]);
            rig.group((L1, "ACL"), Direction::In, ips, 100, vec![block("in", Conditions::any())]);
            if pod_sends_first {
                rig.one(L1, out(ACK), L2);
            } else {
                // Nobody knows yet that this may be a reply.
                rig.dropped(L2, back(ACK), DropReason::Acl);
            }
            for _ in 0..3 {
                if by_pod {
                    rig.one(L1, out(ACK), L2);
                    rig.one(L2, back(ACK), L1);
                } else {
                    rig.dropped(L2, back(ACK), DropReason::Acl);
                    rig.one(L1, out(ACK), L2);
                }
                // Another change alters nothing about it.
                let key = vfp::model::GroupKey(format!("ACL/{}/IN/{}/100", mac_of(L1), ips.family()).into());
                rig.apply(&[Change::PutRule { group: key, rule: block("more", from(ips.vip())).into() }]);
            }
            // The pod may open one of its own with the same ports.
            rig.one(L1, out(SYN), L2);
            rig.one(L2, back(SYN_ACK), L1);
        }
    }
}

#[test]
fn stateless_layers_ask_both_ways() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, false);
    rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![allow("out", Conditions::any())]);
    rig.group((L1, "ACL"), Direction::In, ips, 100, vec![block("in", Conditions::any())]);
    let (a, b) = ((ips.pod(L1), 1000), (ips.pod(L2), 2000));
    rig.one(L1, udp(between(L1, L2), a, b), L2);
    rig.dropped(L2, udp(between(L2, L1), b, a), DropReason::Acl);
}

/// Groups and rules by priority; a terminating answer ends the layer, another one may be overturned.
#[test]
fn the_order_of_groups_and_rules() {
    let flags = |mut rule: Rule, flags| {
        rule.flags = flags;
        rule
    };
    let (soft, hard) = (RuleFlags::STATEFUL, RuleFlags::STATEFUL | RuleFlags::TERMINATING);
    let cases = [
        // (first group's rule, second group's rule, passes)
        (flags(block("b", Conditions::any()), soft), flags(allow("a", Conditions::any()), hard), true),
        (flags(block("b", Conditions::any()), hard), flags(allow("a", Conditions::any()), hard), false),
        (flags(allow("a", Conditions::any()), soft), flags(block("b", Conditions::any()), hard), false),
        (flags(allow("a", Conditions::any()), hard), flags(block("b", Conditions::any()), hard), true),
        (flags(block("b", Conditions::any()), soft), flags(allow("a", to(Ips(false).vip())), hard), false),
    ];
    for (first, second, passes) in cases {
        let ips = Ips(false);
        let mut rig = Rig::new();
        rig.layer(L1, "ACL", 200, true);
        // Hung in the other order, so that the priority decides.
        rig.group((L1, "ACL"), Direction::Out, ips, 200, vec![second.clone()]);
        rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![first.clone()]);
        let frame = udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
        assert_eq!(rig.send(L1, frame).len(), usize::from(passes), "{first:?} then {second:?}");
    }
    // Within a group the lower number wins, among equals the one that was put first.
    for (priorities, passes) in [((1, 2), true), ((2, 1), false), ((1, 1), true)] {
        let ips = Ips(false);
        let mut rig = Rig::new();
        rig.layer(L1, "ACL", 200, true);
        let rules = vec![
            Rule { priority: priorities.0, ..allow("a", Conditions::any()) },
            Rule { priority: priorities.1, ..block("b", Conditions::any()) },
        ];
        rig.group((L1, "ACL"), Direction::Out, ips, 100, rules);
        let frame = udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
        assert_eq!(rig.send(L1, frame).len(), usize::from(passes), "{priorities:?}");
    }
}

#[test]
fn layers_go_up_on_the_way_out_and_down_on_the_way_in() {
    // A mark that the layer in between asks for shows who came first.
    for (direction, passes) in [(Direction::Out, true), (Direction::In, false)] {
        let ips = Ips(false);
        let mut rig = Rig::new();
        rig.layer(L1, "FIRST", 100, false);
        rig.layer_with(L1, "SECOND", 200, false, LayerFlags::empty());
        rig.group((L1, "FIRST"), direction, ips, 100, vec![rule("mark", Conditions::any(), Action::Mark(7))]);
        let marked = Conditions { mark: Some(7), ..Conditions::any() };
        rig.group((L1, "SECOND"), direction, ips, 100, vec![allow("marked", marked)]);
        let (a, b) = ((ips.pod(L1), 1), (ips.pod(L2), 2));
        let frames = match direction {
            Direction::Out => rig.send(L1, udp(between(L1, L2), a, b)),
            Direction::In => rig.send(L2, udp(between(L2, L1), b, a)),
        };
        assert_eq!(frames.len(), usize::from(passes), "{direction}");
    }
}

#[test]
fn without_default_allow_nothing_passes_unasked() {
    let ips = Ips(true);
    let mut rig = Rig::new();
    rig.layer_with(L1, "ACL", 200, true, LayerFlags::empty());
    let frame = |port| udp(between(L1, L2), (ips.pod(L1), port), (ips.pod(L2), 2));
    // A layer without groups has nothing to say.
    rig.one(L1, frame(1), L2);
    let key = rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![allow("other", to(ips.vip()))]);
    rig.dropped(L1, frame(2), DropReason::NoRuleMatch);
    rig.dropped(L1, frame(1), DropReason::NoRuleMatch);
    // The other direction has no group, but the layer does not allow by default.
    rig.dropped(L2, udp(between(L2, L1), (ips.pod(L2), 9), (ips.pod(L1), 9)), DropReason::NoRuleMatch);
    rig.apply(&[Change::Detach { port: L1, layer: "ACL".into(), group: key }]);
    rig.one(L1, frame(1), L2);
}

#[test]
fn a_tags_addresses_change_under_rules_that_name_it() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    let tag = |addresses: Vec<std::net::IpAddr>| {
        Change::PutTag(TagSpec {
            id: "t".into(),
            name: "t".into(),
            addresses: addresses.into_iter().collect(),
        })
    };
    rig.apply(&[tag(vec![ips.pod(L2)])]);
    rig.layer(L1, "ACL", 200, true);
    let tagged = Conditions { destination_tag: Some("t".into()), ..Conditions::any() };
    rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![block("b", tagged)]);
    let frame = || udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
    rig.dropped(L1, frame(), DropReason::Acl);
    rig.apply(&[tag(vec![ips.vip()])]);
    rig.one(L1, frame(), L2);
    rig.apply(&[tag(vec![ips.vip(), ips.pod(L2)])]);
    rig.dropped(L1, frame(), DropReason::Acl);
    rig.apply(&[Change::RemoveTag("t".into())]);
    rig.one(L1, frame(), L2);
}

#[test]
fn rules_for_first_syns_and_others_decide_connections() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    let mut first = allow("syn", Conditions::any());
    first.flags |= RuleFlags::SYN;
    first.priority = 1;
    let mut others = block("others", Conditions::any());
    others.flags |= RuleFlags::NON_SYN;
    others.priority = 2;
    rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![first, others]);
    let frame = |port, flags| tcp(between(L1, L2), (ips.pod(L1), port), (ips.pod(L2), 2), flags);
    rig.dropped(L1, frame(1, ACK), DropReason::Acl);
    rig.one(L1, frame(1, SYN), L2);
    rig.one(L1, frame(1, ACK), L2);
    // Something else changes: the connection keeps its decision, though this packet would not get it.
    rig.layer(L1, "OTHER", 300, true);
    rig.one(L1, frame(1, ACK), L2);
}

#[test]
fn counters_of_rules_and_meters() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "METER", 50, false);
    rig.layer(L1, "ACL", 200, true);
    rig.group(
        (L1, "METER"),
        Direction::Out,
        ips,
        100,
        vec![rule("meter", Conditions::any(), Action::Meter(vfp::model::Meter { class: 5 }))],
    );
    rig.group(
        (L1, "ACL"),
        Direction::Out,
        ips,
        100,
        vec![block("b", to(ips.vip())), allow("a", Conditions::any())],
    );
    let (a, b) = ((ips.pod(L1), 1), (ips.pod(L2), 2));
    let counters = |rig: &Rig, layer: usize, rule: usize| {
        let layers = rig.switch.layers(L1).unwrap();
        layers[layer].groups[0].counters[rule]
    };
    for _ in 0..3 {
        rig.one(L1, udp(between(L1, L2), a, b), L2);
        rig.one(L2, udp(between(L2, L1), b, a), L1);
    }
    rig.dropped(L1, udp((mac_of(L1), DR), a, (ips.vip(), 80)), DropReason::Acl);
    let check = |rig: &Rig| {
        assert_eq!(counters(rig, 1, 1).matched_packets, 6, "replies follow the rule, too");
        assert_eq!((counters(rig, 1, 0).matched_packets, counters(rig, 1, 0).dropped_packets), (1, 1));
        assert_eq!(counters(rig, 0, 0).matched_packets, 4);
        let bytes = 37 * 3;
        let meters = rig.switch.meters(L1).unwrap();
        assert_eq!((meters[0].0, meters[0].1.packets, meters[0].1.bytes), (5, 3, bytes));
    };
    check(&rig);
    // Flows end; what they counted does not.
    rig.pass(300);
    rig.switch.sweep(rig.now, 1000);
    assert_eq!(rig.switch.flow_count(L1), Some(0));
    check(&rig);
}
