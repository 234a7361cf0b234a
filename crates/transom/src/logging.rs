//! Logging as operators of Kubernetes know it: klog's text lines or the JSON lines of the other components.
//!
//! All crates log through `tracing`; this module decides what passes and what a line looks like. Lines go to
//! standard error, so that standard output holds data only, or to a file; warnings and errors also to an event log. The clock and the process id are handed in, so
//! every byte of a line can be held by a test.
//!
//! Verbosity is klog's `-v`: 0 and 1 show errors, warnings and information, 2 to 4 add debugging, 5 and more add
//! traces. Libraries that are not Transom's own are heard from below warnings only at 8 and more.
//!
//! It must not know of commands, Kubernetes or HNS.

mod date;
pub mod events;
mod fields;
mod file;
mod json;
mod text;
mod verbosity;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hcn::time::Clock;
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, filter};

use events::{EventWriter, Events};
use file::LogFile;

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

/// Where lines go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    #[default]
    StandardError,
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// How many bytes fit; none: any number.
        most: Option<u64>,
    },
}

/// What is logged and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// How much is logged, everywhere and in single modules.
    pub verbosity: Verbosity,
    /// What a line looks like.
    pub format: Format,
    /// Where lines go.
    pub destination: Destination,
    /// Whether warnings and errors also go to the system's event log, where there is one.
    pub event_log: bool,
}

/// What a log line takes from outside: the time and the process.
#[derive(Clone)]
pub struct Origin {
    /// Tells the time of day.
    pub clock: Arc<dyn Clock>,
    /// The process id that the text format shows where klog shows a thread id.
    pub pid: u32,
}

/// Logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The file.
    #[error("--log-file {}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The event log.
    #[error("--log-eventlog: {0}")]
    EventLog(io::Error),
    /// A subscriber is already set, which is a bug of the caller.
    #[error(transparent)]
    Begun(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Starts logging for the rest of the process.
pub fn init(settings: &Settings, origin: Origin) -> Result<(), LoggingError> {
    let events = if settings.event_log { event_log()? } else { None };
    let subscriber = match &settings.destination {
        Destination::StandardError => subscriber(settings, origin, io::stderr, events),
        Destination::File { path, most } => {
            let file = LogFile::open(path, *most)
                .map_err(|cause| LoggingError::File { path: path.clone(), cause })?;
            subscriber(settings, origin, file, events)
        }
    };
    Ok(tracing::subscriber::set_global_default(subscriber)?)
}

/// The system's event log. The command line refuses to ask where there is none.
#[cfg_attr(not(windows), expect(clippy::unnecessary_wraps, reason = "on Windows it can fail"))]
fn event_log() -> Result<Option<Box<dyn Events>>, LoggingError> {
    #[cfg(windows)]
    return Ok(Some(Box::new(crate::windows::eventlog::EventLog::open().map_err(LoggingError::EventLog)?)));
    #[cfg(not(windows))]
    Ok(None)
}

/// A subscriber that writes the lines of `settings` to `writer`, and warnings and errors to `events`.
pub fn subscriber<W>(
    settings: &Settings,
    origin: Origin,
    writer: W,
    events: Option<Box<dyn Events>>,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let verbosity = settings.verbosity.clone();
    let most = verbosity.most();
    let filter = filter::filter_fn(move |metadata| verbosity.admits(metadata)).with_max_level_hint(most);
    let events = events.map(|events| {
        lines(settings.format, origin.clone(), EventWriter::new(events)).with_filter(LevelFilter::WARN)
    });
    let main = lines(settings.format, origin, writer).with_filter(filter);
    Box::new(Registry::default().with(main).with(events))
}

/// Writes lines of a format.
fn lines<S, W>(format: Format, origin: Origin, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    match format {
        Format::Text => layer.fmt_fields(text::Pairs).event_format(text::Lines::new(origin)).boxed(),
        Format::Json => layer.fmt_fields(json::Pairs).event_format(json::Lines::new(origin)).boxed(),
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
