//! `transom capture`: what every port and adapter of the emulated cluster saw, as a pcapng file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use node::capture::Capture;
use wire::pcapng::About;

use super::render;
use super::simulated::Simulated;
use crate::cli::traffic::CaptureCommand;
use crate::exit::Exit;

pub(super) fn run(command: &CaptureCommand) -> anyhow::Result<Exit> {
    let mut simulated = Simulated::open(&command.input, &command.node, &command.simulation)?;
    let to_stdout = command.file == Path::new("-");
    let out: Box<dyn Write> = if to_stdout {
        Box::new(std::io::stdout())
    } else {
        let file = File::create(&command.file);
        Box::new(file.with_context(|| format!("cannot write {}", command.file.display()))?)
    };
    let about = About { application: "transom", os: "emulated", ..About::default() };
    let capture = Capture::new(BufWriter::new(out), &about).context("cannot begin the capture")?;
    let only = simulated.node.clone().filter(|_| command.only_node);
    let simulation = &mut simulated.world.simulation;
    let nodes: Vec<String> = simulation.nodes().map(str::to_owned).collect();
    let mut adapters = Vec::new();
    for name in nodes.iter().filter(|name| only.as_ref().is_none_or(|only| only == *name)) {
        let observer = simulation.windows(name).map(|node| capture.observer(name, node.switch()));
        if let Some(observer) = observer {
            simulation.with_windows(name, |node| node.set_observer(Some(Box::new(observer))));
        }
        adapters.extend(simulation.node(name).map(|device| (device, name.clone())));
    }
    simulation.fabric_mut().set_tap(Some(Box::new(capture.tap(adapters))));
    let mut lines = String::new();
    let mut failed = false;
    for flow in &command.send {
        let exchange = simulated.run(flow)?;
        failed |= exchange.outcome.answer().is_none();
        let _ = writeln!(lines, "{}: {}", exchange.request.to, exchange.outcome);
    }
    capture.flush().with_context(|| format!("cannot write {}", command.file.display()))?;
    let _ = writeln!(lines, "{} packets written to {}", capture.packets(), command.file.display());
    if !to_stdout {
        render::print(&lines)?;
    }
    Ok(if failed { simulated.exit.and(Exit::Failure) } else { simulated.exit })
}
