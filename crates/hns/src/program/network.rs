//! What a network brings: its segment, the groups that its ports share, tunnels, sets, its own filters and proxies.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::network::NetworkMode;
use hcn::policy::NetworkPolicy;
use hcn::policy::network::RemoteSubnetRoute;
use ipnet::IpNet;
use smallvec::smallvec;
use vfp::model::{
    Action, AddressSet, ArpMode, Conditions, Decap, DecapFlags, DynNat, DynNatFlags, EncapDestination,
    EncapFlags, Family, Hairpin, NativeRoute, PaRoute, RouteEncap, RuleFlags, SegmentSpec, SwitchSettings,
    TagSpec, Transpose,
};
use wire::Mac;

use super::Cx;
use super::acl;
use super::build::{Build, FINAL, FLOW, family_of, layer, mac, rule, to_any, to_net};
use super::host::{common_pool, nat_protocols, settings};
use super::proxy;
use super::table::{Item, Key};
use super::view::NetworkView;
use super::words::{FAMILIES, Group, at, capital, host_groups, layers, priority, rank};
use crate::record::NetworkRecord;
use crate::switches::{InnerSource, OverlayArp};

/// The id of a set's tag: sets of different networks may have the same id.
pub(super) fn tag(view: &NetworkView, set: &str) -> String {
    format!("{}/{set}", view.id.lower())
}

/// Where the host's port asks for the next hop: of outer headers, and of packets that it readdressed.
pub(super) fn host_route(family: Family) -> Group {
    let id = format!("VNET_GROUP_PA_ROUTE_{}_OUT", capital(family));
    Group::new("host", &layers().vnet_pa_route, &id, vfp::model::Direction::Out, family, 200)
}

/// The layer and its groups, which overlays and bridges share.
fn host_routes(cx: &Cx<'_>, build: &mut Build) {
    let names = layers();
    build.layer(cx.ports.host, layer(&names.vnet_pa_route, priority::vnet_pa_route, false), true);
    for family in FAMILIES {
        let group = host_route(family);
        build.own_group(cx.ports.host, &names.vnet_pa_route, &group, true);
        let route = PaRoute { native: NativeRoute::Readdressed, ..PaRoute::default() };
        let route = rule("PA_ROUTE", rank::PA_ROUTE, FINAL, Conditions::any(), Action::PaRoute(route));
        build.share(Key::Rule(group.key.clone(), Arc::clone(&route.id)), Item::Rule(Arc::new(route)));
    }
}

/// Where frames of an L2Tunnel network are sent to the wire.
pub(super) fn tunnel(view: &NetworkView, family: Family) -> Group {
    let id = format!("L2_TUNNEL_GROUP_{}_OUT", capital(family));
    Group::new(
        &view.id.lower().to_string(),
        &layers().l2_tunnel,
        &id,
        vfp::model::Direction::Out,
        family,
        100,
    )
}

/// Everything of a network's.
pub(super) fn build(cx: &Cx<'_>, view: &NetworkView, record: &NetworkRecord) -> Build {
    let mut build = Build::ranked(record.seq);
    segment(cx, view, &mut build);
    let policies: Vec<NetworkPolicy> =
        record.doc.policies.iter().filter_map(|policy| NetworkPolicy::decode(policy).ok()).collect();
    for family in FAMILIES {
        build.group(&view.shared.lb_dsr[at(family)], false);
        build.group(&view.shared.steer[at(family)], false);
    }
    gateways(cx, view, &mut build);
    if view.is_overlay() {
        overlay(cx, view, &policies, &mut build);
    }
    if view.is_bridged() || view.facts.mode == NetworkMode::Transparent {
        wire(cx, view, &mut build);
    }
    if view.is_bridged() {
        bridge(cx, view, &mut build);
    }
    if view.host_sends() {
        let names = layers();
        build.layer(cx.ports.host, layer(&names.internal_l2, priority::internal_l2, false), true);
        for group in &view.shared.host_to_local {
            build.own_group(cx.ports.host, &names.internal_l2, group, false);
        }
    }
    if view.is_translated() {
        translation(cx, view, &mut build);
    }
    sets(view, &mut build);
    if view.facts.acl {
        let own = policies.iter().filter_map(|policy| match policy {
            NetworkPolicy::Acl(acl) => Some(acl),
            _ => None,
        });
        acl::network(view, &own.collect::<Vec<_>>(), &mut build);
    }
    if view.facts.proxy {
        for group in &view.shared.proxy {
            build.group(group, false);
        }
        let own = policies.iter().filter_map(|policy| match policy {
            NetworkPolicy::L4Proxy(proxy) => Some(proxy),
            _ => None,
        });
        proxy::rules(cx, &view.shared.proxy, own, None, &mut build);
    }
    build
}

