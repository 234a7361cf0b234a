//! Compares what HNS holds, what was called and what is said with a step's expectation.

use std::collections::{BTreeMap, BTreeSet};

use hcn::{Endpoint, Feature, Features, Guid, Hcn, Kind};
use hns::journal::Op;
use node::NetworkKind;
use proxy::status::FrontendState;

use crate::model::{Expect, Writes};
use crate::run::{Outcome, Runner};
use crate::world::objects::range;
use crate::world::{address, dump, name};

impl Runner {
    pub(crate) fn expect(&mut self, expect: &Expect) -> Outcome {
        dump::assert_invariants(&self.world.hns, "after the step");
        let short = dump::short(&self.world.hns);
        let all = || {
            short
                .values()
                .take(40)
                .map(|(_, balancer)| format!("  {balancer}"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        if let Some(wanted) = &expect.balancers {
            let mut missing: BTreeSet<&String> = short.keys().collect();
            for text in wanted {
                let frontend = compare(&self.fill(text), &short)
                    .map_err(|why| format!("{why}\nHNS holds\n{}", all()))?;
                missing.remove(&frontend);
            }
            ensure!(
                missing.is_empty(),
                "HNS also holds {missing:?}, which nobody expects; it holds\n{}",
                all()
            );
        }
        for text in &expect.contains {
            compare(&self.fill(text), &short).map_err(|why| format!("{why}\nHNS holds\n{}", all()))?;
        }
        for frontend in &expect.absent {
            let frontend = expand(frontend);
            ensure!(!short.contains_key(&frontend), "{frontend} must not be there; HNS holds\n{}", all());
        }
        if let Some(count) = expect.balancer_count {
            ensure!(
                short.len() == count,
                "{} load balancers where {count} are expected:\n{}",
                short.len(),
                all()
            );
        }
        for (_, balancer) in short.values() {
            let (frontend, count) = (&balancer.frontend, balancer.backends.len());
            let most = expect.backends_at_most.unwrap_or(usize::MAX);
            let least = expect.backends_at_least.unwrap_or(0);
            ensure!((least..=most).contains(&count), "{count} backends at {frontend}");
            for backend in expect.backends_have.iter().flat_map(|text| names(text)) {
                ensure!(balancer.backends.contains(&backend), "{frontend} lacks {backend}");
            }
        }
        if let Some(wanted) = &expect.remotes {
            let wanted: BTreeSet<String> = wanted
                .iter()
                .filter_map(|text| match text.strip_prefix("overlay ") {
                    None => Some(text.as_str()),
                    // A cluster IP has an endpoint of its own on an overlay only.
                    only => only.filter(|_| self.world.setup.network == NetworkKind::Overlay),
                })
                .flat_map(names)
                .collect();
            let found = dump::remotes(&self.world.hns);
            ensure!(wanted == found, "remote endpoints are {found:?}, expected {wanted:?}");
        }
        for local in &expect.locals {
            let wanted = address(local);
            let found = dump::endpoints(&self.world.hns)
                .values()
                .filter(|endpoint| endpoint.addresses().any(|address| address == wanted))
                .map(Endpoint::is_remote)
                .collect::<Vec<_>>();
            ensure!(found == [false], "{local}: expected one local endpoint, found remote flags {found:?}");
        }
        self.expect_endpoints(expect)?;
        self.expect_calls(expect)?;
        self.expect_counts(expect)?;
        self.expect_words(expect)?;
        for frontend in &expect.same_id {
            let frontend = expand(frontend);
            let now = short.get(&frontend).map(|(id, _)| *id);
            ensure!(
                now.is_some() && now == self.ids.get(&frontend).copied(),
                "{frontend} has another load balancer now: {now:?}"
            );
        }
        if let Some(least) = expect.repairs_at_least {
            let repairs: usize = self.reports.iter().map(|report| report.repairs).sum();
            ensure!(repairs >= least, "{repairs} repairs where at least {least} are expected");
        }
        self.ids = short.iter().map(|(frontend, (id, _))| (frontend.clone(), *id)).collect();
        self.reports.clear();
        if !expect.unsettled {
            self.second_pass()?;
        }
        self.mark = self.world.hns.journal().next_seq();
        Ok(())
    }

    /// What a text means in this variant.
    fn fill(&self, text: &str) -> String {
        let setup = &self.world.setup;
        let dsr = if setup.config.enable_dsr { "DSR" } else { "" };
        let source = if setup.network == NetworkKind::Overlay { "SRC" } else { "N1" };
        text.replace("{dsr}", dsr).replace("{source}", source)
    }

    fn expect_endpoints(&mut self, expect: &Expect) -> Outcome {
        let endpoints = dump::endpoints(&self.world.hns);
        let mut by_address: BTreeMap<String, Vec<(Guid, &Endpoint)>> = BTreeMap::new();
        for (id, endpoint) in &endpoints {
            for address in endpoint.addresses() {
                by_address.entry(name(address)).or_default().push((*id, endpoint));
            }
        }
        for text in &expect.endpoints {
            let (wanted, keys) = text.split_once(' ').unwrap_or((text, ""));
            let wanted = name(address(wanted));
            let found = by_address.get(&wanted).map_or(&[][..], Vec::as_slice);
            let [(_, endpoint)] = found else {
                return Err(format!("{wanted}: {} endpoints have this address, expected one", found.len()));
            };
            for word in keys.split_whitespace() {
                compare_endpoint(&wanted, word, endpoint)?;
            }
        }
        let ids: BTreeMap<String, Guid> = by_address
            .iter()
            .filter_map(|(address, found)| found.first().map(|(id, _)| (address.clone(), *id)))
            .collect();
        for text in &expect.same_endpoint {
            let wanted = name(address(text));
            let (before, now) = (self.endpoint_ids.get(&wanted), ids.get(&wanted));
            ensure!(now.is_some() && now == before, "{wanted}: endpoint {before:?} is now {now:?}");
        }
        self.endpoint_ids = ids;
        Ok(())
    }

    /// I3: with unchanged input a second pass writes nothing.
    fn second_pass(&mut self) -> Outcome {
        let before = self.world.hns.journal().next_seq();
        self.world.pass();
        let writes: Vec<String> = self
            .world
            .hns
            .journal()
            .writes_since(before)
            .iter()
            .filter(|entry| &*entry.actor == "proxy")
            .map(|entry| format!("{:?} {:?} {}", entry.op, entry.kind, entry.subject))
            .collect();
        ensure!(writes.is_empty(), "I3: a second pass with unchanged input wrote {writes:?}");
        Ok(())
    }

    fn expect_calls(&self, expect: &Expect) -> Outcome {
        let entries: Vec<_> = self
            .world
            .hns
            .journal()
            .entries_since(self.mark)
            .into_iter()
            .filter(|entry| &*entry.actor == "proxy")
            .collect();
        let writes: Vec<_> =
            entries.iter().filter(|entry| matches!(entry.op, Op::Create | Op::Modify | Op::Delete)).collect();
        let told = || {
            writes
                .iter()
                .take(60)
                .map(|entry| {
                    format!("  {:?} {:?} {} {:?}", entry.op, entry.kind, entry.subject, entry.result)
                })
                .collect::<Vec<_>>()
                .join("\n")
        };
        match &expect.writes {
            None => {}
            Some(Writes::Total(total)) => {
                ensure!(
                    writes.len() as u64 == *total,
                    "{} writes where {total} are expected:\n{}",
                    writes.len(),
                    told()
                );
            }
            Some(Writes::Counts(counts)) => {
                let mut found: BTreeMap<String, u64> = BTreeMap::new();
                for entry in &writes {
                    let kind = match entry.kind {
                        Some(Kind::LoadBalancer) => "balancer",
                        Some(Kind::Endpoint) => "endpoint",
                        _ => "other",
                    };
                    *found.entry(format!("{:?} {kind}", entry.op).to_lowercase()).or_default() += 1;
                }
                let wanted = self.wanted_writes(counts);
                ensure!(found == wanted, "writes {found:?} where {wanted:?} are expected:\n{}", told());
            }
        }
        if let Some(most) = expect.calls_at_most {
            ensure!(
                entries.len() as u64 <= most,
                "{} calls where at most {most} are expected",
                entries.len()
            );
        }
        if let Some(most) = expect.lists_at_most {
            let lists = entries.iter().filter(|entry| entry.op == Op::Enumerate).count();
            ensure!(lists as u64 <= most, "{lists} enumerations where at most {most} are expected");
        }
        if !expect.created_in_order.is_empty() {
            let wanted: Vec<String> =
                expect.created_in_order.iter().map(|frontend| expand(frontend)).collect();
            let found: Vec<String> = writes
                .iter()
                .filter(|entry| matches!(entry.op, Op::Create) && entry.kind == Some(Kind::LoadBalancer))
                .map(|entry| subject(&entry.subject))
                .filter(|subject| wanted.contains(subject))
                .collect();
            ensure!(found == wanted, "created in the order {found:?}, expected {wanted:?}");
        }
        for frontend in &expect.never_gone {
            let frontend = expand(frontend);
            let mut gone = false;
            for entry in writes.iter().filter(|entry| entry.kind == Some(Kind::LoadBalancer)) {
                let here = subject(&entry.subject) == frontend;
                match entry.op {
                    Op::Delete if here && entry.result.is_ok() => gone = true,
                    Op::Create if here && entry.result.is_ok() => gone = false,
                    _ => ensure!(
                        !gone,
                        "{frontend} was gone while {:?} {} was called:\n{}",
                        entry.op,
                        entry.subject,
                        told()
                    ),
                }
            }
            ensure!(!gone, "{frontend} is gone:\n{}", told());
        }
        Ok(())
    }

    /// Counts by the calls that this HNS takes for them.
    fn wanted_writes(&self, counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let version = self.world.hns.actor("observer").version().expect("HNS tells its version");
        let modifies = Features::of(version).supports(Feature::ModifyLoadBalancer);
        let mut wanted = BTreeMap::new();
        for (key, count) in counts.iter().filter(|(_, count)| **count > 0) {
            let calls: &[&str] = match &**key {
                "change balancer" if modifies => &["modify balancer"],
                "change balancer" => &["delete balancer", "create balancer"],
                other => &[other],
            };
            for call in calls {
                *wanted.entry((*call).to_owned()).or_default() += count;
            }
        }
        wanted
    }

    fn expect_words(&self, expect: &Expect) -> Outcome {
        let proxy = self.world.driver.proxy();
        let mut reasons: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut words: Vec<String> = Vec::new();
        for (key, view) in proxy.services() {
            let entry = reasons.entry(key.to_string()).or_default();
            for condition in &view.conditions {
                entry.insert(condition.kind.reason().to_owned());
                words.push(condition.message.clone());
            }
            if let Some(status) = proxy.status(key) {
                for condition in &status.conditions {
                    entry.insert(condition.reason.to_string());
                    words.push(condition.message.clone());
                }
                for frontend in &status.frontends {
                    words.push(format!("{frontend:?}"));
                }
            }
        }
        let node: BTreeSet<String> =
            proxy.conditions().map(|condition| condition.reason.to_string()).collect();
        for condition in proxy.conditions() {
            words.push(condition.message.clone());
        }
        for map in &expect.conditions {
            for (service, reason) in map {
                let service =
                    if service.contains('/') { service.clone() } else { format!("default/{service}") };
                let found = reasons.get(&service);
                ensure!(
                    found.is_some_and(|found| found.contains(reason)),
                    "Service {service} has conditions {found:?}, expected {reason}"
                );
            }
        }
        for reason in &expect.node_conditions {
            ensure!(node.contains(reason), "the node has conditions {node:?}, expected {reason}");
        }
        for reason in &expect.no_conditions {
            ensure!(!node.contains(reason), "the node has condition {reason}");
            for (service, found) in &reasons {
                ensure!(!found.contains(reason), "Service {service} has condition {reason}");
            }
        }
        for word in &expect.says {
            ensure!(
                words.iter().any(|said| said.contains(word.as_str())),
                "nothing says {word:?}; what is said:\n{}",
                words.join("\n")
            );
        }
        for (frontend, wanted) in &expect.states {
            let frontend = expand(frontend);
            let found = proxy.services().find_map(|(key, _)| {
                proxy.status(key)?.frontends.into_iter().find(|status| named(&status.frontend) == frontend)
            });
            let state = found.map(|status| match status.state {
                FrontendState::Programmed => "Programmed",
                FrontendState::Pending => "Pending",
                FrontendState::Waiting { .. } => "Waiting",
                FrontendState::Failed { .. } => "Failed",
            });
            ensure!(state == Some(wanted.as_str()), "{frontend} is {state:?}, expected {wanted}");
        }
        Ok(())
    }
}

/// A frontend as the dump writes it: fixture names for addresses.
pub(crate) fn expand(text: &str) -> String {
    named(text)
}

/// Replaces the address of a frontend's text by its fixture name.
fn named(text: &str) -> String {
    let Some((host, tail)) = text.rsplit_once(':') else { return text.to_owned() };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse() {
        Ok(address) => {
            let known = name(address);
            if known == bare { text.to_owned() } else { format!("{known}:{tail}") }
        }
        Err(_) => text.to_owned(),
    }
}

/// Fixture names of one address, or of a range such as `10.50.2.20+64`.
fn names(text: &str) -> Vec<String> {
    range(text).into_iter().map(name).collect()
}

/// The journal's subject of a load balancer, as the dump writes it.
pub(crate) fn subject(text: &str) -> String {
    named(text.split_whitespace().next().unwrap_or_default())
}

/// Compares a row's short form with what HNS holds and returns the frontend.
fn compare(text: &str, short: &BTreeMap<String, (Guid, dump::Balancer)>) -> Result<String, String> {
    let (head, rest) =
        text.split_once("->").ok_or_else(|| format!("{text:?} is not like `VIP:80/TCP -> 8080 [R1]`"))?;
    let frontend = expand(head.trim());
    let (_, balancer) = short.get(&frontend).ok_or_else(|| format!("no load balancer holds {frontend}"))?;
    let (port, rest) = rest.split_once('[').ok_or_else(|| format!("{text:?} has no backends in brackets"))?;
    let port: u16 = port.trim().parse().map_err(|_| format!("{text:?}: {port:?} is no port"))?;
    ensure!(
        balancer.internal_port == port,
        "{frontend}: internal port is {}, expected {port}",
        balancer.internal_port
    );
    let (backends, keys) = rest.split_once(']').ok_or_else(|| format!("{text:?} has no closing bracket"))?;
    let wanted: BTreeSet<String> = backends.split_whitespace().flat_map(names).collect();
    ensure!(
        balancer.backends == wanted,
        "{frontend}: backends are {:?}, expected {wanted:?}",
        balancer.backends
    );
    for word in keys.split_whitespace() {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("{text:?}: {word:?} is not key=value"))?;
        let found = match key {
            "flags" => &balancer.flags,
            "mapping" => &balancer.mapping,
            "dist" => &balancer.distribution,
            "source" => &balancer.source,
            _ => return Err(format!("{text:?}: {key:?} is not known")),
        };
        let sorted = |text: &str| {
            let mut parts: Vec<String> =
                text.split('+').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            parts.sort();
            parts
        };
        let value =
            if key == "source" && !value.is_empty() { name(address(value)) } else { value.to_owned() };
        ensure!(sorted(found) == sorted(&value), "{frontend}: {key} is {found:?}, expected {value:?}");
    }
    Ok(frontend)
}

fn compare_endpoint(wanted: &str, word: &str, endpoint: &Endpoint) -> Outcome {
    let provider = || {
        let policy = endpoint.policies.iter().find(|policy| policy.kind.is("ProviderAddress"))?;
        let settings: serde_json::Value = policy.read().ok()?;
        settings["ProviderAddress"].as_str()?.parse().ok().map(name)
    };
    let (key, value, found) = match word.split_once('=') {
        None => ("kind", word, if endpoint.is_remote() { "remote" } else { "local" }.to_owned()),
        Some(("pa", value)) => ("provider address", value, provider().unwrap_or_default()),
        Some(("mac", value)) => ("MAC", value, endpoint.mac_address.clone().unwrap_or_default()),
        Some(("owner", value)) => ("owner", value, endpoint.owner.clone().unwrap_or_default()),
        Some(("name", value)) => ("name", value, endpoint.name.clone().unwrap_or_default()),
        Some((key, _)) => return Err(format!("{wanted}: {key:?} is not known")),
    };
    ensure!(found.eq_ignore_ascii_case(value), "{wanted}: {key} is {found:?}, expected {value:?}");
    Ok(())
}
