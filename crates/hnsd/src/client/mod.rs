//! [`Remote`]: an HNS in another process. Blocking, for any number of threads over one connection.
//!
//! | module | job |
//! |---|---|
//! | `attempts` | who shares what came of an attempt to connect |
//! | `transport` | a Unix or TCP stream, connected |
//! | `link` | one connection: its hello, its reader's thread, who waits for what |
//! | `stream` | the client's end of a service's stream |
//!
//! A connection that is lost fails the calls under way with `RPC_S_CALL_FAILED`, tells every subscriber
//! `ServiceDisconnect`, and is made anew by the next call, which fails with `RPC_S_SERVER_UNAVAILABLE` when it cannot.
//! Nothing is repeated: what became of a call that was under way only its caller can find out.

mod attempts;
mod link;
mod stream;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::{Guid, Hcn, Kind, Query, Version};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::address::Address;
use crate::call::{CallError, ErrorKind};
use crate::protocol::{
    CallV1, Create, Delete, Enumerate, GreetingLimits, Modify, QueryOne, ServerGreeting, Unsubscribe,
    WireError, WireKind, WireV1Method, method,
};
use crate::token::{Token, TokenFileError};
use attempts::Attempts;
use link::{Asked, Link, Subscriber};
pub use stream::{RemoteStream, StreamItem};

/// On how many connections a request is tried, as long as none of it was sent.
const TRIES: usize = 3;

/// How a [`Remote`] connects and calls.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who the server is told is calling.
    pub actor: String,
    /// The secret, for an address that names a port; a token file has its own.
    pub token: Option<Token>,
    /// How long a call may take; without one it waits for as long as HNS hangs.
    pub timeout: Option<Duration>,
    /// How long the server may take to let this client in, and to read what is written to it.
    pub patience: Duration,
    /// The longest answer that is taken, in bytes.
    pub answer_bytes: usize,
    /// How many events of a stream wait to be taken before some are lost.
    pub events: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            actor: "client".to_owned(),
            token: None,
            timeout: None,
            patience: Duration::from_secs(30),
            answer_bytes: 1024 * 1024 * 1024,
            events: 1_024,
        }
    }
}

impl Options {
    /// The defaults, for an actor.
    pub fn actor(name: impl Into<String>) -> Self {
        Self { actor: name.into(), ..Self::default() }
    }
}

/// There is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answers.
    #[error("HNS at {address}: {cause}; is its server running?")]
    Unreachable {
        /// The address.
        address: Address,
        /// Why.
        cause: std::io::Error,
    },
    /// Port and token cannot be learnt.
    #[error(transparent)]
    Token(#[from] TokenFileError),
    /// The server does not let us in.
    #[error("HNS at {address} refuses: {error}")]
    Refused {
        /// The address.
        address: Address,
        /// What it says.
        error: CallError,
    },
    /// Whoever answers does not speak the protocol.
    #[error("what answers at {address} is no server of HNS: {reason}")]
    Protocol {
        /// The address.
        address: Address,
        /// What came.
        reason: String,
    },
}

impl ConnectError {
    /// Whether it may be mended by waiting: the server has not started yet, is being started anew, or is full.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { cause, .. } => cause.kind() != std::io::ErrorKind::PermissionDenied,
            Self::Token(TokenFileError::Read { source, .. }) => source.kind() == std::io::ErrorKind::NotFound,
            Self::Refused { error, .. } => error.kind == ErrorKind::TooMany,
            Self::Token(TokenFileError::Content { .. }) | Self::Protocol { .. } => false,
        }
    }
}

/// An HNS in another process. Clones share the connection, which ends with the last of them.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    options: Options,
    /// The ids of requests, never used twice, also on later connections: a subscription of before stays unknown.
    next: AtomicU64,
    attempts: Attempts,
    link: Mutex<Option<Arc<Link>>>,
}

