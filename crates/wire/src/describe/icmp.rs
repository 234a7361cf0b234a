//! What an ICMP message says.

use std::fmt;

use super::Protocol;
use crate::bytes;
use crate::frame::{Ip, L4, proto};
use crate::nd::{self, Message};

pub(super) fn write(f: &mut fmt::Formatter<'_>, frame: &[u8], ip: &Ip) -> fmt::Result {
    let message = frame.get(ip.l4_offset()..ip.end()).unwrap_or_default();
    match ip.l4 {
        L4::Icmp { kind, code, id } => {
            f.write_str("ICMP ")?;
            v4(f, kind, code, id, message)?;
        }
        L4::Icmp6 { kind, code, id } => {
            f.write_str("ICMP6, ")?;
            match nd::read(frame, ip) {
                Some(found) => neighbor(f, &found)?,
                None => v6(f, kind, code, id, message)?,
            }
        }
        _ => {}
    }
    write!(f, ", length {}", message.len())
}

fn v4(f: &mut fmt::Formatter<'_>, kind: u8, code: u8, id: u16, message: &[u8]) -> fmt::Result {
    let sequence = bytes::get_u16(message, 6).unwrap_or_default();
    let about = Original(message.get(8..).unwrap_or_default());
    match (kind, code) {
        (8, _) => write!(f, "echo request, id {id}, seq {sequence}"),
        (0, _) => write!(f, "echo reply, id {id}, seq {sequence}"),
        (3, 0) => write!(f, "net unreachable ({about})"),
        (3, 1) => write!(f, "host unreachable ({about})"),
        (3, 2) => write!(f, "protocol unreachable ({about})"),
        (3, 3) => write!(f, "port unreachable ({about})"),
        (3, 4) => write!(f, "unreachable - need to frag (mtu {sequence}) ({about})"),
        (3, 9 | 10 | 13) => write!(f, "host unreachable - admin prohibited filter ({about})"),
        (3, _) => write!(f, "unreachable #{code} ({about})"),
        (5, _) => write!(f, "redirect ({about})"),
        (11, 0) => write!(f, "time exceeded in-transit ({about})"),
        (11, _) => write!(f, "ip reassembly time exceeded ({about})"),
        (12, _) => write!(f, "parameter problem ({about})"),
        _ => write!(f, "type-#{kind} code-#{code}"),
    }
}

fn v6(f: &mut fmt::Formatter<'_>, kind: u8, code: u8, id: u16, message: &[u8]) -> fmt::Result {
    let sequence = bytes::get_u16(message, 6).unwrap_or_default();
    let about = Original(message.get(8..).unwrap_or_default());
    match (kind, code) {
        (128, _) => write!(f, "echo request, id {id}, seq {sequence}"),
        (129, _) => write!(f, "echo reply, id {id}, seq {sequence}"),
        (1, 0) => write!(f, "destination unreachable, no route ({about})"),
        (1, 1) => write!(f, "destination unreachable, administratively prohibited ({about})"),
        (1, 3) => write!(f, "destination unreachable, unreachable address ({about})"),
        (1, 4) => write!(f, "destination unreachable, unreachable port ({about})"),
        (1, _) => write!(f, "destination unreachable, code {code} ({about})"),
        (2, _) => {
            write!(f, "packet too big, mtu {} ({about})", bytes::get_u32(message, 4).unwrap_or_default())
        }
        (3, 0) => write!(f, "time exceeded in-transit ({about})"),
        (3, _) => write!(f, "time exceeded, reassembly ({about})"),
        (4, _) => write!(f, "parameter problem ({about})"),
        (133, _) => f.write_str("router solicitation"),
        (134, _) => f.write_str("router advertisement"),
        (135, _) => f.write_str("neighbor solicitation [invalid]"),
        (136, _) => f.write_str("neighbor advertisement [invalid]"),
        (143, _) => f.write_str("multicast listener report v2"),
        _ => write!(f, "type-#{kind} code-#{code}"),
    }
}

fn neighbor(f: &mut fmt::Formatter<'_>, message: &Message) -> fmt::Result {
    match message {
        Message::Solicitation { target, .. } => write!(f, "neighbor solicitation, who has {target}"),
        Message::Advertisement { target, mac, router, solicited, overrides } => {
            write!(f, "neighbor advertisement, tgt is {target}")?;
            if let Some(mac) = mac {
                write!(f, ", at {mac}")?;
            }
            let flags = [(*router, " router"), (*solicited, " solicited"), (*overrides, " override")];
            if flags.iter().any(|(set, _)| *set) {
                f.write_str(", flags")?;
            }
            flags.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| f.write_str(name))
        }
    }
}

/// The packet that an error is about: its beginning, which no length field has to agree with.
struct Original<'a>(&'a [u8]);

impl fmt::Display for Original<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::quoted::read(self.0) {
            Some(quoted) => {
                let name = Protocol(quoted.proto);
                match quoted.ports.filter(|_| matches!(quoted.proto, proto::TCP | proto::UDP | proto::SCTP)) {
                    Some((sport, dport)) => {
                        write!(f, "{name} {}.{sport} > {}.{dport}", quoted.src, quoted.dst)
                    }
                    None => write!(f, "{name} {} > {}", quoted.src, quoted.dst),
                }
            }
            None => f.write_str("about an unreadable packet"),
        }
    }
}
