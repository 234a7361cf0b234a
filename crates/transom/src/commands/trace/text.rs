//! A trace for people: hops numbered, only what changes, readable at 100 columns.

use std::fmt::Write as _;

use super::headers::Headers;
use super::report::{Hop, LayerHop, Next, Report};

/// Where lines are broken.
const WIDTH: usize = 100;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    let client = report.client.map(|client| format!(" ({client})")).unwrap_or_default();
    let target = report.target.to_string();
    let to = if report.to == target { target } else { format!("{} ({target})", report.to) };
    line(&mut out, 0, &format!("{} from {}{client} to {to}", report.protocol, report.from));
    let dsr = if report.dsr { "with" } else { "without" };
    line(&mut out, 0, &format!("Network {}, load balancers {dsr} direct server return", report.network));
    for (title, list) in
        [("Request", &report.request), ("Reply", &report.reply), ("Refusal", &report.refusal)]
    {
        hops(&mut out, title, list);
    }
    out.push('\n');
    if let Some(backend) = &report.backend {
        let mut sees =
            format!("Backend {} at {} sees the client as {}", backend.name, backend.address, backend.sees);
        match report.client {
            Some(client) if !backend.sees_client => {
                let _ = write!(sees, ", not as {client}.");
            }
            _ => sees.push_str(", its own end."),
        }
        line(&mut out, 0, &sees);
    }
    verdict(&mut out, report);
    out
}

fn verdict(out: &mut String, report: &Report) {
    let verdict = &report.verdict;
    let outcome = verdict.outcome.replace('-', " ");
    let took = format!("{}.{:03} ms", verdict.microseconds / 1000, verdict.microseconds % 1000);
    let text = match &verdict.reason {
        None => format!("Verdict: {outcome} after {took}."),
        Some(reason) => format!("Verdict: {outcome} after {took}: {}.", reason.text),
    };
    line(out, 0, &text);
}

fn hops(out: &mut String, title: &str, hops: &[Hop]) {
    if hops.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    let mut before: Option<&Headers> = None;
    let mut number = 0;
    let mut rest = hops;
    while let Some(hop) = rest.first() {
        number += 1;
        let together = if hop.kind == "wire" { wires(rest) } else { 1 };
        let (now, later) = rest.split_at(together);
        if hop.kind == "wire" {
            let names: Vec<&str> = now.iter().map(|hop| hop.node.as_str()).collect();
            let _ = writeln!(out, "{number:3}  wire behind {}", names.join(", "));
            if hop.packet.as_ref() != before {
                packet(out, hop, before);
            }
            if let Some(Hop { next: Next::Lost { reason }, .. }) = now.last() {
                line(out, 5, &format!("✗ lost: {reason}"));
            }
        } else if hop.kind == "kernel" {
            let _ = writeln!(out, "{number:3}  {} (kernel): its steps are not seen", hop.node);
            if hop.packet.as_ref() != before {
                packet(out, hop, before);
            }
        } else {
            port(out, number, hop, before);
        }
        before = now.last().and_then(|hop| hop.after.as_ref());
        rest = later;
    }
}

/// How many crossings at the head carry the same packet: a wire with switches in it.
fn wires(hops: &[Hop]) -> usize {
    let first = hops.first().and_then(|hop| hop.packet.as_ref());
    let mut count = 0;
    for hop in hops {
        if hop.kind != "wire" || hop.packet.as_ref() != first {
            break;
        }
        count += 1;
        if matches!(hop.next, Next::Lost { .. }) {
            break;
        }
    }
    count.max(1)
}

