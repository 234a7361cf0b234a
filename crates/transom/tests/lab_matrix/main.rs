//! The matrix on real packets: each setting is brought up as a lab, every exchange that the matrix in memory has is
//! made with real sockets, and must end as the expectations say and as it does in memory. Needs what `transom lab` needs.
//!
//! `UPDATE_MATRIX=1` writes the chapter "On real packets" of docs/matrix.md and a column of the README's table.

#![expect(clippy::print_stdout, reason = "what was retried is told")]

#[path = "../matrix/ask.rs"]
mod ask;
#[path = "../matrix/check.rs"]
mod check;
#[path = "../matrix/document.rs"]
mod document;
#[path = "../matrix/expect.rs"]
mod expect;
#[path = "../lab_support/mod.rs"]
mod lab_support;
#[path = "../matrix/memory.rs"]
mod memory;
#[path = "../matrix/setting.rs"]
mod setting;

mod agree;
mod chapter;
mod real;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use libtest_mimic::{Arguments, Failed, Trial};

use chapter::Row;
use check::Seen;
use lab_support::Lab;
use memory::Case;
use real::Real;
use setting::{SETTINGS, Setting};

/// How many of a hundred exchanges may need a second attempt: a loaded machine may delay one longer than a client waits.
const FLAKY_PERCENT: usize = 1;

fn main() {
    let arguments = Arguments::from_args();
    let updated = std::env::var_os("UPDATE_MATRIX").is_some();
    let rows: Arc<Mutex<Vec<Row>>> = Arc::default();
    let trials = SETTINGS
        .into_iter()
        .map(|setting| {
            let rows = Arc::clone(&rows);
            Trial::test(setting.name().replace(' ', "-"), move || {
                let row = run(setting)?;
                if !updated {
                    row.is_shown()?;
                }
                rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
                Ok(())
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
    if updated && rows.len() == SETTINGS.len() {
        rows.sort_by_key(|row| SETTINGS.iter().position(|setting| setting.name() == row.name));
        chapter::write(&rows);
    }
    conclusion.exit();
}

/// The flags of `lab up`.
fn flags(setting: Setting) -> [String; 4] {
    let dsr = format!("--enable-dsr={}", setting.dsr);
    ["--network".to_owned(), setting.kind.to_string(), dsr, "--loopback-dsr=true".to_owned()]
}

/// Runs every exchange of a setting.
fn run(setting: Setting) -> Result<Row, Failed> {
    let manifests = std::fs::read_to_string(setting.manifests())?;
    // The lab comes up while the cluster in memory is asked.
    let (lab, cases) = thread::scope(|scope| {
        let flags = flags(setting);
        let lab = scope.spawn(move || Lab::up(&manifests, &flags.each_ref().map(String::as_str)));
        let cases = in_memory(setting);
        (lab.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), cases)
    });
    let real = real::exchanges(&lab, &cases.iter().map(|(case, _)| case).collect::<Vec<_>>());
    assert_eq!(real.len(), cases.len(), "every exchange was made");
    let told = |what: &str, is: fn(&Real) -> bool| {
        let found: Vec<&Case> =
            cases.iter().zip(&real).filter(|(_, real)| is(real)).map(|((case, _), _)| case).collect();
        for case in &found {
            println!("{}: {case}: {what}", setting.name());
        }
        found.len()
    };
    told("answered late", |real| real.slow);
    let flaky = told("answered at the second attempt", |real| real.flaky);
    let mut row = Row::new(setting.name());
    let mut wrong = Vec::new();
    for ((case, memory), real) in cases.iter().zip(&real) {
        let problem = check::problem(&case.ask, &case.expected, &real.seen)
            .or_else(|| agree::difference(memory, &real.seen));
        row.add(&real.seen.outcome);
        wrong.extend(problem.map(|problem| format!("{case}: {problem} ({:.1?})", real.took)));
    }
    if !wrong.is_empty() {
        let count = wrong.len();
        wrong.truncate(60);
        return Err(
            format!("{count} of {} exchanges ended wrongly:\n{}", cases.len(), wrong.join("\n")).into()
        );
    }
    if flaky * 100 > cases.len() * FLAKY_PERCENT {
        return Err(
            format!("{flaky} of {} exchanges were answered at the second attempt", cases.len()).into()
        );
    }
    Ok(row)
}

/// Every exchange in memory.
fn in_memory(setting: Setting) -> Vec<(Case, Seen)> {
    let mut world = setting.world();
    let mut cases = Vec::new();
    memory::each(&mut world, |world, case| {
        let seen = memory::exchange(world, &case);
        memory::settle(world, &seen);
        cases.push((case, seen));
    });
    cases
}
