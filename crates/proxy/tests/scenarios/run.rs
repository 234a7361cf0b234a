//! Runs one scenario and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hcn::endpoint::{EndpointFlags, IpConfig};
use hcn::loadbalancer::{LoadBalancerFlags, PortMapping, PortMappingFlags};
use hcn::modify::{EndpointRequest, ModifyNamespace, NamespaceRequestResource, RequestType};
use hcn::query::SchemaVersion;
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, LoadBalancer, Namespace, Policy};
use hns::faults::FaultPlan;
use hns::journal::Op;
use hns::{Loss, Profile};
use node::NetworkKind;
use proxy::status::{FrontendState, Report};
use proxy::{Config, NodePortAddresses};
use services::{Change, ObjectKind, ObjectRef};

use crate::model::{
    Expect, Outside, OutsideBalancer, OutsideEndpoint, Scenario, ShortConfig, Step, Verdict, Writes,
};
use crate::world::objects::parse;
use crate::world::{Setup, World, address, dump, name};

type Outcome = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

struct Runner {
    world: World,
    /// The journal's position at the last expectation.
    mark: u64,
    ids: BTreeMap<String, Guid>,
    reports: Vec<Report>,
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
        dual_stack: scenario.dual_stack,
        config: config(&scenario.config),
        locals: scenario.locals.clone(),
        switches: scenario.switches.clone(),
        zone: scenario.zone.clone(),
        seed: 1,
    };
    let world = World::new(setup);
    let mark = world.hns.journal().next_seq();
    let mut runner = Runner { world, mark, ids: BTreeMap::new(), reports: Vec::new() };
    if let Some(faults) = &scenario.faults {
        runner.add_faults(faults)?;
    }
    for (number, step) in scenario.steps.iter().enumerate() {
        for round in 0..step.repeat.unwrap_or(1) {
            runner.step(step).map_err(|message| {
                let note = step.note.as_deref().unwrap_or("");
                format!("step {} (round {round}) {note}: {message}", number + 1)
            })?;
        }
    }
    Ok(())
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
        source_vip: short.source_vip.as_deref().map(address),
        source_vip_endpoints: short.source_vip_endpoints.clone().unwrap_or(default.source_vip_endpoints),
        enable_dsr: short.enable_dsr,
        forward_health_check_vip: short.forward_health_check_vip,
        root_endpoint_name: short.root_endpoint.clone().unwrap_or(default.root_endpoint_name),
        healthz_port: short.healthz_port.unwrap_or(default.healthz_port),
        node_port_addresses,
        check_slice: short.check_slice.unwrap_or(default.check_slice),
        reapply_after_restart: short.reapply_after_restart,
        verify_writes: short.verify_writes,
        dynamic_ports: short.dynamic_ports.unwrap_or(default.dynamic_ports),
        sync_period: default.sync_period,
    }
}

