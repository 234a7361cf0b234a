//! Plays the scenarios of `testdata/faults/end_to_end.yaml`; the format is described there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hcn::api::V1Method;
use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, HResult, Hcn, HcnExt, Kind, Query};
use hns::faults::FaultPlan;
use hns::journal::Op;
use hns::{Dump, Hns, Loss, Options, Profile, StoreKind, Switches};
use serde_json::{Value, json};

/// The whole file.
pub(crate) struct Book {
    documents: BTreeMap<String, Value>,
    setup: Vec<String>,
    pub(crate) scenarios: Vec<Value>,
}

impl Book {
    pub(crate) fn read(text: &str) -> Self {
        let book: Value = serde_saphyr::from_str(text).unwrap();
        let documents = book["documents"].as_object().unwrap();
        Self {
            documents: documents.iter().map(|(name, document)| (name.clone(), document.clone())).collect(),
            setup: names(&book["setup"]),
            scenarios: book["scenarios"].as_array().unwrap().clone(),
        }
    }
}

fn names(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value} is not a list"));
    list.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap());
    let number: u64 = number.parse().unwrap();
    match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "h" => Duration::from_hours(number),
        _ => panic!("{text}"),
    }
}

fn kind_named(name: &str) -> Kind {
    Kind::ALL.into_iter().find(|kind| kind.export_word() == name).unwrap()
}

/// Faults, actions and behaviours that a scenario is about.
pub(crate) fn covered(scenario: &Value) -> BTreeSet<String> {
    let steps = scenario["steps"].as_array().unwrap();
    let faults = steps.iter().filter_map(|step| text(step, "fault"));
    faults.chain(text(scenario, "covers")).map(str::to_owned).collect()
}

/// A scenario in play.
struct Play<'a> {
    book: &'a Book,
    hns: Hns,
    caller: Hns,
    clock: ManualClock,
    /// Ids by name; a name that was never created has an id of nobody's.
    ids: BTreeMap<String, Guid>,
}

/// Plays one scenario; panics where it goes another way.
pub(crate) fn play(book: &Book, scenario: &Value, store: StoreKind) {
    let profile: Profile = text(scenario, "profile").unwrap_or("newest").parse().unwrap();
    let mut switches = Switches::of(profile);
    switches.apply_yaml(text(scenario, "switches").unwrap_or_default()).unwrap();
    let clock = ManualClock::jumping();
    let mut options = Options {
        switches,
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(3)),
        store,
        ..Options::new(profile)
    };
    if let Some(blocks) = scenario.get("blocks").and_then(Value::as_u64) {
        let last = 49152 + u16::try_from(blocks).unwrap() * 64 - 1;
        options.host.dynamic_ports.tcp = 49152..=last;
    }
    let hns = Hns::open(options).unwrap();
    let caller = hns.actor("proxy");
    let mut play = Play { book, hns, caller, clock, ids: BTreeMap::new() };
    for name in &book.setup {
        play.create(&json!(name)).unwrap_or_else(|error| panic!("setup of {name}: {error}"));
    }
    if let Some(plan) = text(scenario, "plan") {
        play.hns.faults().replace(play.plan(plan)).unwrap();
    }
    for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        play.step(&format!("{}: step {index} {step}", scenario["name"]), step);
    }
}

