//! How HCN documents are read and written.
//!
//! HNS clients disagree about spelling: keys come in any case, enumerations as names or numbers, and every build
//! adds members that others do not know. So a document keeps what it does not know, byte for byte and in order
//! ([`Extra`]), and reads keys without regard to case. The [`document!`], [`enumeration!`] and [`flags!`] macros
//! write this code once; the types themselves live in the modules that use them.
//!
//! Documents are read from text (`serde_json::from_str`): members are borrowed as raw JSON, which no other
//! deserializer offers.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Any JSON, kept byte for byte.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The JSON of a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        // The types given here have string keys and no failing serializer; `null` keeps a document valid if one
        // ever had.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// JSON text, checked.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Reads the text as `T`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

impl From<&RawValue> for RawJson {
    fn from(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// Members of a document that this crate has no field for: kept in order and byte for byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra(pub Vec<(String, RawJson)>);

impl Extra {
    /// The member `name`, without regard to case.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Reads the member `name` as `T`; `None` when it is absent, `null` or of another type.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.get(name).and_then(|raw| serde_json::from_str::<Option<T>>(raw.get()).ok().flatten())
    }

    /// Sets (or replaces) the member `name`.
    pub fn set(&mut self, name: &str, value: RawJson) {
        match self.0.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case(name)) {
            Some(entry) => entry.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes the member `name` out.
    pub fn remove(&mut self, name: &str) -> Option<RawJson> {
        let at = self.0.iter().position(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(self.0.remove(at).1)
    }

    /// Whether there is nothing unknown.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A member's key, borrowed where the text has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of one JSON object, borrowed from the text.
pub struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Reads one member; the error names the document and the field.
pub fn member<'a, T: Deserialize<'a>, E: serde::de::Error>(
    document: &str,
    field: &str,
    raw: &'a RawValue,
) -> Result<T, E> {
    serde_json::from_str(raw.get())
        .map_err(|error| E::custom(format_args!("{document}.{field}: {}", strip_position(&error))))
}

/// `serde_json` appends "at line 1 column n", which counts from the member and misleads in a nested document.
fn strip_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Says whether a field is left out when the document is written.
pub trait Blank {
    /// True for the value that HNS and its clients leave out.
    fn is_blank(&self) -> bool;
}

impl<T> Blank for Option<T> {
    fn is_blank(&self) -> bool {
        self.is_none()
    }
}

impl<T> Blank for Vec<T> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl Blank for String {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl Blank for bool {
    fn is_blank(&self) -> bool {
        !self
    }
}

macro_rules! blank_number {
    ($($number:ty),*) => { $(impl Blank for $number {
        fn is_blank(&self) -> bool { *self == 0 }
    })* };
}
blank_number!(u8, u16, u32, u64, i32);

/// Writes the unknown members after the known ones.
pub fn write_extra<M: SerializeMap>(map: &mut M, extra: &Extra) -> Result<(), M::Error> {
    for (key, value) in &extra.0 {
        map.serialize_entry(key, value)?;
    }
    Ok(())
}

/// Defines a document: a struct whose members are read without regard to case, whose blank fields are not
/// written, and whose unknown members are kept in `extra`.
#[macro_export]
macro_rules! document {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$fmeta:meta])* $field:ident : $ty:ty = $key:literal $(| $alias:literal)*),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Members this crate does not know, in order and byte for byte.
            pub extra: $crate::json::Extra,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $(if !$crate::json::Blank::is_blank(&self.$field) {
                    map.serialize_entry($key, &self.$field)?;
                })*
                $crate::json::write_extra(&mut map, &self.extra)?;
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let members = <$crate::json::Members<'de> as serde::Deserialize>::deserialize(deserializer)?;
                let mut document = Self::default();
                for (key, raw) in members.0 {
                    match &*key {
                        $(name if name.eq_ignore_ascii_case($key) $(|| name.eq_ignore_ascii_case($alias))* => {
                            document.$field = $crate::json::member::<Option<$ty>, D::Error>(
                                stringify!($name), $key, raw)?.unwrap_or_default();
                        })*
                        _ => document.extra.0.push((key.into_owned(), $crate::json::RawJson::from(raw))),
                    }
                }
                Ok(document)
            }
        }

        impl $name {
            /// Reads the document from JSON text; the error names the field.
            pub fn parse(text: &str) -> std::result::Result<Self, serde_json::Error> {
                serde_json::from_str(text)
            }

            /// The document as compact JSON text.
            pub fn to_json(&self) -> String {
                // Writing into a string cannot fail: keys are strings and no field has a failing serializer.
                serde_json::to_string(self).unwrap_or_default()
            }
        }
    };
}

