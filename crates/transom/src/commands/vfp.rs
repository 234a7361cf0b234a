//! `transom vfp`: the virtual switch of one node, in tables, in documents of our own, or as `vfpctrl` prints it.
//!
//! What is asked is a value ([`Ask`]) and so is the answer, so that a node of a lab answers in its own process.

mod documents;
mod tables;

use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;
use vfp::Switch;
use vfp::dump::{BindingDump, GroupDump, LayerDump, PoolDump, PortDump};
use vfp::model::PortKind;
use vfpctrl::{Command, CtrlError, Verb};

use self::tables::Section;
use super::lab;
use super::render;
use super::simulated::Simulated;
use crate::cli::Output;
use crate::cli::traffic::{VfpAction, VfpCommand, VfpFormat, VfpShow, VfpTarget};
use crate::exit::Exit;

/// What is asked of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ask {
    /// Something is to be shown.
    Show(Show),
    /// Which rules a flow's first packet would hit.
    ProcessTuples { port: String, tuple: Vec<String> },
    /// A command line of the tool.
    Ctrl { words: Vec<String> },
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum What {
    Ports,
    Layers,
    Groups,
    Rules,
    Flows,
    Counters,
    Nat,
}

/// One view of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Show {
    pub(super) what: What,
    pub(super) port: Option<String>,
    pub(super) layer: Option<String>,
    pub(super) group: Option<String>,
    pub(super) format: VfpFormat,
}

impl Show {
    fn of(what: What, show: &VfpShow) -> Self {
        Self {
            what,
            port: show.port.clone(),
            layer: show.layer.clone(),
            group: show.group.clone(),
            format: show.format,
        }
    }
}

/// What is printed, and whether the tool calls it an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) failed: bool,
}

impl Answer {
    fn good(text: String) -> Self {
        Self { text, failed: false }
    }
}

impl Ask {
    fn of(action: &VfpAction) -> (Self, &VfpTarget) {
        let show = |what, show| (Self::Show(Show::of(what, show)), &show.target);
        match action {
            VfpAction::Ports(of) => show(What::Ports, of),
            VfpAction::Layers(of) => show(What::Layers, of),
            VfpAction::Groups(of) => show(What::Groups, of),
            VfpAction::Rules(of) => show(What::Rules, of),
            VfpAction::Flows(of) => show(What::Flows, of),
            VfpAction::Counters(of) => show(What::Counters, of),
            VfpAction::Nat(of) => show(What::Nat, of),
            VfpAction::ProcessTuples(of) => {
                let (port, tuple) = (of.port.clone(), of.tuple.clone());
                (Self::ProcessTuples { port, tuple }, &of.target)
            }
            VfpAction::Ctrl(of) => (Self::Ctrl { words: of.words.clone() }, &of.target),
        }
    }

    /// Asks a switch.
    pub(super) fn answer(&self, switch: &mut Switch, names: &Names, now: Duration) -> anyhow::Result<Answer> {
        match self {
            Self::Show(show) => show.answer(switch, names, now),
            Self::ProcessTuples { port, tuple } => {
                let port = names.find(switch, port)?;
                let command = Command {
                    port: Some(port.to_string()),
                    argument: Some(tuple.join(" ")),
                    ..Command::new(Verb::ProcessTuples)
                };
                let text = vfpctrl::execute(switch, &command, now)?;
                Ok(Answer::good(text.replace("\r\n", "\n")))
            }
            Self::Ctrl { words } => {
                let words = names.translate(switch, words);
                // The errors are the tool's own, in its form and where it writes them.
                Ok(match vfpctrl::run(switch, &words, now) {
                    Ok(text) => Answer::good(text),
                    Err(error) => Answer { text: format!("ERROR: {error}\r\n"), failed: true },
                })
            }
        }
    }
}

pub(super) fn run(command: &VfpCommand) -> anyhow::Result<Exit> {
    let (ask, target) = Ask::of(&command.action);
    let (answer, exit) = match &target.input.lab {
        Some(lab) => (lab::vfp(lab, target, &ask)?, Exit::Success),
        None => in_memory(target, &ask)?,
    };
    render::print(&answer.text)?;
    Ok(if answer.failed { exit.and(Exit::Failure) } else { exit })
}

/// What ports are called: pods by their names.
pub(super) struct Names {
    pub(super) pods: Vec<(Uuid, String)>,
}

impl Names {
    fn of(&self, port: &PortDump) -> String {
        match port.spec.kind {
            PortKind::Host => return "host".to_owned(),
            PortKind::External => return "external".to_owned(),
            PortKind::Endpoint => {}
        }
        let pod = self.pods.iter().find(|(name, _)| *name == port.spec.name);
        pod.map_or_else(|| port.spec.friendly_name.clone(), |(_, pod)| format!("pod/{pod}"))
    }

