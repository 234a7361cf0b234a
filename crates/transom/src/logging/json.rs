//! The JSON lines of Kubernetes' components.
//!
//! ```json
//! {"ts":1764445629123.456,"caller":"reconcile.rs:88","msg":"Load balancer created","v":0,"calls":1}
//! ```
//!
//! `ts` is milliseconds since 1970, `v` the verbosity at which the line appears. An error has no `v`. Other
//! components leave it at that, so that a warning cannot be told from information; here a warning and an error
//! also carry `level`.

use std::fmt::{self, Write};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::fields::{Fields, Value};
use super::verbosity::verbosity_of;
use super::{Origin, caller, date};

/// The keys that every line has; a field of such a name gets an underscore, since a key must not come twice.
const TAKEN: &[&str] = &["ts", "caller", "msg", "v", "level"];

/// Writes one event as one line.
pub(super) struct Lines {
    origin: Origin,
}

impl Lines {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin }
    }
}

impl<S> FormatEvent<S, Pairs> for Lines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, Pairs>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        write!(writer, "{{\"ts\":{},\"caller\":", date::epoch_millis(self.origin.clock.wall()))?;
        string(&mut writer, &caller(metadata))?;
        writer.write_str(",\"msg\":")?;
        string(&mut writer, &fields.message)?;
        match *metadata.level() {
            Level::ERROR => writer.write_str(",\"level\":\"error\"")?,
            Level::WARN => writer.write_str(",\"v\":0,\"level\":\"warning\"")?,
            level => write!(writer, ",\"v\":{}", verbosity_of(level))?,
        }
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(pairs) = span.extensions().get::<FormattedFields<Pairs>>() {
                writer.write_str(&pairs.fields)?;
            }
        }
        write_pairs(&mut writer, &fields)?;
        writer.write_str("}\n")
    }
}

/// Writes the fields of a span, each with a comma before it.
pub(super) struct Pairs;

impl<'w> FormatFields<'w> for Pairs {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut read = Fields::default();
        fields.record(&mut read);
        write_pairs(&mut writer, &read)
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

fn write_pairs(out: &mut dyn Write, fields: &Fields) -> fmt::Result {
    for (name, value) in &fields.pairs {
        let apart = if TAKEN.contains(name) { "_" } else { "" };
        write!(out, ",\"{name}{apart}\":")?;
        match value {
            Value::Number(number) => out.write_str(number)?,
            Value::Bool(truth) => write!(out, "{truth}")?,
            Value::Text(text) => string(out, text)?,
        }
    }
    Ok(())
}

fn string(out: &mut dyn Write, text: &str) -> fmt::Result {
    out.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}
