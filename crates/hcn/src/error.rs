//! HRESULTs of HNS, their names and messages, and the error record.
//!
//! The one rule that everything above relies on: **an error means that the state is unknown**. Only
//! [`ErrorClass::NotFound`] on a read by id says that an object is absent. Codes: Microsoft's HCN pages and the
//! Windows headers of Go; situations: public reports (docs/fidelity.md).

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What every call of [`crate::Hcn`] returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A 32-bit COM status code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HResult(pub u32);

/// One row of the code table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The HRESULT.
    pub value: HResult,
    /// Its symbolic name.
    pub name: &'static str,
    /// The system's message, without the final full stop and line end.
    pub message: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $constant:ident = $value:literal $name:literal $message:literal;)*) => {
        impl HResult {
            $(#[doc = concat!($name, ": ", $message, ".")] $(#[$doc])* pub const $constant: Self = Self($value);)*
        }

        /// Every code with a name, in numerical order of facility and code.
        pub const CODES: &[Code] = &[$(Code { value: HResult($value), name: $name, message: $message }),*];
    };
}

codes! {
    E_NOTIMPL = 0x8000_4001 "E_NOTIMPL" "Not implemented";
    E_POINTER = 0x8000_4003 "E_POINTER" "Invalid pointer";
    E_FAIL = 0x8000_4005 "E_FAIL" "Unspecified error";
    E_UNEXPECTED = 0x8000_FFFF "E_UNEXPECTED" "Catastrophic failure";
    ACCESS_DENIED = 0x8007_0005 "E_ACCESSDENIED" "Access is denied";
    INVALID_HANDLE = 0x8007_0006 "E_HANDLE" "The handle is invalid";
    OUT_OF_MEMORY = 0x8007_000E "E_OUTOFMEMORY" "Not enough memory resources are available to complete this operation";
    NOT_SUPPORTED = 0x8007_0032 "ERROR_NOT_SUPPORTED" "The request is not supported";
    DUP_NAME = 0x8007_0034 "ERROR_DUP_NAME" "You were not connected because a duplicate name exists on the network. If joining a domain, go to System in Control Panel to change the computer name and try again. If joining a workgroup, choose another workgroup name";
    INVALID_PARAMETER = 0x8007_0057 "E_INVALIDARG" "The parameter is incorrect";
    MODULE_NOT_FOUND = 0x8007_007E "ERROR_MOD_NOT_FOUND" "The specified module could not be found";
    PROC_NOT_FOUND = 0x8007_007F "ERROR_PROC_NOT_FOUND" "The specified procedure could not be found";
    ALREADY_EXISTS = 0x8007_00B7 "ERROR_ALREADY_EXISTS" "Cannot create a file when that file already exists";
    SERVICE_DOES_NOT_EXIST = 0x8007_0424 "ERROR_SERVICE_DOES_NOT_EXIST" "The specified service does not exist as an installed service";
    SERVICE_NOT_FOUND = 0x8007_04DB "ERROR_SERVICE_NOT_FOUND" "The specified service does not exist";
    SERVICE_NOT_ACTIVE = 0x8007_0426 "ERROR_SERVICE_NOT_ACTIVE" "The service has not been started";
    ELEMENT_NOT_FOUND = 0x8007_0490 "ERROR_NOT_FOUND" "Element not found";
    TIMEOUT = 0x8007_05B4 "ERROR_TIMEOUT" "This operation returned because the timeout period expired";
    RPC_SERVER_UNAVAILABLE = 0x8007_06BA "RPC_S_SERVER_UNAVAILABLE" "The RPC server is unavailable";
    RPC_CALL_FAILED = 0x8007_06BE "RPC_S_CALL_FAILED" "The remote procedure call failed";
    RPC_CALL_FAILED_DNE = 0x8007_06BF "RPC_S_CALL_FAILED_DNE" "The remote procedure call failed and did not execute";
    EPT_NOT_REGISTERED = 0x8007_06D9 "EPT_S_NOT_REGISTERED" "There are no more endpoints available from the endpoint mapper";
    OBJECT_ALREADY_EXISTS = 0x8007_1392 "ERROR_OBJECT_ALREADY_EXISTS" "The object already exists";

    NETWORK_NOT_FOUND = 0x803B_0001 "HCN_E_NETWORK_NOT_FOUND" "The network was not found";
    ENDPOINT_NOT_FOUND = 0x803B_0002 "HCN_E_ENDPOINT_NOT_FOUND" "The endpoint was not found";
    LAYER_NOT_FOUND = 0x803B_0003 "HCN_E_LAYER_NOT_FOUND" "The network's underlying layer was not found";
    SWITCH_NOT_FOUND = 0x803B_0004 "HCN_E_SWITCH_NOT_FOUND" "The virtual switch was not found";
    SUBNET_NOT_FOUND = 0x803B_0005 "HCN_E_SUBNET_NOT_FOUND" "The network does not have a subnet for this endpoint";
    ADAPTER_NOT_FOUND = 0x803B_0006 "HCN_E_ADAPTER_NOT_FOUND" "An adapter was not found";
    PORT_NOT_FOUND = 0x803B_0007 "HCN_E_PORT_NOT_FOUND" "The switch-port was not found";
    POLICY_NOT_FOUND = 0x803B_0008 "HCN_E_POLICY_NOT_FOUND" "An expected policy was not found";
    VFP_PORTSETTING_NOT_FOUND = 0x803B_0009 "HCN_E_VFP_PORTSETTING_NOT_FOUND" "A required VFP port setting was not found";
    INVALID_NETWORK = 0x803B_000A "HCN_E_INVALID_NETWORK" "The provided network configuration is invalid or missing parameters";
    INVALID_NETWORK_TYPE = 0x803B_000B "HCN_E_INVALID_NETWORK_TYPE" "Invalid network type";
    INVALID_ENDPOINT = 0x803B_000C "HCN_E_INVALID_ENDPOINT" "The provided endpoint configuration is invalid or missing parameters";
    INVALID_POLICY = 0x803B_000D "HCN_E_INVALID_POLICY" "The provided policy configuration is invalid or missing parameters";
    INVALID_POLICY_TYPE = 0x803B_000E "HCN_E_INVALID_POLICY_TYPE" "Invalid policy type";
    INVALID_REMOTE_ENDPOINT_OPERATION = 0x803B_000F "HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION" "This requested operation is invalid for a remote endpoint";
    NETWORK_ALREADY_EXISTS = 0x803B_0010 "HCN_E_NETWORK_ALREADY_EXISTS" "A network with this name already exists";
    LAYER_ALREADY_EXISTS = 0x803B_0011 "HCN_E_LAYER_ALREADY_EXISTS" "A network with this name already exists";
    POLICY_ALREADY_EXISTS = 0x803B_0012 "HCN_E_POLICY_ALREADY_EXISTS" "Policy information already exists on this object";
    PORT_ALREADY_EXISTS = 0x803B_0013 "HCN_E_PORT_ALREADY_EXISTS" "The specified port already exists";
    ENDPOINT_ALREADY_ATTACHED = 0x803B_0014 "HCN_E_ENDPOINT_ALREADY_ATTACHED" "This endpoint is already attached to the switch";
    REQUEST_UNSUPPORTED = 0x803B_0015 "HCN_E_REQUEST_UNSUPPORTED" "The specified request is unsupported";
    MAPPING_NOT_SUPPORTED = 0x803B_0016 "HCN_E_MAPPING_NOT_SUPPORTED" "Port mapping is not supported on the given network";
    DEGRADED_OPERATION = 0x803B_0017 "HCN_E_DEGRADED_OPERATION" "There was an operation attempted on a degraded object";
    SHARED_SWITCH_MODIFICATION = 0x803B_0018 "HCN_E_SHARED_SWITCH_MODIFICATION" "Cannot modify a switch shared by multiple networks";
    GUID_CONVERSION_FAILURE = 0x803B_0019 "HCN_E_GUID_CONVERSION_FAILURE" "Failed to interpret a parameter as a GUID";
    REGKEY_FAILURE = 0x803B_001A "HCN_E_REGKEY_FAILURE" "Failed to process registry key";
    INVALID_JSON = 0x803B_001B "HCN_E_INVALID_JSON" "Invalid JSON document string";
    INVALID_JSON_REFERENCE = 0x803B_001C "HCN_E_INVALID_JSON_REFERENCE" "The reference is invalid in the JSON document";
    ENDPOINT_SHARING_DISABLED = 0x803B_001D "HCN_E_ENDPOINT_SHARING_DISABLED" "Endpoint sharing is disabled";
    INVALID_IP = 0x803B_001E "HCN_E_INVALID_IP" "IP address is either invalid or not part of any configured subnet(s)";
    SWITCH_EXTENSION_NOT_FOUND = 0x803B_001F "HCN_E_SWITCH_EXTENSION_NOT_FOUND" "The specified switch extension does not exist on this switch";
    MANAGER_STOPPED = 0x803B_0020 "HCN_E_MANAGER_STOPPED" "Operation cannot be performed while service is stopping";
    GCN_MODULE_NOT_FOUND = 0x803B_0021 "GCN_E_MODULE_NOT_FOUND" "Operation cannot be performed while service module not found";
    GCN_NO_REQUEST_HANDLERS = 0x803B_0022 "GCN_E_NO_REQUEST_HANDLERS" "Request Handlers not present to handle the JSON request";
    GCN_REQUEST_UNSUPPORTED = 0x803B_0023 "GCN_E_REQUEST_UNSUPPORTED" "The specified request is unsupported";
    GCN_RUNTIMEKEYS_FAILED = 0x803B_0024 "GCN_E_RUNTIMEKEYS_FAILED" "Add runtime keys to container failed";
    GCN_NETADAPTER_TIMEOUT = 0x803B_0025 "GCN_E_NETADAPTER_TIMEOUT" "Timeout while waiting for network adapter with the given instance id";
    GCN_NETADAPTER_NOT_FOUND = 0x803B_0026 "GCN_E_NETADAPTER_NOT_FOUND" "Network adapter not found for the given instance id";
    GCN_NETCOMPARTMENT_NOT_FOUND = 0x803B_0027 "GCN_E_NETCOMPARTMENT_NOT_FOUND" "Network compartment not found for the given id";
    GCN_NETINTERFACE_NOT_FOUND = 0x803B_0028 "GCN_E_NETINTERFACE_NOT_FOUND" "Network interface not found for the given id";
    GCN_DEFAULTNAMESPACE_EXISTS = 0x803B_0029 "GCN_E_DEFAULTNAMESPACE_EXISTS" "Default Namespace already exists";
    ICS_DISABLED = 0x803B_002A "HCN_E_ICS_DISABLED" "Internet Connection Sharing service (SharedAccess) is disabled and cannot be started";
    ENDPOINT_NAMESPACE_ALREADY_EXISTS = 0x803B_002B "HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS" "This requested operation is invalid as endpoint is already part of a network namespace";
    ENTITY_HAS_REFERENCES = 0x803B_002C "HCN_E_ENTITY_HAS_REFERENCES" "The specified entity cannot be removed while it still has references";
    INVALID_INTERNAL_PORT = 0x803B_002D "HCN_E_INVALID_INTERNAL_PORT" "The internal port must exist and cannot be zero";
    NAMESPACE_ATTACH_FAILED = 0x803B_002E "HCN_E_NAMESPACE_ATTACH_FAILED" "The requested operation for attach namespace failed";
    ADDR_INVALID_OR_RESERVED = 0x803B_002F "HCN_E_ADDR_INVALID_OR_RESERVED" "An address provided is invalid or reserved";
    INVALID_PREFIX = 0x803B_0030 "HCN_E_INVALID_PREFIX" "The prefix provided is invalid";
    OBJECT_USED_AFTER_UNLOAD = 0x803B_0031 "HCN_E_OBJECT_USED_AFTER_UNLOAD" "A call was performed against an object that was torn down";
    INVALID_SUBNET = 0x803B_0032 "HCN_E_INVALID_SUBNET" "The provided subnet configuration is invalid or missing parameters";
    INVALID_IP_SUBNET = 0x803B_0033 "HCN_E_INVALID_IP_SUBNET" "The provided IP subnet configuration is invalid or missing parameters";
    ENDPOINT_NOT_ATTACHED = 0x803B_0034 "HCN_E_ENDPOINT_NOT_ATTACHED" "The endpoint must be attached to complete the operation";
    ENDPOINT_NOT_LOCAL = 0x803B_0035 "HCN_E_ENDPOINT_NOT_LOCAL" "The endpoint must be local to complete the operation";
    INTERFACEPARAMETERS_ALREADY_APPLIED = 0x803B_0036 "HCN_INTERFACEPARAMETERS_ALREADY_APPLIED" "Cannot apply more than one InterfaceParameters policy";
    VFP_NOT_ALLOWED = 0x803B_0037 "HCN_E_VFP_NOT_ALLOWED" "A network of this type can not be created because VFP is not available";
}

