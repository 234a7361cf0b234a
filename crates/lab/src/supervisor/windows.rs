//! A Windows node as its supervisor has it: the daemon, the devices that are held open for it, and what a CNI plugin and
//! a route agent would have its HNS hold.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use hcn::api::V1Method;
use hcn::network::Network;
use hcn::policy::network::{DrMacAddress, NetworkPolicy};
use hcn::time::Clock;
use hcn::{Guid, Hcn, HcnExt, Query};
use hnsd::{Address, Options, Remote};
use ipnet::IpNet;
use node::{Egress, Furnisher, NetworkKind, NodeSpec};
use wire::Mac;

use super::error::{LabError, Step as _};
use super::sandbox::{Sandbox, Sandboxes};
use crate::daemon::{FromNode, NodeConfig, SUPERVISOR, SeatSpec, ToNode, methods};
use crate::handover::Channel;
use crate::plan::WindowsPlan;
use crate::pump::Seat;
use crate::seats;
use crate::tap::Tap;

/// How long a daemon may take to serve, and an HNS to have what a network gets by and by.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often is looked for the latter.
const LOOK: Duration = Duration::from_millis(50);

/// A device that is held open.
struct Held {
    tap: Tap,
    /// What it was made for; none: it is not an endpoint's.
    spec: Option<SeatSpec>,
}

impl Held {
    /// Whether it is in the sandbox that an endpoint is for.
    fn is_in(&self, other: &SeatSpec) -> bool {
        let own = self.spec.as_ref().and_then(|spec| spec.sandbox);
        own.is_some() && own == other.sandbox
    }
}

/// A Windows node.
pub(super) struct WindowsNode {
    pub(super) plan: WindowsPlan,
    pub(super) config: NodeConfig,
    channel: Option<Arc<Channel>>,
    told: Option<Receiver<FromNode>>,
    held: BTreeMap<Seat, Held>,
    remote: Remote,
    pub(super) sandboxes: Sandboxes,
}

impl WindowsNode {
    /// A node whose daemon does not run yet.
    pub(super) fn new(plan: WindowsPlan, config: NodeConfig) -> Self {
        // An HNS that hangs must not make the whole lab hang.
        let options = Options { timeout: Some(PATIENCE), ..Options::actor(SUPERVISOR) };
        let remote = Remote::new(Address::Unix(config.socket.clone()), options);
        Self {
            plan,
            config,
            channel: None,
            told: None,
            held: BTreeMap::new(),
            remote,
            sandboxes: Sandboxes::new(),
        }
    }

    /// Its HNS.
    pub(super) fn hcn(&self) -> Arc<dyn Hcn> {
        Arc::new(self.remote.clone())
    }

    /// Makes the devices that are there as long as the node is.
    pub(super) fn hold(&mut self, underlay: &str) -> Result<(), LabError> {
        let name = self.plan.node.clone();
        if !self.held.contains_key(&Seat::External) {
            let tap = seats::external(&self.plan, underlay).step(|| format!("plug in node {name}"))?;
            self.held.insert(Seat::External, Held { tap, spec: None });
        }
        if !self.held.contains_key(&Seat::Host) {
            let tap = seats::host(&self.plan).step(|| format!("give node {name} its interface"))?;
            self.held.insert(Seat::Host, Held { tap, spec: None });
        }
        Ok(())
    }

    /// The daemon's end of a new channel. What it is told first waits in it.
    pub(super) fn connect(&mut self) -> std::io::Result<Channel> {
        let (own, other) = Channel::pair()?;
        let own = Arc::new(own);
        own.send(&ToNode::Start(Box::new(self.config.clone())), &[])?;
        own.send(&ToNode::Sandboxes(self.sandboxes.keys().copied().collect()), &[])?;
        for (seat, held) in &self.held {
            attach(&own, *seat, &held.tap)?;
        }
        let (sender, told) = channel();
        let heard = Arc::clone(&own);
        thread::Builder::new().name("node".to_owned()).spawn(move || hear(&heard, &sender))?;
        self.channel = Some(own);
        self.told = Some(told);
        Ok(other)
    }

    /// Waits until the daemon serves.
    pub(super) fn wait(&mut self) -> Result<(), LabError> {
        let name = &self.plan.node;
        let Some(told) = &self.told else { return Ok(()) };
        match told.recv_timeout(PATIENCE) {
            Ok(FromNode::Ready) => {
                self.told = None;
                Ok(())
            }
            Ok(FromNode::Failed(why)) => Err(LabError::new(format!("start node {name}"), why)),
            Err(RecvTimeoutError::Disconnected) => {
                Err(LabError::new(format!("start node {name}"), "its process ended; its log tells why"))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(LabError::new(format!("start node {name}"), "it does not serve within a minute"))
            }
        }
    }

