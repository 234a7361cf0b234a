//! Runs a row in one setting.

use std::collections::BTreeMap;
use std::time::Duration;

use hns::faults::FaultPlan;
use node::app::Transport;
use node::sim::Ticket;
use services::source::manifests::{Input, Manifests, Options, Touched, parse_bytes};
use services::{Change, ObjectKind, ObjectRef};
use transom::world::record::Recorder;
use transom::world::{Plan, World};

use crate::acts::{self, Unplugged};
use crate::row::{Families, Row, Setting, Step};

/// A server outside, for what leaves the cluster.
pub(crate) const OUTSIDE_PORT: u16 = 443;

/// A row that is being run.
pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) setting: Setting,
    pub(crate) recorder: Recorder,
    /// What `{kept}` and `{other}` stand for.
    pub(crate) names: BTreeMap<&'static str, String>,
    /// Long connections by name.
    pub(crate) open: BTreeMap<String, Vec<Ticket>>,
    pub(crate) unplugged: BTreeMap<String, Unplugged>,
    /// When the last step ended that was no `finish`: connections that are finished must have lived until then.
    pub(crate) since: Duration,
}

pub(crate) fn run(row: &Row, setting: Setting) -> Result<(), String> {
    let mut run = begin(row, setting).map_err(|error| format!("{}: {error}", row.title))?;
    for (number, step) in row.steps.iter().enumerate().filter(|(_, step)| setting.has(&step.when)) {
        run.step(step).map_err(|error| {
            let note = if step.note.is_empty() { String::new() } else { format!(" ({})", step.note) };
            format!("{}: step {}{note}: {error}", row.title, number + 1)
        })?;
        if step.finish.is_none() {
            run.since = run.world.simulation.fabric().now();
        }
    }
    match run.open.keys().next() {
        Some(name) => Err(format!("{}: connections {name} are never finished", row.title)),
        None => Ok(()),
    }
}

fn begin(row: &Row, setting: Setting) -> Result<Run, String> {
    let cluster = match row.families {
        Families::Ipv4 => "cluster.yaml services.yaml",
        Families::Dual => "cluster-ipv6.yaml",
    };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/paths");
    let inputs = cluster.split(' ').map(|name| Input::Path(folder.join(name))).collect();
    let update = Manifests::new(inputs, Options::default()).refresh(&Touched::Everything);
    if let Some(problem) = update.problems.first() {
        return Err(format!("{cluster}: {problem:?}"));
    }
    let mut changes = update.changes;
    changes.extend(parse(&row.manifests)?);
    let mut plan = Plan::new(setting.kind, setting.dsr);
    plan.loopback = row.loopback;
    plan.profile = match row.build.as_deref() {
        None => None,
        Some("ws2019") => Some(hns::Profile::Ws2019),
        Some("ws2022") => Some(hns::Profile::Ws2022),
        Some("ws2025") => Some(hns::Profile::Ws2025),
        Some("newest") => Some(hns::Profile::Newest),
        Some(other) => return Err(format!("{other:?} is no build: ws2019, ws2022, ws2025 or newest")),
    };
    plan.switches.clone_from(&row.switches);
    if !row.faults.is_empty() {
        plan.faults = Some(FaultPlan::from_yaml(&row.faults).map_err(|error| error.to_string())?);
    }
    plan.config.forward_health_check_vip = row.proxy.forward_health_check_vip;
    plan.config.reapply_after_restart = row.proxy.reapply_after_restart;
    if let Some(delay) = row.delay {
        plan.settings.link.delay = Duration::from_millis(delay);
    }
    let mut world = World::build(&changes, &plan).map_err(|error| format!("{error:#}"))?;
    if row.faults.is_empty() && !world.failures.is_empty() {
        return Err(world.failures.join("; "));
    }
    acts::serve(&mut world, &format!("outside:{OUTSIDE_PORT}"))?;
    for server in &row.serve {
        acts::serve(&mut world, server)?;
    }
    let recorder = Recorder::default();
    recorder.attach(&mut world.simulation);
    Ok(Run {
        world,
        setting,
        recorder,
        names: BTreeMap::new(),
        open: BTreeMap::new(),
        unplugged: BTreeMap::new(),
        since: Duration::ZERO,
    })
}

