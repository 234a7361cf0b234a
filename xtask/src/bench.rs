//! `cargo xtask bench`: runs the benches and prints one table of budgets and measurements.
//!
//! A bench that measures something with a budget prints a line `bench-row|work|budget|measured|detail`. This
//! module collects those lines; everything that is printed, criterion's own numbers included, goes to a log file.
//! Numbers are for people to judge: nothing here fails because something was slow.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::{self, Stream};
use crate::steps::say;

/// What the table holds and how it looks.
#[derive(Debug, Args)]
pub struct Options {
    /// Only benches whose name contains this, as cargo bench takes it
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// Print a Markdown table, to be quoted
    #[arg(long)]
    markdown: bool,
}

/// The columns.
const HEADINGS: [&str; 4] = ["work", "budget", "measured", "detail"];
const MARK: &str = "bench-row|";

/// One line of the table.
type Row = [String; 4];

/// Runs the benches of all crates and prints the table.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let log_path = process::target_folder(root).join("bench").join("output.log");
    let folder = log_path.parent().unwrap_or(root);
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let file = fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let mut log = BufWriter::new(file);
    let mut rows = Vec::new();

    let mut command = process::cargo(root, &["bench", "--workspace", "--bench", "*"]);
    if let Some(filter) = &options.filter {
        command.args(["--", filter]);
    }
    process::run_lines(&mut command, Stream::Stdout, |line| {
        writeln!(log, "{line}").with_context(|| format!("cannot write {}", log_path.display()))?;
        if let Some(row) = row(line)? {
            say(&format!("measured: {}", row[0]));
            rows.push(row);
        }
        Ok(())
    })?;
    log.flush().with_context(|| format!("cannot write {}", log_path.display()))?;

    if rows.is_empty() {
        bail!(
            "no bench printed a line of the form {MARK}work|budget|measured|detail; see {}",
            log_path.display()
        );
    }
    say("");
    say(if options.markdown { markdown(&rows) } else { table(&rows) }.trim_end());
    say(&format!("\nEverything the benches printed: {}", log_path.display()));
    Ok(())
}

/// Reads a line; `None` when it is not a row of the table.
fn row(line: &str) -> Result<Option<Row>> {
    let Some(columns) = line.trim().strip_prefix(MARK) else { return Ok(None) };
    let columns: Vec<String> = columns.split('|').map(|column| column.trim().to_owned()).collect();
    match Row::try_from(columns) {
        Ok(row) => Ok(Some(row)),
        Err(columns) => {
            bail!("`{line}` has {} columns; it must be {MARK}work|budget|measured|detail", columns.len())
        }
    }
}

/// The rows with aligned columns.
fn table(rows: &[Row]) -> String {
    let headings = HEADINGS.map(str::to_owned);
    let width = |column: usize| {
        std::iter::once(&headings)
            .chain(rows)
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths = [width(0), width(1), width(2), width(3)];
    let rule = widths.map(|width| "-".repeat(width));
    let mut text = String::new();
    for row in [&headings, &rule].into_iter().chain(rows) {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The rows as a Markdown table.
fn markdown(rows: &[Row]) -> String {
    let line = |row: &Row| format!("| {} |\n", row.join(" | "));
    let mut text = line(&HEADINGS.map(str::to_owned));
    text.push_str("|---|---|---|---|\n");
    for row in rows {
        text.push_str(&line(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        ["bench-row|first sync|7,002 calls|7,010 calls|2,000 Services", " bench-row|µ|≤ 200 µs|90 µs|"]
            .iter()
            .map(|line| row(line).expect("well formed").expect("a row"))
            .collect()
    }

    #[test]
    fn other_lines_are_no_rows_and_broken_rows_are_errors() {
        for line in ["", "time: [1 ns 2 ns 3 ns]", "a bench-row|x"] {
            assert_eq!(row(line).expect("not a row"), None, "{line}");
        }
        for line in ["bench-row|", "bench-row|a|b|c", "bench-row|a|b|c|d|e"] {
            assert!(row(line).is_err(), "{line}");
        }
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            table(&rows()),
            "work        budget       measured     detail\n\
             ----------  -----------  -----------  --------------\n\
             first sync  7,002 calls  7,010 calls  2,000 Services\n\
             µ           ≤ 200 µs     90 µs\n"
        );
    }

    #[test]
    fn the_markdown_form() {
        let text = markdown(&rows());
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("| first sync | 7,002 calls | 7,010 calls | 2,000 Services |"), "{text}");
    }
}
