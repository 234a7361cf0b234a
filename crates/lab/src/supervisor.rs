//! The process that keeps a lab: it makes namespaces and devices, starts a daemon and a proxy for each Windows node and
//! one responder for all pods, starts them again when they end, follows edits of the manifests, and ends with the lab.
//!
//! All state is one thread's; others send it events. It must not know what a proxy is: how one is started, and what Linux
//! nodes serve, comes from outside ([`Outside`]).

mod cluster;
mod control;
mod error;
mod keep;
mod messages;
mod notify;
mod process;
mod reconcile;
mod sandbox;
mod windows;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hcn::time::{Clock, SystemClock};
use hns::Profile;
use hnsd::{CallError, ErrorKind, Limits, Server};
use node::stack::ServiceRule;
use serde_json::{Value, json};
use services::{Change, Cluster};

pub use error::LabError;
pub use messages::{FromSupervisor, LabConfig, NodeStatus, PodStatus, ProcessStatus, Status, methods};

use crate::build::Difference;
use crate::handover::Channel;
use crate::names::Names;
use crate::plan::LabPlan;
use crate::record::{Process, Record};
use crate::responder::Sockets;
use control::{Control, Reply};
use error::Step as _;
use keep::{Kept, Part};
use windows::WindowsNode;

/// How often endpoints without devices are looked for, which others than the lab have made.
const LOOK: Duration = Duration::from_secs(2);

/// The same while a sandbox waits for an endpoint: whoever attaches one uses it next.
const LOOK_FOR_SANDBOXES: Duration = Duration::from_millis(100);

/// What a lab does not know.
pub trait Outside: Send {
    /// The build that a Node's label speaks of, such as `10.0.20348`.
    fn profile_of_build(&self) -> fn(&str) -> Profile;

    /// The frontends that a Linux node serves, of a cluster that consists of these changes.
    fn linux(&self, cluster: &Cluster, changes: &[Change]) -> BTreeMap<String, Vec<ServiceRule>>;

    /// The program of a Windows node's proxy: a client of the node's HNS that reads these manifests. It says `READY=1`
    /// to the socket that `NOTIFY_SOCKET` names when its first pass is done.
    fn proxy(&self, node: &str, hns: &Path, manifests: &Path, config: &LabConfig) -> Command;

    /// The program of a Windows node's daemon, which runs [`crate::daemon::run`] on its standard input.
    fn daemon(&self, node: &str) -> Command;

    /// The program of the responder, which runs [`crate::responder::run`] on its standard input.
    fn responder(&self) -> Command;
}

/// What is asked of a lab.
enum Order {
    Status,
    Apply,
    Restart { process: String, kill: bool },
    Lead { address: IpAddr, node: String },
    AddSandbox { name: String, node: String },
    RemoveSandbox { name: String },
    Stop,
}

/// What happens.
enum Event {
    /// Somebody asks for something.
    Order(Order, Reply),
    /// A process ended.
    Ended(u32, Option<ExitStatus>),
    /// A signal says that the lab is to end.
    Signal,
}

/// A lab.
struct Lab {
    names: Names,
    config: LabConfig,
    outside: Box<dyn Outside>,
    clock: Arc<dyn Clock>,
    events: Sender<Event>,
    record: Record,
    plan: Option<LabPlan>,
    windows: BTreeMap<String, WindowsNode>,
    responder: Option<Sockets>,
    kept: BTreeMap<Part, Kept>,
    /// Where packets for external and ingress addresses are led to, where somebody said so.
    led: BTreeMap<IpAddr, String>,
    vips: BTreeMap<IpAddr, String>,
    wanted: std::collections::BTreeSet<crate::responder::Wanted>,
    zone: crate::dns::Zone,
    problems: Vec<String>,
    looked: Duration,
}

/// Tells whoever started the lab; that may be gone.
struct Teller<'a>(&'a Channel);

impl Teller<'_> {
    fn step(&self, text: impl Into<String>) {
        let text = text.into();
        tracing::info!("{text}");
        let _ = self.0.send(&FromSupervisor::Step(text), &[]);
    }

    fn say(&self, message: &FromSupervisor) {
        let _ = self.0.send(message, &[]);
    }
}

/// Keeps a lab until it is told to end. `channel`: whoever starts it, who has sent the [`LabConfig`] and hears how it
/// comes up. `signals` is told where to send word of a signal.
pub fn run(
    channel: &Channel,
    outside: Box<dyn Outside>,
    signals: impl FnOnce(Box<dyn Fn() + Send>),
) -> Result<(), LabError> {
    let (config, _) = channel
        .receive::<LabConfig>()
        .step(|| "read the lab's configuration".to_owned())?
        .ok_or_else(|| LabError::new("read the lab's configuration", "start a lab with `transom lab up`"))?;
    let teller = Teller(channel);
    let outcome = keep(config, &teller, outside, signals);
    if let Err(error) = &outcome {
        teller.say(&FromSupervisor::Failed(error.to_string()));
    }
    outcome
}

