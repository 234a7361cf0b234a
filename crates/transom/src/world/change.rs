//! What happens to a cluster that runs: its objects change, proxies look after HNS, a proxy starts anew.

use anyhow::Context as _;
use hcn::time::Clock as _;
use services::Change;

use super::{Running, World, start};

impl Running {
    /// Lets the time of one check of HNS pass, and brings HNS to what is wanted. Returns what still fails.
    pub fn check(&mut self) -> Vec<String> {
        let wait = self.driver.next_wakeup().saturating_sub(self.clock.now());
        self.clock.advance(wait);
        self.bring()
    }
}

impl World {
    /// Objects change: every proxy is told and acts. Pods and nodes that were not there when the world was built get
    /// no machines.
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            self.cluster.apply(change.clone());
            self.linux.apply(change);
            for running in self.proxies.values_mut() {
                running.driver.apply(change.clone());
            }
        }
        self.changes.extend_from_slice(changes);
        self.linux.program(&mut self.simulation);
        self.each_proxy(Running::bring);
    }

    /// Every proxy checks HNS once, as it does in every period.
    pub fn check(&mut self) {
        self.each_proxy(Running::check);
    }

    fn each_proxy(&mut self, act: impl Fn(&mut Running) -> Vec<String>) {
        self.failures.clear();
        for (node, running) in &mut self.proxies {
            self.failures.extend(act(running).into_iter().map(|failure| format!("node {node}: {failure}")));
        }
    }

    /// A node's proxy ends and starts anew over what HNS holds. It has not done anything yet.
    pub fn restart_proxy(&mut self, node: &str) -> anyhow::Result<()> {
        let unknown =
            || format!("node {node} has no proxy; Windows nodes: {}", self.windows_nodes().join(", "));
        let spec = self.simulation.spec(node).with_context(unknown)?;
        let windows = self.simulation.windows(node).with_context(unknown)?;
        let running = start(&self.plan, &self.changes, spec, windows.hns());
        self.proxies.insert(node.to_owned(), running);
        Ok(())
    }
}
