//! A whole cluster in memory with a proxy on every Windows node: what `trace`, `capture` and `vfp` look at, and what
//! the packet tests run on.
//!
//! It wires `services`, `node`, `hns` and `proxy` together and decides nothing itself.

mod change;
pub mod journey;
pub mod linux;
mod places;
pub mod record;

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use hcn::json::RawJson;
use hcn::modify::{EndpointResource, ModifyEndpoint, RequestType};
use hcn::policy::endpoint::{EndpointPolicy, NatFlags, OutboundNat};
use hcn::time::{Clock, ManualClock, SeededEntropy};
use hcn::{Endpoint, Hcn, HcnExt, Kind, Policy, Query};
use hns::faults::FaultPlan;
use hns::{Hns, Options, Profile};
use ipnet::IpNet;
use node::sim::{Agents, Client, Furnishing, Settings, Simulation};
use node::stack::{Route, ServiceRule};
use node::{NetworkKind, NodeSpec};
use proxy::{Config, Driver, Interface, NodeInput, Proxy};
use services::{Change, Cluster, IpFamily, Perspective};

use self::linux::LinuxViews;
pub use self::places::Places;
use crate::cli::traffic::{Flow, Origin};

/// How often a failing object is tried again before a proxy is taken as it is.
const TRIES: usize = 8;

/// How a world is made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The network and all chance.
    pub settings: Settings,
    /// Direct server return.
    pub dsr: bool,
    /// The Windows build of every node; none: what each Node says.
    pub profile: Option<Profile>,
    /// More of the proxies' settings; the network's name is filled in.
    pub config: Config,
    /// What goes wrong in every node's HNS.
    pub faults: Option<FaultPlan>,
    /// Pods may reach themselves through a Service: the CNI plugin's loopback option of DSR, an OutBoundNAT policy for
    /// the pod's own address.
    pub loopback: bool,
    /// Switches of every node's HNS, as a YAML mapping ([`hns::Switches::apply_yaml`]).
    pub switches: String,
}

impl Plan {
    /// A plan for a kind of network.
    pub fn new(kind: NetworkKind, dsr: bool) -> Self {
        Self {
            settings: Settings { kind, ..Settings::default() },
            dsr,
            profile: None,
            config: Config::default(),
            faults: None,
            loopback: false,
            switches: String::new(),
        }
    }
}

/// A proxy that stays with its node, so that changes can be applied later.
pub struct Running {
    driver: Driver,
    clock: ManualClock,
}

impl Running {
    /// Passes until HNS holds what is wanted, or what fails has failed a few times. Returns what still fails.
    pub fn bring(&mut self) -> Vec<String> {
        let mut report = self.driver.pass();
        for _ in 1..TRIES {
            if report.pending == 0 || report.failures.is_empty() && self.driver.proxy().is_ready() {
                break;
            }
            let wait = self.driver.next_wakeup().saturating_sub(self.clock.now());
            self.clock.advance(wait);
            report = self.driver.pass();
        }
        report.failures.iter().map(|failure| format!("{}: {}", failure.what, failure.error)).collect()
    }

    /// The driver.
    pub fn driver(&mut self) -> &mut Driver {
        &mut self.driver
    }
}

/// Puts a proxy on every Windows node.
struct Proxies<'a> {
    plan: &'a Plan,
    changes: &'a [Change],
    linux: &'a LinuxViews,
    running: BTreeMap<String, Running>,
    failures: Vec<String>,
}

