//! Puts one run together: manifests → cluster → emulated node → proxy. Every command that works on a node starts
//! here, so that they all see the same.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use hcn::time::{Clock, SeededEntropy, SystemClock};
use hcn::{Feature, Hcn, Version};
use hns::faults::FaultPlan;
use hns::{Adapter, DynamicPorts, Hns, Mac, Options, Profile, StoreKind};
use ipnet::IpNet;
use node::{NetworkKind, NodeSpec};
use proxy::meter::{Metered, Watch};
use proxy::status::{ConditionReason, ProxyCondition};
use proxy::{Config, Driver, Interface, Proxy};
use services::source::manifests::{self, Input, Manifests, Touched};
use services::{Change, Cluster, IpFamily, Perspective};

use super::live_cluster::engine;
use super::node_hns::{NodeHns, OtherHns};
use crate::cli::hns_at::HnsAt;
use crate::cli::inputs::{self, InputOptions, NetworkType, NodeArgs};
use crate::cli::kube_proxy::EngineArgs;
use crate::cli::values::ManifestPath;
use crate::exit::Exit;
use crate::paths;
use crate::startup::{self, NetworkPattern, State};
use crate::world::profile_of_build;
use proxy_config::ProxySettings;

/// What the command line says of the cluster and the node.
pub(super) struct Asked<'a> {
    pub(super) manifests: &'a [ManifestPath],
    pub(super) options: &'a InputOptions,
    pub(super) node: &'a NodeArgs,
    /// Which HNS.
    pub(super) hns: &'a HnsAt,
    /// What the flags and a configuration file say.
    pub(super) settings: Option<&'a ProxySettings>,
    /// What kube-proxy has no flags for.
    pub(super) engine: Option<&'a EngineArgs>,
}

/// The cluster as read, before anything is done with it.
pub(super) struct Loaded {
    pub(super) manifests: Manifests,
    pub(super) cluster: Cluster,
    /// Every change that was read, for a driver of its own.
    pub(super) changes: Vec<Change>,
    pub(super) problems: usize,
}

/// A node that is set up and a proxy that has not run yet.
pub(super) struct Session {
    pub(super) hns: NodeHns,
    pub(super) driver: Driver,
    pub(super) spec: NodeSpec,
    pub(super) furnished: node::Furnished,
    /// What names the network of an HNS that others set up.
    pattern: Option<NetworkPattern>,
    /// The manifests, until somebody takes them to watch them.
    pub(super) manifests: Option<Manifests>,
    pub(super) problems: usize,
    pub(super) strict: bool,
    pub(super) watch: Watch,
    pub(super) clock: Arc<dyn Clock>,
}

/// Waits until the network of an HNS that others set up is there, and says what it waits for whenever that changes.
/// False when `pause` has ended the waiting.
pub(super) fn await_network(
    hcn: &dyn Hcn,
    pattern: &NetworkPattern,
    pause: impl FnMut(Duration) -> bool,
) -> anyhow::Result<bool> {
    let found = startup::await_network(hcn, pattern, pause, |state| match state {
        State::Found(name) => tracing::info!(network = %name, "The HNS network is there"),
        State::Ambiguous { .. } => {}
        State::Missing { .. } | State::Unknown(_) => tracing::warn!(%state, "Waiting for the HNS network"),
    });
    match found {
        Some(State::Found(_)) => Ok(true),
        Some(state) => bail!("{state}"),
        None => Ok(false),
    }
}

