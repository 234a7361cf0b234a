//! klog's structured text lines.
//!
//! A line is a header, the quoted message and `key=value` pairs:
//!
//! ```text
//! I1129 19:47:09.123456    1234 reconcile.rs:88] "Load balancer created" service="shop/cart:http" calls=1
//! ```
//!
//! The header is a letter for the severity, month and day, the time with microseconds, the process id in seven
//! places and the source file with its line. Text is quoted, numbers and truth values are not; text of several
//! lines is indented between `=<` and ` >`. The pairs of enclosing spans come before those of the event.

use std::fmt::{self, Write};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::fields::{Fields, Value};
use super::{Origin, caller, date};

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
        let severity = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let at = date::moment(self.origin.clock.wall());
        write!(
            writer,
            "{severity}{:02}{:02} {:02}:{:02}:{:02}.{:06} {:7} {}] ",
            at.month,
            at.day,
            at.hour,
            at.minute,
            at.second,
            at.microsecond,
            self.origin.pid,
            caller(metadata),
        )?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        quote(&mut writer, &fields.message)?;
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(pairs) = span.extensions().get::<FormattedFields<Pairs>>() {
                writer.write_str(&pairs.fields)?;
            }
        }
        write_pairs(&mut writer, &fields)?;
        writer.write_char('\n')
    }
}

/// Writes the fields of a span, each with a space before it.
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
        write!(out, " {name}")?;
        match value {
            Value::Number(number) => write!(out, "={number}")?,
            Value::Bool(truth) => write!(out, "={truth}")?,
            Value::Text(text) if text.contains('\n') => write_block(out, text)?,
            Value::Text(text) => {
                out.write_char('=')?;
                quote(out, text)?;
            }
        }
    }
    Ok(())
}

/// Text of several lines: one tab before each line, between `=<` and ` >`.
fn write_block(out: &mut dyn Write, text: &str) -> fmt::Result {
    out.write_str("=<\n")?;
    for line in text.lines() {
        writeln!(out, "\t{line}")?;
    }
    out.write_str(" >")
}

/// A string in double quotes, with the escapes that Go programs print.
fn quote(out: &mut dyn Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\u{7}' => out.write_str("\\a")?,
            '\u{8}' => out.write_str("\\b")?,
            '\t' => out.write_str("\\t")?,
            '\n' => out.write_str("\\n")?,
            '\u{b}' => out.write_str("\\v")?,
            '\u{c}' => out.write_str("\\f")?,
            '\r' => out.write_str("\\r")?,
            c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c))?,
            // Spaces other than the plain one look like it and would mislead; controls could steer a terminal.
            c if !c.is_ascii() && (c.is_control() || c.is_whitespace() || invisible(c)) => {
                let code = u32::from(c);
                if code < 0x1_0000 { write!(out, "\\u{code:04x}")? } else { write!(out, "\\U{code:08x}")? }
            }
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

/// Characters that are neither controls nor spaces and yet show nothing, or turn the direction of what follows.
fn invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        let table = [
            ("plain", r#""plain""#),
            ("", r#""""#),
            (r#"a "b" \c"#, r#""a \"b\" \\c""#),
            ("tab\tbell\u{7}", r#""tab\tbell\a""#),
            ("esc\u{1b}[31m", r#""esc\x1b[31m""#),
            ("del\u{7f}", r#""del\x7f""#),
            ("größe", r#""größe""#),
            ("c1\u{85}", r#""c1\u0085""#),
            ("nbsp\u{a0}", r#""nbsp\u00a0""#),
            ("rtl\u{202e}", r#""rtl\u202e""#),
            ("tag\u{e0041}", r#""tag\U000e0041""#),
            ("line\nbreak", r#""line\nbreak""#),
        ];
        for (text, want) in table {
            let mut got = String::new();
            quote(&mut got, text).expect("a string takes everything");
            assert_eq!(got, want);
        }
    }
}
