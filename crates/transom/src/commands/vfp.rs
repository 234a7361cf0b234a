//! `transom vfp`: the virtual switch of one node, in tables, in documents of our own, or as `vfpctrl` prints it.

mod documents;
mod tables;

use std::time::Duration;

use anyhow::bail;
use serde_json::Value;
use uuid::Uuid;
use vfp::Switch;
use vfp::dump::{BindingDump, GroupDump, LayerDump, PoolDump, PortDump};
use vfp::model::PortKind;
use vfpctrl::{Command, CtrlError, Verb};

use self::tables::Section;
use super::render;
use super::simulated::Simulated;
use crate::cli::Output;
use crate::cli::traffic::{VfpAction, VfpCommand, VfpFormat, VfpShow, VfpTarget};
use crate::exit::Exit;

pub(super) fn run(command: &VfpCommand) -> anyhow::Result<Exit> {
    match &command.action {
        VfpAction::Ports(show) => self::show(show, &[Verb::ListVmswitchPort], tables::ports, None),
        VfpAction::Layers(show) => {
            self::show(show, &[Verb::ListLayer], tables::layers, Some(documents::layers))
        }
        VfpAction::Groups(show) => {
            self::show(show, &[Verb::ListGroup], tables::groups, Some(documents::groups))
        }
        VfpAction::Rules(show) => self::show(show, &[Verb::ListRule], tables::rules, None),
        VfpAction::Flows(show) => {
            self::show(show, &[Verb::ListUnifiedFlow], tables::flows, Some(documents::flows))
        }
        VfpAction::Counters(show) => {
            let verbs = [Verb::GetPortCounter, Verb::GetPortFlowStats];
            self::show(show, &verbs, tables::counters, Some(documents::counters))
        }
        VfpAction::Nat(show) => {
            let verbs = [Verb::ListNatRange, Verb::ListNatPortBinding];
            self::show(show, &verbs, tables::nat, Some(documents::nat))
        }
        VfpAction::ProcessTuples(tuples) => with_switch(&tuples.target, |switch, names, now| {
            let port = names.find(switch, &tuples.port)?;
            let command = Command {
                port: Some(port.to_string()),
                argument: Some(tuples.tuple.join(" ")),
                ..Command::new(Verb::ProcessTuples)
            };
            Ok((vfpctrl::execute(switch, &command, now)?.replace("\r\n", "\n"), Exit::Success))
        }),
        VfpAction::Ctrl(ctrl) => with_switch(&ctrl.target, |switch, names, now| {
            let words = names.translate(switch, &ctrl.words);
            // The errors are the tool's own, in its form and where it writes them.
            Ok(match vfpctrl::run(switch, &words, now) {
                Ok(text) => (text, Exit::Success),
                Err(error) => (format!("ERROR: {error}\r\n"), Exit::Failure),
            })
        }),
    }
}

/// What ports are called: pods by their names.
struct Names {
    pods: Vec<(Uuid, String)>,
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

/// Opens the cluster, runs the exchanges and gives the node's switch to `act`.
fn with_switch(
    target: &VfpTarget,
    act: impl FnOnce(&mut Switch, &Names, Duration) -> anyhow::Result<(String, Exit)>,
) -> anyhow::Result<Exit> {
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
    let (text, exit) = node.switch().with(|switch| {
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
        act(switch, &Names { pods: names }, now)
    })?;
    render::print(&text)?;
    Ok(simulated.exit.and(exit))
}

/// What a view is given.
struct Shown<'a> {
    switch: &'a Switch,
    names: &'a Names,
    /// The selected ports.
    ports: Vec<PortDump>,
    show: &'a VfpShow,
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

/// Shows one view in the form that is asked for; without a document of our own, JSON is the tool's.
fn show(
    show: &VfpShow,
    verbs: &[Verb],
    table: fn(&Shown<'_>) -> Vec<Section>,
    document: Option<fn(&Shown<'_>) -> Value>,
) -> anyhow::Result<Exit> {
    with_switch(&show.target, |switch, names, now| {
        let mut ports = switch.ports();
        if let Some(wanted) = &show.port {
            let name = names.find(switch, wanted)?;
            ports.retain(|port| port.spec.name == name);
        }
        let shown = Shown { switch, names, ports, show, now };
        shown.check()?;
        let text = match (show.format, document) {
            (VfpFormat::Table, _) => tables::text(&table(&shown)),
            (VfpFormat::Json, Some(document)) => render::document(&document(&shown), Output::Json)?,
            (VfpFormat::Json, None) => {
                let ports = shown.ports;
                ctrl(switch, &ports, show, verbs, now, true)?
            }
            (VfpFormat::Vfpctrl, _) => {
                let ports = shown.ports;
                ctrl(switch, &ports, show, verbs, now, false)?
            }
        };
        Ok((text, Exit::Success))
    })
}

/// The tool's own text or JSON: for each selected port and verb, one after the other; JSON a line each.
fn ctrl(
    switch: &mut Switch,
    ports: &[PortDump],
    show: &VfpShow,
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