impl HResult {
    /// Failure is a set sign bit; `S_FALSE` and other positive values are successes.
    pub const fn is_failure(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }

    /// The HRESULT of a Win32 error (facility 7).
    pub const fn from_win32(code: u16) -> Self {
        Self(0x8007_0000 | code as u32)
    }

    /// The number hcsshim shows: the low word for facility WIN32, else the whole code.
    pub const fn errno(self) -> u32 {
        if self.0 & 0x1FFF_0000 == 0x0007_0000 { self.0 & 0xFFFF } else { self.0 }
    }

    /// The row of the code table, if the code has one.
    pub fn code(self) -> Option<&'static Code> {
        CODES.iter().find(|code| code.value == self)
    }

    /// The symbolic name, or the hexadecimal value.
    pub fn name(self) -> Cow<'static, str> {
        self.code().map_or_else(|| format!("{self}").into(), |code| code.name.into())
    }

    /// The system's message.
    pub fn message(self) -> &'static str {
        self.code().map_or("Unknown error", |code| code.message)
    }

    /// What kind of failure this is, for deciding what to do next.
    pub fn class(self) -> ErrorClass {
        match self {
            Self::ELEMENT_NOT_FOUND | Self::NETWORK_NOT_FOUND | Self::ENDPOINT_NOT_FOUND => {
                ErrorClass::NotFound
            }
            Self::ALREADY_EXISTS
            | Self::OBJECT_ALREADY_EXISTS
            | Self::NETWORK_ALREADY_EXISTS
            | Self::POLICY_ALREADY_EXISTS
            | Self::DUP_NAME => ErrorClass::AlreadyExists,
            Self::PORT_ALREADY_EXISTS => ErrorClass::PortTaken,
            Self::E_NOTIMPL | Self::REQUEST_UNSUPPORTED | Self::GCN_REQUEST_UNSUPPORTED => {
                ErrorClass::Unsupported
            }
            Self::RPC_CALL_FAILED
            | Self::RPC_CALL_FAILED_DNE
            | Self::RPC_SERVER_UNAVAILABLE
            | Self::EPT_NOT_REGISTERED
            | Self::SERVICE_NOT_FOUND
            | Self::SERVICE_DOES_NOT_EXIST
            | Self::SERVICE_NOT_ACTIVE
            | Self::NOT_SUPPORTED
            | Self::MANAGER_STOPPED
            | Self::MODULE_NOT_FOUND
            | Self::TIMEOUT => ErrorClass::Unavailable,
            Self::INVALID_PARAMETER
            | Self::INVALID_JSON
            | Self::INVALID_JSON_REFERENCE
            | Self::INVALID_NETWORK
            | Self::INVALID_NETWORK_TYPE
            | Self::INVALID_ENDPOINT
            | Self::INVALID_POLICY
            | Self::INVALID_POLICY_TYPE
            | Self::INVALID_IP
            | Self::INVALID_PREFIX
            | Self::INVALID_SUBNET
            | Self::INVALID_IP_SUBNET
            | Self::INVALID_INTERNAL_PORT
            | Self::ADDR_INVALID_OR_RESERVED
            | Self::SUBNET_NOT_FOUND => ErrorClass::Invalid,
            _ => ErrorClass::Other,
        }
    }
}

