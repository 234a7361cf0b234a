//! What `vfpctrl` prints, over an emulated switch: the verbs that support scripts use, in their text and JSON.
//!
//! [`run`] takes the words of a command line as `vfpctrl` does: selectors (`/port`, `/layer`, `/group`, `/rule`, …)
//! and one verb, in any order. The spelling of labels follows what public parsers and pasted output show; where no
//! public sample of a verb's output exists, the form is this project's own (docs/fidelity.md says which).
//!
//! The crate only reads the switch (but for `process-tuples`, which asks its rules) and knows nothing of HNS.

mod args;
mod json;
mod text;

use std::time::Duration;

use uuid::Uuid;
use vfp::{NoRoutes, Switch};

pub use args::{Command, Verb};

/// Why a command line could not be carried out; what `vfpctrl` would print after `ERROR:`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CtrlError {
    /// The words make no command.
    #[error("{0}")]
    Usage(String),
    /// Something that was selected is not there.
    #[error("there is no {kind} {name}; {right}")]
    Missing {
        /// What kind of thing.
        kind: &'static str,
        /// Its name as given.
        name: String,
        /// How to find the right one.
        right: &'static str,
    },
}

/// Carries out a command line and gives what is printed. `now`: the switch's time.
pub fn run<S: AsRef<str>>(switch: &mut Switch, words: &[S], now: Duration) -> Result<String, CtrlError> {
    let command = Command::parse(words)?;
    execute(switch, &command, now)
}

/// Carries out a command.
pub fn execute(switch: &mut Switch, command: &Command, now: Duration) -> Result<String, CtrlError> {
    if command.json {
        return json::print(switch, command, now);
    }
    let body = match command.verb {
        Verb::ListVmswitchPort => text::ports::list(switch),
        Verb::ListLayer => text::layers::layers(switch, port(switch, command)?, command)?,
        Verb::ListGroup => text::layers::groups(switch, port(switch, command)?, command)?,
        Verb::ListRule => text::layers::rules(switch, port(switch, command)?, command)?,
        Verb::GetRuleInfo | Verb::GetRuleCounter => {
            text::layers::counters(switch, port(switch, command)?, command)?
        }
        Verb::GetPortCounter => text::counters::port(switch, port(switch, command)?),
        Verb::GetPortFlowStats => text::counters::flows(switch, port(switch, command)?),
        Verb::GetPortState => text::ports::state(switch, port(switch, command)?),
        Verb::ListUnifiedFlow => text::flows::list(switch, port(switch, command)?, now),
        Verb::ListNatPool => text::nat::pools(switch, selected_port(switch, command)?),
        Verb::ListNatRange => text::nat::ranges(switch, selected_port(switch, command)?, command),
        Verb::ListNatPortBinding => text::nat::bindings(switch, selected_port(switch, command)?, command),
        Verb::ListTag => text::nat::tags(switch),
        Verb::ListSpace | Verb::ListMapping | Verb::ListQueue => text::EMPTY.to_owned(),
        Verb::ProcessTuples => {
            let port = port(switch, command)?;
            text::tuples::process(switch, port, command, now, &mut NoRoutes)?
        }
    };
    Ok(text::finish(&body, command.verb.word()))
}

/// The port that the command names.
fn port(switch: &Switch, command: &Command) -> Result<Uuid, CtrlError> {
    selected_port(switch, command)?
        .ok_or_else(|| CtrlError::Usage(format!("/{} needs /port <name>", command.verb.word())))
}

/// The port that the command names, if it names one: by port name, friendly name or number.
fn selected_port(switch: &Switch, command: &Command) -> Result<Option<Uuid>, CtrlError> {
    let Some(wanted) = &command.port else { return Ok(None) };
    let bare = wanted.trim_matches(['{', '}']);
    let found = switch.ports().into_iter().find(|port| {
        port.spec.name.to_string().eq_ignore_ascii_case(bare)
            || port.spec.friendly_name.eq_ignore_ascii_case(wanted)
            || port.id.to_string() == *bare
    });
    match found {
        Some(port) => Ok(Some(port.spec.name)),
        None => Err(CtrlError::Missing {
            kind: "port",
            name: wanted.clone(),
            right: "/list-vmswitch-port names the ports",
        }),
    }
}
