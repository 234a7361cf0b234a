//! The logs of a lab's processes.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, bail};

use super::super::render;
use super::names;
use crate::cli::lab::LabLogs;
use crate::exit::Exit;

pub(super) fn run(command: &LabLogs) -> anyhow::Result<Exit> {
    let names = names(&command.name.name);
    let folder = names.logs();
    let entries = fs::read_dir(&folder).with_context(|| format!("lab {} has no logs", names.lab()))?;
    let mut logs: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_string_lossy().strip_suffix(".log").map(str::to_owned))
        .collect();
    logs.sort();
    if let Some(process) = &command.process {
        if !logs.contains(process) {
            bail!("lab {} has no log of {process}; it has those of {}", names.lab(), logs.join(", "));
        }
        logs.retain(|log| log == process);
    }
    let several = logs.len() > 1;
    let mut text = String::new();
    for log in logs {
        let path = folder.join(format!("{log}.log"));
        let content = fs::read(&path).with_context(|| format!("log {}", path.display()))?;
        let content = String::from_utf8_lossy(&content);
        let lines: Vec<&str> = content.lines().collect();
        let first = command.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
        if several {
            let _ = writeln!(text, "==> {log} <==");
        }
        for line in lines.get(first..).unwrap_or_default() {
            text.push_str(line);
            text.push('\n');
        }
    }
    render::print(&text)?;
    Ok(Exit::Success)
}