impl fmt::Display for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08X}", self.0)
    }
}

impl fmt::Debug for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {}", self.code().map_or("", |code| code.name))
    }
}

/// What a caller may conclude from an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The object that was named does not exist. The only class that says something about what exists.
    NotFound,
    /// An object with this id, name or frontend is there already.
    AlreadyExists,
    /// The port is taken by another load balancer, a port mapping, a listener or a leaked reservation.
    PortTaken,
    /// This build does not have the function.
    Unsupported,
    /// The service is down, starting or stopping; nothing is known, the call may be repeated.
    Unavailable,
    /// The request is wrong; repeating it unchanged will fail again.
    Invalid,
    /// Anything else; nothing is known.
    Other,
}

/// The JSON that HNS hands out beside a failing HRESULT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// Always false.
    #[serde(rename = "Success")]
    pub success: bool,
    /// The system's message and a trailing space (the line end that `FormatMessage` leaves).
    #[serde(rename = "Error", default)]
    pub error: String,
    /// The HRESULT as an unsigned number.
    #[serde(rename = "ErrorCode", default)]
    pub error_code: u32,
}

impl ErrorRecord {
    /// The record of a code, as observed: message, full stop, trailing space.
    pub fn of(code: HResult) -> Self {
        Self { success: false, error: format!("{}. ", code.message()), error_code: code.0 }
    }

