//! Logging flags, named as in Kubernetes' components.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args};
use proxy_config::settings::LogSettings;

use super::ignored::{Ignored, Kind, Notice, Row, Table};
use super::values::go_bool;
use crate::logging::{Destination, Format, ModuleVerbosity, Settings, Verbosity};

/// How much is logged and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LoggingArgs {
    /// How much is logged: 0 and 1 information, 2 to 4 debugging, 5 and more traces [default: 0]
    #[arg(short = 'v', long = "v", value_name = "N", global = true,
          value_parser = RangedU64ValueParser::<u8>::new().range(0..=10))]
    pub verbosity: Option<u8>,

    /// A verbosity for single modules: pattern=N,… with source file or module names, `*` and `?`
    #[arg(long, value_name = "PATTERN=N", value_delimiter = ',', global = true)]
    pub vmodule: Vec<ModuleVerbosity>,

    /// The form of log lines: klog's text or JSON [default: text]
    #[arg(long, visible_alias = "logging-format", value_name = "FORMAT", value_enum, global = true)]
    pub log_format: Option<Format>,

    /// A file that log lines go to, instead of standard error
    #[arg(long, value_name = "FILE", global = true)]
    pub log_file: Option<PathBuf>,

    /// How large the log file may become, in megabytes; then it becomes FILE.old and a new one begins. 0: any size
    #[arg(long, value_name = "MB", default_value_t = 1800, global = true)]
    pub log_file_max_size: u32,

    /// Write warnings and errors to Windows' event log too, under the source transom [default: as a service without --log-file]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = go_bool, action = ArgAction::Set, global = true)]
    pub log_eventlog: Option<bool>,

    #[command(flatten)]
    ignored: Ignored<WithoutEffect>,
}

/// The flags that are accepted without effect.
#[derive(Debug, Default)]
struct WithoutEffect;

impl Table for WithoutEffect {
    const HEADING: &'static str = "Logging flags without effect";
    const GLOBAL: bool = true;
    const SHOWN: bool = false;
    const ROWS: &'static [Row] = &[
        Row { flag: "log-flush-frequency", kind: Kind::Duration, reason: UNBUFFERED },
        Row { flag: "log-text-split-stream", kind: Kind::Bool, reason: ONE_STREAM },
        Row { flag: "log-text-info-buffer-size", kind: Kind::Text, reason: UNBUFFERED },
        Row { flag: "log-json-split-stream", kind: Kind::Bool, reason: ONE_STREAM },
        Row { flag: "log-json-info-buffer-size", kind: Kind::Text, reason: UNBUFFERED },
    ];
}

/// A line that waits in a buffer is lost in a crash, when it is needed most.
const UNBUFFERED: &str = "each line is written at once";
const ONE_STREAM: &str = "all lines go to standard error";

impl LoggingArgs {
    /// The flags that were given and have no effect.
    pub(super) fn notices(&self) -> Vec<Notice> {
        self.ignored.notices().to_vec()
    }

    /// What cannot be had here.
    pub(super) fn problems(&self) -> Option<String> {
        (self.log_eventlog == Some(true) && !cfg!(windows)).then(|| {
            "--log-eventlog: only Windows has an event log; leave the flag out, or give --log-file <FILE>"
                .to_owned()
        })
    }

    /// The flags that are kube-proxy's and were given.
    pub(super) fn given(&self) -> Vec<(&'static str, String)> {
        let verbosity = self.verbosity.map(|verbosity| ("v", verbosity.to_string()));
        let modules: Vec<String> = self.vmodule.iter().map(ToString::to_string).collect();
        let modules = (!modules.is_empty()).then(|| ("vmodule", modules.join(",")));
        let format = self.log_format.map(|format| match format {
            Format::Text => "text",
            Format::Json => "json",
        });
        let format = format.map(|format| ("logging-format", format.to_owned()));
        [verbosity, modules, format].into_iter().flatten().collect()
    }

    /// How to log: what the flags say, else the file. A service has no standard error that anybody reads.
    pub fn settings(&self, as_service: bool, file: Option<&LogSettings>) -> Settings {
        const MEGABYTE: u64 = 1024 * 1024;
        /// Above this everything is logged.
        const MOST: u32 = 10;
        let most = Some(u64::from(self.log_file_max_size) * MEGABYTE).filter(|most| *most > 0);
        let level = |verbosity: u32| u8::try_from(verbosity.min(MOST)).unwrap_or_default();
        let of_file = || {
            file.map_or_else(Vec::new, |file| {
                let modules = file.vmodule.iter();
                // The rules of the file have seen to it that each has a pattern.
                modules
                    .filter_map(|(pattern, verbosity)| {
                        format!("{pattern}={}", level(*verbosity)).parse().ok()
                    })
                    .collect()
            })
        };
        let modules = if self.vmodule.is_empty() { of_file() } else { self.vmodule.clone() };
        let everywhere = self.verbosity.or(file.map(|file| level(file.verbosity))).unwrap_or_default();
        let format = self.log_format.or(file.filter(|file| file.json).map(|_| Format::Json));
        Settings {
            destination: self
                .log_file
                .clone()
                .map_or(Destination::StandardError, |path| Destination::File { path, most }),
            event_log: self.log_eventlog.unwrap_or(as_service && self.log_file.is_none()),
            verbosity: Verbosity { everywhere, modules },
            format: format.unwrap_or_default(),
        }
    }
}
