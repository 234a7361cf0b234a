//! A packet's headers as a trace shows them, and what is different between two sets of them.
//!
//! Knows frames and what rules see of them; nothing of clusters or of how anything is printed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Serialize, Serializer};
use vfp::{OuterView, View};
use wire::{L4, Mac, TcpFlags, proto};

/// One end: an address, with a port where the protocol has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) address: IpAddr,
    pub(super) port: Option<u16>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The header of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outer {
    pub(super) source_mac: Mac,
    pub(super) destination_mac: Mac,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) vni: u32,
}

impl Outer {
    fn of(view: &OuterView) -> Self {
        Self {
            source_mac: view.source_mac,
            destination_mac: view.destination_mac,
            source: view.source,
            destination: view.destination,
            vni: view.vni,
        }
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN {}, {} > {}", self.vni, self.source, self.destination)
    }
}

/// A packet's headers. In a tunnel, these are the inner ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Headers {
    pub(super) source_mac: Mac,
    pub(super) destination_mac: Mac,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vlan: Option<u16>,
    pub(super) source: End,
    pub(super) destination: End,
    /// What it is: `SYN`, `UDP, 8 bytes`, an ICMP message.
    pub(super) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tunnel: Option<Outer>,
}

impl Headers {
    /// Those of a frame. None: it is no IP packet.
    pub(super) fn of_frame(frame: &[u8]) -> Option<Self> {
        let parsed = wire::parse(frame).ok()?;
        let ip = parsed.ip()?;
        let payload = frame.get(ip.payload_offset()..ip.end()).unwrap_or_default();
        if let L4::Udp { dport: wire::vxlan::UDP_PORT, .. } = ip.l4
            && let Ok((vni, at)) = wire::vxlan::parse(payload)
            && let Some(inner) = Self::of_frame(payload.get(at..).unwrap_or_default())
        {
            let tunnel = Outer {
                source_mac: parsed.l2.src,
                destination_mac: parsed.l2.dst,
                source: ip.src,
                destination: ip.dst,
                vni,
            };
            return Some(Self { tunnel: Some(tunnel), ..inner });
        }
        let ports = ip.l4.ports();
        Some(Self {
            source_mac: parsed.l2.src,
            destination_mac: parsed.l2.dst,
            vlan: parsed.l2.vlan.map(|tag| tag.id),
            source: End { address: ip.src, port: ports.map(|(source, _)| source) },
            destination: End { address: ip.dst, port: ports.map(|(_, destination)| destination) },
            what: match ip.l4 {
                L4::Tcp { flags, .. } => segment(flags, payload.len()),
                L4::Udp { .. } => format!("UDP, {} bytes", payload.len()),
                _ => other(frame, ip.src, ip.dst),
            },
            ttl: Some(ip.ttl),
            tunnel: None,
        })
    }

    /// Those that rules see. They tell of no TTL.
    fn of_view(view: &View) -> Self {
        let has_ports = matches!(view.protocol, proto::TCP | proto::UDP | proto::SCTP);
        let end = |address, port| End { address, port: has_ports.then_some(port) };
        Self {
            source_mac: view.source_mac,
            destination_mac: view.destination_mac,
            vlan: (view.vlan != 0).then_some(view.vlan),
            source: end(view.source, view.source_port),
            destination: end(view.destination, view.destination_port),
            what: String::new(),
            ttl: None,
            tunnel: view.outer.as_ref().map(Outer::of),
        }
    }
}

fn segment(flags: TcpFlags, bytes: usize) -> String {
    const NAMES: [(TcpFlags, &str); 6] = [
        (TcpFlags::SYN, "SYN"),
        (TcpFlags::FIN, "FIN"),
        (TcpFlags::RST, "RST"),
        (TcpFlags::PSH, "PSH"),
        (TcpFlags::URG, "URG"),
        (TcpFlags::ACK, "ACK"),
    ];
    let set: Vec<&str> =
        NAMES.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| name).collect();
    let flags = set.join(" ");
    if bytes == 0 { flags } else { format!("{flags}, {bytes} bytes") }
}

/// What the packet monitor's line says behind the addresses.
fn other(frame: &[u8], source: IpAddr, destination: IpAddr) -> String {
    let line = wire::describe(frame);
    let addresses = format!("{source} > {destination}: ");
    line.split_once(&addresses).map_or(line.clone(), |(_, rest)| rest.to_owned())
}

/// One field that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Rewrite {
    pub(super) field: Field,
    /// None: it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    /// None: it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
}

