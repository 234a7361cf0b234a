//! A small world for tests: one emulated node with its HNS, a cluster that the test writes, a proxy, and a clock that
//! only the test moves. The addresses are those of the fixture in docs/scenarios.md.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "shared by several test programs, each of which uses a part"
)]

pub mod dump;
pub mod objects;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Feature, Features, Guid, Hcn};
use hns::{Hns, Options, Profile};
use node::{Furnisher, NetworkKind, NodeSpec};
use proxy::{Config, Driver, Interface, Proxy, Report};
use services::{Change, Cluster, IpFamily, Perspective};

/// The node under test.
pub const NODE: &str = "n1";

/// The names scenarios use for addresses.
pub fn address_book() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("N1", "192.0.2.11"),
        ("N2", "192.0.2.12"),
        ("N3", "192.0.2.13"),
        ("L1", "10.50.1.5"),
        ("L2", "10.50.1.6"),
        ("L3", "10.50.1.7"),
        ("L4", "10.50.1.8"),
        ("L5", "10.50.1.9"),
        ("R1", "10.50.2.5"),
        ("R2", "10.50.2.6"),
        ("R3", "10.50.2.7"),
        ("R4", "10.50.2.8"),
        ("S1", "10.50.3.5"),
        ("S2", "10.50.3.6"),
        ("OUT", "203.0.113.9"),
        ("VIP", "198.51.100.10"),
        ("SRC", "10.50.1.2"),
        ("DNS", "10.60.0.10"),
        ("N1v6", "2001:db8:1::11"),
        ("L1v6", "2001:db8:50:1::5"),
        ("L2v6", "2001:db8:50:1::6"),
        ("R1v6", "2001:db8:50:2::5"),
        ("R2v6", "2001:db8:50:2::6"),
        ("VIPv6", "2001:db8:77::10"),
    ])
}

/// Replaces a name by its address.
pub fn address(text: &str) -> IpAddr {
    let book = address_book();
    let text = book.get(text).copied().unwrap_or(text);
    text.parse().unwrap_or_else(|_| panic!("{text:?} is neither an address nor a name of the fixture"))
}

/// Replaces an address by its name.
pub fn name(address: IpAddr) -> String {
    let text = address.to_string();
    address_book().into_iter().find(|(_, known)| *known == text).map_or(text, |(name, _)| name.to_owned())
}

/// How a world is set up.
#[derive(Clone)]
pub struct Setup {
    pub profile: Profile,
    pub network: NetworkKind,
    /// Families of node and network.
    pub families: Vec<IpFamily>,
    pub config: Config,
    /// Pods on the node at the start, by fixture name.
    pub locals: Vec<String>,
    pub switches: Option<String>,
    pub zone: Option<String>,
    pub seed: u64,
    /// Stands between the proxy and HNS.
    pub wrap: Option<Wrap>,
    /// Calls in parallel are made by threads, and not one by one in an order by chance.
    pub threads: bool,
    /// The clock, when the test needs it before the world is there.
    pub clock: Option<ManualClock>,
}

/// Puts something between the proxy and HNS.
pub type Wrap = Arc<dyn Fn(Arc<dyn Hcn>) -> Arc<dyn Hcn> + Send + Sync>;

impl Default for Setup {
    fn default() -> Self {
        Self {
            profile: Profile::Ws2022,
            network: NetworkKind::L2Bridge,
            families: vec![IpFamily::V4],
            config: Config { network_name: "net".to_owned(), ..Config::default() },
            locals: Vec::new(),
            switches: None,
            zone: None,
            seed: 1,
            wrap: None,
            threads: false,
            clock: None,
        }
    }
}