    /// The record as JSON, keys in the order HNS writes them.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A failed HCN call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The HRESULT.
    pub code: HResult,
    /// The call that failed, named after the export ("HcnCreateLoadBalancer"), when known.
    pub call: Option<Cow<'static, str>>,
    /// What exactly was wrong, when the implementation can tell (a real HNS cannot).
    pub detail: Option<String>,
}

impl Error {
    /// An error with a code only.
    pub const fn new(code: HResult) -> Self {
        Self { code, call: None, detail: None }
    }

    /// An error that says what exactly was wrong.
    pub fn detailed(code: HResult, detail: impl Into<String>) -> Self {
        Self { code, call: None, detail: Some(detail.into()) }
    }

    /// Names the call, unless it is named already.
    #[must_use]
    pub fn in_call(mut self, call: impl Into<Cow<'static, str>>) -> Self {
        self.call.get_or_insert_with(|| call.into());
        self
    }

    /// See [`HResult::class`].
    pub fn class(&self) -> ErrorClass {
        self.code.class()
    }

    /// The object that was named does not exist.
    pub fn is_not_found(&self) -> bool {
        self.class() == ErrorClass::NotFound
    }

    /// The error record HNS would hand out.
    pub fn record(&self) -> ErrorRecord {
        ErrorRecord::of(self.code)
    }
}

impl From<HResult> for Error {
    fn from(code: HResult) -> Self {
        Self::new(code)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::detailed(HResult::INVALID_JSON, error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(call) = &self.call {
            write!(f, "{call}: ")?;
        }
        write!(f, "{} ({} {})", self.code.message(), self.code, self.code.name())?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
