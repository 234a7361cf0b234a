//! Changes: all of a list or none, and what is refused.

use std::fmt::Write;

use vfp::Switch;
use vfp::model::{
    Action, Change, Conditions, Direction, EncapDestination, EncapFlags, GroupKey, PoolKey, PortKind,
    RouteEncap, SegmentSpec, SwitchSettings, TagSpec, Transpose,
};

use crate::fixture::*;

/// Everything that can be looked at.
pub(crate) fn image(switch: &Switch) -> String {
    let mut text = String::new();
    let mut put = |value: &dyn std::fmt::Debug| writeln!(text, "{value:?}").expect("memory takes it");
    put(switch.settings());
    put(&switch.segments());
    put(&switch.neighbors());
    put(&switch.tags());
    put(&switch.pools());
    put(&switch.bindings());
    for port in switch.ports() {
        put(&port);
        put(&switch.layers(port.spec.name));
        put(&switch.flows(port.spec.name, std::time::Duration::from_secs(5000)));
        for direction in [Direction::Out, Direction::In] {
            put(&switch.counters(port.spec.name, direction));
        }
    }
    text
}

fn rig() -> (Rig, GroupKey) {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    let key =
        rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![rule("a", Conditions::any(), Action::Allow)]);
    rig.pool("pool", 6, L1, ips.node(), (1, 2));
    rig.apply(&[Change::PutTag(TagSpec {
        id: "tag".into(),
        name: "tag".into(),
        addresses: [ips.vip()].into_iter().collect(),
    })]);
    rig.one(L1, udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2)), L2);
    (rig, key)
}

#[expect(clippy::too_many_lines, reason = "a table of refusals")]
#[test]
fn each_refusal_names_what_is_wrong_and_changes_nothing() {
    let (mut rig, key) = rig();
    let ips = Ips(false);
    let nobody = uuid::Uuid::from_u128(99);
    let group_of = |rules| Change::PutGroup(group(&key, Direction::Out, ips, 100, rules));
    let encap = |destinations| RouteEncap {
        source: ips.node(),
        destinations,
        source_mac: None,
        flags: EncapFlags::empty(),
    };
    let to = |pa, vni| EncapDestination { pa, ca_mac: None, vni };
    let layer = vfp::model::LayerSpec {
        id: "X".into(),
        name: "X".into(),
        priority: 1,
        stateful: false,
        flags: vfp::model::LayerFlags::empty(),
    };
    let cases: Vec<(Change, &str)> = vec![
        (Change::Settings(SwitchSettings { vxlan_port: 0, ..SwitchSettings::default() }), "VXLAN port is 0"),
        (Change::RemoveSegment(1), "segment 1 still has port"),
        (Change::PutPort(port(nobody, PortKind::External, 0)), "has the external port"),
        (Change::RemovePort(nobody), "there is no port"),
        (Change::PutLayer { port: nobody, layer }, "put the port first"),
        (Change::RemoveLayer { port: L1, layer: "X".into() }, "has no layer X"),
        (
            group_of(vec![
                rule("r", Conditions::any(), Action::Allow),
                rule("r", Conditions::any(), Action::Block),
            ]),
            "given twice",
        ),
        (Change::RemoveGroup(GroupKey("none".into())), "there is no group none"),
        (Change::RemoveGroup(key.clone()), "still hangs in 1 layers"),
        (Change::Attach { port: L1, layer: "X".into(), group: key.clone() }, "has no layer X"),
        (
            Change::Attach { port: L1, layer: "ACL".into(), group: GroupKey("none".into()) },
            "there is no group none",
        ),
        (Change::Attach { port: L1, layer: "ACL".into(), group: key.clone() }, "hangs in layer ACL of port"),
        (Change::Detach { port: L2, layer: "ACL".into(), group: key.clone() }, "does not hang"),
        (
            Change::PutRule {
                group: GroupKey("none".into()),
                rule: rule("r", Conditions::any(), Action::Allow).into(),
            },
            "put the group first",
        ),
        (Change::RemoveRule { group: key.clone(), rule: "none".into() }, "has no rule none"),
        (Change::PutPool(pool("p", 6, nobody, ips.node(), (1, 2))), "put the port first"),
        (Change::PutPool(pool("p", 6, L1, ips.node(), (2, 1))), "runs backwards"),
        (Change::RemovePool(PoolKey("none".into())), "there is no pool none"),
        (Change::RemoveTag("none".into()), "there is no tag none"),
        (
            group_of(vec![rule("r", Conditions::any(), Action::RouteEncap(encap(vec![])))]),
            "at least one destination",
        ),
        (
            group_of(vec![rule(
                "r",
                Conditions::any(),
                Action::RouteEncap(encap(vec![to(ips.node(), 1); 9])),
            )]),
            "at most 8",
        ),
        (
            group_of(vec![rule(
                "r",
                Conditions::any(),
                Action::RouteEncap(encap(vec![to(ips.node(), 1 << 24)])),
            )]),
            "24 bits",
        ),
        (
            group_of(vec![rule(
                "r",
                Conditions::any(),
                Action::RouteEncap(encap(vec![to(Ips(true).node(), 1)])),
            )]),
            "both families",
        ),
        (
            group_of(vec![rule(
                "r",
                Conditions::any(),
                Action::LbNat(balance(vec![dip(ips.vip(), 1, None), dip(Ips(true).vip(), 1, None)], None)),
            )]),
            "both families",
        ),
        (
            group_of(vec![rule(
                "r",
                Conditions::any(),
                Action::Transpose(Transpose { vlan: Some(4095), ..Transpose::default() }),
            )]),
            "0 to 4094",
        ),
    ];
    let before = image(&rig.switch);
    let good = Change::PutSegment(SegmentSpec { id: 7, ..SegmentSpec::default() });
    for (change, words) in cases {
        let error = rig.switch.apply(&[good.clone(), change.clone(), good.clone()]).expect_err(words);
        assert_eq!(error.index, 1, "{change:?}");
        assert!(error.what.contains(words), "{}: {change:?}", error.what);
        assert_eq!(image(&rig.switch), before, "{change:?}");
    }
}

