//! The status of a running proxy as one document, for `transom proxy status` and other programs on the machine. Typed both ways;
//! times are text. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use proxy::status::FrontendState;
use serde::{Deserialize, Serialize};
use services::ServiceKey;

use crate::api::ApiResource;
use crate::clock_text::rfc3339;
use crate::health::{Degraded, Seen, Verdict, family_name};
use crate::state::{NodeState, Phase, ServiceEntry, State};

/// Where it is served.
pub const PATH: &str = "/debug/transom/status";

/// How many Services a document has unless somebody asks for another number.
const PAGE: usize = 500;

/// The most that can be asked for at once.
const MOST: usize = 5_000;

/// Which Services are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Those of a namespace.
    pub namespace: Option<String>,
    /// Those of a name.
    pub name: Option<String>,
    /// Those of which something is not as it should be.
    pub troubled: bool,
    /// How many.
    pub limit: usize,
    /// Those after this one, as `namespace/name`: the `next` of the page before.
    pub after: Option<String>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { namespace: None, name: None, troubled: false, limit: PAGE, after: None }
    }
}

impl Filter {
    /// Reads `namespace`, `name`, `troubled` (true or false), `limit` and `after`.
    pub fn parse(parameter: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let troubled = match parameter("troubled").as_deref() {
            None | Some("false") => false,
            Some("true" | "") => true,
            Some(other) => return Err(format!("troubled is {other:?}; true or false would be right")),
        };
        let limit = match parameter("limit") {
            None => PAGE,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MOST).contains(limit))
                .ok_or_else(|| format!("limit is {text:?}; a number from 1 to {MOST} would be right"))?,
        };
        let (namespace, name) = (parameter("namespace"), parameter("name"));
        Ok(Self { namespace, name, troubled, limit, after: parameter("after") })
    }

    fn takes(&self, key: &ServiceKey, entry: &ServiceEntry) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && self.name.as_deref().is_none_or(|name| name == &*key.name)
            && (!self.troubled || is_troubled(entry))
    }
}

fn is_troubled(entry: &ServiceEntry) -> bool {
    !entry.unsupported.is_empty()
        || !entry.status.conditions.is_empty()
        || entry.status.frontends.iter().any(|frontend| frontend.state != FrontendState::Programmed)
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The clock.
    pub current_time: String,
    /// When the process began.
    pub started: String,
    /// How far the proxy has come.
    pub phase: String,
    /// What it waits for, while it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<String>,
    /// The own Node.
    pub node: NodeDocument,
    /// HNS follows the Services.
    pub serving: bool,
    /// The process is worth keeping.
    pub alive: bool,
    /// All that is not as it should be.
    pub degraded: Vec<Degraded>,
    /// The families that are served.
    pub families: Vec<FamilyDocument>,
    /// The loop's passes.
    pub passes: PassesDocument,
    /// HNS.
    pub hns: HnsDocument,
    /// The API's watches.
    pub api: Vec<ApiResource>,
    /// Conditions of the node.
    pub conditions: Vec<ConditionDocument>,
    /// Frontends that are wanted.
    pub frontends: usize,
    /// Of those, how many are not programmed.
    pub unserved: usize,
    /// How many Services are served altogether.
    pub service_count: usize,
    /// The Services that were asked for.
    pub services: Vec<ServiceDocument>,
    /// There are more: ask for those after this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

/// The own Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDocument {
    /// It was seen once.
    pub seen: bool,
    /// It is there now.
    pub present: bool,
    /// Load balancers should use it.
    pub eligible: bool,
}

/// One family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyDocument {
    /// "IPv4" or "IPv6".
    pub family: String,
    /// No change waits for too long.
    pub healthy: bool,
    /// When a pass was last completed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub completed: Option<String>,
}

/// The loop's passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassesDocument {
    /// How many ended.
    pub total: u64,
    /// Of those, how many were completed.
    pub completed: u64,
    /// Since when one is under way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub under_way: Option<String>,
    /// When one last ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<String>,
}

/// HNS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HnsDocument {
    /// Calls that returned.
    pub calls: u64,
    /// Of those, failed ones.
    pub errors: u64,
    /// The call that is under way longest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub under_way: Option<CallDocument>,
}

/// A call that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallDocument {
    /// The operation.
    pub operation: String,
    /// On what kind of object.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
    /// For how long.
    pub seconds: f64,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionDocument {
    /// Why, in one word.
    pub reason: String,
    /// The service port, when it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<String>,
    /// For people.
    pub message: String,
    /// Since when, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDocument {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its frontends, most important first.
    pub frontends: Vec<FrontendDocument>,
    /// What is not as it should be, or cannot be honoured.
    pub conditions: Vec<ConditionDocument>,
    /// Endpoints that serve nothing.
    pub left_out: usize,
}

/// A frontend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendDocument {
    /// The frontend, as text.
    pub frontend: String,
    /// What it is for.
    pub role: String,
    /// Its load balancer in HNS.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// `programmed`, `pending`, `waiting` or `failed`.
    pub state: String,
    /// The last error, or what is waited for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// How often it has failed in a row.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempts: Option<u32>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_at: Option<String>,
    /// Since when it is not programmed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unserved_since: Option<String>,
    /// Backends that could not be used, and why.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<String>,
}

