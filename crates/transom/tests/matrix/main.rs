//! Both recorded clusters: every Service from every kind of client by every way in, as a whole TCP or UDP exchange.
//! What must work does, by a backend that may serve it and that sees whom it must; what must not is not answered, and
//! ends as the deciding node would end it. `MATRIX=1` prints the matrix, `UPDATE_MATRIX=1` writes
//! docs/matrix.md and the README's summary.

#![expect(clippy::print_stdout, reason = "MATRIX=1 prints the matrix")]

mod ask;
mod check;
mod expect;
mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use node::NetworkKind;
use node::app::{Outcome, Request, Transport};
use node::sim::Client;
use services::source::manifests::{Input, Manifests, Options, Touched};
use transom::world::record::{Journey, Recorder};
use transom::world::{Plan, World};

use ask::Ask;
use table::Table;

/// One emulated cluster.
#[derive(Clone, Copy)]
struct Setting {
    file: &'static str,
    kind: NetworkKind,
    dsr: bool,
}

const SETTINGS: [Setting; 6] = [
    Setting { file: "hybrid-overlay", kind: NetworkKind::Overlay, dsr: false },
    Setting { file: "hybrid-overlay", kind: NetworkKind::Overlay, dsr: true },
    Setting { file: "hybrid-overlay", kind: NetworkKind::L2Bridge, dsr: false },
    Setting { file: "hybrid-overlay", kind: NetworkKind::L2Bridge, dsr: true },
    Setting { file: "dualstack-l2bridge", kind: NetworkKind::L2Bridge, dsr: false },
    Setting { file: "dualstack-l2bridge", kind: NetworkKind::L2Bridge, dsr: true },
];

impl Setting {
    fn name(self) -> String {
        format!("{} on {}{}", self.file, self.kind, if self.dsr { " with DSR" } else { "" })
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let printed = std::env::var_os("MATRIX").is_some();
    let updated = std::env::var_os("UPDATE_MATRIX").is_some();
    let sections: Arc<Mutex<BTreeMap<String, (String, String)>>> = Arc::default();
    let document = std::fs::read_to_string(table::document()).unwrap_or_default();
    let readme = std::fs::read_to_string(table::readme()).unwrap_or_default();
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
                let shown = document.contains(&section) && readme.contains(&summary);
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
        table::write_summaries(&ordered.iter().map(|(_, summary)| &**summary).collect::<Vec<_>>());
    }
    conclusion.exit();
}

fn manifests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/clusters").join(format!("{file}.yaml"))
}

/// Runs every exchange of a setting; returns what is printed and what was wrong.
fn run(setting: Setting) -> (Table, Vec<String>) {
    let mut source = Manifests::new(vec![Input::Path(manifests(setting.file))], Options::default());
    let changes = source.refresh(&Touched::Everything).changes;
    let mut plan = Plan::new(setting.kind, setting.dsr);
    plan.loopback = true;
    let mut world = World::build(&changes, &plan).expect("the cluster can be built");
    let mut wrong = Vec::new();
    let mut table = Table::default();
    let clients = ask::clients(&world);
    let recorder = Recorder::default();
    recorder.attach(&mut world.simulation);
    for ask in ask::asks(&world) {
        if let Some(entry) = ask.entry.as_deref().filter(|_| ask.frontend.is_led()) {
            world.lead(ask.to.ip(), Some(entry));
        }
        for client in clients.iter().filter(|client| ask.everybody || **client == Client::Outside) {
            let Some(expected) = expect::expected(&mut world, client, &ask) else { continue };
            let seen = exchange(&mut world, &recorder, client, &ask);
            let problem = check::problem(&mut world, client, &ask, &expected, &seen);
            table.add(&world, &ask, client, &expected, &seen.outcome, problem.is_none());
            wrong.extend(problem.map(|problem| format!("{client} to {ask}: {problem}")));
        }
    }
    (table, wrong)
}

/// How an exchange ended: who answered and whom it saw.
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
    /// The client's end.
    pub(crate) from: Option<SocketAddr>,
    /// What was asked.
    pub(crate) to: SocketAddr,
    /// The second answer to the same client.
    pub(crate) again: Option<Outcome>,
    /// What happened to the packets of the first exchange, if it was not answered.
    pub(crate) journey: Journey,
}

fn exchange(world: &mut World, recorder: &Recorder, client: &Client, ask: &Ask) -> Seen {
    let transport = if ask.udp { Transport::Udp } else { Transport::Tcp };
    // One who may be let in asks with the address that is.
    let own = if ask.sources.is_empty() { Vec::new() } else { expect::client_addresses(world, client) };
    let from = own.into_iter().find(|own| ask.sources.iter().any(|range| range.contains(own)));
    let mut once = || {
        let request = Request { from, ..Request::new(ask.to, transport) };
        world.simulation.exchange(client, request).expect("the client is there")
    };
    recorder.clear();
    let first = once();
    let again = (ask.affinity && first.outcome.answer().is_some()).then(|| once().outcome);
    let unanswered = first.outcome.answer().is_none();
    let journey = if unanswered { recorder.journey(&world.simulation) } else { Journey::default() };
    if unanswered {
        // Whatever still waits for a neighbour gives up, so that the next exchange begins anew.
        world.simulation.run_for(Duration::from_mins(1));
    }
    Seen { outcome: first.outcome, from: first.from, to: ask.to, again, journey }
}
