//! What must be done to make one plan of another. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::plan::{Address, Device, DeviceKind, Forwarding, LabPlan, Namespace, Neighbor, Route};

/// Lines for one program in one namespace.
pub type Script = Vec<String>;

/// What must be done, in the order of the fields. Scripts of different namespaces in one field do not depend on each
/// other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Devices that go, for `ip`.
    pub removals: BTreeMap<String, Script>,
    /// Namespaces that go, with all that is in them.
    pub gone: BTreeSet<String>,
    /// Namespaces that come.
    pub new: BTreeSet<String>,
    /// Network settings, by namespace.
    pub settings: BTreeMap<String, Vec<(String, &'static str)>>,
    /// Bridges and veth pairs that come, for `ip`.
    pub devices: BTreeMap<String, Script>,
    /// What devices have, and tunnels, which need other devices, for `ip`.
    pub contents: BTreeMap<String, Script>,
    /// Where tunnels have which MAC, for `bridge`.
    pub forwardings: BTreeMap<String, Script>,
}

impl Difference {
    /// What makes a plan of nothing.
    pub fn all(plan: &LabPlan) -> Self {
        Self::between(&BTreeMap::new(), &plan.namespaces)
    }

    /// What makes the second plan of the first.
    pub fn new(old: &LabPlan, new: &LabPlan) -> Self {
        Self::between(&old.namespaces, &new.namespaces)
    }

    fn between(old: &BTreeMap<String, Namespace>, new: &BTreeMap<String, Namespace>) -> Self {
        let mut difference = Self {
            gone: old.keys().filter(|name| !new.contains_key(*name)).cloned().collect(),
            new: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
            ..Self::default()
        };
        let sides = Sides { old, new };
        for (name, namespace) in old {
            let script = sides.removals(name, namespace);
            put(&mut difference.removals, name, script);
        }
        for (name, namespace) in new {
            let before = old.get(name);
            if before.is_none_or(|before| before.forwarding != namespace.forwarding) {
                difference.settings.insert(name.clone(), namespace.settings());
            }
            put(&mut difference.devices, name, sides.devices(name, namespace));
            put(&mut difference.contents, name, sides.contents(name, namespace));
            put(&mut difference.forwardings, name, sides.forwardings(name, namespace));
        }
        difference
    }

    /// Nothing must be done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn put(scripts: &mut BTreeMap<String, Script>, namespace: &str, script: Script) {
    if !script.is_empty() {
        scripts.insert(namespace.to_owned(), script);
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts = |f: &mut fmt::Formatter<'_>, what: &str, scripts: &BTreeMap<String, Script>| {
            for (namespace, lines) in scripts {
                writeln!(f, "{what} {namespace}")?;
                lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
            }
            Ok(())
        };
        scripts(f, "removals in", &self.removals)?;
        self.gone.iter().try_for_each(|name| writeln!(f, "gone: {name}"))?;
        for (namespace, settings) in &self.settings {
            let what = if self.new.contains(namespace) { "new" } else { "from now on" };
            // Settings are the same everywhere but for this one.
            let forwards = settings.iter().any(|(path, value)| path == "ipv4/ip_forward" && *value == "1");
            writeln!(f, "{what}: {namespace}, {}", if forwards { "a router" } else { "a host" })?;
        }
        scripts(f, "devices in", &self.devices)?;
        scripts(f, "contents of", &self.contents)?;
        scripts(f, "forwardings in", &self.forwardings)
    }
}

/// Two plans.
struct Sides<'a> {
    old: &'a BTreeMap<String, Namespace>,
    new: &'a BTreeMap<String, Namespace>,
}

/// A device with its namespace and its name.
type Place<'a> = (&'a str, &'a str, &'a Device);

fn find<'a>(namespaces: &'a BTreeMap<String, Namespace>, namespace: &str, device: &str) -> Option<Place<'a>> {
    let (namespace, found) = namespaces.get_key_value(namespace)?;
    let (name, device) = found.devices.get_key_value(device)?;
    Some((namespace, name, device))
}

/// The devices that a device is made together with, itself first if it is the one from which they are made.
fn made_with<'a>(
    namespaces: &'a BTreeMap<String, Namespace>,
    namespace: &str,
    device: &str,
) -> [Option<Place<'a>>; 2] {
    let found = find(namespaces, namespace, device);
    match found.map(|(_, _, device)| &device.kind) {
        Some(DeviceKind::Veth { namespace, device }) => [found, find(namespaces, namespace, device)],
        Some(DeviceKind::VethEnd { namespace, device }) => [find(namespaces, namespace, device), found],
        _ => [found, None],
    }
}

