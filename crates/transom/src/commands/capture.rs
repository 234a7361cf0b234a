//! `transom capture`: what every port and adapter of the emulated cluster saw, as a pcapng file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use node::capture::Capture;
use wire::pcapng::About;

use super::render;
use super::simulated::Simulated;
use crate::cli::traffic::CaptureCommand;
use crate::exit::Exit;

pub(super) fn run(command: &CaptureCommand) -> anyhow::Result<Exit> {
    if let Some(lab) = &command.input.lab {
        return super::lab::capture(lab, command);
    }
    let mut simulated = Simulated::open(&command.input, &command.node, &command.simulation)?;
    // Whoever is named must be there before anything is written.
    for flow in &command.send {
        simulated.request(flow)?;
    }
    if command.only_node && simulated.node.is_none() {
        let windows = simulated.world.windows_nodes();
        anyhow::bail!("--only-node: which node? give --node; Windows nodes: {}", windows.join(", "));
    }
    let to_stdout = command.file == Path::new("-");
    let out: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
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
        let _ = writeln!(lines, "{flow}: {}", exchange.outcome);
    }
    match capture.flush() {
        // A reader that has seen enough.
        Err(error) if to_stdout && error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.with_context(|| format!("cannot write {}", command.file.display()))?,
    }
    if to_stdout {
        // Nothing is left to say it to when standard error is closed.
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    } else {
        let _ = writeln!(lines, "{} packets written to {}", capture.packets(), command.file.display());
        render::print(&lines)?;
    }
    Ok(if failed { simulated.exit.and(Exit::Failure) } else { simulated.exit })
}
