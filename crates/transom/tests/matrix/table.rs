//! The matrix as a table: frontends down, clients across, how many exchanges ended as they must.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use node::sim::Client;

use crate::expect::{Ask, Expected};

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    answered: u32,
    refused: u32,
    wrong: u32,
}

/// Counts by row and column.
#[derive(Debug, Default)]
pub(crate) struct Table {
    cells: BTreeMap<(String, String), Cell>,
}

/// A column's name.
fn column(client: &Client, node: &str) -> String {
    match client {
        Client::Outside => "outside".to_owned(),
        Client::Node(name) if name == node => "the node".to_owned(),
        Client::Node(_) => "another Windows node".to_owned(),
        Client::Pod(_) => "pod".to_owned(),
    }
}

impl Table {
    pub(crate) fn add(&mut self, ask: &Ask, client: &Client, node: &str, expected: &Expected, right: bool) {
        let policy = if ask.local { ", Local" } else { "" };
        let preserve = if ask.preserve { ", destination preserved" } else { "" };
        let protocol = if ask.udp { "UDP" } else { "TCP" };
        let family = if ask.to.is_ipv4() { "IPv4" } else { "IPv6" };
        let row = format!("{}{policy}{preserve}, {protocol}, {family}", ask.frontend);
        let cell = self.cells.entry((row, column(client, node))).or_default();
        match (right, expected) {
            (false, _) => cell.wrong += 1,
            (true, Expected::Answer { .. }) => cell.answered += 1,
            (true, Expected::Nothing(_)) => cell.refused += 1,
        }
    }

    /// A Markdown table; `n` answered, `(n)` rightly not answered, `n!` wrong.
    pub(crate) fn text(&self) -> String {
        let mut columns: Vec<&String> = self.cells.keys().map(|(_, column)| column).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut rows: Vec<&String> = self.cells.keys().map(|(row, _)| row).collect();
        rows.dedup();
        let mut out = String::from("| frontend |");
        for column in &columns {
            let _ = write!(out, " {column} |");
        }
        out.push_str("\n|---|");
        out.push_str(&"---|".repeat(columns.len()));
        out.push('\n');
        for row in rows {
            let _ = write!(out, "| {row} |");
            for column in &columns {
                let cell = self.cells.get(&(row.clone(), (*column).clone())).copied().unwrap_or_default();
                let mut parts = Vec::new();
                if cell.answered > 0 {
                    parts.push(cell.answered.to_string());
                }
                if cell.refused > 0 {
                    parts.push(format!("({})", cell.refused));
                }
                if cell.wrong > 0 {
                    parts.push(format!("{}!", cell.wrong));
                }
                let _ = write!(out, " {} |", parts.join(" "));
            }
            out.push('\n');
        }
        out
    }
}
