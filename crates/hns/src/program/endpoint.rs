//! What an endpoint brings: its switch port with layers, and how others reach its addresses.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::Guid;
use hcn::namespace::NamespaceType;
use hcn::network::NetworkMode;
use hcn::policy::EndpointPolicy;
use hcn::policy::endpoint::SdnRoute;
use smallvec::smallvec;
use uuid::Uuid;
use vfp::model::{
    Action, AddressSet, Conditions, Direction, Family, FlowSettings, Guards, LayerFlags, NativeRoute,
    PaRoute, PortKind, PortSpec, RuleFlags, Transpose,
};
use wire::Mac;

use super::build::{Build, FINAL, family_of, layer, mac, of_family, rule, to_any, to_net};
use super::host::MTU;
use super::table::{Item, Key};
use super::view::{NetworkView, isolation};
use super::words::{ACL_BEFORE_LB, FAMILIES, Group, at, capital, host_groups, layers, priority, rank};
use super::{Cx, acl, balancer, nat, network, proxy};
use crate::namespace::DEFAULT_COMPARTMENT;
use crate::record::EndpointRecord;

/// Bytes that VXLAN takes off the MTU.
const ENCAP_OVERHEAD: u16 = 50;

/// What is read of an endpoint's policies.
#[derive(Default)]
struct Policies {
    list: Vec<EndpointPolicy>,
    vlan: Option<u16>,
    vsid: Option<u32>,
    overhead: Option<u16>,
    mtu: Option<u16>,
    port_name: Option<String>,
    provider: Option<IpAddr>,
}

impl Policies {
    fn of(record: &EndpointRecord) -> Self {
        let list: Vec<EndpointPolicy> =
            record.doc.policies.iter().filter_map(|policy| EndpointPolicy::decode(policy).ok()).collect();
        let (vlan, vsid) = isolation(&record.doc.policies);
        let mut read = Self { vlan, vsid, ..Self::default() };
        for policy in &list {
            match policy {
                EndpointPolicy::EncapOverhead(encap) => read.overhead = Some(encap.overhead),
                EndpointPolicy::InterfaceParameters(interface) if interface.mtu != 0 => {
                    read.mtu = Some(interface.mtu);
                }
                EndpointPolicy::PortName(port) if !port.name.is_empty() => {
                    read.port_name = Some(port.name.clone());
                }
                EndpointPolicy::ProviderAddress(provider) => {
                    read.provider = provider.provider_address.parse().ok();
                }
                _ => {}
            }
        }
        read.list = list;
        read
    }
}

/// An endpoint with what is known of it.
struct Subject<'a> {
    cx: &'a Cx<'a>,
    view: &'a NetworkView,
    record: &'a EndpointRecord,
    id: Guid,
    mac: Mac,
    policies: Policies,
}

/// Whether an endpoint is attached to the host's own compartment.
pub(super) fn is_hosts(cx: &Cx<'_>, record: &EndpointRecord) -> bool {
    record.compartment == Some(DEFAULT_COMPARTMENT)
        || record.doc.namespace.and_then(|id| cx.state.namespaces.get(id)).is_some_and(|namespace| {
            namespace.doc.kind == Some(NamespaceType::HostDefault)
                || namespace.doc.namespace_id == Some(DEFAULT_COMPARTMENT)
        })
}

/// Everything of an endpoint's; true when it depends on what is in sets of its network. Without NAT where a fault
/// (F-NORULES) kept those rules off.
pub(super) fn build(
    cx: &Cx<'_>,
    view: &NetworkView,
    record: &EndpointRecord,
    without_nat: bool,
) -> (Build, bool) {
    // A local endpoint stands before a remote one with its address, an older one before a younger one.
    let far = u64::from(record.doc.is_remote()) << 63;
    let mut build = Build::ranked(record.seq | far);
    let subject = Subject {
        cx,
        view,
        record,
        id: record.doc.id.unwrap_or_default(),
        mac: record.mac.map(mac).unwrap_or_default(),
        policies: Policies::of(record),
    };
    if record.doc.is_remote() {
        subject.remote(&mut build);
        return (build, false);
    }
    subject.reached(&mut build);
    let expands = match record.port {
        Some(port) => subject.port(port.uuid(), without_nat, &mut build),
        None => false,
    };
    (build, expands)
}