impl Play<'_> {
    /// Puts call indices and ids into a plan.
    fn plan(&self, plan: &str) -> FaultPlan {
        let next = self.hns.faults().calls();
        let mut plan = plan.to_owned();
        for ahead in (0..4).rev() {
            let (name, index) = match ahead {
                0 => ("NEXT".to_owned(), next),
                ahead => (format!("NEXT+{ahead}"), next + ahead),
            };
            plan = plan.replace(&name, &index.to_string());
        }
        for (name, id) in &self.ids {
            plan = plan.replace(&format!("[{}]", name.to_uppercase()), &format!("[{id}]"));
        }
        FaultPlan::from_yaml(&plan).unwrap_or_else(|error| panic!("{plan}: {error}"))
    }

    fn id(&self, name: &str) -> Guid {
        let nobody = Guid::from_u128(0xdead_0000_0000_4000_8000_0000_0000_0001);
        self.ids.get(name).copied().unwrap_or(nobody)
    }

    fn kind_of(&self, name: &str) -> Kind {
        kind_named(text(&self.book.documents[name], "kind").unwrap())
    }

    /// Names of endpoints become their ids.
    fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::String(name) if self.ids.contains_key(name) => json!(self.id(name)),
            Value::Array(values) => values.iter().map(|value| self.resolve(value)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), self.resolve(value))).collect()
            }
            other => other.clone(),
        }
    }

    fn settings(&self, name: &str) -> Value {
        self.resolve(&self.book.documents[name]["settings"])
    }

    /// Creates by name, or `{of: NAME, vip, flags}`: the same with another VIP and other flags.
    fn create(&mut self, what: &Value) -> hcn::Result<String> {
        let (name, mut settings) = match what {
            Value::String(name) => (name.clone(), self.settings(name)),
            other => {
                let name = text(other, "of").unwrap();
                let mut settings = self.settings(name);
                settings["FrontendVIPs"] = json!([other["vip"]]);
                settings["Flags"] = json!(other["flags"].as_u64().unwrap_or(0));
                (name.to_owned(), settings)
            }
        };
        if settings["Flags"] == json!(0) {
            settings.as_object_mut().unwrap().shift_remove("Flags");
        }
        let network = text(&self.book.documents[&name], "network").map(|network| self.id(network));
        let kind = self.kind_of(&name);
        let before = self.hns.digest();
        let made = self.caller.create(kind, network, Guid::NIL, &settings.to_string());
        if what.is_string() {
            // An id whose reply was lost is found by what is there now and was not before.
            let new = made.as_ref().ok().copied().or_else(|| {
                let ids = |dump: &Dump| -> BTreeSet<Guid> {
                    dump.objects.get(&kind).map(|all| all.keys().copied().collect()).unwrap_or_default()
                };
                ids(&self.hns.digest()).difference(&ids(&before)).next().copied()
            });
            if let Some(id) = new {
                self.ids.insert(name, id);
            }
        }
        made.map(|id| id.to_string())
    }

    fn step(&mut self, place: &str, step: &Value) {
        if let Some(by) = text(step, "advance") {
            return self.clock.advance(duration(by));
        }
        if step.get("clear").is_some() {
            return self.hns.faults().clear();
        }
        if let Some(loss) = text(step, "restart") {
            let loss = match loss {
                "None" => Loss::None,
                "LoadBalancers" => Loss::LoadBalancers,
                _ => panic!("{place}"),
            };
            return self.hns.restart(loss).unwrap();
        }
        let seq = self.hns.journal().next_seq();
        let (op, kind, answer) = self.call(step);
        let wanted = match text(step, "want").unwrap() {
            "ok" => Ok(()),
            name => Err(hcn::error::CODES.iter().find(|code| code.name == name).unwrap().value),
        };
        let came = answer.as_ref().map(|_| ()).map_err(|error| error.code);
        assert_eq!(came, wanted, "{place}: {answer:?}");
        self.check_journal(place, step, seq, (op, kind), wanted);
        self.check_answer(place, step, answer.as_deref().unwrap_or_default());
        self.check_state(place, step);
    }

    fn call(&mut self, step: &Value) -> (Op, Option<Kind>, hcn::Result<String>) {
        let hns = self.caller.clone();
        let object = |verb: &str| text(step, verb).map(|name| (self.kind_of(name), self.id(name)));
        if let Some((kind, id)) = object("query") {
            return (Op::Query, Some(kind), hns.query(kind, id, &Query::all()));
        }
        if let Some((kind, id)) = object("delete") {
            return (Op::Delete, Some(kind), hns.delete(kind, id).map(|()| String::new()));
        }
        if let Some((kind, id)) = object("modify") {
            let mut settings = match kind {
                Kind::LoadBalancer => self.settings(text(step, "modify").unwrap()),
                _ => json!({}),
            };
            for (key, value) in self.resolve(&step["with"]).as_object().unwrap() {
                settings[key] = value.clone();
            }
            let done = hns.modify(kind, id, &settings.to_string());
            return (Op::Modify, Some(kind), done.map(|()| String::new()));
        }
        if let Some(kind) = text(step, "enumerate").map(kind_named) {
            let list = hns.enumerate(kind, &Query::all());
            return (Op::Enumerate, Some(kind), list.map(|ids| json!(ids).to_string()));
        }
        if step.get("version").is_some() {
            return (Op::Version, None, hns.version().map(|version| version.to_string()));
        }
        if let Some((method, path)) = text(step, "v1").and_then(|call| call.split_once(' ')) {
            let method = V1Method::parse(method).unwrap();
            let kinds = [
                ("/endpoints", Kind::Endpoint),
                ("/networks", Kind::Network),
                ("/policylists", Kind::LoadBalancer),
            ];
            let kind = kinds.iter().find(|(start, _)| path.starts_with(start)).map(|&(_, kind)| kind);
            let mut path = path.to_owned();
            for (name, id) in &self.ids {
                path = path.replace(&format!("{{{name}}}"), &id.to_string());
            }
            let body = step.get("with").map(|body| self.resolve(body).to_string()).unwrap_or_default();
            let output = hns.output_v1(method, &path, &body);
            return (Op::V1(method), kind, output.map(|output| output.get().to_owned()));
        }
        let what = &step["create"];
        let kind = self.kind_of(what.as_str().or_else(|| text(what, "of")).unwrap());
        (Op::Create, Some(kind), self.create(what))
    }

    /// The caller's call is the last entry; acts of others come before it.
    fn check_journal(
        &self,
        place: &str,
        step: &Value,
        seq: u64,
        call: (Op, Option<Kind>),
        wanted: Result<(), HResult>,
    ) {
        let mut entries = self.hns.journal().entries_since(seq);
        let entry = entries.pop().unwrap();
        assert_eq!((entry.op, entry.kind), call, "{place}: {entry}");
        assert_eq!((&*entry.actor, entry.result), ("proxy", wanted), "{place}: {entry}");
        assert_eq!(entry.fault, text(step, "fault"), "{place}: {entry}");
        let took = text(step, "took").map_or(Duration::ZERO, duration);
        assert_eq!(entry.took, took, "{place}: {entry}");
        let others: BTreeSet<&str> = entries.iter().map(|entry| &*entry.actor).collect();
        assert_eq!(
            others.into_iter().collect::<Vec<_>>(),
            text(step, "by").into_iter().collect::<Vec<_>>(),
            "{place}"
        );
    }

    fn check_answer(&self, place: &str, step: &Value, answer: &str) {
        if let Some(wanted) = text(step, "answer") {
            assert_eq!(answer, wanted, "{place}");
        }
        let listed = || -> Vec<Guid> { serde_json::from_str(answer).unwrap() };
        if let Some(wanted) = step.get("lists") {
            let wanted: Vec<Guid> = names(wanted).iter().map(|name| self.id(name)).collect();
            assert_eq!(listed(), wanted, "{place}");
        }
        if let Some(count) = step.get("count").and_then(Value::as_u64) {
            assert_eq!(listed().len() as u64, count, "{place}");
        }
        if let Some(twins) = step.get("twins") {
            self.check_twins(place, twins, &listed());
        }
    }

    /// Two endpoints have the address of one, the new one before or after it.
    fn check_twins(&self, place: &str, twins: &Value, listed: &[Guid]) {
        let dump = self.hns.digest();
        let endpoints = &dump.objects[&Kind::Endpoint];
        let old = self.id(text(twins, "of").unwrap());
        let address = &endpoints[&old]["IpConfigurations"][0]["IpAddress"];
        let same: Vec<Guid> = listed
            .iter()
            .copied()
            .filter(|id| endpoints[id]["IpConfigurations"][0]["IpAddress"] == *address)
            .collect();
        assert_eq!(same.len(), 2, "{place}: {dump}");
        let new = if same[0] == old { same[1] } else { same[0] };
        assert_eq!(json!(same[0] == new), twins["first"], "{place}: {same:?}");
        let remote = endpoints[&new]["Flags"].as_u64().unwrap_or(0) & 1 == 1;
        assert_eq!(json!(remote), twins["remote"], "{place}: {dump}");
    }

    fn check_state(&self, place: &str, step: &Value) {
        let dump = self.hns.digest();
        let find = |name: &str| {
            let kind = self.kind_of(name);
            dump.objects.get(&kind).and_then(|objects| objects.get(&self.id(name)))
        };
        for (field, wanted) in [("there", true), ("gone", false)] {
            for name in step.get(field).map(names).unwrap_or_default() {
                assert_eq!(find(&name).is_some(), wanted, "{place}: {name}\n{dump}");
            }
        }
        let fields = |field: &str| step.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, wanted) in fields("state") {
            assert_eq!(find(&name).unwrap()["State"], wanted, "{place}: {name}\n{dump}");
        }
        for (name, wanted) in fields("endpoints") {
            let wanted: Vec<String> = names(&wanted).iter().map(|name| self.id(name).to_string()).collect();
            assert_eq!(find(&name).unwrap()["HostComputeEndpoints"], json!(wanted), "{place}: {name}");
        }
        for (name, wanted) in fields("in") {
            let namespace = find(&name).unwrap().get("HostComputeNamespace").cloned();
            let wanted = wanted.as_str().filter(|name| *name != "none").map(|name| json!(self.id(name)));
            let is_in = namespace.filter(|id| *id != json!(Guid::NIL));
            assert_eq!(is_in, wanted, "{place}: {name}\n{dump}");
        }
        if let Some(name) = text(step, "partial") {
            let object = find(name).unwrap_or_else(|| panic!("{place}: {name} is not there\n{dump}"));
            assert!(object.get("PortMappings").is_none(), "{place}: {object}");
        }
        if let Some(wanted) = step.get("leaks").and_then(Value::as_bool) {
            let report = self.hns.ports();
            let leaks = report.to_string().contains("left over");
            assert_eq!(leaks, wanted, "{place}\n{report}");
        }
    }
}
