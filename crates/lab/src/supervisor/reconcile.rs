//! From what the manifests say to what the lab is: the first time all of it, afterwards the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;

use hcn::time::Clock;
use node::stack::ServiceTable;
use wire::Mac;

use super::cluster::{Read, profile};
use super::error::{LabError, Step as _};
use super::keep::Part;
use super::windows::WindowsNode;
use super::{FromSupervisor, Lab, Teller};
use crate::build::{self, Difference};
use crate::daemon::{NodeConfig, state_file};
use crate::netns::Netns;
use crate::plan::{LabPlan, WindowsPlan};

/// Whom daemons go on as: nobody.
const NOBODY: u32 = 65_534;

impl Lab {
    /// Makes the lab what the manifests say.
    pub(super) fn reconcile(&mut self, teller: &Teller<'_>) -> Result<(), LabError> {
        teller.step("Reading the manifests");
        let read = Read::of(&self.names.manifests(), &self.config, self.outside.profile_of_build())?;
        for problem in &read.problems {
            teller.say(&FromSupervisor::Problem(problem.clone()));
        }
        self.problems.clone_from(&read.problems);
        let mut plan =
            LabPlan::of(&read.cluster, &read.topology, &read.specs, self.config.network, &self.names)
                .step(|| "plan the lab".to_owned())?;
        self.attract(&mut plan, &read);
        if let Some(old) = &self.plan {
            // What is known of tunnels stays; what comes is written below.
            plan.set_tunnels(&self.tunnels(old));
        }
        teller.step(format!(
            "Making {} network namespaces: {} Linux nodes, {} Windows nodes, {} pods",
            plan.namespaces.len(),
            plan.linux.len(),
            plan.windows.len(),
            plan.pods.len()
        ));
        self.remove_windows(&plan);
        self.leave_namespaces(&plan)?;
        self.build(&plan)?;
        teller.step("Starting the Windows nodes");
        let tunnels = self.start_windows(&plan)?;
        let mut with_tunnels = plan.clone();
        with_tunnels.set_tunnels(&tunnels);
        self.build(&with_tunnels)?;
        teller.step("Giving pods their endpoints");
        self.furnish(&tunnels, &read)?;
        teller.step("Programming the Linux nodes");
        self.serve_linux(&with_tunnels, &read)?;
        teller.step("Starting what pods answer");
        self.answer(&with_tunnels, &read)?;
        if self.config.proxies {
            let proxies: Vec<Part> = self.windows.keys().cloned().map(Part::Proxy).collect();
            for proxy in proxies {
                self.start(&proxy)?;
            }
        }
        Ok(())
    }

    /// Leads external and ingress addresses to nodes: where somebody said, else to the first node that may take them.
    fn attract(&mut self, plan: &mut LabPlan, read: &Read) {
        self.vips.clear();
        let windows = plan.windows.iter().map(|node| node.node.clone());
        let nodes: Vec<String> = windows.chain(plan.linux.iter().map(|node| node.node.clone())).collect();
        for &vip in &read.topology.vips {
            let asked = self.led.get(&vip).filter(|node| nodes.contains(node)).cloned();
            for node in asked.into_iter().chain(nodes.iter().cloned()) {
                if plan.attract(vip, &node) {
                    self.vips.insert(vip, node);
                    break;
                }
            }
        }
    }

    /// The tunnels of the Windows nodes that are there.
    fn tunnels(&self, plan: &LabPlan) -> BTreeMap<String, Mac> {
        let known = |node: &WindowsPlan| {
            let mac = self.windows.get(&node.node)?.found(&*self.clock).ok()??;
            Some((node.node.clone(), mac))
        };
        plan.windows.iter().filter_map(known).collect()
    }

    fn build(&mut self, plan: &LabPlan) -> Result<(), LabError> {
        let difference = match &self.plan {
            Some(old) => Difference::new(old, plan),
            None => Difference::all(plan),
        };
        build::apply(&difference, &self.names, &mut self.record).step(|| "build the lab".to_owned())?;
        self.plan = Some(plan.clone());
        Ok(())
    }

    /// Ends what belongs to Windows nodes that are no more.
    fn remove_windows(&mut self, plan: &LabPlan) {
        let gone: Vec<String> =
            self.windows.keys().filter(|name| plan.windows_node(name).is_none()).cloned().collect();
        for name in gone {
            self.drop_part(&Part::Proxy(name.clone()));
            self.drop_part(&Part::Node(name.clone()));
            if let Some(node) = self.windows.remove(&name) {
                self.forget_sandboxes(&node);
            }
        }
        for node in self.windows.values_mut() {
            if let Some(new) = plan.windows_node(&node.plan.node) {
                node.replan(new.clone());
            }
        }
    }

    /// Sockets keep a namespace alive: those in namespaces that go are closed first.
    fn leave_namespaces(&mut self, plan: &LabPlan) -> Result<(), LabError> {
        let Some(old) = &self.plan else { return Ok(()) };
        let Some(responder) = &mut self.responder else { return Ok(()) };
        let gone = old.namespaces.keys().filter(|name| !plan.namespaces.contains_key(*name));
        for namespace in gone {
            responder.leave(namespace).step(|| format!("leave network namespace {namespace}"))?;
        }
        Ok(())
    }

