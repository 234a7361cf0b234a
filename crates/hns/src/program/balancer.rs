//! What a load balancer brings, and a mapped port, which is a balancer of one backend on the node's address.
//!
//! The rows are those that Microsoft's health script looks for; what each does is inferred from its name:
//!
//! | row | where | does |
//! |---|---|---|
//! | `LB_DSR_…` | every pod port of the network, OUT (with DSR) | chooses a backend and readdresses |
//! | `LB_STEER_…` | the same (without DSR; inferred) | sends the packet to the host's port |
//! | `HairPin_…` | host port, IN | sends a packet back, into the next rows |
//! | `NAT_…` / `LB_…` | host port, `SLB_LB_LAYER`, OUT: all backends local | chooses the MAC, leaves the VIP |
//! | `LB_HOST_…` | host port, `LB`, OUT: otherwise | chooses, readdresses, translates the source |
//! | `NAT_…`, `ALLOW_NAT_…` | each local backend's port, IN and OUT | readdresses what still has the VIP; keeps outbound NAT off the replies |

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use hcn::Guid;
use hcn::loadbalancer::{Distribution, PortMapping, PortMappingFlags};
use hcn::policy::NatFlags;
use hcn::policy::endpoint::PortMapping as MappedPort;
use uuid::Uuid;
use vfp::model::{
    Action, Dip, Family, Hairpin, LbFlags, LbNat, Nat, NatSide, PoolKey, PoolSpec, RuleFlags, Transpose,
};
use wire::Mac;

use super::Cx;
use super::build::{Build, FLOW, from, mac, rule, to};
use super::host::{common_pool, nat_protocols};
use super::nat;
use super::table::{Item, Key};
use super::view::NetworkView;
use super::words::{at, capital, host_groups, rank};
use crate::host::Protocol;
use crate::record::{BalancerRecord, EndpointRecord};
use crate::switches::{EmptySourceVip, HairpinRules};

/// A backend's address of one family.
#[derive(Clone, Copy)]
struct Backend {
    address: IpAddr,
    /// On this node.
    local: bool,
    /// Where frames for it go, when the switch knows.
    mac: Option<Mac>,
    port: Option<Uuid>,
}

/// One frontend of a balancer.
struct Front<'a> {
    cx: &'a Cx<'a>,
    view: &'a NetworkView,
    /// The opaque word in names.
    word: &'a str,
    node: IpAddr,
    /// The node's address and the VIP as names have them.
    texts: (&'a str, String),
    vip: IpAddr,
    protocol: u8,
    external: u16,
    internal: u16,
    distribution: vfp::model::Distribution,
    /// The VIP stays the destination, on the way to local backends only.
    preserve: bool,
    dsr: bool,
}

