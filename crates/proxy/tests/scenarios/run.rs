//! Runs one scenario and compares.

use std::collections::BTreeMap;
use std::time::Duration;

use hcn::{Guid, Kind};
use hns::faults::FaultPlan;
use hns::{Loss, Profile};
use node::NetworkKind;
use proxy::status::Report;
use proxy::{Config, NodePortAddresses};
use services::{Change, IpFamily, ObjectKind, ObjectRef};

use crate::counts::{Documents, foreign};
use crate::model::{Scenario, ShortConfig, Step, Verdict};
use crate::world::objects::{ShortService, ShortSlice, parse};
use crate::world::{Setup, World, address};

pub(crate) type Outcome = Result<(), String>;

pub(crate) struct Runner {
    pub(crate) world: World,
    /// The journal's position at the last expectation.
    pub(crate) mark: u64,
    pub(crate) ids: BTreeMap<String, Guid>,
    pub(crate) endpoint_ids: BTreeMap<String, Guid>,
    pub(crate) reports: Vec<Report>,
    /// Objects that the proxy has not made, as they were at the last expectation.
    pub(crate) foreign: Documents,
}

/// Runs the scenario.
pub(crate) fn run(scenario: &Scenario) -> Outcome {
    if scenario.verdict == Some(Verdict::Better) {
        ensure!(scenario.why.is_some(), "a row that is better than kube-proxy says why");
    }
    let profile: Profile = scenario.profiles[0].parse().map_err(|error| format!("{error}"))?;
    let network: NetworkKind = scenario.networks[0].parse()?;
    let setup = Setup {
        profile,
        network,
        families: families(scenario)?,
        config: config(&scenario.config),
        locals: scenario.locals.clone(),
        switches: scenario.switches.clone(),
        zone: scenario.zone.clone(),
        ..Setup::default()
    };
    let world = World::new(setup);
    let mark = world.hns.journal().next_seq();
    let foreign = foreign(&world.hns);
    let mut runner = Runner {
        world,
        mark,
        ids: BTreeMap::new(),
        endpoint_ids: BTreeMap::new(),
        reports: Vec::new(),
        foreign,
    };
    if let Some(faults) = &scenario.faults {
        runner.add_faults(faults)?;
    }
    runner.steps(&scenario.steps)
}

fn families(scenario: &Scenario) -> Result<Vec<IpFamily>, String> {
    if scenario.families.is_empty() {
        let second = scenario.dual_stack.then_some(IpFamily::V6);
        return Ok([IpFamily::V4].into_iter().chain(second).collect());
    }
    let family = |text: &String| match text.as_str() {
        "v4" => Ok(IpFamily::V4),
        "v6" => Ok(IpFamily::V6),
        _ => Err(format!("families: {text:?} is neither v4 nor v6")),
    };
    scenario.families.iter().map(family).collect()
}

fn config(short: &ShortConfig) -> Config {
    let default = Config::default();
    let node_port_addresses = match short.node_port_addresses.as_deref() {
        None => NodePortAddresses::All,
        Some([only]) if only == "primary" => NodePortAddresses::Primary,
        Some(nets) => {
            NodePortAddresses::Within(nets.iter().map(|net| net.parse().expect("a network")).collect())
        }
    };
    Config {
        network_name: "net".to_owned(),
        source_vips: short.source_vip.iter().flat_map(|text| text.split(',')).map(address).collect(),
        source_vip_endpoints: short.source_vip_endpoints.clone().unwrap_or(default.source_vip_endpoints),
        enable_dsr: short.enable_dsr,
        forward_health_check_vip: short.forward_health_check_vip,
        root_endpoint_name: short.root_endpoint.clone().unwrap_or(default.root_endpoint_name),
        healthz_port: short.healthz_port.unwrap_or(default.healthz_port),
        node_port_addresses,
        check_slice: short.check_slice.unwrap_or(default.check_slice),
        reapply_after_restart: short.reapply_after_restart,
        verify_writes: short.verify_writes,
        pass_time: None,
        dynamic_ports: short.dynamic_ports,
        sync_period: default.sync_period,
        parallel_calls: short.parallel_calls.unwrap_or(default.parallel_calls),
    }
}

