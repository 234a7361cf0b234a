//! What a case works with: the HNS under test, recorded call by call, and a guard over other people's objects.
//!
//! The guard is what makes the suite safe on a machine that is in use: ids that were there before the run are
//! neither changed nor deleted, unless they bear one of the suite's own names (left behind by an earlier run).

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use hcn::api::V1Method;
use hcn::json::RawJson;
use hcn::{Feature, Features, Guid, Hcn, HcnExt, Kind, Object, Query, Version};

use crate::failure::{Failure, Nature};
use crate::run::Options;

/// One call of a case and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was called ("create endpoint", "POST /networks/").
    pub call: String,
    /// What was sent: settings, query or body; empty for none.
    pub sent: String,
    /// What came back, or the error as text.
    pub answer: Result<String, String>,
}

/// An object that a case made or found.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The id, learnt from the document as clients learn it.
    pub id: Guid,
    /// The document.
    pub doc: T,
    /// The document as it came.
    pub text: String,
}

/// The HNS under test, the calls that were made of it, and the guard over objects of others.
pub struct Context<'a> {
    pub(crate) hcn: &'a dyn Hcn,
    pub(crate) options: &'a Options,
    version: Version,
    /// Objects that were there before the run.
    foreign: &'a HashSet<(Kind, Guid)>,
    made: RefCell<Vec<(Kind, Guid)>>,
    trail: RefCell<Vec<Exchange>>,
    notes: RefCell<Vec<String>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        hcn: &'a dyn Hcn,
        options: &'a Options,
        version: Version,
        foreign: &'a HashSet<(Kind, Guid)>,
    ) -> Self {
        Self {
            hcn,
            options,
            version,
            foreign,
            made: RefCell::default(),
            trail: RefCell::default(),
            notes: RefCell::default(),
        }
    }

    /// The version under test.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// What the version says it can.
    pub const fn features(&self) -> Features {
        Features::of(self.version)
    }

    /// A name of the suite's own.
    pub fn name(&self, word: &str) -> String {
        format!("{}-{word}", self.options.prefix)
    }

    /// Whether a name is the suite's own.
    pub fn is_own_name(&self, name: &str) -> bool {
        name.strip_prefix(&self.options.prefix).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Something worth saying about a case that passes.
    pub fn note(&self, text: impl Into<String>) {
        self.notes.borrow_mut().push(text.into());
    }

    /// Runs a step that needs a feature: what goes wrong in it is put down to the feature.
    pub fn feature<T>(
        &self,
        feature: Feature,
        step: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        step().map_err(|failure| failure.about(feature))
    }

    /// Demands that something holds.
    pub fn check(
        &self,
        holds: bool,
        step: &str,
        expected: impl Into<String>,
        came: impl Into<String>,
    ) -> Result<(), Failure> {
        if holds { Ok(()) } else { Err(Failure::unmet(step, expected, came)) }
    }

    /// Tries until it holds or the time is over: for what HNS does after a call has returned.
    pub fn eventually(
        &self,
        within: Duration,
        mut attempt: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let clock = &*self.options.clock;
        let end = clock.now().saturating_add(within);
        loop {
            match attempt() {
                Err(failure)
                    if !matches!(failure.nature, Nature::Foreign | Nature::OutOfScope(_))
                        && clock.now() < end =>
                {
                    clock.sleep(self.options.poll);
                }
                done => return done,
            }
        }
    }

    fn record<T>(&self, call: &str, sent: &str, answer: &hcn::Result<T>, show: impl Fn(&T) -> String) {
        self.trail.borrow_mut().push(Exchange {
            call: call.to_owned(),
            sent: sent.to_owned(),
            answer: answer.as_ref().map(show).map_err(ToString::to_string),
        });
    }

    /// How many calls of the case so far begin with these words.
    pub fn calls_named(&self, start: &str) -> usize {
        self.trail.borrow().iter().filter(|exchange| exchange.call.starts_with(start)).count()
    }

    pub(crate) fn take_trail(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.trail.borrow_mut())
    }

    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.borrow_mut())
    }

    // The calls themselves.

    /// Lists ids.
    pub fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>, Failure> {
        let call = format!("enumerate {kind}s");
        let answer = self.hcn.enumerate(kind, query);
        self.record(&call, &query.to_json(), &answer, |ids| format!("{ids:?}"));
        answer.map_err(|error| Failure::refused(call, error))
    }

    /// Reads one object as text.
    pub fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String, Failure> {
        let call = format!("query {kind} {id}");
        let answer = self.hcn.query(kind, id, query);
        self.record(&call, &query.to_json(), &answer, Clone::clone);
        answer.map_err(|error| Failure::refused(call, error))
    }

    /// Creates an object with the nil id, as hcsshim does.
    pub fn create_raw(&self, kind: Kind, network: Option<Guid>, settings: &str) -> Result<Guid, Failure> {
        let call = format!("create {kind}");
        if kind == Kind::Network {
            self.within_scope(&call, settings)?;
        }
        let answer = self.hcn.create(kind, network, Guid::NIL, settings);
        self.record(&call, settings, &answer, ToString::to_string);
        let id = answer.map_err(|error| Failure::refused(call, error))?;
        if self.foreign.contains(&(kind, id)) {
            self.note(format!("create {kind} returned {id}, which was there before; it is left alone"));
        } else {
            self.made.borrow_mut().push((kind, id));
        }
        Ok(id)
    }

    /// Changes an object.
    pub fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<(), Failure> {
        let call = format!("modify {kind} {id}");
        // Endpoints may be put into a namespace of others; nothing else of theirs is changed.
        if kind != Kind::Namespace {
            self.guard(kind, id, &call)?;
        }
        let answer = self.hcn.modify(kind, id, settings);
        self.record(&call, settings, &answer, |()| "done".to_owned());
        answer.map_err(|error| Failure::refused(call, error))
    }

    /// Deletes an object.
    pub fn delete(&self, kind: Kind, id: Guid) -> Result<(), Failure> {
        let call = format!("delete {kind} {id}");
        self.guard(kind, id, &call)?;
        let answer = self.hcn.delete(kind, id);
        self.record(&call, "", &answer, |()| "done".to_owned());
        answer.map_err(|error| Failure::refused(call, error))?;
        self.made.borrow_mut().retain(|&made| made != (kind, id));
        Ok(())
    }

    /// Deletes what this case made, or leaves alone what was there before (a create may hand that out).
    pub fn delete_made(&self, kind: Kind, id: Guid) -> Result<(), Failure> {
        if self.foreign.contains(&(kind, id)) { Ok(()) } else { self.delete(kind, id) }
    }

    /// A v1 call; its `Output`, `null` when there is none. Both ways of refusing (an envelope without success, a
    /// failing HRESULT) are refusals.
    pub fn v1(&self, method: V1Method, path: &str, body: &str) -> Result<RawJson, Failure> {
        let call = format!("{} {path}", method.as_str());
        if method == V1Method::Post && path.trim_matches('/') == "networks" {
            self.within_scope(&call, body)?;
        }
        let answer = self.hcn.output_v1(method, path, body);
        self.record(&call, body, &answer, |output| output.get().to_owned());
        let output = answer.map_err(|error| Failure::refused(call, error))?;
        self.follow_v1(method, path, &output);
        Ok(output)
    }

    /// Keeps the list of what was made up to date with v1 creates and deletes.
    fn follow_v1(&self, method: V1Method, path: &str, output: &RawJson) {
        let mut parts = path.trim_matches('/').split('/');
        let kind = match parts.next() {
            Some("networks") => Kind::Network,
            Some("endpoints") => Kind::Endpoint,
            Some("namespaces") => Kind::Namespace,
            _ => return,
        };
        let id: Option<Guid> = match parts.next() {
            Some(part) => part.parse().ok(),
            None => output.read::<hcn::v1::Network>().ok().and_then(|document| document.id),
        };
        let (Some(id), None) = (id, parts.next()) else { return };
        let mut made = self.made.borrow_mut();
        match method {
            V1Method::Post if !made.contains(&(kind, id)) => made.push((kind, id)),
            V1Method::Delete => made.retain(|&object| object != (kind, id)),
            V1Method::Post | V1Method::Get => {}
        }
    }

    /// Asks for the version.
    pub fn ask_version(&self) -> Result<Version, Failure> {
        let answer = self.hcn.version();
        self.record("version", "", &answer, ToString::to_string);
        answer.map_err(|error| Failure::refused("version", error))
    }

    /// Ends a case before it makes a network that the run's scope excludes.
    fn within_scope(&self, call: &str, document: &str) -> Result<(), Failure> {
        let scope = self.options.scope;
        // The member has one name in both forms of the API. What cannot be read makes no network.
        let network_type = match serde_json::from_str::<serde_json::Value>(document) {
            Ok(document) => match document.get("Type") {
                Some(serde_json::Value::String(name)) => name.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            },
            Err(_) => String::new(),
        };
        if scope.allows(&network_type) {
            return Ok(());
        }
        Err(Failure {
            step: call.to_owned(),
            expected: format!("a network within the scope {}", scope.name()),
            came: format!("one of type {network_type}"),
            nature: Nature::OutOfScope(network_type),
            feature: None,
        })
    }

    /// Objects of others are not touched; those that bear the suite's names are its own.
    fn guard(&self, kind: Kind, id: Guid, call: &str) -> Result<(), Failure> {
        if !self.foreign.contains(&(kind, id)) {
            return Ok(());
        }
        let name = self.hcn.query(kind, id, &Query::all()).ok().and_then(|text| name_of(kind, &text));
        if name.is_some_and(|name| self.is_own_name(&name)) {
            return Ok(());
        }
        Err(Failure {
            step: call.to_owned(),
            expected: "an object of the suite's own".to_owned(),
            came: "one that was there before the run".to_owned(),
            nature: Nature::Foreign,
            feature: None,
        })
    }

    /// Deletes what the case left, newest first, and says what could not be deleted.
    pub(crate) fn clean_up(&self) -> Vec<String> {
        let made: Vec<(Kind, Guid)> = self.made.borrow_mut().drain(..).rev().collect();
        let mut left = Vec::new();
        for (kind, id) in made {
            let error = match self.hcn.delete(kind, id) {
                Ok(()) => continue,
                Err(error) => error,
            };
            // Gone with its network or its load balancer, most often.
            match self.hcn.enumerate(kind, &Query::all()) {
                Ok(ids) if !ids.contains(&id) => {}
                Ok(_) => left.push(format!("{kind} {id} cannot be deleted: {error}")),
                Err(listing) => left.push(format!("{kind} {id} may be left behind: {error}; {listing}")),
            }
        }
        left
    }
}

/// The name of a network or endpoint.
pub(crate) fn name_of(kind: Kind, text: &str) -> Option<String> {
    match kind {
        Kind::Network => hcn::Network::parse(text).ok()?.name,
        Kind::Endpoint => hcn::Endpoint::parse(text).ok()?.name,
        Kind::Namespace | Kind::LoadBalancer | Kind::SdnRoute => None,
    }
}

/// Reads a document and learns its id from it, as clients do.
pub(crate) fn read<T: Object>(step: &str, text: String) -> Result<Found<T>, Failure> {
    let doc = T::from_json(&text).map_err(|error| {
        Failure::unmet(step, format!("a {} document in v2 form", T::KIND), format!("{error} in {text}"))
    })?;
    match doc.id() {
        Some(id) if !id.is_nil() => Ok(Found { id, doc, text }),
        _ => Err(Failure::unmet(step, "a member ID", text)),
    }
}