    fn find(&self, switch: &Switch, wanted: &str) -> anyhow::Result<Uuid> {
        let ports = switch.ports();
        let by_tool = |port: &&PortDump| {
            let bare = wanted.trim_matches(['{', '}']);
            port.spec.name.to_string().eq_ignore_ascii_case(bare)
                || port.spec.friendly_name.eq_ignore_ascii_case(wanted)
                || port.id.to_string() == *bare
        };
        if let Some(port) = ports.iter().find(by_tool).or_else(|| self.called(&ports, wanted)) {
            return Ok(port.spec.name);
        }
        let known: Vec<String> = ports.iter().map(|port| self.of(port)).collect();
        bail!("there is no port {wanted}; ports: {}", known.join(", "))
    }

    /// The port with a name of ours: `host`, `external`, `pod/NAMESPACE/NAME`, or `pod/NAME` where that is one pod's.
    fn called<'a>(&self, ports: &'a [PortDump], wanted: &str) -> Option<&'a PortDump> {
        if let Some(port) = ports.iter().find(|port| self.of(port) == *wanted) {
            return Some(port);
        }
        let short = wanted.strip_prefix("pod/").filter(|short| !short.contains('/'))?;
        let mut named = ports.iter().filter(|port| {
            port.spec.kind == PortKind::Endpoint && self.of(port).rsplit('/').next() == Some(short)
        });
        named.next().filter(|_| named.next().is_none())
    }

    /// A command line of the tool with our names of ports put as the tool knows them.
    fn translate(&self, switch: &Switch, words: &[String]) -> Vec<String> {
        let ports = switch.ports();
        let mut port_next = false;
        let translated = words.iter().map(|word| {
            let is_port = std::mem::replace(&mut port_next, word.eq_ignore_ascii_case("/port"));
            let (selector, name) = match word.split_once(':') {
                Some((selector, name)) if selector.eq_ignore_ascii_case("/port") => ("/port:", name),
                _ if is_port => ("", word.as_str()),
                _ => return word.clone(),
            };
            let port = self.called(&ports, name);
            port.map_or_else(|| word.clone(), |port| format!("{selector}{}", port.spec.name))
        });
        translated.collect()
    }
}

/// Builds the cluster, runs the exchanges and asks the node's switch.
fn in_memory(target: &VfpTarget, ask: &Ask) -> anyhow::Result<(Answer, Exit)> {
    let mut simulated = Simulated::open(&target.input, &target.node, &target.simulation)?;
    let Some(name) = simulated.node.clone() else {
        let windows = simulated.world.windows_nodes();
        bail!("there are {} Windows nodes; choose one with --node: {}", windows.len(), windows.join(", "));
    };
    for flow in &target.send {
        let exchange = simulated.run(flow)?;
        let outcome = exchange.outcome.to_string();
        tracing::info!(exchange = flow.to_string(), outcome, "Exchange");
    }
    let simulation = &simulated.world.simulation;
    let now = simulation.fabric().now();
    let Some(node) = simulation.windows(&name) else { bail!("node {name} is no Windows node") };
    let pods = simulation.spec(&name).map(|spec| spec.pods.clone()).unwrap_or_default();
    let answer = node.switch().with(|switch| {
        let ports = switch.ports();
        let names = pods
            .iter()
            .filter_map(|pod| {
                let holds = |port: &&PortDump| {
                    pod.addresses.iter().any(|address| port.spec.addresses.contains(address))
                };
                Some((ports.iter().find(holds)?.spec.name, pod.name.clone()))
            })
            .collect();
        ask.answer(switch, &Names { pods: names }, now)
    })?;
    Ok((answer, simulated.exit))
}

/// What a view is given.
struct Shown<'a> {
    switch: &'a Switch,
    names: &'a Names,
    /// The selected ports.
    ports: Vec<PortDump>,
    show: &'a Show,
    now: Duration,
}

fn is_wanted(wanted: Option<&String>, id: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(id))
}

