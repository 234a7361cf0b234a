//! What the tests share: an emulated HNS that is served on a socket of its own.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use hcn::Hcn;
use hcn::time::{ManualClock, SeededEntropy};
use hns::{Hns, Profile};
use hnsd::frame::{self, Decoder};
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

/// A client that speaks bytes.
pub(crate) struct Raw {
    pub(crate) stream: UnixStream,
    decoder: Decoder,
}

impl Raw {
    pub(crate) fn connect(world: &World) -> Self {
        Self { stream: UnixStream::connect(world.socket()).unwrap(), decoder: Decoder::new(1 << 24) }
    }

    /// One that has said hello.
    pub(crate) fn greeted(world: &World) -> Self {
        let mut raw = Self::connect(world);
        raw.send(&json!({ "hello": { "versions": [1], "actor": "raw" } }));
        let hello = raw.receive().unwrap();
        assert_eq!(hello["hello"]["version"], 1, "{hello}");
        raw
    }

    pub(crate) fn send(&mut self, document: &Value) {
        self.stream.write_all(&frame::encode(document, usize::MAX).unwrap()).unwrap();
    }

    /// The next document; `None`: the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut chunk = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(serde_json::from_slice(&frame).unwrap());
            }
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.decoder.feed(&chunk[..read]),
            }
        }
    }

    /// The error with which the server ends the connection.
    pub(crate) fn last_words(&mut self) -> (String, String) {
        let message = self.receive().expect("the server says why");
        let error = &message["error"];
        assert!(message.get("id").is_none(), "{message}");
        assert_eq!(self.receive(), None, "and closes");
        (error["kind"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    }
}
