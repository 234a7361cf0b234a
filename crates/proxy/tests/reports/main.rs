//! Public reports whose tests need more than a row of data: every call index of an outage, every order of events, a
//! second thread, an HNS that shows what the emulated one never would. The other reports are rows of
//! `testdata/scenarios/reports-*.yaml`.

#[path = "../world/mod.rs"]
mod world;

mod crash;
mod hang;
mod outage;
mod parallel;
mod reuse;
mod turns;
mod twins;
mod versions;

use std::collections::BTreeMap;

use hns::journal::{Entry, Op};
use services::{Change, ObjectKind, ObjectRef};
use world::objects::{ShortService, ShortSlice};
use world::{World, dump};

/// Sets a Service given in short form.
fn set_service(world: &mut World, yaml: &str) {
    let short: ShortService = serde_saphyr::from_str(yaml).expect("a Service in short form");
    world.apply(Change::Set(short.object()));
}

/// Sets an EndpointSlice given in short form.
fn set_slice(world: &mut World, yaml: &str) {
    let short: ShortSlice = serde_saphyr::from_str(yaml).expect("a slice in short form");
    world.apply(Change::Set(short.object()));
}

/// Deletes an object of namespace `default`.
fn delete(world: &mut World, kind: ObjectKind, name: &str) {
    world.apply(Change::Delete(ObjectRef { kind, namespace: "default".into(), name: name.into() }));
}

/// Every load balancer in short form, by frontend.
fn balancers(world: &World) -> BTreeMap<String, String> {
    dump::short(&world.hns)
        .into_iter()
        .map(|(frontend, (_, balancer))| (frontend, balancer.to_string()))
        .collect()
}

/// The proxy's writes since a position of the journal.
fn writes_since(world: &World, mark: u64) -> Vec<Entry> {
    let all = world.hns.journal().writes_since(mark);
    all.into_iter().filter(|entry| &*entry.actor == "proxy").collect()
}

/// Which of the writes are of an operation.
fn count(writes: &[Entry], op: Op) -> usize {
    writes.iter().filter(|entry| entry.op == op).count()
}
