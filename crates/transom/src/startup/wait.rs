//! Waiting for the network: the CNI makes it when it comes to it, after a reboot anew, and nobody can say when.
//!
//! There is no time limit, as there is none in the start scripts; what is waited for is told whenever it changes.

use std::fmt;
use std::time::Duration;

use hcn::{Hcn, HcnExt, Network, Query};

use super::network::{NetworkPattern, Resolution};

/// How long between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// What one look has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The network is there.
    Found(String),
    /// HNS holds these networks and not the one that is meant.
    Missing {
        /// What is meant.
        wanted: String,
        /// What is there.
        present: Vec<String>,
    },
    /// Several networks are meant; waiting would not tell which.
    Ambiguous {
        /// What is meant.
        wanted: String,
        /// The networks that it fits.
        networks: Vec<String>,
    },
    /// HNS cannot be asked, so it is not known what there is.
    Unknown(String),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(name) => write!(f, "the HNS network {name:?} is there"),
            Self::Missing { wanted, present } if present.is_empty() => {
                write!(f, "there is no HNS network {wanted:?}, and no other; the CNI makes it")
            }
            Self::Missing { wanted, present } => write!(
                f,
                "there is no HNS network {wanted:?} among {}; the CNI makes it, or --network-name must name another",
                quoted(present)
            ),
            Self::Ambiguous { wanted, networks } => write!(
                f,
                "--network-name {wanted:?} means {} HNS networks: {}; give the name of one of them",
                networks.len(),
                quoted(networks)
            ),
            Self::Unknown(error) => write!(f, "HNS cannot be asked for its networks: {error}"),
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Looks once. A failed look says nothing about what there is.
pub fn look(hcn: &dyn Hcn, pattern: &NetworkPattern) -> State {
    let networks = match hcn.list::<Network>(&Query::all()) {
        Ok(networks) => networks,
        Err(error) => return State::Unknown(error.to_string()),
    };
    let mut names: Vec<String> = networks.into_iter().filter_map(|(_, network)| network.name).collect();
    match pattern.resolve(names.iter().map(String::as_str)) {
        Resolution::Found(name) => State::Found(name),
        Resolution::Ambiguous(networks) => State::Ambiguous { wanted: pattern.text().to_owned(), networks },
        Resolution::Missing => {
            names.sort_unstable();
            names.dedup();
            State::Missing { wanted: pattern.text().to_owned(), present: names }
        }
    }
}

/// Looks until the network is there, or until it is clear that waiting does not help. `pause` lets time pass between
/// two looks and says true to end the waiting; then there is no state. `tell` hears of every state that differs from
/// the one before, the last one included.
pub fn await_network(
    hcn: &dyn Hcn,
    pattern: &NetworkPattern,
    mut pause: impl FnMut(Duration) -> bool,
    mut tell: impl FnMut(&State),
) -> Option<State> {
    let mut before = None;
    loop {
        let state = look(hcn, pattern);
        if before.as_ref() != Some(&state) {
            tell(&state);
        }
        if matches!(state, State::Found(_) | State::Ambiguous { .. }) {
            return Some(state);
        }
        before = Some(state);
        if pause(PAUSE) {
            return None;
        }
    }
}