/// Defines an enumeration that is read as a name (any case) or a number and written as its name, or as its
/// number when declared `as number`. What is not known is kept.
#[macro_export]
macro_rules! enumeration {
    ($(#[$meta:meta])* pub enum $name:ident as $form:ident {
        $($(#[$vmeta:meta])* $variant:ident = $number:literal $text:literal $(| $alias:literal)*),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)*
            /// A name that this crate does not know.
            OtherName(String),
            /// A number that this crate does not know.
            OtherNumber(u32),
        }

        impl $name {
            /// Every known value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name, as HNS writes it.
            pub fn name(&self) -> std::borrow::Cow<'_, str> {
                match self {
                    $(Self::$variant => $text.into(),)*
                    Self::OtherName(name) => name.as_str().into(),
                    Self::OtherNumber(number) => number.to_string().into(),
                }
            }

            /// The number, where there is one.
            pub fn number(&self) -> Option<u32> {
                match self {
                    $(Self::$variant => Some($number),)*
                    Self::OtherName(_) => None,
                    Self::OtherNumber(number) => Some(*number),
                }
            }

            /// The value with this name, without regard to case.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $(n if n.eq_ignore_ascii_case($text) $(|| n.eq_ignore_ascii_case($alias))* => Self::$variant,)*
                    _ => Self::OtherName(name.to_owned()),
                }
            }

            /// The value with this number.
            pub fn from_number(number: u32) -> Self {
                match number {
                    $(n if n == $number => Self::$variant,)*
                    _ => Self::OtherNumber(number),
                }
            }

            /// Whether the value is one this crate knows.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::OtherName(_) | Self::OtherNumber(_))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                $crate::json::enumeration_form!($form, self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                match $crate::json::NameOrNumber::deserialize(deserializer)? {
                    $crate::json::NameOrNumber::Name(name) => Ok(Self::from_name(&name)),
                    $crate::json::NameOrNumber::Number(number) => Ok(Self::from_number(number)),
                }
            }
        }
    };
}

/// How [`enumeration!`] writes a value.
#[doc(hidden)]
#[macro_export]
macro_rules! __enumeration_form {
    (name, $self:ident, $serializer:ident) => {
        match $self {
            Self::OtherNumber(number) => $serializer.serialize_u32(*number),
            known => $serializer.serialize_str(&known.name()),
        }
    };
    (number, $self:ident, $serializer:ident) => {
        match $self.number() {
            Some(number) => $serializer.serialize_u32(number),
            None => $serializer.serialize_str(&$self.name()),
        }
    };
}
#[doc(hidden)]
pub use __enumeration_form as enumeration_form;

/// An enumeration or flags value as it stands in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameOrNumber {
    /// A name, or several parted by commas.
    Name(String),
    /// A number.
    Number(u32),
}

impl<'de> Deserialize<'de> for NameOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = NameOrNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a number from 0 to 4294967295")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<NameOrNumber, E> {
                u32::try_from(value)
                    .map(NameOrNumber::Number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(value), &self))
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<NameOrNumber, E> {
                u32::try_from(value)
                    .map(NameOrNumber::Number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<NameOrNumber, E> {
                Ok(match text.trim().parse() {
                    Ok(number) => NameOrNumber::Number(number),
                    Err(_) => NameOrNumber::Name(text.to_owned()),
                })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Defines a set of flags that is read as a number or as names parted by commas and written as a number. Bits
/// this crate does not know are kept; a name it does not know is an error.
#[macro_export]
macro_rules! flags {
    ($(#[$($meta:tt)*])* pub struct $name:ident {
        $($(#[$($fmeta:tt)*])* $flag:ident = $bit:literal $text:literal $(| $alias:literal)*),* $(,)?
    }) => {
        bitflags::bitflags! {
            $(#[$($meta)*])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name: u32 {
                $($(#[$($fmeta)*])* const $flag = $bit;)*
                const _ = !0;
            }
        }

        impl $name {
            /// The names of the flags that are set, with unknown bits as one number; "None" when there are none.
            pub fn names(self) -> String {
                let mut names: Vec<std::borrow::Cow<'static, str>> = Vec::new();
                let mut rest = self.bits();
                $(if self.contains(Self::$flag) {
                    names.push($text.into());
                    rest &= !$bit;
                })*
                if rest != 0 {
                    names.push(format!("{rest:#x}").into());
                }
                if names.is_empty() { "None".to_owned() } else { names.join(", ") }
            }

            fn from_names(text: &str) -> std::result::Result<Self, String> {
                let mut flags = Self::empty();
                for part in text.split([',', '|']).map(str::trim).filter(|part| !part.is_empty()) {
                    flags |= match part {
                        n if n.eq_ignore_ascii_case("None") => Self::empty(),
                        $(n if n.eq_ignore_ascii_case($text) $(|| n.eq_ignore_ascii_case($alias))* => Self::$flag,)*
                        _ => return Err(format!("{part:?} is not a flag of {}", stringify!($name))),
                    };
                }
                Ok(flags)
            }
        }

        impl $crate::json::Blank for $name {
            fn is_blank(&self) -> bool {
                self.is_empty()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_u32(self.bits())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                match $crate::json::NameOrNumber::deserialize(deserializer)? {
                    $crate::json::NameOrNumber::Number(bits) => Ok(Self::from_bits_retain(bits)),
                    $crate::json::NameOrNumber::Name(text) => {
                        Self::from_names(&text).map_err(serde::de::Error::custom)
                    }
                }
            }
        }
    };
}