#[test]
fn a_list_is_checked_as_it_would_be_done() {
    let (mut rig, key) = rig();
    let ips = Ips(false);
    let layer = |id: &str| Change::PutLayer {
        port: L1,
        layer: vfp::model::LayerSpec {
            id: id.into(),
            name: id.into(),
            priority: 1,
            stateful: false,
            flags: vfp::model::LayerFlags::DEFAULT_ALLOW,
        },
    };
    let attach = |id: &str| Change::Attach { port: L1, layer: id.into(), group: key.clone() };
    let remove = || Change::RemoveGroup(key.clone());
    // What hangs nowhere any more may go, in whatever way it came down.
    let down = [
        vec![Change::Detach { port: L1, layer: "ACL".into(), group: key.clone() }, remove()],
        vec![Change::RemoveLayer { port: L1, layer: "ACL".into() }, remove()],
        vec![Change::RemovePort(L1), remove()],
        vec![layer("Y"), attach("Y"), Change::RemovePort(L1), remove()],
        vec![
            Change::RemovePort(L1),
            Change::PutPort(port(L1, PortKind::Endpoint, 1)),
            layer("ACL"),
            remove(),
        ],
    ];
    for changes in down {
        let (mut rig, _) = self::rig();
        rig.apply(&changes);
        assert_eq!(rig.switch.group_size(&key), None);
    }
    // What was removed is not there for what follows; what was put is.
    for (changes, index) in [
        (vec![layer("Y"), attach("Y"), Change::RemoveLayer { port: L1, layer: "ACL".into() }, remove()], 3),
        (vec![Change::RemovePort(L1), layer("Y")], 1),
        (vec![Change::RemovePort(L1), Change::PutPort(port(L1, PortKind::Endpoint, 1)), attach("ACL")], 2),
        (vec![Change::RemovePool(PoolKey("pool".into())), Change::RemovePool(PoolKey("pool".into()))], 1),
        (vec![Change::RemovePort(L1), Change::RemovePool(PoolKey("pool".into()))], 1),
        (vec![Change::RemoveTag("tag".into()), Change::RemoveTag("tag".into())], 1),
        (
            vec![
                Change::PutGroup(group(&key, Direction::Out, ips, 1, vec![])),
                Change::RemoveRule { group: key.clone(), rule: "a".into() },
            ],
            1,
        ),
        (
            vec![
                Change::PutPort(port(uuid::Uuid::from_u128(9), PortKind::Endpoint, 7)),
                Change::RemoveSegment(7),
            ],
            1,
        ),
    ] {
        let before = image(&rig.switch);
        let error = rig.switch.apply(&changes).expect_err("it is refused");
        assert_eq!((error.index, image(&rig.switch)), (index, before), "{error}");
    }
    rig.apply(&[
        Change::PutPool(pool("new", 6, L1, ips.node(), (5, 6))),
        Change::RemovePool(PoolKey("new".into())),
        Change::PutTag(TagSpec {
            id: "new".into(),
            name: "new".into(),
            addresses: [ips.vip()].into_iter().collect(),
        }),
        Change::RemoveTag("new".into()),
        Change::RemovePort(EXT),
        Change::PutPort(port(uuid::Uuid::from_u128(9), PortKind::External, 0)),
    ]);
}

#[test]
fn a_switch_can_be_given_to_a_thread() {
    fn send<T: Send>() {}
    send::<Switch>();
    send::<vfp::Output>();
}

/// Groups that hang at several ports are one.
#[test]
fn a_shared_group_changes_everywhere_at_once() {
    let ips = Ips(true);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    rig.layer(L2, "ACL", 200, true);
    let key = rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![]);
    rig.apply(&[Change::Attach { port: L2, layer: "ACL".into(), group: key.clone() }]);
    let send = |rig: &mut Rig| {
        let one = rig.send(L1, udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2))).len();
        one + rig.send(L2, udp(between(L2, L1), (ips.pod(L2), 3), (ips.pod(L1), 4))).len()
    };
    assert_eq!(send(&mut rig), 2);
    rig.apply(&[Change::PutRule {
        group: key.clone(),
        rule: rule("b", Conditions::any(), Action::Block).into(),
    }]);
    assert_eq!(send(&mut rig), 0);
    // It may even change its direction.
    rig.apply(&[Change::PutGroup(group(
        &key,
        Direction::In,
        ips,
        100,
        vec![rule("b", Conditions::any(), Action::Block)],
    ))]);
    let mut other = rig.send(L1, udp(between(L1, L3), (ips.pod(L1), 1), (ips.pod(L3), 2)));
    assert_eq!(other.pop().map(|(to, _)| to), Some(EXT), "out it may go now");
    assert_eq!(send(&mut rig), 0);
    rig.apply(&[
        Change::RemovePort(L2),
        Change::RemoveLayer { port: L1, layer: "ACL".into() },
        Change::RemoveGroup(key),
    ]);
}
