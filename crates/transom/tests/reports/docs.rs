//! Keeps docs/reports.md true: every report has a line, every row is named there, and what is named is a row.

use std::collections::BTreeSet;

use crate::row::Row;

/// The reports that packets show.
const REPORTS: [&str; 31] = [
    "PL-02", "PL-16", "PL-18", "PL-20", "PL-22", "HL-04", "HL-17", "HL-18", "DS-05", "DS-08", "DS-10",
    "DS-11", "DS-12", "ET-01", "ET-03", "ET-04", "NP-03", "NP-05", "NP-06", "NP-07", "NP-08", "NP-13",
    "DU-03", "CN-18", "PO-01", "PO-08", "HN-02", "HN-03", "HN-04", "DX-06", "BP-05",
];

pub(crate) fn check(rows: &[Row]) -> Result<(), String> {
    let path = format!("{}/../../docs/reports.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut named = BTreeSet::new();
    let mut told = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [report, upstream, _, held, _] = cells[..] else { continue };
        if !REPORTS.contains(&report) {
            continue;
        }
        told.insert(report);
        let here: BTreeSet<&str> = held.split('`').skip(1).step_by(2).collect();
        if here.is_empty() {
            return Err(format!("docs/reports.md: {report} names no row"));
        }
        for id in here {
            let row = rows.iter().find(|row| row.id == id);
            let row = row.ok_or_else(|| format!("docs/reports.md names {id}, which is no row"))?;
            if let Some(missing) = row.upstream.iter().find(|reference| !upstream.contains(&***reference)) {
                return Err(format!(
                    "docs/reports.md: the line of {report} does not name {missing}, of row {id}"
                ));
            }
            named.insert(id);
        }
    }
    if let Some(missing) = REPORTS.iter().find(|report| !told.contains(*report)) {
        return Err(format!("docs/reports.md has no line of {missing}"));
    }
    if let Some(row) = rows.iter().find(|row| !named.contains(&*row.id)) {
        return Err(format!("docs/reports.md does not name row {}", row.id));
    }
    Ok(())
}