    /// The network, made without pods and without other nodes if it is not there, and the MAC of its distributed router,
    /// where it has one.
    pub(super) fn found(&self, clock: &dyn Clock) -> Result<Option<Mac>, LabError> {
        let name = &self.plan.node;
        let spec = NodeSpec { peers: Vec::new(), ..self.plan.spec.clone() };
        let networks = || -> Result<Vec<(Guid, Network)>, LabError> {
            let found = self.remote.list(&Query::by_name(&spec.network_name));
            found.step(|| format!("read the network of node {name}"))
        };
        // One that is there knows the other nodes: that must not be taken from it, not even for a moment.
        if networks()?.is_empty() {
            let furnisher = Furnisher::new(self.hcn()).without_pods();
            furnisher.furnish(&spec).step(|| format!("set node {name} up"))?;
        }
        let until = clock.now() + PATIENCE;
        loop {
            let Some((id, network)) = networks()?.into_iter().next() else {
                return Err(LabError::new(format!("set node {name} up"), "HNS has lost its network"));
            };
            let mac = network.policies.iter().find_map(|policy| match NetworkPolicy::decode(policy) {
                Ok(NetworkPolicy::DrMacAddress(DrMacAddress { address, .. })) => address.parse().ok(),
                _ => None,
            });
            // A distributed router comes with the management address; a bridge has only the latter.
            if mac.is_some() || spec.kind == NetworkKind::L2Bridge && self.is_managed(id)? {
                return Ok(mac);
            }
            if clock.now() > until {
                let why = "HNS gives its network no management address";
                return Err(LabError::new(format!("set node {name} up"), why));
            }
            clock.sleep(LOOK);
        }
    }

    /// Whether a network has its management address, without which HNS programs no host port.
    fn is_managed(&self, network: Guid) -> Result<bool, LabError> {
        #[derive(serde::Deserialize)]
        struct Told {
            #[serde(default, rename = "ManagementIP")]
            management: String,
        }
        let name = &self.plan.node;
        let told = self
            .remote
            .output_v1(V1Method::Get, &format!("/networks/{network}"), "")
            .step(|| format!("read the network of node {name}"))?;
        let told: Told =
            serde_json::from_str(told.get()).step(|| format!("read the network of node {name}"))?;
        Ok(!told.management.is_empty())
    }

    /// Everything else of the node: routes to the other nodes, pods. `tunnels`: the MACs of the other nodes' tunnels.
    pub(super) fn furnish(
        &mut self,
        tunnels: &BTreeMap<String, Mac>,
        egress: &Egress,
    ) -> Result<(), LabError> {
        let name = self.plan.node.clone();
        for peer in &mut self.plan.spec.peers {
            if let Some(mac) = tunnels.get(&*peer.name) {
                peer.tunnel_mac = mac.to_string();
            }
        }
        let mut egress = egress.clone();
        // The way back to the own node must not leave natively either.
        egress.encapsulated.extend(self.plan.addresses.iter().map(|net| IpNet::from(net.addr())));
        let furnisher = Furnisher::new(self.hcn()).with_egress(egress);
        furnisher.furnish(&self.plan.spec).step(|| format!("give node {name} its pods"))?;
        Ok(())
    }

    /// Gives each attached endpoint its device, and takes the devices of those that are gone.
    pub(super) fn seat(&mut self) -> Result<(), LabError> {
        let name = self.plan.node.clone();
        let wanted: Vec<SeatSpec> = self
            .remote
            .call_extension_as(methods::SEATS, &serde_json::json!({}))
            .step(|| format!("read the endpoints of node {name}"))?;
        let mut wanted: BTreeMap<Seat, SeatSpec> =
            wanted.into_iter().map(|spec| (Seat::Endpoint(spec.endpoint), spec)).collect();
        let stale: Vec<Seat> = self
            .held
            .iter()
            .filter(|(seat, held)| {
                let same = |spec: &SeatSpec| wanted.get(seat).is_some_and(|wanted| same_device(wanted, spec));
                held.spec.as_ref().is_some_and(|spec| !same(spec))
            })
            .map(|(seat, _)| *seat)
            .collect();
        for seat in stale {
            self.tell(&ToNode::Detach { seat });
            self.held.remove(&seat);
        }
        wanted.retain(|seat, _| !self.held.contains_key(seat));
        for (seat, spec) in wanted {
            let Some((namespace, accepted, mtu)) = self.place(&spec) else {
                tracing::debug!(node = name, endpoint = spec.name, "No pod of the lab has this endpoint");
                continue;
            };
            let nth = self.held.values().filter(|held| held.is_in(&spec)).count();
            let tap = seats::endpoint(&spec, &namespace, &accepted, mtu, nth)
                .step(|| format!("give endpoint {} of node {name} its interface", spec.name))?;
            if let Some(channel) = &self.channel {
                // A daemon that is gone gets all devices when it comes back.
                let _ = attach(channel, seat, &tap);
            }
            self.held.insert(seat, Held { tap, spec: Some(spec) });
        }
        Ok(())
    }