/// The world.
pub struct World {
    pub clock: ManualClock,
    pub hns: Hns,
    pub driver: Driver,
    pub setup: Setup,
    pub locals: Vec<String>,
    pub cluster_objects: BTreeMap<String, services::Object>,
    pub proxy_runs: u64,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let clock = setup.clock.clone().unwrap_or_else(ManualClock::jumping);
        let hns = Hns::open(options(&setup, &clock)).expect("an emulated HNS in memory opens");
        let driver = driver(&setup, &hns, &clock, 0, &BTreeMap::new());
        let mut world = Self {
            clock,
            hns,
            driver,
            locals: setup.locals.clone(),
            setup,
            cluster_objects: BTreeMap::new(),
            proxy_runs: 0,
        };
        world.nodes();
        world.furnish();
        world
    }

    /// What a CNI plugin and a route agent do.
    pub fn furnish(&self) {
        let spec = self.spec();
        Furnisher::new(Arc::new(self.hns.actor("cni")) as Arc<dyn Hcn>)
            .furnish(&spec)
            .unwrap_or_else(|error| panic!("the node cannot be furnished: {error}"));
    }

    fn spec(&self) -> NodeSpec {
        // A CNI plugin gives a network both families only where HNS takes them.
        let version = self.hns.actor("cni").version().expect("HNS tells its version");
        let capable = Features::of(version).supports(Feature::IPv6DualStack);
        let dual_stack = capable && self.setup.families.len() > 1;
        let cluster = self.driver.cluster();
        let mut spec = NodeSpec::of(cluster, NODE, self.setup.network, "net", "cbr0", dual_stack)
            .expect("the fixture's node is complete");
        let ranges = spec.pod_cidrs.clone();
        let inside = |address: &IpAddr| ranges.iter().any(|range| range.contains(address));
        spec.pods = self
            .locals
            .iter()
            .map(|local| {
                let v6 = format!("{local}v6");
                let addresses = match &self.setup.families[..] {
                    _ if !address_book().contains_key(&*v6) => vec![address(local)],
                    families => families
                        .iter()
                        .map(|family| address(if *family == IpFamily::V4 { local } else { &v6 }))
                        .filter(inside)
                        .collect(),
                };
                node::PodSpec { name: format!("default/{local}"), addresses }
            })
            .collect();
        spec
    }

    fn nodes(&mut self) {
        for object in objects::nodes(&self.setup) {
            self.apply(Change::Set(object));
        }
    }

    pub fn apply(&mut self, change: Change) {
        match &change {
            Change::Set(object) => {
                self.cluster_objects.insert(object.reference().to_string(), object.clone());
            }
            Change::Delete(reference) => {
                self.cluster_objects.remove(&reference.to_string());
            }
        }
        self.driver.apply(change);
    }

    pub fn pass(&mut self) -> Report {
        self.driver.pass()
    }

    /// Ends the proxy's process and starts another over the same HNS and cluster.
    pub fn restart_proxy(&mut self) {
        self.proxy_runs += 1;
        self.driver = driver(&self.setup, &self.hns, &self.clock, self.proxy_runs, &self.cluster_objects);
    }

    /// A proxy of its own over the same HNS and cluster.
    pub fn another_driver(&self, setup: &Setup) -> Driver {
        driver(setup, &self.hns, &self.clock, self.proxy_runs + 1, &self.cluster_objects)
    }

    /// Passes, moving the clock to each wake-up, until nothing is left to do; at most `rounds`.
    pub fn settle(&mut self, rounds: usize) -> Report {
        let mut all = Report::default();
        for _ in 0..rounds {
            let report = self.pass();
            let quiet = report.is_settled() && report.changes.is_empty();
            all.changes.extend(report.changes);
            all.failures.extend(report.failures);
            all.repairs += report.repairs;
            all.pending = report.pending;
            all.conditions = report.conditions;
            if quiet {
                break;
            }
            self.to_next_wakeup();
        }
        all
    }

    pub fn to_next_wakeup(&self) {
        use hcn::time::Clock as _;
        let now = self.clock.now();
        let next = self.driver.next_wakeup();
        self.clock.advance(next.saturating_sub(now).clamp(Duration::from_millis(1), Duration::from_mins(5)));
    }

    /// A full check of HNS, whatever time it is.
    pub fn check(&mut self) -> Report {
        self.clock.advance(self.setup.config.sync_period);
        self.pass()
    }

    /// The host's interface has these addresses from now on.
    pub fn set_interfaces(&mut self, addresses: Vec<IpAddr>) {
        let mut interfaces = interfaces(&self.setup);
        interfaces[0].addresses = addresses;
        self.driver.set_interfaces(interfaces);
    }

    /// The HNS network's id.
    pub fn network(&self) -> Guid {
        dump::network(&self.hns)
    }
}

fn options(setup: &Setup, clock: &ManualClock) -> Options {
    let host = objects::host(setup);
    let mut options = Options::new(setup.profile);
    options.clock = Arc::new(clock.clone());
    options.entropy = Arc::new(SeededEntropy::new(setup.seed));
    options.host = host;
    if let Some(switches) = &setup.switches {
        options.switches.apply_yaml(switches).expect("the scenario's switches are valid");
    }
    options
}

fn driver(
    setup: &Setup,
    hns: &Hns,
    clock: &ManualClock,
    run: u64,
    objects: &BTreeMap<String, services::Object>,
) -> Driver {
    let perspective = Perspective {
        node: NODE.into(),
        zone: setup.zone.as_deref().map(Into::into),
        families: vec![IpFamily::V4],
        max_backends: None,
        allow_external_ips: true,
    };
    let hcn: Arc<dyn Hcn> = Arc::new(hns.actor("proxy"));
    let mut proxy = Proxy::new(
        setup.wrap.as_ref().map_or(Arc::clone(&hcn), |wrap| wrap(hcn)),
        Arc::new(clock.clone()),
        Arc::new(SeededEntropy::new(setup.seed ^ (run << 32))),
        setup.config.clone(),
        proxy::NodeInput::default(),
    );
    if !setup.threads {
        proxy.call_by_chance(Arc::new(SeededEntropy::new(setup.seed ^ (run << 32) ^ (1 << 16))));
    }
    let interfaces = interfaces(setup);
    let mut driver = Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces);
    for object in objects.values() {
        driver.apply(Change::Set(object.clone()));
    }
    driver
}

fn interfaces(setup: &Setup) -> Vec<Interface> {
    objects::host(setup)
        .adapters
        .iter()
        .map(|adapter| Interface {
            name: adapter.name.clone(),
            mac: adapter.mac.to_string(),
            addresses: adapter.addresses.iter().map(ipnet::IpNet::addr).collect(),
        })
        .collect()
}
