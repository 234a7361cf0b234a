//! Reading one document: the items of a list are taken one by one while the text is read, so that a large list is never held as
//! a whole.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::content::{Content, Entries, Key};
use super::parse::{Collector, Mark, Place};
use super::yaml::Placed;

/// A list item from a reader that tells no lines.
pub(super) struct Bare<'de>(Content<'de>);

impl<'de> Deserialize<'de> for Bare<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Content::deserialize(deserializer).map(Bare)
    }
}

/// A list item: its content, and the line where it starts if the reader tells.
pub(super) trait Item<'de>: Deserialize<'de> {
    fn split(self) -> (Content<'de>, Option<u64>);
}

impl<'de> Item<'de> for Bare<'de> {
    fn split(self) -> (Content<'de>, Option<u64>) {
        (self.0, None)
    }
}

impl<'de> Item<'de> for Placed<'de> {
    fn split(self) -> (Content<'de>, Option<u64>) {
        (self.content, self.line)
    }
}

/// Items that do not say what they are: index, content, line.
pub(super) type Untyped<'de> = Vec<(usize, Content<'de>, Option<u64>)>;

/// A document without the items that were taken while reading.
pub(super) struct Head<'de> {
    /// The document, without a sequence `items`.
    pub(super) content: Content<'de>,
    /// When there was such a sequence: those items that were not taken. A second one is a faulty value in `content`.
    pub(super) items: Option<Untyped<'de>>,
    /// Where the collector stood before the document.
    pub(super) mark: Mark,
}

/// Reads a document into a collector.
pub(super) struct DocumentSeed<'a, I> {
    collector: &'a mut Collector,
    item: PhantomData<I>,
}

impl<'a, I> DocumentSeed<'a, I> {
    pub(super) fn new(collector: &'a mut Collector) -> Self {
        Self { collector, item: PhantomData }
    }

    fn head(self, content: Content<'_>) -> Head<'_> {
        Head { content, items: None, mark: self.collector.mark() }
    }
}

/// The visits of everything but sequences and mappings, as content that `$wrap` turns into the visitor's value. Texts are not kept:
/// they stand where an object should, and only their type is told.
macro_rules! visit_scalars {
    ($wrap:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Null))
        }

        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Bool(value)))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Int(value)))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Unsigned(value)))
        }

        fn visit_i128<E>(self, _: i128) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Int(0)))
        }

        fn visit_u128<E>(self, _: u128) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Int(0)))
        }

        fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Float(value)))
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Text(Cow::Borrowed(""))))
        }

        fn visit_bytes<E>(self, _: &[u8]) -> Result<Self::Value, E> {
            Ok($wrap(self, Content::Text(Cow::Borrowed(""))))
        }
    };
}

impl<'de, I: Item<'de>> DeserializeSeed<'de> for DocumentSeed<'_, I> {
    type Value = Head<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, I: Item<'de>> Visitor<'de> for DocumentSeed<'_, I> {
    type Value = Head<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mark = self.collector.mark();
        let mut entries = Entries::default();
        let mut items = None;
        while let Some(Key(key)) = access.next_key()? {
            if key == "items" && items.is_some() {
                access.next_value::<IgnoredAny>()?;
                let why = "the key \"items\" is given twice; remove one".to_owned();
                entries.push(key, Content::Faulty(why));
            } else if key == "items" {
                let seed = ItemsSeed::<I> { collector: &mut *self.collector, item: PhantomData };
                match access.next_value_seed(seed)? {
                    Items::Sequence(untyped) => items = Some(untyped),
                    Items::Other(value) => entries.push(key, value),
                }
            } else {
                let value = access.next_value()?;
                entries.push(key, value);
            }
        }
        Ok(Head { content: Content::Mapping(entries.list), items, mark })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.head(Content::Sequence(Vec::new())))
    }

    visit_scalars!(Self::head);
}

/// The value of a top-level field `items`.
enum Items<'de> {
    Sequence(Untyped<'de>),
    Other(Content<'de>),
}

struct ItemsSeed<'a, I> {
    collector: &'a mut Collector,
    item: PhantomData<I>,
}

impl<'de, I: Item<'de>> DeserializeSeed<'de> for ItemsSeed<'_, I> {
    type Value = Items<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, I: Item<'de>> Visitor<'de> for ItemsSeed<'_, I> {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let root = Place::root();
        let mut untyped = Vec::new();
        let mut index = 0;
        while let Some(item) = access.next_element::<I>()? {
            let (content, line) = item.split();
            if matches!(content, Content::Mapping(_)) && content.get("kind").is_none() {
                untyped.push((index, content, line));
            } else {
                self.collector.object(content, &root.item(index, line), None, 0);
            }
            index += 1;
        }
        Ok(Items::Sequence(untyped))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Items::Other(Content::Mapping(Vec::new())))
    }

    visit_scalars!(|_: Self, content| match content {
        // `items: null` is an empty list.
        Content::Null => Items::Sequence(Vec::new()),
        other => Items::Other(other),
    });
}