/// A field of the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Field {
    SourceMac,
    DestinationMac,
    Vlan,
    Source,
    Destination,
    Ttl,
    Vxlan,
    OuterSourceMac,
    OuterDestinationMac,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceMac => "source MAC",
            Self::DestinationMac => "destination MAC",
            Self::Vlan => "VLAN",
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Ttl => "TTL",
            Self::Vxlan => "VXLAN header",
            Self::OuterSourceMac => "outer source MAC",
            Self::OuterDestinationMac => "outer destination MAC",
        })
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{} {from} → {to}", self.field),
            (None, Some(to)) if matches!(self.field, Field::Vxlan | Field::Vlan) => {
                write!(f, "{} put on: {to}", self.field)
            }
            (None, Some(to)) => write!(f, "{} {to}", self.field),
            (Some(from), None) => write!(f, "{} taken off: {from}", self.field),
            (None, None) => write!(f, "{}", self.field),
        }
    }
}

/// What is different between two sets of headers.
pub(super) fn differences(before: &Headers, after: &Headers) -> Vec<Rewrite> {
    let mut found = Vec::new();
    let mut compare = |field, from: Option<String>, to: Option<String>| {
        if from != to {
            found.push(Rewrite { field, from, to });
        }
    };
    let text = |value: &dyn ToString| Some(value.to_string());
    compare(Field::SourceMac, text(&before.source_mac), text(&after.source_mac));
    compare(Field::DestinationMac, text(&before.destination_mac), text(&after.destination_mac));
    compare(Field::Vlan, before.vlan.map(|vlan| vlan.to_string()), after.vlan.map(|vlan| vlan.to_string()));
    compare(Field::Source, text(&before.source), text(&after.source));
    compare(Field::Destination, text(&before.destination), text(&after.destination));
    if let (Some(old), Some(new)) = (before.ttl, after.ttl) {
        compare(Field::Ttl, text(&old), text(&new));
    }
    let tunnel = |headers: &Headers| {
        headers.tunnel.map(|outer| format!("VNI {}, {} > {}", outer.vni, outer.source, outer.destination))
    };
    compare(Field::Vxlan, tunnel(before), tunnel(after));
    if let Some(new) = &after.tunnel {
        // A header that was just put on has no MACs before its next hop is known.
        let old = before.tunnel.filter(|old| old.source_mac != Mac::ZERO);
        let known = |mac: Mac| (mac != Mac::ZERO).then(|| mac.to_string());
        compare(Field::OuterSourceMac, old.map(|old| old.source_mac.to_string()), known(new.source_mac));
        compare(
            Field::OuterDestinationMac,
            old.map(|old| old.destination_mac.to_string()),
            known(new.destination_mac),
        );
    }
    found
}

/// The same for what a layer saw and left.
pub(super) fn view_differences(before: &View, after: &View) -> Vec<Rewrite> {
    let mut found = differences(&Headers::of_view(before), &Headers::of_view(after));
    if after.ttl_decrements > before.ttl_decrements {
        let less = after.ttl_decrements - before.ttl_decrements;
        found.push(Rewrite { field: Field::Ttl, from: None, to: Some(format!("-{less}")) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Headers {
        Headers {
            source_mac: Mac([0, 0x15, 0x5d, 0, 0, 1]),
            destination_mac: Mac([0, 0x15, 0x5d, 0, 0, 2]),
            vlan: None,
            source: End { address: [10, 50, 1, 5].into(), port: Some(49152) },
            destination: End { address: [10, 60, 0, 21].into(), port: Some(80) },
            what: "SYN".to_owned(),
            ttl: Some(64),
            tunnel: None,
        }
    }

    fn lines(before: &Headers, after: &Headers) -> Vec<String> {
        differences(before, after).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_is_different_is_told() {
        let old = headers();
        assert_eq!(lines(&old, &old), [""; 0]);
        let mut new = headers();
        new.destination = End { address: [10, 50, 1, 6].into(), port: Some(8080) };
        new.ttl = Some(63);
        new.vlan = Some(7);
        assert_eq!(
            lines(&old, &new),
            ["VLAN put on: 7", "destination 10.60.0.21:80 → 10.50.1.6:8080", "TTL 64 → 63"]
        );
    }

    #[test]
    fn tunnels_come_on_and_off() {
        let plain = headers();
        let outer = Outer {
            source_mac: Mac::ZERO,
            destination_mac: Mac::ZERO,
            source: [192, 0, 2, 11].into(),
            destination: [192, 0, 2, 12].into(),
            vni: 4096,
        };
        let fresh = Headers { tunnel: Some(outer), ..headers() };
        let routed = Headers {
            tunnel: Some(Outer { source_mac: Mac([2; 6]), destination_mac: Mac([4; 6]), ..outer }),
            ..headers()
        };
        assert_eq!(lines(&plain, &fresh), ["VXLAN header put on: VNI 4096, 192.0.2.11 > 192.0.2.12"]);
        assert_eq!(
            lines(&fresh, &routed),
            ["outer source MAC 02-02-02-02-02-02", "outer destination MAC 04-04-04-04-04-04"]
        );
        assert_eq!(lines(&routed, &plain), ["VXLAN header taken off: VNI 4096, 192.0.2.11 > 192.0.2.12"]);
    }
}