    /// Where an endpoint's device belongs: the namespace, addresses that it takes besides, the largest packet.
    fn place(&self, spec: &SeatSpec) -> Option<(String, Vec<IpAddr>, u16)> {
        if spec.host {
            return Some((self.plan.namespace.clone(), Vec::new(), self.plan.mtu));
        }
        if let Some(sandbox) = spec.sandbox.and_then(|id| self.sandboxes.get(&id)) {
            return Some((sandbox.namespace.clone(), Vec::new(), spec.mtu));
        }
        let pod = self.plan.pods.iter().find(|pod| pod.name == spec.name)?;
        Some((pod.namespace.clone(), pod.accepted.clone(), pod.mtu))
    }

    /// Takes over a new plan. Tells which namespaces' devices have to be made anew.
    pub(super) fn replan(&mut self, plan: WindowsPlan) {
        let gone = |name: &str| !plan.pods.iter().any(|pod| pod.name == name);
        let stale: Vec<Seat> = self
            .held
            .iter()
            .filter(|(_, held)| {
                let sandboxes = &self.sandboxes;
                let kept = |spec: &SeatSpec| spec.sandbox.is_some_and(|id| sandboxes.contains_key(&id));
                held.spec.as_ref().is_some_and(|spec| !spec.host && !kept(spec) && gone(&spec.name))
            })
            .map(|(seat, _)| *seat)
            .collect();
        for seat in stale {
            self.tell(&ToNode::Detach { seat });
            self.held.remove(&seat);
        }
        self.plan = plan;
    }

    pub(super) fn has_sandboxes(&self) -> bool {
        !self.sandboxes.is_empty()
    }

    /// Addresses and name servers of each sandbox.
    pub(super) fn sandbox_facts(&self) -> BTreeMap<Guid, (Vec<IpAddr>, Vec<IpAddr>)> {
        let mut facts: BTreeMap<Guid, (Vec<IpAddr>, Vec<IpAddr>)> =
            self.sandboxes.keys().map(|id| (*id, Default::default())).collect();
        for spec in self.held.values().filter_map(|held| held.spec.as_ref()) {
            if let Some((addresses, servers)) = spec.sandbox.and_then(|id| facts.get_mut(&id)) {
                addresses.extend(spec.addresses.iter().map(IpNet::addr));
                servers.extend(
                    spec.servers
                        .iter()
                        .filter(|server| !servers.contains(server))
                        .copied()
                        .collect::<Vec<_>>(),
                );
            }
        }
        facts
    }

    /// Takes the devices of a sandbox that goes.
    pub(super) fn leave_sandbox(&mut self, id: Guid) {
        let own = |held: &Held| held.spec.as_ref().is_some_and(|spec| spec.sandbox == Some(id));
        let seats: Vec<Seat> =
            self.held.iter().filter(|(_, held)| own(held)).map(|(seat, _)| *seat).collect();
        for seat in seats {
            self.tell(&ToNode::Detach { seat });
            self.held.remove(&seat);
        }
        self.sandboxes.remove(&id);
        self.tell_sandboxes();
    }

    /// A sandbox is there.
    pub(super) fn enter_sandbox(&mut self, id: Guid, sandbox: Sandbox) {
        self.sandboxes.insert(id, sandbox);
        self.tell_sandboxes();
    }

    fn tell_sandboxes(&self) {
        self.tell(&ToNode::Sandboxes(self.sandboxes.keys().copied().collect()));
    }

    pub(super) fn tell(&self, message: &ToNode) {
        if let Some(channel) = &self.channel {
            // A daemon that is gone is started anew and told everything.
            let _ = channel.send(message, &[]);
        }
    }
}

/// Whether a device that was made for one serves the other.
fn same_device(one: &SeatSpec, other: &SeatSpec) -> bool {
    (one.mac, &one.addresses, &one.gateways, one.host, &one.name, one.sandbox)
        == (other.mac, &other.addresses, &other.gateways, other.host, &other.name, other.sandbox)
}

fn attach(channel: &Channel, seat: Seat, tap: &Tap) -> std::io::Result<()> {
    channel.send(&ToNode::Attach { seat, abilities: tap.abilities() }, &[tap.as_fd()])
}

fn hear(channel: &Channel, sender: &Sender<FromNode>) {
    while let Ok(Some((message, _))) = channel.receive::<FromNode>() {
        if sender.send(message).is_err() {
            // Nobody waits any more; what comes is read so that the daemon never waits either.
        }
    }
}
