//! The machine's two ports, which are there from the start, and the switch's settings.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::Guid;
use uuid::Uuid;
use vfp::model::{
    FlowSettings, Guards, LayerFlags, LayerSpec, PoolKey, PoolRange, PoolSpec, PortKind, PortSpec,
    SwitchSettings, protocol,
};
use wire::Mac;

use super::Cx;
use super::build::{Build, layer, mac};
use super::table::{Item, Key};
use super::words::{FAMILIES, Group, at, host_groups, layers, priority};
use crate::host::{Host, Protocol};
use crate::switches::{LbChoice, NatReply, RemovedDip};
use crate::tx::Env;

/// The namespace in which the ids of a machine's switch, ports and adapters are derived from its name.
const MACHINES: Guid = Guid::from_u128(0x0d1c_5a5e_31c4_4f0e_9a55_70c1_8a1d_4e0b);

/// The largest IP packet of a physical adapter.
pub(super) const MTU: u16 = 1500;

/// The machine's own ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostPorts {
    pub(crate) switch: Uuid,
    pub(crate) host: Uuid,
    pub(crate) external: Uuid,
    /// The MAC of the adapter, which the host's interface takes over.
    pub(crate) mac: Mac,
}

impl HostPorts {
    /// The ids follow from the machine's name, so that they are the same after a restart.
    pub(crate) fn of(host: &Host) -> Self {
        let id = |what: &str| MACHINES.derive(&format!("{}/{what}", host.name)).uuid();
        Self {
            switch: id("switch"),
            host: id("host port"),
            external: id("external port"),
            mac: host.adapters.first().map(|adapter| mac(adapter.mac)).unwrap_or_default(),
        }
    }
}

/// The settings that the switches ask for.
pub(crate) fn settings(env: &Env) -> SwitchSettings {
    let switches = &env.switches;
    let port = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    SwitchSettings {
        name: HostPorts::of(&env.host).switch,
        friendly_name: env.host.adapters.first().map(|adapter| adapter.name.clone()).unwrap_or_default(),
        vxlan_source_base: port(switches.vxlan_source_port_base),
        vxlan_source_range: port(switches.vxlan_source_ports),
        icmp_nat: switches.icmp_nat,
        removed_dip: match switches.removed_dip {
            RemovedDip::KeepEstablished => vfp::model::RemovedDip::KeepEstablished,
            RemovedDip::Keep => vfp::model::RemovedDip::Keep,
            RemovedDip::Rehash => vfp::model::RemovedDip::Rehash,
        },
        lb_choice: match switches.lb_choice {
            LbChoice::Rendezvous => vfp::model::LbChoice::Rendezvous,
            LbChoice::Modulo => vfp::model::LbChoice::Modulo,
        },
        nat_reply: match switches.nat_reply {
            NatReply::Everywhere => vfp::model::NatReply::Everywhere,
            NatReply::FromWire => vfp::model::NatReply::FromWire,
        },
        reset_on_block: switches.tcp_reset_on_policy_change,
        hash_seed: switches.lb_hash_seed,
        ..SwitchSettings::default()
    }
}

/// What the machine itself brings.
pub(super) fn build(cx: &Cx<'_>) -> Build {
    let mut build = Build::ranked(u64::MAX);
    build.put(Key::Settings, Item::Settings(Arc::new(settings(cx.env))));
    let HostPorts { host, external, mac, .. } = cx.ports;
    let name = cx.env.host.adapters.first().map(|adapter| adapter.name.clone()).unwrap_or_default();
    let port = |id: Uuid, kind, friendly_name: String, nic_name: String, addresses: Vec<IpAddr>| PortSpec {
        name: id,
        friendly_name,
        kind,
        segment: 0,
        nic: MACHINES.derive(&format!("nic of {id}")).uuid(),
        nic_name,
        mac,
        addresses,
        mtu: MTU,
        vlan: 0,
        guards: Guards::empty(),
        flows: FlowSettings::default(),
        enabled: true,
    };
    let addresses =
        cx.env.host.adapters.iter().flat_map(|adapter| &adapter.addresses).map(ipnet::IpNet::addr);
    let friendly = format!("Container NIC {}", &host.as_simple().to_string()[..8]);
    let specs = [
        port(host, PortKind::Host, friendly, format!("vEthernet ({name})"), addresses.collect()),
        port(external, PortKind::External, "ExternalPort".to_owned(), name, Vec::new()),
    ];
    for spec in specs {
        build.put(Key::Port(spec.name), Item::Port(Arc::new(spec)));
    }
    let (names, groups) = (layers(), host_groups());
    let hairpin = LayerSpec {
        flags: LayerFlags::DEFAULT_ALLOW | LayerFlags::HAIRPIN,
        ..layer(&names.slb_hairpin, priority::slb_hairpin, true)
    };
    build.layer(host, hairpin, false);
    build.layer(host, layer(&names.slb_lb, priority::slb_lb, true), false);
    build.layer(host, layer(&names.lb, priority::lb, true), false);
    for family in FAMILIES {
        let mut own = |layer, group: &[Group; 2]| build.own_group(host, layer, &group[at(family)], false);
        own(&names.slb_hairpin, &groups.hairpin);
        own(&names.slb_lb, &groups.slb_lb);
        own(&names.lb, &groups.lb);
    }
    build
}

/// A protocol's word and number in pools and rules of NAT, ICMP by family.
pub(super) const fn nat_protocols(ipv6: bool) -> [(&'static str, u8, Protocol); 3] {
    let icmp = if ipv6 { protocol::ICMP6 } else { protocol::ICMP };
    // ICMP identifiers are numbered like the ports of TCP.
    [
        ("TCP", protocol::TCP, Protocol::Tcp),
        ("UDP", protocol::UDP, Protocol::Udp),
        ("ICMP", icmp, Protocol::Tcp),
    ]
}

/// The pool of the host's port for connections that are translated to one of its addresses without blocks of
/// anybody's own: load balancers with DSR and remote backends, NAT networks. Its ports lie outside the dynamic
/// range, so that they clash neither with sockets of the host nor with blocks.
pub(super) fn common_pool(
    cx: &Cx<'_>,
    address: IpAddr,
    word: &str,
    number: u8,
    of: Protocol,
) -> Arc<PoolSpec> {
    let mut known = cx.memory.common_pools.borrow_mut();
    Arc::clone(
        known
            .entry((address, number))
            .or_insert_with(|| Arc::new(make_common_pool(cx, address, word, number, of))),
    )
}

fn make_common_pool(cx: &Cx<'_>, address: IpAddr, word: &str, number: u8, of: Protocol) -> PoolSpec {
    const PORTS: u16 = 16384;
    const LOWEST: u16 = 1024;
    let dynamic = cx.env.host.dynamic_ports.of(of);
    let (first, last) = (*dynamic.start(), *dynamic.end());
    let (first, last) = if first > LOWEST + 64 {
        ((first - 1).saturating_sub(PORTS - 1).max(LOWEST), first - 1)
    } else {
        (last.saturating_add(1), last.saturating_add(PORTS))
    };
    let family = if address.is_ipv6() { "IPV6" } else { "IPV4" };
    let name: Arc<str> = format!("SLB_NATPOOL_{family}_{word}_{address}").into();
    PoolSpec {
        key: PoolKey(Arc::clone(&name)),
        name,
        protocol: number,
        owner: cx.ports.host,
        ranges: vec![PoolRange { address, first, last, reuse: cx.env.switches.nat_port_reuse.max(1) }],
    }
}