impl Sides<'_> {
    /// Whether a device of the new plan must be made: there is none such in the old one.
    fn is_fresh(&self, namespace: &str, device: &str) -> bool {
        let essence = |namespaces| {
            made_with(namespaces, namespace, device).map(|end| {
                end.map(|(namespace, name, device)| (namespace, name, &device.kind, device.mac, device.mtu))
            })
        };
        let (old, new) = (essence(self.old), essence(self.new));
        let underlay = match new {
            // A tunnel goes with the device that it leaves by.
            [Some((_, _, DeviceKind::Vxlan { underlay, .. }, _, _)), _] => self.is_fresh(namespace, underlay),
            _ => false,
        };
        old != new || underlay
    }

    /// Devices of the old plan that go or are made anew. Those that go with their namespaces are left to that, but for
    /// veth pairs with an end elsewhere: they must be gone before their names are given again.
    fn removals(&self, name: &str, namespace: &Namespace) -> Script {
        let stays = self.new.contains_key(name);
        let goes = |device: &&String| self.is_fresh(name, device);
        let mut script = Script::new();
        let mut tunnels = Script::new();
        for device in namespace.devices.keys().filter(goes) {
            match &namespace.devices[device].kind {
                DeviceKind::Veth { namespace: other, .. } if stays || self.new.contains_key(other) => {
                    script.push(format!("link del dev {device}"));
                }
                DeviceKind::Bridge if stays => script.push(format!("link del dev {device}")),
                DeviceKind::Vxlan { .. } if stays => tunnels.push(format!("link del dev {device}")),
                _ => {}
            }
        }
        tunnels.extend(script);
        tunnels
    }

    fn devices(&self, name: &str, namespace: &Namespace) -> Script {
        let mut bridges = Script::new();
        let mut pairs = Script::new();
        for (device, facts) in &namespace.devices {
            if !self.is_fresh(name, device) {
                continue;
            }
            let mac = facts.mac.map(|mac| format!(" address {}", colons(mac))).unwrap_or_default();
            let own = format!("link add dev {device}{mac} mtu {}", facts.mtu);
            match &facts.kind {
                // Where nobody asks for groups, looking into their reports only loses frames.
                DeviceKind::Bridge => bridges.push(format!("{own} type bridge mcast_snooping 0")),
                DeviceKind::Veth { namespace: there, device: end } => {
                    let far = find(self.new, there, end).map(|(_, _, device)| device);
                    let mac = far.and_then(|far| far.mac);
                    let mac = mac.map(|mac| format!(" address {}", colons(mac))).unwrap_or_default();
                    let mtu = far.map_or(facts.mtu, |far| far.mtu);
                    pairs.push(format!("{own} type veth peer name {end} netns {there}{mac} mtu {mtu}"));
                }
                DeviceKind::VethEnd { .. } | DeviceKind::Vxlan { .. } => {}
            }
        }
        bridges.extend(pairs);
        bridges
    }

    fn contents(&self, name: &str, namespace: &Namespace) -> Script {
        let nothing = Namespace::default();
        let before = self.old.get(name).unwrap_or(&nothing);
        let mut script = Script::new();
        // Devices whose routes and neighbours are gone, as far as there were any.
        let mut bare = BTreeSet::new();
        let mut addresses = Script::new();
        for (device, facts) in &namespace.devices {
            let known = before.devices.get(device).filter(|_| !self.is_fresh(name, device));
            if known.is_none() {
                bare.insert(device.as_str());
                if let DeviceKind::Vxlan { .. } = facts.kind {
                    script.push(tunnel(device, facts));
                }
            }
            let bridged = |facts: &Device| (facts.bridge.clone(), facts.alias.clone());
            let moved = facts.bridge.as_ref().is_some_and(|bridge| self.is_fresh(name, bridge));
            if moved || known.is_none_or(|known| bridged(known) != bridged(facts)) {
                script.push(set(device, facts));
            }
            let old: &[Address] = known.map_or(&[], |known| &known.addresses);
            if change_addresses(device, old, &facts.addresses, &mut addresses) {
                bare.insert(device.as_str());
            }
        }
        let stays = |device: &String| namespace.devices.contains_key(device) && !self.is_fresh(name, device);
        // What goes, goes before the addresses that it may go with.
        for Route { destination, device, .. } in &before.routes {
            let wanted = namespace.routes.iter().any(|route| route.destination == *destination);
            if !wanted && stays(device) {
                script.push(format!("route del {destination} dev {device}"));
            }
        }
        for Neighbor { device, address, .. } in &before.neighbors {
            let same = |other: &Neighbor| other.device == *device && other.address == *address;
            if !namespace.neighbors.iter().any(same) && stays(device) {
                script.push(format!("neigh del {address} dev {device}"));
            }
        }
        script.extend(addresses);
        // Routers must be on the link before there are routes by them.
        let (direct, others): (Vec<&Route>, Vec<&Route>) =
            namespace.routes.iter().partition(|route| route.via.is_none());
        for route in direct.into_iter().chain(others) {
            if bare.contains(route.device.as_str()) || !before.routes.contains(route) {
                script.push(self::route(route));
            }
        }
        for neighbor in &namespace.neighbors {
            if bare.contains(neighbor.device.as_str()) || !before.neighbors.contains(neighbor) {
                let Neighbor { device, address, mac } = neighbor;
                script.push(format!(
                    "neigh replace {address} lladdr {} dev {device} nud permanent",
                    colons(*mac)
                ));
            }
        }
        script
    }

    fn forwardings(&self, name: &str, namespace: &Namespace) -> Script {
        let nothing = Namespace::default();
        let before = self.old.get(name).unwrap_or(&nothing);
        let mut script = Script::new();
        for old in before.forwardings.difference(&namespace.forwardings) {
            let Forwarding { device, mac, node } = old;
            if namespace.devices.contains_key(device) && !self.is_fresh(name, device) {
                script.push(format!("fdb del {} dev {device} dst {node} self", colons(*mac)));
            }
        }
        for forwarding in &namespace.forwardings {
            let Forwarding { device, mac, node } = forwarding;
            if self.is_fresh(name, device) || !before.forwardings.contains(forwarding) {
                script.push(format!("fdb replace {} dev {device} dst {node} self permanent", colons(*mac)));
            }
        }
        script
    }
}

