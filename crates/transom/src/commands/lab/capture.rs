//! `transom capture --lab`: what every port of the Windows nodes' switches sees, as a pcapng file.
//!
//! A thread reads each node's stream; one writer puts all of it into the file. A node whose daemon ends is listened to
//! again when it is back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use hcn::time::Clock;
use hnsd::{Remote, RemoteStream, StreamItem};
use lab::daemon::methods as node_methods;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;
use wire::pcapng::{About, Direction, PacketMeta, Writer};

use super::super::render;
use super::extension::{self, PortName};
use super::live::{Asked, LiveCluster, LiveLab};
use crate::cli::traffic::{CaptureEnd, Flow};
use crate::exit::Exit;

/// How often is looked whether it is time to end.
const LOOK: Duration = Duration::from_millis(100);

/// How long no event must come for those that were under way to be taken for written.
const QUIET: Duration = Duration::from_millis(300);

/// How long a sighting waits for earlier ones of other nodes, in nanoseconds.
const BEHIND: u64 = 200_000_000;

/// How many events wait for the writer.
const WAITING: usize = 4096;

/// What is asked for.
pub(in crate::commands) struct Order<'a> {
    pub(in crate::commands) file: &'a Path,
    /// Only this node.
    pub(in crate::commands) node: Option<&'a str>,
    /// Exchanges to run.
    pub(in crate::commands) send: &'a [Flow],
    pub(in crate::commands) end: CaptureEnd,
}

/// What a node's stream tells of a frame.
#[derive(Deserialize)]
struct Sighting {
    port: Uuid,
    direction: String,
    packet: u64,
    /// Nanoseconds since 1970.
    at: u64,
    what: String,
    offload: Left,
    frame: String,
}

/// What was left to the adapter.
#[derive(Deserialize)]
struct Left {
    checksum: bool,
    segment: u16,
}

enum Event {
    Seen(usize, StreamItem),
    /// Events that were lost before the end.
    Lost(u64),
}

/// A node that is listened to.
struct Listened {
    name: String,
    remote: Remote,
}

pub(in crate::commands) fn run(lab: &str, order: &Order<'_>) -> anyhow::Result<Exit> {
    let live = LiveCluster::read(LiveLab::named(lab)?);
    // Whoever is named must be there before anything is written.
    let asked: Vec<(&Flow, Asked)> = order
        .send
        .iter()
        .map(|flow| Ok((flow, live.resolve(flow, order.node)?)))
        .collect::<anyhow::Result<_>>()?;
    let mut nodes = Vec::new();
    for node in live.lab.windows_nodes(order.node)? {
        nodes.push(Listened { name: node.name.clone(), remote: live.lab.daemon(&node.name)? });
    }
    if nodes.is_empty() {
        bail!(
            "lab {lab} has no Windows node, and there is nobody to tell what the kernel's nodes see: use tcpdump"
        );
    }
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed))
        .context("cannot handle the signal to stop")?;
    let to_stdout = order.file == Path::new("-");
    let out: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        let file = File::create(order.file);
        Box::new(file.with_context(|| format!("cannot write {}", order.file.display()))?)
    };
    let about = About { application: "transom", os: "emulated", ..About::default() };
    let file = Writer::new(BufWriter::new(out), &about).context("cannot begin the capture")?;
    let mut capture = Capture {
        file,
        nodes: &nodes,
        ports: BTreeMap::new(),
        waiting: BTreeMap::new(),
        taken: 0,
        packets: 0,
        lost: 0,
    };
    let (events, inbox) = sync_channel(WAITING);
    for (number, node) in nodes.iter().enumerate() {
        let stream = listen(&node.remote).with_context(|| format!("node {}", node.name))?;
        let (events, stop, remote) = (events.clone(), Arc::clone(&stop), node.remote.clone());
        thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || hear(number, &remote, stream, &events, &stop))
            .context("cannot start a thread")?;
    }
    drop(events);
    let asked_all = AtomicBool::new(false);
    let (written, told) = thread::scope(|scope| {
        let exchanges = scope.spawn(|| {
            let told = ask_all(&asked, &nodes);
            asked_all.store(true, Ordering::Relaxed);
            told
        });
        let ending = Ending { end: order.end, stop: &stop, asked: (!asked.is_empty()).then_some(&asked_all) };
        let written = capture.write_all(&inbox, &ending);
        stop.store(true, Ordering::Relaxed);
        (written, exchanges.join())
    });
    let told = told.map_err(|_| anyhow::anyhow!("the exchanges ended by a panic"))??;
    match written.and_then(|()| capture.finish()) {
        // A reader that has seen enough.
        Err(error) if to_stdout && error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.with_context(|| format!("cannot write {}", order.file.display()))?,
    }
    finish(&capture, order, to_stdout, told)
}