fn port(out: &mut String, number: usize, hop: &Hop, before: Option<&Headers>) {
    let port = hop.port.as_deref().unwrap_or_default();
    let direction = hop.direction.as_deref().unwrap_or_default();
    let _ = writeln!(out, "{number:3}  {} {port} {direction}", hop.node);
    packet(out, hop, before);
    let (idle, acting): (Vec<&LayerHop>, Vec<&LayerHop>) = hop
        .layers
        .iter()
        .partition(|layer| layer.rule.is_none() && layer.rewrites.is_empty() && layer.dropped.is_none());
    for layer in acting {
        let kept = if layer.kept { " (kept)" } else { "" };
        match &layer.rule {
            Some(rule) => line(out, 5, &format!("{}: {} {}{kept}", layer.layer, rule.action, rule.rule)),
            None => line(out, 5, &format!("{}: no rule{kept}", layer.layer)),
        }
        for rewrite in &layer.rewrites {
            line(out, 7, &rewrite.to_string());
        }
    }
    if !idle.is_empty() {
        let names: Vec<&str> = idle.iter().map(|layer| layer.layer.as_str()).collect();
        line(out, 5, &format!("no rule matches in {}", names.join(", ")));
    }
    match &hop.next {
        Next::Port { port, why } => line(out, 5, &format!("→ {port}: {why}")),
        Next::Several => line(out, 5, "→ several ports"),
        Next::Delivered => line(out, 5, &format!("→ {}", attached(port))),
        Next::Back => line(out, 5, "→ back out of the same port, by a rule"),
        Next::Dropped { reason, explanation, rule } => {
            let by = rule.as_ref().map(|rule| format!(", by {}/{}/{}", rule.layer, rule.group, rule.rule));
            line(out, 5, &format!("✗ dropped: {reason}: {explanation}{}", by.unwrap_or_default()));
        }
        Next::Sent | Next::Unseen | Next::Lost { .. } => {}
    }
}

/// What is attached to a port.
fn attached(port: &str) -> &'static str {
    match port {
        "external" => "the wire",
        pod if pod.starts_with("pod/") => "the pod",
        _ => "the host's stack",
    }
}

/// A packet's line, and one of its MACs where they are not those that the last hop left.
fn packet(out: &mut String, hop: &Hop, before: Option<&Headers>) {
    let Some(headers) = &hop.packet else { return };
    let inner = format!("{} > {}, {}", headers.source, headers.destination, headers.what);
    match &headers.tunnel {
        Some(outer) => line(out, 7, &format!("{inner}, in {outer}")),
        None => line(out, 7, &inner),
    }
    let same = |own: fn(&Headers) -> (wire::Mac, wire::Mac)| {
        before.is_some_and(|before| own(before) == own(headers))
    };
    let inner = |headers: &Headers| (headers.source_mac, headers.destination_mac);
    if !same(inner) {
        line(out, 7, &format!("{} > {}", headers.source_mac, headers.destination_mac));
    }
    if let Some(outer) = &headers.tunnel {
        let known = before.and_then(|before| before.tunnel).is_some_and(|before| {
            (before.source_mac, before.destination_mac) == (outer.source_mac, outer.destination_mac)
        });
        if !known {
            line(out, 7, &format!("outer {} > {}", outer.source_mac, outer.destination_mac));
        }
    }
}

/// A line, broken at blanks where it is too long; what follows stands two further in.
fn line(out: &mut String, indent: usize, text: &str) {
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column == 0 {
            let _ = write!(out, "{:indent$}{word}", "");
            column = indent + length;
        } else if column + 1 + length > WIDTH {
            let indent = indent + 2;
            let _ = write!(out, "\n{:indent$}{word}", "");
            column = indent + length;
        } else {
            let _ = write!(out, " {word}");
            column += 1 + length;
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks() {
        let mut out = String::new();
        let words = vec!["12345678"; 20].join(" ");
        line(&mut out, 5, &words);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{out}");
        assert!(lines[0].starts_with("     1") && lines[1].starts_with("       1"));
        let mut out = String::new();
        line(&mut out, 5, &"x".repeat(150));
        assert_eq!(out.lines().count(), 1, "a word that does not fit stays whole");
    }
}
