//! Logging flags, named as in Kubernetes' components.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::ignored::{Ignored, Kind, Notice, Row, Table};
use crate::logging::{Format, ModuleVerbosity, Settings, Verbosity};

/// How much is logged and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LoggingArgs {
    /// How much is logged: 0 and 1 information, 2 to 4 debugging, 5 and more traces
    #[arg(short = 'v', long = "v", value_name = "N", default_value_t = 0, global = true,
          value_parser = RangedU64ValueParser::<u8>::new().range(0..=10))]
    pub verbosity: u8,

    /// A verbosity for single modules: pattern=N,… with source file or module names, `*` and `?`
    #[arg(long, value_name = "PATTERN=N", value_delimiter = ',', global = true)]
    pub vmodule: Vec<ModuleVerbosity>,

    /// The form of log lines: klog's text or JSON
    #[arg(
        long,
        visible_alias = "logging-format",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        global = true
    )]
    pub log_format: Format,

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

    /// The same, as the logging module takes it.
    pub fn settings(&self) -> Settings {
        Settings {
            verbosity: Verbosity { everywhere: self.verbosity, modules: self.vmodule.clone() },
            format: self.log_format,
        }
    }
}
