//! Both recorded clusters, on every Windows node: every Service from every kind of client, as a whole TCP or UDP
//! exchange. What must work does, by a backend that may serve it and with the client's address where it must be
//! kept; what must not is not answered. `MATRIX=1` prints the matrix that README shows.

mod expect;
mod table;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use node::app::{Request, Transport};
use node::sim::Client;
use node::{NetworkKind, NodeSpec};
use services::IpFamily;
use services::source::manifests::{Input, Manifests, Options, Touched};
use transom::world::{Plan, World};

use expect::{Ask, Expected};
use table::Table;

/// One emulated cluster.
#[derive(Clone, Copy)]
struct Setting {
    file: &'static str,
    kind: NetworkKind,
    dsr: bool,
}

const SETTINGS: [Setting; 6] = [
    Setting { file: "hybrid-overlay", kind: NetworkKind::Overlay, dsr: false },
    Setting { file: "hybrid-overlay", kind: NetworkKind::Overlay, dsr: true },
    Setting { file: "hybrid-overlay", kind: NetworkKind::L2Bridge, dsr: false },
    Setting { file: "hybrid-overlay", kind: NetworkKind::L2Bridge, dsr: true },
    Setting { file: "dualstack-l2bridge", kind: NetworkKind::L2Bridge, dsr: false },
    Setting { file: "dualstack-l2bridge", kind: NetworkKind::L2Bridge, dsr: true },
];

impl Setting {
    fn name(self) -> String {
        format!("{} on {}{}", self.file, self.kind, if self.dsr { " with DSR" } else { "" })
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let printed = std::env::var_os("MATRIX").is_some();
    let trials = SETTINGS
        .into_iter()
        .map(|setting| {
            Trial::test(setting.name().replace(' ', "-"), move || {
                let (table, wrong) = run(setting);
                if printed {
                    println!("{}\n\n{}", setting.name(), table.text());
                }
                if wrong.is_empty() {
                    return Ok(());
                }
                let count = wrong.len();
                let shown: Vec<String> = wrong.into_iter().take(40).collect();
                Err(Failed::from(format!("{count} of the exchanges ended wrongly:\n{}", shown.join("\n"))))
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn manifests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/clusters").join(format!("{file}.yaml"))
}

/// Runs every exchange of a setting; returns what is printed and what was wrong.
fn run(setting: Setting) -> (Table, Vec<String>) {
    let mut source = Manifests::new(vec![Input::Path(manifests(setting.file))], Options::default());
    let changes = source.refresh(&Touched::Everything).changes;
    let mut plan = Plan::new(setting.kind, setting.dsr);
    plan.loopback = true;
    let mut world = World::build(&changes, &plan).expect("the cluster can be built");
    let mut wrong = Vec::new();
    let mut table = Table::default();
    for node in world.windows_nodes() {
        let clients = clients(&world, &node);
        for ask in expect::asks(&mut world, &node) {
            // An address that is led to a node is led to this one.
            world.lead(ask.to.ip(), Some(&node));
            for client in &clients {
                let Some(expected) = expect::expected(&mut world, &node, client, &ask) else { continue };
                let seen = exchange(&mut world, client, &ask);
                let problem = expected.problem(&seen);
                table.add(&ask, client, &node, &expected, problem.is_none());
                if let Some(problem) = problem {
                    wrong.push(format!("{client} to {ask} by {node}: {problem}"));
                }
            }
        }
    }
    (table, wrong)
}

/// One client of each kind: a pod on each node, the hosts of the Windows nodes, and one outside.
fn clients(world: &World, node: &str) -> Vec<Client> {
    let mut clients = vec![Client::Outside];
    let nodes: Vec<String> = world.simulation.nodes().map(str::to_owned).collect();
    for name in &nodes {
        let is_windows = world.simulation.windows(name).is_some();
        let mut pods: Vec<&str> =
            world.simulation.pods().filter(|(_, on)| on == name).map(|(pod, _)| pod).collect();
        pods.sort_unstable();
        let own = |pod: &&&str| {
            let spec: Option<&NodeSpec> = world.simulation.spec(name);
            !is_windows || spec.is_some_and(|spec| spec.pods.iter().any(|asked| asked.name == ***pod))
        };
        clients.extend(pods.iter().find(own).map(|pod| Client::Pod((*pod).to_owned())));
        if is_windows || name == node {
            clients.push(Client::Node(name.clone()));
        }
    }
    clients
}

/// How an exchange ended: who answered and whom it saw.
pub(crate) struct Seen {
    pub(crate) outcome: node::app::Outcome,
    pub(crate) from: Option<std::net::SocketAddr>,
    to: std::net::SocketAddr,
}

impl Seen {
    /// What was asked.
    pub(crate) fn target(&self) -> std::net::SocketAddr {
        self.to
    }
}

fn exchange(world: &mut World, client: &Client, ask: &Ask) -> Seen {
    let transport = if ask.udp { Transport::Udp } else { Transport::Tcp };
    let exchange = world.simulation.exchange(client, Request::new(ask.to, transport)).expect("the client is there");
    if exchange.outcome.answer().is_none() {
        world.simulation.run_for(std::time::Duration::from_secs(60));
    }
    Seen { outcome: exchange.outcome, from: exchange.from, to: ask.to }
}

/// The families that a node serves.
pub(crate) fn families(spec: &NodeSpec) -> Vec<IpFamily> {
    let mut families: Vec<IpFamily> = spec.pod_cidrs.iter().map(IpFamily::of_net).collect();
    families.dedup();
    families
}