/// Runs the exchanges. What they came to, a line each, and whether any failed.
fn ask_all(asked: &[(&Flow, Asked)], nodes: &[Listened]) -> anyhow::Result<(String, bool)> {
    let clock = super::clock();
    let mut text = String::new();
    let mut failed = false;
    for (flow, asked) in asked {
        let exchange = asked.ask(&clock)?;
        failed |= exchange.outcome.answer().is_none();
        let _ = writeln!(text, "{flow}: {}", exchange.outcome);
    }
    // What passed a switch before it answers was told before.
    for node in nodes.iter().filter(|_| !asked.is_empty()) {
        settle(&node.remote)?;
    }
    Ok((text, failed))
}

/// Waits until a node's switch has done what it was told and what came before.
fn settle(remote: &Remote) -> Result<(), hnsd::CallError> {
    remote.call_extension(node_methods::STATUS, &json!({})).map(drop)
}

/// Begins to listen to a node: from when this returns, everything is heard.
fn listen(remote: &Remote) -> Result<RemoteStream, hnsd::CallError> {
    let stream = remote.stream_extension(node_methods::WATCH, &json!({ "frames": true }))?;
    settle(remote)?;
    Ok(stream)
}

/// Hands a node's events over until it is time to end.
fn hear(number: usize, remote: &Remote, stream: RemoteStream, events: &SyncSender<Event>, stop: &AtomicBool) {
    let clock = super::clock();
    let mut stream = Some(stream);
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = &mut stream else {
            // It ended and is started again by its lab.
            clock.sleep(LOOK);
            stream = listen(remote).ok();
            continue;
        };
        match open.next_within(LOOK) {
            Ok(Some(item)) => {
                if events.send(Event::Seen(number, item)).is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "A node is not heard any more; it is listened to again when it is back");
                let lost = open.dropped();
                stream = None;
                if events.send(Event::Lost(lost)).is_err() {
                    return;
                }
            }
        }
    }
    let lost = stream.map_or(0, |stream| stream.dropped());
    // The writer may have ended first.
    let _ = events.send(Event::Lost(lost));
}

/// When a capture ends.
struct Ending<'a> {
    end: CaptureEnd,
    stop: &'a AtomicBool,
    /// All exchanges have ended; none: there are none.
    asked: Option<&'a AtomicBool>,
}

/// The file that is being written.
struct Capture<'a, W: Write> {
    file: Writer<W>,
    nodes: &'a [Listened],
    /// The interface of each port, by node.
    ports: BTreeMap<(usize, Uuid), u32>,
    /// What other nodes' sightings may still come before, by time.
    waiting: BTreeMap<(u64, u64), (usize, Sighting)>,
    taken: u64,
    packets: u64,
    lost: u64,
}