fn colons(mac: wire::Mac) -> String {
    mac.0.map(|byte| format!("{byte:02x}")).join(":")
}

fn tunnel(device: &str, facts: &Device) -> String {
    let DeviceKind::Vxlan { vni, local, port, underlay } = &facts.kind else { return String::new() };
    let mac = facts.mac.map(|mac| format!(" address {}", colons(mac))).unwrap_or_default();
    format!(
        "link add dev {device}{mac} mtu {} type vxlan id {vni} local {local} dev {underlay} dstport {port} nolearning",
        facts.mtu
    )
}

/// Brings a device up, where it belongs.
fn set(device: &str, facts: &Device) -> String {
    let bridge = facts.bridge.as_ref().map(|bridge| format!(" master {bridge}")).unwrap_or_default();
    let alias = facts.alias.as_ref().map(|alias| format!(" alias \"{alias}\"")).unwrap_or_default();
    // A port, and a bridge that is nothing else, has nothing to say itself.
    let silent = if facts.addresses.is_empty() { " addrgenmode none" } else { "" };
    format!("link set dev {device}{bridge}{alias}{silent} up")
}

/// Lines that change a device's addresses. Tells whether routes may be gone with those that went.
fn change_addresses(device: &str, old: &[Address], new: &[Address], script: &mut Script) -> bool {
    if old == new {
        return false;
    }
    let kept: Vec<Address> = old.iter().copied().filter(|address| new.contains(address)).collect();
    let gone = old.iter().filter(|address| !new.contains(address));
    // The order is that of preference: what comes can only come last.
    let gentle = new.starts_with(&kept) && gone.clone().all(|address| !address.preferred);
    let (gone, come) =
        if gentle { (gone.collect::<Vec<_>>(), &new[kept.len()..]) } else { (old.iter().collect(), new) };
    script.extend(gone.into_iter().rev().map(|address| format!("addr del {} dev {device}", address.net)));
    for address in come {
        let mut line = format!("addr add {} dev {device}", address.net);
        if !address.on_link {
            line += " noprefixroute";
        }
        if address.net.addr().is_ipv6() {
            line += " nodad";
            if !address.preferred {
                line += " preferred_lft 0";
            }
        }
        script.push(line);
    }
    !gentle
}

fn route(route: &Route) -> String {
    let via = route.via.map(|via| format!(" via {via}")).unwrap_or_default();
    let onlink = if route.onlink { " onlink" } else { "" };
    format!("route replace {}{via} dev {}{onlink}", route.destination, route.device)
}

#[cfg(test)]
mod tests;