impl Front<'_> {
    fn family(&self) -> usize {
        at(Family::of(self.vip))
    }

    fn name(&self, start: &str, ports: &[u16]) -> Arc<str> {
        let mut name = String::with_capacity(72);
        // Writing into memory does not fail.
        let _ = write!(name, "{start}_{}_{}", self.word, self.texts.1);
        for port in ports {
            let _ = write!(name, "_{port}");
        }
        let _ = write!(name, "_{}", self.protocol);
        name.into()
    }

    fn dsr_name(&self) -> Arc<str> {
        let Self { word, texts: (node, vip), external, internal, protocol, .. } = self;
        let mut name = String::with_capacity(96);
        let _ = write!(name, "LB_DSR_{word}_{node}_{vip}_{external}_{internal}_{protocol}");
        name.into()
    }

    fn to_vip(&self) -> vfp::model::Conditions {
        to(self.protocol, self.vip, self.external)
    }

    /// The choice among backends: readdressing, or the MAC alone.
    fn choice(&self, backends: &[Backend], readdress: bool, source: Option<PoolKey>) -> Action {
        let mut flags = LbFlags::FLOW;
        flags.set(LbFlags::FIX_MAC, backends.iter().any(|backend| backend.mac.is_some()));
        flags.set(LbFlags::REWRITE_ADDRESS | LbFlags::REWRITE_PORT, readdress);
        let port = readdress.then_some(self.internal);
        Action::LbNat(LbNat {
            dips: backends
                .iter()
                .map(|backend| Dip { address: backend.address, port, mac: backend.mac })
                .collect(),
            flags,
            distribution: self.distribution,
            source,
        })
    }

    /// On pod ports.
    fn clients(&self, backends: &[Backend], build: &mut Build) {
        let shared = &self.view.shared;
        if self.dsr {
            let group = &shared.lb_dsr[self.family()];
            let action = self.choice(backends, !self.preserve, None);
            build.rule(&group.key, rule(self.dsr_name(), rank::BALANCER, FLOW, self.to_vip(), action));
        } else {
            let group = &shared.steer[self.family()];
            let steer = Transpose { destination_mac: Some(self.cx.ports.mac), ..Transpose::default() };
            let name = self.name("LB_STEER", &[self.external]);
            build.rule(&group.key, rule(name, rank::BALANCER, FLOW, self.to_vip(), Action::Transpose(steer)));
        }
    }

    fn hairpin(&self, backends: &[Backend], build: &mut Build) {
        let wanted = match self.cx.switches().hairpin_rules {
            HairpinRules::Always => true,
            HairpinRules::LocalBackends => !self.dsr || backends.iter().any(|backend| backend.local),
        };
        if !wanted {
            return;
        }
        let back = Transpose { hairpin: Some(Hairpin::Back), ..Transpose::default() };
        let name = self.name("HairPin", &[self.external, self.external]);
        let flags = FLOW | RuleFlags::SKIP_HAIRPIN;
        let group = &host_groups().hairpin[self.family()];
        build.rule(&group.key, rule(name, rank::BALANCER, flags, self.to_vip(), Action::Transpose(back)));
    }

    /// On the host's port, when every backend is local: the backend's own port does the rest.
    fn steer(&self, backends: &[Backend], build: &mut Build) {
        let group = &host_groups().slb_lb[self.family()];
        let (start, action) = match backends {
            [Backend { mac: Some(mac), .. }] => {
                let only = Transpose { destination_mac: Some(*mac), ..Transpose::default() };
                ("NAT", Action::Transpose(only))
            }
            several => ("LB", self.choice(several, false, None)),
        };
        let name = self.name(start, &[self.external, self.external]);
        build.rule(&group.key, rule(name, rank::BALANCER, FLOW, self.to_vip(), action));
    }

    /// On the host's port, when some backend is remote.
    fn balance(&self, backends: &[Backend], source: Option<PoolKey>, build: &mut Build) {
        let group = &host_groups().lb[self.family()];
        let name = self.name("LB_HOST", &[self.external, self.internal]);
        let action = self.choice(backends, true, source);
        build.rule(&group.key, rule(name, rank::BALANCER, FLOW, self.to_vip(), action));
    }

    /// On the ports of local backends.
    fn backends(&self, backends: &[Backend], build: &mut Build) {
        let mut names = None;
        for backend in backends {
            let Some(port) = backend.port else { continue };
            let (readdress, allow) = names.get_or_insert_with(|| {
                (self.name("NAT", &[self.external]), self.name("ALLOW_NAT", &[self.external]))
            });
            let [inward, outward] = self.cx.nat_groups(port);
            let nat = Nat {
                side: NatSide::Destination,
                address: Some(backend.address),
                port: Some(self.internal),
                mac: None,
            };
            let readdress =
                rule(Arc::clone(readdress), rank::BALANCER, FLOW, self.to_vip(), Action::Nat(nat));
            build.rule(&inward[self.family()], readdress);
            let replies = from(self.protocol, backend.address, self.internal);
            let allow = rule(Arc::clone(allow), rank::NAT_REPLY, FLOW, replies, Action::Allow);
            build.rule(&outward[self.family()], allow);
        }
    }
}

/// What is known of an endpoint as a backend, per family.
fn backend(cx: &Cx<'_>, endpoint: &EndpointRecord, ipv6: bool) -> Option<Backend> {
    let address = endpoint.addresses.iter().copied().find(|address| address.is_ipv6() == ipv6)?;
    let remote = endpoint.doc.is_remote();
    // An address of the node itself is reached through the host's port, whatever MAC its endpoint was given; the
    // MAC of another node's endpoint means nothing here.
    let node = remote && cx.env.host.has_address(address);
    let own = if node {
        Some(cx.ports.mac)
    } else if remote {
        None
    } else {
        endpoint.mac.map(mac)
    };
    Some(Backend { address, local: !remote, mac: own, port: endpoint.port.map(Guid::uuid) })
}

/// Everything of a load balancer's.
pub(super) fn build(cx: &Cx<'_>, view: &NetworkView, record: &BalancerRecord) -> Build {
    let mut build = Build::ranked(record.seq);
    let doc = &record.doc;
    if !view.facts.ready || doc.port_mappings.is_empty() {
        return build;
    }
    let id = doc.id.unwrap_or_default();
    let word = id.uuid().as_simple().to_string();
    let endpoints: Vec<&Arc<EndpointRecord>> =
        doc.endpoints.iter().filter_map(|&endpoint| cx.state.endpoints.get(endpoint)).collect();
    for ipv6 in [false, true] {
        if !record.frontends.iter().any(|frontend| frontend.ipv6 == ipv6) {
            continue;
        }
        // A rule that has a VIP is named by the node's other address where it has none of the family.
        let node = cx.node_address(view, ipv6);
        let Some(named) = node.or_else(|| cx.node_address(view, !ipv6)) else { continue };
        let text = named.to_string();
        let backends: Vec<Backend> =
            endpoints.iter().filter_map(|endpoint| backend(cx, endpoint, ipv6)).collect();
        // Frontends are VIPs × mappings, in this order.
        let mappings = doc.port_mappings.iter().cycle();
        for (frontend, mapping) in record.frontends.iter().zip(mappings) {
            if frontend.ipv6 != ipv6 {
                continue;
            }
            let Some(vip) = frontend.vip.or(node) else { continue };
            let Some(front) = front(cx, view, record, mapping, (&word[..8], &text, named, vip)) else {
                continue;
            };
            rows(&front, record, &backends, id, &mut build);
        }
    }
    build
}

