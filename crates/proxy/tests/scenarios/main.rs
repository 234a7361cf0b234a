//! Runs the scenarios of `testdata/scenarios/*.yaml`: each row is a test of its own name. The form is described in
//! docs/scenarios.md; a row can be added without Rust.

#[path = "../world/mod.rs"]
mod world;

/// Fails a scenario with a message.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

mod counts;
mod docs;
mod expect;
mod model;
mod outside;
mod run;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/scenarios");
    // Rows of one's own are tried from another folder without touching these.
    let folder = std::env::var("TRANSOM_SCENARIOS").unwrap_or_else(|_| own.to_owned());
    let mut trials = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    let mut rows = std::collections::BTreeSet::new();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{folder}: {error}"))
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} holds no scenarios");
    for file in files {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let text = std::fs::read_to_string(&file).expect("a scenario file can be read");
        // The files are our own: no need to limit how often a row is built upon.
        let options = serde_saphyr::options! { budget: None };
        let scenarios: Vec<model::Scenario> = serde_saphyr::from_str_with_options(&text, options)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for scenario in scenarios {
            rows.insert(scenario.id.clone());
            for (suffix, scenario) in scenario.variants() {
                let name = format!("{stem}::{}{suffix}", scenario.id.replace(' ', "_"));
                assert!(names.insert(name.clone()), "{}: two scenarios are named {name}", file.display());
                trials.push(Trial::test(name, move || {
                    run::run(&scenario)
                        .map_err(|message| Failed::from(format!("{}: {message}", scenario.title)))
                }));
            }
        }
    }
    if folder == own {
        trials.push(Trial::test("docs", move || docs::check(&rows).map_err(Failed::from)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
