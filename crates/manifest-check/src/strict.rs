//! Makes a definition say what the API server holds to and the generated schema leaves open.

use serde_json::{Value, json};

use crate::{ENUMERATIONS, REQUIRED};

/// A quantity as text: a decimal number with a suffix of bytes or tens, or an exponent.
const QUANTITY: &str = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// Tightens one definition in place.
pub(crate) fn tighten(name: &str, definition: &mut Value) {
    if name.ends_with(".api.resource.Quantity") {
        *definition = json!({ "anyOf": [{ "type": "number" }, { "type": "string", "pattern": QUANTITY }] });
        return;
    }
    if name.ends_with(".util.intstr.IntOrString") {
        *definition = json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] });
        return;
    }
    if let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, field, values) in ENUMERATIONS.iter().filter(|(of, _, _)| *of == name) {
            if let Some(property) = properties.get_mut(*field) {
                property["enum"] = json!(values);
            }
        }
    }
    for (_, fields) in REQUIRED.iter().filter(|(of, _)| *of == name) {
        let mut required: Vec<Value> = definition["required"].as_array().cloned().unwrap_or_default();
        for field in *fields {
            if !required.contains(&json!(field)) {
                required.push(json!(field));
            }
        }
        definition["required"] = required.into();
    }
    close(definition);
}

/// An object that lists members has no others. One that lists none is a map and stays open.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // A schema's own keyword, not a field that happens to be called so: that one holds a schema, and no
            // object of objects only.
            let lists = members.get("properties").is_some_and(Value::is_object)
                && members.get("type").is_some_and(|kind| *kind == "object");
            if lists {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            for member in members.values_mut() {
                close(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
