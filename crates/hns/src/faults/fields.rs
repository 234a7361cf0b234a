//! Reading a YAML mapping field by field, so that every error names the entry and the field.

use std::time::Duration;

use hcn::error::CODES;
use hcn::{Guid, HResult, Kind};
use serde_json::{Map, Value};

use super::action::Target;
use super::glob::Glob;
use super::latency::{Latency, parse_duration};
use super::plan::{PlanError, Window};
use crate::journal::Op;

/// The fields of one mapping: each is taken once, and what is left at the end is an error.
pub(super) struct Fields {
    pub(super) place: String,
    /// Path of the mapping within its entry, with a final dot.
    pub(super) path: String,
    map: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    pub(super) fn of(place: &str, path: &str, value: Value) -> Result<Self, PlanError> {
        match value {
            Value::Object(map) => {
                Ok(Self { place: place.to_owned(), path: path.to_owned(), map, known: Vec::new() })
            }
            other => Err(PlanError::field(
                place,
                path.trim_end_matches('.'),
                format!("{} is not a mapping of fields", shown(&other)),
            )),
        }
    }

    pub(super) fn error(&self, field: &str, problem: impl Into<String>) -> PlanError {
        let field = format!("{}{field}", self.path);
        PlanError::field(&self.place, field.trim_end_matches('.'), problem)
    }

    pub(super) fn take(&mut self, field: &'static str) -> Option<Value> {
        self.known.push(field);
        // `~` means absent, as everywhere in YAML.
        self.map.shift_remove(field).filter(|value| !value.is_null())
    }