/// Writes it.
pub fn document(state: &State, seen: &Seen, verdict: &Verdict, filter: &Filter) -> Status {
    let facts = &seen.facts;
    let time = |at: Duration| rfc3339(state.wall(at));
    let (phase, waiting_for) = match &facts.phase {
        Phase::Starting => ("starting", None),
        Phase::Waiting { what } => ("waiting", Some(what.clone())),
        Phase::Syncing => ("syncing", None),
        Phase::Running => ("running", None),
    };
    let NodeState { seen: node_seen, present, eligible } = facts.node;
    let meters = state.hns().map(|watch| watch.meters()).unwrap_or_default();
    let under_way = seen.hns.and_then(|hns| hns.under_way).map(|(operation, kind, since)| CallDocument {
        operation: operation.name().to_owned(),
        kind: kind.map(|kind| kind.to_string()),
        seconds: since.as_secs_f64(),
    });
    let services = state.services();
    let service_count = services.len();
    let after = filter.after.as_deref().map(split);
    let is_after = |key: &ServiceKey| {
        after.as_ref().is_none_or(|(namespace, name)| (&*key.namespace, &*key.name) > (*namespace, *name))
    };
    let mut chosen: Vec<(ServiceKey, Arc<ServiceEntry>)> = services
        .into_iter()
        .filter(|(key, entry)| is_after(key) && filter.takes(key, entry))
        .take(filter.limit + 1)
        .collect();
    let more = chosen.len() > filter.limit;
    chosen.truncate(filter.limit);
    let next =
        more.then(|| chosen.last().map(|(key, _)| format!("{}/{}", key.namespace, key.name))).flatten();
    Status {
        current_time: rfc3339(state.clock().wall()),
        started: rfc3339(state.started()),
        phase: phase.to_owned(),
        waiting_for,
        node: NodeDocument { seen: node_seen, present, eligible },
        serving: verdict.is_serving(),
        alive: verdict.is_alive(),
        degraded: verdict.degraded.clone(),
        families: verdict
            .families
            .iter()
            .map(|(&family, state)| FamilyDocument {
                family: family_name(family).to_owned(),
                healthy: state.healthy,
                completed: state.completed.map(time),
            })
            .collect(),
        passes: PassesDocument {
            total: facts.passes.total,
            completed: facts.passes.completed,
            under_way: facts.passes.under_way.map(time),
            ended: facts.passes.ended.map(time),
        },
        hns: HnsDocument {
            calls: meters.calls(),
            errors: meters.figures.values().map(|figures| figures.errors).sum(),
            under_way,
        },
        api: seen.api.resources.clone(),
        conditions: facts
            .conditions
            .iter()
            .map(|condition| ConditionDocument {
                reason: condition.reason.to_string(),
                port: condition.port.clone(),
                message: condition.message.clone(),
                since: facts.conditions_since.get(&condition.reason).copied().map(time),
            })
            .collect(),
        frontends: facts.wanted,
        unserved: facts.unserved.len(),
        service_count,
        services: chosen.iter().map(|(key, entry)| service(key, entry, seen, &time)).collect(),
        next,
    }
}

fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or((key, ""))
}

fn service(
    key: &ServiceKey,
    entry: &ServiceEntry,
    seen: &Seen,
    time: &dyn Fn(Duration) -> String,
) -> ServiceDocument {
    let frontends = entry.status.frontends.iter().map(|frontend| {
        let (state, error, attempts, retry_at) = match &frontend.state {
            FrontendState::Programmed => ("programmed", None, None, None),
            FrontendState::Pending => ("pending", None, None, None),
            FrontendState::Waiting { reason } => ("waiting", Some(reason.clone()), None, None),
            FrontendState::Failed { error, attempts, retry_at } => {
                ("failed", Some(error.clone()), Some(*attempts), Some(time(*retry_at)))
            }
        };
        let open = seen.facts.unserved.get(&frontend.frontend).filter(|open| open.service == *key);
        FrontendDocument {
            frontend: frontend.frontend.clone(),
            role: frontend.role.to_string(),
            id: frontend.id.clone(),
            state: state.to_owned(),
            error,
            attempts,
            retry_at,
            unserved_since: open.map(|open| time(open.since)),
            left_out: frontend.left_out.clone(),
        }
    });
    let unsupported = entry.unsupported.iter().map(|(reason, port, message)| ConditionDocument {
        reason: reason.clone(),
        port: port.clone(),
        message: message.clone(),
        since: None,
    });
    let programming = entry.status.conditions.iter().map(|condition| ConditionDocument {
        reason: condition.reason.to_string(),
        port: condition.port.clone(),
        message: condition.message.clone(),
        since: None,
    });
    ServiceDocument {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        frontends: frontends.collect(),
        conditions: programming.chain(unsupported).collect(),
        left_out: entry.left_out,
    }
}

#[cfg(test)]
mod tests;
