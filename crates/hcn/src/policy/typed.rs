//! The macro that lists the policies of one kind of object, and how settings are found in an envelope.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::error::HResult;
use crate::json::{Extra, Members, NameOrNumber, RawJson};
use crate::policy::Policy;

/// A policy whose settings cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object} policy {kind}: {reason}")]
pub struct PolicyError {
    /// "endpoint", "network" or "subnet".
    pub object: &'static str,
    /// The policy's type as it came.
    pub kind: String,
    /// The field and what is wrong with it.
    pub reason: String,
}

impl From<PolicyError> for crate::Error {
    fn from(error: PolicyError) -> Self {
        Self::detailed(HResult::INVALID_POLICY, error.to_string())
    }
}

/// One row of a table of policy types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeName {
    /// The name.
    pub name: &'static str,
    /// The number, by the order of Microsoft's schema; `None` where the schema does not list the type.
    pub number: Option<u32>,
}

impl TypeName {
    /// Whether a policy's type is this one.
    pub(super) fn matches(&self, policy: &Policy) -> bool {
        match &policy.kind.0 {
            NameOrNumber::Name(name) => name.eq_ignore_ascii_case(self.name),
            NameOrNumber::Number(number) => self.number == Some(*number),
        }
    }
}

/// The settings as one object: `Settings`, else `Data` (Microsoft's sample page), else what stands beside `Type`
/// (the same page, and v1), else nothing.
pub(super) fn settings(policy: &Policy) -> Cow<'_, str> {
    let given = |raw: &&RawJson| raw.get() != "null";
    if let Some(settings) = policy.settings.as_ref().or_else(|| policy.extra.get("Data")).filter(given) {
        return settings.get().into();
    }
    crate::json::object(&policy.extra).get().to_owned().into()
}

/// Reads an envelope's settings as `T`. A bare string counts as the member `string_member`, where there is one.
pub(super) fn read<T: DeserializeOwned>(
    object: &'static str,
    policy: &Policy,
    string_member: Option<&str>,
) -> Result<T, PolicyError> {
    let mut text = settings(policy);
    if let Some(member) = string_member
        && text.starts_with('"')
        && let Ok(value) = RawJson::parse(&text)
    {
        text = crate::json::object(&Extra(vec![(member.to_owned(), value)])).get().to_owned().into();
    }
    serde_json::from_str(&text).map_err(|error| PolicyError {
        object,
        kind: policy.kind.text().into_owned(),
        reason: match serde_json::from_str::<Members<'_>>(&text) {
            Ok(_) => crate::json::strip_position(&error),
            Err(_) => "Settings must be a JSON object".to_owned(),
        },
    })
}

/// Defines the policies of one kind of object. `# n` gives the type's number, `bare` leaves empty settings out,
/// `string "M"` reads settings that are a bare string as member `M`.
macro_rules! policies {
    ($(#[$meta:meta])* pub enum $name:ident of $object:literal {
        $($(#[$vmeta:meta])* $variant:ident($settings:ty) = $type:literal $(# $number:literal)?
            $(, bare $bare:literal)? $(, string $string:literal)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$vmeta])* $variant($settings),)*
            /// A type this crate does not know, as it came.
            Unknown(Policy),
        }

        impl $name {
            /// The known types.
            pub const TYPES: &'static [TypeName] =
                &[$(TypeName { name: $type, number: policies!(@first $(Some($number),)? None) }),*];

            /// Reads an envelope. A type that is not known is no error; settings of a known type that cannot be
            /// read are.
            pub fn decode(policy: &Policy) -> Result<Self, PolicyError> {
                $(if (TypeName { name: $type, number: policies!(@first $(Some($number),)? None) }).matches(policy) {
                    return read($object, policy, policies!(@first $(Some($string),)? None)).map(Self::$variant);
                })*
                Ok(Self::Unknown(policy.clone()))
            }

            /// The name of the type, as HNS spells it; as it came for an unknown one.
            pub fn type_name(&self) -> std::borrow::Cow<'_, str> {
                match self {
                    $(Self::$variant(_) => $type.into(),)*
                    Self::Unknown(policy) => policy.kind.text(),
                }
            }
        }

        impl From<$name> for Policy {
            fn from(policy: $name) -> Self {
                match policy {
                    $($name::$variant(settings) => {
                        let bare = policies!(@first $($bare,)? false) && settings == <$settings>::default();
                        Policy { settings: (!bare).then(|| RawJson::of(&settings)), ..Policy::new($type, &()) }
                    })*
                    $name::Unknown(policy) => policy,
                }
            }
        }
    };
    (@first $first:expr $(, $rest:expr)*) => { $first };
}
pub(super) use policies;