fn segment(cx: &Cx<'_>, view: &NetworkView, build: &mut Build) {
    let (arp, host_mac_on_wire, unknown_to_external) = match view.facts.mode {
        NetworkMode::Overlay => {
            // ARP never crosses a tunnel: both ends have fixed entries.
            let arp = match cx.env.switches.overlay_arp {
                OverlayArp::Proxy => ArpMode::Proxy,
                OverlayArp::Flood => ArpMode::Local,
            };
            (arp, false, true)
        }
        NetworkMode::L2Bridge | NetworkMode::L2Tunnel => (ArpMode::Flood, true, true),
        NetworkMode::Transparent | NetworkMode::Mirrored => (ArpMode::Flood, false, true),
        NetworkMode::Nat | NetworkMode::Ics | NetworkMode::ConstrainedIcs => (ArpMode::Local, false, true),
        _ => (ArpMode::Local, false, false),
    };
    let id = view.facts.segment;
    let spec = SegmentSpec { id, arp, host_mac_on_wire, unknown_to_external };
    build.put(Key::Segment(id), Item::Segment(spec));
}

/// The switch answers for gateways that nobody is.
fn gateways(cx: &Cx<'_>, view: &NetworkView, build: &mut Build) {
    let mac = if view.is_overlay() {
        view.facts.router
    } else if view.is_translated() || view.facts.mode == NetworkMode::Internal {
        Some(cx.ports.mac)
    } else {
        None
    };
    let Some(mac) = mac else { return };
    for gateway in view.facts.subnets.iter().filter_map(|subnet| subnet.gateway) {
        build.neighbor(view.facts.segment, gateway, mac);
    }
}

fn overlay(cx: &Cx<'_>, view: &NetworkView, policies: &[NetworkPolicy], build: &mut Build) {
    let names = layers();
    let shared = &view.shared;
    for policy in policies {
        if let NetworkPolicy::VxlanPort(vxlan) = policy
            && vxlan.port != 0
        {
            let settings = SwitchSettings { vxlan_port: vxlan.port, ..settings(cx.env) };
            build.put(Key::Settings, Item::Settings(Arc::new(settings)));
        }
    }
    for family in FAMILIES {
        build.group(&shared.encap[at(family)], false);
        build.group(&shared.pa_route[at(family)], false);
    }
    let (Some(provider), Some(router)) = (view.facts.management, view.facts.router) else { return };

    for group in &shared.pa_route {
        let route = PaRoute { native: NativeRoute::ToMac(router), ..PaRoute::default() };
        build.rule(
            &group.key,
            rule("PA_ROUTE", rank::PA_ROUTE, FINAL, Conditions::any(), Action::PaRoute(route)),
        );
    }
    host_side(cx, view, build);

    build.layer(cx.ports.external, layer(&names.vnet_decap, priority::vnet_decap, false), true);
    build.own_group(cx.ports.external, &names.vnet_decap, &host_groups().decap, true);
    for vsid in view.vsids() {
        let conditions = Conditions {
            tenant: Some(vsid),
            encapsulated: Some(true),
            destinations: AddressSet::one(provider),
            ..Conditions::default()
        };
        let flags = DecapFlags::KEEP_INNER_MAC | DecapFlags::PUSH_VSID;
        let decap = Action::Decap(Decap { flags, destination_mac: None });
        let id = format!("VNET_DECAP_{vsid}_{provider}");
        build.rule(&host_groups().decap.key, rule(id, 100, FINAL, conditions, decap));
    }
    build.layer(cx.ports.external, layer(&names.internal_l2, priority::internal_l2, false), true);
    for group in &shared.external_to_local {
        build.own_group(cx.ports.external, &names.internal_l2, group, false);
    }
    let node = Conditions { destination_macs: smallvec![router], ..to_any(&[provider]) };
    let to_node = Transpose { destination_mac: Some(cx.ports.mac), ..Transpose::default() };
    let group = &shared.external_to_local[at(Family::of(provider))];
    build.rule(&group.key, rule("NODE", 100, FINAL, node, Action::Transpose(to_node)));

    if cx.switches().remote_routes_need_endpoint && !cx.has_ports(view.id) {
        return;
    }
    let remote = policies.iter().filter_map(|policy| match policy {
        NetworkPolicy::RemoteSubnetRoute(route) => Some(route),
        _ => None,
    });
    for (index, route) in remote.enumerate() {
        remote_subnet(cx, view, (provider, router), index, route, build);
    }
}

/// The host's port encapsulates like those of the pods.
fn host_side(cx: &Cx<'_>, view: &NetworkView, build: &mut Build) {
    let names = layers();
    build.layer(cx.ports.host, layer(&names.vnet_encap, priority::vnet_encap, false), true);
    for family in FAMILIES {
        build.attach(cx.ports.host, &names.vnet_encap, &view.shared.encap[at(family)], false);
    }
    host_routes(cx, build);
}

