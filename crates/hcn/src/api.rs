//! The trait [`Hcn`]: the Host Compute Network API of one Windows node, real or emulated.
//!
//! # Contract
//!
//! * **Blocking.** A call returns when HNS has answered. A real HNS may take seconds or never answer: callers that
//!   must stay responsive call from a thread of their own.
//! * **An error means that nothing is known.** The call may have had its effect, part of it or none. Only class
//!   [`ErrorClass::NotFound`] from a read by id says that the object is absent. An
//!   error of [`Hcn::enumerate`] never means "none".
//! * **Atomic** is one object: a create, modify or delete is seen whole or not at all by later calls, unless it
//!   returned an error. Nothing is atomic across objects: what was enumerated may be gone when it is queried.
//! * **Order.** Calls of one thread take effect in order. An object that refers to others (load balancer → endpoints,
//!   endpoint → network) must be created after and deleted before them.
//! * **Ids.** A create is given an id; the nil id lets HNS choose (it honours an `ID` in the settings). Builds may
//!   disregard a caller's id, so the id that counts is the one returned, and a client that must be sure queries.
//! * **Documents** are JSON text in v1 or v2 form. Unknown members survive in what is read back.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorClass, HResult, Result};
use crate::guid::Guid;
use crate::query::Query;
use crate::version::Version;

/// The five kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `HostComputeNetwork`.
    Network,
    /// `HostComputeEndpoint`.
    Endpoint,
    /// `HostComputeNamespace`.
    Namespace,
    /// `HostComputeLoadBalancer`.
    LoadBalancer,
    /// `HostComputeRoute`.
    SdnRoute,
}

impl Kind {
    /// All kinds, in the order in which objects may be created.
    pub const ALL: [Self; 5] =
        [Self::Network, Self::Endpoint, Self::Namespace, Self::LoadBalancer, Self::SdnRoute];

    /// The word in the exports' names ("HcnCreate*LoadBalancer*").
    pub const fn export_word(self) -> &'static str {
        match self {
            Self::Network => "Network",
            Self::Endpoint => "Endpoint",
            Self::Namespace => "Namespace",
            Self::LoadBalancer => "LoadBalancer",
            Self::SdnRoute => "SdnRoute",
        }
    }

    /// The error of opening an unknown id. Networks and endpoints have codes of their own; the namespace's is seen
    /// in hcsshim's tests; the last two are by analogy with it.
    pub const fn not_found(self) -> HResult {
        match self {
            Self::Network => HResult::NETWORK_NOT_FOUND,
            Self::Endpoint => HResult::ENDPOINT_NOT_FOUND,
            Self::Namespace | Self::LoadBalancer | Self::SdnRoute => HResult::ELEMENT_NOT_FOUND,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::Endpoint => "endpoint",
            Self::Namespace => "namespace",
            Self::LoadBalancer => "load balancer",
            Self::SdnRoute => "SDN route",
        })
    }
}

/// The method of a v1 call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum V1Method {
    /// Read.
    Get,
    /// Create or act.
    Post,
    /// Delete.
    Delete,
}

impl V1Method {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    /// The method with this name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Get, Self::Post, Self::Delete]
            .into_iter()
            .find(|method| text.eq_ignore_ascii_case(method.as_str()))
    }
}

/// What a notification is about; the numbers are the API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum NotificationKind {
    /// Before a network is created.
    NetworkPreCreate = 0x0000_0001,
    /// A network was created.
    NetworkCreate = 0x0000_0002,
    /// Before a network is deleted.
    NetworkPreDelete = 0x0000_0003,
    /// A network was deleted.
    NetworkDelete = 0x0000_0004,
    /// A namespace was created.
    NamespaceCreate = 0x0000_0005,
    /// A namespace was deleted.
    NamespaceDelete = 0x0000_0006,
    /// A guest network service was created.
    GuestNetworkServiceCreate = 0x0000_0007,
    /// A guest network service was deleted.
    GuestNetworkServiceDelete = 0x0000_0008,
    /// An endpoint was attached.
    NetworkEndpointAttached = 0x0000_0009,
    /// An endpoint was detached (hexadecimal 10, not A).
    NetworkEndpointDetached = 0x0000_0010,
    /// A guest network service changed state.
    GuestNetworkServiceStateChanged = 0x0000_0011,
    /// A guest network service's interface changed state.
    GuestNetworkServiceInterfaceStateChanged = 0x0000_0012,
    /// HNS went away; every subscription is void.
    ServiceDisconnect = 0x0100_0000,
}

impl NotificationKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::NetworkPreCreate,
        Self::NetworkCreate,
        Self::NetworkPreDelete,
        Self::NetworkDelete,
        Self::NamespaceCreate,
        Self::NamespaceDelete,
        Self::GuestNetworkServiceCreate,
        Self::GuestNetworkServiceDelete,
        Self::NetworkEndpointAttached,
        Self::NetworkEndpointDetached,
        Self::GuestNetworkServiceStateChanged,
        Self::GuestNetworkServiceInterfaceStateChanged,
        Self::ServiceDisconnect,
    ];

    /// The kind with this number; none where the number is of a later API.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == number)
    }
}

