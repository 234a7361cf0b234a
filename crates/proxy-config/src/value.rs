//! A document as a tree that loses nothing: keys that come twice stay twice, numbers and texts stay apart.
//!
//! The only module that knows how YAML and JSON are read. It must not know which document it is.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, which means the same as a field that is not there.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Fields in the order of the document.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// What kind of value it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl fmt::Display for Value {
    /// Scalars as they are written, lists and maps by their kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::List(_) | Self::Map(_) => f.write_str(self.kind()),
        }
    }
}

/// Deepest nesting that is read; kube-proxy's configuration needs four.
const MAX_DEPTH: usize = 32;
/// The largest text that is read.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Reads the first document of a text in YAML or JSON, and says whether others follow.
pub(crate) fn read(text: &str) -> Result<(Value, bool), String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the text has {} bytes; a configuration has {MAX_BYTES} at most", text.len()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // YAML is wider than JSON, but its readers are stricter about tabs.
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok((value, false));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        // Reported with the path of the field, not as the end of the document.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
        emit_comments: false,
        with_snippet: false,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())?;
    let mut documents = documents.into_iter();
    let first = documents.next().unwrap_or(Value::Null);
    Ok((first, documents.any(|document| document != Value::Null)))
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(Key(key)) = access.next_key()? {
            fields.push((key, access.next_value()?));
        }
        Ok(Value::Map(fields))
    }
}

/// A key: a text, or a scalar that YAML reads as something else, in its text form.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Value::deserialize(deserializer)?.to_string()))
    }
}