impl Agents for Proxies<'_> {
    fn profile(&mut self, _: &str, build: Option<&str>) -> Profile {
        self.plan.profile.unwrap_or_else(|| build.map_or(Profile::Ws2022, profile_of_build))
    }

    fn options(&mut self, _: &str, options: &mut Options) {
        if let Some(faults) = &self.plan.faults {
            options.faults = faults.clone();
        }
        // Checked when the world was begun.
        if let Err(error) = options.switches.apply_yaml(&self.plan.switches) {
            self.failures.push(format!("switches: {error}"));
        }
    }

    fn program(&mut self, node: &Furnishing<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.plan.loopback {
            allow_loopback(node)?;
        }
        let mut running = start(self.plan, self.changes, node.node, node.hns);
        let name = node.node.name.to_string();
        self.failures.extend(running.bring().into_iter().map(|failure| format!("node {name}: {failure}")));
        self.running.insert(name, running);
        Ok(())
    }

    fn linux(&mut self, node: &str) -> Vec<ServiceRule> {
        self.linux.rules(node)
    }
}

/// What a CNI plugin's loopback option of DSR adds to each pod.
fn allow_loopback(node: &Furnishing<'_>) -> hcn::Result<()> {
    let hcn = node.hns.actor("cni");
    for (id, endpoint) in hcn.list::<Endpoint>(&Query::all())? {
        let is_pod =
            node.node.pods.iter().any(|pod| {
                pod.addresses.iter().any(|address| endpoint.addresses().any(|own| own == *address))
            });
        if endpoint.is_remote() || !is_pod {
            continue;
        }
        // A policy speaks of one family.
        let policies: Vec<Policy> = [NatFlags::default(), NatFlags::IPV6]
            .into_iter()
            .filter_map(|flags| {
                let v6 = flags == NatFlags::IPV6;
                let destinations: Vec<String> = endpoint
                    .addresses()
                    .filter(|own| own.is_ipv6() == v6)
                    .map(|own| own.to_string())
                    .collect();
                let nat = OutboundNat { destinations, flags, ..OutboundNat::default() };
                (!nat.destinations.is_empty()).then(|| EndpointPolicy::OutboundNat(nat).into())
            })
            .collect();
        let settings = serde_json::json!({ "Policies": policies });
        let request = ModifyEndpoint::new(EndpointResource::Policy, RequestType::Add, &settings);
        hcn.modify(Kind::Endpoint, id, RawJson::of(&request).get())?;
    }
    Ok(())
}

/// A proxy that has not run yet.
fn start(plan: &Plan, changes: &[Change], spec: &NodeSpec, hns: &Hns) -> Running {
    let clock = ManualClock::jumping();
    let perspective = Perspective::of_node(
        &*spec.name,
        [spec.addresses.first().map_or(IpFamily::V4, |&address| IpFamily::of(address))],
    );
    let config =
        Config { network_name: spec.network_name.clone(), enable_dsr: plan.dsr, ..plan.config.clone() };
    let hcn: Arc<dyn Hcn> = Arc::new(hns.actor("proxy"));
    let proxy = Proxy::new(
        hcn,
        Arc::new(clock.clone()),
        Arc::new(SeededEntropy::new(plan.settings.seed)),
        config,
        NodeInput::default(),
    );
    let interface = Interface {
        name: "vEthernet (Ethernet)".to_owned(),
        mac: hns::Mac::from_octets(spec.host_mac()).to_string(),
        addresses: spec.addresses.clone(),
    };
    let mut driver = Driver::new(Cluster::new(perspective.clone()), proxy, perspective, vec![interface]);
    for change in changes {
        driver.apply(change.clone());
    }
    Running { driver, clock }
}

/// The build that a Node's label speaks of, such as `10.0.20348`.
pub(crate) fn profile_of_build(build: &str) -> Profile {
    let number: u32 = build.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(20348);
    match number {
        0..20348 => Profile::Ws2019,
        20348..25398 => Profile::Ws2022,
        25398..=26100 => Profile::Ws2025,
        _ => Profile::Newest,
    }
}

