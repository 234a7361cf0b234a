//! What docs/matrix.md and the README say of real packets.

use std::fmt::Write as _;

use libtest_mimic::Failed;
use node::app::Outcome;

use crate::agree::Kind;
use crate::document;

/// The column of the README's table: behind the name and the kinds of clients.
const README_COLUMN: usize = 6;

const INTRODUCTION: &str = "
The same exchanges once more, with real sockets from the network namespaces of a lab (`transom lab up`, a proxy on every
Windows node, the kernel's VXLAN, routes and nftables on Linux nodes), with addresses led to each node in turn. Each
ended as it must: by a backend that may serve it and that saw the client or a node's address, with affinity the same one
twice; or as the second tables say, where \"no answer\" and \"unreachable\" are one, because they differ only in how long a
client waits. Each also ended as it did in memory; where the same backend answered, it saw the same address. Generated:
`UPDATE_MATRIX=1 cargo test -p transom --test lab_matrix` writes this chapter, and the test fails when it is out of date.

| cluster and network | exchanges | answered | refused | silent |
|---|---:|---:|---:|---:|
";

/// A setting's numbers.
pub(crate) struct Row {
    pub(crate) name: String,
    answered: u32,
    refused: u32,
    silent: u32,
}

impl Row {
    pub(crate) fn new(name: String) -> Self {
        Self { name, answered: 0, refused: 0, silent: 0 }
    }

    /// Counts an exchange that ended as it must.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        match Kind::of(outcome) {
            Kind::Answered => self.answered += 1,
            Kind::Refused => self.refused += 1,
            Kind::Silent => self.silent += 1,
            // No expectation allows it.
            Kind::Broken => {}
        }
    }

    fn exchanges(&self) -> String {
        (self.answered + self.refused + self.silent).to_string()
    }

    fn cells(&self) -> Vec<String> {
        let Self { name, answered, refused, silent } = self;
        vec![name.clone(), self.exchanges(), answered.to_string(), refused.to_string(), silent.to_string()]
    }

    /// Whether the documents show it.
    pub(crate) fn is_shown(&self) -> Result<(), Failed> {
        let matrix = std::fs::read_to_string(document::matrix())?;
        let chapter = document::real_packets(&matrix).unwrap_or_default();
        let in_chapter =
            chapter.contains(INTRODUCTION) && document::has(chapter, &self.name, 0, &self.cells());
        let readme = std::fs::read_to_string(document::readme())?;
        if in_chapter && document::has(&readme, &self.name, README_COLUMN, &[self.exchanges()]) {
            return Ok(());
        }
        let name = &self.name;
        Err(format!("docs/matrix.md or README.md does not show {name:?} on real packets as it is now; run with UPDATE_MATRIX=1").into())
    }
}

/// Writes the chapter and the column.
pub(crate) fn write(rows: &[Row]) {
    let old = std::fs::read_to_string(document::matrix()).expect("docs/matrix.md can be read");
    let kept = document::real_packets(&old).and_then(|chapter| old.strip_suffix(chapter)).unwrap_or(&old);
    let mut text = format!("{}\n\n{}\n{INTRODUCTION}", kept.trim_end(), document::REAL_PACKETS);
    for row in rows {
        // Writing to a String does not fail.
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    std::fs::write(document::matrix(), text).expect("docs/matrix.md can be written");
    let mut readme = std::fs::read_to_string(document::readme()).expect("the README can be read");
    for row in rows {
        readme = document::put(&readme, &row.name, README_COLUMN, &[row.exchanges()]);
    }
    std::fs::write(document::readme(), readme).expect("the README can be written");
}
