//! Pods for CNI plugins to work on.

use anyhow::Context;
use lab::supervisor::methods;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::render;
use super::{control, names};
use crate::cli::Output;
use crate::cli::lab::{LabSandbox, SandboxAction, SandboxAdd, SandboxRemove};
use crate::cli::traffic::Name;
use crate::exit::Exit;

/// A sandbox as the lab has made it.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    /// What a plugin is given as `CNI_NETNS`.
    netns: hcn::Guid,
    /// The network namespace here.
    namespace: String,
}

pub(super) fn run(command: &LabSandbox) -> anyhow::Result<Exit> {
    match &command.action {
        SandboxAction::Add(add) => self::add(add),
        SandboxAction::Remove(remove) => self::remove(remove),
    }
}

fn add(command: &SandboxAdd) -> anyhow::Result<Exit> {
    let names = names(&command.name.name);
    let params = json!({ "name": full(&command.pod), "node": command.node });
    let made: Made = control(&names)?
        .call_extension_as(methods::ADD_SANDBOX, &params)
        .with_context(|| format!("lab {}", names.lab()))?;
    let text = match command.output.output {
        // Alone on its line: scripts put it into CNI_NETNS.
        Output::Text => format!("{}\n", made.netns),
        form => render::document(&made, form)?,
    };
    render::print(&text)?;
    Ok(Exit::Success)
}

fn remove(command: &SandboxRemove) -> anyhow::Result<Exit> {
    let names = names(&command.name.name);
    let name = full(&command.pod);
    control(&names)?
        .call_extension(methods::REMOVE_SANDBOX, &json!({ "name": name }))
        .with_context(|| format!("lab {}", names.lab()))?;
    render::print(&format!("{name} is gone.\n"))?;
    Ok(Exit::Success)
}

fn full(pod: &Name) -> String {
    format!("{}/{}", pod.namespace.as_deref().unwrap_or("default"), pod.name)
}
