//! The documents of version 1: what each frame holds, in both directions (docs/hnsd.md says it in prose).
//!
//! Members that are not known are passed over, so that a later version may add some. HNS documents are JSON *strings*
//! in here: what is inside is not looked at and comes out byte for byte.

use std::borrow::Cow;

use hcn::api::{NotificationKind, V1Method};
use hcn::{Guid, HResult, Kind, Notification, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::call::{CallError, ErrorKind};

/// The version of the protocol that is described here.
pub const VERSION: u32 = 1;

/// How long an actor's name may be, in bytes.
pub const LONGEST_ACTOR: usize = 128;

/// The methods that this crate itself serves; every other one is the service's own.
pub mod method {
    /// [`hcn::Hcn::enumerate`].
    pub const ENUMERATE: &str = "hcn.enumerate";
    /// [`hcn::Hcn::query`].
    pub const QUERY: &str = "hcn.query";
    /// [`hcn::Hcn::create`].
    pub const CREATE: &str = "hcn.create";
    /// [`hcn::Hcn::modify`].
    pub const MODIFY: &str = "hcn.modify";
    /// [`hcn::Hcn::delete`].
    pub const DELETE: &str = "hcn.delete";
    /// [`hcn::Hcn::call_v1`].
    pub const CALL_V1: &str = "hcn.call_v1";
    /// [`hcn::Hcn::version`].
    pub const VERSION: &str = "hcn.version";
    /// [`hcn::Hcn::subscribe`].
    pub const SUBSCRIBE: &str = "hcn.subscribe";
    /// [`hcn::Hcn::unsubscribe`]; ends a service's own stream too.
    pub const UNSUBSCRIBE: &str = "hcn.unsubscribe";

    /// Whether a method is of the HCN API, known or not: a service's own have other names.
    pub fn is_hcn(name: &str) -> bool {
        name.starts_with("hcn.")
    }
}

/// The first frame of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientHello {
    /// The hello itself.
    pub hello: ClientGreeting,
}

/// What a client says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientGreeting {
    /// The versions of the protocol that it speaks.
    pub versions: Vec<u32>,
    /// Who it is, in the journal of HNS and for faults that strike one actor only.
    pub actor: String,
    /// The secret of the server's token file, over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The first frame of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerGreeting {
    /// The version that is spoken from here on.
    pub version: u32,
    /// The server's program and its version.
    pub server: String,
    /// What one client may do.
    pub limits: GreetingLimits,
    /// What the server is, in its own words; member `hns` is the version of HNS, where it is told.
    #[serde(default)]
    pub about: Value,
}

/// What one client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GreetingLimits {
    /// The longest frame that the server takes, in bytes of content.
    pub request_bytes: usize,
    /// The longest frame that the server sends.
    pub answer_bytes: usize,
    /// Requests that may be under way.
    pub calls: usize,
    /// Subscriptions that may be alive.
    pub subscriptions: usize,
}

/// Every frame of a client after the first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request<'a> {
    /// Chosen by the client; the answer bears it, and a subscription is known by it.
    pub id: u64,
    /// What is asked for.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// Whether one of the service's own methods is to open a stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// The arguments; none is the same as an empty object.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub params: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// Reads a frame.
    pub fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(frame).map_err(|error| {
            #[derive(Deserialize)]
            struct Id {
                id: u64,
            }
            // Where the id can be read the client is told which of its requests it was.
            let id = serde_json::from_slice::<Id>(frame).ok().map(|id| id.id);
            Malformed { id, reason: error.to_string() }
        })
    }

    /// The arguments as a method's own type.
    pub fn arguments<T: Deserialize<'a>>(&self) -> Result<T, CallError> {
        let text = self.params.map_or("{}", RawValue::get);
        serde_json::from_str(text)
            .map_err(|error| CallError::new(ErrorKind::Invalid, format!("{}: params: {error}", self.method)))
    }
}

/// A frame that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a request {{\"id\", \"method\", \"params\"}}: {reason}")]
pub struct Malformed {
    /// The request's id, where it could be read.
    pub id: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

/// Every frame of a server: the first has `hello`, answers have `id`, events have `subscription`. One that has only
/// `error` ends the connection.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ServerMessage {
    /// The answer to a client's hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<ServerGreeting>,
    /// The request that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// What came of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
    /// The subscription that an event belongs to: the id of the request that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<u64>,
    /// What happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<RawValue>>,
    /// How many events were lost before this one, because the client was slow to read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Whether the subscription is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An error on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// The HRESULT, of kind `hcn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<HResult>,
    /// The call that failed, of kind `hcn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What exactly was wrong, of kind `hcn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whatever else a service has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl From<hcn::Error> for WireError {
    fn from(error: hcn::Error) -> Self {
        Self {
            kind: ErrorKind::Hcn,
            message: error.to_string(),
            code: Some(error.code),
            call: error.call.map(Cow::into_owned),
            detail: error.detail,
            data: None,
        }
    }
}

