//! A Windows node as a process: its HNS over a store, its switch, the pump that moves its frames, all of it served to
//! other processes.
//!
//! The process gets its devices from who started it, over the channel on its standard input, and gives up every
//! privilege before it reads a frame or lets a client in. It must not know Kubernetes or who its clients are.

mod messages;
mod seating;
mod service;
mod watch;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use hcn::time::{Clock, SeededEntropy, SystemClock};
use hns::faults::FaultPlan;
use hns::{Adapter, Hns, Options, StoreKind};
use hnsd::{Limits, Server};
use node::windows::SwitchHandle;

pub use messages::{FromNode, NodeConfig, SUPERVISOR, SeatSpec, ToNode, methods};
use seating::Sandboxes;
pub use service::{Extension, NoExtension, NodeAccess, SwitchPort};
pub use watch::{Watch, Watchers};

use crate::handover::Channel;
use crate::netns::Netns;
use crate::privileges;
use crate::pump::{Command, Handle, Parts, Pump};
use crate::shadow::{HostInterface, Shadow};
use crate::tap::Tap;

/// A node that does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Who started it says nothing, or nothing that makes sense.
    #[error("the channel to the supervisor: {0}")]
    Channel(#[source] io::Error),
    /// The first message is not the configuration.
    #[error("the supervisor's first message is no configuration; start a lab with `transom lab up`")]
    NoConfig,
    /// Part of the configuration is wrong.
    #[error("node {node}: {field}: {problem}")]
    Config {
        /// The node.
        node: String,
        /// Which part.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The HNS does not start.
    #[error("node {node}: {error}")]
    Open {
        /// The node.
        node: String,
        /// Why.
        error: Box<hns::OpenError>,
    },
    /// The server does not start.
    #[error("node {node}: {error}")]
    Serve {
        /// The node.
        node: String,
        /// Why.
        error: Box<hnsd::ServerError>,
    },
    /// A privilege could not be given up.
    #[error("node {node}: cannot give up {error}")]
    Privileges {
        /// The node.
        node: String,
        /// Which and why.
        error: privileges::PrivilegeError,
    },
    /// The system refuses something.
    #[error("node {node}: cannot {what}: {error}")]
    System {
        /// The node.
        node: String,
        /// What.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

fn wrong(config: &NodeConfig, field: &'static str, problem: &impl ToString) -> DaemonError {
    DaemonError::Config { node: config.name.clone(), field, problem: problem.to_string() }
}

fn system(config: &NodeConfig, what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    let node = config.name.clone();
    move |error| DaemonError::System { node, what, error }
}

fn options(
    config: &NodeConfig,
    clock: Arc<dyn Clock>,
    switch: Arc<SwitchHandle>,
) -> Result<Options, DaemonError> {
    let profile = config.profile.parse().map_err(|error| wrong(config, "profile", &error))?;
    let mut options = Options::new(profile);
    options.entropy = Arc::new(SeededEntropy::from_time(&*clock));
    options.clock = clock;
    options.store = StoreKind::File(config.state.clone());
    options.datapath = Some(switch);
    options.host.name.clone_from(&config.name);
    options.host.adapters = vec![Adapter {
        name: "Ethernet".to_owned(),
        mac: hcn::Mac::from_octets(config.mac.0),
        addresses: config.addresses.clone(),
    }];
    options.switches.apply_yaml(&config.switches).map_err(|error| wrong(config, "switches", &error))?;
    if let Some(faults) = &config.faults {
        options.faults = FaultPlan::from_yaml(faults).map_err(|error| wrong(config, "faults", &error))?;
    }
    Ok(options)
}

/// Runs a node until whoever started it closes the channel or tells it to stop. To be called before the process has
/// another thread: privileges are a thread's own.
pub fn run(channel: &Channel, extension: Arc<dyn Extension>) -> Result<(), DaemonError> {
    let config = match channel.receive::<ToNode>().map_err(DaemonError::Channel)? {
        Some((ToNode::Start(config), _)) => *config,
        Some(_) | None => return Err(DaemonError::NoConfig),
    };
    let outcome = serve(channel, &config, extension);
    if let Err(error) = &outcome {
        // Who started it may be gone; the error goes to the log, too.
        let _ = channel.send(&FromNode::Failed(error.to_string()), &[]);
    }
    outcome
}

fn serve(channel: &Channel, config: &NodeConfig, extension: Arc<dyn Extension>) -> Result<(), DaemonError> {
    let node = || config.name.clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let switch = Arc::new(SwitchHandle::default());
    let again = config.state.exists();
    if again {
        let resuming = switch.resume_connections(true).map_err(io::Error::other);
        resuming.map_err(system(config, "take up connections"))?;
    }
    let hns = Hns::open(options(config, Arc::clone(&clock), Arc::clone(&switch))?)
        .map_err(|error| DaemonError::Open { node: node(), error: Box::new(error) })?;
    let interface = HostInterface {
        mac: config.mac,
        addresses: config.addresses.clone(),
        routers: config.routers.clone(),
    };
    let (pump, handle) = Pump::new(Parts {
        hns: hns.clone(),
        switch: Arc::clone(&switch),
        shadow: Shadow::new(&config.name, &interface),
        clock: Arc::clone(&clock),
        entropy: Arc::new(SeededEntropy::from_time(&*clock)),
        resumes: again,
    })
    .map_err(system(config, "watch devices"))?;
    let access = NodeAccess {
        name: config.name.as_str().into(),
        hns,
        switch,
        clock,
        pump: handle.clone(),
        watchers: Watchers::new(handle.clone()),
    };
    let no_server = |error| DaemonError::Serve { node: node(), error: Box::new(error) };
    // Windows programs run in the host's namespace, and its loopback device is theirs.
    let listener = Netns::open(&config.namespace)
        .and_then(|namespace| namespace.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))))
        .map_err(io::Error::other)
        .flatten()
        .map_err(system(config, "listen in its namespace"))?;
    let sandboxes = Sandboxes::default();
    let service = service::NodeService::new(access, extension, sandboxes.clone());
    let server = Server::new(Arc::new(service), Limits::default())
        .unix(&config.socket)
        .map_err(no_server)?
        .tcp_listener(listener, &config.token)
        .map_err(no_server)?;
    let dropped =
        privileges::drop_all(config.user).map_err(|error| DaemonError::Privileges { node: node(), error })?;
    tracing::info!(node = config.name, %dropped, "Privileges are given up");
    let running = server.start().map_err(system(config, "start the server"))?;
    let (ended, pumped) = std::sync::mpsc::channel();
    thread::Builder::new()
        .name("pump".to_owned())
        .spawn(move || {
            let result = pump.run();
            // Nobody waits when the process ends first.
            let _ = ended.send(result);
        })
        .map_err(system(config, "start the thread that moves frames"))?;
    channel.send(&FromNode::Ready, &[]).map_err(DaemonError::Channel)?;
    obey(channel, &handle, &sandboxes)?;
    handle.tell(Command::Stop);
    if let Ok(result) = pumped.recv() {
        result.map_err(system(config, "move frames"))?;
    }
    running.shutdown(std::time::Duration::from_secs(2));
    Ok(())
}

/// Does what the supervisor says, until it says no more.
fn obey(channel: &Channel, pump: &Handle, sandboxes: &Sandboxes) -> Result<(), DaemonError> {
    while let Some((message, fds)) = channel.receive::<ToNode>().map_err(DaemonError::Channel)? {
        match message {
            ToNode::Attach { seat, abilities } => {
                let Some(fd) = fds.into_iter().next() else {
                    tracing::error!(?seat, "A device was announced and none came");
                    continue;
                };
                if !pump.tell(Command::Attach(seat, Tap::of(fd, abilities))) {
                    break;
                }
            }
            ToNode::Detach { seat } => {
                if !pump.tell(Command::Detach(seat)) {
                    break;
                }
            }
            ToNode::Sandboxes(now) => sandboxes.set(now),
            ToNode::Start(_) => tracing::error!("A second configuration is disregarded"),
            ToNode::Stop => break,
        }
    }
    Ok(())
}

/// Where a node's HNS keeps its objects.
pub fn state_file(folder: &std::path::Path) -> PathBuf {
    folder.join("hns.redb")
}
