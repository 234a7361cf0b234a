//! What the proxy says about its work: changes, conditions, statuses. Plain data, for people and for programs.

use std::fmt;
use std::time::Duration;

use hcn::loadbalancer::Frontend;
use hcn::{Guid, Kind};
use serde::Serialize;
use services::ServiceKey;

use crate::plan::Role;

/// Why something could not be done as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum ConditionReason {
    /// HNS has no direct server return.
    DsrUnsupported,
    /// HNS has no source-IP distribution.
    AffinityUnsupported,
    /// Two claims on one frontend.
    FrontendConflict,
    /// An endpoint that the slice places on this node is not in HNS.
    LocalEndpointMissing,
    /// A remote endpoint could not be created.
    RemoteEndpointFailed,
    /// A load balancer could not be written.
    LoadBalancerFailed,
    /// Several load balancers hold one frontend; none is touched.
    AmbiguousFrontend,
    /// A load balancer of somebody else held a wanted frontend and was replaced.
    ForeignReplaced,
    /// There is no source VIP for an overlay load balancer.
    SourceVipMissing,
    /// `--source-vip` has no use on this network.
    SourceVipUnused,
    /// The host's gateway endpoint was not found.
    GatewayEndpointMissing,
    /// The HNS network is not there.
    NetworkMissing,
    /// HNS does not answer.
    HnsUnavailable,
    /// This HNS has no use for the network's type or version.
    Unsupported,
    /// The node has no usable address or MAC.
    NodeFactsMissing,
    /// Load balancers without DSR are about to use up the dynamic port range.
    PortPoolLow,
    /// Modify reports success and changes nothing; load balancers are replaced instead.
    ModifyIneffective,
    /// HNS refuses as many backends as its version should take; fewer are used.
    DestinationLimitLearned,
    /// `--forward-healthcheck-vip` is on but health is served on no port.
    HealthzPortMissing,
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A condition of a Service or, without a port, of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ProxyCondition {
    /// Why.
    pub reason: ConditionReason,
    /// The service port ("http/TCP/IPv4"), when it is about one.
    pub port: Option<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl ProxyCondition {
    /// A condition that is not about one port.
    pub fn new(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self { reason, port: None, message: message.into() }
    }
}

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Made.
    Create,
    /// Changed in place.
    Modify,
    /// Deleted and made again, back to back.
    Replace,
    /// Deleted.
    Delete,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Replace => "replace",
            Self::Delete => "delete",
        })
    }
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The field, named as in the HCN document.
    pub field: &'static str,
    /// What HNS holds; empty when there is nothing.
    pub from: String,
    /// What is wanted.
    pub to: String,
}

/// One write to HNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What was done.
    pub action: Action,
    /// To what kind of object.
    #[serde(serialize_with = "display")]
    pub kind: Kind,
    /// Which: a frontend or an address.
    pub subject: String,
    /// Its id.
    #[serde(serialize_with = "display")]
    pub id: Guid,
    /// The Service it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceKey>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The fields that differ; all of them for a create.
    pub fields: Vec<FieldChange>,
    /// Why.
    pub why: String,
}

fn display<T: fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The state of one frontend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum FrontendState {
    /// HNS holds what is wanted.
    Programmed,
    /// Not written yet.
    Pending,
    /// It cannot be served as things are; it is tried again when they change.
    Waiting {
        /// For what.
        reason: String,
    },
    /// The last write failed.
    Failed {
        /// The error.
        error: String,
        /// How often it has failed in a row.
        attempts: u32,
        /// When it is tried again, in the clock's time.
        #[serde(serialize_with = "seconds", rename = "retryAtSeconds")]
        retry_at: Duration,
    },
}

fn seconds<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.as_secs_f64())
}

/// One frontend of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendStatus {
    /// The frontend, as text.
    pub frontend: String,
    /// What it is for.
    pub role: Role,
    /// Its load balancer in HNS, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its state.
    #[serde(flatten)]
    pub state: FrontendState,
    /// Backends that could not be used, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What the proxy knows about a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceStatus {
    /// Its frontends, most important first.
    pub frontends: Vec<FrontendStatus>,
    /// Conditions of plan and programming (the view has its own).
    pub conditions: Vec<ProxyCondition>,
}

/// What one pass did.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Writes that succeeded, in order.
    pub changes: Vec<Change>,
    /// Writes and reads that failed: what, and the error.
    pub failures: Vec<Failure>,
    /// Differences found in HNS that nobody here had made.
    pub repairs: usize,
    /// Conditions of the node.
    pub conditions: Vec<ProxyCondition>,
    /// Frontends and deletions that are not done yet.
    pub pending: usize,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What was attempted.
    pub what: String,
    /// The error.
    pub error: String,
}

impl Report {
    /// Whether HNS holds all that is wanted.
    pub fn is_settled(&self) -> bool {
        self.pending == 0 && self.failures.is_empty()
    }

    /// Changes to load balancers.
    pub fn balancer_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.kind == Kind::LoadBalancer)
    }
}

/// The name of the derived id of a frontend's load balancer, and its subject in reports.
pub fn frontend_key(frontend: &Frontend) -> String {
    format!("loadbalancer/{frontend}")
}
