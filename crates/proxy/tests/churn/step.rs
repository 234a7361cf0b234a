//! One random step of a walk, and the quiet points between them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hcn::endpoint::{EndpointFlags, IpConfig};
use hcn::query::SchemaVersion;
use hcn::time::{Entropy, SeededEntropy};
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, LoadBalancer};
use hns::Loss;
use hns::faults::{Fault, FaultRule};
use hns::journal::Op;
use services::{Change, ObjectKind, ObjectRef};

use crate::truth;
use crate::world::objects::{ShortService, ShortSlice};
use crate::world::{Setup, World, address, dump};

const LOCALS: [&str; 5] = ["L1", "L2", "L3", "L4", "L5"];
const REMOTES: [&str; 6] = ["R1", "R2", "R3", "R4", "S1", "S2"];
const VIPS: [&str; 3] = ["198.51.100.10", "198.51.100.11", "198.51.100.12"];

/// A random walk through a world.
pub(crate) struct Walk {
    world: World,
    entropy: SeededEntropy,
    services: BTreeMap<u64, ShortService>,
    slices: BTreeMap<u64, ShortSlice>,
    /// Objects of others, as they were made.
    foreign: BTreeMap<(Kind, Guid), String>,
    /// What was done, for the message of a failure.
    log: Vec<String>,
    faulty: bool,
    calm: bool,
}

impl Walk {
    pub(crate) fn new(setup: Setup, entropy: SeededEntropy) -> Self {
        let mut walk = Self {
            world: World::new(setup),
            entropy,
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            foreign: BTreeMap::new(),
            log: Vec::new(),
            faulty: false,
            calm: false,
        };
        walk.quiet("at the start");
        walk
    }

    fn below(&self, bound: u64) -> u64 {
        self.entropy.below(bound)
    }

