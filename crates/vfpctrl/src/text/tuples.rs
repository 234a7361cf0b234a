//! `process-tuples`: which rules the first packet of a flow would hit.
//!
//! The argument is `protocol source sport destination dport direction [flags]`, optionally followed by
//! `encap outer-source outer-destination vni`. Direction 1 is IN, 2 is OUT; flags 1: TCP SYN (assumed for TCP when
//! left out), 2: ping. Only VXLAN (4) is known as an encap.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use uuid::Uuid;
use vfp::model::Direction;
use vfp::trace::Event;
use vfp::{Env, HostRoutes, OuterView, Switch, View};
use wire::Mac;

use super::heading;
use crate::{Command, CtrlError};

const FORM: &str = "process-tuples takes \"protocol source sport destination dport direction [flags [4 \
    outer-source outer-destination vni]]\", direction 1 for IN, 2 for OUT";

/// A packet as described by words.
pub(crate) struct Tuple {
    pub(crate) view: View,
    pub(crate) direction: Direction,
}

fn usage(field: &str, word: &str) -> CtrlError {
    CtrlError::Usage(format!("{field} {word:?} is wrong; {FORM}"))
}

impl Tuple {
    pub(crate) fn parse(text: &str) -> Result<Self, CtrlError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().ok_or_else(|| CtrlError::Usage(FORM.to_owned()));
        let number = |at: usize, field| word(at)?.parse::<u32>().map_err(|_| usage(field, words[at]));
        let port = |at: usize, field| word(at)?.parse::<u16>().map_err(|_| usage(field, words[at]));
        let address = |at: usize, field| word(at)?.parse::<IpAddr>().map_err(|_| usage(field, words[at]));
        let protocol = word(0)?.parse::<u8>().map_err(|_| usage("protocol", words[0]))?;
        let (source, destination) = (address(1, "source")?, address(3, "destination")?);
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(usage("destination", words[3]));
        }
        let direction = match word(5)? {
            "1" => Direction::In,
            "2" => Direction::Out,
            other => return Err(usage("direction", other)),
        };
        let flags = if words.len() > 6 { number(6, "flags")? } else { u32::from(protocol == 6) };
        let outer = match words.get(7) {
            None => None,
            Some(&"4") => Some(OuterView {
                source_mac: Mac::ZERO,
                destination_mac: Mac::ZERO,
                vlan: 0,
                source: address(8, "outer source")?,
                destination: address(9, "outer destination")?,
                vni: number(10, "vni")?,
            }),
            Some(other) => return Err(usage("encap", other)),
        };
        let (source_port, destination_port) = (port(2, "source port")?, port(4, "destination port")?);
        let icmp = match (protocol, flags & 2) {
            (1, _) => Some((8, 0)),
            (58, _) => Some((128, 0)),
            (_, 0) => None,
            (other, _) => return Err(usage("flags", &format!("2 with protocol {other}"))),
        };
        let view = View {
            outer,
            source_mac: Mac::ZERO,
            destination_mac: Mac::ZERO,
            vlan: 0,
            source,
            destination,
            protocol,
            source_port,
            destination_port,
            icmp,
            tcp_flags: if protocol == 6 && flags & 1 != 0 { 2 } else { 16 * u8::from(protocol == 6) },
            ttl_decrements: 0,
            tenant: outer.map(|outer| outer.vni),
            mark: None,
            hairpinned: false,
            later_fragment: false,
            quoted: None,
        };
        Ok(Self { view, direction })
    }
}

/// `process-tuples`.
pub(crate) fn process(
    switch: &mut Switch,
    port: Uuid,
    command: &Command,
    now: Duration,
    routes: &mut dyn HostRoutes,
) -> Result<String, CtrlError> {
    let text = command.argument.as_deref().ok_or_else(|| CtrlError::Usage(FORM.to_owned()))?;
    let tuple = Tuple::parse(text)?;
    let mut env = Env { now, routes, observer: None };
    let events = switch.process_tuples(port, tuple.direction, &tuple.view, &mut env).unwrap_or_default();
    let mut out = heading();
    for event in events {
        match event {
            Event::Layer(layer) => {
                let _ = writeln!(out, "LAYER : {}", layer.layer);
                match &layer.rule {
                    Some(rule) => {
                        let _ = writeln!(out, "    GROUP : {}", rule.group);
                        let _ = writeln!(out, "    RULE : {} ({})", rule.rule, rule.action);
                    }
                    None => out.push_str("    no rule matches\n"),
                }
                if layer.before != layer.after {
                    let _ = writeln!(out, "    FlowId : {}", layer.after);
                }
                out.push('\n');
            }
            Event::Drop { reason, .. } => {
                let _ = writeln!(out, "DROP : {reason} ({})\n", reason.explain());
            }
            Event::Pending { next_hop, .. } => {
                let _ = writeln!(out, "PENDING : next hop of {next_hop}\n");
            }
            _ => {}
        }
    }
    Ok(out)
}
