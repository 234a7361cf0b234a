//! The matrix in Markdown: frontends down, kinds of clients across, how many exchanges ended as they must; and what
//! must not be answered, why, and how it ends. docs/matrix.md is made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use node::app::Outcome;
use node::sim::Client;
use transom::world::World;

use crate::ask::{Ask, Frontend};
use crate::document;
use crate::expect::{Decider, Expected, Why};

/// The columns.
const KINDS: [&str; 5] = ["Windows pod", "Linux pod", "Windows node", "Linux node", "outside"];

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    answered: u32,
    silent: u32,
    wrong: u32,
}

/// A row's name, in the order of rows.
type Row = (Frontend, String);

/// What must not be answered: why, who decides, what is asked, by whom, how it ends.
type Silence = (Why, &'static str, Row, &'static str, &'static str);

/// Counts by row and column.
#[derive(Debug, Default)]
pub(crate) struct Table {
    cells: BTreeMap<(Row, &'static str), Cell>,
    silences: BTreeMap<Silence, (u32, BTreeSet<String>)>,
}

fn column(world: &World, client: &Client) -> &'static str {
    let windows = |node: &str| world.simulation.windows(node).is_some();
    match client {
        Client::Outside => "outside",
        Client::Node(name) if windows(name) => "Windows node",
        Client::Node(_) => "Linux node",
        Client::Pod(pod) => {
            let on = world.simulation.pods().find(|(name, _)| name == pod).map(|(_, node)| node);
            if on.is_some_and(windows) { "Windows pod" } else { "Linux pod" }
        }
    }
}

fn row(world: &World, ask: &Ask) -> Row {
    let windows = |node: &String| world.simulation.windows(node).is_some();
    let entry = match (&ask.entry, ask.frontend) {
        (None, _) => "",
        (Some(node), Frontend::NodePort) if windows(node) => " of a Windows node",
        (Some(_), Frontend::NodePort) => " of a Linux node",
        (Some(node), _) if windows(node) => " led to a Windows node",
        (Some(_), _) => " led to a Linux node",
    };
    let mut text = format!("{}{entry}", ask.frontend);
    for (is, what) in [
        (ask.local, ", Local"),
        (ask.affinity, ", affinity"),
        (ask.preserve, ", destination preserved"),
        (!ask.udp, ", TCP"),
        (ask.udp, ", UDP"),
        (ask.to.is_ipv6(), ", IPv6"),
    ] {
        if is {
            text.push_str(what);
        }
    }
    (ask.frontend, text)
}

fn ended(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Refused => "refused",
        Outcome::Reset => "reset",
        Outcome::Garbled(_) => "garbled",
        Outcome::Unreachable(_) => "unreachable",
        Outcome::TimedOut => "no answer",
    }
}

impl Table {
    pub(crate) fn add(
        &mut self,
        world: &World,
        ask: &Ask,
        client: &Client,
        expected: &Expected,
        outcome: &Outcome,
        right: bool,
    ) {
        let (row, column) = (row(world, ask), column(world, client));
        let cell = self.cells.entry((row.clone(), column)).or_default();
        match (right, expected) {
            (false, _) => cell.wrong += 1,
            (true, Expected::Answer(_)) => cell.answered += 1,
            (true, Expected::Nothing(why, decider)) => {
                cell.silent += 1;
                let decider = match decider {
                    Decider::Nobody => "nobody",
                    Decider::Windows(_) => "a Windows node",
                    Decider::Linux(_) => "a Linux node",
                };
                let key = (*why, decider, row, column, ended(outcome));
                let (count, services) = self.silences.entry(key).or_default();
                *count += 1;
                services.insert(ask.service.clone());
            }
        }
    }

