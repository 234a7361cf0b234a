//! The faults by name: what each does, which calls it can befall, which code it answers.
//!
//! One table ([`Fault::spec`]) says all of it; the plan checks rules against it and the decision reads it. Sources
//! of the rows: public reports, named in the table of [`super`].

use std::fmt;

use hcn::{HResult, Kind};

use crate::journal::Op;

/// A fault that a rule can inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The service is down: every call fails with an RPC-level error.
    Down,
    /// The call never returns, until [`super::Faults::release_hung`].
    Hang,
    /// The call takes long.
    Slow,
    /// The call succeeds and hands out nothing.
    NilGet,
    /// The create fails and leaves an object without port mapping.
    Partial,
    /// The delete fails and the object stays.
    DelFail,
    /// The delete succeeds and the object stays.
    DelGhost,
    /// The load balancer goes, its port reservation stays.
    PortLeak,
    /// The modify succeeds and changes nothing.
    ModNoop,
    /// The network goes, its load balancers stay behind in state 4.
    Degraded,
    /// The request is refused as a whole, without detail.
    Param,
    /// The port is reserved by somebody else.
    Port,
    /// The switch port is not found.
    SwPort,
    /// The endpoint's address is reserved.
    Addr,
    /// The endpoint's address is in no subnet.
    Subnet,
    /// The policy is refused by this build.
    Policy,
    /// The network is missing.
    NoNet,
    /// The network's name is taken, though it is not listed.
    NetName,
    /// There is no adapter for the network.
    NoAdapter,
    /// The namespace or element is missing.
    NoElem,
    /// A dead container is still in the namespace.
    NsBusy,
    /// The endpoint is made and never attached (state 3).
    Unattached,
    /// The object is there, its rules are not in the switch: an endpoint's NAT, all of a load balancer's.
    NoRules,
    /// The load balancer goes, its rules on pods' ports stay.
    StaleRules,
}

/// What a rule of a fault does to a call that it befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Fails with the code, by default without effect.
    Fail(HResult),
    /// Fails with the code and leaves part of the object.
    Partial(HResult),
    /// As [`super::Effect::Ghost`].
    Ghost,
    /// As [`super::Effect::NilGet`].
    Nil,
    /// As [`super::Effect::Hang`].
    Hang,
    /// Delay only.
    Delay,
    /// As [`super::Effect::KeepPorts`].
    KeepPorts,
    /// As [`super::Effect::Unattached`].
    Unattached,
    /// As [`super::Effect::Unprogrammed`].
    Unprogrammed,
    /// As [`super::Effect::LeaveRules`].
    LeaveRules,
    /// As [`super::Effect::Degrade`] on a network, a failure on its load balancers.
    Degrade(HResult),
}

/// Operations and kinds together: what a fault can befall.
pub(super) type Scope = &'static [(Op, &'static [Kind])];

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) manner: Manner,
    /// What it can befall; empty: any call, those on no kind too.
    pub(super) scope: Scope,
    /// What a rule means that does not ask for more; empty: all of `scope`.
    pub(super) usual: Scope,
}

const ANY: Scope = &[];
const LB_OR_ENDPOINT: &[Kind] = &[Kind::LoadBalancer, Kind::Endpoint];
const NETWORK: &[Kind] = &[Kind::Network];
const ENDPOINT: &[Kind] = &[Kind::Endpoint];
const DELETE_ALL: Scope = &[(Op::Delete, &Kind::ALL)];
const WRITE_PORTS: Scope = &[(Op::Create, LB_OR_ENDPOINT), (Op::Modify, LB_OR_ENDPOINT)];

const fn spec(name: &'static str, manner: Manner, scope: Scope) -> Spec {
    Spec { name, manner, scope, usual: ANY }
}

impl Spec {
    const fn usually(self, usual: Scope) -> Self {
        Self { usual, ..self }
    }
}

