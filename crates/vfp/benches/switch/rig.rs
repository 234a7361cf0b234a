//! A node's switch as HNS programs one: a pod's port with balancers, ACLs, NAT exceptions, encapsulation and its
//! route; and frames for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uuid::Uuid;
use vfp::Switch;
use vfp::model::{
    Action, AddressSet, Change, Conditions, Dip, Direction, Distribution, EncapDestination, EncapFlags,
    Family, FlowSettings, GroupKey, GroupSpec, Guards, LayerFlags, LayerSpec, LbFlags, LbNat, PaRoute,
    PortKind, PortRange, PortSpec, RouteEncap, Rule, RuleFlags, SegmentSpec, SwitchSettings,
};
use wire::build::FrameBuilder;
use wire::checksum::Delta;
use wire::{Mac, Packet, TcpFlags};

pub(crate) const L1: Uuid = Uuid::from_u128(3);
const EXT: Uuid = Uuid::from_u128(1);
pub(crate) const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
pub(crate) const HOST_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const POD_MAC: Mac = Mac([2, 0, 0, 0, 0, 3]);
/// Where a buffer's TCP checksum is.
const TCP_SUM: usize = 14 + 20 + 16;

/// Counts living bytes.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

#[expect(unsafe_code, reason = "only an allocator sees every allocation")]
// SAFETY: everything is handed to the system's allocator as it came; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promises are the system allocator's conditions.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are the system allocator's conditions.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn vip(number: usize) -> IpAddr {
    let [_, _, a, b] = u32::try_from(number).unwrap_or(0).to_be_bytes();
    IpAddr::from([10, 60, a, b])
}

fn balancer(number: usize, salt: usize) -> Rule {
    let [_, salt_a, salt_b, salt_c] = u32::try_from(salt).unwrap_or(0).to_be_bytes();
    let _ = (salt_a, salt_b);
    let dips = (0..10_u8).map(|host| Dip {
        address: IpAddr::from([10, 50, 2, host * 20 + salt_c % 16]),
        port: Some(8080),
        mac: Some(ROUTER),
    });
    let lb = LbNat {
        dips: dips.collect(),
        flags: LbFlags::REWRITE_ADDRESS | LbFlags::REWRITE_PORT | LbFlags::FLOW | LbFlags::FIX_MAC,
        distribution: Distribution::FiveTuple,
        source: None,
    };
    let mut conditions = Conditions { destinations: AddressSet::one(vip(number)), ..Conditions::any() };
    conditions.protocols.push(6);
    conditions.destination_ports.push(PortRange::one(80));
    rule(&format!("LB_DSR_{number}"), conditions, Action::LbNat(lb))
}

fn rule(id: &str, conditions: Conditions, action: Action) -> Rule {
    Rule {
        id: id.into(),
        name: id.into(),
        priority: 100,
        flags: RuleFlags::TERMINATING | RuleFlags::STATEFUL,
        ttl: 0,
        conditions,
        action,
    }
}

fn group(key: &str, rules: Vec<Rule>) -> GroupSpec {
    GroupSpec {
        key: GroupKey(key.into()),
        id: key.into(),
        name: key.into(),
        direction: Direction::Out,
        family: Family::V4,
        priority: 100,
        conditions: Conditions::any(),
        rules: rules.into_iter().map(Arc::new).collect(),
    }
}

pub(crate) fn one_rule(number: usize, salt: usize) -> Change {
    Change::PutRule { group: GroupKey("LB_DSR".into()), rule: Arc::new(balancer(number, salt)) }
}

pub(crate) fn whole_group(balancers: usize) -> Change {
    Change::PutGroup(group("LB_DSR", (0..balancers).map(|number| balancer(number, 0)).collect()))
}

fn port(name: Uuid, kind: PortKind, mac: Mac, track_tcp: bool) -> Change {
    Change::PutPort(PortSpec {
        name,
        friendly_name: name.to_string(),
        kind,
        segment: 1,
        nic: name,
        nic_name: String::new(),
        mac,
        addresses: Vec::new(),
        mtu: 1500,
        vlan: 0,
        guards: Guards::empty(),
        flows: FlowSettings {
            track_tcp,
            limits: [[10_000_000; 6]; 2],
            default_ttl: Duration::from_hours(1),
            half_ttl: Duration::from_hours(1),
            ..FlowSettings::default()
        },
        enabled: true,
    })
}

fn layer(port: Uuid, id: &str, priority: u32, stateful: bool) -> Change {
    let layer =
        LayerSpec { id: id.into(), name: id.into(), priority, stateful, flags: LayerFlags::DEFAULT_ALLOW };
    Change::PutLayer { port, layer }
}

fn attach(port: Uuid, layer: &str, group: &str) -> Change {
    Change::Attach { port, layer: layer.into(), group: GroupKey(group.into()) }
}

pub(crate) struct Node {
    pub(crate) switch: Switch,
    pub(crate) now: Duration,
    pub(crate) track: bool,
}