    /// The row of the README: all of a kind of client together.
    pub(crate) fn summary(&self, name: &str) -> Vec<String> {
        let mut out = vec![name.to_owned()];
        for kind in KINDS {
            let cells = self.cells.iter().filter(|((_, column), _)| *column == kind);
            let (mut answered, mut silent) = (0, 0);
            for (_, cell) in cells {
                answered += cell.answered;
                silent += cell.silent;
            }
            out.push(format!("{answered} ({silent})"));
        }
        out
    }

    /// A chapter of the document.
    pub(crate) fn section(&self, name: &str) -> String {
        let mut out = format!("## {name}\n\n| frontend |");
        for kind in KINDS {
            let _ = write!(out, " {kind} |");
        }
        let _ = writeln!(out, "\n|---|{}", "---:|".repeat(KINDS.len()));
        let rows: BTreeSet<&Row> = self.cells.keys().map(|(row, _)| row).collect();
        for row in rows {
            let _ = write!(out, "| {} |", row.1);
            for kind in KINDS {
                let cell = self.cells.get(&(row.clone(), kind)).copied().unwrap_or_default();
                let parts = [
                    (cell.answered, format!("{}", cell.answered)),
                    (cell.silent, format!("({})", cell.silent)),
                    (cell.wrong, format!("**{} wrong**", cell.wrong)),
                ];
                let shown: Vec<String> =
                    parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
                let _ = write!(out, " {} |", shown.join(" "));
            }
            out.push('\n');
        }
        out.push_str("\nWhat must not be answered:\n\n");
        out.push_str("| why | decided by | frontend | asked by | ends | exchanges | Services |\n");
        out.push_str("|---|---|---|---|---|---:|---|\n");
        for ((why, decider, (_, frontend), kind, ends), (count, services)) in &self.silences {
            let shown: Vec<&str> = services.iter().take(3).map(|service| &**service).collect();
            let more = match services.len().saturating_sub(shown.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let _ = writeln!(
                out,
                "| {} | {decider} | {frontend} | {kind} | {ends} | {count} | {}{more} |",
                why.text(),
                shown.join(", ")
            );
        }
        out
    }
}

const INTRODUCTION: &str = "\
# The matrix

Every Service of the two recorded clusters in `testdata/clusters`, from every kind of client, by every way in, each as a
whole TCP or UDP exchange in memory. Generated: `UPDATE_MATRIX=1 cargo test -p transom --test matrix` writes this file,
and the test fails when it is out of date. The last chapter is that of the same exchanges on real packets.

- **Clients**: one pod on each node that has any, the host of every node, and a client outside of the cluster.
- **Ways in**: a cluster IP from anywhere; the node port of every node, Windows and Linux; each external and ingress
  address led to every node in turn. Clients in the cluster do not depend on where an address is led to, because their
  own node translates it, so that they ask once.
- `12` exchanges ended with the whole answer, from a backend that the deciding node may choose and that saw the client
  or a node's address as it must; `(3)` were rightly not answered, and ended as the second table says.
- With affinity each client asks twice, and the same backend answers.
- Windows nodes run `transom proxy` over the emulated HNS and VFP; Linux nodes serve Services as kube-proxy's iptables
  mode does, with pods detected by their node's range.

Linux and Windows nodes differ where their datapaths do: a Windows node has no load balancer for a frontend without a
usable backend, so that the packet leaves as it came and nobody answers or somebody says that there is no route; a Linux
node refuses it (ICMP port unreachable), and drops what a policy or `loadBalancerSourceRanges` forbids. With
`externalTrafficPolicy: Local`, pods of a Linux node and the node itself still get any backend; on a Windows node they get
those of the node only.
";

/// Writes the document. What others keep in it stays.
pub(crate) fn write(sections: &[&str]) {
    let old = std::fs::read_to_string(document::matrix()).unwrap_or_default();
    let kept = document::real_packets(&old).map(|kept| format!("\n{kept}")).unwrap_or_default();
    let text = format!("{INTRODUCTION}\n{}{kept}", sections.join("\n"));
    std::fs::write(document::matrix(), text).expect("docs/matrix.md can be written");
}
