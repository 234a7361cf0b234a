//! What a request is about: the verb, the resource, the object, as authorisation and the log see it.
//!
//! This module must not know who asks.

use hyper::{Method, Uri};

use crate::kind::{self, Kind};

/// What a path names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// A resource that the server has.
    Resource(&'static Kind),
    /// A resource of the API that it does not have.
    Unknown,
    /// No resource.
    Path,
}

/// A request, understood.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) verb: String,
    pub(crate) target: Target,
    pub(crate) group: String,
    resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: Vec<(String, String)>,
}

impl Call {
    /// Understands a method and an address.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        let mut call = Self {
            path: uri.path().to_owned(),
            verb: method.as_str().to_ascii_lowercase(),
            target: Target::Path,
            group: String::new(),
            resource: String::new(),
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            query: query_pairs(uri.query().unwrap_or_default()),
        };
        let parts: Vec<String> =
            uri.path().split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => (*version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                (*group).clone_into(&mut call.group);
                (*version, rest)
            }
            _ => return call,
        };
        // `/watch/` before the resource is deprecated upstream, and served.
        let (forced_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        let (namespace, resource, rest) = match rest {
            ["namespaces", _, "status" | "finalize", ..] => ("", "namespaces", &rest[1..]),
            ["namespaces", namespace, resource, rest @ ..] => (*namespace, *resource, rest),
            [resource, rest @ ..] => ("", *resource, rest),
            [] => return call,
        };
        namespace.clone_into(&mut call.namespace);
        resource.clone_into(&mut call.resource);
        rest.first().copied().unwrap_or_default().clone_into(&mut call.name);
        call.subresource = rest.get(1..).unwrap_or_default().join("/");
        if resource == "namespaces" {
            // A namespace is in itself, as far as rights go.
            call.namespace.clone_from(&call.name);
        }
        call.verb = call.resource_verb(method, forced_watch);
        call.target = match kind::by_path(&call.group, version, resource) {
            // Whether the path has a namespace must fit the kind, but for lists of all namespaces.
            Some(kind) if kind.namespaced && call.namespace.is_empty() && !call.name.is_empty() => {
                Target::Unknown
            }
            Some(kind) if !kind.namespaced && !namespace.is_empty() => Target::Unknown,
            Some(kind) => Target::Resource(kind),
            None => Target::Unknown,
        };
        call
    }

    fn resource_verb(&self, method: &Method, forced_watch: bool) -> String {
        let verb = match *method {
            Method::GET | Method::HEAD if forced_watch => "watch",
            Method::GET | Method::HEAD if !self.name.is_empty() => "get",
            Method::GET | Method::HEAD if self.flag("watch") => "watch",
            Method::GET | Method::HEAD => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => return method.as_str().to_ascii_lowercase(),
        };
        verb.to_owned()
    }

    /// `services`; empty where the path is no resource.
    pub(crate) fn resource_name(&self) -> String {
        self.resource.clone()
    }

    /// The first value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }

    /// A parameter that is yes or no, read as upstream reads it: there and neither `false` nor `0` is yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.parameter(name)
            .is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}

/// The parameters of a query, decoded, in order.
pub(crate) fn query_pairs(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        })
        .collect()
}

fn decode(text: &str, plus_is_space: bool) -> String {
    let digit = |byte: Option<&u8>| {
        byte.and_then(|byte| char::from(*byte).to_digit(16)).and_then(|digit| u8::try_from(digit).ok())
    };
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                plain.push(high << 4 | low);
                at += 2;
            }
            (b'+', ..) if plus_is_space => plain.push(b' '),
            _ => plain.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}
