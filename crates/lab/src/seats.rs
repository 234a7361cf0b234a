//! The devices of a Windows node: its port on the underlay, the host's interfaces, the pods'. Made in their namespaces
//! with the addresses that HNS gave their endpoints; held open by who made them.
//!
//! It must not know what moves the frames.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::process::Command;

use crate::build::feed;
use crate::daemon::SeatSpec;
use crate::netns::{Netns, NetnsError};
use crate::plan::WindowsPlan;
use crate::tap::Tap;

/// The host's interface.
pub const HOST_DEVICE: &str = "vEthernet";

/// A pod's interface.
pub const POD_DEVICE: &str = "eth0";

/// Where the host's programs take ports from: outside of Windows' dynamic range, out of which HNS lends ports to
/// translations, and the kernel here does not know which.
const CLIENT_PORTS: &str = "32768 49151";

/// A device that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SeatError {
    /// Its namespace.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// The device.
    #[error("device {device} in network namespace {namespace}: {error}")]
    Device {
        /// Which.
        device: String,
        /// Where.
        namespace: String,
        /// Why.
        error: io::Error,
    },
    /// What it was to have.
    #[error("device {device} in network namespace {namespace}: ip: {said}")]
    Setup {
        /// Which.
        device: String,
        /// Where.
        namespace: String,
        /// What iproute2 said.
        said: String,
    },
}

/// Makes a device in a namespace and gives it what the script says.
fn make(namespace: &Netns, device: &str, script: &str) -> Result<Tap, SeatError> {
    let failed = |error| SeatError::Device {
        device: device.to_owned(),
        namespace: namespace.name().to_owned(),
        error,
    };
    let tap = namespace.run(|| Tap::create(device))?.map_err(failed)?;
    let mut command = Command::new("ip");
    command.args(["-n", namespace.name(), "-batch", "-"]);
    match feed(&mut command, script).map_err(failed)? {
        Ok(()) => Ok(tap),
        Err(said) => {
            Err(SeatError::Setup { device: device.to_owned(), namespace: namespace.name().to_owned(), said })
        }
    }
}

/// A node's port on the bridge of its segment.
pub fn external(plan: &WindowsPlan, underlay: &str) -> Result<Tap, SeatError> {
    let WindowsPlan { port, bridge, mtu, node, .. } = plan;
    let script = format!(
        "link set dev {port} mtu {mtu} alias {node}\nlink set dev {port} master {bridge}\nlink set dev {port} up\n"
    );
    make(&Netns::open(underlay)?, port, &script)
}

/// A script that addresses a device. Writing to a String does not fail.
#[derive(Default)]
struct Script(String);

impl Script {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{line}");
    }

    fn address(&mut self, device: &str, net: ipnet::IpNet) {
        let no_wait = if net.addr().is_ipv6() { " nodad" } else { "" };
        self.line(format_args!("addr add {net} dev {device}{no_wait}"));
    }

    fn default_by(&mut self, device: &str, router: IpAddr) {
        self.line(format_args!("route replace default via {router} dev {device} onlink"));
    }
}

/// The host's interface on the switch.
pub fn host(plan: &WindowsPlan) -> Result<Tap, SeatError> {
    let mut script = Script::default();
    script.line(format_args!("link set dev {HOST_DEVICE} address {} mtu {}", colons(plan.mac), plan.mtu));
    script.line(format_args!("link set dev {HOST_DEVICE} up"));
    for &address in &plan.addresses {
        script.address(HOST_DEVICE, address);
    }
    for &router in &plan.routers {
        script.default_by(HOST_DEVICE, router);
    }
    for (pods, node) in &plan.routes {
        script.line(format_args!("route replace {pods} via {node} dev {HOST_DEVICE}"));
    }
    let namespace = Netns::open(&plan.namespace)?;
    namespace.sysctls(&[("ipv4/ip_local_port_range", CLIENT_PORTS)])?;
    make(&namespace, HOST_DEVICE, &script.0)
}

/// An endpoint's interface: a pod's, of which there are so many already, or another one of the host's.
pub fn endpoint(
    spec: &SeatSpec,
    namespace: &str,
    accepted: &[IpAddr],
    mtu: u16,
    nth: usize,
) -> Result<Tap, SeatError> {
    let device = match nth {
        _ if spec.host => host_device(&spec.name),
        0 => POD_DEVICE.to_owned(),
        _ => format!("eth{nth}"),
    };
    let mut script = Script::default();
    let mtu = mtu.min(spec.mtu);
    script.line(format_args!("link set dev {device} address {} mtu {mtu}", colons(spec.mac)));
    script.line(format_args!("link set dev {device} up"));
    for &address in &spec.addresses {
        script.address(&device, address);
    }
    for address in accepted {
        // Answered at, and never chosen as a source.
        script.line(format_args!("addr add {address} dev {device} preferred_lft 0"));
    }
    if !spec.host {
        let mut families = BTreeMap::new();
        for &gateway in &spec.gateways {
            families.entry(gateway.is_ipv6()).or_insert(gateway);
        }
        for &gateway in families.values() {
            script.default_by(&device, gateway);
        }
    }
    make(&Netns::open(namespace)?, &device, &script.0)
}

/// What another interface of the host is called: after its endpoint.
fn host_device(name: &str) -> String {
    let usable = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().filter(usable).take(crate::tap::LONGEST_NAME).collect();
    if name.is_empty() { "endpoint".to_owned() } else { name }
}

/// A MAC as iproute2 reads it.
fn colons(mac: wire::Mac) -> String {
    mac.0.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_host_devices_are_the_kernel_s_to_take() {
        assert_eq!(host_device("cbr0"), "cbr0");
        assert_eq!(host_device("a/b c:d"), "abcd");
        assert_eq!(host_device("a-very-long-name-indeed"), "a-very-long-nam");
        assert_eq!(host_device("///"), "endpoint");
        assert_eq!(colons(wire::Mac([0, 0x15, 0x5d, 1, 2, 0xff])), "00:15:5d:01:02:ff");
    }
}