/// The encapsulation towards one provider address; none where there is no such tunnel: its ends are of one family,
/// and a network identifier has 24 bits.
pub(super) fn encap(
    cx: &Cx<'_>,
    from: (IpAddr, Mac),
    pa: IpAddr,
    ca_mac: Option<Mac>,
    vni: u32,
) -> Option<Action> {
    let (source, router) = from;
    if vni >= 1 << 24 || Family::of(source) != Family::of(pa) {
        return None;
    }
    let switches = cx.switches();
    let mut flags = EncapFlags::empty();
    flags.set(EncapFlags::FIX_INNER_MAC, ca_mac.is_some());
    flags.set(EncapFlags::DECREMENT_TTL, switches.vxlan_decrement_ttl);
    let rewritten = switches.vxlan_inner_source == InnerSource::Router;
    flags.set(EncapFlags::FIX_INNER_MAC_CA_SOURCE, rewritten);
    Some(Action::RouteEncap(RouteEncap {
        source,
        destinations: vec![EncapDestination { pa, ca_mac, vni }],
        source_mac: rewritten.then_some(router),
        flags,
    }))
}

fn remote_subnet(
    cx: &Cx<'_>,
    view: &NetworkView,
    from: (IpAddr, Mac),
    index: usize,
    route: &RemoteSubnetRoute,
    build: &mut Build,
) {
    let (Ok(prefix), Ok(pa)) = (route.destination_prefix.parse::<IpNet>(), route.provider_address.parse())
    else {
        return;
    };
    let peer = route.distributed_router_mac_address.parse().ok().map(mac);
    let group = &view.shared.encap[at(family_of(prefix))];
    let id = format!("REMOTESUBNETROUTE_{index}_{prefix}");
    let Some(action) = encap(cx, from, pa, peer, route.isolation_id) else { return };
    build.rule(&group.key, rule(id, rank::ENCAP, FINAL, to_net(prefix), action));
}

/// The external port's rewriting, which endpoints put rules into.
fn wire(cx: &Cx<'_>, view: &NetworkView, build: &mut Build) {
    let names = layers();
    let groups = host_groups();
    build.layer(cx.ports.external, layer(&names.external_l2, priority::external_l2, false), true);
    for family in FAMILIES {
        build.own_group(cx.ports.external, &names.external_l2, &groups.external_in[at(family)], true);
        build.own_group(cx.ports.external, &names.external_l2, &groups.external_out[at(family)], true);
        if view.facts.mode == NetworkMode::L2Tunnel {
            let group = tunnel(view, family);
            build.group(&group, false);
            let out = Transpose { hairpin: Some(Hairpin::Port(cx.ports.external)), ..Transpose::default() };
            let flags = FINAL | RuleFlags::SKIP_HAIRPIN;
            build.rule(&group.key, rule("L2_TUNNEL", 100, flags, Conditions::any(), Action::Transpose(out)));
        }
    }
}

/// Packets that the host's port readdressed take the host's routes, those to local endpoints excepted.
fn bridge(cx: &Cx<'_>, view: &NetworkView, build: &mut Build) {
    for group in &view.shared.pa_route {
        build.group(group, false);
    }
    host_routes(cx, build);
}

/// A NAT network: the host's port translates what leaves it to the node's address.
fn translation(cx: &Cx<'_>, view: &NetworkView, build: &mut Build) {
    let names = layers();
    for group in &view.shared.pa_route {
        // Replies of mapped ports come from the node's address already and must not meet the host's own stack.
        build.group(group, false);
        let route = PaRoute { native: NativeRoute::ToMac(cx.ports.mac), ..PaRoute::default() };
        build.rule(
            &group.key,
            rule("PA_ROUTE", rank::PA_ROUTE, FINAL, Conditions::any(), Action::PaRoute(route)),
        );
    }
    let Some(node) = cx.node_address(view, false) else { return };
    let own: Vec<IpNet> =
        view.facts.subnets.iter().map(|subnet| subnet.prefix).filter(|net| net.addr().is_ipv4()).collect();
    if own.is_empty() {
        return;
    }
    let group = &host_groups().nat;
    build.layer(cx.ports.host, layer(&names.nat, priority::nat, true), true);
    build.own_group(cx.ports.host, &names.nat, group, true);
    let scope = view.id.lower();
    let inside: AddressSet = own.iter().copied().collect();
    let stays = Conditions { sources: inside.clone(), destinations: inside.clone(), ..Conditions::default() };
    build.rule(
        &group.key,
        rule(format!("NAT_INSIDE_{scope}"), rank::NAT_EXCEPTION, FINAL, stays, Action::Allow),
    );
    for (word, number, of) in nat_protocols(false) {
        let pool = common_pool(cx, node, word, number, of);
        let conditions =
            Conditions { protocols: smallvec![number], sources: inside.clone(), ..Conditions::default() };
        let nat = DynNat { pool: pool.key.clone(), flags: DynNatFlags::RECLAIM_TIME_WAIT };
        build.share(Key::Pool(pool.key.clone()), Item::Pool(pool));
        let id = format!("SNAT_{word}_NAT_{scope}_{node}");
        build.rule(&group.key, rule(id, rank::NAT, FLOW, conditions, Action::DynNat(nat)));
    }
}

fn sets(view: &NetworkView, build: &mut Build) {
    for (id, set) in &view.sets {
        let id = tag(view, id);
        let spec = TagSpec { id: id.clone(), name: set.name.clone(), addresses: set.addresses.clone() };
        build.put(Key::Tag(id.into()), Item::Tag(Arc::new(spec)));
    }
}
