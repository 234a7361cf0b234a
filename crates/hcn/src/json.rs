//! How HCN documents are read and written.
//!
//! HNS clients disagree about spelling: keys come in any case, enumerations as names or numbers, and every build
//! adds members that others do not know. So a document keeps what it does not know, byte for byte and in order
//! ([`Extra`]), and reads keys without regard to case. The [`document!`](crate::document), [`enumeration!`](crate::enumeration) and [`flags!`](crate::flags) macros
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

mod document;
mod enumeration;

#[doc(hidden)]
pub use document::{read_member, write_member};
#[doc(hidden)]
pub use enumeration::enumeration_form;

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
pub(crate) fn strip_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// The members of an object as JSON, in order and unchanged.
pub fn object(members: &Extra) -> RawJson {
    let mut text = String::from("{");
    for (at, (key, value)) in members.0.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(RawJson::of(key).get());
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    RawJson::parse(&text).unwrap_or_else(|_| RawJson::of(&()))
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