impl Asked<'_> {
    /// Reads the manifests and says what is wrong in them.
    pub(super) fn load(&self) -> anyhow::Result<Loaded> {
        let inputs: Vec<Input> = self
            .manifests
            .iter()
            .map(|path| match path {
                ManifestPath::StandardInput => Input::Stdin,
                ManifestPath::Path(path) => Input::Path(paths::resolve(path)),
            })
            .collect();
        let options = manifests::Options { max_bytes: self.options.max_manifest_bytes };
        let mut manifests = Manifests::new(inputs, options);
        let update = manifests.refresh(&Touched::Everything);
        report_problems(&update.problems);
        let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4]));
        for change in &update.changes {
            cluster.apply(change.clone());
        }
        if update.changes.is_empty() && !self.manifests.is_empty() {
            bail!("the manifests hold no Service, EndpointSlice, Node or Pod");
        }
        Ok(Loaded { manifests, cluster, changes: update.changes, problems: update.problems.len() })
    }

    /// The node's name: as asked, else the only Windows node.
    fn node_name(&self, cluster: &Cluster) -> anyhow::Result<String> {
        let asked = self
            .options
            .node
            .as_deref()
            .or(self.settings.and_then(|settings| settings.hostname_override.as_deref()));
        if let Some(name) = asked {
            return Ok(name.to_owned());
        }
        let windows: Vec<&str> =
            cluster.nodes().filter(|node| node.windows).map(|node| &*node.name).collect();
        match windows[..] {
            [only] => Ok(only.to_owned()),
            [] => bail!("the manifests hold no Windows Node (label kubernetes.io/os: windows)"),
            _ => bail!(
                "there are {} Windows nodes; choose one with --node: {}",
                windows.len(),
                windows.join(", ")
            ),
        }
    }

    pub(super) fn kind(&self) -> NetworkKind {
        match self.node.network {
            NetworkType::Overlay => NetworkKind::Overlay,
            NetworkType::L2bridge => NetworkKind::L2Bridge,
        }
    }

    /// What names the HNS network of an HNS that others set up: a name or a pattern.
    pub(super) fn network_pattern(&self) -> anyhow::Result<NetworkPattern> {
        Ok(NetworkPattern::parse(&self.network_name())?)
    }

    /// The network's name there, as far as one look shows. A name is taken as it is when it is not there: the proxy
    /// waits for it. A pattern cannot be.
    fn network_of(&self, hcn: &dyn Hcn) -> anyhow::Result<(String, NetworkPattern)> {
        let pattern = self.network_pattern()?;
        match startup::look(hcn, &pattern) {
            State::Found(name) => Ok((name, pattern)),
            State::Missing { .. } | State::Unknown(_) if pattern.is_exact() => {
                Ok((pattern.text().to_owned(), pattern))
            }
            state => bail!("{state}"),
        }
    }

    fn root_endpoint_name(&self) -> &str {
        self.settings.map_or(proxy_config::defaults::ROOT_ENDPOINT, |settings| &settings.root_endpoint_name)
    }

    fn network_name(&self) -> String {
        // The names Flannel's manifests use on Windows.
        let default = match self.kind() {
            NetworkKind::Overlay => "vxlan0",
            NetworkKind::L2Bridge => "cbr0",
        };
        self.settings.and_then(|settings| settings.network_name.as_deref()).unwrap_or(default).to_owned()
    }

    /// Opens the emulated HNS alone: what `--state` names, or an empty one.
    pub(super) fn open_hns(&self, profile: Profile, spec: Option<&NodeSpec>) -> anyhow::Result<Hns> {
        self.open_hns_at(profile, spec, self.node.state.as_deref())
    }

    /// The same with the state in another place.
    pub(super) fn open_hns_at(
        &self,
        profile: Profile,
        spec: Option<&NodeSpec>,
        state: Option<&Path>,
    ) -> anyhow::Result<Hns> {
        let mut options = Options::new(profile);
        options.store = state.map_or(StoreKind::Memory, |path| StoreKind::File(path.to_owned()));
        if let Some(faults) = self.faults()? {
            options.faults = faults;
        }
        if let Some(spec) = spec {
            options.host.name = spec.name.to_string();
            options.host.adapters = vec![adapter(spec)];
        }
        Ok(Hns::open(options)?)
    }

    /// The faults that are asked for.
    pub(super) fn faults(&self) -> anyhow::Result<Option<FaultPlan>> {
        let Some(path) = &self.node.faults else { return Ok(None) };
        let text = std::fs::read_to_string(paths::resolve(path))
            .with_context(|| format!("fault plan {}", path.display()))?;
        Ok(Some(FaultPlan::from_yaml(&text).with_context(|| format!("fault plan {}", path.display()))?))
    }

    /// The build that is emulated.
    pub(super) fn profile(&self, build: Option<&str>) -> Profile {
        self.asked_profile().unwrap_or_else(|| build.map_or(Profile::Ws2022, profile_of_build))
    }

    /// The build that `--profile` asks for.
    pub(super) fn asked_profile(&self) -> Option<Profile> {
        Some(match self.node.profile? {
            inputs::Profile::Ws2019 => Profile::Ws2019,
            inputs::Profile::Ws2022 => Profile::Ws2022,
            inputs::Profile::Ws2025 => Profile::Ws2025,
            inputs::Profile::Newest => Profile::Newest,
        })
    }

    /// The emulated HNS of a node that is set up as the manifests describe it, without a proxy.
    #[cfg(unix)]
    pub(super) fn furnished(&self) -> anyhow::Result<Hns> {
        let loaded = self.load()?;
        let name = self.node_name(&loaded.cluster)?;
        let build = loaded.cluster.node(&name).and_then(|node| node.build.clone());
        let profile = self.profile(build.as_deref());
        let dual_stack = profile.version().supports(Feature::IPv6DualStack);
        let root = self.root_endpoint_name();
        let spec = NodeSpec::of(&loaded.cluster, &name, self.kind(), &self.network_name(), root, dual_stack)?;
        let hns = self.open_hns(profile, Some(&spec))?;
        node::Furnisher::new(Arc::new(hns.actor("cni"))).furnish(&spec)?;
        Ok(hns)
    }

    /// Sets the node up and puts a proxy beside it. `wrap` may put something between the proxy and HNS.
    pub(super) fn session(&self, wrap: impl FnOnce(Arc<dyn Hcn>) -> Arc<dyn Hcn>) -> anyhow::Result<Session> {
        self.session_at(self.node.state.as_deref(), wrap)
    }

    /// The same with the state in another place.
    pub(super) fn session_at(
        &self,
        state: Option<&Path>,
        wrap: impl FnOnce(Arc<dyn Hcn>) -> Arc<dyn Hcn>,
    ) -> anyhow::Result<Session> {
        let loaded = self.load()?;
        let name = self.node_name(&loaded.cluster)?;
        let root = self.root_endpoint_name();
        let build = loaded.cluster.node(&name).and_then(|node| node.build.clone());
        let spec = |version: Version, network: &str| {
            let dual_stack = version.supports(Feature::IPv6DualStack);
            NodeSpec::of(&loaded.cluster, &name, self.kind(), network, root, dual_stack)
        };
        let mut pattern = None;
        let (hns, spec) = if let Some(other) = OtherHns::open(self.hns, "proxy")? {
            let version = other.version()?;
            let (network, found_by) = self.network_of(&*other.actor("proxy"))?;
            pattern = Some(found_by);
            (NodeHns::Other(other, version), spec(version, &network)?)
        } else {
            let profile = self.profile(build.as_deref());
            let spec = spec(profile.version(), &self.network_name())?;
            (NodeHns::Emulated(self.open_hns_at(profile, Some(&spec), state)?, profile), spec)
        };
        let furnished = hns.furnish(&spec)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let metered = Metered::new(wrap(hns.actor("proxy")), Arc::clone(&clock));
        let watch = metered.watch();
        let perspective = Perspective {
            allow_external_ips: self
                .settings
                .is_none_or(|settings| settings.gates.allow_service_external_ips()),
            ..Perspective::of_node(&*name, [IpFamily::of(spec.addresses[0])])
        };
        let mut config = self.config(&spec);
        if let Some(pattern) = &pattern {
            startup::settle(&mut config, pattern, &spec.network_name);
        }
        let proxy = Proxy::new(
            Arc::new(metered),
            Arc::clone(&clock),
            Arc::new(SeededEntropy::from_time(&*clock)),
            config,
            proxy::NodeInput::default(),
        );
        let mut driver =
            Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces(&spec));
        for change in loaded.changes {
            driver.apply(change);
        }
        driver.set_primary_address(self.settings.and_then(|settings| settings.node_ip));
        Ok(Session {
            hns,
            driver,
            spec,
            furnished,
            pattern,
            manifests: Some(loaded.manifests),
            problems: loaded.problems,
            strict: self.options.strict,
            watch,
            clock,
        })
    }

    fn config(&self, spec: &NodeSpec) -> Config {
        // The emulated host's range, so that its last blocks can be kept for DNS.
        let range = DynamicPorts::default().tcp;
        let dynamic_ports = Some(u32::from(range.end() - range.start()) + 1);
        let (Some(settings), Some(engine)) = (self.settings, self.engine) else {
            return Config { network_name: spec.network_name.clone(), dynamic_ports, ..Config::default() };
        };
        Config { network_name: spec.network_name.clone(), dynamic_ports, ..engine::config(settings, engine) }
    }
}

