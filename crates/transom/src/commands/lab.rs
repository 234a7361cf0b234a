//! `transom lab`: a cluster's network with real packets on this machine.

mod down;
mod exec;
mod logs;
mod manifests;
mod outside;
mod parts;
mod status;
mod up;

use anyhow::{Context, bail};
use hcn::time::SystemClock;
use hnsd::{Address, Options, Remote};
use lab::names::{LabName, Names};
use lab::supervisor::Status;
use serde_json::json;

use crate::cli::lab::{LabAction, LabCommand};
use crate::exit::Exit;

pub(super) use parts::run as part;

pub(super) fn run(command: &LabCommand) -> anyhow::Result<Exit> {
    match &command.action {
        LabAction::Up(up) => up::run(up),
        LabAction::Down(down) => down::run(down),
        LabAction::Status(status) => status::run(status),
        LabAction::Exec(exec) => exec::run(exec),
        LabAction::Logs(logs) => logs::run(logs),
        LabAction::Apply(apply) => up::apply(apply),
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
