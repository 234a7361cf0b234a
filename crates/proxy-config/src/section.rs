//! How a section of the configuration is read from a tree and written back: one list of fields gives the type, the
//! reader and the writer, so that none of them can forget one.
//!
//! It must not know what the fields mean.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::{Map, Number, Value as Json};

use crate::duration::GoDuration;
use crate::value::Value;

/// What a reader finds on its way: errors end the start, warnings are told.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Values of the wrong type.
    pub(crate) errors: Vec<String>,
    /// Fields that are not known or come twice.
    pub(crate) warnings: Vec<String>,
}

/// A value that a field can have.
pub(crate) trait Field: Sized {
    /// Takes the value of a tree; nothing (`null`) is left to the caller.
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings);
    /// Gives the value for a document.
    fn write(&self) -> Json;
    /// Whether it is Go's zero value, which some fields leave out.
    fn is_empty(&self) -> bool;
}

/// Says that a value is of the wrong type.
fn wrong(value: &Value, path: &str, right: &str, findings: &mut Findings) {
    let shown = match value {
        Value::List(_) | Value::Map(_) => String::new(),
        scalar => format!("{:.80}: ", scalar.to_string()),
    };
    findings.errors.push(format!("{path}: {shown}is {}, but must be {right}", value.kind()));
}

impl Field for String {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::Text(text) => text.clone_into(self),
            Value::Null => {}
            other => wrong(other, path, "a text; write it in quotes", findings),
        }
    }

    fn write(&self) -> Json {
        Json::String(self.clone())
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl Field for bool {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::Bool(value) => *self = *value,
            Value::Null => {}
            other => wrong(other, path, "true or false, without quotes", findings),
        }
    }

    fn write(&self) -> Json {
        Json::Bool(*self)
    }

    fn is_empty(&self) -> bool {
        !*self
    }
}

/// A whole number within bounds; one that is written as 5.0 counts.
fn whole<T: TryFrom<i128>>(value: &Value, path: &str, right: &str, findings: &mut Findings) -> Option<T> {
    let number = match value {
        Value::Int(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked right here")]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => Some(*number as i128),
        _ => None,
    };
    let whole = number.and_then(|number| T::try_from(number).ok());
    if whole.is_none() {
        wrong(value, path, right, findings);
    }
    whole
}

impl Field for i32 {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        if *value != Value::Null {
            let right = "a whole number from -2147483648 to 2147483647";
            *self = whole(value, path, right, findings).unwrap_or(*self);
        }
    }

    fn write(&self) -> Json {
        (*self).into()
    }

    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Field for u32 {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        if *value != Value::Null {
            *self = whole(value, path, "a whole number from 0 to 4294967295", findings).unwrap_or(*self);
        }
    }

    fn write(&self) -> Json {
        (*self).into()
    }

    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Field for f32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the field is a float32"
    )]
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::Int(number) if (*number as f32).is_finite() => *self = *number as f32,
            Value::Float(number) if (*number as f32).is_finite() => *self = *number as f32,
            Value::Null => {}
            other => wrong(other, path, "a number", findings),
        }
    }

    fn write(&self) -> Json {
        // Whole numbers are written without a fraction, as Go does. The shortest text that reads back the same.
        let text = self.to_string();
        let number = text.parse::<i64>().ok().map(Number::from);
        number.or_else(|| text.parse().ok().and_then(Number::from_f64)).map_or(Json::Null, Json::Number)
    }

    fn is_empty(&self) -> bool {
        *self == 0.0
    }
}

impl Field for GoDuration {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::Text(text) => match text.parse() {
                Ok(duration) => *self = duration,
                Err(error) => findings.errors.push(format!("{path}: {text:?}: {error}")),
            },
            Value::Null => {}
            other => wrong(other, path, "a duration with its unit, such as 30s", findings),
        }
    }

    fn write(&self) -> Json {
        Json::String(self.to_string())
    }

    fn is_empty(&self) -> bool {
        self.is_zero()
    }
}

