//! How healthy a proxy is, as a pure function of what is known, a clock and limits. Knows neither sockets nor HNS.
//!
//! Three questions have three answers, because three parties act on them:
//!
//! | path | who asks | what 503 makes them do | 503 when |
//! |---|---|---|---|
//! | `/healthz` | load balancers in front of the nodes | send no traffic here | the node is to go, or what HNS holds cannot follow the Services |
//! | `/livez` | kubelet | end the process | only ending it can help: the loop is stuck outside of HNS, or a call of HNS has hung for very long |
//! | `/readyz` | kubelet, rollouts | wait with the next node | the first pass is not done, or `/healthz` would say 503 for another reason than the node |
//!
//! All that is not as it should be is named in the member `degraded`, whether or not it decides.

mod document;
mod judge;

use std::time::Duration;

use proxy::meter::{Operation, Watch};
use serde::{Deserialize, Serialize};

use crate::api::ApiFigures;
use crate::state::{Facts, State};

pub(crate) use document::name as family_name;
pub use document::{Answer, Document, FamilyHealth, Times};
pub use judge::{FamilyState, Verdict, judge};

/// Limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time between checks of HNS (kube-proxy's sync period); twice that without a completed pass is too long.
    pub sync_period: Duration,
    /// How long a frontend may be wanted and not programmed before it is named.
    pub unserved_after: Duration,
    /// How long a call of HNS may take before `/healthz` counts it as hanging.
    pub hang_after: Duration,
    /// How long one may hang before `/livez` asks for another process; `None`: never.
    pub restart_after: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(30),
            unserved_after: Duration::from_mins(2),
            hang_after: Duration::from_secs(30),
            restart_after: Some(Duration::from_mins(10)),
        }
    }
}

impl Settings {
    /// How old a change may be that no completed pass has seen (upstream's rule).
    pub fn stale_after(&self) -> Duration {
        self.sync_period.saturating_mul(2)
    }
}

/// What HNS is at, as seen without waiting for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HnsSeen {
    /// The call that is under way longest: which, on what kind of object, and for how long.
    pub under_way: Option<(Operation, Option<hcn::Kind>, Duration)>,
    /// When a call last began or returned.
    pub moved: Duration,
}

impl HnsSeen {
    /// Looks.
    pub fn of(watch: &Watch) -> Self {
        Self { under_way: watch.longest_under_way(), moved: watch.moved() }
    }
}

/// All that health is judged by.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The loop's facts.
    pub facts: Facts,
    /// HNS, once there is one.
    pub hns: Option<HnsSeen>,
    /// The API.
    pub api: ApiFigures,
    /// Listeners that could not be opened: what, and why.
    pub listeners: Vec<(String, String)>,
    /// The clock.
    pub now: Duration,
}

impl Seen {
    /// Looks at a running proxy.
    pub fn of(state: &State, api: ApiFigures, listeners: Vec<(String, String)>) -> Self {
        let hns = state.hns().as_ref().map(HnsSeen::of);
        Self { facts: state.facts(), hns, api, listeners, now: state.clock().now() }
    }
}

/// What follows from something that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It is shown.
    Shown,
    /// `/healthz` and `/readyz` say 503.
    Unhealthy,
    /// `/livez` says so too.
    Dead,
}

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The proxy prepares.
    Starting,
    /// It waits for something outside.
    Waiting,
    /// The source has not told of everything.
    Syncing,
    /// The first pass is not done.
    FirstPass,
    /// Changes wait for longer than twice the sync period.
    Stale,
    /// The loop does nothing although it should.
    LoopStuck,
    /// A call of HNS does not return.
    HnsHangs,
    /// HNS, or what the proxy needs of it, is not there.
    HnsUnusable,
    /// None of the frontends that are wanted is programmed.
    NothingServed,
    /// Some of them are not.
    Unserved,
    /// Another condition of the node.
    Condition,
    /// The API cannot be followed.
    ApiOutage,
    /// A port cannot be listened on.
    ListenFailed,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::Starting,
        Self::Waiting,
        Self::Syncing,
        Self::FirstPass,
        Self::Stale,
        Self::LoopStuck,
        Self::HnsHangs,
        Self::HnsUnusable,
        Self::NothingServed,
        Self::Unserved,
        Self::Condition,
        Self::ApiOutage,
        Self::ListenFailed,
    ];
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Degraded {
    /// What.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// For how long, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<u64>,
    /// What follows.
    pub effect: Effect,
}

#[cfg(test)]
mod tests;