fn keep(
    config: LabConfig,
    teller: &Teller<'_>,
    outside: Box<dyn Outside>,
    signals: impl FnOnce(Box<dyn Fn() + Send>),
) -> Result<(), LabError> {
    let name = config.name.parse().map_err(|error: String| LabError::new("make the lab", error))?;
    let names = Names::under(&config.run, name);
    let (events, inbox) = channel();
    let told = events.clone();
    signals(Box::new(move || {
        // Nobody listens when the lab has ended.
        let _ = told.send(Event::Signal);
    }));
    let control = Control { lab: config.name.clone(), events: events.clone() };
    let server = Server::new(Arc::new(control), Limits::default())
        .unix(&names.control())
        .step(|| "listen for orders".to_owned())?
        .start()
        .step(|| "listen for orders".to_owned())?;
    let mut record = Record::new(&names, config.network);
    let own = Process::of("supervisor", std::process::id()).step(|| "know its own process".to_owned())?;
    record.processes.push(own);
    record.save(&names).step(|| "write the lab's record".to_owned())?;
    let mut lab = Lab {
        names,
        config,
        outside,
        clock: Arc::new(SystemClock::default()),
        events,
        record,
        plan: None,
        windows: BTreeMap::new(),
        responder: None,
        kept: BTreeMap::new(),
        led: BTreeMap::new(),
        vips: BTreeMap::new(),
        wanted: std::collections::BTreeSet::new(),
        zone: crate::dns::Zone::default(),
        problems: Vec::new(),
        looked: Duration::ZERO,
    };
    let outcome = lab.reconcile(teller).and_then(|()| lab.await_proxies(teller, &inbox));
    match outcome {
        Ok(()) => {
            teller.say(&FromSupervisor::Ready(lab.status()));
            lab.serve(&inbox);
        }
        Err(error) => {
            lab.end_processes();
            return Err(error);
        }
    }
    lab.end_processes();
    server.shutdown(Duration::from_secs(1));
    Ok(())
}

impl Lab {
    /// Does what comes up, until the lab is to end.
    fn serve(&mut self, inbox: &Receiver<Event>) {
        loop {
            let now = self.clock.now();
            let due = self.next_restart().unwrap_or(now + LOOK).min(self.looked + self.look_period());
            match inbox.recv_timeout(due.saturating_sub(now)) {
                Ok(Event::Signal) => return,
                Ok(Event::Ended(pid, status)) => self.ended(pid, status),
                Ok(Event::Order(Order::Stop, reply)) => {
                    self.end_processes();
                    // Whoever asked may be gone.
                    let _ = reply.send(Ok(json!({})));
                    return;
                }
                Ok(Event::Order(order, reply)) => {
                    let answer = self.obey(order);
                    let _ = reply.send(answer);
                }
                Err(_) => {}
            }
            self.restart_due();
            self.look();
        }
    }

    fn obey(&mut self, order: Order) -> Result<Value, CallError> {
        match order {
            Order::Status => serde_json::to_value(self.status()).map_err(CallError::failed),
            Order::Apply => {
                let (own, _) = Channel::pair().map_err(CallError::failed)?;
                self.reconcile(&Teller(&own)).map_err(CallError::failed)?;
                Ok(json!({ "problems": self.problems }))
            }
            Order::Restart { process, kill } => self.restart(&process, kill),
            Order::Lead { address, node } => self.lead(address, &node),
            Order::AddSandbox { name, node } => self.add_sandbox(&name, &node),
            Order::RemoveSandbox { name } => self.remove_sandbox(&name),
            Order::Stop => Ok(json!({})),
        }
    }

    /// Leads packets for an address to a node.
    fn lead(&mut self, address: IpAddr, node: &str) -> Result<Value, CallError> {
        let Some(old) = self.plan.clone() else { return Err(CallError::failed("the lab has no plan")) };
        let mut new = old.clone();
        if !new.attract(address, node) {
            let why = format!("there is no node {node} with an address of the family of {address}");
            return Err(CallError::new(ErrorKind::Invalid, why));
        }
        let difference = Difference::new(&old, &new);
        crate::build::apply(&difference, &self.names, &mut self.record).map_err(CallError::failed)?;
        self.plan = Some(new);
        self.led.insert(address, node.to_owned());
        self.vips.insert(address, node.to_owned());
        Ok(json!({}))
    }

    /// Endpoints that others have made, or that HNS has lost, get and lose their devices.
    fn look(&mut self) {
        let now = self.clock.now();
        if now < self.looked + self.look_period() {
            return;
        }
        self.looked = now;
        for node in self.windows.values_mut() {
            if let Err(error) = node.seat() {
                tracing::debug!(%error, "Endpoints are looked for again");
            }
        }
        self.furnish_sandboxes();
    }

    fn look_period(&self) -> Duration {
        let waits = self.windows.values().any(WindowsNode::has_sandboxes);
        if waits { LOOK_FOR_SANDBOXES } else { LOOK }
    }

    fn status(&self) -> Status {
        let mut status = Status {
            name: self.config.name.clone(),
            network: self.config.network.kind.to_string(),
            dsr: self.config.dsr,
            vips: self.vips.clone(),
            problems: self.problems.clone(),
            processes: self.kept.iter().map(|(part, kept)| kept.status(part)).collect(),
            ..Status::default()
        };
        let Some(plan) = &self.plan else { return status };
        status.nodes.extend(plan.linux.iter().map(|node| NodeStatus {
            name: node.node.clone(),
            windows: false,
            profile: None,
            namespace: node.namespace.clone(),
            addresses: node.addresses.iter().map(ipnet::IpNet::addr).collect(),
            hns: None,
            token: None,
            port: None,
        }));
        status.nodes.extend(self.windows.values().map(|node| NodeStatus {
            name: node.plan.node.clone(),
            windows: true,
            profile: Some(node.config.profile.clone()),
            namespace: node.plan.namespace.clone(),
            addresses: node.plan.addresses.iter().map(ipnet::IpNet::addr).collect(),
            hns: Some(node.config.socket.clone()),
            token: Some(node.config.token.clone()),
            port: Some(node.plan.port.clone()),
        }));
        status.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        status.pods.extend(plan.pods.iter().map(|(name, place)| PodStatus {
            name: name.clone(),
            node: place.node.clone(),
            namespace: place.namespace.clone(),
            addresses: place.addresses.clone(),
            netns: None,
        }));
        status.pods.extend(self.sandbox_status());
        status
    }

    fn log_folder(&self) -> PathBuf {
        self.names.logs()
    }
}
