//! Logging flags, named as in Kubernetes' components.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::ignored::{Ignored, Kind, Notice, Row};
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
    #[arg(long, visible_alias = "logging-format", value_name = "FORMAT", value_enum, default_value_t, global = true)]
    pub log_format: Format,
}

impl LoggingArgs {
    /// The same, as the logging module takes it.
    pub fn settings(&self) -> Settings {
        Settings {
            verbosity: Verbosity { everywhere: self.verbosity, modules: self.vmodule.clone() },
            format: self.log_format,
        }
    }
}