impl<W: Write> Capture<'_, W> {
    fn write_all(&mut self, inbox: &Receiver<Event>, ending: &Ending<'_>) -> io::Result<()> {
        let clock = super::clock();
        let began = clock.now();
        let mut heard = began;
        loop {
            let now = clock.now();
            let over = ending
                .end
                .duration
                .is_some_and(|seconds| now.saturating_sub(began) >= Duration::from_secs(seconds));
            let full = ending.end.packets.is_some_and(|packets| self.taken >= packets);
            let asked = ending.asked.is_some_and(|all| all.load(Ordering::Relaxed))
                && now.saturating_sub(heard) >= QUIET;
            if over || full || asked || ending.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match inbox.recv_timeout(LOOK) {
                Ok(Event::Seen(node, item)) => {
                    heard = clock.now();
                    self.lost += item.dropped;
                    match serde_json::from_value(item.value) {
                        Ok(sighting) => self.take(node, sighting)?,
                        Err(error) => tracing::debug!(%error, "An event that is none"),
                    }
                }
                Ok(Event::Lost(lost)) => self.lost += lost,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Puts a sighting among those of other nodes: each node's come in order, but one node's later than another's.
    fn take(&mut self, node: usize, sighting: Sighting) -> io::Result<()> {
        self.taken += 1;
        let newest = sighting.at;
        self.waiting.insert((sighting.at, self.taken), (node, sighting));
        while let Some(oldest) = self.waiting.first_entry() {
            let late = newest.saturating_sub(oldest.key().0) > BEHIND;
            if !late && self.waiting.len() <= WAITING {
                break;
            }
            if let Some((_, (node, sighting))) = self.waiting.pop_first() {
                self.write(node, &sighting)?;
            }
        }
        Ok(())
    }

    /// Writes what waits.
    fn finish(&mut self) -> io::Result<()> {
        while let Some((_, (node, sighting))) = self.waiting.pop_first() {
            self.write(node, &sighting)?;
        }
        self.file.flush()
    }

    fn write(&mut self, node: usize, sighting: &Sighting) -> io::Result<()> {
        let interface = self.interface(node, sighting.port)?;
        let Ok(frame) = base64::engine::general_purpose::STANDARD.decode(&sighting.frame) else {
            return Ok(());
        };
        let what = if sighting.what.starts_with("dropped") {
            sighting.what.clone()
        } else {
            format!("{} {}", sighting.direction, sighting.what)
        };
        let large = format!("stands for segments of {} bytes", sighting.offload.segment);
        let mut comments = vec![&*what];
        if sighting.offload.checksum {
            comments.push("the checksum was left to the adapter and is filled in here");
        }
        if sighting.offload.segment > 0 {
            comments.push(&large);
        }
        let direction = if sighting.direction == "OUT" { Direction::Outbound } else { Direction::Inbound };
        let meta = PacketMeta {
            interface,
            nanos: sighting.at,
            direction: Some(direction),
            // Nodes count their packets on their own.
            id: Some((node as u64) << 48 | sighting.packet & 0xffff_ffff_ffff),
            comments: &comments,
        };
        self.packets += 1;
        self.file.packet(&meta, &frame)
    }

    /// The interface of a port. Ports that come while it runs are asked for.
    fn interface(&mut self, node: usize, port: Uuid) -> io::Result<u32> {
        if let Some(&known) = self.ports.get(&(node, port)) {
            return Ok(known);
        }
        let (name, description) = match self.nodes.get(node) {
            Some(listened) => {
                let ports: Vec<PortName> = listened
                    .remote
                    .call_extension_as(extension::methods::PORTS, &json!({}))
                    .unwrap_or_default();
                let found = ports.into_iter().find(|known| known.port == port);
                found.map_or_else(
                    || (format!("{} port {port}", listened.name), String::new()),
                    |port| (port.interface, format!("{}, {}", port.name, port.description)),
                )
            }
            None => (format!("port {port}"), String::new()),
        };
        let number = self.file.add_interface(&name, &description)?;
        self.ports.insert((node, port), number);
        Ok(number)
    }
}

fn finish(
    capture: &Capture<'_, BufWriter<Box<dyn Write>>>,
    order: &Order<'_>,
    to_stdout: bool,
    (mut text, failed): (String, bool),
) -> anyhow::Result<Exit> {
    if !to_stdout {
        let _ = writeln!(text, "{} packets written to {}", capture.packets, order.file.display());
    }
    if capture.lost > 0 {
        let _ = writeln!(
            text,
            "{} packets were lost: they came faster than they could be handed over",
            capture.lost
        );
    }
    if to_stdout {
        // Nothing is left to say it to when standard error is closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    } else {
        render::print(&text)?;
    }
    Ok(if failed { Exit::Failure } else { Exit::Success })
}
