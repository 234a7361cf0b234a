//! OutBoundNAT: what leaves an endpoint takes the node's address, or another.

use std::net::IpAddr;

use hcn::policy::NatFlags;
use hcn::policy::endpoint::OutboundNat;
use smallvec::smallvec;
use uuid::Uuid;
use vfp::model::{
    Action, AddressSet, Conditions, DynNat, DynNatFlags, Family, GroupKey, PoolKey, PoolRange, PoolSpec,
};

use super::Cx;
use super::build::{Build, FINAL, FLOW, of_family, rule, to_any, to_net};
use super::host::nat_protocols;
use super::proxy::nets;
use super::view::NetworkView;
use super::words::{FAMILIES, Group, at, capital, rank};
use crate::host::Protocol;
use crate::ports::{BLOCK, Block};
use crate::record::EndpointRecord;

/// The ports of blocks of one space, on an address; blocks side by side are one range.
pub(super) fn ranges(cx: &Cx<'_>, blocks: &[Block], of: Protocol, address: IpAddr) -> Vec<PoolRange> {
    let start = u32::from(*cx.env.host.dynamic_ports.of(of).start());
    let mut indices: Vec<u16> = blocks
        .iter()
        .filter(|block| block.space.protocol == of && block.space.ipv6 == address.is_ipv6())
        .map(|block| block.index)
        .collect();
    indices.sort_unstable();
    let reuse = cx.switches().nat_port_reuse.max(1);
    let mut ranges: Vec<PoolRange> = Vec::new();
    for index in indices {
        let first = start + u32::from(index) * u32::from(BLOCK);
        let last = first + u32::from(BLOCK) - 1;
        // A block of a range that shrank between runs is passed over.
        let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(last)) else { continue };
        match ranges.last_mut() {
            Some(range) if range.last.checked_add(1) == Some(first) => range.last = last,
            _ => ranges.push(PoolRange { address, first, last, reuse }),
        }
    }
    ranges
}

/// The NAT policies of an endpoint on its port. `groups` are the OUT groups of its NAT layer, v4 and v6.
pub(super) fn outbound(
    cx: &Cx<'_>,
    view: &NetworkView,
    record: &EndpointRecord,
    port: Uuid,
    policies: &[&OutboundNat],
    groups: &[Group; 2],
    build: &mut Build,
) {
    for (index, policy) in policies.iter().enumerate() {
        let given: Option<IpAddr> = policy.virtual_ip.trim().parse().ok();
        let ipv6 = policy.flags.contains(NatFlags::IPV6);
        let family = if ipv6 { Family::V6 } else { Family::V4 };
        let address =
            given.filter(|address| address.is_ipv6() == ipv6).or_else(|| cx.node_address(view, ipv6));
        let sources = of_family(&record.addresses, family);
        let (Some(address), false) = (address, sources.is_empty()) else { continue };
        let key = &groups[at(family)].key;
        let destinations = nets(policy.destinations.iter().map(String::as_str));
        let priority = if policy.destinations.is_empty() {
            exceptions(index, policy, address, family, key, build);
            rank::NAT
        } else {
            rank::NAT_DESTINATIONS
        };
        let id = record.doc.id.unwrap_or_default();
        for (word, number, of) in nat_protocols(ipv6) {
            let name =
                format!("SLB_NATPOOL_{}_{word}_{}{address}{}0", capital(family), sources[0], id.upper());
            let pool = PoolKey(name.into());
            build.pool(PoolSpec {
                key: pool.clone(),
                name: std::sync::Arc::clone(&pool.0),
                protocol: number,
                owner: port,
                ranges: ranges(cx, &record.blocks, of, address),
            });
            let conditions = Conditions {
                protocols: smallvec![number],
                sources: sources.iter().copied().collect(),
                destinations: destinations
                    .iter()
                    .copied()
                    .filter(|net| super::build::family_of(*net) == family)
                    .collect::<AddressSet>(),
                ..Conditions::default()
            };
            if !policy.destinations.is_empty() && conditions.destinations.is_empty() {
                continue;
            }
            let nat = DynNat { pool, flags: DynNatFlags::RECLAIM_TIME_WAIT };
            let id = format!("SNAT_{word}_OUTBOUNDNAT_{index}_{address}");
            build.rule(key, rule(id, priority, FLOW, conditions, Action::DynNat(nat)));
        }
    }
}

/// Destinations that are not translated: those of the list, and the address itself, since nobody can answer a
/// packet from and to one address.
fn exceptions(
    index: usize,
    policy: &OutboundNat,
    address: IpAddr,
    family: Family,
    key: &GroupKey,
    build: &mut Build,
) {
    let listed = nets(policy.exceptions.iter().map(String::as_str));
    for net in listed.into_iter().filter(|net| super::build::family_of(*net) == family) {
        let id = format!("SNAT_EXCEPTION_{index}_{net}");
        build.rule(key, rule(id, rank::NAT_EXCEPTION, FINAL, to_net(net), Action::Allow));
    }
    let id = format!("SNAT_SELF_{index}_{address}");
    build.rule(key, rule(id, rank::NAT_EXCEPTION, FINAL, to_any(&[address]), Action::Allow));
}

/// The NAT groups of a port, IN and OUT, v4 and v6.
pub(super) fn groups(port: Uuid) -> [[Group; 2]; 2] {
    use vfp::model::Direction;
    let scope = port.to_string();
    let layer = &super::words::layers().slb_nat;
    [Direction::In, Direction::Out].map(|direction| {
        FAMILIES.map(|family| {
            let id = format!("SLB_GROUP_NAT_{}_{direction}", super::words::mixed(family));
            Group::new(&scope, layer, &id, direction, family, 100)
        })
    })
}
