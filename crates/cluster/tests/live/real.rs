//! What must hold on any API server: by default on the one of these tests, and on a real one where `TRANSOM_TEST_KUBECONFIG` names
//! a kubeconfig that may create and delete a namespace, Services and EndpointSlices. See docs/live-cluster.md.

use std::path::PathBuf;

use apiserver::{Connecting, Credential};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use services::ObjectKind;

use crate::rig::{Rig, Source, settings};

/// A namespace of the test's own on some server, taken away in the end.
struct Place {
    runtime: tokio::runtime::Runtime,
    client: Client,
    kubeconfig: PathBuf,
    name: String,
    /// Ends with this value.
    _own: Option<Rig>,
}

impl Place {
    fn new(test: &str) -> Self {
        let given = std::env::var_os("TRANSOM_TEST_KUBECONFIG").map(PathBuf::from);
        let own = given.is_none().then(Rig::plain);
        let kubeconfig = given.unwrap_or_else(|| {
            let rig = own.as_ref().expect("a server of its own");
            rig.kubeconfig(&Credential::None, &Connecting::default())
        });
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let connection = settings(kubeconfig.clone()).connection;
        let client = runtime.block_on(connection.client()).expect("a client");
        let name = format!("transom-test-{test}-{}", std::process::id());
        let place = Self { runtime, client, kubeconfig, name, _own: own };
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": place.name}})).expect("a namespace");
        let api: Api<Namespace> = Api::all(place.client.clone());
        place
            .runtime
            .block_on(api.create(&PostParams::default(), &namespace))
            .expect("the namespace is made");
        place
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// A Service without a selector; the server chooses its cluster IP unless it has none.
    fn service(&self, name: &str, headless: bool) {
        let mut document = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        if headless {
            document["spec"]["clusterIP"] = "None".into();
        }
        let service: Service = serde_json::from_value(document).expect("a Service");
        self.runtime.block_on(self.services().create(&PostParams::default(), &service)).expect("it is made");
    }

    fn slice(&self, service: &str, addresses: &[&str]) {
        let name = format!("{service}-own");
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
            "endpoints": addresses.iter().map(|address| json!({"addresses": [address]})).collect::<Vec<_>>(),
        }))
        .expect("a slice");
        self.runtime.block_on(async {
            let patch = Patch::Merge(&slice);
            match self.slices().create(&PostParams::default(), &slice).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    self.slices().patch(&name, &PatchParams::default(), &patch).await.expect("it is changed");
                }
                Err(error) => panic!("{error}"),
            }
        });
    }

    fn source(&self) -> Source {
        Source::start(&settings(self.kubeconfig.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let gone = self.runtime.block_on(api.delete(&self.name, &DeleteParams::default()));
        assert!(std::thread::panicking() || gone.is_ok(), "namespace {} stays: {gone:?}", self.name);
    }
}

#[test]
fn changes_of_any_server_are_followed() {
    let place = Place::new("changes");
    place.service("before", false);
    place.service("headless", true);
    place.slice("before", &["10.1.2.3"]);
    let source = place.source();
    source.synced();
    let prefix = format!("{}/", place.name);
    let own = |source: &Source, kind| -> Vec<String> {
        source.told(|told| {
            told.names(kind)
                .into_iter()
                .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
                .collect()
        })
    };
    assert_eq!(own(&source, ObjectKind::Service), ["before"]);
    assert_eq!(own(&source, ObjectKind::EndpointSlice), ["before-own"]);
    place.service("after", false);
    let after = format!("{prefix}after");
    source.until("a new Service comes", |told| told.names(ObjectKind::Service).contains(&&*after));
    let changes = source.told(|told| told.changes);
    place.slice("before", &["10.1.2.3", "10.1.2.4"]);
    source.until("a change of a slice comes", |told| told.changes > changes);
    place
        .runtime
        .block_on(place.services().delete("before", &DeleteParams::default()))
        .expect("it is deleted");
    let before = format!("{prefix}before");
    source.until("a Service goes", |told| !told.names(ObjectKind::Service).contains(&&*before));
}

#[test]
fn lists_of_any_server_are_whole() {
    let place = Place::new("lists");
    for number in 0..60 {
        place.service(&format!("s{number}"), false);
    }
    for (chunk, streaming) in [(7, false), (500, false), (500, true)] {
        let mut settings = settings(place.kubeconfig.clone());
        (settings.chunk, settings.streaming) = (chunk, streaming);
        let source = Source::start(&settings);
        source.synced();
        let listed = place.runtime.block_on(place.services().list(&ListParams::default())).expect("a list");
        assert_eq!(listed.items.len(), 60);
        let own = format!("{}/", place.name);
        let told = source.told(|told| {
            told.names(ObjectKind::Service).iter().filter(|name| name.starts_with(&own)).count()
        });
        assert_eq!(told, 60, "chunks of {chunk}, streaming: {streaming}");
    }
}
