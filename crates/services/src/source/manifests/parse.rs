//! One file's bytes to objects and problems. Nothing here touches a disk.
//!
//! What is good is kept: a fault in one item of a list, in one document or at the end of a file harms nothing but itself.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::value::RawValue;

use super::Options;
use super::content::Content;
use super::document::{Bare, DocumentSeed, Head};
use super::problem::Problem;
use super::text::{self, MAX_DOCUMENTS};
use super::yaml::{self, Placed, Step};
use crate::record::{Object, ObjectKind, ObjectRef, RecordError, SkipReason, valid_name};

/// How many problems of one file are told; the rest is counted.
const MAX_PROBLEMS: usize = 100;
/// Lists within lists are followed this far.
const MAX_LIST_DEPTH: usize = 8;
/// Lines of faulty fields are looked up in documents up to this size, in bytes; it costs a second reading.
const MAX_LOCATED: usize = 4 * 1024 * 1024;

/// What one file holds.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The objects, in the order of the file. Of two with the same identity the later one counts.
    pub objects: Vec<Object>,
    /// What could not be used.
    pub problems: Vec<Problem>,
    /// How many objects were of kinds that do not matter here.
    pub ignored: usize,
    /// Objects that are in the file in a form that cannot be used.
    pub refused: Vec<ObjectRef>,
    /// Whether every object of the file was at least identified. If not, an object that is not listed here may still be in
    /// the file.
    pub complete: bool,
}

/// Reads a file's bytes: YAML or JSON, any number of documents, lists of any kind. `file` names it in problems; a name that
/// ends in `.json` must hold JSON.
pub fn parse_bytes(file: &str, bytes: &[u8], options: &Options) -> Parsed {
    let mut collector = Collector::new(file.into());
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > options.max_bytes {
        collector.fault_of_file(options.too_large(Some(size)));
        return collector.finish();
    }
    let text = match text::decode(bytes) {
        Ok(text) => text,
        Err(message) => {
            collector.fault_of_file(message);
            return collector.finish();
        }
    };
    if text.trim_start().is_empty() {
        // Programs that write a file in place empty it first, so this is not taken as the wish to delete everything.
        collector.fault_of_file("is empty; a comment line tells that this is meant");
        return collector.finish();
    }
    let must_be_json = file.to_ascii_lowercase().ends_with(".json");
    let may_be_json = text.trim_start().starts_with(['{', '[']);
    if must_be_json || may_be_json {
        // A YAML document may start with a brace too, so JSON that fails is tried as YAML.
        match collector.json(&text) {
            Ok(()) => return collector.finish(),
            Err(()) if must_be_json => return collector.finish(),
            Err(()) => collector = Collector::new(file.into()),
        }
    }
    collector.yaml(&text);
    collector.finish()
}

/// A problem whose line may still have to be looked up.
struct Pending {
    problem: Problem,
    path: Vec<Step>,
}

pub(super) struct Collector {
    file: Arc<str>,
    document: usize,
    parsed: Parsed,
    pending: Vec<Pending>,
    untold: usize,
}

/// How far a collector had got, to go back to.
pub(super) struct Mark {
    objects: usize,
    pending: usize,
    refused: usize,
    ignored: usize,
    untold: usize,
    complete: bool,
}

/// Where an object is within its document.
pub(super) struct Place {
    path: Vec<Step>,
    line: Option<u64>,
}

impl Place {
    /// The document as a whole.
    pub(super) fn root() -> Self {
        Self { path: Vec::new(), line: None }
    }

    pub(super) fn item(&self, index: usize, line: Option<u64>) -> Self {
        let mut path = self.path.clone();
        path.extend([Step::Key("items".to_owned()), Step::Index(index)]);
        Self { path, line: line.or(self.line) }
    }
}

/// The type that a list gives to items without one.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a> {
    api_version: &'a str,
    kind: &'a str,
}

impl Collector {
    fn new(file: Arc<str>) -> Self {
        let parsed = Parsed { complete: true, ..Parsed::default() };
        Self { file, document: 0, parsed, pending: Vec::new(), untold: 0 }
    }

    fn finish(mut self) -> Parsed {
        if self.untold > 0 {
            let message = format!("{} more problems are not listed", self.untold);
            self.parsed.problems.push(Problem::of_file(&self.file, message));
        }
        self.parsed
    }

