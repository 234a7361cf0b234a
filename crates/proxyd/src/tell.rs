//! What people should be told of a node and its Services, from one pass to the next: a condition that appears, becomes another or
//! is gone for good. One that comes and goes is told once. Pure but for its memory; whoever writes notes (as Kubernetes Events)
//! limits their rate as well.

use std::collections::BTreeMap;
use std::time::Duration;

use services::{ConditionKind, ServiceKey};

use crate::run::{Observer, Passed};
use crate::state::{Facts, ServiceEntry, State};

/// Whom a note is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The own Node.
    Node,
    /// A Service.
    Service(ServiceKey),
}

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// Good to know.
    Normal,
    /// Something is not as it should be.
    Warning,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// About what.
    pub subject: Subject,
    /// How grave.
    pub gravity: Gravity,
    /// Why, in one word of upper camel case.
    pub reason: String,
    /// What was done or could not be, in one word of upper camel case.
    pub action: &'static str,
    /// For people.
    pub message: String,
}

/// When something is told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long something must be gone to be told as gone, and to be told anew when it comes back.
    pub gone_after: Duration,
    /// How long until another message of what was told is told.
    pub again_after: Duration,
    /// How long a frontend may not be programmed before its Service is told.
    pub unserved_after: Duration,
    /// How many Services are told of one pass; a fault of HNS befalls all of them, and its own note says so.
    pub services: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gone_after: Duration::from_mins(5),
            again_after: Duration::from_mins(10),
            unserved_after: Duration::from_mins(2),
            services: 20,
        }
    }
}

/// The reason of notes about frontends that are not programmed.
pub const NOT_SERVED: &str = "NotServed";

/// What is told about: whom, why, and of which port.
type Key = (Subject, String, Option<String>);

/// Something that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// About what.
    pub subject: Subject,
    /// Why, in one word.
    pub reason: String,
    /// Of which port or frontend, when it is about one.
    pub port: Option<String>,
    /// For people.
    pub message: String,
}

struct Known {
    /// What holds now, or held last.
    message: String,
    /// What was told last, and when.
    told: Option<(String, Duration)>,
    /// Since when it does not hold.
    gone: Option<Duration>,
}

/// Remembers what was told.
pub struct Teller {
    settings: Settings,
    known: BTreeMap<Key, Known>,
}

impl Teller {
    /// Nothing was told.
    pub fn new(settings: Settings) -> Self {
        Self { settings, known: BTreeMap::new() }
    }

    /// What is to be told now. `holding`: all conditions that hold.
    pub fn tell(&mut self, holding: Vec<Holding>, now: Duration) -> Vec<Note> {
        let settings = self.settings;
        for known in self.known.values_mut() {
            known.gone.get_or_insert(now);
        }
        for Holding { subject, reason, port, message } in holding {
            let known = self.known.entry((subject, reason, port)).or_insert_with(|| Known {
                message: String::new(),
                told: None,
                gone: None,
            });
            known.message = message;
            known.gone = None;
        }
        let mut notes = Vec::new();
        let mut room = settings.services;
        self.known.retain(|(subject, reason, port), known| {
            let note = |gravity, action, message| Note {
                subject: subject.clone(),
                gravity,
                reason: reason.clone(),
                action,
                message,
            };
            let named =
                |message: &str| port.as_ref().map_or(message.to_owned(), |port| format!("{port}: {message}"));
            if let Some(gone) = known.gone {
                if now.saturating_sub(gone) < settings.gone_after {
                    return true;
                }
                if let Some((message, _)) = &known.told {
                    notes.push(note(Gravity::Normal, "Recovered", format!("no longer: {}", named(message))));
                }
                return false;
            }
            let due = known.told.as_ref().is_none_or(|(told, at)| {
                *told != known.message && now.saturating_sub(*at) >= settings.again_after
            });
            if due && (*subject == Subject::Node || room > 0) {
                if *subject != Subject::Node {
                    room -= 1;
                }
                notes.push(note(Gravity::Warning, "Program", named(&known.message)));
                known.told = Some((known.message.clone(), now));
            }
            true
        });
        notes
    }

    /// What holds, by the state.
    pub fn holding(&self, state: &State) -> Vec<Holding> {
        let facts = state.facts();
        let mut holding = self.of_facts(&facts, state.clock().now());
        for (key, entry) in state.services() {
            of_service(&key, &entry, &mut holding);
        }
        holding
    }

    fn of_facts(&self, facts: &Facts, now: Duration) -> Vec<Holding> {
        let mut holding: Vec<_> = facts
            .conditions
            .iter()
            .map(|condition| {
                let reason = condition.reason.to_string();
                Holding {
                    subject: Subject::Node,
                    reason,
                    port: condition.port.clone(),
                    message: condition.message.clone(),
                }
            })
            .collect();
        let late = |since: Duration| now.saturating_sub(since) > self.settings.unserved_after;
        for (name, open) in facts.unserved.iter().filter(|(_, open)| late(open.since)) {
            let error = open.error.as_deref().unwrap_or("it was not written yet");
            let subject = Subject::Service(open.service.clone());
            let message = format!("is not programmed on this node: {error}");
            let (reason, port) = (NOT_SERVED.to_owned(), Some(name.clone()));
            holding.push(Holding { subject, reason, port, message });
        }
        holding
    }
}

/// Faults of the input and what Windows cannot honour. What a Service merely is (without endpoints, of another family) is for
/// its status, not for Events; what cannot be programmed is told as such when it lasts.
fn of_service(key: &ServiceKey, entry: &ServiceEntry, holding: &mut Vec<Holding>) {
    for (reason, port, message) in &entry.unsupported {
        let kind = ConditionKind::ALL.into_iter().find(|kind| kind.reason() == reason);
        if kind.is_some_and(|kind| kind.is_unsupported() || kind.is_fault()) {
            let subject = Subject::Service(key.clone());
            let (reason, port, message) = (reason.clone(), port.clone(), message.clone());
            holding.push(Holding { subject, reason, port, message });
        }
    }
    for condition in &entry.status.conditions {
        use proxy::status::ConditionReason as Reason;
        let lasting = matches!(
            condition.reason,
            Reason::DsrUnsupported
                | Reason::AffinityUnsupported
                | Reason::FrontendConflict
                | Reason::AmbiguousFrontend
                | Reason::ForeignReplaced
        );
        if lasting {
            let subject = Subject::Service(key.clone());
            let (port, message) = (condition.port.clone(), condition.message.clone());
            let reason = condition.reason.to_string();
            holding.push(Holding { subject, reason, port, message });
        }
    }
}

/// Tells somebody after each pass.
pub struct Telling {
    teller: Teller,
    to: Box<dyn FnMut(Note) + Send>,
}

impl Telling {
    /// Tells `to`, on the loop's thread; it must not wait.
    pub fn new(settings: Settings, to: Box<dyn FnMut(Note) + Send>) -> Self {
        Self { teller: Teller::new(settings), to }
    }
}

impl Observer for Telling {
    fn passed(&mut self, passed: &Passed<'_>) {
        let holding = self.teller.holding(passed.state);
        let now = passed.state.clock().now();
        for note in self.teller.tell(holding, now) {
            (self.to)(note);
        }
    }
}

#[cfg(test)]
mod tests;
