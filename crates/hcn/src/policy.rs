//! Policies: the envelope every object carries them in.
//!
//! The envelope is kept as it came (`Settings` byte for byte), because clients compare what they read back with
//! what they sent. The typed forms live in [`endpoint`], [`network`] and [`subnet`]; reading a policy that is not
//! known there is no error. [`acl`] reads the comma lists of ACLs.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::document;
use crate::json::{NameOrNumber, RawJson};

pub mod acl;
mod common;
pub mod endpoint;
pub mod network;
pub mod subnet;
mod typed;

pub use common::{ActionType, DirectionType, NatFlags, RuleType};
pub use endpoint::EndpointPolicy;
pub use network::NetworkPolicy;
pub use subnet::SubnetPolicy;
pub use typed::{PolicyError, TypeName};

/// A policy's `Type`: a name in any case, or a number whose meaning depends on the object it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyType(pub NameOrNumber);

impl PolicyType {
    /// A type by name.
    pub fn named(name: &str) -> Self {
        Self(NameOrNumber::Name(name.to_owned()))
    }

    /// The name, or the number as text.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            NameOrNumber::Name(name) => name.as_str().into(),
            NameOrNumber::Number(number) => number.to_string().into(),
        }
    }

    /// Whether the type has this name, without regard to case (some clients write `SDNROUTE`).
    pub fn is(&self, name: &str) -> bool {
        matches!(&self.0, NameOrNumber::Name(own) if own.eq_ignore_ascii_case(name))
    }
}

impl Default for PolicyType {
    fn default() -> Self {
        Self::named("")
    }
}

impl crate::json::Blank for PolicyType {
    /// Always written, even when empty: hcsshim does so.
    fn is_blank(&self) -> bool {
        false
    }
}

impl Serialize for PolicyType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            NameOrNumber::Name(name) => serializer.serialize_str(name),
            NameOrNumber::Number(number) => serializer.serialize_u32(*number),
        }
    }
}

impl<'de> Deserialize<'de> for PolicyType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NameOrNumber::deserialize(deserializer).map(Self)
    }
}

document! {
    /// A policy as it stands on an object: v2 `{"Type", "Settings"}`; a v1 policy is flat and has its fields in
    /// `extra`.
    pub struct Policy {
        /// What kind of policy.
        kind: PolicyType = "Type",
        /// The settings as they came.
        settings: Option<RawJson> = "Settings",
    }
}

impl Policy {
    /// A policy from a type name and settings.
    pub fn new<T: Serialize + ?Sized>(kind: &str, settings: &T) -> Self {
        Self {
            kind: PolicyType::named(kind),
            settings: Some(RawJson::of(settings)),
            extra: crate::json::Extra::default(),
        }
    }

    /// Reads the settings as `T`; absent settings read as `{}`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        match &self.settings {
            Some(settings) => settings.read(),
            None => serde_json::from_str("{}"),
        }
    }
}

document! {
    /// `{"Policies": […]}`: the settings of a policy request.
    pub struct PolicyList {
        /// The policies.
        policies: Vec<Policy> = "Policies",
    }
}