impl Fault {
    /// Every injectable fault, in the order of the module's table.
    pub const ALL: [Self; 24] = [
        Self::Down,
        Self::Hang,
        Self::Slow,
        Self::NilGet,
        Self::Partial,
        Self::DelFail,
        Self::DelGhost,
        Self::PortLeak,
        Self::ModNoop,
        Self::Degraded,
        Self::Param,
        Self::Port,
        Self::SwPort,
        Self::Addr,
        Self::Subnet,
        Self::Policy,
        Self::NoNet,
        Self::NetName,
        Self::NoAdapter,
        Self::NoElem,
        Self::NsBusy,
        Self::Unattached,
        Self::NoRules,
        Self::StaleRules,
    ];

    pub(super) const fn spec(self) -> Spec {
        use Manner::{
            Degrade, Delay, Fail, Ghost, Hang, KeepPorts, LeaveRules, Nil, Partial, Unattached, Unprogrammed,
        };
        match self {
            Self::Down => spec("F-DOWN", Fail(HResult::RPC_CALL_FAILED), ANY),
            Self::Hang => spec("F-HANG", Hang, ANY),
            Self::Slow => spec("F-SLOW", Delay, ANY),
            Self::NilGet => spec("F-NILGET", Nil, &[(Op::Query, &Kind::ALL), (Op::Enumerate, &Kind::ALL)])
                .usually(&[(Op::Query, &Kind::ALL)]),
            Self::Partial => spec("F-PARTIAL", Partial(HResult::E_FAIL), &[(Op::Create, LB_OR_ENDPOINT)]),
            Self::DelFail => spec("F-DELFAIL", Fail(HResult::E_FAIL), DELETE_ALL),
            Self::DelGhost => spec("F-DELGHOST", Ghost, DELETE_ALL),
            Self::PortLeak => spec("F-PORTLEAK", KeepPorts, &[(Op::Delete, LB_OR_ENDPOINT)]),
            Self::ModNoop => spec("F-MODNOOP", Ghost, &[(Op::Modify, &Kind::ALL)])
                .usually(&[(Op::Modify, &[Kind::LoadBalancer])]),
            Self::Degraded => spec(
                "F-DEGRADED",
                Degrade(HResult::NETWORK_NOT_FOUND),
                &[(Op::Delete, &[Kind::Network, Kind::LoadBalancer])],
            )
            .usually(&[(Op::Delete, NETWORK)]),
            Self::Param => spec(
                "F-PARAM",
                Fail(HResult::INVALID_PARAMETER),
                &[
                    (Op::Enumerate, &Kind::ALL),
                    (Op::Query, &Kind::ALL),
                    (Op::Create, &Kind::ALL),
                    (Op::Modify, &Kind::ALL),
                    (Op::Delete, &Kind::ALL),
                ],
            )
            .usually(&[(Op::Create, &Kind::ALL), (Op::Modify, &Kind::ALL)]),
            Self::Port => spec("F-PORT", Fail(HResult::PORT_ALREADY_EXISTS), WRITE_PORTS),
            Self::SwPort => spec("F-SWPORT", Fail(HResult::PORT_NOT_FOUND), WRITE_PORTS),
            Self::Addr => spec("F-ADDR", Fail(HResult::ADDR_INVALID_OR_RESERVED), &[(Op::Create, ENDPOINT)]),
            Self::Subnet => spec("F-SUBNET", Fail(HResult::INVALID_IP), &[(Op::Create, ENDPOINT)]),
            Self::Policy => spec(
                "F-POLICY",
                Fail(HResult::INVALID_POLICY),
                &[
                    (Op::Create, &[Kind::Endpoint, Kind::Network]),
                    (Op::Modify, &[Kind::Endpoint, Kind::Network]),
                ],
            )
            .usually(&[(Op::Create, ENDPOINT), (Op::Modify, ENDPOINT)]),
            Self::NoNet => spec(
                "F-NONET",
                Fail(HResult::NETWORK_NOT_FOUND),
                &[(Op::Create, ENDPOINT), (Op::Query, NETWORK), (Op::Modify, NETWORK), (Op::Delete, NETWORK)],
            ),
            Self::NetName => {
                spec("F-NETNAME", Fail(HResult::NETWORK_ALREADY_EXISTS), &[(Op::Create, NETWORK)])
            }
            Self::NoAdapter => {
                spec("F-NOADAPTER", Fail(HResult::ADAPTER_NOT_FOUND), &[(Op::Create, NETWORK)])
            }
            Self::NoElem => spec(
                "F-NOELEM",
                Fail(HResult::ELEMENT_NOT_FOUND),
                &[(Op::Query, &Kind::ALL), (Op::Modify, &Kind::ALL), (Op::Delete, &Kind::ALL)],
            )
            .usually(&[
                (Op::Query, &[Kind::Namespace]),
                (Op::Modify, &[Kind::Namespace]),
                (Op::Delete, &[Kind::Namespace]),
            ]),
            Self::NsBusy => {
                spec("F-NSBUSY", Fail(HResult::REQUEST_UNSUPPORTED), &[(Op::Delete, &[Kind::Namespace])])
            }
            Self::Unattached => spec(
                "F-UNATTACHED",
                Unattached,
                &[(Op::Create, ENDPOINT), (Op::Modify, &[Kind::Endpoint, Kind::Namespace])],
            )
            .usually(&[(Op::Create, ENDPOINT)]),
            Self::NoRules => spec("F-NORULES", Unprogrammed, WRITE_PORTS).usually(&[(Op::Create, ENDPOINT)]),
            Self::StaleRules => spec("F-STALERULES", LeaveRules, &[(Op::Delete, &[Kind::LoadBalancer])]),
        }
    }

