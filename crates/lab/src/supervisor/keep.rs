//! The lab's processes: which there are, and that they are there.

use std::fmt;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use hnsd::{CallError, ErrorKind};
use serde_json::{Value, json};

use super::error::{LabError, Step as _};
use super::messages::ProcessStatus;
use super::notify::Notify;
use super::process::{self, Running};
use super::{Event, Lab, Teller};
use crate::responder::Sockets;

/// How long proxies may take for their first pass.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long the processes have to end by themselves.
const GRACE: Duration = Duration::from_secs(3);

/// The longest time between the end of a process and its next start.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A part of the lab that is a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// A Windows node's HNS and switch.
    Node(String),
    /// A Windows node's proxy.
    Proxy(String),
    /// What pods answer.
    Responder,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "hns-{node}"),
            Self::Proxy(node) => write!(f, "proxy-{node}"),
            Self::Responder => f.write_str("responder"),
        }
    }
}

/// A process that is kept.
#[derive(Debug)]
pub(super) struct Kept {
    running: Option<Running>,
    restarts: u32,
    /// When it was last started.
    started: Duration,
    /// How long it is waited before it is started again; doubled each time that it ends soon.
    pause: Duration,
    /// When it is started again.
    due: Option<Duration>,
    /// Where it says that it is ready.
    notify: Option<Notify>,
}

impl Kept {
    pub(super) fn status(&self, part: &Part) -> ProcessStatus {
        ProcessStatus {
            name: part.to_string(),
            pid: self.running.as_ref().map(|running| running.process.pid),
            restarts: self.restarts,
        }
    }
}

impl Lab {
    /// Starts a part that is not there.
    pub(super) fn start(&mut self, part: &Part) -> Result<(), LabError> {
        if self.kept.get(part).is_some_and(|kept| kept.running.is_some()) {
            return Ok(());
        }
        let mut notify = None;
        let (command, input): (Command, Option<OwnedFd>) = match part {
            Part::Node(name) => {
                let Some(node) = self.windows.get_mut(name) else { return Ok(()) };
                let other = node.connect().step(|| format!("start {part}"))?;
                (self.outside.daemon(name), Some(other.into()))
            }
            Part::Proxy(name) => {
                let manifests = self.names.manifests();
                let hns = self.names.hns_socket(name);
                let mut command = self.outside.proxy(name, &hns, &manifests, &self.config);
                let path = self.names.node_folder(name).join("proxy-ready.sock");
                let told = Notify::bind(&path).step(|| format!("start {part}"))?;
                command.env("NOTIFY_SOCKET", &path);
                notify = Some(told);
                (command, None)
            }
            Part::Responder => {
                let (own, other) = crate::handover::Channel::pair().step(|| format!("start {part}"))?;
                self.responder = Some(Sockets::new(own));
                (self.outside.responder(), Some(other.into()))
            }
        };
        let events = self.events.clone();
        let running =
            process::start(&part.to_string(), command, input, &self.log_folder(), move |pid, status| {
                // Nobody listens when the lab has ended.
                let _ = events.send(Event::Ended(pid, status));
            })
            .step(|| format!("start {part}"))?;
        self.record.processes.push(running.process.clone());
        self.record.save(&self.names).step(|| "write the lab's record".to_owned())?;
        let now = self.clock.now();
        let kept = self.kept.entry(part.clone()).or_insert(Kept {
            running: None,
            restarts: 0,
            started: now,
            pause: Duration::ZERO,
            due: None,
            notify: None,
        });
        kept.running = Some(running);
        kept.started = now;
        kept.due = None;
        kept.notify = notify;
        Ok(())
    }

    /// Takes note of a process that has ended.
    pub(super) fn ended(&mut self, pid: u32, status: Option<ExitStatus>) {
        let of_pid = |kept: &Kept| kept.running.as_ref().is_some_and(|running| running.process.pid == pid);
        self.record.processes.retain(|process| process.pid != pid);
        let Some((part, kept)) = self.kept.iter_mut().find(|(_, kept)| of_pid(kept)) else { return };
        let now = self.clock.now();
        let said = status.map_or_else(|| "nobody knows how".to_owned(), |status| status.to_string());
        tracing::warn!(process = %part, how = said, "A process has ended and is started again");
        kept.running = None;
        kept.restarts += 1;
        // One that ran for a while starts at once.
        kept.pause = if now.saturating_sub(kept.started) > LONGEST_PAUSE {
            Duration::ZERO
        } else {
            (kept.pause * 2).clamp(Duration::from_millis(200), LONGEST_PAUSE)
        };
        kept.due = Some(now + kept.pause);
    }

