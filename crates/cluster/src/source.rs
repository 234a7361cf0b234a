//! All kinds together, on threads of their own: what they tell goes to one sink, in the order in which it came.
//!
//! The selectors are kube-proxy's: Services without `service.kubernetes.io/service-proxy-name` that are not headless,
//! EndpointSlices without `service.kubernetes.io/headless`, the own Node only.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use hcn::time::Clock;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::{Api, Client};
use services::{Object, ObjectKind};
use tokio::runtime::Runtime;

use crate::connect::{ConnectError, Connection};
use crate::events::Recorder;
use crate::status::{Board, Resource, Status};
use crate::trigger::triggered;
use crate::watching::{Backoff, Patience, Reader, Sink, Watch};

pub use crate::watching::Told as Event;

/// Another proxy's Services.
const PROXY_NAME: &str = "!service.kubernetes.io/service-proxy-name";

/// Slices of headless Services.
const HEADLESS: &str = "!service.kubernetes.io/headless";

/// What is watched and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the API is reached.
    pub connection: Connection,
    /// The own Node's name.
    pub node: String,
    /// How failed requests are tried again.
    pub backoff: Backoff,
    /// How long watches last, and how long they may be silent.
    pub patience: Patience,
    /// How many objects a list's chunk has.
    pub chunk: u32,
    /// Whether lists come as streams where the server has that: the server then needs no memory for the whole list, nor this
    /// process for a chunk.
    pub streaming: bool,
}

impl Settings {
    /// The usual ones.
    pub fn new(connection: Connection, node: impl Into<String>) -> Self {
        Self {
            connection,
            node: node.into(),
            backoff: Backoff::default(),
            patience: Patience::default(),
            chunk: 500,
            streaming: true,
        }
    }
}

/// A source that runs. Dropping it ends it.
pub struct Running {
    runtime: Option<Runtime>,
    board: Board,
    client: Client,
    node: String,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("node", &self.node)
            .field("status", &self.board.read())
            .finish_non_exhaustive()
    }
}

/// A source that does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no client.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There are no threads.
    #[error("threads for the API client cannot be had: {0}")]
    Threads(#[from] std::io::Error),
}

/// Starts. What the configuration says must make sense; the server need not answer.
pub fn start(settings: &Settings, clock: Arc<dyn Clock>, sink: &Sink) -> Result<Running, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("api")
        .enable_all()
        .build()?;
    let client = runtime.block_on(settings.connection.client())?;
    let board = Board::new(clock);
    let start = Start { settings, client: &client, board: &board, sink, runtime: &runtime };
    start.services();
    start.slices();
    start.node();
    start.service_cidrs();
    Ok(Running { runtime: Some(runtime), board, client, node: settings.node.clone() })
}

impl Running {
    /// What is known of the API.
    pub fn status(&self) -> Status {
        self.board.read()
    }

    /// Something to read the status with that outlives nothing.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Tells people of things, as Kubernetes Events of the own Node and of Services.
    pub fn recorder(&self) -> Option<Recorder> {
        let runtime = self.runtime.as_ref()?;
        Some(Recorder::start(runtime.handle(), self.client.clone(), &self.node))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A request that hangs must not hang who ends this.
            runtime.shutdown_background();
        }
    }
}

struct Start<'a> {
    settings: &'a Settings,
    client: &'a Client,
    board: &'a Board,
    sink: &'a Sink,
    runtime: &'a Runtime,
}

impl Start<'_> {
    fn watch<K>(&self, resource: Resource, api: Api<K>, reader: Option<Reader<K>>) -> Watch<K> {
        Watch {
            resource,
            api,
            connection: self.settings.connection.clone(),
            labels: None,
            fields: None,
            reader,
            board: self.board.clone(),
            sink: Arc::clone(self.sink),
            backoff: self.settings.backoff,
            patience: self.settings.patience,
            chunk: self.settings.chunk,
            streaming: self.settings.streaming,
        }
    }

    fn services(&self) {
        let reader = Reader { kind: ObjectKind::Service, record: record::<Service>, triggered: never };
        let mut watch = self.watch(Resource::Services, Api::all(self.client.clone()), Some(reader));
        watch.labels = Some(PROXY_NAME.to_owned());
        watch.fields = Some("spec.clusterIP!=None".to_owned());
        self.runtime.spawn(watch.run());
    }

    fn slices(&self) {
        let reader = Reader {
            kind: ObjectKind::EndpointSlice,
            record: record::<EndpointSlice>,
            triggered: |object| triggered(&object.metadata),
        };
        let mut watch = self.watch(Resource::EndpointSlices, Api::all(self.client.clone()), Some(reader));
        watch.labels = Some(HEADLESS.to_owned());
        self.runtime.spawn(watch.run());
    }

    fn node(&self) {
        let reader = Reader { kind: ObjectKind::Node, record: record::<Node>, triggered: never };
        let mut watch = self.watch(Resource::Node, Api::all(self.client.clone()), Some(reader));
        watch.fields = Some(format!("metadata.name={}", self.settings.node));
        self.runtime.spawn(watch.run());
    }

    /// The ranges of cluster IPs: a proxy on Windows needs none of them, but whoever looks at its status sees them counted.
    fn service_cidrs(&self) {
        let watch = self.watch::<ServiceCIDR>(Resource::ServiceCidrs, Api::all(self.client.clone()), None);
        self.runtime.spawn(watch.run());
    }
}

fn record<K>(object: &K) -> Result<Object, String>
where
    for<'a> Object: TryFrom<&'a K, Error = services::RecordError>,
{
    Object::try_from(object).map_err(|error| error.to_string())
}

fn never<K>(_: &K) -> Option<SystemTime> {
    None
}
