//! Object ids. A GUID is compared by value but keeps the hex case it was written in, because real HNS prints
//! some ids in upper and some in lower case and a few clients compare the text (hcn-api facts: ids inside a
//! namespace's resources are upper case). This module knows nothing of what an id names.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A 128-bit id, equal and ordered by value, printed in the case it was read in (lower case by default).
#[derive(Clone, Copy, Default)]
pub struct Guid {
    value: Uuid,
    upper: bool,
}

impl Guid {
    /// The all-zero id: "no id" in most HCN calls.
    pub const NIL: Self = Self { value: Uuid::nil(), upper: false };

    /// Wraps a UUID; prints in lower case.
    pub const fn new(value: Uuid) -> Self {
        Self { value, upper: false }
    }

    /// A constant id from its 128-bit value.
    pub const fn from_u128(value: u128) -> Self {
        Self::new(Uuid::from_u128(value))
    }

    /// The name-based (version 5) id of `name` within `self`; the same inputs always give the same id.
    #[must_use]
    pub fn derive(self, name: &str) -> Self {
        Self::new(Uuid::new_v5(&self.value, name.as_bytes()))
    }

    /// Whether this is the all-zero id.
    pub const fn is_nil(self) -> bool {
        self.value.is_nil()
    }

    /// The plain UUID.
    pub const fn uuid(self) -> Uuid {
        self.value
    }

    /// The same id, printed in upper case.
    #[must_use]
    pub const fn upper(self) -> Self {
        Self { value: self.value, upper: true }
    }

    /// The same id, printed in lower case.
    #[must_use]
    pub const fn lower(self) -> Self {
        Self { value: self.value, upper: false }
    }
}

impl PartialEq for Guid {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Guid {}

impl PartialOrd for Guid {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Guid {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.value.cmp(&other.value)
    }
}

impl Hash for Guid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = Uuid::encode_buffer();
        let text = if self.upper {
            self.value.as_hyphenated().encode_upper(&mut buffer)
        } else {
            self.value.as_hyphenated().encode_lower(&mut buffer)
        };
        f.write_str(text)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a GUID in the one form HCN takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a GUID: 36 characters, hyphenated, without braces")]
pub struct ParseGuidError(pub String);

impl FromStr for Guid {
    type Err = ParseGuidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The hyphenated form only: that is what Windows clients parse and print.
        if text.len() != 36 {
            return Err(ParseGuidError(text.chars().take(64).collect()));
        }
        let value = Uuid::try_parse(text).map_err(|_| ParseGuidError(text.to_owned()))?;
        Ok(Self { value, upper: text.bytes().any(|b| b.is_ascii_uppercase()) })
    }
}

impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Guid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a GUID")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Guid, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_ignores_case_and_printing_keeps_it() {
        let lower: Guid = "0badcafe-0000-4000-8000-00000000000a".parse().unwrap();
        let upper: Guid = "0BADCAFE-0000-4000-8000-00000000000A".parse().unwrap();
        assert_eq!(lower, upper);
        assert_eq!(upper.to_string(), "0BADCAFE-0000-4000-8000-00000000000A");
        assert_eq!(upper.lower().to_string(), lower.to_string());
    }

    #[test]
    fn only_the_hyphenated_form_is_taken() {
        for bad in [
            "",
            "x",
            "{0badcafe-0000-4000-8000-00000000000a}",
            "0badcafe000040008000000000000000",
            "0badcafe-0000-4000-8000-00000000000g",
        ] {
            assert!(bad.parse::<Guid>().is_err(), "{bad:?} was taken");
        }
    }
}
