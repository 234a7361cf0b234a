//! What is said about a Service: things Windows cannot honour, and faults of the input.
//!
//! A condition is a kind with a stable reason word (for events, metrics and scripts) and a sentence for people.

use std::fmt;

use serde::Serialize;

/// The kinds of condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionKind {
    /// The affinity timeout has no effect: Windows hashes the client address and knows no time.
    AffinityTimeout,
    /// `spec.loadBalancerSourceRanges` is not enforced.
    SourceRanges,
    /// Endpoints advertise several numbers for one service port; a load balancer has one.
    MixedTargetPorts,
    /// More endpoints than a load balancer of this build may have.
    TooManyBackends,
    /// `spec.externalIPs` is set but the node was told not to serve them.
    ExternalIpsDisabled,
    /// No family of the Service is served by this node.
    FamilyNotServed,
    /// No endpoint can be used for a port.
    NoUsableEndpoints,
    /// A protocol other than TCP, UDP or SCTP.
    UnknownProtocol,
    /// An address or network that cannot be used.
    InvalidAddress,
    /// A port number or port entry that cannot be used.
    InvalidPort,
    /// Another field with a value that cannot be used.
    InvalidValue,
}

impl ConditionKind {
    /// Every kind, in the order they are reported.
    pub const ALL: [Self; 11] = [
        Self::AffinityTimeout,
        Self::SourceRanges,
        Self::MixedTargetPorts,
        Self::TooManyBackends,
        Self::ExternalIpsDisabled,
        Self::FamilyNotServed,
        Self::NoUsableEndpoints,
        Self::UnknownProtocol,
        Self::InvalidAddress,
        Self::InvalidPort,
        Self::InvalidValue,
    ];

    /// The stable reason word.
    pub fn reason(self) -> &'static str {
        match self {
            Self::AffinityTimeout => "AffinityTimeout",
            Self::SourceRanges => "SourceRanges",
            Self::MixedTargetPorts => "MixedTargetPorts",
            Self::TooManyBackends => "TooManyBackends",
            Self::ExternalIpsDisabled => "ExternalIPsDisabled",
            Self::FamilyNotServed => "FamilyNotServed",
            Self::NoUsableEndpoints => "NoUsableEndpoints",
            Self::UnknownProtocol => "UnknownProtocol",
            Self::InvalidAddress => "InvalidAddress",
            Self::InvalidPort => "InvalidPort",
            Self::InvalidValue => "InvalidValue",
        }
    }

    /// Whether it tells of something the input asks for and Windows cannot do (rather than of the state or the
    /// correctness of the input).
    pub fn is_unsupported(self) -> bool {
        matches!(
            self,
            Self::AffinityTimeout | Self::SourceRanges | Self::MixedTargetPorts | Self::TooManyBackends
        )
    }

    /// Whether it tells of a fault in the input.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::UnknownProtocol | Self::InvalidAddress | Self::InvalidPort | Self::InvalidValue)
    }
}

impl fmt::Display for ConditionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

/// One thing said about a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What kind.
    pub kind: ConditionKind,
    /// The port it is about, as `name/TCP/IPv4`; `None` for the Service as a whole.
    pub port: Option<String>,
    /// A sentence for people: what is wrong, and what follows.
    pub message: String,
}

impl Condition {
    /// A condition of the Service as a whole.
    pub(crate) fn of_service(kind: ConditionKind, message: impl Into<String>) -> Self {
        Self { kind, port: None, message: message.into() }
    }

    /// A condition of one port.
    pub(crate) fn of_port(kind: ConditionKind, port: String, message: impl Into<String>) -> Self {
        Self { kind, port: Some(port), message: message.into() }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            Some(port) => write!(f, "{} ({port}): {}", self.kind, self.message),
            None => write!(f, "{}: {}", self.kind, self.message),
        }
    }
}
