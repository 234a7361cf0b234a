//! Ending a lab.

use std::time::Duration;

use hnsd::{Address, Options, Remote};
use lab::supervisor::methods;
use serde_json::json;

use super::super::render;
use super::{clock, names};
use crate::cli::lab::LabDown;
use crate::exit::Exit;

/// How long a supervisor may take to end what it started: more than it gives its processes.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(down: &LabDown) -> anyhow::Result<Exit> {
    let names = names(&down.name.name);
    let options = Options { timeout: Some(PATIENCE), ..Options::actor("transom") };
    if let Ok(remote) = Remote::connect(Address::Unix(names.control()), options) {
        // One that hangs, or ends before it has answered, is ended below.
        let _ = remote.call_extension(methods::STOP, &json!({}));
    }
    let ended = lab::build::down(&names, &clock())?;
    let text = if ended.namespaces == 0 && !ended.folder {
        format!("There is no lab {}.\n", names.lab())
    } else {
        format!("Lab {} is gone: {} network namespaces were removed.\n", names.lab(), ended.namespaces)
    };
    render::print(&text)?;
    Ok(Exit::Success)
}