    pub(super) fn optional<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&Self, &str, &Value) -> Result<T, PlanError>,
    ) -> Result<Option<T>, PlanError> {
        self.take(field).map(|value| read(self, field, &value)).transpose()
    }

    pub(super) fn required<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&Self, &str, &Value) -> Result<T, PlanError>,
    ) -> Result<T, PlanError> {
        match self.optional(field, read)? {
            Some(value) => Ok(value),
            None => Err(self.error(field, "is missing")),
        }
    }

    pub(super) fn each<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&str, Value) -> Result<T, PlanError>,
    ) -> Result<Vec<T>, PlanError> {
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(rows)) => rows
                .into_iter()
                .enumerate()
                .map(|(index, value)| {
                    let name = value.get("name").and_then(Value::as_str).map(|name| format!(" {name:?}"));
                    read(&format!("{field}[{index}]{}", name.unwrap_or_default()), value)
                })
                .collect(),
            Some(other) => Err(self.error(field, format!("{} is not a list", shown(&other)))),
        }
    }

    pub(super) fn nested(&mut self, field: &'static str) -> Result<Option<Self>, PlanError> {
        let path = format!("{}{field}.", self.path);
        self.take(field).map(|value| Self::of(&self.place, &path, value)).transpose()
    }

    pub(super) fn finish(self) -> Result<(), PlanError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(unknown) => {
                Err(self.error(unknown, format!("is not known here; known are {}", self.known.join(", "))))
            }
        }
    }

    pub(super) fn text(&self, field: &str, value: &Value) -> Result<String, PlanError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            // `subject: 53` is a text to whoever writes it.
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.error(field, format!("{} is not a text", shown(other)))),
        }
    }

    pub(super) fn number<T: TryFrom<u64>>(&self, field: &str, value: &Value) -> Result<T, PlanError> {
        value.as_u64().and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            self.error(
                field,
                format!(
                    "{} is not a whole number from 0 that fits {} bits",
                    shown(value),
                    size_of::<T>() * 8
                ),
            )
        })
    }

    pub(super) fn float(&self, field: &str, value: &Value) -> Result<f64, PlanError> {
        value.as_f64().ok_or_else(|| self.error(field, format!("{} is not a number", shown(value))))
    }

    pub(super) fn flag(&self, field: &str, value: &Value) -> Result<bool, PlanError> {
        value.as_bool().ok_or_else(|| self.error(field, format!("{} is not true or false", shown(value))))
    }

    pub(super) fn duration(&self, field: &str, value: &Value) -> Result<Duration, PlanError> {
        let text = self.text(field, value)?;
        parse_duration(&text).map_err(|problem| self.error(field, problem))
    }

    pub(super) fn guid(&self, field: &str, value: &Value) -> Result<Guid, PlanError> {
        let text = self.text(field, value)?;
        text.parse().map_err(|error: hcn::guid::ParseGuidError| self.error(field, error.to_string()))
    }

    pub(super) fn glob(&self, field: &str, value: &Value) -> Result<Glob, PlanError> {
        self.text(field, value).map(Glob::new)
    }

    /// A code by number (any base that YAML knows), hexadecimal text or name.
    pub(super) fn code(&self, field: &str, value: &Value) -> Result<HResult, PlanError> {
        if let Some(number) = value.as_u64() {
            return u32::try_from(number)
                .map(HResult)
                .map_err(|_| self.error(field, format!("{number} does not fit 32 bits")));
        }
        let text = self.text(field, value)?;
        let named = CODES.iter().find(|code| code.name.eq_ignore_ascii_case(text.trim()));
        named
            .map(|code| code.value)
            .or_else(|| {
                let digits = text.trim().strip_prefix("0x").or_else(|| text.trim().strip_prefix("0X"))?;
                u32::from_str_radix(digits, 16).ok().map(HResult)
            })
            .ok_or_else(|| {
                self.error(
                    field,
                    format!(
                        "{text:?} is no HRESULT; write 0x803B0013 or a name like HCN_E_PORT_ALREADY_EXISTS"
                    ),
                )
            })
    }

    pub(super) fn list<T>(
        &mut self,
        field: &'static str,
        what: &str,
        parse: impl Fn(&str) -> Option<T>,
        all: &[&str],
    ) -> Result<Vec<T>, PlanError> {
        let Some(value) = self.take(field) else { return Ok(Vec::new()) };
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        values
            .into_iter()
            .map(|value| {
                let text = self.text(field, &value)?;
                parse(&text).ok_or_else(|| {
                    self.error(field, format!("{text:?} is no {what}; known are {}", all.join(", ")))
                })
            })
            .collect()
    }

    pub(super) fn ops(&mut self) -> Result<Vec<Op>, PlanError> {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        self.list("op", "operation", Op::parse, &names)
    }

    pub(super) fn kinds(&mut self) -> Result<Vec<Kind>, PlanError> {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.export_word()).collect();
        self.list("kind", "kind", parse_kind, &names)
    }

    pub(super) fn kind(&mut self) -> Result<Kind, PlanError> {
        match self.kinds()?.as_slice() {
            [kind] => Ok(*kind),
            _ => Err(self.error("kind", "is missing or a list; give one kind")),
        }
    }

    pub(super) fn window<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&Self, &str, &Value) -> Result<T, PlanError>,
        zero: T,
    ) -> Result<Option<Window<T>>, PlanError> {
        let Some(mut fields) = self.nested(field)? else { return Ok(None) };
        let from = fields.optional("from", &read)?.unwrap_or(zero);
        let until = fields.optional("until", &read)?;
        fields.finish()?;
        Ok(Some(Window { from, until }))
    }

    /// The distribution among this mapping's fields.
    pub(super) fn latency(&mut self) -> Result<Latency, PlanError> {
        const FORMS: &str = "fixed, uniform, exponential or lognormal";
        let fixed = self.optional("fixed", Self::duration)?.map(Latency::Fixed);
        let uniform = self.nested("uniform")?.map(|mut fields| {
            let latency = Latency::Uniform {
                from: fields.required("from", Self::duration)?,
                to: fields.required("to", Self::duration)?,
            };
            fields.finish().map(|()| latency)
        });
        let exponential = self.nested("exponential")?.map(|mut fields| {
            let latency = Latency::Exponential {
                mean: fields.required("mean", Self::duration)?,
                max: fields.optional("max", Self::duration)?.unwrap_or(Latency::DEFAULT_MAX),
            };
            fields.finish().map(|()| latency)
        });
        let lognormal = self.nested("lognormal")?.map(|mut fields| {
            let latency = Latency::LogNormal {
                median: fields.required("median", Self::duration)?,
                sigma: fields.required("sigma", Self::float)?,
                max: fields.optional("max", Self::duration)?.unwrap_or(Latency::DEFAULT_MAX),
            };
            fields.finish().map(|()| latency)
        });
        let mut found: Vec<Latency> = fixed.into_iter().collect();
        for form in [uniform, exponential, lognormal] {
            found.extend(form.transpose()?);
        }
        match found.as_slice() {
            [latency] => Ok(*latency),
            [] => Err(self.error("", format!("says no latency; give one of {FORMS}"))),
            _ => Err(self.error("", format!("says several latencies; give one of {FORMS}"))),
        }
    }

    pub(super) fn target(&mut self) -> Result<Target, PlanError> {
        Ok(Target { id: self.optional("id", Self::guid)?, subject: self.optional("subject", Self::glob)? })
    }

    /// Settings of a call: a mapping, or JSON text.
    pub(super) fn settings(&mut self) -> Result<String, PlanError> {
        self.required("settings", |fields, field, value| match value {
            Value::Object(_) => Ok(value.to_string()),
            other => fields.text(field, other),
        })
    }

    pub(super) fn actor(&mut self) -> Result<String, PlanError> {
        Ok(self.optional("actor", Self::text)?.unwrap_or_else(|| "other".to_owned()))
    }
}

fn parse_kind(text: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.export_word().eq_ignore_ascii_case(text.trim()))
}

pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}…", text.chars().take(60).collect::<String>()) } else { text }
}
