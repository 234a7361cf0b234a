//! `metav1.Status`: how the API says that something failed, or was deleted.
//!
//! This module must not know who asked, or for what.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// One of several reasons within a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// A word for programs, as `FieldValueInvalid`.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
    /// The field, as `spec.ports[0].port`; empty where there is none.
    pub field: String,
}

/// A failure as the API tells it: the body is a `Status` object, and its code is the answer's status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// HTTP status.
    pub code: u16,
    /// A word for programs (`metav1.StatusReason`), as `NotFound`; empty where there is none.
    pub reason: String,
    /// For people.
    pub message: String,
    /// What else there is to say.
    pub details: Box<Details>,
}

/// What a failure is about, and what comes with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// `details.name`.
    pub name: String,
    /// `details.group`.
    pub group: String,
    /// `details.kind`: upstream has the plural of the resource here.
    pub kind: String,
    /// `details.causes`.
    pub causes: Vec<Cause>,
    /// `details.retryAfterSeconds`, which is also sent as the header `Retry-After`.
    pub retry_after: Option<u32>,
    /// `metadata.continue`: a way to go on after an expired list.
    pub continue_token: Option<String>,
    /// More headers.
    pub headers: BTreeMap<String, String>,
}

impl Status {
    /// A failure with a code, a reason and a message.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: Box::default() }
    }

    /// What a code means when nothing more is known: reasons as upstream gives them.
    pub fn of_code(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the request is not valid"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "the request is not allowed"),
            404 => ("NotFound", "the server could not find the requested resource"),
            405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
            406 => ("NotAcceptable", "only application/json is served here"),
            409 => ("Conflict", "the object has been changed by somebody else"),
            410 => ("Expired", "the requested resource version is no longer kept"),
            413 => ("RequestEntityTooLarge", "the request is too long"),
            415 => {
                ("UnsupportedMediaType", "the body of the request is in a form that the server does not read")
            }
            422 => ("Invalid", "the object or the options are not valid"),
            429 => ("TooManyRequests", "too many requests, please try again later"),
            500 => ("InternalError", "an error on the server"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the request did not complete within the allowed time"),
            _ => ("", "the server failed"),
        };
        Self::new(code, reason, message)
    }

    /// 429, with the time after which the client may come back.
    pub fn too_many_requests(seconds: u32) -> Self {
        Self::of_code(429).retry_after(seconds)
    }

    /// The same with the time after which the client may come back, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.retry_after = Some(seconds);
        self
    }

    /// The same with another header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.details.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// 410 for a resource version that is no longer kept; `oldest` is.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504 for a resource version that the server has not reached. Clients know it by the cause.
    pub(crate) fn too_large(asked: u64, current: u64) -> Self {
        let mut status = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        status.details.causes.push(Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        });
        status.details.retry_after = Some(1);
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.qualified())).about(kind, name)
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.qualified()))
            .about(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// 422 of an object.
    pub(crate) fn invalid(kind: &Kind, name: &str, causes: Vec<Cause>) -> Self {
        let mut status = Self::new(422, "Invalid", String::new());
        kind.group.clone_into(&mut status.details.group);
        kind.kind.clone_into(&mut status.details.kind);
        name.clone_into(&mut status.details.name);
        let qualified = if kind.group.is_empty() {
            kind.kind.to_owned()
        } else {
            format!("{}.{}", kind.kind, kind.group)
        };
        status.message = format!("{qualified} \"{name}\" is invalid: {}", sentence(&causes));
        status.details.causes = causes;
        status
    }

    /// 422 of the options of a list or a watch.
    pub(crate) fn invalid_options(causes: Vec<Cause>) -> Self {
        let mut status = Self::new(422, "Invalid", String::new());
        "meta.k8s.io".clone_into(&mut status.details.group);
        "ListOptions".clone_into(&mut status.details.kind);
        status.message = format!("ListOptions.meta.k8s.io \"\" is invalid: {}", sentence(&causes));
        status.details.causes = causes;
        status
    }

    pub(crate) fn about(mut self, kind: &Kind, name: &str) -> Self {
        name.clone_into(&mut self.details.name);
        kind.group.clone_into(&mut self.details.group);
        kind.plural.clone_into(&mut self.details.kind);
        self
    }

    /// The object.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.details.continue_token {
            metadata.insert("continue".to_owned(), token.clone().into());
        }
        let mut details = Map::new();
        for (member, text) in
            [("name", &self.details.name), ("group", &self.details.group), ("kind", &self.details.kind)]
        {
            if !text.is_empty() {
                details.insert(member.to_owned(), text.clone().into());
            }
        }
        if !self.details.causes.is_empty() {
            details.insert("causes".to_owned(), self.details.causes.iter().map(cause_value).collect());
        }
        if let Some(seconds) = self.details.retry_after {
            details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        let mut status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"});
        let members = [
            ("message", Value::from(self.message.clone()), self.message.is_empty()),
            ("reason", Value::from(self.reason.clone()), self.reason.is_empty()),
            ("details", Value::Object(details.clone()), details.is_empty()),
        ];
        for (member, value, empty) in members {
            if !empty {
                status[member] = value;
            }
        }
        status["code"] = self.code.into();
        status
    }

    /// The object as text, with the newline that upstream ends its answers with.
    pub fn to_bytes(&self) -> Bytes {
        let mut text = self.to_value().to_string();
        text.push('\n');
        text.into()
    }
}

/// The `Status` of a deletion that is done.
pub(crate) fn deleted(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural, "uid": uid});
    if !kind.group.is_empty() {
        details["group"] = kind.group.into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn cause_value(cause: &Cause) -> Value {
    let mut value = json!({"reason": cause.reason, "message": cause.message});
    if !cause.field.is_empty() {
        value["field"] = cause.field.clone().into();
    }
    value
}

fn sentence(causes: &[Cause]) -> String {
    let parts: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    if parts.len() == 1 { parts.concat() } else { format!("[{}]", parts.join(", ")) }
}
