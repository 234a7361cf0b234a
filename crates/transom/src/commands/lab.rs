//! `transom lab`: a cluster's network with real packets on this machine.

mod capture;
mod down;
mod exec;
mod extension;
mod fault;
mod links;
mod live;
mod logs;
mod manifests;
mod outside;
mod parts;
mod recording;
mod route;
mod sandbox;
mod snapshot;
mod status;
mod trace;
mod up;
mod wine;

use anyhow::{Context, bail};
use hcn::time::SystemClock;
use hnsd::{Address, Options, Remote};
use lab::names::{LabName, Names};
use lab::supervisor::Status;
use serde_json::json;

use super::vfp;
use crate::cli::lab::{LabAction, LabCommand};
use crate::cli::traffic::{CaptureCommand, VfpTarget};
use crate::exit::Exit;

pub(super) use parts::run as part;
pub(super) use trace::run as trace;
pub(super) use wine::run as wine;

/// `transom vfp --lab`: asks the switch of a node's daemon.
pub(super) fn vfp(lab: &str, target: &VfpTarget, ask: &vfp::Ask) -> anyhow::Result<vfp::Answer> {
    let node = target.input.common.node.as_deref();
    let live = live::LiveCluster::read(live::LiveLab::named(lab)?);
    let name = live.lab.windows_node(node)?.name.clone();
    for flow in &target.send {
        let outcome = live.resolve(flow, node)?.ask(&clock())?.outcome.to_string();
        tracing::info!(exchange = flow.to_string(), outcome, "Exchange");
    }
    let daemon = live.lab.daemon(&name)?;
    // What is wrong is told as if it were told here.
    daemon.call_extension_as(extension::methods::VFP, ask).map_err(anyhow::Error::msg)
}

/// `transom capture --lab`.
pub(super) fn capture(lab: &str, command: &CaptureCommand) -> anyhow::Result<Exit> {
    let (file, node, send) = (&*command.file, command.input.common.node.as_deref(), &*command.send);
    capture::run(lab, &capture::Order { file, node, send, end: command.end })
}

/// Where the HNS of a lab's node listens: of the named one, else of the only one.
pub(super) fn hns(lab: &str, node: Option<&str>) -> anyhow::Result<Address> {
    let live = live::LiveLab::named(lab)?;
    Ok(live.address(&live.windows_node(node)?.name))
}

pub(super) fn run(command: &LabCommand) -> anyhow::Result<Exit> {
    match &command.action {
        LabAction::Up(up) => up::run(up),
        LabAction::Down(down) => down::run(down),
        LabAction::Status(status) => status::run(status),
        LabAction::Exec(exec) => exec::run(exec),
        LabAction::Logs(logs) => logs::run(logs),
        LabAction::Apply(apply) => up::apply(apply),
        LabAction::Trace(trace) => {
            let (flow, all) = (trace.exchange.flow(), trace.exchange.all);
            let (lab, node) = (trace.name.name.as_str(), trace.node.as_deref());
            trace::run(lab, node, &flow, all, trace.output.output)
        }
        LabAction::Capture(capture) => {
            let (file, node, send) = (&*capture.file, capture.node.as_deref(), &*capture.send);
            let order = capture::Order { file, node, send, end: capture.end };
            capture::run(capture.name.name.as_str(), &order)
        }
        LabAction::Fault(fault) => fault::run(fault),
        LabAction::Snapshot(snapshot) => snapshot::run(snapshot),
        LabAction::Route(route) => route::run(route),
        LabAction::Sandbox(sandbox) => sandbox::run(sandbox),
    }
}

/// The names of a lab.
pub(super) fn names(name: &LabName) -> Names {
    Names::new(name.clone())
}

/// A lab's supervisor.
pub(super) fn control(names: &Names) -> anyhow::Result<Remote> {
    let socket = names.control();
    if !socket.exists() {
        if names.folder().exists() {
            bail!("lab {} does not run; `transom lab down` takes away what is left of it", names.lab());
        }
        bail!("there is no lab {}; make it with `transom lab up`", names.lab());
    }
    Remote::connect(Address::Unix(socket), Options::actor("transom"))
        .with_context(|| format!("lab {} does not answer; `transom lab down` ends it", names.lab()))
}

/// What a lab is made of.
pub(super) fn status(names: &Names) -> anyhow::Result<Status> {
    control(names)?
        .call_extension_as(lab::supervisor::methods::STATUS, &json!({}))
        .with_context(|| format!("lab {}", names.lab()))
}

/// Time.
fn clock() -> SystemClock {
    SystemClock::default()
}
