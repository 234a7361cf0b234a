//! Manifests against Kubernetes' own schemas.
//!
//! The schemas are those that `k8s-openapi` makes of Kubernetes' OpenAPI document. Two things are said more strictly
//! than there: an object that lists its members has no others (a misspelt field is what the API server drops in
//! silence), and quantities and ports that may be number or text have the form that they must have. OpenAPI's second
//! version lists no values of enumerations; those that the manifests use are in [`ENUMERATIONS`], and what the API
//! server demands beyond types in [`REQUIRED`].
//!
//! It must not know which manifests there are.

mod strict;

use jsonschema::Validator;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Values of fields, by the definition and the field: what the API's reference lists and the schema does not.
pub const ENUMERATIONS: &[(&str, &str, &[&str])] = &[
    ("io.k8s.api.apps.v1.DaemonSetUpdateStrategy", "type", &["OnDelete", "RollingUpdate"]),
    ("io.k8s.api.core.v1.Container", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("io.k8s.api.core.v1.ContainerPort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("io.k8s.api.core.v1.HTTPGetAction", "scheme", &["HTTP", "HTTPS"]),
    (
        "io.k8s.api.core.v1.PodSpec",
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ),
    ("io.k8s.api.core.v1.PodSpec", "restartPolicy", &["Always", "Never", "OnFailure"]),
    ("io.k8s.api.core.v1.Toleration", "effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    ("io.k8s.api.core.v1.Toleration", "operator", &["Equal", "Exists", "Gt", "Lt"]),
    ("io.k8s.api.rbac.v1.Subject", "kind", &["Group", "ServiceAccount", "User"]),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
        "operator",
        &["DoesNotExist", "Exists", "In", "NotIn"],
    ),
];

/// Members that the API server demands and the schema has as optional.
pub const REQUIRED: &[(&str, &[&str])] = &[
    ("io.k8s.api.apps.v1.DaemonSet", &["apiVersion", "kind", "metadata", "spec"]),
    ("io.k8s.api.core.v1.ConfigMap", &["apiVersion", "kind", "metadata"]),
    ("io.k8s.api.core.v1.Container", &["image"]),
    ("io.k8s.api.core.v1.PodTemplateSpec", &["metadata", "spec"]),
    ("io.k8s.api.core.v1.ServiceAccount", &["apiVersion", "kind", "metadata"]),
    ("io.k8s.api.rbac.v1.ClusterRole", &["apiVersion", "kind", "metadata"]),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", &["apiVersion", "kind", "metadata", "subjects"]),
];

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{document}: {field}: {why}")]
pub struct Problem {
    /// The document: kind and name.
    pub document: String,
    /// The field, as a JSON pointer; `/` is the document itself.
    pub field: String,
    /// What is wrong.
    pub why: String,
}

/// Schemas that a checker could not be made of: a fault of this crate.
#[derive(Debug, Error)]
#[error("the schema of {kind} cannot be used: {why}")]
pub struct SchemaError {
    kind: &'static str,
    why: String,
}

/// The kinds that are known, with their API version and the definition that holds their schema.
const KINDS: &[(&str, &str, &str)] = &[
    ("apps/v1", "DaemonSet", "io.k8s.api.apps.v1.DaemonSet"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "io.k8s.api.rbac.v1.ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "io.k8s.api.rbac.v1.ClusterRoleBinding"),
    ("v1", "ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
    ("v1", "ServiceAccount", "io.k8s.api.core.v1.ServiceAccount"),
];

/// Checks documents.
pub struct Checker {
    validators: Vec<(&'static str, &'static str, Validator)>,
}

impl Checker {
    /// Prepares the schemas.
    pub fn new() -> Result<Self, SchemaError> {
        let definitions = definitions();
        let mut validators = Vec::new();
        for (api_version, kind, definition) in KINDS {
            let bad = |why: String| SchemaError { kind, why };
            if !definitions.contains_key(*definition) {
                return Err(bad(format!("there is no definition {definition}")));
            }
            let schema = json!({ "$ref": format!("#/$defs/{definition}"), "$defs": definitions });
            let validator = jsonschema::validator_for(&schema).map_err(|error| bad(error.to_string()))?;
            validators.push((*api_version, *kind, validator));
        }
        Ok(Self { validators })
    }

    /// Everything that is wrong with a document.
    pub fn check(&self, document: &Value) -> Vec<Problem> {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let name = format!("{kind} {}", text("/metadata/name"));
        let problem = |field: &str, why: String| Problem {
            document: name.trim().to_owned(),
            field: field.to_owned(),
            why,
        };
        let known = self.validators.iter().find(|(version, of, _)| (*version, *of) == (api_version, kind));
        let Some((_, _, validator)) = known else {
            let why = format!("{kind:?} of {api_version:?} is no kind with a schema here");
            return vec![problem("/kind", why)];
        };
        let mut problems: Vec<Problem> = validator
            .iter_errors(document)
            .map(|error| {
                let field = error.instance_path().to_string();
                problem(if field.is_empty() { "/" } else { &field }, error.to_string())
            })
            .collect();
        if text("/metadata/name").is_empty() {
            problems.push(problem("/metadata/name", "is missing".to_owned()));
        }
        problems
    }
}

/// Every definition that the kinds need, made strict.
fn definitions() -> Map<String, Value> {
    let mut generator = SchemaGenerator::default();
    generator.subschema_for::<DaemonSet>();
    generator.subschema_for::<ConfigMap>();
    generator.subschema_for::<ServiceAccount>();
    generator.subschema_for::<ClusterRole>();
    generator.subschema_for::<ClusterRoleBinding>();
    let mut definitions = generator.take_definitions(true);
    for (name, definition) in &mut definitions {
        strict::tighten(name, definition);
    }
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_definitions_and_fields_that_are_there() {
        let definitions = definitions();
        for (definition, field, values) in ENUMERATIONS {
            let found = &definitions[*definition]["properties"][*field];
            assert_eq!(found["enum"], json!(values), "{definition}.{field}: {found}");
        }
        for (definition, fields) in REQUIRED {
            for field in *fields {
                assert!(definitions[*definition]["properties"].get(*field).is_some(), "{definition}.{field}");
            }
        }
    }
}