    pub(super) fn next_restart(&self) -> Option<Duration> {
        self.kept.values().filter_map(|kept| kept.due).min()
    }

    /// Starts what is due.
    pub(super) fn restart_due(&mut self) {
        let now = self.clock.now();
        let due: Vec<Part> = self
            .kept
            .iter()
            .filter(|(_, kept)| kept.due.is_some_and(|due| due <= now))
            .map(|(part, _)| part.clone())
            .collect();
        for part in due {
            let started = self.start(&part).and_then(|()| match part {
                Part::Responder => self.respond(),
                _ => Ok(()),
            });
            if let Err(error) = started {
                tracing::error!(%error, "A process is tried again later");
                if let Some(kept) = self.kept.get_mut(&part) {
                    kept.due = Some(now + LONGEST_PAUSE);
                }
            }
        }
    }

    /// Ends a process, so that it is started again.
    pub(super) fn restart(&mut self, name: &str, kill: bool) -> Result<Value, CallError> {
        let Some((_, kept)) = self.kept.iter().find(|(part, _)| part.to_string() == *name) else {
            let known: Vec<String> = self.kept.keys().map(ToString::to_string).collect();
            let why = format!("there is no process {name}; the lab has {}", known.join(", "));
            return Err(CallError::new(ErrorKind::Invalid, why));
        };
        let Some(running) = &kept.running else {
            return Err(CallError::failed(format!("{name} does not run; it is about to be started again")));
        };
        if kill {
            running.kill();
        } else {
            running.terminate();
        }
        Ok(json!({ "pid": running.process.pid }))
    }

    /// A part that the lab has no more.
    pub(super) fn drop_part(&mut self, part: &Part) {
        if let Some(running) = self.kept.remove(part).and_then(|kept| kept.running) {
            running.terminate();
        }
    }

    /// Waits until every proxy has made its first pass.
    pub(super) fn await_proxies(
        &mut self,
        teller: &Teller<'_>,
        inbox: &Receiver<Event>,
    ) -> Result<(), LabError> {
        if !self.config.proxies {
            return Ok(());
        }
        teller.step("Waiting for the proxies");
        let until = self.clock.now() + PATIENCE;
        loop {
            let waiting: Vec<String> = self
                .kept
                .iter_mut()
                .filter_map(|(part, kept)| {
                    let ready = kept.notify.as_mut().is_none_or(Notify::is_ready);
                    (!ready).then(|| part.to_string())
                })
                .collect();
            if waiting.is_empty() {
                return Ok(());
            }
            let now = self.clock.now();
            if now > until {
                let why = "no first pass within two minutes; their logs tell why";
                return Err(LabError::new(format!("start {}", waiting.join(", ")), why));
            }
            match inbox.recv_timeout(Duration::from_millis(20)) {
                Ok(Event::Ended(pid, status)) => {
                    self.ended(pid, status);
                    let ends = self.kept.values().map(|kept| kept.restarts).max().unwrap_or(0);
                    if ends > 5 {
                        let why = "a process ends again and again; its log tells why";
                        return Err(LabError::new("start the lab's processes", why));
                    }
                }
                Ok(Event::Signal | Event::Order(super::Order::Stop, _)) => {
                    return Err(LabError::new("start the lab", "it was told to end"));
                }
                Ok(Event::Order(..)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.restart_due();
        }
    }

    /// Ends all processes: the proxies first, so that they do not see their HNS go.
    pub(super) fn end_processes(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let running: Vec<Running> = kept.into_values().filter_map(|kept| kept.running).collect();
        for one in running.iter().rev() {
            one.terminate();
        }
        let until = self.clock.now() + GRACE;
        while running.iter().any(|one| one.process.is_alive()) && self.clock.now() < until {
            self.clock.sleep(Duration::from_millis(10));
        }
        for one in running.iter().filter(|one| one.process.is_alive()) {
            one.kill();
        }
    }
}
