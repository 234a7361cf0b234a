//! The programs that a lab starts.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use anyhow::Context;
use lab::handover::Channel;

use super::extension::NodeExtension;
use super::outside::Programs;
use crate::cli::lab::{LabPart, LabPartCommand};
use crate::exit::Exit;

/// Whom the responder goes on as: nobody.
const NOBODY: u32 = 65_534;

/// The channel to who started this, on standard input.
fn channel() -> anyhow::Result<Channel> {
    let fd: OwnedFd = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("this program is started by `transom lab up` only")?;
    Ok(Channel::from(fd))
}

/// Runs a part until the lab ends it.
pub(crate) fn run(command: &LabPartCommand) -> anyhow::Result<Exit> {
    let channel = channel()?;
    match command.part {
        LabPart::Supervisor => {
            // What ends the terminal that `lab up` was typed on does not end the lab.
            let _ = rustix::process::setsid();
            let own = std::env::current_exe().context("where this program is")?;
            lab::supervisor::run(&channel, Box::new(Programs { own }), |tell| {
                let handled = ctrlc::set_handler(tell);
                if let Err(error) = handled {
                    tracing::error!(%error, "Signals end the lab at once");
                }
            })?;
        }
        LabPart::Node => lab::daemon::run(&channel, Arc::new(NodeExtension::default()))?,
        LabPart::Responder => {
            let dropped = lab::privileges::drop_all(Some(NOBODY)).context("cannot give up privileges")?;
            tracing::info!(%dropped, "Privileges are given up");
            lab::responder::run(&channel)?;
        }
    }
    Ok(Exit::Success)
}