impl Shown<'_> {
    /// The selected layers of a port.
    fn layers(&self, port: &PortDump) -> Vec<LayerDump> {
        let mut layers = self.switch.layers(port.spec.name).unwrap_or_default();
        layers.retain(|layer| is_wanted(self.show.layer.as_ref(), &layer.layer.id));
        layers
    }

    /// The selected groups of a layer.
    fn groups<'a>(&self, layer: &'a LayerDump) -> impl Iterator<Item = &'a GroupDump> {
        layer.groups.iter().filter(|group| is_wanted(self.show.group.as_ref(), &group.group.id))
    }

    /// The NAT pools of the selected ports.
    fn pools(&self) -> Vec<(PoolDump, &PortDump)> {
        let owner = |pool: &PoolDump| self.ports.iter().find(|port| port.spec.name == pool.owner);
        self.switch.pools().into_iter().filter_map(|pool| owner(&pool).map(|port| (pool, port))).collect()
    }

    /// What is lent from those.
    fn bindings(&self) -> Vec<BindingDump> {
        let pools: Vec<String> = self.pools().into_iter().map(|(pool, _)| pool.key).collect();
        self.switch.bindings().into_iter().filter(|binding| pools.contains(&binding.pool)).collect()
    }

    /// A layer or group that no selected port has is a mistake of whoever asks.
    fn check(&self) -> anyhow::Result<()> {
        let all: Vec<LayerDump> = self
            .ports
            .iter()
            .flat_map(|port| self.switch.layers(port.spec.name).unwrap_or_default())
            .collect();
        let mut layers: Vec<&str> = all.iter().map(|layer| &*layer.layer.id).collect();
        let mut groups: Vec<&str> =
            all.iter().flat_map(|layer| self.groups_of(layer)).map(|group| &*group.group.id).collect();
        for (kind, wanted, known) in
            [("layer", &self.show.layer, &mut layers), ("group", &self.show.group, &mut groups)]
        {
            known.sort_unstable();
            known.dedup();
            if let Some(wanted) = wanted
                && !known.iter().any(|known| known.eq_ignore_ascii_case(wanted))
            {
                bail!("there is no {kind} {wanted}; {kind}s: {}", known.join(", "));
            }
        }
        Ok(())
    }

    fn groups_of<'a>(&self, layer: &'a LayerDump) -> &'a [GroupDump] {
        if is_wanted(self.show.layer.as_ref(), &layer.layer.id) { &layer.groups } else { &[] }
    }
}

type Tables = fn(&Shown<'_>) -> Vec<Section>;
type Document = fn(&Shown<'_>) -> Value;

impl What {
    /// The tool's verbs for it, its tables, and a document of our own where the tool has none.
    fn forms(self) -> (&'static [Verb], Tables, Option<Document>) {
        match self {
            Self::Ports => (&[Verb::ListVmswitchPort], tables::ports, None),
            Self::Layers => (&[Verb::ListLayer], tables::layers, Some(documents::layers)),
            Self::Groups => (&[Verb::ListGroup], tables::groups, Some(documents::groups)),
            Self::Rules => (&[Verb::ListRule], tables::rules, None),
            Self::Flows => (&[Verb::ListUnifiedFlow], tables::flows, Some(documents::flows)),
            Self::Counters => {
                let verbs = &[Verb::GetPortCounter, Verb::GetPortFlowStats];
                (verbs, tables::counters, Some(documents::counters))
            }
            Self::Nat => {
                let verbs = &[Verb::ListNatRange, Verb::ListNatPortBinding];
                (verbs, tables::nat, Some(documents::nat))
            }
        }
    }
}

impl Show {
    /// Shows the view in the form that is asked for; without a document of our own, JSON is the tool's.
    fn answer(&self, switch: &mut Switch, names: &Names, now: Duration) -> anyhow::Result<Answer> {
        let (verbs, table, document) = self.what.forms();
        let mut ports = switch.ports();
        if let Some(wanted) = &self.port {
            let name = names.find(switch, wanted)?;
            ports.retain(|port| port.spec.name == name);
        }
        let shown = Shown { switch, names, ports, show: self, now };
        shown.check()?;
        let text = match (self.format, document) {
            (VfpFormat::Table, _) => tables::text(&table(&shown)),
            (VfpFormat::Json, Some(document)) => render::document(&document(&shown), Output::Json)?,
            (VfpFormat::Json, None) => {
                let ports = shown.ports;
                ctrl(switch, &ports, self, verbs, now, true)?
            }
            (VfpFormat::Vfpctrl, _) => {
                let ports = shown.ports;
                ctrl(switch, &ports, self, verbs, now, false)?
            }
        };
        Ok(Answer::good(text))
    }
}

/// The tool's own text or JSON: for each selected port and verb, one after the other; JSON a line each.
fn ctrl(
    switch: &mut Switch,
    ports: &[PortDump],
    show: &Show,
    verbs: &[Verb],
    now: Duration,
    json: bool,
) -> anyhow::Result<String> {
    let mut out = String::new();
    for &verb in verbs {
        let of_switch = verb == Verb::ListVmswitchPort;
        let targets: Vec<Option<String>> = if of_switch {
            vec![None]
        } else {
            ports.iter().map(|port| Some(port.spec.name.to_string())).collect()
        };
        for port in targets {
            let command = Command {
                port,
                layer: show.layer.clone(),
                group: show.group.clone(),
                json,
                ..Command::new(verb)
            };
            match vfpctrl::execute(switch, &command, now) {
                Ok(text) => out.push_str(&text),
                // A layer or group that only some ports have.
                Err(CtrlError::Missing { .. }) if ports.len() > 1 => continue,
                Err(error) => bail!(error),
            }
            if json {
                out.push('\n');
            }
        }
    }
    Ok(out)
}
