//! What a lab is made of.

use std::fmt::Write as _;

use super::super::render;
use super::live::LiveLab;
use super::{fault, links};
use crate::cli::Output;
use crate::cli::lab::LabStatus;
use crate::exit::Exit;

pub(super) fn run(command: &LabStatus) -> anyhow::Result<Exit> {
    let lab = LiveLab::of(&command.name.name)?;
    let text = match command.output.output {
        Output::Text => tables(&lab.status) + &faults(&lab),
        form => render::document(&lab.status, form)?,
    };
    render::print(&text)?;
    Ok(Exit::Success)
}

/// What is made to go wrong, a line each; nothing where nothing is.
fn faults(lab: &LiveLab) -> String {
    let mut text = String::new();
    for node in &lab.status.nodes {
        // One that does not answer is seen among the processes.
        let link = links::of(lab, node).ok();
        if let Some(link) = link.and_then(|link| links::text(&link)) {
            let _ = writeln!(text, "\nFault: the link of {}: {link}", node.name);
        }
        let hns = node.windows.then(|| fault::of(lab, &node.name).ok()).flatten().unwrap_or_default();
        for rule in &hns.rules {
            let name = rule.name.as_deref().unwrap_or("a rule without a name");
            let _ = writeln!(text, "\nFault: HNS of {}: {name}, struck {} times", node.name, rule.struck);
        }
        if hns.hung > 0 {
            let _ = writeln!(text, "\nFault: HNS of {}: {} calls hang", node.name, hns.hung);
        }
    }
    text
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn tables(status: &lab::supervisor::Status) -> String {
    let dsr = if status.dsr { " with direct server return" } else { "" };
    let mut text = format!("Lab {}: {} network{dsr}\n\n", status.name, status.network);
    let mut nodes = render::table(&["NODE", "OS", "ADDRESSES", "NAMESPACE", "HNS"]);
    for node in &status.nodes {
        let os = node
            .profile
            .as_ref()
            .map_or_else(|| "linux".to_owned(), |profile| format!("windows ({profile})"));
        let hns = node.hns.as_ref().map(|hns| hns.display().to_string()).unwrap_or_default();
        nodes.add_row([&node.name, &os, &joined(&node.addresses), &node.namespace, &hns]);
    }
    text.push_str(&render::text(&nodes));
    text.push('\n');
    let mut pods = render::table(&["POD", "NODE", "ADDRESSES", "NAMESPACE"]);
    for pod in &status.pods {
        pods.add_row([&pod.name, &pod.node, &joined(&pod.addresses), &pod.namespace]);
    }
    text.push_str(&render::text(&pods));
    text.push('\n');
    if !status.vips.is_empty() {
        let mut vips = render::table(&["ADDRESS", "LED TO"]);
        for (address, node) in &status.vips {
            vips.add_row([&address.to_string(), node]);
        }
        text.push_str(&render::text(&vips));
        text.push('\n');
    }
    let mut processes = render::table(&["PROCESS", "PID", "RESTARTS"]);
    for process in &status.processes {
        let pid = process.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        processes.add_row([&process.name, &pid, &process.restarts.to_string()]);
    }
    text.push_str(&render::text(&processes));
    for problem in &status.problems {
        let _ = writeln!(text, "\nProblem: {problem}");
    }
    text
}