impl Node {
    /// Balancers and nothing else.
    pub(crate) fn balancer_only() -> Self {
        let mut switch = Switch::new(SwitchSettings { mid_stream: true, ..SwitchSettings::default() });
        let changes = [
            Change::PutSegment(SegmentSpec { id: 1, unknown_to_external: true, ..SegmentSpec::default() }),
            port(EXT, PortKind::External, Mac([2, 0, 0, 0, 0, 1]), true),
            port(L1, PortKind::Endpoint, POD_MAC, true),
            layer(L1, "LB_DSR", 100, true),
            whole_group(1),
            attach(L1, "LB_DSR", "LB_DSR"),
        ];
        switch.apply(&changes).expect("the bench's own policy is right");
        Self { switch, now: Duration::from_secs(1000), track: true }
    }

    /// Twenty pods' ports that share the balancers; one of them is used.
    pub(crate) fn new(balancers: usize, vxlan: bool, track: bool) -> Self {
        let mut switch = Switch::new(SwitchSettings { mid_stream: true, ..SwitchSettings::default() });
        let all = |id: &str, action| rule(id, Conditions::any(), action);
        let far: AddressSet =
            ["10.50.2.0/24".parse::<ipnet::IpNet>().expect("a prefix")].into_iter().collect();
        let encap = RouteEncap {
            source: IpAddr::from([192, 0, 2, 11]),
            destinations: vec![EncapDestination {
                pa: IpAddr::from([192, 0, 2, 13]),
                ca_mac: Some(ROUTER),
                vni: 4096,
            }],
            source_mac: None,
            flags: EncapFlags::FIX_INNER_MAC,
        };
        let mut changes = vec![
            Change::PutSegment(SegmentSpec { id: 1, unknown_to_external: true, ..SegmentSpec::default() }),
            port(EXT, PortKind::External, Mac([2, 0, 0, 0, 0, 1]), track),
            whole_group(balancers),
            Change::PutGroup(group("ACL", vec![all("allow", Action::Allow)])),
            Change::PutGroup(group(
                "ENCAP",
                vec![rule(
                    "encap",
                    Conditions { destinations: far, ..Conditions::any() },
                    Action::RouteEncap(encap),
                )],
            )),
            Change::PutGroup(group("PA", vec![all("pa", Action::PaRoute(PaRoute::default()))])),
        ];
        for number in 0..20_u8 {
            let (name, mac) = (Uuid::from_u128(3 + u128::from(number)), Mac([2, 0, 0, 0, 0, 3 + number]));
            changes.extend([
                port(name, PortKind::Endpoint, mac, track),
                layer(name, "LB_DSR", 100, true),
                layer(name, "ACL", 200, true),
                layer(name, "VNET_ENCAP_LAYER", 400, false),
                layer(name, "VNET_PA_ROUTE_LAYER", 500, false),
                attach(name, "LB_DSR", "LB_DSR"),
                attach(name, "ACL", "ACL"),
                attach(name, "VNET_PA_ROUTE_LAYER", "PA"),
            ]);
            if vxlan {
                changes.push(attach(name, "VNET_ENCAP_LAYER", "ENCAP"));
            }
        }
        switch.apply(&changes).expect("the bench's own policy is right");
        Self { switch, now: Duration::from_secs(1000), track }
    }
}

/// The client of a flow: a pod has one address, so flows beyond its ports have other ones, as if it routed for them.
fn client(flow: usize) -> ([u8; 4], u16) {
    let [_, a, b, _] = u32::try_from(flow / 50_000).unwrap_or(0).to_be_bytes().map(|byte| byte);
    let number = u8::try_from(flow / 50_000 % 250).unwrap_or(0);
    (
        [10, 50, a.wrapping_add(b).wrapping_add(1), number + 5],
        1024 + u16::try_from(flow % 50_000).unwrap_or(0),
    )
}

/// A 64-byte frame of a flow.
pub(crate) fn frame(flow: usize, syn: bool) -> Vec<u8> {
    let (address, port) = client(flow);
    let flags = if syn { TcpFlags::SYN } else { TcpFlags::ACK };
    let to: [u8; 4] = [10, 60, 0, 0];
    let frame = FrameBuilder::eth(POD_MAC, ROUTER).ipv4(address, to).tcp(port, 80, flags);
    frame.payload(&[7; 10]).build()
}

/// Makes a buffer such a frame, as cheaply as can be: the same bytes with another source.
pub(crate) fn write(buffer: &mut Packet, flow: usize, syn: bool) {
    thread_local! {
        static TEMPLATES: [Vec<u8>; 2] = [frame(0, false), frame(0, true)];
    }
    TEMPLATES.with(|templates| {
        let template = &templates[usize::from(syn)];
        buffer.copy_from(template);
        let (address, port) = client(flow);
        let (old_address, old_port) = client(0);
        let delta = Delta::NONE.word32(u32::from_be_bytes(old_address), u32::from_be_bytes(address));
        let data = buffer.data_mut();
        wire::bytes::set(data, 26, &address);
        wire::bytes::set_u16(data, 34, port);
        for (at, delta) in [(24, delta), (TCP_SUM, delta.word16(old_port, port))] {
            if let Some(sum) = wire::bytes::get_u16(data, at) {
                wire::bytes::set_u16(data, at, delta.apply(sum));
            }
        }
    });
}
