//! Queries: what `Hcn*Enumerate*` and `HcnQuery*Properties` are given.
//!
//! A filter is a JSON object *inside a string*, and its keys are v1 property names even in a v2 query. Matching
//! is the service's business.

use serde::{Deserialize, Deserializer, Serialize};

use crate::document;
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::json::{Extra, Members, member};

/// The schema version that a document or query carries (a series of its own, not the HNS version).
///
/// Keys are read without regard to case and `null` is 0. It is small and copied everywhere, so unlike documents it
/// does not keep unknown members; none is known to exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SchemaVersion {
    /// Major: 1 for HNS v1 shapes, 2 for HCN v2.
    #[serde(rename = "Major")]
    pub major: u32,
    /// Minor.
    #[serde(rename = "Minor")]
    pub minor: u32,
}

impl<'de> Deserialize<'de> for SchemaVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut version = Self::default();
        for (key, raw) in Members::deserialize(deserializer)?.0 {
            let (name, part) = match &*key {
                key if key.eq_ignore_ascii_case("Major") => ("Major", &mut version.major),
                key if key.eq_ignore_ascii_case("Minor") => ("Minor", &mut version.minor),
                _ => continue,
            };
            *part = member::<Option<u32>, D::Error>("SchemaVersion", name, raw)?.unwrap_or_default();
        }
        Ok(version)
    }
}

impl SchemaVersion {
    /// 2.0: what hcsshim and kube-proxy send.
    pub const V2: Self = Self { major: 2, minor: 0 };
}

crate::flags! {
    /// Query flags.
    pub struct QueryFlags {
        /// Everything, with the internal resource tree.
        DETAILED = 1 "Detailed",
    }
}

document! {
    /// `HostComputeQuery`.
    pub struct Query {
        /// Which schema the answer has; absent or major 1 means v1 shape.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
        /// See [`QueryFlags`].
        flags: QueryFlags = "Flags",
        /// JSON text of an object of property = value, all of which must match; empty means all.
        filter: Option<String> = "Filter",
    }
}

impl Query {
    /// Everything, in v2 shape.
    pub fn all() -> Self {
        Self { schema_version: Some(SchemaVersion::V2), ..Self::default() }
    }

    /// Objects whose v1 property `name` equals the text `value`.
    pub fn by(name: &str, value: &str) -> Self {
        let filter = serde_json::Value::Object(std::iter::once((name.to_owned(), value.into())).collect());
        Self { filter: Some(filter.to_string()), ..Self::all() }
    }

    /// The object with this name.
    pub fn by_name(name: &str) -> Self {
        Self::by("Name", name)
    }

    /// The object with this id.
    pub fn by_id(id: Guid) -> Self {
        Self::by("ID", &id.to_string())
    }

    /// The endpoints of a network (the key is the v1 name, as hcsshim sends it).
    pub fn endpoints_of(network: Guid) -> Self {
        Self::by("VirtualNetwork", &network.to_string())
    }

    /// Whether the answer is wanted in v2 shape.
    pub fn wants_v2(&self) -> bool {
        self.schema_version.is_some_and(|version| version.major >= 2)
    }

    /// Reads a query as it comes over the API: empty text (or a NULL pointer) is the empty query.
    pub fn from_text(text: &str) -> Result<Self> {
        if text.trim().is_empty() { Ok(Self::default()) } else { Ok(Self::parse(text)?) }
    }

    /// The filter's properties, in order.
    pub fn filter_properties(&self) -> Result<Extra> {
        let Some(text) = self.filter.as_deref().filter(|text| !text.trim().is_empty()) else {
            return Ok(Extra::default());
        };
        let members: Members<'_> = serde_json::from_str(text).map_err(|error| {
            Error::detailed(crate::HResult::INVALID_JSON, format!("Query.Filter: {error}"))
        })?;
        Ok(Extra(members.0.into_iter().map(|(key, value)| (key.into_owned(), value.into())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_and_the_filtered_query_look_like_hcsshims() {
        assert_eq!(Query::all().to_json(), r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#);
        assert_eq!(
            Query::by("ID", "x").to_json(),
            r#"{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"ID\":\"x\"}"}"#
        );
    }

    #[test]
    fn empty_filters_mean_all() {
        for text in ["", "{}", r#"{"Filter":""}"#, r#"{"Filter":"{}"}"#, r#"{"filter":null}"#] {
            assert!(Query::from_text(text).unwrap().filter_properties().unwrap().is_empty(), "{text}");
        }
    }

    #[test]
    fn a_filter_that_is_not_an_object_is_refused() {
        let error = Query::from_text(r#"{"Filter":"[1]"}"#).unwrap().filter_properties().unwrap_err();
        assert_eq!(error.code, crate::HResult::INVALID_JSON);
        assert!(error.to_string().contains("Query.Filter"), "{error}");
    }
}
