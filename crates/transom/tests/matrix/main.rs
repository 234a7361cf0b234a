//! Both recorded clusters: every Service from every kind of client by every way in, as a whole TCP or UDP exchange.
//! What must work does, by a backend that may serve it and that sees whom it must; what must not is not answered, and
//! ends as the deciding node would end it. `MATRIX=1` prints the matrix, `UPDATE_MATRIX=1` writes
//! docs/matrix.md and the README's summary.

#![expect(clippy::print_stdout, reason = "MATRIX=1 prints the matrix")]

mod ask;
mod check;
mod document;
mod expect;
mod explain;
mod memory;
mod setting;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use transom::world::record::Recorder;

use memory::Case;
use setting::{SETTINGS, Setting};
use table::Table;

/// A setting's chapter of docs/matrix.md and its row of the README.
type Shown = (String, Vec<String>);

fn main() {
    let arguments = Arguments::from_args();
    let printed = std::env::var_os("MATRIX").is_some();
    let updated = std::env::var_os("UPDATE_MATRIX").is_some();
    let sections: Arc<Mutex<BTreeMap<String, Shown>>> = Arc::default();
    let document = std::fs::read_to_string(document::matrix()).unwrap_or_default();
    let readme = std::fs::read_to_string(document::readme()).unwrap_or_default();
    let trials = SETTINGS
        .into_iter()
        .map(|setting| {
            let (sections, document, readme) = (Arc::clone(&sections), document.clone(), readme.clone());
            Trial::test(setting.name().replace(' ', "-"), move || {
                let (table, wrong) = run(setting);
                let section = table.section(&setting.name());
                if printed {
                    println!("{section}");
                }
                let summary = table.summary(&setting.name());
                let shown =
                    document.contains(&section) && document::has(&readme, &setting.name(), 0, &summary);
                let stale = !updated && !shown;
                let mut sections = sections.lock().unwrap_or_else(PoisonError::into_inner);
                sections.insert(setting.name(), (section, summary));
                if !wrong.is_empty() {
                    let count = wrong.len();
                    let shown: Vec<String> = wrong.into_iter().take(60).collect();
                    return Err(Failed::from(format!(
                        "{count} of the exchanges ended wrongly:\n{}",
                        shown.join("\n")
                    )));
                }
                if stale {
                    return Err(Failed::from(format!(
                        "docs/matrix.md or README.md does not show {:?} as it is now; run with UPDATE_MATRIX=1",
                        setting.name()
                    )));
                }
                Ok(())
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let sections = sections.lock().unwrap_or_else(PoisonError::into_inner);
    if updated && sections.len() == SETTINGS.len() {
        let ordered: Vec<_> = SETTINGS.iter().filter_map(|setting| sections.get(&setting.name())).collect();
        table::write(&ordered.iter().map(|(section, _)| &**section).collect::<Vec<_>>());
        let mut text = std::fs::read_to_string(document::readme()).expect("the README can be read");
        for (_, summary) in ordered {
            if let Some(name) = summary.first() {
                text = document::put(&text, name, 0, summary);
            }
        }
        std::fs::write(document::readme(), text).expect("the README can be written");
    }
    conclusion.exit();
}

/// Runs every exchange of a setting; returns what is printed and what was wrong.
fn run(setting: Setting) -> (Table, Vec<String>) {
    let mut world = setting.world();
    let mut wrong = Vec::new();
    let mut table = Table::default();
    let recorder = Recorder::default();
    recorder.attach(&mut world.simulation);
    memory::each(&mut world, |world, case| {
        recorder.clear();
        let seen = memory::exchange(world, &case);
        let Case { client, ask, expected, .. } = &case;
        let problem = check::problem(ask, expected, &seen).or_else(|| {
            let journey = recorder.journey(&world.simulation);
            explain::problem(world, client, ask, expected, &seen, &journey)
        });
        memory::settle(world, &seen);
        table.add(world, ask, client, expected, &seen.outcome, problem.is_none());
        wrong.extend(problem.map(|problem| format!("{case}: {problem}")));
    });
    (table, wrong)
}
