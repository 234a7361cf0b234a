//! The fields of an event or a span, read out of `tracing` with their kinds kept.
//!
//! It must not know how a line looks.

use std::error::Error;
use std::fmt;

use tracing::field::{Field, Visit};

/// One value, of a kind that the line formats treat differently.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Text, and everything that is logged by its `Display` or `Debug` form.
    Text(String),
    /// A number that fits JSON as it is.
    Number(String),
    /// A truth value.
    Bool(bool),
}

/// What was logged.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The message, empty when there is none.
    pub(super) message: String,
    /// The named values, in the order of the call; `err` first, as klog has it.
    pub(super) pairs: Vec<(&'static str, Value)>,
}

impl Fields {
    fn push(&mut self, field: &Field, value: Value) {
        // A raw identifier (`r#type = …`) is a matter of the source text.
        let name = field.name().strip_prefix("r#").unwrap_or(field.name());
        match (name, value) {
            ("message", Value::Text(text)) => self.message = text,
            ("err" | "error", value) => self.pairs.insert(0, ("err", value)),
            (name, value) => self.pairs.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, Value::Text(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Value::Number(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, Value::Number(value.to_string()));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.push(field, Value::Number(value.to_string()));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.push(field, Value::Number(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON knows neither NaN nor infinity.
        let text = value.to_string();
        self.push(field, if value.is_finite() { Value::Number(text) } else { Value::Text(text) });
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.push(field, Value::Text(text));
    }
}