    fn config_of(&self, plan: &WindowsPlan) -> NodeConfig {
        let profile = profile(&self.config, plan.build.as_deref(), self.outside.profile_of_build());
        let folder = self.names.node_folder(&plan.node);
        let faults = self.config.faults.get(&plan.node).or_else(|| self.config.faults.get(""));
        NodeConfig {
            name: plan.node.clone(),
            namespace: plan.namespace.clone(),
            profile: profile.name().to_owned(),
            mac: plan.mac,
            addresses: plan.addresses.clone(),
            routers: plan.routers.clone(),
            state: state_file(&folder),
            socket: self.names.hns_socket(&plan.node),
            token: self.names.hns_token(&plan.node),
            faults: faults.cloned(),
            switches: self.config.switches.clone(),
            user: Some(NOBODY),
        }
    }

    /// Starts the daemons that do not run, waits until all serve, and gives every node its network. Returns the MACs of
    /// their tunnels.
    fn start_windows(&mut self, plan: &LabPlan) -> Result<BTreeMap<String, Mac>, LabError> {
        for node in &plan.windows {
            if !self.windows.contains_key(&node.node) {
                let folder = self.names.node_folder(&node.node);
                fs::create_dir_all(&folder).step(|| format!("make {}", folder.display()))?;
                let new = WindowsNode::new(node.clone(), self.config_of(node));
                self.windows.insert(node.node.clone(), new);
            }
            if let Some(known) = self.windows.get_mut(&node.node) {
                known.hold(&plan.underlay)?;
            }
            self.start(&Part::Node(node.node.clone()))?;
        }
        for node in self.windows.values_mut() {
            node.wait()?;
        }
        let clock: &dyn Clock = &*self.clock;
        let found = each(&mut self.windows, |node| node.found(clock))?;
        Ok(found.into_iter().filter_map(|(name, mac)| Some((name, mac?))).collect())
    }

    fn furnish(&mut self, tunnels: &BTreeMap<String, Mac>, read: &Read) -> Result<(), LabError> {
        let mut macs = tunnels.clone();
        if let Some(plan) = &self.plan {
            macs.extend(
                plan.linux.iter().filter_map(|node| Some((node.node.clone(), node.tunnel.as_ref()?.mac))),
            );
        }
        let egress = read.egress(self.config.network.kind, self.config.loopback);
        each(&mut self.windows, |node| {
            node.furnish(&macs, &egress)?;
            node.seat()
        })?;
        Ok(())
    }

    fn serve_linux(&self, plan: &LabPlan, read: &Read) -> Result<(), LabError> {
        let mut rules = self.outside.linux(&read.cluster, &read.changes);
        for node in &plan.linux {
            let table = ServiceTable {
                rules: rules.remove(&node.node).unwrap_or_default(),
                pods: node.pod_cidrs.clone(),
            };
            crate::linux::serve(&node.namespace, &table, &node.masquerade)
                .step(|| format!("program node {}", node.node))?;
        }
        Ok(())
    }

    /// What pods answer, and what their programs find in `/etc`.
    fn answer(&mut self, plan: &LabPlan, read: &Read) -> Result<(), LabError> {
        for (namespace, files) in read.etc(plan) {
            let folder = self.names.etc(&namespace);
            files.write(&folder).step(|| format!("write {}", folder.display()))?;
        }
        self.wanted = if self.config.answers { read.wanted(plan, &self.names) } else { BTreeSet::new() };
        self.zone = crate::dns::Zone::of(&read.cluster);
        self.start(&Part::Responder)?;
        self.respond()
    }

    /// Gives the responder its sockets and names.
    pub(super) fn respond(&mut self) -> Result<(), LabError> {
        let Some(responder) = &mut self.responder else { return Ok(()) };
        let problems = responder
            .set(&self.wanted, |namespace, job| Netns::open(namespace)?.run(|| job.run()))
            .step(|| "give the responder its ports".to_owned())?;
        self.problems.extend(problems.iter().map(ToString::to_string));
        responder.names(&self.zone).step(|| "give the responder the cluster's names".to_owned())
    }
}

/// Does something with each node, all at once. The first error is told when all are done.
fn each<R: Send>(
    nodes: &mut BTreeMap<String, WindowsNode>,
    act: impl Fn(&mut WindowsNode) -> Result<R, LabError> + Sync,
) -> Result<Vec<(String, R)>, LabError> {
    thread::scope(|scope| {
        let act = &act;
        let jobs: Vec<_> =
            nodes.iter_mut().map(|(name, node)| (name.clone(), scope.spawn(move || act(node)))).collect();
        jobs.into_iter()
            .map(|(name, job)| {
                let result = job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result.map(|value| (name, value))
            })
            .collect()
    })
}
