//! The options of lists and watches: how they are read, and which combinations are refused.
//!
//! The rules are those of the API reference and of upstream's validation: what is refused is refused with 422 and the
//! causes, as that is what clients look at to fall back. This module must not know objects.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::call::Call;
use crate::kind::Kind;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Status};

/// `resourceVersionMatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// `resourceVersion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Not given: the most recent.
    Latest,
    /// `0`: any.
    Any,
    /// This one.
    At(u64),
}

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continue {
    /// The list's resource version; none for a list that goes on with what is so now.
    pub(crate) revision: Option<u64>,
    /// The first key that has not been sent.
    pub(crate) start: String,
}

/// Which objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

/// All options.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub(crate) selection: Selection,
    pub(crate) limit: usize,
    pub(crate) go_on: Option<Continue>,
    pub(crate) version: Version,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) timeout_seconds: u64,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
}

impl Continue {
    /// The token: nobody but the server reads it.
    pub(crate) fn token(&self) -> String {
        let revision = self.revision.map_or(json!(-1), |revision| json!(revision));
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start}).to_string())
    }

    fn read(token: &str) -> Result<Self, Status> {
        let bad = || Status::bad_request("continue key is not valid: it is not one of this server's tokens");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let start = value.get("start").and_then(|start| start.as_str()).ok_or_else(bad)?.to_owned();
        let revision = value.get("rv").and_then(serde_json::Value::as_i64).ok_or_else(bad)?;
        match revision {
            -1 => Ok(Self { revision: None, start }),
            1.. => Ok(Self { revision: u64::try_from(revision).ok(), start }),
            _ => Err(bad()),
        }
    }
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause { reason: "FieldValueForbidden", message: format!("Forbidden: {why}"), field: field.to_owned() }
}

fn number(call: &Call, name: &str) -> Result<u64, Status> {
    match call.parameter(name) {
        None | Some("") => Ok(0),
        Some(text) => text
            .parse::<i64>()
            // A negative number is as none.
            .map(|number| u64::try_from(number).unwrap_or(0))
            .map_err(|_| Status::bad_request(format!("{name}: \"{text}\" is not a whole number"))),
    }
}

impl Version {
    pub(crate) fn read(call: &Call) -> Result<Self, Status> {
        match call.parameter("resourceVersion") {
            None | Some("") => Ok(Self::Latest),
            Some("0") => Ok(Self::Any),
            Some(text) => text.parse().map(Self::At).map_err(|_| {
                Status::bad_request(format!(
                    "resourceVersion: Invalid value: \"{text}\": not a resource version of this server"
                ))
            }),
        }
    }
}

impl ListOptions {
    /// Reads the options of a list or a watch. `streaming`: whether the server has streaming lists.
    pub(crate) fn read(call: &Call, kind: &Kind, watch: bool, streaming: bool) -> Result<Self, Status> {
        let labels = LabelSelector::parse(call.parameter("labelSelector").unwrap_or_default())
            .map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(call.parameter("fieldSelector").unwrap_or_default(), kind)
            .map_err(Status::bad_request)?;
        let token = call.parameter("continue").filter(|token| !token.is_empty());
        let version_match = call.parameter("resourceVersionMatch").filter(|text| !text.is_empty());
        // A server without streaming lists does not know the parameter, so it does not see it.
        let given = call.parameter("sendInitialEvents").is_some();
        let initial_events = (given && streaming).then(|| call.flag("sendInitialEvents"));
        // A watch that begins nowhere is a failure of the server, as in upstream.
        let version = Version::read(call).map_err(|status| {
            if watch { Status { code: 500, reason: String::new(), ..status } } else { status }
        })?;

        let causes = if watch {
            watch_causes(version_match, initial_events, token.is_some())
        } else {
            list_causes(version_match, version, initial_events, token.is_some())
        };
        if !causes.is_empty() {
            return Err(Status::invalid_options(causes));
        }
        Ok(Self {
            selection: Selection { labels, fields },
            limit: usize::try_from(number(call, "limit")?).unwrap_or(usize::MAX),
            go_on: if watch { None } else { token.map(Continue::read).transpose()? },
            version,
            version_match: match version_match {
                Some("Exact") => Some(VersionMatch::Exact),
                Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_seconds: number(call, "timeoutSeconds")?,
            bookmarks: call.flag("allowWatchBookmarks"),
            initial_events,
        })
    }
}

const MATCH: &str = "resourceVersionMatch";

fn unsupported(value: &str, supported: &str) -> Cause {
    Cause {
        reason: "FieldValueNotSupported",
        message: format!("Unsupported value: \"{value}\": supported values: {supported}"),
        field: MATCH.to_owned(),
    }
}

fn watch_causes(version_match: Option<&str>, initial_events: Option<bool>, continued: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if initial_events.is_some() && version_match != Some("NotOlderThan") {
        causes.push(forbidden(
            MATCH,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if let Some(version_match) = version_match {
        if initial_events.is_none() {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if version_match != "NotOlderThan" {
            causes.push(unsupported(version_match, "\"NotOlderThan\""));
        }
    }
    if continued {
        causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
    }
    causes
}

fn list_causes(
    version_match: Option<&str>,
    version: Version,
    initial_events: Option<bool>,
    continued: bool,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(version_match) = version_match {
        if version == Version::Latest {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if continued {
            causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(version_match, "Exact" | "NotOlderThan") {
            causes.push(unsupported(version_match, "\"Exact\", \"NotOlderThan\", \"\""));
        }
        if version_match == "Exact" && version == Version::Any {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if initial_events.is_some() {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    causes
}
