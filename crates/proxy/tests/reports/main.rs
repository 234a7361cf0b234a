//! Public reports whose tests need more than a row of data: every call index of an outage, every order of events, a
//! second thread, an HNS that shows what the emulated one never would. The other reports are rows of
//! `testdata/scenarios/reports-*.yaml`.

#[path = "../world/mod.rs"]
mod world;

/// Methods of an `Hcn` that stands between the proxy and HNS and has nothing to say to these calls: they go on to `self.inner`.
macro_rules! pass_on {
    ($($method:ident)*) => { $(pass_on! { @$method })* };
    (@enumerate) => {
        fn enumerate(&self, kind: hcn::Kind, query: &hcn::Query) -> hcn::Result<Vec<hcn::Guid>> {
            self.inner.enumerate(kind, query)
        }
    };
    (@query) => {
        fn query(&self, kind: hcn::Kind, id: hcn::Guid, query: &hcn::Query) -> hcn::Result<String> {
            self.inner.query(kind, id, query)
        }
    };
    (@create) => {
        fn create(
            &self,
            kind: hcn::Kind,
            network: Option<hcn::Guid>,
            id: hcn::Guid,
            settings: &str,
        ) -> hcn::Result<hcn::Guid> {
            self.inner.create(kind, network, id, settings)
        }
    };
    (@modify) => {
        fn modify(&self, kind: hcn::Kind, id: hcn::Guid, settings: &str) -> hcn::Result<()> {
            self.inner.modify(kind, id, settings)
        }
    };
    (@delete) => {
        fn delete(&self, kind: hcn::Kind, id: hcn::Guid) -> hcn::Result<()> {
            self.inner.delete(kind, id)
        }
    };
    (@call_v1) => {
        fn call_v1(&self, method: hcn::api::V1Method, path: &str, body: &str) -> hcn::Result<String> {
            self.inner.call_v1(method, path, body)
        }
    };
    (@version) => {
        fn version(&self) -> hcn::Result<hcn::Version> {
            self.inner.version()
        }
    };
    (@subscribe) => {
        fn subscribe(&self, sink: hcn::api::NotificationSink) -> hcn::Result<hcn::api::SubscriptionId> {
            self.inner.subscribe(sink)
        }
    };
    (@unsubscribe) => {
        fn unsubscribe(&self, subscription: hcn::api::SubscriptionId) {
            self.inner.unsubscribe(subscription);
        }
    };
}

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
