//! What `trace`, `capture` and `vfp` share: the cluster in memory and the exchanges that are run in it.

use anyhow::bail;
use node::app::{Exchange, Request, Transport};
use node::sim::{Client, Settings};

use super::session::Asked;
use crate::cli::hns_at::HnsAt;
use crate::cli::inputs::NodeArgs;
use crate::cli::traffic::{ClusterArgs, Flow, Origin, Protocol, SimulationArgs};
use crate::exit::Exit;
use crate::world::{Plan, World};

/// A cluster in memory, as the command line asks for it.
pub(super) struct Simulated {
    pub(super) world: World,
    pub(super) plan: Plan,
    /// `--node`, else the only Windows node.
    pub(super) node: Option<String>,
    pub(super) exit: Exit,
}

impl Simulated {
    pub(super) fn open(
        input: &ClusterArgs,
        node: &NodeArgs,
        simulation: &SimulationArgs,
    ) -> anyhow::Result<Self> {
        if node.state.is_some() {
            bail!("--state keeps one node's HNS; this command makes a whole cluster in memory: leave it out");
        }
        let asked = Asked {
            manifests: &input.manifests,
            options: &input.common,
            node,
            hns: &HnsAt::Emulated,
            settings: None,
            engine: None,
        };
        let loaded = asked.load()?;
        let kind = asked.kind();
        let plan = Plan {
            settings: Settings { kind, seed: simulation.seed, ..Settings::default() },
            profile: asked.asked_profile(),
            faults: asked.faults()?,
            ..Plan::new(kind, simulation.enable_dsr)
        };
        let world = World::build(&loaded.changes, &plan)?;
        let windows = world.windows_nodes();
        let node = match &input.common.node {
            Some(name) if windows.contains(name) => Some(name.clone()),
            Some(name) => bail!("there is no Windows node {name}; Windows nodes: {}", windows.join(", ")),
            None => windows.first().filter(|_| windows.len() == 1).cloned(),
        };
        let exit =
            if input.common.strict && loaded.problems > 0 { Exit::InputProblems } else { Exit::Success };
        for failure in &world.failures {
            tracing::warn!(failure, "A proxy could not bring HNS to what is wanted");
        }
        Ok(Self { world, plan, node, exit })
    }

    /// Runs an exchange.
    pub(super) fn run(&mut self, flow: &Flow) -> anyhow::Result<Exchange> {
        let (client, request) = self.request(flow)?;
        Ok(self.world.simulation.exchange(&client, request)?)
    }

    /// Who asks whom.
    pub(super) fn request(&mut self, flow: &Flow) -> anyhow::Result<(Client, Request)> {
        let (client, target) = self.world.resolve(flow, self.node.as_deref())?;
        let transport = match flow.protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
        };
        let mut request = Request::new(target, transport);
        if let Origin::External(Some(address)) = flow.from {
            self.world.outside_address(address)?;
            request.from = Some(address);
        }
        Ok((client, request))
    }
}