impl Session {
    /// The outcome as far as the input goes.
    pub(super) fn input_exit(&self) -> Exit {
        if self.strict && self.problems > 0 { Exit::InputProblems } else { Exit::Success }
    }

    /// Looks for the network anew when a pattern names it and it is gone: the CNI may have made another one. True when
    /// there is one, for which a pass is worth while.
    pub(super) fn follow_network(&mut self) -> bool {
        let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_exact()) else { return false };
        let gone = |condition: &ProxyCondition| condition.reason == ConditionReason::NetworkMissing;
        if !self.driver.proxy().conditions().any(gone) {
            return false;
        }
        match startup::look(&*self.hns.actor("proxy"), pattern) {
            State::Found(name) if name != self.spec.network_name => {
                tracing::info!(old = %self.spec.network_name, new = %name, "The HNS network has another name now");
                let mut config = self.driver.proxy().config().clone();
                startup::settle(&mut config, pattern, &name);
                self.spec.network_name = name;
                self.driver.proxy_mut().set_config(config);
                true
            }
            State::Ambiguous { wanted, networks } => {
                let state = State::Ambiguous { wanted, networks };
                tracing::error!(%state, "It is not clear which HNS network is meant");
                false
            }
            // The proxy's own condition says that it is missing, or that HNS does not answer.
            State::Found(_) | State::Missing { .. } | State::Unknown(_) => false,
        }
    }

    /// Makes HNS follow the cluster's pods and nodes, as a CNI plugin and a route agent would.
    pub(super) fn refurnish(&mut self) -> anyhow::Result<()> {
        let spec = NodeSpec::of(
            self.driver.cluster(),
            &self.spec.name,
            self.spec.kind,
            &self.spec.network_name,
            &self.spec.root_endpoint,
            self.spec.dual_stack,
        )?;
        if spec != self.spec {
            self.hns.furnish(&spec)?;
            self.spec = spec;
        }
        Ok(())
    }
}

/// Says what is wrong in the manifests, one line each, on standard error.
pub(super) fn report_problems(problems: &[manifests::Problem]) {
    let mut stderr = std::io::stderr().lock();
    for problem in problems {
        // Nothing is left to say it to when standard error is closed.
        let _ = writeln!(stderr, "{problem}");
    }
}

fn adapter(spec: &NodeSpec) -> Adapter {
    let net = |address: &IpAddr| {
        let length = if address.is_ipv4() { 24 } else { 64 };
        // The length is right for its family by construction.
        IpNet::new(*address, length).unwrap_or_else(|_| IpNet::from(*address))
    };
    Adapter {
        name: "Ethernet".to_owned(),
        mac: Mac::from_octets(spec.host_mac()),
        addresses: spec.addresses.iter().map(net).collect(),
    }
}

fn interfaces(spec: &NodeSpec) -> Vec<Interface> {
    vec![Interface {
        name: "vEthernet (Ethernet)".to_owned(),
        mac: Mac::from_octets(spec.host_mac()).to_string(),
        addresses: spec.addresses.clone(),
    }]
}
