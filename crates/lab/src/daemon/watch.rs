//! Who watches a node's switch: any number of observers in place of the one that a switch takes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hcn::time::Clock;
use hnsd::StreamSink;
use parking_lot::Mutex;
use serde_json::json;
use vfp::trace::{Event, RuleRef, Sighting, Stage};
use vfp::{DropReason, Observer};
use wire::Packet;

use super::NodeAccess;
use crate::pump::{Command, Handle};

type List = Arc<Mutex<Vec<(u64, Box<dyn Observer + Send>)>>>;

/// The observers of one switch. While there is none, the switch has none.
#[derive(Clone)]
pub struct Watchers {
    list: List,
    next: Arc<AtomicU64>,
    pump: Handle,
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").field("count", &self.list.lock().len()).finish_non_exhaustive()
    }
}

/// Somebody who watches; until it is dropped.
#[derive(Debug)]
pub struct Watch {
    number: u64,
    watchers: Watchers,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut list = self.watchers.list.lock();
        list.retain(|(number, _)| *number != self.number);
        self.watchers.tell(&list);
    }
}

impl Watchers {
    pub(super) fn new(pump: Handle) -> Self {
        Self { list: Arc::default(), next: Arc::default(), pump }
    }

    /// Adds an observer.
    pub fn add(&self, observer: Box<dyn Observer + Send>) -> Watch {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut list = self.list.lock();
        list.push((number, observer));
        self.tell(&list);
        Watch { number, watchers: self.clone() }
    }

    fn tell(&self, list: &[(u64, Box<dyn Observer + Send>)]) {
        let observer: Option<Box<dyn Observer + Send>> =
            if list.is_empty() { None } else { Some(Box::new(All { list: Arc::clone(&self.list) })) };
        self.pump.tell(Command::Observe(observer));
    }
}

/// All of them as one.
struct All {
    list: List,
}

impl Observer for All {
    fn seen(&mut self, at: &Sighting, frame: &[u8]) {
        for (_, observer) in self.list.lock().iter_mut() {
            observer.seen(at, frame);
        }
    }

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, frame: &[u8]) {
        for (_, observer) in self.list.lock().iter_mut() {
            observer.dropped(at, reason, rule, frame);
        }
    }

    fn wants_events(&self) -> bool {
        self.list.lock().iter().any(|(_, observer)| observer.wants_events())
    }

    fn event(&mut self, event: &Event) {
        for (_, observer) in self.list.lock().iter_mut().filter(|(_, observer)| observer.wants_events()) {
            observer.event(event);
        }
    }
}

/// Sends what is seen to a client. It runs while the switch is locked, so it asks nobody for anything.
struct Sender {
    frames: bool,
    vxlan_port: u16,
    clock: Arc<dyn Clock>,
    sink: StreamSink,
}

impl Sender {
    fn send(&self, at: &Sighting, what: &str, frame: &[u8]) {
        let nanos = self.clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut event = json!({
            "port": at.port,
            "direction": at.direction.to_string(),
            "packet": at.group,
            "at": u64::try_from(nanos).unwrap_or(u64::MAX),
            "what": what,
            "length": frame.len(),
            "offload": { "checksum": at.offload.checksum, "segment": at.offload.segment },
        });
        if self.frames
            && let Some(event) = event.as_object_mut()
        {
            let text = if at.offload.checksum {
                // Readers know nothing of what was left to an adapter.
                let mut packet = Packet::new(frame);
                packet.offload = at.offload;
                wire::offload::complete(&mut packet, self.vxlan_port);
                STANDARD.encode(packet.data())
            } else {
                STANDARD.encode(frame)
            };
            event.insert("frame".to_owned(), text.into());
        }
        // The stream's end takes this observer away.
        let _ = self.sink.send(&event);
    }
}

impl Observer for Sender {
    fn seen(&mut self, at: &Sighting, frame: &[u8]) {
        let what = match at.stage {
            Stage::Enter => "before the layers",
            Stage::Leave => "behind the layers",
        };
        self.send(at, what, frame);
    }

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, frame: &[u8]) {
        let by = rule.map(|rule| format!(": rule {} of {}/{}", rule.rule, rule.layer, rule.group));
        let what = format!("dropped: {reason}: {}{}", reason.explain(), by.unwrap_or_default());
        self.send(at, &what, frame);
    }
}

/// Sends what is seen at the ports of the switch until the client is gone.
pub(super) fn stream(node: &NodeAccess, frames: bool, sink: &StreamSink) {
    let vxlan_port = node.switch.with(|switch| switch.settings().vxlan_port);
    let sender = Sender { frames, vxlan_port, clock: Arc::clone(&node.clock), sink: sink.clone() };
    let watch = node.watchers.add(Box::new(sender));
    sink.on_close(move || drop(watch));
}
