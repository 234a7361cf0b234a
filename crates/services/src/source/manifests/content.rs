//! A generic document tree that borrows from the text, for objects whose type is known only after reading them.
//!
//! `kubectl` writes keys in alphabetical order, so the endpoints of a slice come before the word `kind`: an object must
//! be held in a generic form first. This form keeps texts borrowed, and turns a duplicate key into a value that
//! refuses to become anything, so that the fault is reported with its path and harms only the object it is in.

use std::borrow::Cow;
use std::fmt;

use rustc_hash::FxHashMap;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
    value::{BorrowedStrDeserializer, StrDeserializer},
};
use serde::forward_to_deserialize_any;

/// Nesting deeper than this is refused: readers recurse, and a thread's stack is small. Kubernetes objects nest to about 20, the
/// schemas of custom resources to about 40.
pub(super) const MAX_DEPTH: usize = 64;

/// A value of any type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content<'de> {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'de, str>),
    Sequence(Vec<Content<'de>>),
    Mapping(Vec<(Cow<'de, str>, Content<'de>)>),
    /// A value that cannot be used, and why.
    Faulty(String),
}

impl<'de> Content<'de> {
    /// The value under a key of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Content<'de>> {
        match self {
            Self::Mapping(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a text value.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for people.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Unsigned(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::Sequence(_) => "a sequence",
            Self::Mapping(_) => "a mapping",
            Self::Faulty(_) => "a faulty value",
        }
    }
}

/// A text that borrows where the reader allows it.
pub(super) struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text as key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

/// A mapping's key.
pub(super) struct Key<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Key)
    }
}

impl<'de> Deserialize<'de> for Content<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ContentSeed { depth: 0 }.deserialize(deserializer)
    }
}

/// Reads content within the depth that is left.
#[derive(Clone, Copy)]
struct ContentSeed {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for ContentSeed {
    type Value = Content<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(de::Error::custom(format!("nesting is deeper than {MAX_DEPTH}")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ContentSeed {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Content::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Content::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Content::Unsigned(value), Content::Int))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Self::Value, E> {
        Ok(Content::Faulty(format!("{value} is too large a number")))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Self::Value, E> {
        Ok(Content::Faulty(format!("{value} is too large a number")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Content::Float(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text)))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Self::Value, E> {
        Ok(Content::Faulty("binary data has no place here".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        // The size hint comes from the input, so it is not trusted.
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(ContentSeed { depth: self.depth + 1 })? {
            items.push(item);
        }
        Ok(Content::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut entries = Entries::default();
        while let Some(Key(key)) = access.next_key()? {
            let value = access.next_value_seed(ContentSeed { depth: self.depth + 1 })?;
            entries.push(key, value);
        }
        Ok(Content::Mapping(entries.list))
    }
}

/// The entries of a mapping. A repeated key makes its value faulty.
#[derive(Default)]
pub(super) struct Entries<'de> {
    pub(super) list: Vec<(Cow<'de, str>, Content<'de>)>,
    /// Places in the list. Filled only for large mappings, where looking through the list would be slow.
    index: FxHashMap<Cow<'de, str>, usize>,
}

impl<'de> Entries<'de> {
    const SMALL: usize = 24;

    pub(super) fn push(&mut self, key: Cow<'de, str>, value: Content<'de>) {
        if let Some(at) = self.place(&key) {
            let why = format!("the key {key:?} is given twice; remove one");
            self.list[at].1 = Content::Faulty(why);
            return;
        }
        if self.list.len() >= Self::SMALL {
            self.index.insert(key.clone(), self.list.len());
        }
        self.list.push((key, value));
    }

    fn place(&mut self, key: &str) -> Option<usize> {
        if self.list.len() < Self::SMALL {
            return self.list.iter().position(|(k, _)| k == key);
        }
        if self.index.is_empty() {
            self.index.extend(self.list.iter().enumerate().map(|(at, (k, _))| (k.clone(), at)));
        }
        self.index.get(key).copied()
    }
}

/// Why a tree does not fit the wanted type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Mismatch(String);

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl<'de> Deserializer<'de> for Content<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Int(value) => visitor.visit_i64(value),
            Self::Unsigned(value) => visitor.visit_u64(value),
            Self::Float(value) => visitor.visit_f64(value),
            Self::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Self::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Self::Sequence(items) => visitor.visit_seq(Items(items.into_iter())),
            Self::Mapping(entries) => visitor.visit_map(Pairs { entries: entries.into_iter(), value: None }),
            Self::Faulty(why) => Err(Mismatch(why)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Self::Null => visitor.visit_none(),
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    /// None of the types read here has enumerations, but a type may gain one.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self {
            Self::Text(text) => visitor.visit_enum(UnitVariant(text)),
            other => Err(Mismatch(format!("expected a text, found {}", other.describe()))),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        // A duplicate key is a fault also where nobody reads the value.
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct UnitVariant<'de>(Cow<'de, str>);

impl<'de> EnumAccess<'de> for UnitVariant<'de> {
    type Error = Mismatch;
    type Variant = UnitOnly;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, UnitOnly), Mismatch> {
        let value = match self.0 {
            Cow::Borrowed(text) => seed.deserialize(BorrowedStrDeserializer::new(text))?,
            Cow::Owned(text) => seed.deserialize(StrDeserializer::new(&text))?,
        };
        Ok((value, UnitOnly))
    }
}

struct UnitOnly;

impl<'de> de::VariantAccess<'de> for UnitOnly {
    type Error = Mismatch;

    fn unit_variant(self) -> Result<(), Mismatch> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Mismatch> {
        Err(Mismatch("expected a plain text".to_owned()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Mismatch> {
        Err(Mismatch("expected a plain text".to_owned()))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Mismatch> {
        Err(Mismatch("expected a plain text".to_owned()))
    }
}

impl<'de> IntoDeserializer<'de, Mismatch> for Content<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Items<'de>(std::vec::IntoIter<Content<'de>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Pairs<'de> {
    entries: std::vec::IntoIter<(Cow<'de, str>, Content<'de>)>,
    value: Option<Content<'de>>,
}

impl<'de> MapAccess<'de> for Pairs<'de> {
    type Error = Mismatch;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Content::Text(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        let value =
            self.value.take().ok_or_else(|| Mismatch("a value was asked for before its key".to_owned()))?;
        seed.deserialize(value)
    }
}