impl Runner {
    fn add_faults(&self, text: &str) -> Outcome {
        let plan = FaultPlan::from_yaml(text).map_err(|error| format!("the step's faults: {error}"))?;
        let faults = self.world.hns.faults();
        let failed = |error| format!("the step's faults: {error}");
        for rule in plan.rules {
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
        for service in &step.services {
            self.world.apply(Change::Set(service.object()));
        }
        for slice in &step.slices {
            self.world.apply(Change::Set(slice.object()));
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

    fn balancer_at(&self, frontend: &str) -> Result<Guid, String> {
        let frontend = expand(frontend);
        dump::short(&self.world.hns)
            .get(&frontend)
            .map(|(id, _)| *id)
            .ok_or_else(|| format!("no load balancer holds {frontend}"))
    }

    fn endpoint_ids(&self, names: &[String]) -> Result<Vec<Guid>, String> {
        let endpoints = dump::endpoints(&self.world.hns);
        names
            .iter()
            .map(|wanted| {
                let wanted_address = address(wanted);
                endpoints
                    .iter()
                    .find(|(_, endpoint)| endpoint.addresses().any(|address| address == wanted_address))
                    .map(|(id, _)| *id)
                    .ok_or_else(|| format!("no endpoint has {wanted}"))
            })
            .collect()
    }

    fn outside(&mut self, outside: &Outside) -> Outcome {
        let hns = self.world.hns.actor("somebody");
        let failed = |error: hcn::Error| format!("{outside:?}: {error}");
        match outside {
            Outside::DeleteBalancer(frontend) => {
                hns.delete(Kind::LoadBalancer, self.balancer_at(frontend)?).map_err(failed)
            }
            Outside::DeleteEndpoint(text) => {
                let (remote, text) = match text.split_once(' ') {
                    Some((kind, text)) => (Some(kind == "remote"), text),
                    None => (None, &**text),
                };
                let wanted = address(text);
                for (id, endpoint) in dump::endpoints(&self.world.hns) {
                    if endpoint.addresses().any(|address| address == wanted)
                        && remote.is_none_or(|remote| remote == endpoint.is_remote())
                    {
                        hns.delete(Kind::Endpoint, id).map_err(failed)?;
                    }
                }
                Ok(())
            }
            Outside::CreateBalancer(balancer) => {
                let endpoints = self.endpoint_ids(&balancer.backends)?;
                let id = balancer.id.as_deref().map_or(Guid::NIL, |id| self.world.network().derive(id));
                hns.make(id, &outside_balancer(balancer, endpoints)).map(drop).map_err(failed)
            }
            Outside::CreateEndpoint(endpoint) => self.outside_endpoint(&hns, endpoint).map_err(failed),
            Outside::SetBackends(change) => {
                let id = self.balancer_at(&change.frontend)?;
                let mut document: LoadBalancer = hns.get(id).map_err(failed)?;
                document.endpoints = self.endpoint_ids(&change.backends)?;
                hns.delete(Kind::LoadBalancer, id).map_err(failed)?;
                hns.make(id, &document).map(drop).map_err(failed)
            }
        }
    }

    fn outside_endpoint(&self, hns: &hns::Hns, endpoint: &OutsideEndpoint) -> hcn::Result<()> {
        let address = address(&endpoint.address);
        let mac = match endpoint.mac.as_deref() {
            Some("kube-proxy") => Some(kube_proxy_mac(address)),
            other => other.map(str::to_owned),
        };
        let document = Endpoint {
            name: endpoint.name.clone(),
            owner: endpoint.owner.clone(),
            mac_address: mac,
            ip_configurations: vec![IpConfig { ip_address: address.to_string(), ..IpConfig::default() }],
            flags: if endpoint.remote { EndpointFlags::REMOTE_ENDPOINT } else { EndpointFlags::empty() },
            policies: endpoint
                .provider_address
                .iter()
                .map(|provider| {
                    let provider = crate::world::address(provider).to_string();
                    Policy::new("ProviderAddress", &serde_json::json!({ "ProviderAddress": provider }))
                })
                .collect(),
            schema_version: Some(SchemaVersion::V2),
            ..Endpoint::default()
        };
        let id = hns.make_endpoint(self.world.network(), Guid::NIL, &document)?;
        if endpoint.in_pod {
            let namespace = hns.make(Guid::NIL, &Namespace::default())?;
            let request = EndpointRequest { endpoint_id: Some(id), ..EndpointRequest::default() };
            let request =
                ModifyNamespace::new(NamespaceRequestResource::Endpoint, RequestType::Add, &request);
            hns.modify(Kind::Namespace, namespace, &request.to_json())?;
        }
        Ok(())
    }

    fn expect(&mut self, expect: &Expect) -> Outcome {
        dump::assert_invariants(&self.world.hns, "after the step");
        let short = dump::short(&self.world.hns);
        let all =
            || short.values().map(|(_, balancer)| format!("  {balancer}")).collect::<Vec<_>>().join("\n");
        if let Some(wanted) = &expect.balancers {
            let mut missing: BTreeSet<&String> = short.keys().collect();
            for text in wanted {
                let frontend = compare(text, &short).map_err(|why| format!("{why}\nHNS holds\n{}", all()))?;
                missing.remove(&frontend);
            }
            ensure!(
                missing.is_empty(),
                "HNS also holds {missing:?}, which nobody expects; it holds\n{}",
                all()
            );
        }
        for text in &expect.contains {
            compare(text, &short).map_err(|why| format!("{why}\nHNS holds\n{}", all()))?;
        }
        for frontend in &expect.absent {
            let frontend = expand(frontend);
            ensure!(!short.contains_key(&frontend), "{frontend} must not be there; HNS holds\n{}", all());
        }
        if let Some(count) = expect.balancer_count {
            ensure!(
                short.len() == count,
                "{} load balancers where {count} are expected:\n{}",
                short.len(),
                all()
            );
        }
        if let Some(most) = expect.backends_at_most {
            for (_, balancer) in short.values() {
                ensure!(
                    balancer.backends.len() <= most,
                    "{} backends at {}",
                    balancer.backends.len(),
                    balancer.frontend
                );
            }
        }
        if let Some(wanted) = &expect.remotes {
            let wanted: BTreeSet<String> = wanted.iter().map(|text| name(address(text))).collect();
            let found = dump::remotes(&self.world.hns);
            ensure!(wanted == found, "remote endpoints are {found:?}, expected {wanted:?}");
        }
        for local in &expect.locals {
            let wanted = address(local);
            let found = dump::endpoints(&self.world.hns)
                .values()
                .filter(|endpoint| endpoint.addresses().any(|address| address == wanted))
                .map(Endpoint::is_remote)
                .collect::<Vec<_>>();
            ensure!(found == [false], "{local}: expected one local endpoint, found remote flags {found:?}");
        }
        self.expect_calls(expect)?;
        self.expect_words(expect)?;
        for frontend in &expect.same_id {
            let frontend = expand(frontend);
            let now = short.get(&frontend).map(|(id, _)| *id);
            ensure!(
                now.is_some() && now == self.ids.get(&frontend).copied(),
                "{frontend} has another load balancer now: {now:?}"
            );
        }
        if let Some(least) = expect.repairs_at_least {
            let repairs: usize = self.reports.iter().map(|report| report.repairs).sum();
            ensure!(repairs >= least, "{repairs} repairs where at least {least} are expected");
        }
        self.ids = short.iter().map(|(frontend, (id, _))| (frontend.clone(), *id)).collect();
        self.reports.clear();
        if !expect.unsettled {
            self.second_pass()?;
        }
        self.mark = self.world.hns.journal().next_seq();
        Ok(())
    }

    /// I3: with unchanged input a second pass writes nothing.
    fn second_pass(&mut self) -> Outcome {
        let before = self.world.hns.journal().next_seq();
        self.world.pass();
        let writes: Vec<String> = self
            .world
            .hns
            .journal()
            .writes_since(before)
            .iter()
            .filter(|entry| &*entry.actor == "proxy")
            .map(|entry| format!("{:?} {:?} {}", entry.op, entry.kind, entry.subject))
            .collect();
        ensure!(writes.is_empty(), "I3: a second pass with unchanged input wrote {writes:?}");
        Ok(())
    }

    fn expect_calls(&self, expect: &Expect) -> Outcome {
        let entries: Vec<_> = self
            .world
            .hns
            .journal()
            .entries_since(self.mark)
            .into_iter()
            .filter(|entry| &*entry.actor == "proxy")
            .collect();
        let writes: Vec<_> =
            entries.iter().filter(|entry| matches!(entry.op, Op::Create | Op::Modify | Op::Delete)).collect();
        let told = || {
            writes
                .iter()
                .map(|entry| {
                    format!("  {:?} {:?} {} {:?}", entry.op, entry.kind, entry.subject, entry.result)
                })
                .collect::<Vec<_>>()
                .join("\n")
        };
        match &expect.writes {
            None => {}
            Some(Writes::Total(total)) => {
                ensure!(
                    writes.len() as u64 == *total,
                    "{} writes where {total} are expected:\n{}",
                    writes.len(),
                    told()
                );
            }
            Some(Writes::Counts(counts)) => {
                let mut found: BTreeMap<String, u64> = BTreeMap::new();
                for entry in &writes {
                    let kind = match entry.kind {
                        Some(Kind::LoadBalancer) => "balancer",
                        Some(Kind::Endpoint) => "endpoint",
                        _ => "other",
                    };
                    *found.entry(format!("{:?} {kind}", entry.op).to_lowercase()).or_default() += 1;
                }
                let wanted: BTreeMap<String, u64> = counts
                    .iter()
                    .filter(|(_, count)| **count > 0)
                    .map(|(key, count)| (key.clone(), *count))
                    .collect();
                ensure!(found == wanted, "writes {found:?} where {wanted:?} are expected:\n{}", told());
            }
        }
        if let Some(most) = expect.calls_at_most {
            ensure!(
                entries.len() as u64 <= most,
                "{} calls where at most {most} are expected",
                entries.len()
            );
        }
        if let Some(most) = expect.lists_at_most {
            let lists = entries.iter().filter(|entry| entry.op == Op::Enumerate).count();
            ensure!(lists as u64 <= most, "{lists} enumerations where at most {most} are expected");
        }
        if !expect.created_in_order.is_empty() {
            let wanted: Vec<String> =
                expect.created_in_order.iter().map(|frontend| expand(frontend)).collect();
            let found: Vec<String> = writes
                .iter()
                .filter(|entry| matches!(entry.op, Op::Create) && entry.kind == Some(Kind::LoadBalancer))
                .map(|entry| subject(&entry.subject))
                .filter(|subject| wanted.contains(subject))
                .collect();
            ensure!(found == wanted, "created in the order {found:?}, expected {wanted:?}");
        }
        for frontend in &expect.never_gone {
            let frontend = expand(frontend);
            let mut gone = false;
            for entry in writes.iter().filter(|entry| entry.kind == Some(Kind::LoadBalancer)) {
                let here = subject(&entry.subject) == frontend;
                match entry.op {
                    Op::Delete if here && entry.result.is_ok() => gone = true,
                    Op::Create if here && entry.result.is_ok() => gone = false,
                    _ => ensure!(
                        !gone,
                        "{frontend} was gone while {:?} {} was called:\n{}",
                        entry.op,
                        entry.subject,
                        told()
                    ),
                }
            }
            ensure!(!gone, "{frontend} is gone:\n{}", told());
        }
        Ok(())
    }

    fn expect_words(&self, expect: &Expect) -> Outcome {
        let proxy = self.world.driver.proxy();
        let mut reasons: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut words = String::new();
        for (key, view) in proxy.services() {
            let entry = reasons.entry(key.to_string()).or_default();
            for condition in &view.conditions {
                entry.insert(condition.kind.reason().to_owned());
                words.push_str(&condition.message);
                words.push('\n');
            }
            if let Some(status) = proxy.status(key) {
                for condition in &status.conditions {
                    entry.insert(condition.reason.to_string());
                    words.push_str(&condition.message);
                    words.push('\n');
                }
                for frontend in &status.frontends {
                    words += &format!("{frontend:?}\n");
                }
            }
        }
        let node: BTreeSet<String> =
            proxy.conditions().map(|condition| condition.reason.to_string()).collect();
        for condition in proxy.conditions() {
            words.push_str(&condition.message);
            words.push('\n');
        }
        for map in &expect.conditions {
            for (service, reason) in map {
                let service =
                    if service.contains('/') { service.clone() } else { format!("default/{service}") };
                let found = reasons.get(&service);
                ensure!(
                    found.is_some_and(|found| found.contains(reason)),
                    "Service {service} has conditions {found:?}, expected {reason}"
                );
            }
        }
        for reason in &expect.node_conditions {
            ensure!(node.contains(reason), "the node has conditions {node:?}, expected {reason}");
        }
        for reason in &expect.no_conditions {
            ensure!(!node.contains(reason), "the node has condition {reason}");
            for (service, found) in &reasons {
                ensure!(!found.contains(reason), "Service {service} has condition {reason}");
            }
        }
        for word in &expect.says {
            ensure!(words.contains(word.as_str()), "nothing says {word:?}; what is said:\n{words}");
        }
        for (frontend, wanted) in &expect.states {
            let frontend = expand(frontend);
            let found = proxy.services().find_map(|(key, _)| {
                proxy.status(key)?.frontends.into_iter().find(|status| named(&status.frontend) == frontend)
            });
            let state = found.map(|status| match status.state {
                FrontendState::Programmed => "Programmed",
                FrontendState::Pending => "Pending",
                FrontendState::Waiting { .. } => "Waiting",
                FrontendState::Failed { .. } => "Failed",
            });
            ensure!(state == Some(wanted.as_str()), "{frontend} is {state:?}, expected {wanted}");
        }
        Ok(())
    }
}

/// A frontend as the dump writes it: fixture names for addresses.
fn expand(text: &str) -> String {
    named(text)
}

/// Replaces the address of a frontend's text by its fixture name.
fn named(text: &str) -> String {
    let Some((host, tail)) = text.rsplit_once(':') else { return text.to_owned() };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse() {
        Ok(address) => {
            let known = name(address);
            if known == bare { text.to_owned() } else { format!("{known}:{tail}") }
        }
        Err(_) => text.to_owned(),
    }
}

/// The journal's subject of a load balancer, as the dump writes it.
fn subject(text: &str) -> String {
    named(text.split_whitespace().next().unwrap_or_default())
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

/// Compares a row's short form with what HNS holds and returns the frontend.
fn compare(text: &str, short: &BTreeMap<String, (Guid, dump::Balancer)>) -> Result<String, String> {
    let (head, rest) =
        text.split_once("->").ok_or_else(|| format!("{text:?} is not like `VIP:80/TCP -> 8080 [R1]`"))?;
    let frontend = expand(head.trim());
    let (_, balancer) = short.get(&frontend).ok_or_else(|| format!("no load balancer holds {frontend}"))?;
    let (port, rest) = rest.split_once('[').ok_or_else(|| format!("{text:?} has no backends in brackets"))?;
    let port: u16 = port.trim().parse().map_err(|_| format!("{text:?}: {port:?} is no port"))?;
    ensure!(
        balancer.internal_port == port,
        "{frontend}: internal port is {}, expected {port}",
        balancer.internal_port
    );
    let (backends, keys) = rest.split_once(']').ok_or_else(|| format!("{text:?} has no closing bracket"))?;
    let wanted: BTreeSet<String> = backends.split_whitespace().map(|text| name(address(text))).collect();
    ensure!(
        balancer.backends == wanted,
        "{frontend}: backends are {:?}, expected {wanted:?}",
        balancer.backends
    );
    for word in keys.split_whitespace() {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("{text:?}: {word:?} is not key=value"))?;
        let found = match key {
            "flags" => &balancer.flags,
            "mapping" => &balancer.mapping,
            "dist" => &balancer.distribution,
            "source" => &balancer.source,
            _ => return Err(format!("{text:?}: {key:?} is not known")),
        };
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split('+').map(str::to_owned).collect();
            parts.sort();
            parts
        };
        let value =
            if key == "source" && !value.is_empty() { name(address(value)) } else { value.to_owned() };
        ensure!(sorted(found) == sorted(&value), "{frontend}: {key} is {found:?}, expected {value:?}");
    }
    Ok(frontend)
}

fn outside_balancer(balancer: &OutsideBalancer, endpoints: Vec<Guid>) -> LoadBalancer {
    let port_mappings = balancer
        .ports
        .iter()
        .map(|text| {
            let (external, internal) = text.split_once("->").expect("ports are like 80/TCP -> 8080");
            let (port, protocol) = external.trim().split_once('/').expect("ports are like 80/TCP -> 8080");
            PortMapping {
                protocol: match protocol {
                    "TCP" => 6,
                    "UDP" => 17,
                    _ => 132,
                },
                external_port: port.parse().expect("a port"),
                internal_port: internal.trim().parse().expect("a port"),
                flags: PortMappingFlags::from_bits_retain(balancer.mapping_flags),
                ..PortMapping::default()
            }
        })
        .collect();
    LoadBalancer {
        owner: balancer.owner.clone(),
        endpoints,
        source_vip: balancer.source.as_deref().map(|source| address(source).to_string()).unwrap_or_default(),
        frontend_vips: balancer.vips.iter().map(|vip| address(vip).to_string()).collect(),
        port_mappings,
        flags: LoadBalancerFlags::from_bits_retain(balancer.flags),
        schema_version: Some(SchemaVersion::V2),
        ..LoadBalancer::default()
    }
}

fn kube_proxy_mac(address: std::net::IpAddr) -> String {
    match address {
        std::net::IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("02-11-{a:02X}-{b:02X}-{c:02X}-{d:02X}")
        }
        std::net::IpAddr::V6(v6) => {
            let octets = v6.octets();
            format!("02-11-{:02X}-{:02X}-{:02X}-{:02X}", octets[15], octets[14], octets[13], octets[12])
        }
    }
}
