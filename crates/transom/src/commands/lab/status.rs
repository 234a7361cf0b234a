//! What a lab is made of.

use super::super::render;
use super::{names, status};
use crate::cli::Output;
use crate::cli::lab::LabStatus;
use crate::exit::Exit;

pub(super) fn run(command: &LabStatus) -> anyhow::Result<Exit> {
    let status = status(&names(&command.name.name))?;
    let text = match command.output.output {
        Output::Text => tables(&status),
        form => render::document(&status, form)?,
    };
    render::print(&text)?;
    Ok(Exit::Success)
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
        text.push_str(&format!("\nProblem: {problem}\n"));
    }
    text
}