impl From<CallError> for WireError {
    fn from(error: CallError) -> Self {
        let CallError { kind, message, data } = error;
        Self { kind, message, code: None, call: None, detail: None, data }
    }
}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self { kind: error.kind, message: error.message, data: error.data }
    }
}

impl WireError {
    /// The error as an HCN call returns it: the server's own, or what comes nearest.
    pub fn into_hcn(self) -> hcn::Error {
        let code = match self.kind {
            ErrorKind::Hcn => {
                return hcn::Error {
                    code: self.code.unwrap_or(HResult::E_FAIL),
                    call: self.call.map(Cow::Owned),
                    detail: self.detail,
                };
            }
            // Not begun, so a caller may repeat it.
            ErrorKind::Busy | ErrorKind::TooMany => HResult::RPC_CALL_FAILED_DNE,
            ErrorKind::Refused => HResult::ACCESS_DENIED,
            ErrorKind::UnknownMethod => HResult::E_NOTIMPL,
            ErrorKind::Invalid => HResult::INVALID_PARAMETER,
            ErrorKind::NoHns => HResult::SERVICE_DOES_NOT_EXIST,
            ErrorKind::Unreachable => HResult::RPC_SERVER_UNAVAILABLE,
            ErrorKind::TimedOut => HResult::TIMEOUT,
            ErrorKind::Lost
            | ErrorKind::Failed
            | ErrorKind::TooLong
            | ErrorKind::Lagged
            | ErrorKind::Other => HResult::RPC_CALL_FAILED,
        };
        hcn::Error::detailed(code, self.message)
    }
}

/// A [`Kind`] on the wire: the word of the exports' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireKind(pub Kind);

impl Serialize for WireKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.export_word())
    }
}

impl<'de> Deserialize<'de> for WireKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        Kind::ALL.into_iter().find(|kind| kind.export_word() == word).map(Self).ok_or_else(|| {
            let words = Kind::ALL.map(Kind::export_word).join(", ");
            serde::de::Error::custom(format!("there are no objects of kind {word:?}; kinds are {words}"))
        })
    }
}

/// A [`V1Method`] on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireV1Method(pub V1Method);

impl Serialize for WireV1Method {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for WireV1Method {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        V1Method::parse(&word).map(Self).ok_or_else(|| {
            serde::de::Error::custom(format!("v1 has no method {word:?}; methods are GET, POST, DELETE"))
        })
    }
}

/// The arguments of `hcn.enumerate`; the answer is a list of ids.
#[derive(Debug, Serialize, Deserialize)]
pub struct Enumerate<'a> {
    /// Which objects.
    pub kind: WireKind,
    /// The query's JSON text; empty text asks for all.
    #[serde(borrow, default)]
    pub query: Cow<'a, str>,
}

/// The arguments of `hcn.query`; the answer is a document's text.
#[derive(Debug, Serialize, Deserialize)]
pub struct QueryOne<'a> {
    /// Which objects.
    pub kind: WireKind,
    /// Which one.
    pub id: Guid,
    /// The query's JSON text.
    #[serde(borrow, default)]
    pub query: Cow<'a, str>,
}

/// The arguments of `hcn.create`; the answer is the id.
#[derive(Debug, Serialize, Deserialize)]
pub struct Create<'a> {
    /// What is made.
    pub kind: WireKind,
    /// The network an endpoint is made on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Guid>,
    /// The id that is wished for; none is the nil id.
    #[serde(default)]
    pub id: Guid,
    /// The document's text.
    #[serde(borrow)]
    pub settings: Cow<'a, str>,
}

/// The arguments of `hcn.modify`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Modify<'a> {
    /// Which objects.
    pub kind: WireKind,
    /// Which one.
    pub id: Guid,
    /// The document's text.
    #[serde(borrow)]
    pub settings: Cow<'a, str>,
}

/// The arguments of `hcn.delete`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Delete {
    /// Which objects.
    pub kind: WireKind,
    /// Which one.
    pub id: Guid,
}

/// The arguments of `hcn.call_v1`; the answer is the envelope's text.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallV1<'a> {
    /// The method.
    pub method: WireV1Method,
    /// The path.
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    /// The body.
    #[serde(borrow, default)]
    pub body: Cow<'a, str>,
}

/// The arguments of `hcn.unsubscribe`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Unsubscribe {
    /// The id of the request that began it.
    pub subscription: u64,
}

/// The answer to `hcn.version` is a [`Version`] as HNS writes it.
pub type VersionAnswer = Version;

/// An [`hcn::Notification`] as an event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WireNotification {
    /// The API's number of what happened.
    pub kind: u32,
    /// The object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Guid>,
    /// The document's text.
    #[serde(default)]
    pub data: String,
}

impl From<&Notification> for WireNotification {
    fn from(notification: &Notification) -> Self {
        Self { kind: notification.kind as u32, id: notification.id, data: notification.data.clone() }
    }
}

impl WireNotification {
    /// The notification; none where the number is of a later API.
    pub fn read(self) -> Option<Notification> {
        let kind = NotificationKind::from_number(self.kind)?;
        Some(Notification { kind, id: self.id, data: self.data })
    }
}
