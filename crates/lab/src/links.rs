//! Faults of the links of Linux nodes: nftables takes frames away at the port of the underlay that such a node is plugged
//! into, all or some. (A Windows node's daemon degrades its wire itself.) Its carrier stays, as it does when a cable is cut
//! behind the next switch: what must be noticed is noticed by the packets that do not come.
//!
//! It knows the underlay's namespace and devices; nothing of clusters.

use std::fmt::Write as _;
use std::io;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::build::feed;
use crate::netns::{Netns, NetnsError};
use crate::pump::Degraded;

/// Losses are counted in parts of this.
const PARTS: u32 = 1_000_000;

/// The smallest burst of a limited rate: a few of the largest frames that a device hands over at once.
const BURST: u64 = 256 * 1024;

/// A link that cannot be made worse, or better.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The underlay is not there.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// No device is a node's port.
    #[error("node {0} has no port in the underlay {1}; is it a node of the lab?")]
    NoPort(String, String),
    /// Something that the kernel cannot do here.
    #[error("{0}: the link of a Linux node is the kernel's, which delays no frames here; use a Windows node")]
    Delay(String),
    /// A program does not start.
    #[error("{program} does not start: {error}")]
    Program {
        /// Which.
        program: &'static str,
        /// Why.
        error: io::Error,
    },
    /// A program refuses.
    #[error("{port}: {program} refuses: {said}")]
    Refused {
        /// The device.
        port: String,
        /// Which program.
        program: &'static str,
        /// What it says.
        said: String,
    },
}

/// The link of a node: its port of the underlay.
#[derive(Debug)]
pub struct Link {
    underlay: Netns,
    node: String,
    port: String,
}

#[derive(Deserialize)]
struct Device {
    ifname: String,
    ifalias: Option<String>,
}

fn said(
    program: &'static str,
    words: &[&str],
    underlay: &Netns,
) -> Result<(bool, Vec<u8>, String), LinkError> {
    let ran = underlay.run(|| Command::new(program).args(words).output())?;
    let output = ran.map_err(|error| LinkError::Program { program, error })?;
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((output.status.success(), output.stdout, complaint))
}

fn devices(underlay: &Netns) -> Result<Vec<Device>, LinkError> {
    let (good, text, complaint) = said("ip", &["-j", "link", "show"], underlay)?;
    let refused = |said| LinkError::Refused { port: underlay.name().to_owned(), program: "ip", said };
    if !good {
        return Err(refused(complaint));
    }
    serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))
}

impl Link {
    /// The link of a Linux node.
    pub fn of(underlay: &str, node: &str) -> Result<Self, LinkError> {
        let underlay = Netns::open(underlay)?;
        let mut devices = devices(&underlay)?.into_iter();
        let port = devices.find(|device| device.ifalias.as_deref() == Some(node)).map(|device| device.ifname);
        let port = port.ok_or_else(|| LinkError::NoPort(node.to_owned(), underlay.name().to_owned()))?;
        Ok(Self { underlay, node: node.to_owned(), port })
    }

    /// The device.
    pub fn port(&self) -> &str {
        &self.port
    }

    fn table(&self) -> String {
        format!("fault-{}", self.port)
    }

    /// Makes the link what is said, in place of what it was.
    pub fn degrade(&self, degraded: &Degraded) -> Result<(), LinkError> {
        if !degraded.delay.is_zero() {
            return Err(LinkError::Delay(self.node.clone()));
        }
        let program = "nft";
        let text = script(&self.table(), &self.port, degraded);
        let fed = self.underlay.run(|| feed(Command::new(program).args(["-f", "-"]), &text))?;
        let fed = fed.map_err(|error| LinkError::Program { program, error })?;
        fed.map_err(|said| LinkError::Refused { port: self.port.clone(), program, said })
    }

    /// How the link is worse than it could be.
    pub fn degraded(&self) -> Result<Degraded, LinkError> {
        let (good, text, _) = said("nft", &["-j", "list", "table", "netdev", &self.table()], &self.underlay)?;
        // Without faults there is no table.
        let table = if good { serde_json::from_slice(&text).unwrap_or_default() } else { Value::Null };
        Ok(read(&table))
    }
}