fn front<'a>(
    cx: &'a Cx<'a>,
    view: &'a NetworkView,
    record: &BalancerRecord,
    mapping: &PortMapping,
    (word, text, node, vip): (&'a str, &'a str, IpAddr, IpAddr),
) -> Option<Front<'a>> {
    let affine = cx.env.supports(hcn::Feature::SessionAffinity);
    Some(Front {
        cx,
        view,
        word,
        node,
        texts: (text, vip.to_string()),
        vip,
        protocol: u8::try_from(mapping.protocol).ok()?,
        external: mapping.external_port,
        internal: mapping.internal_port,
        distribution: match &mapping.distribution {
            Some(Distribution::SourceIp) if affine => vfp::model::Distribution::Source,
            Some(Distribution::SourceIpProtocol) if affine => vfp::model::Distribution::SourceProtocol,
            _ => vfp::model::Distribution::FiveTuple,
        },
        preserve: mapping.flags.contains(PortMappingFlags::PRESERVE_DIP | PortMappingFlags::USE_MUX),
        dsr: record.is_dsr(),
    })
}

fn rows(front: &Front<'_>, record: &BalancerRecord, backends: &[Backend], id: Guid, build: &mut Build) {
    if front.preserve {
        let local: Vec<Backend> = backends.iter().copied().filter(|backend| backend.local).collect();
        front.clients(&local, build);
        front.hairpin(&local, build);
        front.steer(&local, build);
        return;
    }
    front.clients(backends, build);
    front.hairpin(backends, build);
    if front.dsr && backends.iter().all(|backend| backend.local) {
        front.steer(backends, build);
    } else {
        let source = source_pool(front, record, id, build);
        front.balance(backends, source, build);
    }
    if front.dsr {
        front.backends(backends, build);
    }
}

/// The pool that the host's rule takes source ports from: the balancer's own blocks, or with DSR, which takes none,
/// the host's common pool.
fn source_pool(front: &Front<'_>, record: &BalancerRecord, id: Guid, build: &mut Build) -> Option<PoolKey> {
    let Front { cx, node, vip, protocol, dsr, .. } = *front;
    let ipv6 = vip.is_ipv6();
    let given: Option<IpAddr> = record.doc.source_vip.parse().ok();
    let address = given.filter(|given| given.is_ipv6() == ipv6).or(match cx.switches().empty_source_vip {
        EmptySourceVip::Node => Some(node).filter(|node| node.is_ipv6() == ipv6),
        EmptySourceVip::Vip => Some(vip),
    })?;
    let (word, number, of) = nat_protocols(ipv6).into_iter().find(|(_, number, _)| *number == protocol)?;
    if dsr {
        let pool = common_pool(cx, address, word, number, of);
        let key = pool.key.clone();
        build.share(Key::Pool(key.clone()), Item::Pool(pool));
        return Some(key);
    }
    // One for the balancer, whatever its VIP: the blocks are the balancer's.
    let family = capital(Family::of(address));
    let name: Arc<str> = format!("SLB_NATPOOL_{family}_{word}_{address}{}0", id.upper()).into();
    let key = PoolKey(Arc::clone(&name));
    build.pool(PoolSpec {
        key: key.clone(),
        name,
        protocol: number,
        owner: cx.ports.host,
        ranges: nat::ranges(cx, &record.blocks, of, address),
    });
    Some(key)
}

/// A mapped port of an endpoint on the switch.
pub(super) fn mapped_port(
    cx: &Cx<'_>,
    view: &NetworkView,
    record: &EndpointRecord,
    (port, mac): (Uuid, Mac),
    mapping: &MappedPort,
    build: &mut Build,
) {
    let vip: Option<IpAddr> = mapping.vip.parse().ok();
    let ipv6 = vip.map_or(mapping.flags.contains(NatFlags::IPV6), |vip| vip.is_ipv6());
    let (Ok(protocol), Some(node)) = (u8::try_from(mapping.protocol), cx.node_address(view, ipv6)) else {
        return;
    };
    let Some(address) = record.addresses.iter().copied().find(|address| address.is_ipv6() == ipv6) else {
        return;
    };
    // HNS may choose a port when none is given; which one it chooses, nobody is told.
    if mapping.external_port == 0 || Protocol::from_number(mapping.protocol).is_none() {
        return;
    }
    let word = record.doc.id.unwrap_or_default().uuid().as_simple().to_string();
    let (text, vip) = (node.to_string(), vip.unwrap_or(node));
    let front = Front {
        cx,
        view,
        word: &word[..8],
        node,
        texts: (&text, vip.to_string()),
        vip,
        protocol,
        external: mapping.external_port,
        internal: mapping.internal_port,
        distribution: vfp::model::Distribution::FiveTuple,
        preserve: false,
        dsr: true,
    };
    let backend = [Backend { address, local: true, mac: Some(mac), port: Some(port) }];
    front.hairpin(&backend, build);
    front.steer(&backend, build);
    front.backends(&backend, build);
}