impl Runner {
    fn add_faults(&self, text: &str) -> Outcome {
        let plan = FaultPlan::from_yaml(text).map_err(|error| format!("the step's faults: {error}"))?;
        let faults = self.world.hns.faults();
        let failed = |error| format!("the step's faults: {error}");
        for mut rule in plan.rules {
            // A rule is about the proxy's calls unless it says whose; the harness must be able to look.
            rule.when.actor.get_or_insert_with(|| hns::faults::Glob::new("proxy"));
            faults.add(rule).map_err(failed)?;
        }
        for action in plan.actions {
            faults.schedule(action).map_err(failed)?;
        }
        if !plan.latency.is_empty() {
            faults.set_latency(plan.latency).map_err(failed)?;
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Outcome {
        for (number, step) in steps.iter().enumerate() {
            for round in 0..step.repeat.unwrap_or(1) {
                for step in step.rounds() {
                    self.step(&step).map_err(|message| {
                        let note = step.note.as_deref().unwrap_or("");
                        format!("step {} (round {round}) {note}: {message}", number + 1)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Outcome {
        if let Some(faults) = &step.faults {
            self.add_faults(faults)?;
        }
        if step.clear_faults {
            self.world.hns.faults().clear();
        }
        if let Some(locals) = &step.locals {
            self.world.locals.clone_from(locals);
            self.world.furnish();
        }
        for object in step.services.iter().flat_map(ShortService::objects) {
            self.world.apply(Change::Set(object));
        }
        for object in step.slices.iter().flat_map(ShortSlice::objects) {
            self.world.apply(Change::Set(object));
        }
        for object in &step.objects {
            for object in parse(&object.to_string()) {
                self.world.apply(Change::Set(object));
            }
        }
        for reference in &step.delete {
            self.world.apply(Change::Delete(object_ref(reference)?));
        }
        for outside in &step.outside {
            self.outside(outside)?;
        }
        for outside in &step.refused {
            ensure!(self.outside(outside).is_err(), "{outside:?} succeeded, and HNS should refuse it");
        }
        if let Some(addresses) = &step.interfaces {
            self.world.set_interfaces(addresses.iter().map(|text| address(text)).collect());
        }
        if let Some(what) = &step.restart {
            self.restart(what)?;
        }
        for port in &step.listen {
            let (protocol, number) =
                port.split_once(' ').ok_or_else(|| format!("listen: {port:?} is not like TCP 10256"))?;
            let protocol =
                if protocol.eq_ignore_ascii_case("tcp") { hns::Protocol::Tcp } else { hns::Protocol::Udp };
            self.world
                .hns
                .listen(protocol, number.parse().map_err(|_| format!("listen: {port:?}"))?)
                .map_err(|error| format!("listen {port}: {error}"))?;
        }
        if let Some(seconds) = step.advance {
            self.world.clock.advance(Duration::from_secs(seconds));
        }
        for _ in 0..step.passes.unwrap_or(usize::from(step.expect.is_some() && !step.settle && !step.check)) {
            let report = self.world.pass();
            self.reports.push(report);
        }
        if step.check {
            let report = self.world.check();
            self.reports.push(report);
        }
        if step.settle {
            let report = self.world.settle(60);
            self.reports.push(report);
        }
        self.steps(&step.steps)?;
        match &step.expect {
            Some(expect) => self.expect(expect),
            None => Ok(()),
        }
    }

    fn restart(&mut self, what: &str) -> Outcome {
        let loss = match what {
            "proxy" => {
                self.world.restart_proxy();
                return Ok(());
            }
            "hns" => Loss::None,
            "hns losing load balancers" => Loss::LoadBalancers,
            "hns losing endpoints" => Loss::Endpoints,
            "hns losing half" => Loss::Fraction { kind: Kind::LoadBalancer, share: 0.5, seed: 7 },
            "hns losing all" => Loss::Everything,
            _ => return Err(format!("restart: {what:?} is not known")),
        };
        self.world.hns.restart(loss).map_err(|error| format!("restart: {error}"))
    }
}

fn object_ref(text: &str) -> Result<ObjectRef, String> {
    let (kind, path) =
        text.split_once(' ').ok_or_else(|| format!("delete: {text:?} is not like `Service default/web`"))?;
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    let kind = match kind {
        "Service" => ObjectKind::Service,
        "EndpointSlice" => ObjectKind::EndpointSlice,
        "Node" => ObjectKind::Node,
        "Pod" => ObjectKind::Pod,
        _ => return Err(format!("delete: {kind:?} is not a kind")),
    };
    Ok(ObjectRef { kind, namespace: namespace.into(), name: name.into() })
}