/// A cluster in memory.
pub struct World {
    /// The machines.
    pub simulation: Simulation,
    /// The cluster's objects.
    pub cluster: Cluster,
    /// The proxies, by node.
    pub proxies: BTreeMap<String, Running>,
    /// What the Linux nodes see and serve.
    pub linux: LinuxViews,
    /// What the proxies could not bring about.
    pub failures: Vec<String>,
    plan: Plan,
    /// Every change so far: what a proxy that starts anew is told.
    changes: Vec<Change>,
}

impl World {
    /// Builds a cluster from the changes that its objects are.
    pub fn build(changes: &[Change], plan: &Plan) -> anyhow::Result<Self> {
        // The families that the nodes have, seen from no node in particular.
        hns::Switches::default().apply_yaml(&plan.switches).context("the switches of HNS")?;
        let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
        for change in changes {
            cluster.apply(change.clone());
        }
        let linux = LinuxViews::new(&cluster, changes);
        let mut proxies =
            Proxies { plan, changes, linux: &linux, running: BTreeMap::new(), failures: Vec::new() };
        let simulation = Simulation::new(&cluster, &plan.settings, &mut proxies)?;
        let (running, failures) = (proxies.running, proxies.failures);
        let (plan, changes) = (plan.clone(), changes.to_vec());
        Ok(Self { simulation, cluster, proxies: running, linux, failures, plan, changes })
    }

    /// The Windows nodes' names.
    pub fn windows_nodes(&self) -> Vec<String> {
        self.cluster.nodes().filter(|node| node.windows).map(|node| node.name.to_string()).collect()
    }

    /// The names of what is in the cluster.
    pub fn places(&self) -> Places<'_> {
        Places {
            cluster: &self.cluster,
            pods: self.simulation.pods().map(|(pod, _)| pod.to_owned()).collect(),
            nodes: self.simulation.nodes().map(str::to_owned).collect(),
        }
    }

    /// Who is meant by a place; `node`: the one of `--node`.
    pub fn client(&self, origin: &Origin, node: Option<&str>) -> anyhow::Result<Client> {
        self.places().client(origin, node)
    }

    /// The client and the destination of a flow. Addresses outside are led to `node`.
    pub fn resolve(&mut self, flow: &Flow, node: Option<&str>) -> anyhow::Result<(Client, SocketAddr)> {
        let places = self.places();
        let client = places.client(&flow.from, node)?;
        let target = places.target(&flow.to, flow.protocol)?;
        self.lead(target.ip(), node);
        Ok((client, target))
    }

    /// Gives the client outside one more address.
    pub fn outside_address(&mut self, address: IpAddr) -> anyhow::Result<()> {
        let host = IpNet::from(address);
        let owns = self.simulation.with_stack(&Client::Outside, |stack, _| {
            let own: Vec<IpAddr> = stack
                .interfaces()
                .flat_map(|interface| interface.addresses.iter().map(IpNet::addr))
                .filter(|own| own.is_ipv4() == address.is_ipv4())
                .collect();
            if !own.contains(&address) {
                stack.add_address(0, host);
            }
            own
        })?;
        let Some(via) = owns.first().copied().filter(|_| !owns.contains(&address)) else { return Ok(()) };
        let fabric = self.simulation.fabric_mut();
        let router = fabric.devices().find(|(_, name, _)| *name == "router").map(|(device, ..)| device);
        if let Some(router) = router {
            fabric.with(router, |machine, _, _| {
                if let Some(stack) = machine.stack_mut(None) {
                    stack.routes_mut().add(Route {
                        destination: host,
                        via: Some(via),
                        interface: 0,
                        metric: 0,
                    });
                }
            });
        }
        Ok(())
    }

    /// Leads an external or ingress address to a node: the asked one, else the first Windows node.
    pub fn lead(&mut self, vip: IpAddr, node: Option<&str>) {
        let is_vip = self.simulation.vips().any(|address| address == vip);
        let first = self.windows_nodes();
        if is_vip && let Some(node) = node.map(str::to_owned).or_else(|| first.first().cloned()) {
            self.simulation.attract(vip, &node);
        }
    }
}
