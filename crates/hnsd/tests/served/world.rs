//! What the tests share: an emulated HNS that is served on a socket of its own.

use std::path::PathBuf;
use std::sync::Arc;

use hcn::Hcn;
use hcn::time::{ManualClock, SeededEntropy};
use hns::{Hns, Profile};
use hnsd::{Address, Call, CallError, Limits, Options, Remote, Running, Server, Service, StreamSink};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A service with an emulated HNS, and methods of its own.
pub(crate) struct Emulated {
    pub(crate) hns: Hns,
    /// Sinks of the streams that were opened.
    pub(crate) sinks: Mutex<Vec<StreamSink>>,
}

impl Service for Emulated {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        (actor != "nobody").then(|| Arc::new(self.hns.actor(actor)) as Arc<dyn Hcn>)
    }

    fn about(&self) -> Value {
        json!({ "node": "win-1" })
    }

    fn call(&self, call: &Call<'_>) -> Result<Value, CallError> {
        match call.method {
            "echo" => Ok(json!({ "actor": call.actor, "params": call.params })),
            "panic" => panic!("a service that panics"),
            "fail" => Err(CallError::failed("a reason").with_data(json!({ "more": 1 }))),
            other => Err(CallError::unknown_method(other)),
        }
    }

    fn stream(&self, call: &Call<'_>, sink: StreamSink) -> Result<(), CallError> {
        match call.method {
            "events" => {
                self.sinks.lock().push(sink);
                Ok(())
            }
            other => Err(CallError::unknown_method(other)),
        }
    }
}

/// A server with its folder, which goes with it.
pub(crate) struct World {
    pub(crate) service: Arc<Emulated>,
    pub(crate) clock: ManualClock,
    pub(crate) folder: TempDir,
    pub(crate) limits: Limits,
    pub(crate) running: Option<Running>,
}

impl World {
    /// A server on a Unix socket and a port.
    pub(crate) fn new(profile: Profile, limits: Limits) -> Self {
        let clock = ManualClock::jumping();
        let options = hns::Options {
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SeededEntropy::new(7)),
            ..hns::Options::new(profile)
        };
        let service = Emulated { hns: Hns::open(options).unwrap(), sinks: Mutex::default() };
        let folder = tempfile::tempdir().unwrap();
        let mut world = Self { service: Arc::new(service), clock, folder, limits, running: None };
        world.start();
        world
    }

    pub(crate) fn start(&mut self) {
        let service = Arc::clone(&self.service);
        let server = Server::new(service, self.limits.clone())
            .unix(&self.socket())
            .and_then(|server| server.tcp(0, &self.token_file()));
        self.running = Some(server.unwrap().start().unwrap());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("hns.sock")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.folder.path().join("hns.token")
    }

    pub(crate) fn unix(&self) -> Address {
        Address::Unix(self.socket())
    }

    pub(crate) fn remote(&self, actor: &str) -> Remote {
        Remote::connect(self.unix(), Options::actor(actor)).unwrap()
    }
}
