//! A source against an API server, and what it has told so far.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, Connecting, Credential, Options, Running as Server};
use cluster::source::{Event, Settings, start};
use cluster::status::Resource;
use cluster::watching::Backoff;
use cluster::{Connection, ResourceStatus, Running, Status};
use hcn::time::SystemClock;
use parking_lot::{Condvar, Mutex};
use services::{Change, Object, ObjectKind};
use tempfile::TempDir;

/// The own Node.
pub(crate) const NODE: &str = "win-1";

/// How long something may take that a test waits for: far longer than it does.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a source has told.
#[derive(Default)]
pub(crate) struct Told {
    /// The objects that are there, by kind and `namespace/name`.
    pub(crate) objects: BTreeMap<(ObjectKind, String), Object>,
    /// Which kinds are known whole, and how often that was said.
    pub(crate) synced: BTreeMap<Resource, u32>,
    /// Objects that could not be taken.
    pub(crate) refused: Vec<String>,
    /// How many changes came.
    pub(crate) changes: usize,
    /// Times of triggers that came with changes.
    pub(crate) triggered: usize,
}

impl Told {
    /// The names of the objects of a kind.
    pub(crate) fn names(&self, kind: ObjectKind) -> Vec<&str> {
        self.objects.keys().filter(|(of, _)| *of == kind).map(|(_, name)| &**name).collect()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Changed(change, triggered) => {
                self.changes += 1;
                self.triggered += usize::from(triggered.is_some());
                let reference = change.reference();
                let key = (reference.kind, format!("{}/{}", reference.namespace, reference.name));
                match change {
                    Change::Set(object) => self.objects.insert(key, object),
                    Change::Delete(_) => self.objects.remove(&key),
                };
            }
            Event::Refused(why) => self.refused.push(why),
            Event::Synced(resource) => *self.synced.entry(resource).or_default() += 1,
        }
    }
}

/// A source that runs.
pub(crate) struct Source {
    told: Arc<(Mutex<Told>, Condvar)>,
    pub(crate) running: Running,
}

impl Source {
    /// Starts one.
    pub(crate) fn start(settings: &Settings) -> Self {
        let told: Arc<(Mutex<Told>, Condvar)> = Arc::default();
        let taken = Arc::clone(&told);
        let sink: cluster::watching::Sink = Arc::new(move |event| {
            taken.0.lock().take(event);
            taken.1.notify_all();
        });
        let running =
            start(settings, Arc::new(SystemClock::default()), &sink).expect("the configuration makes sense");
        Self { told, running }
    }

    /// Waits until what was told is such.
    pub(crate) fn until(&self, what: &str, is: impl Fn(&Told) -> bool) {
        let mut told = self.told.0.lock();
        while !is(&told) {
            let late = self.told.1.wait_for(&mut told, PATIENCE).timed_out();
            let names = || told.objects.keys().take(20).collect::<Vec<_>>();
            assert!(!late, "it never came about that {what}: {:?}, {:?}", names(), self.running.status());
        }
    }

    /// Waits until all is known that must be.
    pub(crate) fn synced(&self) {
        self.until("all is known", |told| {
            told.synced.contains_key(&Resource::Services)
                && told.synced.contains_key(&Resource::EndpointSlices)
        });
    }

    /// Reads what was told.
    pub(crate) fn told<R>(&self, read: impl FnOnce(&Told) -> R) -> R {
        read(&self.told.0.lock())
    }

    /// What is known of a kind.
    pub(crate) fn status(&self, resource: Resource) -> ResourceStatus {
        self.running.status().resources.remove(&resource).unwrap_or_default()
    }

    /// Waits until the status is such. The API tells when something has happened that may change it.
    pub(crate) fn until_status(&self, what: &str, is: impl Fn(&Status) -> bool) {
        let clock = SystemClock::default();
        let end = hcn::time::Clock::now(&clock) + PATIENCE;
        while !is(&self.running.status()) {
            let now = hcn::time::Clock::now(&clock);
            assert!(now < end, "it never came about that {what}: {:?}", self.running.status());
            std::thread::yield_now();
        }
    }
}

/// An API server and what clients need.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
}

impl Rig {
    pub(crate) fn plain() -> Self {
        Self::with(Options::plain())
    }

    pub(crate) fn with(options: Options) -> Self {
        let server = ApiServer::start(options).expect("the API server starts");
        Self { server, folder: tempfile::tempdir().expect("a folder") }
    }

    /// A kubeconfig file.
    pub(crate) fn kubeconfig(&self, credential: &Credential, connecting: &Connecting) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        self.server.write_kubeconfig(&path, credential, connecting).expect("the kubeconfig is written");
        path
    }

    /// Settings with short pauses.
    pub(crate) fn settings(&self) -> Settings {
        settings(self.kubeconfig(&Credential::None, &Connecting::default()))
    }

    /// A source with the usual settings.
    pub(crate) fn source(&self) -> Source {
        Source::start(&self.settings())
    }

    /// Puts manifests into the server's store.
    pub(crate) fn apply(&self, manifests: &str) {
        self.server.store().apply_manifests(manifests).unwrap_or_else(|error| panic!("{manifests}: {error}"));
    }

    pub(crate) fn delete(&self, manifests: &str) {
        self.server
            .store()
            .delete_manifests(manifests)
            .unwrap_or_else(|error| panic!("{manifests}: {error}"));
    }
}

/// Settings with short pauses.
pub(crate) fn settings(kubeconfig: PathBuf) -> Settings {
    let connection = Connection { kubeconfig: Some(kubeconfig), ..Connection::default() };
    let (first, longest) = (Duration::from_millis(5), Duration::from_millis(50));
    Settings { backoff: Backoff { first, longest }, ..Settings::new(connection, NODE) }
}

/// A Service.
pub(crate) fn service(name: &str, ip: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, spec: {{clusterIP: {ip}, ports: [{{port: 80}}]}}}}"
    )
}

/// A slice of a Service with one endpoint.
pub(crate) fn slice(service: &str, address: &str) -> String {
    format!(
        "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {{name: {service}-1, namespace: shop, \
         labels: {{kubernetes.io/service-name: {service}}}}}, ports: [{{port: 8080}}], endpoints: [{{addresses: [{address}]}}]}}"
    )
}

/// Nodes, the own one among them.
pub(crate) fn nodes() -> String {
    let node = |name: &str, last: u8| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/os: windows}}}}\nstatus: {{addresses: [{{type: InternalIP, address: 192.0.2.{last}}}]}}\n"
        )
    };
    format!("{}---\n{}", node(NODE, 11), node("win-2", 12))
}
