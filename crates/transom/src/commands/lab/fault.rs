//! Letting things go wrong in a lab: HNS calls, links, processes.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use lab::daemon::methods;
use lab::pump::Degraded;
use lab::supervisor;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::render;
use super::links;
use super::live::LiveLab;
use crate::cli::lab::{HnsLoss, LabFault};
use crate::exit::Exit;

/// The rules of a fault plan that are in force.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Faults {
    pub(super) rules: Vec<Rule>,
    /// Calls that hang.
    pub(super) hung: u64,
}

/// A rule of a fault plan.
#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    pub(super) name: Option<String>,
    /// How often it struck.
    pub(super) struck: u64,
}

fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).context("fault plan on standard input")?;
        return Ok(text);
    }
    fs::read_to_string(path).with_context(|| format!("fault plan {}", path.display()))
}

fn loss(loss: HnsLoss) -> (&'static str, &'static str) {
    match loss {
        HnsLoss::None => ("none", "nothing"),
        HnsLoss::LoadBalancers => ("loadbalancers", "all load balancers"),
        HnsLoss::Endpoints => ("endpoints", "all endpoints"),
        HnsLoss::Everything => ("all", "everything"),
    }
}

/// Asks a node's daemon for something that has to do with faults.
pub(super) fn ask(lab: &LiveLab, node: &str, method: &str, params: &Value) -> anyhow::Result<Value> {
    lab.daemon(node)?.call_extension(method, params).with_context(|| format!("node {node}"))
}

/// The faults of a node's HNS.
pub(super) fn of(lab: &LiveLab, node: &str) -> anyhow::Result<Faults> {
    Ok(serde_json::from_value(ask(lab, node, methods::FAULTS, &json!({}))?)?)
}

pub(super) fn run(command: &LabFault) -> anyhow::Result<Exit> {
    let lab = LiveLab::of(&command.name.name)?;
    render::print(&act(&lab, command)?)?;
    Ok(Exit::Success)
}

/// Does what is asked for, and says what was done.
fn act(lab: &LiveLab, command: &LabFault) -> anyhow::Result<String> {
    if let Some(process) = &command.kill {
        let params = json!({ "process": process, "kill": true });
        super::control(&lab.names)?
            .call_extension(supervisor::methods::RESTART, &params)
            .with_context(|| format!("lab {}", lab.names.lab()))?;
        return Ok(format!("{process} was killed and is started again.\n"));
    }
    let node = lab.node(command.node.as_deref().unwrap_or_default())?;
    let name = &node.name;
    if let Some(state) = &command.link {
        let degraded = Degraded { cut: state.cut, loss: state.loss, delay: state.delay, rate: state.rate };
        links::degrade(lab, node, &degraded)?;
        let text = links::text(&degraded).unwrap_or_else(|| "good".to_owned());
        return Ok(format!("Link of {name}: {text}\n"));
    }
    if command.clear {
        links::degrade(lab, node, &Degraded::default())?;
        if node.windows {
            ask(lab, name, methods::FAULTS, &json!({ "clear": true }))?;
        }
        return Ok(format!("No faults on {name}.\n"));
    }
    lab.windows_node(Some(name))?;
    if let Some(plan) = &command.plan {
        let plan = read(plan)?;
        let faults: Faults =
            serde_json::from_value(ask(lab, name, methods::FAULTS, &json!({ "plan": plan }))?)?;
        return Ok(format!("HNS of {name}: a fault plan of {} rules\n", faults.rules.len()));
    }
    let (word, text) = loss(command.loss);
    ask(lab, name, methods::RESTART, &json!({ "loss": word }))?;
    Ok(format!("HNS of {name} was restarted and lost {text}.\n"))
}
