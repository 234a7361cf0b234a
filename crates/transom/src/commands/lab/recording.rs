//! Recordings of single exchanges in a node's daemon: what its switch did with packets of some hosts, with every decision.
//!
//! A recording lasts as long as the stream that began it, so that a client that dies leaves none behind; it is bounded in
//! number. While there is one, all packets of the node take the slow path.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, bail};
use hcn::time::Clock;
use hnsd::{CallError, Remote, RemoteStream, StreamSink};
use lab::daemon::{NodeAccess, Watch};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vfp::trace::{Event, RuleRef, Sighting, Stage};
use vfp::{DropReason, Observer};
use wire::L4;

use super::extension::{self, methods};
use crate::world::journey::{Assembler, Journey, Step};

/// How many steps are recorded at most.
const MOST: usize = 20_000;

/// The longest frame that is recorded: packets of one exchange carry next to nothing.
const LONGEST: usize = 2_048;

/// What is to be recorded: packets to or from any of these hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub(super) hosts: BTreeSet<IpAddr>,
    /// The IP protocol; ICMP errors about it belong to it.
    pub(super) protocol: u8,
}

/// A recording.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begun {
    recording: u64,
}

/// What was recorded.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Recorded {
    /// Times are since 1970.
    pub(super) journey: Journey,
    /// There was more.
    pub(super) full: bool,
}

/// The ends of the innermost packet of a frame: of an ICMP error, of the packet that it tells of.
pub(super) struct Ends {
    pub(super) protocol: u8,
    pub(super) source: (IpAddr, u16),
    pub(super) destination: (IpAddr, u16),
}

impl Ends {
    /// Those of a frame. `None`: it is neither TCP nor UDP nor an ICMP error.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let parsed = wire::parse(frame).ok()?;
        let ip = parsed.ip()?;
        if let L4::Udp { dport: wire::vxlan::UDP_PORT, .. } = ip.l4 {
            let payload = frame.get(ip.payload_offset()..ip.end())?;
            if let Ok((_, at)) = wire::vxlan::parse(payload) {
                return Self::of(payload.get(at..)?);
            }
        }
        if let Some(quoted) = wire::quoted::parse(frame, ip) {
            let (source, destination) = quoted.ports?;
            return Some(Self {
                protocol: quoted.proto,
                source: (quoted.src, source),
                destination: (quoted.dst, destination),
            });
        }
        let protocol = match ip.l4 {
            L4::Tcp { .. } => wire::proto::TCP,
            L4::Udp { .. } => wire::proto::UDP,
            _ => return None,
        };
        let (source, destination) = ip.l4.ports()?;
        Some(Self { protocol, source: (ip.src, source), destination: (ip.dst, destination) })
    }
}

/// What a recorder has.
#[derive(Default)]
struct Tape {
    assembler: Assembler,
    full: bool,
}

/// Records while the switch is locked, so it asks nobody for anything but the time.
struct Recorder {
    wanted: Wanted,
    tape: Arc<Mutex<Tape>>,
    clock: Arc<dyn Clock>,
    /// The number of the packet that is being recorded: what becomes of it belongs to it, whatever its headers say then.
    packet: Option<u64>,
}

impl Recorder {
    fn wants(&self, at: &Sighting, frame: &[u8]) -> bool {
        let hosts = &self.wanted.hosts;
        frame.len() <= LONGEST
            && (self.packet == Some(at.group)
                || Ends::of(frame).is_some_and(|ends| {
                    ends.protocol == self.wanted.protocol
                        && (hosts.contains(&ends.source.0) || hosts.contains(&ends.destination.0))
                }))
    }

    fn enter(&mut self, at: &Sighting, frame: &[u8]) {
        let wants = self.wants(at, frame);
        let mut tape = self.tape.lock();
        tape.full |= wants && tape.assembler.len() >= MOST;
        if wants && !tape.full {
            self.packet = Some(at.group);
            // Time is asked for each packet: the switch's is that of a whole batch.
            let when = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
            tape.assembler.enter("", at.port.to_string(), at, when, frame);
        } else {
            self.packet = None;
            tape.assembler.skip();
        }
    }
}

