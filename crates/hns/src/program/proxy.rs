//! L4Proxy: connections of an endpoint lead to a proxy first.

use std::net::IpAddr;

use hcn::policy::endpoint::L4Proxy;
use ipnet::IpNet;
use smallvec::smallvec;
use vfp::model::{Action, AddressRange, AddressSet, Conditions, Transpose, protocol};
use wire::Mac;

use super::Cx;
use super::build::{Build, FINAL, FLOW, rule};
use super::words::{FAMILIES, Group, at};

/// The addresses and prefixes of a list; entries that are neither are passed over.
pub(super) fn nets<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<IpNet> {
    let read = |text: &str| {
        let text = text.trim();
        text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
    };
    list.into_iter().filter_map(read).collect()
}

/// Puts the rules of proxies into groups, v4 and v6. `own` is the endpoint, where it is one's own policy.
pub(super) fn rules<'a>(
    cx: &Cx<'_>,
    groups: &[Group; 2],
    proxies: impl IntoIterator<Item = &'a L4Proxy>,
    own: Option<(&[IpAddr], Mac)>,
    build: &mut Build,
) {
    for (index, proxy) in proxies.into_iter().enumerate() {
        let address: Option<IpAddr> = proxy.ip.trim().parse().ok();
        let port: Option<u16> = proxy.port.trim().parse().ok().filter(|&port| port != 0);
        if address.is_none() && port.is_none() {
            continue;
        }
        let destinations = nets(proxy.destination.split(','));
        let base = 100 + 2 * u32::try_from(index).unwrap_or(u32::MAX / 4);
        for family in FAMILIES {
            if address.is_some_and(|address| vfp::model::Family::of(address) != family) {
                continue;
            }
            let mine = |list: &[IpNet]| -> Vec<IpNet> {
                list.iter().copied().filter(|net| super::build::family_of(*net) == family).collect()
            };
            let towards = mine(&destinations);
            if towards.is_empty() && !destinations.is_empty() {
                continue;
            }
            let key = &groups[at(family)].key;
            let spared = mine(&nets(proxy.exceptions.iter().map(String::as_str)));
            // What goes to the proxy anyway is left alone.
            let spared = spared.into_iter().map(AddressRange::from).chain(address.map(AddressRange::one));
            let spared = AddressSet::new(spared);
            if !spared.is_empty() {
                let conditions = Conditions { destinations: spared, ..Conditions::default() };
                build.rule(
                    key,
                    rule(format!("L4_PROXY_EXCEPTION_{index}"), base, FINAL, conditions, Action::Allow),
                );
            }
            let mac = address.and_then(|address| match own {
                Some((addresses, mac)) if addresses.contains(&address) => Some(mac),
                _ => cx.env.host.has_address(address).then_some(cx.ports.mac),
            });
            let conditions = Conditions {
                protocols: match u8::try_from(proxy.protocol) {
                    Ok(number) if number != 0 => smallvec![number],
                    _ => smallvec![protocol::TCP, protocol::UDP],
                },
                destinations: towards.into_iter().collect(),
                ..Conditions::default()
            };
            let action = Transpose {
                destination: address,
                destination_port: port,
                destination_mac: mac,
                ..Transpose::default()
            };
            build.rule(
                key,
                rule(format!("L4_PROXY_{index}"), base + 1, FLOW, conditions, Action::Transpose(action)),
            );
        }
    }
}