    fn one<'a>(&self, list: &[&'a str]) -> &'a str {
        list[usize::try_from(self.below(list.len() as u64)).expect("an index")]
    }

    fn some(&self, list: &[&str], least: u64) -> Vec<String> {
        let count = least + self.below(4);
        let chosen: BTreeSet<String> = (0..count).map(|_| self.one(list).to_owned()).collect();
        chosen.into_iter().collect()
    }

    pub(crate) fn step(&mut self, number: usize) {
        let before = self.world.hns.journal().next_seq();
        let bound = self.act();
        self.world.pass();
        if self.calm {
            self.bounded(before, bound);
        }
        self.calm = false;
        if number % 8 == 7 || self.below(10) == 0 {
            self.quiet(&format!("after step {number}"));
        }
    }

    /// Does something and returns, for a change of the cluster, how many writes it may cost.
    fn act(&mut self) -> Option<u64> {
        match self.below(100) {
            0..22 => return Some(self.change_service()),
            22..57 => return Some(self.change_slice()),
            57..63 => return Some(self.delete_service()),
            63..69 => self.change_pods(),
            69..80 => self.add_fault(),
            80..84 => self.restart_hns(),
            84..87 => {
                self.log("restart the proxy".to_owned());
                self.world.restart_proxy();
            }
            87..91 => self.break_ours(),
            91..95 => self.foreign_object(),
            95..97 => self.end_foreign(),
            _ => {
                let seconds = self.below(90);
                self.log(format!("{seconds} seconds pass"));
                self.world.clock.advance(Duration::from_secs(seconds));
            }
        }
        None
    }

    fn log(&mut self, what: String) {
        self.log.push(what);
    }

    fn service_name(number: u64) -> String {
        match number {
            0 => "kube-system/kube-dns".to_owned(),
            1 => "default/kubernetes".to_owned(),
            _ => format!("default/s{number}"),
        }
    }

    fn change_service(&mut self) -> u64 {
        let number = self.below(10);
        let kind = self.one(&["ClusterIP", "NodePort", "LoadBalancer"]);
        let dual = self.world.setup.families.len() > 1 && self.below(3) > 0;
        let mut ports = Vec::new();
        for port in 0..=self.below(2) {
            let protocol = self.one(&["TCP", "TCP", "UDP"]);
            let node_port = if kind == "ClusterIP" {
                String::new()
            } else {
                format!(" nodePort={}", 30_000 + number * 4 + port)
            };
            ports.push(format!("p{port} {}/{protocol}{node_port}", 80 + port));
        }
        let mut ips = vec![format!("10.60.0.{}", 20 + number)];
        if dual {
            ips.push(format!("2001:db8:60::{}", 20 + number));
        }
        let ingress = if kind == "LoadBalancer" && self.below(4) > 0 {
            let mut list = vec![serde_json::json!(self.one(&VIPS))];
            if dual {
                list.push(serde_json::json!("2001:db8:77::10"));
            }
            if self.below(6) == 0 {
                list.push(serde_json::json!({ "hostname": "lb.example" }));
            }
            list
        } else {
            Vec::new()
        };
        let mut annotations = BTreeMap::new();
        if self.below(6) == 0 {
            annotations.insert("preserve-destination".to_owned(), "true".to_owned());
        }
        let external = kind != "ClusterIP";
        let service = ShortService {
            name: Self::service_name(number),
            ip: None,
            ips,
            kind: Some(kind.to_owned()),
            ports,
            etp: external.then(|| self.one(&["Cluster", "Local"]).to_owned()),
            itp: Some(self.one(&["Cluster", "Cluster", "Local"]).to_owned()),
            affinity: (self.below(4) == 0).then_some(10_800),
            ingress,
            external_ips: if self.below(5) == 0 {
                vec![self.one(&["203.0.113.7", "203.0.113.8"]).to_owned()]
            } else {
                Vec::new()
            },
            annotations,
            labels: BTreeMap::new(),
            source_ranges: Vec::new(),
            health_check_node_port: None,
            ..ShortService::default()
        };
        self.log(format!("{service:?}"));
        let before = self.cost(number);
        self.world.apply(Change::Set(service.object()));
        self.services.insert(number, service);
        before + self.cost(number)
    }

    fn change_slice(&mut self) -> u64 {
        let number = self.below(10);
        let v6 = self.world.setup.families.len() > 1 && self.below(3) == 0;
        let suffix = if v6 { "v6" } else { "" };
        let known = crate::world::address_book();
        let mut endpoints = Vec::new();
        for name in self.some(&LOCALS, 0).into_iter().chain(self.some(&REMOTES, 0)) {
            let name = format!("{name}{suffix}");
            if !known.contains_key(&*name) {
                continue;
            }
            let state = self.one(&["", "", "", "", " terminating", " unready", " terminating unserving"]);
            endpoints.push(format!("{name}{state}"));
        }
        if !v6 && self.below(8) == 0 {
            endpoints.push("OUT nonode".to_owned());
        }
        let ports = BTreeMap::from([
            (
                "p0".to_owned(),
                *[8080, 8080, 9090].get(usize::try_from(self.below(3)).expect("an index")).expect("a port"),
            ),
            ("p1".to_owned(), 8081),
        ]);
        let slice = ShortSlice {
            name: Some(format!("s{number}-{}", if v6 { "v6" } else { "v4" })),
            of: Self::service_name(number),
            ports,
            port: None,
            protocol: None,
            endpoints,
            labels: BTreeMap::new(),
            ..ShortSlice::default()
        };
        self.log(format!("{slice:?}"));
        let key = number * 2 + u64::from(v6);
        let before = self.cost(number) + self.endpoints_of(key);
        if slice.endpoints.is_empty() {
            // An empty slice has no family of its own; the controller removes it.
            self.slices.remove(&key);
            let (namespace, name) = slice.reference();
            self.delete_object(ObjectKind::EndpointSlice, &namespace, &name);
        } else {
            self.world.apply(Change::Set(slice.object()));
            self.slices.insert(key, slice);
        }
        // Slices of both protocols share one number here, so UDP ports of the Service get none: that is a case too.
        before + self.cost(number) + self.endpoints_of(key)
    }

    fn delete_service(&mut self) -> u64 {
        let number = self.below(10);
        let cost = self.cost(number);
        self.services.remove(&number);
        let name = Self::service_name(number);
        self.log(format!("delete Service {name}"));
        let (namespace, name) = name.split_once('/').expect("a namespace");
        self.delete_object(ObjectKind::Service, namespace, name);
        cost
    }

    fn delete_object(&mut self, kind: ObjectKind, namespace: &str, name: &str) {
        self.world.apply(Change::Delete(ObjectRef { kind, namespace: namespace.into(), name: name.into() }));
    }

    /// Frontends of a Service and addresses of its slices: what a change of it may touch. Every one may be deleted
    /// and created.
    fn cost(&self, number: u64) -> u64 {
        let frontends = self.services.get(&number).map_or(0, |service| {
            let per_family = 1 + u64::from(service.kind.as_deref() != Some("ClusterIP"));
            let vips = service.ingress.len() as u64 * 2 + service.external_ips.len() as u64;
            // Two families, and each cluster IP's own endpoint.
            service.ports.len() as u64 * (2 * (per_family + vips) + 2)
        });
        frontends * 2 + self.endpoints_of(number * 2) + self.endpoints_of(number * 2 + 1)
    }

    fn endpoints_of(&self, key: u64) -> u64 {
        self.slices.get(&key).map_or(0, |slice| slice.endpoints.len() as u64)
    }

    fn change_pods(&mut self) {
        let locals = self.some(&LOCALS, 0);
        self.log(format!("pods on the node: {locals:?}"));
        // The CNI is not the one under test: faults do not befall it.
        self.world.locals = locals;
        self.world.furnish();
    }

    fn add_fault(&mut self) {
        let (fault, op, kind) = match self.below(9) {
            0 => (Fault::Down, None, None),
            1 => (Fault::DelFail, Some(Op::Delete), Some(Kind::LoadBalancer)),
            2 => (Fault::DelFail, Some(Op::Delete), Some(Kind::Endpoint)),
            3 => (Fault::DelGhost, Some(Op::Delete), Some(Kind::LoadBalancer)),
            4 => (Fault::Param, Some(Op::Create), Some(Kind::Endpoint)),
            5 => (Fault::Port, Some(Op::Create), Some(Kind::LoadBalancer)),
            6 => (Fault::Partial, Some(Op::Create), Some(Kind::LoadBalancer)),
            7 => (Fault::NilGet, Some(Op::Query), Some(Kind::LoadBalancer)),
            _ => (Fault::ModNoop, Some(Op::Modify), Some(Kind::LoadBalancer)),
        };
        let mut rule = FaultRule::new(fault).actor("proxy");
        if let Some(op) = op {
            rule = rule.on(op);
        }
        if let Some(kind) = kind {
            rule = rule.kind(kind);
        }
        let times = u32::try_from(1 + self.below(4)).expect("a small number");
        rule.times = Some(times);
        self.log(format!("{times} × {fault:?}"));
        self.world.hns.faults().add(rule).expect("the rule is valid");
        self.faulty = true;
    }

    fn restart_hns(&mut self) {
        let seed = self.below(u64::MAX);
        let loss = match self.below(4) {
            0 => Loss::None,
            1 => Loss::LoadBalancers,
            2 => Loss::Fraction { kind: Kind::LoadBalancer, share: 0.5, seed },
            _ => Loss::Fraction { kind: Kind::Endpoint, share: 0.3, seed },
        };
        self.log(format!("HNS restarts, losing {loss:?}"));
        self.world.hns.restart(loss).expect("HNS restarts");
        // What it lost of others is not the proxy's doing; what it lost of the CNI's comes back.
        let digest = self.world.hns.digest();
        self.foreign
            .retain(|(kind, id), _| digest.objects.get(kind).is_some_and(|objects| objects.contains_key(id)));
        self.world.furnish();
    }

    /// Somebody deletes an object of ours.
    fn break_ours(&mut self) {
        let hns = self.world.hns.actor("somebody");
        let kind = if self.below(2) == 0 { Kind::LoadBalancer } else { Kind::Endpoint };
        let ours: Vec<Guid> = if kind == Kind::LoadBalancer {
            dump::balancers(&self.world.hns)
                .into_keys()
                .filter(|id| !self.foreign.contains_key(&(kind, *id)))
                .collect()
        } else {
            dump::endpoints(&self.world.hns)
                .into_iter()
                .filter(|(id, endpoint)| endpoint.is_remote() && !self.foreign.contains_key(&(kind, *id)))
                .map(|(id, _)| id)
                .collect()
        };
        if ours.is_empty() {
            return;
        }
        let id = ours[usize::try_from(self.below(ours.len() as u64)).expect("an index")];
        self.log(format!("somebody deletes {kind} {id}"));
        hns.delete(kind, id).expect("somebody can delete what is there");
    }

    /// Somebody makes an object of their own; a load balancer may hold a frontend that is, or will be, wanted.
    fn foreign_object(&mut self) {
        let hns = self.world.hns.actor("somebody");
        let network = self.world.network();
        let number = self.below(200);
        let endpoint = Endpoint {
            name: Some(format!("foreign-{number}")),
            owner: Some("somebody".to_owned()),
            ip_configurations: vec![IpConfig {
                ip_address: format!("10.50.1.{}", 20 + number),
                ..IpConfig::default()
            }],
            flags: EndpointFlags::REMOTE_ENDPOINT,
            mac_address: Some(format!("0E-2A-0A-32-01-{:02X}", 20 + number)),
            schema_version: Some(SchemaVersion::V2),
            ..Endpoint::default()
        };
        // Its address or MAC may be taken: then nothing is made.
        let Ok(endpoint) = hns.make_endpoint(network, Guid::NIL, &endpoint) else { return };
        self.remember(Kind::Endpoint, endpoint);
        let (vip, port) = if self.below(3) == 0 {
            (format!("10.60.0.{}", 20 + self.below(10)), 80)
        } else {
            (format!("10.61.0.{}", 1 + self.below(200)), 443)
        };
        let balancer = LoadBalancer {
            owner: Some("somebody".to_owned()),
            endpoints: vec![endpoint],
            source_vip: "192.0.2.11".to_owned(),
            frontend_vips: vec![vip.clone()],
            port_mappings: vec![hcn::loadbalancer::PortMapping {
                protocol: 6,
                internal_port: 443,
                external_port: port,
                ..hcn::loadbalancer::PortMapping::default()
            }],
            schema_version: Some(SchemaVersion::V2),
            ..LoadBalancer::default()
        };
        // The frontend may be taken.
        if let Ok(id) = hns.make(Guid::NIL, &balancer) {
            self.log(format!("somebody makes load balancer {id} at {vip}:{port}"));
            self.remember(Kind::LoadBalancer, id);
        }
    }

    fn remember(&mut self, kind: Kind, id: Guid) {
        let document =
            self.world.hns.actor("observer").query(kind, id, &hcn::Query::all()).expect("it was just made");
        self.foreign.insert((kind, id), document);
    }

    fn end_foreign(&mut self) {
        let balancers: Vec<(Kind, Guid)> =
            self.foreign.keys().copied().filter(|(kind, _)| *kind == Kind::LoadBalancer).collect();
        for (kind, id) in balancers {
            if self.below(2) == 0 {
                self.foreign.remove(&(kind, id));
                // It may have been replaced because it held a wanted frontend.
                let gone = self.world.hns.actor("somebody").delete(kind, id);
                self.log(format!("somebody deletes their load balancer {id}: {gone:?}"));
            }
        }
    }

    /// A change of one Service in a settled world costs writes in proportion to it, and nothing else is touched.
    fn bounded(&mut self, before: u64, bound: Option<u64>) {
        let Some(bound) = bound else { return };
        let writes = self.writes_since(before);
        // The source VIP may be made once.
        assert!(writes <= bound + 2, "{writes} writes where {bound} are enough\n{}", self.story());
    }

    fn writes_since(&self, sequence: u64) -> u64 {
        let entries = self.world.hns.journal().writes_since(sequence);
        entries.iter().filter(|entry| &*entry.actor == "proxy").count() as u64
    }

    /// Faults end, everything settles, and everything must be right.
    pub(crate) fn quiet(&mut self, when: &str) {
        if self.faulty {
            self.world.hns.faults().clear();
            self.faulty = false;
        }
        // Missing endpoints and ghosts are found by the next check at the latest.
        self.world.check();
        let report = self.world.settle(40);
        let story = |walk: &Self| format!("{when}\n{}", walk.story());
        assert!(report.pending == 0, "not settled: {:?} {}", report.failures.last(), story(self));
        dump::assert_invariants(&self.world.hns, &story(self));
        let before = self.world.hns.journal().next_seq();
        self.world.check();
        let writes = self.writes_since(before);
        assert!(writes == 0, "I3: {writes} writes without a change: {}", story(self));
        if let Err(difference) = truth::compare(&self.world) {
            panic!("{difference}\n{}", story(self));
        }
        self.foreign_untouched(when);
        self.log.push(format!("— quiet {when} —"));
        self.calm = true;
    }

    /// Objects of others are as they were made, unless they held a wanted frontend.
    fn foreign_untouched(&mut self, when: &str) {
        let hns = self.world.hns.actor("observer");
        let wanted: BTreeSet<hcn::loadbalancer::Frontend> =
            self.world.driver.proxy().wanted().map(|(frontend, _, _)| *frontend).collect();
        let mut replaced = Vec::new();
        for ((kind, id), document) in &self.foreign {
            if let Ok(now) = hns.query(*kind, *id, &hcn::Query::all()) {
                assert_eq!(
                    &now,
                    document,
                    "{when}: {kind} {id} of somebody else has changed\n{}",
                    self.story()
                );
                continue;
            }
            let held = *kind == Kind::LoadBalancer
                && LoadBalancer::parse(document)
                    .expect("it was a load balancer")
                    .frontends()
                    .iter()
                    .any(|frontend| ever_wanted(frontend, &wanted));
            assert!(held, "{when}: {kind} {id} of somebody else is gone\n{}", self.story());
            replaced.push((*kind, *id));
        }
        for key in replaced {
            self.foreign.remove(&key);
        }
    }

    fn story(&self) -> String {
        let tail: Vec<&str> = self.log.iter().rev().take(40).rev().map(String::as_str).collect();
        let setup = &self.world.setup;
        // The whole state is long: TRANSOM_CHURN_STATE=1 asks for it.
        let state = if std::env::var_os("TRANSOM_CHURN_STATE").is_some() {
            self.world.hns.digest().to_string()
        } else {
            String::new()
        };
        format!(
            "profile {}, {}, DSR {}, seed {}; the last steps:\n{}\n{state}",
            setup.profile,
            setup.network,
            setup.config.enable_dsr,
            setup.seed,
            tail.join("\n"),
        )
    }
}

/// A frontend that was wanted since the object was made counts, though it may not be wanted now: every cluster IP that
/// a walk may choose.
fn ever_wanted(
    frontend: &hcn::loadbalancer::Frontend,
    wanted: &BTreeSet<hcn::loadbalancer::Frontend>,
) -> bool {
    wanted.contains(frontend)
        || frontend.vip.is_some_and(|vip| (20..30).any(|last| vip == address(&format!("10.60.0.{last}"))))
}
