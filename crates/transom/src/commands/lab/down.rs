//! Ending a lab.

use hnsd::{Address, Options, Remote};
use lab::supervisor::methods;
use serde_json::json;

use super::super::render;
use super::{clock, names};
use crate::cli::lab::LabDown;
use crate::exit::Exit;

pub(super) fn run(down: &LabDown) -> anyhow::Result<Exit> {
    let names = names(&down.name.name);
    if let Ok(remote) = Remote::connect(Address::Unix(names.control()), Options::actor("transom")) {
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
