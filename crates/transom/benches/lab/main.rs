//! What the packets of real programs cost in a lab with Windows nodes, beside the kernel alone and Open vSwitch's
//! userspace datapath, in one run on one machine: bulk TCP, small UDP packets, connects; to a pod of the same node, and to
//! a Service whose pod is on another node, through VXLAN.
//!
//! The same threads send and receive for all three systems, which differ in what is between the pods' devices only.
//! They take turns, so that a machine that is busy with something else is so for all of them. Nothing here fails because
//! something was slow. A word on the command line selects the rows whose names contain it.
//!
//! Prints one line per row, `bench-row|work|budget|measured|detail`, which `cargo xtask bench` puts into a table.

mod bulk;
mod connects;
mod labs;
mod packets;
mod peer;
mod programs;
mod system;
mod table;
mod window;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hcn::time::SystemClock;
use lab::needs;

use labs::Nodes;
use system::{Path, System};
use table::{Role, Work};
use window::{Sample, Window};

/// How often everything is measured.
const RUNS: usize = 3;
const PATHS: [&str; 2] = ["same node", "Service on another node"];

/// Prints for people who watch.
#[expect(clippy::print_stdout, reason = "a bench prints what it measures")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

fn row(row: &str) {
    say(&format!("bench-row|{row}"));
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` and nextest start benches to list tests; there are none here.
    if arguments.iter().any(|argument| argument == "--list" || argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let cells: Vec<Cell> = Cell::all().filter(|cell| cell.name().contains(&filter)).collect();
    if cells.is_empty() {
        return ExitCode::SUCCESS;
    }
    if let Err(missing) = needs::check(needs::Uses { windows: true, vxlan: true, nft: true }) {
        // Other benches go on.
        say(&missing.to_string());
        row(&format!("packets in a lab|–|not measured|{}", missing.to_string().replace('\n', " ")));
        return ExitCode::SUCCESS;
    }
    match measure(cells) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("packets in a lab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// One kind of work on one path.
#[derive(Clone, Copy)]
struct Cell {
    work: Work,
    path: &'static str,
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        Work::ALL.into_iter().flat_map(|work| PATHS.into_iter().map(move |path| Self { work, path }))
    }

    fn name(self) -> String {
        format!("{}, {}", self.work.name(), self.path)
    }

    fn way(self, system: &System) -> &Path {
        if self.path == PATHS[0] { &system.near } else { &system.far }
    }

    fn measure(self, system: &System, window: &Window) -> Result<Sample> {
        let way = self.way(system);
        match self.work {
            Work::Bulk => bulk::measure(way, window),
            Work::Packets => packets::measure(way, window),
            Work::Connects => connects::measure(way, window),
        }
        .with_context(|| format!("{}: {}", self.name(), system.name))
    }
}

fn measure(cells: Vec<Cell>) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    // What was made is taken away before the program ends.
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("catching interruptions")?;
    let clock = Arc::new(SystemClock::default());
    let window = Window {
        clock: Arc::<SystemClock>::clone(&clock),
        interrupted,
        warm_up: Duration::from_secs(1),
        length: Duration::from_secs(5),
    };
    let before = window::load()?;
    let mut systems = vec![(Role::Limit, labs::up(Nodes::Linux)?)];
    let missing = peer::missing();
    if missing.is_empty() {
        systems.push((Role::Peer, peer::up()?));
    } else {
        say(&format!("Open vSwitch is left out: {} is missing", missing.join(", ")));
        row(&format!("Open vSwitch|the peer|not measured|missing: {}", missing.join(", ")));
    }
    systems.push((Role::Subject, labs::up(Nodes::Windows)?));
    for cell in &cells {
        for (_, system) in &systems {
            cell.way(system).wait(&*clock).with_context(|| system.name.clone())?;
        }
    }

    let result = |(role, system): &(Role, System)| table::Result {
        name: system.name.clone(),
        role: *role,
        samples: Vec::new(),
    };
    let mut results: Vec<(Cell, Vec<table::Result>)> =
        cells.into_iter().map(|cell| (cell, systems.iter().map(result).collect())).collect();
    for run in 1..=RUNS {
        for (cell, results) in &mut results {
            for ((_, system), result) in systems.iter().zip(results) {
                let sample = cell.measure(system, &window)?;
                say(&format!(
                    "run {run} of {RUNS}: {}: {}: {}, load {}",
                    cell.name(),
                    system.name,
                    cell.work.rate(sample.rate),
                    window::load()?
                ));
                result.samples.push(sample);
            }
        }
    }
    for (cell, results) in &results {
        for line in table::rows(cell.work, cell.path, results) {
            row(&line);
        }
    }
    let processors = std::thread::available_parallelism().context("how many processors there are")?;
    row(&format!(
        "the machine's load average||{before} before, {} after|{processors} processors",
        window::load()?
    ));
    Ok(())
}
