//! Which resources are served, as one table: names, scope, selectable fields and what a write may do.
//!
//! Kinds with the same [`Storage`] are two representations of the same objects, as `v1` and `events.k8s.io/v1` Events
//! are. This module must not know requests or stores.

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event as EventsEvent;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Where a kind's objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Storage {
    ConfigMaps,
    EndpointSlices,
    Events,
    Namespaces,
    Nodes,
    Pods,
    ServiceCidrs,
    Services,
}

impl Storage {
    pub(crate) const COUNT: usize = 8;

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The kind in whose form the objects are kept.
    pub(crate) fn kind(self) -> &'static Kind {
        match self {
            Self::ConfigMaps => &CONFIG_MAPS,
            Self::EndpointSlices => &ENDPOINT_SLICES,
            Self::Events => &EVENTS,
            Self::Namespaces => &NAMESPACES,
            Self::Nodes => &NODES,
            Self::Pods => &PODS,
            Self::ServiceCidrs => &SERVICE_CIDRS,
            Self::Services => &SERVICES,
        }
    }
}

/// A field that a selector may name: its label, where it is in the stored object, and what it is when it is absent.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) label: &'static str,
    pointer: &'static str,
    absent: &'static str,
}

/// One resource.
#[expect(clippy::struct_excessive_bools, reason = "a row of a table: each is a property of its own")]
#[expect(clippy::struct_field_names, reason = "a kind's `kind` is what the API calls it")]
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) namespaced: bool,
    /// Whether `/status` is a resource of its own.
    pub(crate) status: bool,
    pub(crate) storage: Storage,
    /// Whether `metadata.generation` counts changes of what is wanted.
    pub(crate) generation: bool,
    /// Whether a deletion answers with the object and not with a `Status`.
    pub(crate) returns_deleted: bool,
    /// Whether a PUT to a name that does not exist creates it.
    pub(crate) create_on_update: bool,
    /// Whether a PUT may leave the resource version out.
    pub(crate) unconditional_update: bool,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [Field],
    /// Names of members: as stored, as shown.
    renamed: &'static [(&'static str, &'static str)],
    typed: fn(Value) -> Result<Value, serde_json::Error>,
    /// What a bookmark's object has besides its metadata.
    empty: fn() -> Value,
}

impl Kind {
    /// `services`, `endpointslices.discovery.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `v1`, `discovery.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Reads an object as its type and writes it again: wrong types are refused, what the type does not have is dropped,
    /// and the rest is in the form in which it is stored, without `kind` and `apiVersion`.
    pub(crate) fn normalise(&self, object: Value) -> Result<Map<String, Value>, serde_json::Error> {
        let Value::Object(mut members) = (self.typed)(object)? else { return Ok(Map::new()) };
        members.shift_remove("kind");
        members.shift_remove("apiVersion");
        Ok(rename(members, self.renamed.iter().map(|(stored, shown)| (*shown, *stored))))
    }

    /// A stored object in this kind's form. `None` where it is the stored form already.
    pub(crate) fn shown(&self, stored: &[u8]) -> Option<Map<String, Value>> {
        if self.renamed.is_empty() {
            return None;
        }
        let members = serde_json::from_slice(stored).unwrap_or_default();
        Some(rename(members, self.renamed.iter().copied()))
    }

    /// The object of a bookmark, without `kind` and `apiVersion`. Upstream writes the type's zero value.
    pub(crate) fn bookmark(&self, revision: u64, initial_events_end: bool) -> Map<String, Value> {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = Map::new();
        object.insert("metadata".to_owned(), metadata);
        if let Value::Object(rest) = (self.empty)() {
            object.extend(rest);
        }
        object
    }

    /// The stored name of a field's label, as `involvedObject.kind` for `regarding.kind`.
    pub(crate) fn field(&self, label: &str) -> Option<usize> {
        let wanted = self
            .renamed
            .iter()
            .find_map(|(stored, shown)| {
                let rest = label.strip_prefix(shown)?;
                (rest.is_empty() || rest.starts_with('.')).then(|| format!("{stored}{rest}"))
            })
            .unwrap_or_else(|| label.to_owned());
        self.fields.iter().position(|field| field.label == wanted)
    }

    /// The values of [`Kind::fields`], in their order.
    pub(crate) fn field_values(&self, object: &Map<String, Value>) -> Vec<String> {
        self.fields
            .iter()
            .map(|field| {
                let mut parts = field.pointer.split('/');
                let first = parts.next().and_then(|part| object.get(part));
                match parts.fold(first, |value, part| value?.get(part)) {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Bool(flag)) => flag.to_string(),
                    Some(Value::Number(number)) => number.to_string(),
                    _ => field.absent.to_owned(),
                }
            })
            .collect()
    }
}

fn rename<'a>(
    members: Map<String, Value>,
    names: impl Iterator<Item = (&'a str, &'a str)>,
) -> Map<String, Value> {
    let names: Vec<(&str, &str)> = names.collect();
    if names.is_empty() {
        return members;
    }
    members
        .into_iter()
        .map(|(name, value)| match names.iter().find(|(from, _)| *from == name) {
            Some((_, to)) => ((*to).to_owned(), value),
            None => (name, value),
        })
        .collect()
}

