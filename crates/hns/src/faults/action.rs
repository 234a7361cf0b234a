//! Acts of somebody else, at a call or at a time: F-LOSE, F-EXT, F-DUPIP, and ports that host processes take.
//!
//! The plan says when and what; the emulated HNS carries it out through [`FaultActions`], on its state directly:
//! an action is no call, so rules do not befall it and it does not count as one.

use std::time::Duration;

use hcn::{Guid, Kind};

use super::glob::Glob;

/// What a restart loses beyond what a restart always loses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Nothing more: only non-persistent objects vanish.
    None,
    /// Every load balancer.
    LoadBalancers,
    /// Every endpoint (and what cannot be without them).
    Endpoints,
    /// A share of the objects of a kind, chosen by seed.
    Fraction {
        /// The kind.
        kind: Kind,
        /// How many of them, 0 to 1.
        share: f64,
        /// The choice.
        seed: u64,
    },
    /// Every object of every kind.
    Everything,
    /// No object, but the switch's rules of every load balancer: HNS lists what is not carried out.
    Rules,
}

/// Names the objects an action is about: all that match both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// This id.
    pub id: Option<Guid>,
    /// A subject like this: a frontend, an address or a name.
    pub subject: Option<Glob>,
}

impl Target {
    /// The object with this id.
    pub const fn id(id: Guid) -> Self {
        Self { id: Some(id), subject: None }
    }

    /// The objects whose subject is like this.
    pub fn subject(pattern: &str) -> Self {
        Self { id: None, subject: Some(Glob::new(pattern)) }
    }

    /// Whether an object is meant.
    pub fn matches(&self, id: Guid, subject: &str) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
            && self.subject.as_ref().is_none_or(|glob| glob.matches_subject(subject))
    }
}

/// An act.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The service restarts and has lost something (F-LOSE; F-DOWN ends like this too).
    Restart {
        /// What, beyond the usual.
        loss: Loss,
        /// Whether subscribers are told (`ServiceDisconnect`); F-LOSE as reported comes without.
        notify: bool,
    },
    /// Another actor deletes the objects that match (F-EXT).
    Delete {
        /// Under whose name the journal has it.
        actor: String,
        /// Of which kind.
        kind: Kind,
        /// Which.
        target: Target,
    },
    /// Another actor changes the objects that match (F-EXT), e.g. the endpoint list of a load balancer by hand.
    Modify {
        /// Under whose name the journal has it.
        actor: String,
        /// Of which kind.
        kind: Kind,
        /// Which.
        target: Target,
        /// The settings of the modify call, as JSON.
        settings: String,
    },
    /// Another actor creates an object (F-EXT).
    Create {
        /// Under whose name the journal has it.
        actor: String,
        /// Of which kind.
        kind: Kind,
        /// The network an endpoint is made on.
        network: Option<Target>,
        /// The settings of the create call, as JSON.
        settings: String,
    },
    /// A second endpoint with the address of one that is there appears on its network (F-DUPIP).
    DuplicateEndpoint {
        /// The one that is there.
        target: Target,
        /// Whether the new one is remote (else local).
        remote: bool,
        /// Whether lists show the new one before the old one; see [`neighbour_id`].
        first: bool,
    },
    /// A host process starts or stops listening on a port (F-PORT by state instead of by code).
    Listen {
        /// IANA protocol number.
        protocol: u32,
        /// The port.
        port: u16,
        /// Starts or stops.
        open: bool,
    },
}

/// An id directly before or after another in the order of ids: how F-DUPIP places an endpoint in lists that are
/// sorted by id.
#[must_use]
pub fn neighbour_id(id: Guid, before: bool) -> Guid {
    let value = id.uuid().as_u128();
    Guid::from_u128(if before { value.wrapping_sub(1) } else { value.wrapping_add(1) })
}

/// When an act is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Before the call with this index (the first call of an HNS has index 0).
    Call(u64),
    /// At this time of the clock, seen at the first call from then on.
    Time(Duration),
}

/// An act with its time. It happens once.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledAction {
    /// When.
    pub due: Due,
    /// What.
    pub action: Action,
}

/// What the emulated HNS can do on behalf of an [`Action`]. Each function answers how many objects it touched:
/// an action that touches none is a mistake of the script, and is reported as such.
pub trait FaultActions {
    /// Restarts the service.
    fn restart(&self, loss: Loss, notify: bool) -> hcn::Result<usize>;
    /// Deletes the objects that match.
    fn delete(&self, actor: &str, kind: Kind, target: &Target) -> hcn::Result<usize>;
    /// Modifies the objects that match.
    fn modify(&self, actor: &str, kind: Kind, target: &Target, settings: &str) -> hcn::Result<usize>;
    /// Creates an object.
    fn create(&self, actor: &str, kind: Kind, network: Option<&Target>, settings: &str)
    -> hcn::Result<usize>;
    /// Creates an endpoint with the addresses of one that is there, past every check of addresses.
    fn duplicate_endpoint(&self, target: &Target, remote: bool, first: bool) -> hcn::Result<usize>;
    /// Opens or closes a port of a host process.
    fn listen(&self, protocol: u32, port: u16, open: bool) -> hcn::Result<usize>;
}

impl Action {
    /// Has it done.
    pub fn perform(&self, on: &dyn FaultActions) -> hcn::Result<usize> {
        match self {
            Self::Restart { loss, notify } => on.restart(*loss, *notify),
            Self::Delete { actor, kind, target } => on.delete(actor, *kind, target),
            Self::Modify { actor, kind, target, settings } => on.modify(actor, *kind, target, settings),
            Self::Create { actor, kind, network, settings } => {
                on.create(actor, *kind, network.as_ref(), settings)
            }
            Self::DuplicateEndpoint { target, remote, first } => {
                on.duplicate_endpoint(target, *remote, *first)
            }
            Self::Listen { protocol, port, open } => on.listen(*protocol, *port, *open),
        }
    }

    /// The row of the fault table that it is.
    pub const fn fault(&self) -> &'static str {
        match self {
            Self::Restart { .. } => "F-LOSE",
            Self::Delete { .. } | Self::Modify { .. } | Self::Create { .. } => "F-EXT",
            Self::DuplicateEndpoint { .. } => "F-DUPIP",
            Self::Listen { .. } => "F-PORT",
        }
    }
}

/// What became of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Performed {
    /// What was due.
    pub scheduled: ScheduledAction,
    /// Before the call with this index.
    pub before_call: u64,
    /// Objects touched, or why not.
    pub result: hcn::Result<usize>,
}
