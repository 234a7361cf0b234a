//! A configuration file: from text to [`KubeProxyConfiguration`] and back.
//!
//! As upstream, fields that are not known or come twice are warnings, since files outlive releases; a wrong kind or
//! version, and values of the wrong type, are errors. It must not know what the fields mean.

use serde_json::{Map, Value as Json};
use thiserror::Error;

use crate::section::{Findings, Section, read_section};
use crate::types::{API_VERSION, KIND, KubeProxyConfiguration};
use crate::value::{self, Value};

/// Why a file is no configuration; all that is wrong, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .0.join("\n"))]
pub struct FileError(pub Vec<String>);

/// A file that was read, before defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it says.
    pub configuration: KubeProxyConfiguration,
    /// What is odd in it: fields without effect.
    pub warnings: Vec<String>,
}

impl Document {
    /// Reads YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let (value, more) = value::read(text).map_err(|error| FileError(vec![error]))?;
        let mut findings = Findings::default();
        if more {
            findings.warnings.push("only the first document of the file is read".to_owned());
        }
        let Value::Map(fields) = &value else {
            let found = if value == Value::Null { "the file is empty" } else { "the file holds no map" };
            return Err(FileError(vec![format!(
                "{found}; a configuration begins with apiVersion: {API_VERSION} and kind: {KIND}"
            )]));
        };
        let mut wrong = Vec::new();
        for (field, right) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let said = fields.iter().rev().find(|(key, _)| key == field).map(|(_, value)| value);
            match said {
                Some(Value::Text(text)) if text == right => {}
                Some(Value::Null) | None => wrong.push(format!("{field}: is missing; it must be {right}")),
                Some(other) => wrong.push(format!("{field}: {other}: must be {right}")),
            }
        }
        // Another document's fields would only hide what matters.
        if !wrong.is_empty() {
            return Err(FileError(wrong));
        }
        let mut configuration = KubeProxyConfiguration::default();
        read_section(&mut configuration, &value, "", &["apiVersion", "kind"], &mut findings);
        if findings.errors.is_empty() {
            Ok(Self { configuration, warnings: findings.warnings })
        } else {
            Err(FileError(findings.errors))
        }
    }
}

impl KubeProxyConfiguration {
    /// The whole configuration as a document with kind and version, in the order of its fields' names.
    pub fn to_json(&self) -> Json {
        let mut fields = self.write_fields();
        fields.insert("apiVersion".to_owned(), Json::String(API_VERSION.to_owned()));
        fields.insert("kind".to_owned(), Json::String(KIND.to_owned()));
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        Json::Object(fields.into_iter().collect::<Map<_, _>>())
    }

    /// The same as YAML, as `--write-config-to` writes it.
    pub fn to_yaml(&self) -> Result<String, FileError> {
        let mut text =
            serde_saphyr::to_string(&self.to_json()).map_err(|error| FileError(vec![error.to_string()]))?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }
}