fn parse(text: &str) -> Result<Vec<Change>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let parsed = parse_bytes("row", text.as_bytes(), &Options::default());
    // A field that cannot be read is what some rows are about; an object that cannot be read is a mistake.
    match parsed.problems.iter().find(|_| !parsed.refused.is_empty() || parsed.objects.is_empty()) {
        Some(problem) => Err(format!("{problem:?}")),
        None => Ok(parsed.objects.into_iter().map(Change::Set).collect()),
    }
}

impl Run {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(exchange) = &step.exchange {
            if std::env::var_os("REPORTS_BREAK").is_some() {
                for wrong in exchange.broken() {
                    if self.exchange(&wrong).is_ok() {
                        return Err(format!("this passes and must not: {wrong:?}"));
                    }
                }
            }
            self.exchange(exchange)
        } else if let Some(start) = &step.start {
            self.start(start)
        } else if let Some(finish) = &step.finish {
            self.finish(finish)
        } else if let Some(text) = &step.apply {
            let changes = parse(&self.named(text))?;
            self.world.apply(&changes);
            self.no_failures()
        } else if !step.delete.is_empty() {
            let changes =
                step.delete.iter().map(|text| deletion(&self.named(text))).collect::<Result<Vec<_>, _>>()?;
            self.world.apply(&changes);
            self.no_failures()
        } else if let Some(times) = step.check {
            (0..times).for_each(|_| self.world.check());
            self.no_failures()
        } else if let Some(restart) = &step.restart_proxy {
            acts::restart_proxy(&mut self.world, restart)?;
            self.no_failures()
        } else if let Some(restart) = &step.restart_hns {
            acts::restart_hns(&self.world, restart)
        } else if let Some(pod) = &step.unplug {
            let unplugged = acts::unplug(&mut self.world, pod)?;
            self.unplugged.insert(pod.clone(), unplugged);
            Ok(())
        } else if let Some(pod) = &step.plug {
            let unplugged = self.unplugged.remove(pod).ok_or_else(|| format!("{pod} was not unplugged"))?;
            acts::plug(&mut self.world, pod, &unplugged)
        } else if let Some(policy) = &step.add_policy {
            acts::add_policy(&self.world, policy)
        } else if let Some(policy) = &step.remove_policy {
            acts::remove_policies(&self.world, policy)
        } else if let Some(node) = &step.remove_remote_subnets {
            acts::remove_remote_subnets(&self.world, node)
        } else if let Some(host) = &step.host_address {
            acts::host_address(&mut self.world, host)
        } else {
            Err("does nothing".to_owned())
        }
    }

    fn no_failures(&self) -> Result<(), String> {
        match self.world.failures.first() {
            Some(_) => Err(self.world.failures.join("; ")),
            None => Ok(()),
        }
    }

    /// A text with the names that were remembered.
    pub(crate) fn named(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }
}

/// `KIND NAMESPACE/NAME`.
fn deletion(text: &str) -> Result<Change, String> {
    let wrong = || format!("{text:?} is no object: write Service, EndpointSlice or Pod and NAMESPACE/NAME");
    let (kind, rest) = text.split_once(' ').ok_or_else(wrong)?;
    let (namespace, name) = rest.split_once('/').ok_or_else(wrong)?;
    let kind = match kind {
        "Service" => ObjectKind::Service,
        "EndpointSlice" => ObjectKind::EndpointSlice,
        "Pod" => ObjectKind::Pod,
        _ => return Err(wrong()),
    };
    Ok(Change::Delete(ObjectRef { kind, namespace: namespace.into(), name: name.into() }))
}

/// TCP or UDP.
pub(crate) fn transport(udp: bool) -> Transport {
    if udp { Transport::Udp } else { Transport::Tcp }
}