    /// The name in scripts, journals and reports ("F-DELFAIL").
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The code that callers see unless the rule names another; none for faults that do not fail a call.
    pub const fn code(self) -> Option<HResult> {
        match self.spec().manner {
            Manner::Fail(code) | Manner::Partial(code) | Manner::Degrade(code) => Some(code),
            Manner::Ghost
            | Manner::Nil
            | Manner::Hang
            | Manner::Delay
            | Manner::KeepPorts
            | Manner::Unattached
            | Manner::Unprogrammed
            | Manner::LeaveRules => None,
        }
    }

    /// Whether a rule may say `after_effect`.
    pub(super) const fn may_follow_effect(self) -> bool {
        matches!(self.spec().manner, Manner::Fail(_))
    }

    /// The fault with this name, without regard to case, with or without "F-".
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|fault| same_name(fault.name(), text))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn same_name(name: &str, text: &str) -> bool {
    let bare = name.trim_start_matches("F-");
    text.eq_ignore_ascii_case(name) || text.eq_ignore_ascii_case(bare)
}

/// A row that is no rule: how it comes about instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The name of the row.
    pub name: &'static str,
    /// What to write instead, as the end of a sentence.
    pub instead: &'static str,
}

/// The rows that the emulated HNS shows by itself, because profile, switches or state say so.
pub const BEHAVIOURS: [Elsewhere; 5] = [
    Elsewhere {
        name: "F-PORTPOOL",
        instead: "make non-DSR load balancers (each takes 64 ports of the dynamic range) or narrow the host's dynamic range",
    },
    Elsewhere {
        name: "F-MAXDST",
        instead: "choose a profile (64 destinations in ws2019, 1024 in later ones) or set the destination limit in the switches",
    },
    Elsewhere { name: "F-EMPTYREF", instead: "create a load balancer without endpoints (0x803B001C)" },
    Elsewhere {
        name: "F-EXISTS",
        instead: "create a load balancer with a frontend that is there already (0x800700B7)",
    },
    Elsewhere { name: "F-ORDER", instead: "choose a profile: features follow its HNS version" },
];

/// The rows that are acts of somebody else: entries of the plan's `actions`.
pub const ACTIONS: [Elsewhere; 3] = [
    Elsewhere { name: "F-LOSE", instead: "{restart: {lose: LoadBalancers}}" },
    Elsewhere { name: "F-EXT", instead: "{delete: {kind: LoadBalancer, subject: \"10.60.0.1:443/TCP\"}}" },
    Elsewhere { name: "F-DUPIP", instead: "{duplicate_endpoint: {subject: \"10.50.0.9\", remote: true}}" },
];

pub(super) fn elsewhere(rows: &'static [Elsewhere], text: &str) -> Option<&'static Elsewhere> {
    rows.iter().find(|row| same_name(row.name, text.trim()))
}
