//! A network that a pattern names may be made anew under another name, as Calico does after a reboot. When the one that is used
//! is gone, another is looked for.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use hcn::Hcn;
use proxy::Config;
use proxy::status::ConditionReason;
use proxyd::{Input, Observer, Passed};

use crate::startup::{self, NetworkPattern, State};

/// Looks after each pass that misses its network.
pub(super) struct Follower {
    hcn: Arc<dyn Hcn>,
    pattern: NetworkPattern,
    config: Config,
    inputs: Sender<Input>,
}

impl Follower {
    pub(super) fn new(
        hcn: Arc<dyn Hcn>,
        pattern: NetworkPattern,
        config: Config,
        inputs: Sender<Input>,
    ) -> Self {
        Self { hcn, pattern, config, inputs }
    }
}

impl Observer for Follower {
    fn passed(&mut self, passed: &Passed<'_>) {
        let conditions = &passed.report.conditions;
        if self.pattern.is_exact()
            || !conditions.iter().any(|condition| condition.reason == ConditionReason::NetworkMissing)
        {
            return;
        }
        if let State::Found(name) = startup::look(&*self.hcn, &self.pattern)
            && name != self.config.network_name
        {
            tracing::info!(
                old = self.config.network_name,
                new = name,
                "The HNS network has another name now"
            );
            startup::settle(&mut self.config, &self.pattern, &name);
            // The loop has ended when nobody listens.
            let _ = self.inputs.send(Input::Network(name, self.config.source_vip_endpoints.clone()));
        }
    }
}