fn typed<T: Serialize + DeserializeOwned>(object: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}

const fn field(label: &'static str, pointer: &'static str, absent: &'static str) -> Field {
    Field { label, pointer, absent }
}

/// What most kinds have in common; each names what is its own.
const BASE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    namespaced: true,
    status: false,
    storage: Storage::ConfigMaps,
    generation: false,
    returns_deleted: false,
    create_on_update: false,
    unconditional_update: true,
    fields: &[],
    renamed: &[],
    typed: typed::<ConfigMap>,
    empty: || json!({}),
};

static CONFIG_MAPS: Kind =
    Kind { kind: "ConfigMap", plural: "configmaps", singular: "configmap", short_names: &["cm"], ..BASE };

static ENDPOINT_SLICES: Kind = Kind {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    storage: Storage::EndpointSlices,
    generation: true,
    typed: typed::<EndpointSlice>,
    empty: || json!({"addressType": "", "endpoints": null, "ports": null}),
    ..BASE
};

/// Core's Events and those of `events.k8s.io` are the same objects.
static EVENTS: Kind = Kind {
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    storage: Storage::Events,
    create_on_update: true,
    fields: &[
        field("involvedObject.kind", "involvedObject/kind", ""),
        field("involvedObject.namespace", "involvedObject/namespace", ""),
        field("involvedObject.name", "involvedObject/name", ""),
        field("involvedObject.uid", "involvedObject/uid", ""),
        field("involvedObject.apiVersion", "involvedObject/apiVersion", ""),
        field("involvedObject.resourceVersion", "involvedObject/resourceVersion", ""),
        field("involvedObject.fieldPath", "involvedObject/fieldPath", ""),
        field("reason", "reason", ""),
        field("reportingComponent", "reportingComponent", ""),
        field("source", "source/component", ""),
        field("type", "type", ""),
    ],
    typed: typed::<Event>,
    empty: || {
        json!({
            "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        })
    },
    ..BASE
};

static EVENTS_EVENTS: Kind = Kind {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    storage: Storage::Events,
    create_on_update: true,
    fields: EVENTS.fields,
    renamed: &[
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("reportingComponent", "reportingController"),
        ("source", "deprecatedSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
    ],
    typed: typed::<EventsEvent>,
    empty: || {
        json!({
            "eventTime": null, "regarding": {}, "deprecatedSource": {},
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        })
    },
    ..BASE
};

static NAMESPACES: Kind = Kind {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    status: true,
    storage: Storage::Namespaces,
    returns_deleted: true,
    fields: &[field("status.phase", "status/phase", "")],
    typed: typed::<Namespace>,
    empty: || json!({"spec": {}, "status": {}}),
    ..BASE
};

static NODES: Kind = Kind {
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    namespaced: false,
    status: true,
    storage: Storage::Nodes,
    fields: &[field("spec.unschedulable", "spec/unschedulable", "false")],
    typed: typed::<Node>,
    empty: || {
        json!({"spec": {}, "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
                "architecture": "",
            },
        }})
    },
    ..BASE
};

static PODS: Kind = Kind {
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    status: true,
    storage: Storage::Pods,
    generation: true,
    returns_deleted: true,
    fields: &[
        field("spec.nodeName", "spec/nodeName", ""),
        field("spec.restartPolicy", "spec/restartPolicy", ""),
        field("spec.schedulerName", "spec/schedulerName", ""),
        field("spec.serviceAccountName", "spec/serviceAccountName", ""),
        field("spec.hostNetwork", "spec/hostNetwork", "false"),
        field("status.phase", "status/phase", ""),
        field("status.podIP", "status/podIP", ""),
        field("status.nominatedNodeName", "status/nominatedNodeName", ""),
    ],
    typed: typed::<Pod>,
    empty: || json!({"spec": {"containers": null}, "status": {}}),
    ..BASE
};

static SERVICE_CIDRS: Kind = Kind {
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    singular: "servicecidr",
    namespaced: false,
    status: true,
    storage: Storage::ServiceCidrs,
    unconditional_update: false,
    typed: typed::<ServiceCIDR>,
    empty: || json!({"spec": {}, "status": {}}),
    ..BASE
};

static SERVICES: Kind = Kind {
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    status: true,
    storage: Storage::Services,
    returns_deleted: true,
    create_on_update: true,
    fields: &[field("spec.clusterIP", "spec/clusterIP", ""), field("spec.type", "spec/type", "")],
    typed: typed::<Service>,
    empty: || json!({"spec": {}, "status": {"loadBalancer": {}}}),
    ..BASE
};

/// All kinds, in the order of discovery.
pub(crate) static KINDS: [&Kind; 9] = [
    &CONFIG_MAPS,
    &EVENTS,
    &NAMESPACES,
    &NODES,
    &PODS,
    &SERVICES,
    &ENDPOINT_SLICES,
    &EVENTS_EVENTS,
    &SERVICE_CIDRS,
];

/// The kind of an object that says `apiVersion` and `kind`.
pub(crate) fn by_type(api_version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.kind == kind && known.api_version() == api_version).copied()
}

/// The kind of a path's parts.
pub(crate) fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|known| known.group == group && known.version == version && known.plural == plural)
        .copied()
}
