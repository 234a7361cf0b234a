//! Logging as operators of Kubernetes know it: klog's text lines or the JSON lines of the other components.
//!
//! All crates log through `tracing`; this module decides what passes and what a line looks like. Lines go to
//! standard error, so that standard output holds data only. The clock and the process id are handed in, so
//! every byte of a line can be held by a test.
//!
//! Verbosity is klog's `-v`: 0 and 1 show errors, warnings and information, 2 to 4 add debugging, 5 and more add
//! traces. Libraries that are not Transom's own are heard from below warnings only at 8 and more.
//!
//! It must not know of commands, Kubernetes or HNS.

mod date;
mod fields;
mod json;
mod text;
mod verbosity;

use std::sync::Arc;

use hcn::time::Clock;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, filter};

pub use verbosity::{ModuleVerbosity, Verbosity, VmoduleError};

/// What a log line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// klog's structured text: `I1129 19:47:09.123456    1234 sync.rs:12] "message" key="value"`.
    #[default]
    Text,
    /// One JSON object a line with `ts` (milliseconds since 1970), `caller`, `msg` and `v`.
    Json,
}

/// What is logged and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// How much is logged, everywhere and in single modules.
    pub verbosity: Verbosity,
    /// What a line looks like.
    pub format: Format,
}

/// What a log line takes from outside: the time and the process.
pub struct Origin {
    /// Tells the time of day.
    pub clock: Arc<dyn Clock>,
    /// The process id that the text format shows where klog shows a thread id.
    pub pid: u32,
}

/// Starts logging to standard error for the rest of the process.
///
/// It fails when a subscriber is already set, which is a bug of the caller.
pub fn init(settings: &Settings, origin: Origin) -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
    tracing::subscriber::set_global_default(subscriber(settings, origin, std::io::stderr))
}

/// A subscriber that writes the lines of `settings` to `writer`.
pub fn subscriber<W>(settings: &Settings, origin: Origin, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let verbosity = settings.verbosity.clone();
    let most = verbosity.most();
    let filter = filter::filter_fn(move |metadata| verbosity.admits(metadata)).with_max_level_hint(most);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    match settings.format {
        Format::Text => {
            let lines = layer.fmt_fields(text::Pairs).event_format(text::Lines::new(origin));
            Box::new(Registry::default().with(lines.with_filter(filter)))
        }
        Format::Json => {
            let lines = layer.fmt_fields(json::Pairs).event_format(json::Lines::new(origin));
            Box::new(Registry::default().with(lines.with_filter(filter)))
        }
    }
}

/// The place in the sources that a line names: the file, with its folder or crate where the file name alone
/// says nothing.
fn caller(metadata: &Metadata<'_>) -> String {
    let line = metadata.line().unwrap_or(0);
    let Some(path) = metadata.file() else {
        return format!("{}:{line}", metadata.target());
    };
    let mut parts = path.rsplit(['/', '\\']);
    let file = parts.next().unwrap_or(path);
    if !matches!(file, "mod.rs" | "lib.rs" | "main.rs") {
        return format!("{file}:{line}");
    }
    let folder = match parts.next() {
        Some(folder) if folder != "src" => folder,
        _ => metadata.target().split("::").next().unwrap_or_default(),
    };
    format!("{folder}/{file}:{line}")
}

#[cfg(test)]
mod tests;
