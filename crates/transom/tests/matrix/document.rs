//! The documents that show the matrix: docs/matrix.md and a table in the README. Who keeps a part leaves the others'.

use std::path::{Path, PathBuf};

/// The chapter of docs/matrix.md that is not made in memory. It is the last one.
pub(crate) const REAL_PACKETS: &str = "## On real packets";

/// docs/matrix.md.
pub(crate) fn matrix() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/matrix.md")
}

/// The README, with a row for each setting: its name, a column for each kind of client, one for real packets.
pub(crate) fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")
}

/// The chapter on real packets of docs/matrix.md.
pub(crate) fn real_packets(text: &str) -> Option<&str> {
    text.find(REAL_PACKETS).and_then(|start| text.get(start..))
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

/// Whether a table's row with this name has these cells from a column on.
pub(crate) fn has(text: &str, name: &str, column: usize, wanted: &[String]) -> bool {
    let rows = text.lines().filter_map(cells);
    let mut rows = rows.filter(|row| row.first() == Some(&name));
    rows.any(|row| row.get(column..column + wanted.len()).is_some_and(|found| found == wanted))
}

/// Puts cells into the row of a name in the README's table, from a column on; the row's others stay.
pub(crate) fn put(text: &str, name: &str, column: usize, new: &[String]) -> String {
    let changed = |line: &str| {
        let mut row: Vec<&str> = cells(line).filter(|row| row.first() == Some(&name))?;
        row.resize(row.len().max(column + new.len()), "");
        for (cell, new) in row.iter_mut().skip(column).zip(new) {
            *cell = new;
        }
        Some(format!("| {} |", row.join(" | ")))
    };
    text.lines().map(|line| changed(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}