/// Something happened in HNS. There is none for load balancers and endpoints' creation: those are found by reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What.
    pub kind: NotificationKind,
    /// The object, when there is one.
    pub id: Option<Guid>,
    /// The JSON document handed to callbacks.
    pub data: String,
}

/// Receives notifications, on a thread of the implementation's choosing; it must not call back into HNS.
pub type NotificationSink = Arc<dyn Fn(&Notification) + Send + Sync>;

/// Names a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId(pub u64);

/// The Host Compute Network API. See the [module](self) for the contract.
pub trait Hcn: Send + Sync {
    /// The ids of the objects that match, in no particular order; none is no error.
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>>;

    /// The properties of one object as JSON, in the query's schema. A filter in the query is disregarded.
    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String>;

    /// Creates an object and returns its id. `network` is the network an endpoint is made on; other kinds ignore it.
    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid>;

    /// Changes an object: a modify request for networks, endpoints and namespaces, the whole document for load
    /// balancers.
    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()>;

    /// Deletes an object; an unknown id is an error.
    fn delete(&self, kind: Kind, id: Guid) -> Result<()>;

    /// The v1 call `HNSCall`: the response envelope `{"Success", "Error", "Output"}` as JSON. A refused request
    /// may come back as `Success: false` or as an error: both are seen in the wild.
    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String>;

    /// The version of HNS.
    fn version(&self) -> Result<Version>;

    /// Starts notifications.
    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId>;

    /// Ends notifications; an unknown subscription is no error.
    fn unsubscribe(&self, subscription: SubscriptionId);
}

/// A document type of one kind.
pub trait Object: Sized {
    /// The kind.
    const KIND: Kind;

    /// Reads a v2 document.
    fn from_json(text: &str) -> Result<Self>;

    /// Writes a v2 document.
    fn json(&self) -> String;

    /// The id in the document.
    fn id(&self) -> Option<Guid>;
}

macro_rules! object {
    ($($type:ty => $kind:ident),*) => { $(impl Object for $type {
        const KIND: Kind = Kind::$kind;

        fn from_json(text: &str) -> Result<Self> {
            Ok(Self::parse(text)?)
        }

        fn json(&self) -> String {
            self.to_json()
        }

        fn id(&self) -> Option<Guid> {
            self.id
        }
    })* };
}

object!(
    crate::Network => Network,
    crate::Endpoint => Endpoint,
    crate::Namespace => Namespace,
    crate::LoadBalancer => LoadBalancer,
    crate::SdnRoute => SdnRoute
);

/// Typed helpers over any [`Hcn`].
pub trait HcnExt: Hcn {
    /// One object, in v2 form.
    fn get<T: Object>(&self, id: Guid) -> Result<T> {
        T::from_json(&self.query(T::KIND, id, &Query::all())?)
    }

    /// The objects that match, in v2 form. One that vanishes between enumeration and query is left out; any other
    /// failure fails the list, because a list with holes would read as absence.
    fn list<T: Object>(&self, query: &Query) -> Result<Vec<(Guid, T)>> {
        let mut objects = Vec::new();
        for id in self.enumerate(T::KIND, query)? {
            match self.query(T::KIND, id, query) {
                Ok(text) => objects.push((id, T::from_json(&text)?)),
                Err(error) if error.class() == ErrorClass::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(objects)
    }

    /// Creates an object that is not an endpoint.
    fn make<T: Object>(&self, id: Guid, document: &T) -> Result<Guid> {
        self.create(T::KIND, None, id, &document.json())
    }

    /// Creates an endpoint on a network.
    fn make_endpoint(&self, network: Guid, id: Guid, endpoint: &crate::Endpoint) -> Result<Guid> {
        self.create(Kind::Endpoint, Some(network), id, &endpoint.to_json())
    }

    /// The `Output` of a v1 call that must succeed; `null` when there is none.
    fn output_v1(&self, method: V1Method, path: &str, body: &str) -> Result<crate::json::RawJson> {
        let text = self.call_v1(method, path, body)?;
        let response = V1Response::parse(&text)?;
        if response.success {
            return Ok(response.output.unwrap_or_else(|| crate::json::RawJson::of(&())));
        }
        let code = response
            .error_code
            .filter(|&code| HResult(code).is_failure())
            .map_or_else(|| code_of_message(&response.error), HResult);
        Err(Error::detailed(code, response.error.trim().to_owned()))
    }
}

impl<H: Hcn + ?Sized> HcnExt for H {}

crate::document! {
    /// The envelope of a v1 response.
    pub struct V1Response {
        /// Whether the request was carried out.
        success: bool = "Success",
        /// What was wrong.
        error: String = "Error",
        /// The HRESULT, where the build gives it.
        error_code: Option<u32> = "ErrorCode",
        /// The answer.
        output: Option<crate::json::RawJson> = "Output",
    }
}

/// The code whose message a v1 error text is, else `E_FAIL`.
fn code_of_message(text: &str) -> HResult {
    let text = text.trim().trim_end_matches('.');
    crate::error::CODES
        .iter()
        .find(|code| code.message.trim_end_matches('.').eq_ignore_ascii_case(text))
        .map_or(HResult::E_FAIL, |code| code.value)
}
