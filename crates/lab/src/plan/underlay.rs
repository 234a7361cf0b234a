//! The underlay's part of a plan: a bridge for each segment, the router, the client outside, and hosts that are no
//! nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use node::NetworkKind;
use node::topology;

use super::model::{Address, Device, DeviceKind, Interface, Route};
use super::{Hub, Input, LabPlan, PlanError, host, pod_routes, with_prefix};

/// The bridge of a segment.
pub(super) fn bridge(segment: usize) -> String {
    format!("br{segment}")
}

/// The router's interface to a segment.
pub(super) fn lan(segment: usize) -> String {
    format!("lan{segment}")
}

/// A machine's interface on the underlay.
fn interface(owner: &str, name: &str, mtu: u16, addresses: impl IntoIterator<Item = Address>) -> Interface {
    Interface::new(Some(topology::mac_of(&format!("{owner}/{name}"))), mtu, addresses)
}

impl LabPlan {
    pub(super) fn add_underlay(&mut self, input: &Input<'_>) -> Result<(), PlanError> {
        let (underlay, router) = (self.underlay.clone(), self.router.clone());
        let mtu = input.settings.mtu;
        let made = self.namespace(underlay.clone(), "the underlay", false)?;
        for number in 0..input.topology.segments.len() {
            let name = bridge(number);
            let device = Device::new(DeviceKind::Bridge, interface("underlay", &name, mtu, []));
            made.devices.insert(name, device);
        }
        self.namespace(router.clone(), "the router", true)?;
        self.add_outside(input)?;
        for (number, segment) in input.topology.segments.iter().enumerate() {
            let (bridge, lan) = (bridge(number), lan(number));
            let own = segment.routers.iter().copied().map(Address::on_link);
            let device = interface("router", &lan, mtu, own);
            let owner = format!("router{number}");
            let hub = Hub { namespace: &underlay, bridge: &bridge, prefix: "", owner: &owner };
            self.join((&router, &lan), device, hub);
            for &address in &segment.hosts {
                let namespace = input.names.host(address);
                let made = self.namespace(namespace.clone(), &format!("host {address}"), false)?;
                let routers = segment.routers.iter().map(IpNet::addr);
                // A host has one address, and routes of its family only.
                let routers = routers.filter(|router| router.is_ipv4() == address.is_ipv4());
                made.add_routes(routers.map(|router| Route::default_by(router, "eth0")));
                let owner = format!("host {address}");
                let own = Address::on_link(with_prefix(address, &segment.nets));
                let device = interface(&owner, "eth0", mtu, [own]);
                let hub = Hub { namespace: &underlay, bridge: &bridge, prefix: "h-", owner: &owner };
                self.join((&namespace, "eth0"), device, hub);
            }
        }
        if input.settings.kind == NetworkKind::L2Bridge
            && let Some(router) = self.namespaces.get_mut(&router)
        {
            for node in &input.topology.nodes {
                let lan = lan(node.segment);
                router.add_routes(pod_routes(node).map(|(pods, via)| Route::via(pods, via, &lan)));
            }
        }
        Ok(())
    }

    /// The client outside, with the addresses of endpoints that lie nowhere in the cluster, and its link with the router.
    fn add_outside(&mut self, input: &Input<'_>) -> Result<(), PlanError> {
        let (router, outside) = (self.router.clone(), self.outside.clone());
        let nets = input.topology.outside();
        let wan: Vec<IpNet> = nets.iter().filter_map(|net| host(net, 0)).collect();
        let own: Vec<IpNet> = nets.iter().filter_map(|net| host(net, 9)).collect();
        let outsiders: BTreeSet<IpAddr> = input.topology.outsiders.iter().copied().collect();
        let made = self.namespace(outside.clone(), "the client outside", false)?;
        made.add_routes(wan.iter().map(|address| Route::default_by(address.addr(), "eth0")));
        let mtu = input.settings.mtu;
        let all = own.iter().copied().map(Address::on_link);
        let all = all.chain(outsiders.iter().copied().map(Address::passive));
        let end = DeviceKind::VethEnd { namespace: router.clone(), device: "wan".to_owned() };
        made.devices.insert("eth0".to_owned(), Device::new(end, interface("outside", "eth0", mtu, all)));
        let end = DeviceKind::Veth { namespace: outside, device: "eth0".to_owned() };
        let wan = wan.into_iter().map(Address::on_link);
        let device = Device::new(end, interface("router", "wan", mtu, wan));
        if let Some(router) = self.namespaces.get_mut(&router) {
            router.devices.insert("wan".to_owned(), device);
            for address in outsiders {
                let via = own.iter().map(IpNet::addr).find(|own| own.is_ipv4() == address.is_ipv4());
                router.add_routes(via.map(|via| Route::via(address.into(), via, "wan")));
            }
        }
        Ok(())
    }
}
