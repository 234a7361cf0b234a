//! What the verbs print over a small switch.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use uuid::Uuid;
use vfp::model::{
    Action, AddressSet, Change, Conditions, Dip, Direction, Distribution, DynNat, DynNatFlags, Family,
    GroupKey, GroupSpec, LayerFlags, LayerSpec, LbFlags, LbNat, PoolKey, PoolRange, PoolSpec, PortKind,
    PortRange, PortSpec, Rule, RuleFlags, SwitchSettings,
};
use vfp::{Env, NoRoutes, Output, Switch};
use wire::build::FrameBuilder;
use wire::{Mac, Packet, TcpFlags};

const POD: Uuid = Uuid::from_u128(0x1111_1111_2222_3333_4444_5555_5555_5555);
const POD_MAC: Mac = Mac([0x0E, 0x2A, 0x0A, 0x32, 0x01, 0x05]);
const OTHER: Uuid = Uuid::from_u128(0x9A9A_9A9A_0000_4000_8000_0000_0000_00B1);
const OTHER_MAC: Mac = Mac([0x0E, 0x2A, 0x0A, 0x32, 0x01, 0x06]);

fn port(name: Uuid, friendly: &str, mac: Mac, address: [u8; 4]) -> Change {
    Change::PutPort(PortSpec {
        name,
        friendly_name: friendly.to_owned(),
        kind: PortKind::Endpoint,
        segment: 1,
        nic: Uuid::from_u128(0xBBBB_BBBB_0000_4000_8000_0000_0000_000B),
        nic_name: "demo-pod-a".to_owned(),
        mac,
        addresses: vec![address.into()],
        mtu: 1450,
        vlan: 0,
        guards: vfp::model::Guards::empty(),
        flows: vfp::model::FlowSettings::default(),
        enabled: true,
    })
}

fn rule(id: &str, priority: u32, conditions: Conditions, action: Action) -> Arc<Rule> {
    Arc::new(Rule {
        id: id.into(),
        name: id.into(),
        priority,
        flags: RuleFlags::TERMINATING | RuleFlags::STATEFUL,
        ttl: 240,
        conditions,
        action,
    })
}

fn switch() -> Switch {
    let mut switch = Switch::new(SwitchSettings {
        name: Uuid::from_u128(0xAAAA_AAAA_0000_4000_8000_0000_0000_000A),
        friendly_name: "demo-overlay".to_owned(),
        ..SwitchSettings::default()
    });
    let balancer = rule(
        "LB_DSR_demo_192.0.2.11_10.60.0.20_80_8080_6",
        100,
        Conditions {
            protocols: smallvec![6],
            destinations: AddressSet::one([10, 60, 0, 20].into()),
            destination_ports: smallvec![PortRange::one(80)],
            ..Conditions::default()
        },
        Action::LbNat(LbNat {
            dips: vec![Dip { address: [10, 50, 1, 6].into(), port: Some(8080), mac: Some(OTHER_MAC) }],
            flags: LbFlags::REWRITE_ADDRESS | LbFlags::REWRITE_PORT | LbFlags::FLOW | LbFlags::FIX_MAC,
            distribution: Distribution::FiveTuple,
            source: None,
        }),
    );
    let pool = PoolKey("SLB_NATPOOL_IPV4_TCP".into());
    let snat = rule(
        "SNAT_TCP_OUTBOUNDNAT_1_192.0.2.11",
        200,
        Conditions {
            protocols: smallvec![6],
            sources: AddressSet::one([10, 50, 1, 5].into()),
            ..Conditions::default()
        },
        Action::DynNat(DynNat { pool: pool.clone(), flags: DynNatFlags::RECLAIM_TIME_WAIT }),
    );
    let group = |id: &str, rules| {
        Change::PutGroup(GroupSpec {
            key: GroupKey(id.into()),
            id: id.into(),
            name: id.into(),
            direction: Direction::Out,
            family: Family::V4,
            priority: 100,
            conditions: Conditions::any(),
            rules,
        })
    };
    let layer = |id: &str, priority| Change::PutLayer {
        port: POD,
        layer: LayerSpec {
            id: id.into(),
            name: id.into(),
            priority,
            stateful: true,
            flags: LayerFlags::DEFAULT_ALLOW,
        },
    };
    let attach = |layer: &str, group: &str| Change::Attach {
        port: POD,
        layer: layer.into(),
        group: GroupKey(group.into()),
    };
    switch
        .apply(&[
            port(POD, "9A9A9A9A-0000-4000-8000-0000000000A1", POD_MAC, [10, 50, 1, 5]),
            port(OTHER, "9A9A9A9A-0000-4000-8000-0000000000B1", OTHER_MAC, [10, 50, 1, 6]),
            Change::PutPool(PoolSpec {
                key: pool.clone(),
                name: pool.0.clone(),
                protocol: 6,
                owner: POD,
                ranges: vec![PoolRange {
                    address: [192, 0, 2, 11].into(),
                    first: 50_048,
                    last: 50_111,
                    reuse: 1,
                }],
            }),
            layer("LB_DSR", 100),
            layer("SLB_NAT_LAYER", 300),
            group("LB_DSR_IPv4_OUT", vec![balancer]),
            group("SLB_GROUP_NAT_IPv4_OUT", vec![snat]),
            attach("LB_DSR", "LB_DSR_IPv4_OUT"),
            attach("SLB_NAT_LAYER", "SLB_GROUP_NAT_IPv4_OUT"),
        ])
        .unwrap();
    switch
}

