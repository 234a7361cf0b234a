//! A verdict as the documents that are served. The members that upstream has mean what they mean there; `degraded` is ours.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use services::IpFamily;

use super::{Degraded, Verdict};
use crate::clock_text::rfc3339;

/// Health of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyHealth {
    /// Now while it is healthy, else when a pass was last completed.
    pub last_updated: String,
    /// No change waits for too long.
    pub healthy: bool,
}

/// The body of `/healthz`, `/livez` and `/readyz`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The latest of the families' times.
    pub last_updated: String,
    /// The clock.
    pub current_time: String,
    /// Whether load balancers should use this node at all; in `/healthz` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_eligible: Option<bool>,
    /// Whether the proxy is as this path asks, the node aside.
    pub healthy: bool,
    /// By family ("IPv4", "IPv6").
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub status: BTreeMap<String, FamilyHealth>,
    /// All that is not as it should be; an extension of upstream's document.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub degraded: Vec<Degraded>,
}

/// What a path answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// 200 or 503.
    pub status: u16,
    /// The body.
    pub document: Document,
}

/// How moments of the proxy's clock become moments that others understand.
pub struct Times<'a> {
    /// The clock now, for others.
    pub wall: SystemTime,
    /// When the process began.
    pub started: SystemTime,
    /// A moment of the proxy's clock.
    pub at: &'a dyn Fn(Duration) -> SystemTime,
}

impl Verdict {
    /// `/healthz`: whether load balancers should send traffic here.
    pub fn healthz(&self, times: &Times<'_>) -> Answer {
        let healthy = self.is_serving();
        let mut document = self.document(healthy, times);
        document.node_eligible = Some(self.node_eligible);
        answer(healthy && self.node_eligible, document)
    }

    /// `/livez`: whether the process is worth keeping.
    pub fn livez(&self, times: &Times<'_>) -> Answer {
        let healthy = self.is_alive();
        answer(healthy, self.document(healthy, times))
    }

    /// `/readyz`: whether this proxy does its work.
    pub fn readyz(&self, times: &Times<'_>) -> Answer {
        let healthy = self.is_serving();
        answer(healthy, self.document(healthy, times))
    }

    fn document(&self, healthy: bool, times: &Times<'_>) -> Document {
        let updated = |healthy: bool, completed: Option<Duration>| {
            if healthy { times.wall } else { completed.map_or(times.started, times.at) }
        };
        let latest = self.families.values().map(|family| updated(family.healthy, family.completed)).max();
        let status = self
            .families
            .iter()
            .map(|(family, state)| {
                let last_updated = rfc3339(updated(state.healthy, state.completed));
                (name(*family).to_owned(), FamilyHealth { last_updated, healthy: state.healthy })
            })
            .collect();
        Document {
            last_updated: rfc3339(if healthy { times.wall } else { latest.unwrap_or(times.started) }),
            current_time: rfc3339(times.wall),
            node_eligible: None,
            healthy,
            status,
            degraded: self.degraded.clone(),
        }
    }
}

fn answer(ok: bool, document: Document) -> Answer {
    Answer { status: if ok { 200 } else { 503 }, document }
}

/// A family as metrics and documents name it.
pub(crate) fn name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    }
}
