//! Keeps docs/scenarios.md and docs/differences.md true: what they name as a row is one, here or among those of flags and files,
//! and every number is told of.

use std::collections::BTreeSet;

use crate::run::Outcome;

/// Numbers that docs/differences.md must have a line for, and how many of each there are.
const NUMBERED: [(&str, usize); 2] = [("D", 35), ("I", 40)];
/// Numbers that must be rows or, when told in another row, stand in docs/scenarios.md.
const LISTED: [(&str, usize); 2] = [("U", 26), ("H", 12)];

/// Public reports that what HNS holds or is asked can show: each has a line in docs/differences.md.
const REPORTED: [(&str, &[u32]); 7] = [
    ("PL", &[1, 2, 6, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22]),
    ("HL", &[1, 2, 3, 4, 5, 6, 8, 10, 17, 18]),
    ("PF", &[1, 2, 3, 4]),
    ("DS", &[1, 3, 5, 8, 9]),
    ("ET", &[1, 2, 3, 4]),
    ("NP", &[3, 5, 6, 8, 11, 13]),
    ("DU", &[3, 4]),
];

/// `rows`: the ids of all rows.
pub(crate) fn check(rows: &BTreeSet<String>) -> Outcome {
    let read = |name: &str| {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    };
    let mut rows = rows.clone();
    rows.extend(configuration_rows()?);
    let differences = read("differences.md")?;
    let scenarios = read("scenarios.md")?;
    for (name, text) in [("differences.md", &differences), ("scenarios.md", &scenarios)] {
        for id in code_spans(text).filter(|span| is_id(span)) {
            let several = format!("{id}.");
            ensure!(
                rows.contains(id) || rows.iter().any(|row| row.starts_with(&several)),
                "docs/{name} names {id}, which is no row"
            );
        }
    }
    for (prefix, count) in NUMBERED {
        for number in 1..=count {
            let line = format!("| {prefix}-{number:02} |");
            ensure!(differences.contains(&line), "docs/differences.md has no line {line:?}");
        }
    }
    for (prefix, numbers) in REPORTED {
        for number in numbers {
            let line = format!("| {prefix}-{number:02} |");
            ensure!(differences.contains(&line), "docs/differences.md has no line {line:?}");
        }
    }
    for (prefix, count) in LISTED {
        for number in 1..=count {
            let id = format!("{prefix}-{number:02}");
            ensure!(rows.contains(&id), "there is no row {id}");
        }
    }
    Ok(())
}

/// Rows of the tables about flags and files, which stand in the same documents.
fn configuration_rows() -> Result<BTreeSet<String>, String> {
    let folder = format!("{}/../proxy-config/testdata", env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))? {
        let path = entry.map_err(|error| format!("{folder}: {error}"))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            found.extend(text.lines().filter_map(|line| line.strip_prefix("- id: ")).map(str::to_owned));
        }
    }
    ensure!(!found.is_empty(), "{folder} has no rows");
    Ok(found)
}

/// What stands between backquotes, line by line.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether a text has the form of a row's id: `D-04`, `PL-01.port-of-the-slice`.
fn is_id(text: &str) -> bool {
    let Some((prefix, rest)) = text.split_once('-') else { return false };
    let number = rest.split('.').next().unwrap_or_default();
    (1..=2).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_uppercase())
        && number.len() == 2
        && number.bytes().all(|byte| byte.is_ascii_digit())
}
