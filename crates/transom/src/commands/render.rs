//! How results look: tables and lines for people, one document for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use comfy_table::{ContentArrangement, Table, presets};
use proxy::dry_run::CHOSEN_BY_HNS;
use proxy::status::{Action, Change, Report};
use serde::Serialize;

use crate::cli::Output;

/// A table without lines, its columns as wide as they must be.
pub(super) fn table(heading: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.to_vec());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// A table's text without the blanks at line ends.
pub(super) fn text(table: &Table) -> String {
    let mut out = String::new();
    for line in table.to_string().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A value as one document.
pub(super) fn document<T: Serialize>(value: &T, form: Output) -> anyhow::Result<String> {
    match form {
        Output::Json | Output::Text => {
            let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
            text.push('\n');
            Ok(text)
        }
        Output::Yaml => {
            let mut text = serde_saphyr::to_string(value).context("cannot write YAML")?;
            if !text.ends_with('\n') {
                text.push('\n');
            }
            Ok(text)
        }
    }
}

/// Writes to standard output; a reader that has gone away is no failure.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Changes as a readable difference: `+` create, `~` modify, `±` replace, `-` delete.
pub(super) fn difference(changes: &[Change]) -> String {
    let mut out = String::new();
    for change in changes {
        let sign = match change.action {
            Action::Create => '+',
            Action::Modify => '~',
            Action::Replace => '±',
            Action::Delete => '-',
        };
        let _ = write!(out, "{sign} {} {} {}", change.action, change.kind, subject(change));
        if let (Some(service), Some(role)) = (&change.service, change.role) {
            let _ = write!(out, "  ({role} of {service})");
        }
        let _ = writeln!(out, "\n    because {}", change.why);
        for field in &change.fields {
            if field.from.is_empty() {
                let _ = writeln!(out, "    {}: {}", field.field, readable(&field.to));
            } else {
                let _ =
                    writeln!(out, "    {}: {} → {}", field.field, readable(&field.from), readable(&field.to));
            }
        }
    }
    out
}

fn subject(change: &Change) -> String {
    readable(&change.subject)
}

fn readable(value: &str) -> String {
    if value == CHOSEN_BY_HNS.to_string() {
        "(an address that HNS chooses)".to_owned()
    } else if value.is_empty() {
        "(none)".to_owned()
    } else {
        value.to_owned()
    }
}

/// "Created 3 load balancers and 2 endpoints; deleted 1 load balancer."
pub(super) fn summary(report: &Report) -> String {
    let mut counts: BTreeMap<(u8, &str), BTreeMap<String, usize>> = BTreeMap::new();
    for change in &report.changes {
        let verb = match change.action {
            Action::Create => (0, "created"),
            Action::Modify => (1, "modified"),
            Action::Replace => (2, "replaced"),
            Action::Delete => (3, "deleted"),
        };
        *counts.entry(verb).or_default().entry(change.kind.to_string()).or_default() += 1;
    }
    if counts.is_empty() {
        return "HNS holds what is wanted; nothing was written.".to_owned();
    }
    let parts: Vec<String> = counts
        .into_iter()
        .map(|((_, verb), kinds)| {
            let kinds: Vec<String> = kinds
                .into_iter()
                .map(|(kind, count)| format!("{count} {kind}{}", if count == 1 { "" } else { "s" }))
                .collect();
            format!("{verb} {}", kinds.join(" and "))
        })
        .collect();
    let mut text = parts.join("; ");
    text.push('.');
    text[..1].make_ascii_uppercase();
    text
}