impl<T: Field + Default> Field for Option<T> {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        if *value != Value::Null {
            self.get_or_insert_default().read(value, path, findings);
        }
    }

    fn write(&self) -> Json {
        self.as_ref().map_or(Json::Null, Field::write)
    }

    fn is_empty(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field + Default> Field for Vec<T> {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::List(values) => {
                self.clear();
                for (index, value) in values.iter().enumerate() {
                    let mut element = T::default();
                    element.read(value, &format!("{path}[{index}]"), findings);
                    self.push(element);
                }
            }
            Value::Null => {}
            other => wrong(other, path, "a list", findings),
        }
    }

    fn write(&self) -> Json {
        // Go writes a list that was never made as null.
        if self.is_empty() { Json::Null } else { Json::Array(self.iter().map(Field::write).collect()) }
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl Field for BTreeMap<String, bool> {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        let Value::Map(fields) = value else {
            if *value != Value::Null {
                wrong(value, path, "a map from names to true or false", findings);
            }
            return;
        };
        for (name, value) in fields {
            let mut enabled = false;
            enabled.read(value, &format!("{path}.{name}"), findings);
            if self.insert(name.clone(), enabled).is_some() {
                findings.warnings.push(twice(&format!("{path}.{name}")));
            }
        }
    }

    fn write(&self) -> Json {
        Json::Object(self.iter().map(|(name, enabled)| (name.clone(), Json::Bool(*enabled))).collect())
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// A map with known fields.
pub(crate) trait Section {
    /// The fields' names in a document.
    const KEYS: &'static [&'static str];
    /// Takes one field.
    fn read_field(&mut self, key: &str, value: &Value, path: &str, findings: &mut Findings);
    /// Gives all fields, in the order of their names.
    fn write_fields(&self) -> Map<String, Json>;
}

/// Reads a section whose own path is `path`; `also` are keys that the caller has taken already.
pub(crate) fn read_section<T: Section>(
    section: &mut T,
    value: &Value,
    path: &str,
    also: &[&str],
    findings: &mut Findings,
) {
    let fields = match value {
        Value::Map(fields) => fields,
        Value::Null => return,
        other => return wrong(other, path, "a map", findings),
    };
    let mut seen = BTreeSet::new();
    for (key, value) in fields {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if !seen.insert(key) {
            findings.warnings.push(twice(&path));
        }
        if T::KEYS.contains(&key.as_str()) {
            section.read_field(key, value, &path, findings);
        } else if !also.contains(&key.as_str()) {
            findings.warnings.push(unknown(&path, key, T::KEYS));
        }
    }
}

fn twice(path: &str) -> String {
    format!("{path}: the field comes twice; the last one counts, take the others out")
}

fn unknown(path: &str, key: &str, known: &[&str]) -> String {
    let near = crate::near::nearest(key, known.iter().copied());
    let hint = near.map_or_else(String::new, |near| format!("; {near} is one, if that was meant"));
    format!("{path}: is no field of kube-proxy's configuration and has no effect{hint}")
}

/// Declares a section: its type with the fields' names in a document. `omit` marks fields that are not written while
/// they are empty.
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* $($omit:ident)? $key:literal $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::section::Section for $name {
            const KEYS: &'static [&'static str] = &[$($key),*];

            fn read_field(
                &mut self,
                key: &str,
                value: &$crate::value::Value,
                path: &str,
                findings: &mut $crate::section::Findings,
            ) {
                match key {
                    $($key => $crate::section::Field::read(&mut self.$field, value, path, findings),)*
                    _ => {}
                }
            }

            fn write_fields(&self) -> serde_json::Map<String, serde_json::Value> {
                let mut fields: Vec<(&str, serde_json::Value)> = Vec::new();
                $(
                    if !(section!(@omit $($omit)?) && $crate::section::Field::is_empty(&self.$field)) {
                        fields.push(($key, $crate::section::Field::write(&self.$field)));
                    }
                )*
                fields.sort_by_key(|(key, _)| *key);
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }
        }

        impl $crate::section::Field for $name {
            fn read(
                &mut self,
                value: &$crate::value::Value,
                path: &str,
                findings: &mut $crate::section::Findings,
            ) {
                $crate::section::read_section(self, value, path, &[], findings);
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::Object($crate::section::Section::write_fields(self))
            }

            fn is_empty(&self) -> bool {
                *self == Self::default()
            }
        }
    };
    (@omit) => { false };
    (@omit omit) => { true };
}
pub(crate) use section;