    fn fault_of_file(&mut self, message: impl Into<String>) {
        self.parsed.complete = false;
        self.parsed.problems.push(Problem::of_file(&self.file, message));
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            objects: self.parsed.objects.len(),
            pending: self.pending.len(),
            refused: self.parsed.refused.len(),
            ignored: self.parsed.ignored,
            untold: self.untold,
            complete: self.parsed.complete,
        }
    }

    fn go_back(&mut self, mark: &Mark) {
        self.parsed.objects.truncate(mark.objects);
        self.pending.truncate(mark.pending);
        self.parsed.refused.truncate(mark.refused);
        self.parsed.ignored = mark.ignored;
        self.untold = mark.untold;
        self.parsed.complete = mark.complete;
    }

    fn problem(&mut self, place: &Place, object: Option<String>, field: &str, message: impl Into<String>) {
        if self.parsed.problems.len() + self.pending.len() >= MAX_PROBLEMS {
            self.untold += 1;
            return;
        }
        let mut path = place.path.clone();
        path.extend(steps(field));
        let field = if object.is_some() { field.to_owned() } else { show(&path) };
        let problem = Problem {
            file: self.file.clone(),
            document: self.document,
            line: place.line,
            object,
            field: Some(field).filter(|f| !f.is_empty()),
            message: message.into(),
        };
        self.pending.push(Pending { problem, path });
    }

    /// A fault in the text itself: what follows it in the document is unknown.
    fn syntax(&mut self, line: Option<u64>, message: String) {
        self.parsed.complete = false;
        if self.parsed.problems.len() + self.pending.len() >= MAX_PROBLEMS {
            self.untold += 1;
            return;
        }
        let mut problem = Problem::of_file(&self.file, message);
        (problem.document, problem.line) = (self.document, line);
        self.parsed.problems.push(problem);
    }

    /// Ends a document: looks up the lines of what is wrong in it.
    fn settle(&mut self, text: &str, lines_before: u64) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let mut lines = vec![None; pending.len()];
        if text.len() <= MAX_LOCATED {
            let paths: Vec<Vec<Step>> = pending.iter().map(|p| p.path.clone()).collect();
            lines = yaml::locate(text, &paths);
        }
        for (mut pending, line) in pending.into_iter().zip(lines) {
            pending.problem.line = line.or(pending.problem.line).map(|line| line + lines_before);
            self.parsed.problems.push(pending.problem);
        }
    }

    fn yaml(&mut self, text: &str) {
        for document in text::documents(text) {
            self.document += 1;
            if self.document > MAX_DOCUMENTS {
                self.fault_of_file(format!("has more than {MAX_DOCUMENTS} documents; the rest is not read"));
                return;
            }
            let read = yaml::read(document.text, DocumentSeed::<Placed<'_>>::new(self));
            let error = match read {
                Ok(head) => {
                    self.document_read(head);
                    None
                }
                Err(error) => Some(error),
            };
            self.settle(document.text, document.lines_before);
            if let Some(error) = error {
                let line = error.line.map(|line| line + document.lines_before);
                self.syntax(line.or(Some(document.lines_before + 1)), error.message);
            }
        }
    }

    /// Reads JSON values one after the other. `Err`: the text is not JSON, and a problem says so.
    fn json(&mut self, text: &str) -> Result<(), ()> {
        let (mut at, mut lines_before) = (0, 0);
        loop {
            let rest = &text[at..];
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
            let (part, good) = match values.next() {
                None => return Ok(()),
                Some(Ok(raw)) => (raw.get(), true),
                // What comes before the fault is used; the reading below finds the fault again.
                Some(Err(_)) => (rest, false),
            };
            self.document += 1;
            let mut reader = serde_json::Deserializer::from_str(part);
            let read = DocumentSeed::<Bare<'_>>::new(self).deserialize(&mut reader);
            let skipped = rest.find(|c: char| !c.is_whitespace()).unwrap_or(0);
            let before_value = if good { lines_before + newlines(&rest[..skipped]) } else { lines_before };
            let error = match read {
                Ok(head) => {
                    self.document_read(head);
                    None
                }
                Err(error) => Some(error),
            };
            self.settle(part, before_value);
            if let Some(error) = error {
                let line = u64::try_from(error.line()).unwrap_or(0) + before_value;
                self.syntax(Some(line), without_position(&error.to_string()));
                return Err(());
            }
            if !good {
                self.syntax(None, "the text after this value is not JSON".to_owned());
                return Err(());
            }
            if self.document >= MAX_DOCUMENTS {
                self.fault_of_file(format!("has more than {MAX_DOCUMENTS} documents; the rest is not read"));
                return Ok(());
            }
            let end = values.byte_offset();
            lines_before += newlines(&rest[..end]);
            at += end;
        }
    }

    /// A document's head is known: is it a list whose items were taken, a list of typed items, or an object?
    fn document_read(&mut self, head: Head<'_>) {
        let Head { content, items, mark } = head;
        let root = Place::root();
        if content == Content::Null {
            return;
        }
        let kind = content.get("kind").and_then(Content::as_text).unwrap_or_default();
        match (items, list_item_kind(kind)) {
            (Some(items), Some(item_kind)) => {
                let api_version =
                    content.get("apiVersion").and_then(Content::as_text).unwrap_or_default().to_owned();
                let item_kind = item_kind.to_owned();
                if let Some(Content::Faulty(why)) = content.get("items") {
                    self.parsed.complete = false;
                    self.problem(&root, None, "items", why.as_str());
                }
                let typed = Typed { api_version: &api_version, kind: &item_kind };
                for (index, item, line) in items {
                    self.object(item, &root.item(index, line), Some(typed), 0);
                }
            }
            (None, Some(_)) if content.get("items").is_some() => {
                self.parsed.complete = false;
                self.problem(&root, None, "items", "must be a sequence of objects");
            }
            (items, _) => {
                if items.is_some() {
                    // `items` was the field of something that is no list.
                    self.go_back(&mark);
                }
                self.object(content, &root, None, 0);
            }
        }
    }

    /// Takes one object. `typed` is what it is when it does not say so itself.
    pub(super) fn object(
        &mut self,
        content: Content<'_>,
        place: &Place,
        typed: Option<Typed<'_>>,
        depth: usize,
    ) {
        let Content::Mapping(_) = &content else {
            self.parsed.complete = false;
            let message = format!("an object is expected here, not {}", content.describe());
            self.problem(place, None, "", message);
            return;
        };
        let text = |key: &str| content.get(key).and_then(Content::as_text).map(str::to_owned);
        let kind = text("kind").or_else(|| typed.map(|t| t.kind.to_owned()).filter(|k| !k.is_empty()));
        let api_version = text("apiVersion").or_else(|| typed.map(|t| t.api_version.to_owned()));
        let Some(kind) = kind else {
            self.parsed.complete = false;
            self.problem(place, None, "kind", "is missing or is no text; every object says what it is");
            return;
        };
        if list_item_kind(&kind).is_some() && matches!(content.get("items"), Some(Content::Sequence(_))) {
            self.list(content, place, &kind, api_version.as_deref().unwrap_or_default(), depth);
            return;
        }
        let api_version = api_version.unwrap_or_default();
        let known = match kind.as_str() {
            "Node" => (ObjectKind::Node, "v1"),
            "Service" => (ObjectKind::Service, "v1"),
            "Pod" => (ObjectKind::Pod, "v1"),
            "EndpointSlice" => (ObjectKind::EndpointSlice, "discovery.k8s.io/v1"),
            _ => {
                self.parsed.ignored += 1;
                return;
            }
        };
        let identity = identity(known.0, &content);
        if api_version != known.1 {
            self.other_version(place, known.1, &api_version, identity);
            return;
        }
        match known.0 {
            ObjectKind::Node => self.convert::<Node>(content, place, identity),
            ObjectKind::Service => self.convert::<Service>(content, place, identity),
            ObjectKind::Pod => self.convert::<Pod>(content, place, identity),
            ObjectKind::EndpointSlice => self.convert::<EndpointSlice>(content, place, identity),
        }
    }

    fn list(&mut self, content: Content<'_>, place: &Place, kind: &str, api_version: &str, depth: usize) {
        if depth >= MAX_LIST_DEPTH {
            self.parsed.complete = false;
            let message = format!("lists are nested deeper than {MAX_LIST_DEPTH}; the items are not read");
            self.problem(place, None, "items", message);
            return;
        }
        let typed = Typed { api_version, kind: list_item_kind(kind).unwrap_or_default() };
        let Content::Mapping(entries) = content else { return };
        for (key, value) in entries {
            if let (true, Content::Sequence(items)) = (key == "items", value) {
                for (index, item) in items.into_iter().enumerate() {
                    self.object(item, &place.item(index, None), Some(typed), depth + 1);
                }
            }
        }
    }

    /// A kind that matters, in an API version that does not.
    fn other_version(&mut self, place: &Place, right: &str, api_version: &str, identity: Option<ObjectRef>) {
        fn group(version: &str) -> Option<&str> {
            version.split_once('/').map(|(group, _)| group)
        }
        if group(api_version).is_some_and(|given| group(right) != Some(given)) {
            // A kind of the same name in another group, such as Knative's Service.
            self.parsed.ignored += 1;
            return;
        }
        let message = if api_version.is_empty() {
            format!("is missing; {right} is right for this kind")
        } else {
            format!("{api_version:?} is not read; {right} is right for this kind")
        };
        self.refuse(place, identity, "apiVersion", message);
    }

    /// An object that cannot be used.
    fn refuse(&mut self, place: &Place, identity: Option<ObjectRef>, field: &str, message: String) {
        self.problem(place, identity.as_ref().map(ToString::to_string), field, message);
        match identity {
            Some(identity) => self.parsed.refused.push(identity),
            None => self.parsed.complete = false,
        }
    }

    fn convert<T>(&mut self, content: Content<'_>, place: &Place, identity: Option<ObjectRef>)
    where
        T: DeserializeOwned,
        for<'a> Object: TryFrom<&'a T, Error = RecordError>,
    {
        let object = match serde_path_to_error::deserialize::<_, T>(content) {
            Ok(object) => object,
            Err(error) => {
                let path = error.path().to_string();
                let field = if path == "." { "" } else { path.as_str() };
                self.refuse(place, identity, field, error.inner().to_string());
                return;
            }
        };
        match Object::try_from(&object) {
            Ok(object) => self.take(object, place),
            Err(error) => self.refuse(place, identity, error.field, error.message),
        }
    }

    fn take(&mut self, object: Object, place: &Place) {
        let name = || Some(object.reference().to_string());
        for fault in object.faults() {
            self.problem(place, name(), &fault.field, &*fault.message);
        }
        if let Object::Service(service) = &object
            && service.skip_reason() == Some(&SkipReason::NoClusterIp)
        {
            let message = "is empty, so there is nothing to serve; the API server assigns it";
            self.problem(place, name(), "spec.clusterIP", message);
        }
        self.parsed.objects.push(object);
    }
}

/// The kind of a list's items: `Service` for `ServiceList`, nothing in particular for `List`; `None` when it is no list.
fn list_item_kind(kind: &str) -> Option<&str> {
    kind.strip_suffix("List")
}

fn identity(kind: ObjectKind, content: &Content<'_>) -> Option<ObjectRef> {
    let metadata = content.get("metadata")?;
    let name = metadata.get("name")?.as_text()?;
    let namespace = match metadata.get("namespace") {
        _ if kind == ObjectKind::Node => "",
        None | Some(Content::Null) => "default",
        Some(namespace) => namespace.as_text().map(|n| if n.is_empty() { "default" } else { n })?,
    };
    let usable = valid_name(name) && (kind == ObjectKind::Node || valid_name(namespace));
    usable.then(|| ObjectRef { kind, namespace: namespace.into(), name: name.into() })
}

fn newlines(text: &str) -> u64 {
    text.bytes().map(|b| u64::from(b == b'\n')).sum()
}

/// serde_json ends its messages with a position, which a problem has in a field of its own.
fn without_position(message: &str) -> String {
    message.rfind(" at line ").map_or(message, |at| &message[..at]).to_owned()
}

/// `spec.ports[0].port` as steps.
fn steps(field: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in field.split('.').filter(|p| !p.is_empty()) {
        let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            steps.push(Step::Key(key.to_owned()));
        }
        let indices = indices.split(['[', ']']).filter(|i| !i.is_empty());
        steps.extend(indices.map(|i| i.parse().map_or_else(|_| Step::Key(i.to_owned()), Step::Index)));
    }
    steps
}

/// Steps as `items[3].spec`.
fn show(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}
