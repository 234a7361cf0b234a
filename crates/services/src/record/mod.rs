//! Kubernetes objects cut down to what is used.
//!
//! A record holds the parsed, checked and canonical form of one object: addresses as addresses, defaults applied,
//! endpoints sorted. Two versions of an object that differ only in what nobody uses (annotations, resource
//! versions, order) give equal records, so comparing records tells whether anything happened.
//!
//! Faults of single fields don't refuse an object: the field is left out and a [`Fault`] says so. Only an object
//! that cannot be told apart from others, because its name is unusable, is refused with a [`RecordError`].

mod fault;
mod node;
mod pod;
mod service;
mod slice;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

pub use fault::Fault;
pub(crate) use fault::Faults;
pub use node::{NodeFacts, OverlayFacts};
pub use pod::PodFacts;
pub(crate) use service::{Distribution, PortRecord, TargetPort};
pub use service::{ServiceRecord, SkipReason};
pub use slice::SliceRecord;
pub(crate) use slice::{EndpointRecord, Hints, SlicePort};

/// The kinds of object that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `v1` Node.
    Node,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Pod.
    Pod,
}

impl ObjectKind {
    /// The kind as Kubernetes spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Pod => "Pod",
        }
    }

    fn namespaced(self) -> bool {
        self != Self::Node
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which object: kind, namespace (empty for a Node) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The kind.
    pub kind: ObjectKind,
    /// The namespace; empty for a Node.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Why an object cannot be taken at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind}: {field} {message}")]
pub struct RecordError {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong with it and what would be right.
    pub message: String,
}

/// One object, as a shared record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A Node.
    Node(Arc<NodeFacts>),
    /// A Service.
    Service(Arc<ServiceRecord>),
    /// An EndpointSlice.
    EndpointSlice(Arc<SliceRecord>),
    /// A Pod.
    Pod(Arc<PodFacts>),
}

impl Object {
    /// The object's identity.
    pub fn reference(&self) -> ObjectRef {
        let (kind, namespace, name): (_, Arc<str>, _) = match self {
            Self::Node(node) => (ObjectKind::Node, "".into(), node.name.clone()),
            Self::Service(service) => {
                (ObjectKind::Service, service.key.namespace.clone(), service.key.name.clone())
            }
            Self::EndpointSlice(slice) => {
                (ObjectKind::EndpointSlice, slice.namespace.clone(), slice.name.clone())
            }
            Self::Pod(pod) => (ObjectKind::Pod, pod.namespace.clone(), pod.name.clone()),
        };
        ObjectRef { kind, namespace, name }
    }

    /// What was left out of the record because it is faulty.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Node(node) => &node.faults,
            Self::Service(service) => &service.faults,
            Self::EndpointSlice(slice) => &slice.faults,
            Self::Pod(pod) => &pod.faults,
        }
    }
}

impl TryFrom<&Node> for Object {
    type Error = RecordError;

    fn try_from(node: &Node) -> Result<Self, RecordError> {
        NodeFacts::try_from(node).map(|r| Self::Node(Arc::new(r)))
    }
}

impl TryFrom<&Service> for Object {
    type Error = RecordError;

    fn try_from(service: &Service) -> Result<Self, RecordError> {
        ServiceRecord::try_from(service).map(|r| Self::Service(Arc::new(r)))
    }
}

impl TryFrom<&EndpointSlice> for Object {
    type Error = RecordError;

    fn try_from(slice: &EndpointSlice) -> Result<Self, RecordError> {
        SliceRecord::try_from(slice).map(|r| Self::EndpointSlice(Arc::new(r)))
    }
}

impl TryFrom<&Pod> for Object {
    type Error = RecordError;

    fn try_from(pod: &Pod) -> Result<Self, RecordError> {
        PodFacts::try_from(pod).map(|r| Self::Pod(Arc::new(r)))
    }
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object exists, in this form.
    Set(Object),
    /// The object is gone.
    Delete(ObjectRef),
}

impl Change {
    /// The object it is about.
    pub fn reference(&self) -> ObjectRef {
        match self {
            Self::Set(object) => object.reference(),
            Self::Delete(reference) => reference.clone(),
        }
    }
}

/// Namespace and name of an object, checked as far as needed to tell objects apart.
///
/// A namespaced object without a namespace is in `default`, as it would be for `kubectl apply`.
fn identity(kind: ObjectKind, metadata: &ObjectMeta) -> Result<(Arc<str>, Arc<str>), RecordError> {
    let name = metadata.name.as_deref().unwrap_or_default();
    check_name(kind, "metadata.name", name)?;
    if !kind.namespaced() {
        return Ok(("".into(), name.into()));
    }
    let namespace = match metadata.namespace.as_deref() {
        None | Some("") => "default",
        Some(namespace) => namespace,
    };
    check_name(kind, "metadata.namespace", namespace)?;
    Ok((namespace.into(), name.into()))
}

fn check_name(kind: ObjectKind, field: &'static str, name: &str) -> Result<(), RecordError> {
    if valid_name(name) {
        return Ok(());
    }
    let message = if name.is_empty() {
        "is missing; every object needs a name".to_owned()
    } else if name.len() > MAX_NAME {
        format!("has {} bytes; Kubernetes allows {MAX_NAME}", name.len())
    } else {
        format!("{name:?} has characters other than letters, digits, '-' and '.'")
    };
    Err(RecordError { kind, field, message })
}

/// The longest name that the API allows, in bytes.
const MAX_NAME: usize = 253;

/// Whether a name or namespace can tell objects apart: less than what the API demands, but no name contains a separator.
pub(crate) fn valid_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain)
}