impl Observer for Recorder {
    fn seen(&mut self, at: &Sighting, frame: &[u8]) {
        match at.stage {
            Stage::Enter => self.enter(at, frame),
            Stage::Leave => self.tape.lock().assembler.leave(at, frame),
        }
    }

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, frame: &[u8]) {
        if self.tape.lock().assembler.dropped(at, reason, rule) {
            return;
        }
        self.enter(at, frame);
        self.tape.lock().assembler.dropped(at, reason, rule);
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event) {
        self.tape.lock().assembler.event(event, |_, port| port.to_string());
    }
}

/// A recording that runs, in the daemon.
struct Running {
    tape: Arc<Mutex<Tape>>,
    /// Both end with the recording.
    _watch: Watch,
    _sink: StreamSink,
}

/// The recordings of a node.
#[derive(Default)]
pub(super) struct Recordings {
    running: Arc<Mutex<BTreeMap<u64, Running>>>,
    next: AtomicU64,
}

impl Recordings {
    /// Begins a recording: it runs when this returns.
    pub(super) fn begin(
        &self,
        node: &NodeAccess,
        wanted: Wanted,
        sink: &StreamSink,
    ) -> Result<(), CallError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let tape = Arc::<Mutex<Tape>>::default();
        let clock = Arc::clone(&node.clock);
        let recorder = Recorder { wanted, tape: Arc::clone(&tape), clock, packet: None };
        let watch = node.watchers.add(Box::new(recorder));
        settle(node)?;
        let running = Running { tape, _watch: watch, _sink: sink.clone() };
        self.running.lock().insert(number, running);
        let all = Arc::clone(&self.running);
        sink.on_close(move || {
            let gone = all.lock().remove(&number);
            drop(gone);
        });
        // A client that is gone has closed it.
        let _ = sink.send_as(&Begun { recording: number });
        Ok(())
    }

    /// What was recorded so far.
    pub(super) fn take(&self, node: &NodeAccess, begun: &Begun) -> Result<Recorded, CallError> {
        settle(node)?;
        let tape = {
            let running = self.running.lock();
            let found = running.get(&begun.recording).map(|running| Arc::clone(&running.tape));
            found.ok_or_else(|| CallError::invalid(format!("there is no recording {}", begun.recording)))?
        };
        let taken = std::mem::take(&mut *tape.lock());
        let mut journey = taken.assembler.journey();
        let names: BTreeMap<String, String> =
            extension::ports(node).into_iter().map(|port| (port.port.to_string(), port.name)).collect();
        let rename = |port: &mut String| {
            if let Some(name) = names.get(port) {
                port.clone_from(name);
            }
        };
        for (_, step) in &mut journey.steps {
            if let Step::Port(passage) = step {
                passage.node = node.name.to_string();
                rename(&mut passage.port);
                if let Some((Some(to), _)) = &mut passage.forward {
                    rename(to);
                }
            }
        }
        Ok(Recorded { journey, full: taken.full })
    }
}

/// Waits until the thread that moves frames has done all that it was told and has read before.
fn settle(node: &NodeAccess) -> Result<(), CallError> {
    node.pump.count().map(drop).ok_or_else(|| CallError::failed("frames are moved no more"))
}

/// A recording, from the client's side. It ends when it is dropped.
pub(super) struct Recording {
    node: String,
    remote: Remote,
    begun: Begun,
    _stream: RemoteStream,
}

impl Recording {
    /// Begins a recording on a node.
    pub(super) fn begin(node: &str, remote: Remote, wanted: &Wanted) -> anyhow::Result<Self> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let what = || format!("recording on node {node}");
        let mut stream = remote.stream_extension(methods::RECORD, &json!(wanted)).with_context(what)?;
        let Some(first) = stream.next_within(PATIENCE).with_context(what)? else {
            bail!("{}: it does not begin", what());
        };
        let begun = serde_json::from_value(first.value).with_context(what)?;
        Ok(Self { node: node.to_owned(), remote, begun, _stream: stream })
    }

    /// What was recorded.
    pub(super) fn end(self) -> anyhow::Result<Recorded> {
        let recorded = self.remote.call_extension_as(methods::RECORDED, &self.begun);
        recorded.with_context(|| format!("recording on node {}", self.node))
    }
}