/// What takes frames away at a device, both ways.
fn script(table: &str, port: &str, degraded: &Degraded) -> String {
    // A table that is not there cannot be deleted.
    let mut text = format!("table netdev {table} {{\n}}\ndelete table netdev {table}\n");
    if *degraded == Degraded::default() {
        return text;
    }
    let _ = writeln!(text, "table netdev {table} {{");
    // Writing to a String does not fail.
    for hook in ["ingress", "egress"] {
        let _ = writeln!(text, "chain {hook} {{\ntype filter hook {hook} device \"{port}\" priority 0");
        if degraded.cut {
            text.push_str("drop\n");
        }
        if degraded.loss > 0.0 {
            // nft takes no number that the generator never gives.
            let last = (degraded.loss * f64::from(PARTS)).round().max(1.0) - 1.0;
            let _ = writeln!(text, "numgen random mod {PARTS} <= {last} drop");
        }
        if degraded.rate > 0 {
            let burst = (degraded.rate / 10).max(BURST);
            let _ = writeln!(text, "limit rate over {} bytes/second burst {burst} bytes drop", degraded.rate);
        }
        text.push_str("}\n");
    }
    text.push_str("}\n");
    text
}

/// What a table does, as nft lists it.
fn read(table: &Value) -> Degraded {
    let mut degraded = Degraded::default();
    let items = table.get("nftables").and_then(Value::as_array).into_iter().flatten();
    for rule in items.filter_map(|item| item.pointer("/rule/expr")) {
        let of = |path: &str| rule.pointer(&format!("/0{path}"));
        degraded.cut |= of("/drop").is_some();
        if of("/match/left/numgen").is_some()
            && let Some(last) = of("/match/right").and_then(Value::as_f64)
        {
            degraded.loss = (last + 1.0) / f64::from(PARTS);
        }
        if let Some(number) = of("/limit/rate").and_then(Value::as_u64) {
            let unit = match of("/limit/rate_unit").and_then(Value::as_str) {
                Some("kbytes") => 1 << 10,
                Some("mbytes") => 1 << 20,
                _ => 1,
            };
            degraded.rate = number * unit;
        }
    }
    degraded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_link_has_no_rules() {
        let text = script("fault-n-a", "n-a", &Degraded::default());
        assert_eq!(text, "table netdev fault-n-a {\n}\ndelete table netdev fault-n-a\n");
        assert_eq!(read(&Value::Null), Degraded::default());
    }

    #[test]
    fn a_bad_link_loses_frames_both_ways() {
        let degraded = Degraded { loss: 0.25, rate: 1_000, ..Degraded::default() };
        let text = script("fault-n-a", "n-a", &degraded);
        assert_eq!(text.matches("numgen random mod 1000000 <= 249999 drop\n").count(), 2, "{text}");
        assert_eq!(text.matches("limit rate over 1000 bytes/second burst 262144 bytes drop\n").count(), 2);
        for hook in ["ingress", "egress"] {
            assert!(text.contains(&format!("type filter hook {hook} device \"n-a\" priority 0\n")), "{text}");
        }
    }

    #[test]
    fn what_nft_lists_is_read() {
        let listed = serde_json::json!({"nftables": [
            {"metainfo": {}},
            {"rule": {"expr": [
                {"match": {"op": "<=", "left": {"numgen": {"mode": "random", "mod": PARTS}}, "right": 49_999}},
                {"drop": null}
            ]}},
            {"rule": {"expr": [{"limit": {"rate": 2, "rate_unit": "mbytes", "per": "second", "inv": true}}]}},
        ]});
        assert_eq!(read(&listed), Degraded { loss: 0.05, rate: 2 << 20, ..Degraded::default() });
        let cut = serde_json::json!({"nftables": [{"rule": {"expr": [{"drop": null}]}}]});
        assert_eq!(read(&cut), Degraded { cut: true, ..Degraded::default() });
    }
}