/// A request that was answered.
struct Begun {
    link: Arc<Link>,
    id: u64,
    answer: Option<Box<RawValue>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(link) = self.link.get_mut().take() {
            link.close("this client has closed the connection");
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("address", &self.shared.address)
            .field("actor", &self.shared.options.actor)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// A client that connects when it first calls.
    pub fn new(address: Address, options: Options) -> Self {
        let shared = Shared {
            address,
            options,
            next: AtomicU64::new(1),
            attempts: Attempts::default(),
            link: Mutex::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A client that is connected.
    pub fn connect(address: Address, options: Options) -> Result<Self, ConnectError> {
        let remote = Self::new(address, options);
        remote.link()?;
        Ok(remote)
    }

    /// Another client of the same server, under another name and over a connection of its own.
    #[must_use]
    pub fn actor(&self, name: &str) -> Self {
        let options = Options { actor: name.to_owned(), ..self.shared.options.clone() };
        Self::new(self.shared.address.clone(), options)
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// What the server says of itself. Connects if need be.
    pub fn greeting(&self) -> Result<ServerGreeting, ConnectError> {
        Ok(self.link()?.greeting().clone())
    }

    /// What the server lets one client do. Connects if need be; looks at what is known already otherwise.
    pub fn limits(&self) -> Result<GreetingLimits, ConnectError> {
        Ok(self.link()?.greeting().limits)
    }

    /// [`Hcn::enumerate`] with a query's text, which crosses as it is.
    pub fn enumerate_text(&self, kind: Kind, query: &str) -> hcn::Result<Vec<Guid>> {
        self.hcn(method::ENUMERATE, &Enumerate { kind: WireKind(kind), query: query.into() })
    }

    /// [`Hcn::query`] with a query's text, which crosses as it is.
    pub fn query_text(&self, kind: Kind, id: Guid, query: &str) -> hcn::Result<String> {
        self.hcn(method::QUERY, &QueryOne { kind: WireKind(kind), id, query: query.into() })
    }

    /// A call of the service's own.
    pub fn call_extension(&self, method: &str, params: &Value) -> Result<Value, CallError> {
        self.call_extension_as(method, params)
    }

    /// A call of the service's own, with types.
    pub fn call_extension_as<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<T, CallError> {
        self.call(method, params).map_err(CallError::from)
    }

    /// Opens a stream of the service's own.
    pub fn stream_extension(&self, method: &str, params: &Value) -> Result<RemoteStream, CallError> {
        let (sender, receiver) = stream::queue(self.shared.options.events);
        let asked = Asked { method, params, stream: true };
        let Begun { link, id, .. } = self.request(&asked, Some(Subscriber::Stream(sender)))?;
        Ok(RemoteStream::new(receiver, self.clone(), link, id))
    }

    fn link(&self) -> Result<Arc<Link>, ConnectError> {
        let Shared { address, options, attempts, link, .. } = &*self.shared;
        let asked = attempts.ask();
        let mut place = link.lock();
        if let Some(link) = place.as_ref().filter(|link| link.is_alive()) {
            return Ok(Arc::clone(link));
        }
        if let Some(cause) = attempts.failure_since(asked) {
            return Err(ConnectError::Unreachable { address: address.clone(), cause });
        }
        let attempt = attempts.begin();
        let link = Link::connect(address, options).inspect_err(|error| {
            if let ConnectError::Unreachable { cause, .. } = error {
                attempts.fail(attempt, cause);
            }
        })?;
        *place = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Sends a request and waits for its answer.
    fn request<P: Serialize + ?Sized>(
        &self,
        asked: &Asked<'_, P>,
        subscriber: Option<Subscriber>,
    ) -> Result<Begun, WireError> {
        let subscriber = subscriber.map(Arc::new);
        for _ in 0..TRIES {
            let link =
                self.link().map_err(|error| CallError::new(ErrorKind::Unreachable, error.to_string()))?;
            let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
            // What has not been sent may be sent on the next connection: the server was started anew just now.
            if let Some(answer) = link.request(id, asked, subscriber.as_ref(), self.shared.options.timeout) {
                return Ok(Begun { link, id, answer: answer? });
            }
        }
        let why = format!("HNS at {} closes every connection", self.shared.address);
        Err(CallError::new(ErrorKind::Unreachable, why).into())
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<T, WireError> {
        let Begun { answer, .. } = self.request(&Asked { method, params, stream: false }, None)?;
        serde_json::from_str(answer.as_deref().map_or("null", RawValue::get)).map_err(|error| {
            CallError::new(ErrorKind::Other, format!("{method}: the answer is not understood: {error}"))
                .into()
        })
    }

    fn hcn<T: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> hcn::Result<T> {
        self.call(method, params).map_err(WireError::into_hcn)
    }

    /// Ends a subscription or a stream without waiting for an answer.
    fn end(&self, link: &Link, subscription: u64) {
        if link.forget(subscription) {
            let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
            let params = &Unsubscribe { subscription };
            link.tell(id, &Asked { method: method::UNSUBSCRIBE, params, stream: false });
        }
    }
}

impl Hcn for Remote {
    fn enumerate(&self, kind: Kind, query: &Query) -> hcn::Result<Vec<Guid>> {
        self.enumerate_text(kind, &query.to_json())
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> hcn::Result<String> {
        self.query_text(kind, id, &query.to_json())
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> hcn::Result<Guid> {
        self.hcn(method::CREATE, &Create { kind: WireKind(kind), network, id, settings: settings.into() })
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> hcn::Result<()> {
        self.hcn(method::MODIFY, &Modify { kind: WireKind(kind), id, settings: settings.into() })
    }

    fn delete(&self, kind: Kind, id: Guid) -> hcn::Result<()> {
        self.hcn(method::DELETE, &Delete { kind: WireKind(kind), id })
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> hcn::Result<String> {
        let params = CallV1 { method: WireV1Method(method), path: path.into(), body: body.into() };
        self.hcn(method::CALL_V1, &params)
    }

    fn version(&self) -> hcn::Result<Version> {
        self.hcn(method::VERSION, &())
    }

    fn subscribe(&self, sink: NotificationSink) -> hcn::Result<SubscriptionId> {
        let asked = Asked { method: method::SUBSCRIBE, params: &(), stream: false };
        let Begun { id, .. } =
            self.request(&asked, Some(Subscriber::Hcn(sink))).map_err(WireError::into_hcn)?;
        Ok(SubscriptionId(id))
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        // Subscriptions of a connection that was lost are void already; ids are never used twice.
        let link = self.shared.link.lock().clone();
        if let Some(link) = link {
            self.end(&link, subscription.0);
        }
    }
}