impl Subject<'_> {
    fn vsid(&self, address: IpAddr) -> Option<u32> {
        let subnet = self.view.subnet(address).and_then(|subnet| subnet.vsid);
        self.policies.vsid.or(subnet).or(self.view.facts.vsid)
    }

    fn vlan(&self) -> Option<u16> {
        let subnet = self.record.addresses.iter().find_map(|&address| self.view.subnet(address)?.vlan);
        self.policies.vlan.or(subnet).or(self.view.facts.vlan)
    }

    /// Another node's: tunnelled to that node. A node's own address is no tunnelled one.
    fn remote(&self, build: &mut Build) {
        let Some((provider, router)) = self.view.tunnel() else { return };
        for &address in &self.record.addresses {
            if self.view.subnet(address).is_some() {
                build.neighbor(self.view.facts.segment, address, router);
            }
            let Some(pa) = self.policies.provider.filter(|&pa| pa != address) else { continue };
            // A backend outside of the overlay is given with the own node's provider address: it is reached natively.
            // An address that stands for the host (a Service's) has the host's MAC as well.
            if pa == provider && self.mac != self.cx.ports.mac {
                continue;
            }
            let vni = self.vsid(address).or_else(|| self.view.vsids().first().copied()).unwrap_or_default();
            let group = &self.view.shared.encap[at(Family::of(address))];
            let Some(action) = network::encap(self.cx, (provider, router), pa, Some(self.mac), vni) else {
                continue;
            };
            let id = format!("REMOTE_ENDPOINT_{}_{address}", self.id.upper());
            build.rule(&group.key, rule(id, rank::ENCAP_ENDPOINT, FINAL, to_any(&[address]), action));
        }
    }

    /// How frames for a local endpoint get its MAC.
    fn reached(&self, build: &mut Build) {
        let to_me =
            || Action::Transpose(Transpose { destination_mac: Some(self.mac), ..Transpose::default() });
        let name = self.id.upper().to_string();
        for family in FAMILIES {
            let own = of_family(&self.record.addresses, family);
            if own.is_empty() {
                continue;
            }
            if self.view.host_sends() {
                let group = &self.view.shared.host_to_local[at(family)];
                build.rule(&group.key, rule(name.as_str(), 100, FINAL, to_any(&own), to_me()));
            }
            if let Some((_, router)) = self.view.tunnel() {
                for &address in &own {
                    let conditions = Conditions {
                        destination_macs: smallvec![router],
                        tenant: self.vsid(address),
                        ..to_any(&[address])
                    };
                    let group = &self.view.shared.external_to_local[at(family)];
                    let id = format!("{name}_{address}");
                    build.rule(&group.key, rule(id, 100, FINAL, conditions, to_me()));
                }
            }
            if self.view.is_overlay() {
                for &address in &own {
                    build.neighbor(self.view.facts.segment, address, self.mac);
                }
            }
            self.wire(family, &own, build);
            if self.view.is_bridged() || self.view.tunnel().is_some() {
                // What the host's port sent to a local backend is on its way.
                let group = network::host_route(family);
                build
                    .rule(&group.key, rule(format!("LOCAL_{name}"), 100, FINAL, to_any(&own), Action::Allow));
            }
        }
    }

    /// Between the pod's MAC and the one on the wire, with its VLAN.
    fn wire(&self, family: Family, own: &[IpAddr], build: &mut Build) {
        let (bridged, vlan) = (self.view.is_bridged(), self.vlan());
        let transparent = self.view.facts.mode == NetworkMode::Transparent;
        if !(bridged || transparent && vlan.is_some()) {
            return;
        }
        let groups = host_groups();
        let name = self.id.upper().to_string();
        let host = self.cx.ports.mac;
        let out = Conditions { source_macs: smallvec![self.mac], ..Conditions::default() };
        let action = Transpose { source_mac: bridged.then_some(host), vlan, ..Transpose::default() };
        let group = &groups.external_in[at(family)];
        build.rule(&group.key, rule(name.as_str(), 100, FINAL, out, Action::Transpose(action)));
        let tag = vlan.unwrap_or(0);
        let conditions = Conditions {
            destination_macs: smallvec![if bridged { host } else { self.mac }],
            vlans: Some((tag, tag)),
            ..to_any(own)
        };
        let action =
            Transpose { destination_mac: Some(self.mac), vlan: vlan.map(|_| 0), ..Transpose::default() };
        let group = &groups.external_out[at(family)];
        build.rule(&group.key, rule(name, 100, FINAL, conditions, Action::Transpose(action)));
    }

    /// The VLAN that the endpoint's frames have on the wire, 0 for none.
    fn vlan_on_wire(&self) -> u16 {
        let tagged = self.view.is_bridged() || self.view.facts.mode == NetworkMode::Transparent;
        self.vlan().filter(|_| tagged).unwrap_or_default()
    }

    fn mtu(&self) -> u16 {
        let overhead = if self.view.is_overlay() { ENCAP_OVERHEAD } else { 0 };
        let overhead = self.policies.overhead.unwrap_or(overhead);
        self.policies.mtu.unwrap_or_else(|| MTU.saturating_sub(overhead))
    }

    /// The port and its layers.
    fn port(&self, port: Uuid, without_nat: bool, build: &mut Build) -> bool {
        let Self { cx, view, record, .. } = self;
        let spec = PortSpec {
            name: port,
            friendly_name: self.policies.port_name.clone().unwrap_or_else(|| self.id.upper().to_string()),
            kind: PortKind::Endpoint,
            segment: view.facts.segment,
            nic: self.id.derive("nic").uuid(),
            nic_name: record.vnic_name.clone().or_else(|| record.doc.name.clone()).unwrap_or_default(),
            mac: self.mac,
            addresses: record.addresses.clone(),
            mtu: self.mtu(),
            vlan: self.vlan_on_wire(),
            guards: Guards::empty(),
            flows: FlowSettings::default(),
            enabled: true,
        };
        build.put(Key::Port(port), Item::Port(Arc::new(spec)));
        let names = layers();
        let (acl_network, acl_own) =
            if cx.switches().acl_before_lb { ACL_BEFORE_LB } else { (priority::acl_network, priority::acl) };
        build.layer(port, layer(&names.lb_dsr, priority::lb_dsr, true), false);
        build.layer(port, layer(&names.acl, acl_own, true), false);
        build.layer(port, layer(&names.slb_nat, priority::slb_nat, true), false);
        let families: Vec<Family> = FAMILIES
            .into_iter()
            .filter(|&family| record.addresses.iter().any(|&address| Family::of(address) == family))
            .collect();
        let nat = nat::groups(port);
        for &family in &families {
            build.attach(port, &names.lb_dsr, &view.shared.lb_dsr[at(family)], false);
            build.attach(port, &names.slb_nat, &view.shared.steer[at(family)], false);
            for direction in &nat {
                let group = &direction[at(family)];
                build.own_group(port, &names.slb_nat, group, false);
                let last = rule(
                    "SLB_DEFAULT_RULE",
                    rank::DEFAULT,
                    RuleFlags::empty(),
                    Conditions::any(),
                    Action::Allow,
                );
                build.rule(&group.key, last);
            }
        }
        self.routed(port, &families, build);
        self.proxied(port, &families, build);
        if view.facts.acl {
            build.layer(port, layer(&names.acl_network, acl_network, true), false);
            for group in view.shared.acl.iter().filter(|group| families.contains(&group.family)) {
                build.attach(port, &names.acl_network, group, false);
            }
        }
        self.policed(port, &nat, without_nat, build)
    }

    /// How packets leave the port: tunnels, next hops, routes of the endpoint's own.
    fn routed(&self, port: Uuid, families: &[Family], build: &mut Build) {
        let (names, view) = (layers(), self.view);
        let routes = self.routes();
        if view.is_overlay() {
            build.layer(port, layer(&names.vnet_encap, priority::vnet_encap, false), false);
            for &family in families {
                build.attach(port, &names.vnet_encap, &view.shared.encap[at(family)], false);
            }
            self.tunnelled(port, &routes, build);
        } else {
            self.to_host(port, &routes, build);
        }
        let hosts = is_hosts(self.cx, self.record);
        if view.is_overlay() || (view.is_bridged() || view.is_translated()) && !hosts {
            build.layer(port, layer(&names.vnet_pa_route, priority::vnet_pa_route, false), false);
            for &family in families {
                build.attach(port, &names.vnet_pa_route, &view.shared.pa_route[at(family)], false);
                if !view.is_overlay() {
                    // Only what was translated to the node's address takes the node's next hop.
                    let id = format!("VNET_GROUP_PA_OWN_{}_OUT", capital(family));
                    let group =
                        Group::new(&port.to_string(), &names.vnet_pa_route, &id, Direction::Out, family, 100);
                    build.own_group(port, &names.vnet_pa_route, &group, false);
                    let own: AddressSet = of_family(&self.record.addresses, family).into_iter().collect();
                    let conditions = Conditions { sources: own, ..Conditions::default() };
                    build.rule(&group.key, rule("OWN_ADDRESS", 100, FINAL, conditions, Action::Allow));
                }
            }
        }
        if view.is_bridged() && hosts {
            for &family in families {
                // A gateway of the host's on this network: what is addressed to it and has the node's address
                // already goes where the node would send it.
                let conditions =
                    Conditions { destination_macs: smallvec![self.mac], ..Conditions::default() };
                let route = PaRoute { native: NativeRoute::ToMac(self.mac), ..PaRoute::default() };
                let id = format!("PA_ROUTE_{}", self.id.upper());
                let group = &view.shared.pa_route[at(family)];
                build.rule(&group.key, rule(id, rank::PA_ROUTE, FINAL, conditions, Action::PaRoute(route)));
            }
        }
        if view.facts.mode == NetworkMode::L2Tunnel {
            let hairpins = vfp::model::LayerSpec {
                flags: LayerFlags::DEFAULT_ALLOW | LayerFlags::HAIRPIN,
                ..layer(&names.l2_tunnel, priority::l2_tunnel, false)
            };
            build.layer(port, hairpins, false);
            for &family in families {
                build.attach(port, &names.l2_tunnel, &network::tunnel(view, family), false);
            }
        }
    }

    /// The endpoint's routes: its own policies, then those of SDN routes that name it.
    fn routes(&self) -> Vec<(String, SdnRoute)> {
        let own = self.policies.list.iter().filter_map(|policy| match policy {
            EndpointPolicy::SdnRoute(route) => Some(route.clone()),
            _ => None,
        });
        let mut routes: Vec<(String, SdnRoute)> =
            own.enumerate().map(|(index, route)| (format!("SDNROUTE_{index}"), route)).collect();
        for id in self.cx.state.routes_of(self.id) {
            let Some(record) = self.cx.state.routes.get(id) else { continue };
            for (index, setting) in record.doc.settings().iter().enumerate() {
                let route = SdnRoute {
                    destination_prefix: setting.destination_prefix.clone(),
                    next_hop: setting.next_hop.clone(),
                    need_encap: setting.need_encap,
                    ..SdnRoute::default()
                };
                routes.push((format!("SDNROUTE_{}_{index}", id.upper()), route));
            }
        }
        routes
    }

    /// On an overlay: destinations that go through the tunnel. Without a next hop the tunnel ends here, so the
    /// packet reaches the host.
    fn tunnelled(&self, port: Uuid, routes: &[(String, SdnRoute)], build: &mut Build) {
        let Some((provider, dr_mac)) = self.view.tunnel() else { return };
        let names = layers();
        let vni = self.record.addresses.iter().find_map(|&address| self.vsid(address)).unwrap_or_default();
        let groups = FAMILIES.map(|family| {
            let id = format!("VNET_GROUP_ROUTE_{}_OUT", capital(family));
            // Asked after the remote subnets: those are longer prefixes.
            Group::new(&port.to_string(), &names.vnet_encap, &id, Direction::Out, family, 300)
        });
        let mut hung = [false; 2];
        for (id, route) in routes.iter().filter(|(_, route)| route.need_encap) {
            let Ok(prefix) = route.destination_prefix.parse() else { continue };
            let family = family_of(prefix);
            let pa = route.next_hop.parse().unwrap_or(provider);
            let Some(action) = network::encap(self.cx, (provider, dr_mac), pa, None, vni) else { continue };
            let group = &groups[at(family)];
            if !std::mem::replace(&mut hung[at(family)], true) {
                build.own_group(port, &names.vnet_encap, group, false);
            }
            build.rule(&group.key, rule(id.as_str(), rank::ENCAP, FINAL, to_net(prefix), action));
        }
    }

    /// On other networks: routes to the node's addresses lead to the host's port whatever the gateway is.
    fn to_host(&self, port: Uuid, routes: &[(String, SdnRoute)], build: &mut Build) {
        let names = layers();
        let groups = FAMILIES.map(|family| {
            let id = format!("INTERNAL_L2_REWRITE_GROUP_{}_OUT", capital(family));
            Group::new(&port.to_string(), &names.internal_l2, &id, Direction::Out, family, 0)
        });
        let mut hung = [false; 2];
        for (id, route) in routes {
            let Ok(prefix) = route.destination_prefix.parse::<ipnet::IpNet>() else { continue };
            let hop: Option<IpAddr> = route.next_hop.parse().ok();
            let host = &self.cx.env.host;
            let is_host = match hop {
                Some(hop) => host.has_address(hop),
                None => prefix.prefix_len() == prefix.max_prefix_len() && host.has_address(prefix.addr()),
            };
            if !is_host {
                continue;
            }
            let group = &groups[at(family_of(prefix))];
            if !hung.iter().any(|&hung| hung) {
                build.layer(port, layer(&names.internal_l2, priority::internal_l2, false), false);
            }
            if !std::mem::replace(&mut hung[at(family_of(prefix))], true) {
                build.own_group(port, &names.internal_l2, group, false);
            }
            let action = Transpose { destination_mac: Some(self.cx.ports.mac), ..Transpose::default() };
            build.rule(&group.key, rule(id.as_str(), 100, FINAL, to_net(prefix), Action::Transpose(action)));
        }
    }

    fn proxied(&self, port: Uuid, families: &[Family], build: &mut Build) {
        let own: Vec<_> = self
            .policies
            .list
            .iter()
            .filter_map(|policy| match policy {
                EndpointPolicy::L4Proxy(proxy) => Some(proxy),
                _ => None,
            })
            .collect();
        if own.is_empty() && !self.view.facts.proxy {
            return;
        }
        let name = &layers().l4_proxy;
        build.layer(port, layer(name, priority::l4_proxy, true), false);
        if !own.is_empty() {
            let groups = FAMILIES.map(|family| {
                let id = format!("L4_PROXY_GROUP_{}_OUT", capital(family));
                Group::new(&port.to_string(), name, &id, Direction::Out, family, 100)
            });
            for group in &groups {
                build.own_group(port, name, group, false);
            }
            proxy::rules(self.cx, &groups, own, Some((&self.record.addresses, self.mac)), build);
        }
        if self.view.facts.proxy {
            for &family in families {
                build.attach(port, name, &self.view.shared.proxy[at(family)], false);
            }
        }
    }

    /// Filters, translation, mapped ports, bandwidth.
    fn policed(&self, port: Uuid, nat: &[[Group; 2]; 2], without_nat: bool, build: &mut Build) -> bool {
        let mut filters = acl::Filters { owner: self.id, acls: Vec::new(), tiers: Vec::new() };
        let mut outbound = Vec::new();
        for policy in &self.policies.list {
            match policy {
                EndpointPolicy::Acl(own) => filters.acls.push(own),
                EndpointPolicy::TierAcl(own) => filters.tiers.push(own),
                EndpointPolicy::OutboundNat(own) => outbound.push(own),
                EndpointPolicy::PortMapping(mapping) => {
                    balancer::mapped_port(self.cx, self.view, self.record, (port, self.mac), mapping, build);
                }
                EndpointPolicy::Qos(qos) => capped(port, qos.maximum_outgoing_bandwidth_in_bytes, build),
                _ => {}
            }
        }
        if !without_nat {
            let [_, out] = nat;
            nat::outbound(self.cx, self.view, self.record, port, &outbound, out, build);
        }
        acl::endpoint(self.cx, self.view, port, &filters, build)
    }
}

/// The bandwidth cap.
fn capped(port: Uuid, bytes_per_second: u64, build: &mut Build) {
    if bytes_per_second == 0 {
        return;
    }
    let name = &layers().qos;
    build.layer(port, layer(name, priority::qos, false), false);
    for family in FAMILIES {
        let id = format!("QOS_GROUP_{}_OUT", capital(family));
        let group = Group::new(&port.to_string(), name, &id, Direction::Out, family, 100);
        build.own_group(port, name, &group, false);
        let action = Action::Qos { bytes_per_second };
        build.rule(&group.key, rule("QOS", 100, RuleFlags::empty(), Conditions::any(), action));
    }
}