/// A connection to the balancer; the pod's source is translated too.
fn used() -> Switch {
    let mut switch = switch();
    let syn = FrameBuilder::eth(POD_MAC, Mac([2, 0, 0, 0, 0, 1]))
        .ipv4([10, 50, 1, 5], [10, 60, 0, 20])
        .tcp(50_000, 80, TcpFlags::SYN)
        .build();
    let mut out = Output::default();
    let mut env = Env { now: Duration::from_secs(1), routes: &mut NoRoutes, observer: None };
    switch.transmit(POD, &mut vec![Packet::new(&syn)], &mut env, &mut out);
    assert_eq!(out.delivered.len(), 1, "the connection reaches its backend");
    switch
}

fn run(switch: &mut Switch, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let text = vfpctrl::run(switch, &words, Duration::from_secs(2)).unwrap();
    if !line.contains("/format") {
        assert!(text.lines().count() > 0 && !text.replace("\r\n", "").contains('\n'), "lines end with CR LF");
        assert!(text.ends_with(" succeeded!\r\n"));
    }
    text.replace("\r\n", "\n")
}

macro_rules! printed {
    ($name:ident, $line:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(run(&mut used(), $line));
        }
    };
}

const PORT: &str = "/port 11111111-2222-3333-4444-555555555555";

printed!(ports, "/list-vmswitch-port");
printed!(layers, &format!("{PORT} /list-layer"));
printed!(groups, &format!("{PORT} /list-group"));
printed!(rules, &format!("/list-rule {PORT}"));
printed!(rules_of_one_layer, &format!("/list-rule /layer lb_dsr {PORT}"));
printed!(rule_counters, &format!("{PORT} /get-rule-counter"));
printed!(port_counters, &format!("{PORT} /get-port-counter"));
printed!(port_state, &format!("{PORT} /get-port-state"));
printed!(flow_stats, &format!("{PORT} /get-port-flow-stats"));
printed!(unified_flows, &format!("{PORT} /list-unified-flow"));
printed!(nat_ranges, "/list-nat-range");
printed!(nat_bindings, "/list-nat-port-binding");
printed!(json_ports, "/list-vmswitch-port /format 1");
printed!(json_rules, &format!("{PORT} /list-rule /format 1"));
printed!(json_one_group, &format!("{PORT} /layer LB_DSR /group LB_DSR_IPv4_OUT /list-rule /format 1"));
printed!(json_counters, &format!("{PORT} /get-port-counter /format 1"));

#[test]
fn tuples_are_processed_without_a_trace() {
    let mut switch = switch();
    let words = ["/port", "1", "/process-tuples", "6 10.50.1.5 50000 10.60.0.20 80 2 1"];
    let text = vfpctrl::run(&mut switch, &words, Duration::from_secs(1)).unwrap();
    insta::assert_snapshot!(text.replace("\r\n", "\n"));
    assert!(switch.bindings().is_empty());
    assert_eq!(switch.flow_count(POD), Some(0));
    let stray = ["/port", "1", "/process-tuples", "6 10.50.1.5 50000 10.60.0.20 80 2 0"];
    let text = vfpctrl::run(&mut switch, &stray, Duration::from_secs(1)).unwrap();
    assert!(text.contains("DROP : NonSyn"), "{text}");
}

#[test]
fn what_is_wrong_is_named() {
    let mut switch = switch();
    for (line, part) in [
        ("/port nosuch /list-layer", "there is no port nosuch"),
        ("/port 1 /layer L /list-rule", "there is no layer L"),
        ("/port 1 /group G /list-rule", "there is no group G"),
        ("/port 1 /rule R /get-rule-info", "there is no rule R"),
        ("/list-layer", "/list-layer needs /port"),
        ("/port 1 /process-tuples", "process-tuples takes"),
        ("/port 1 /list-layer /format 1", "not for /list-layer"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let error = vfpctrl::run(&mut switch, &words, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
    for (tuple, part) in [
        ("6 10.0.0.1 1 ::1 2 2", "destination \"::1\""),
        ("6 10.0.0.1 1 10.0.0.2 2 3", "direction \"3\""),
        ("17 10.0.0.1 1 10.0.0.2 2 1 2", "flags"),
        ("6 10.0.0.1", "process-tuples takes"),
        ("6 10.0.0.1 1 10.0.0.2 2 1 1 3", "encap \"3\""),
    ] {
        let words = ["/port", "1", "/process-tuples", tuple];
        let error = vfpctrl::run(&mut switch, &words, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains(part), "{tuple}: {error}");
    }
}
