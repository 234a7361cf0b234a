//! Flags about Windows' services and processes, named as kube-proxy and kubelet name them.

use std::fmt;

use clap::{ArgAction, Args, ValueEnum};

use super::ignored::Notice;
use super::values::go_bool;

/// The name of kube-proxy's service.
const SERVICE: &str = "kube-proxy";

/// How the proxy runs on Windows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Windows")]
pub struct WindowsArgs {
    /// Run as a service: the process was started by Windows' service manager
    #[arg(long = "windows-service", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    service: bool,

    /// The name that the service was made with [default: kube-proxy]
    #[arg(long = "windows-service-name", value_name = "NAME", value_parser = service_name)]
    name: Option<String>,

    /// The priority class of the process, as kubelet's flag [default: as it was started]
    #[arg(long = "windows-priorityclass", value_name = "CLASS", value_enum)]
    priority: Option<PriorityClass>,
}

/// A priority class, under its name in Windows' headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PriorityClass {
    /// Only when nothing else runs
    #[value(name = "IDLE_PRIORITY_CLASS")]
    Idle,
    /// Below normal
    #[value(name = "BELOW_NORMAL_PRIORITY_CLASS")]
    BelowNormal,
    /// Normal
    #[value(name = "NORMAL_PRIORITY_CLASS")]
    Normal,
    /// Above normal
    #[value(name = "ABOVE_NORMAL_PRIORITY_CLASS")]
    AboveNormal,
    /// High
    #[value(name = "HIGH_PRIORITY_CLASS")]
    High,
    /// Above all, also above the system's own threads
    #[value(name = "REALTIME_PRIORITY_CLASS")]
    Realtime,
}

impl fmt::Display for PriorityClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// Checks a service's name by the rules of Windows' service manager.
fn service_name(text: &str) -> Result<String, String> {
    const MOST: usize = 256;
    if text.is_empty() || text.encode_utf16().count() > MOST || text.contains(['/', '\\', '\0']) {
        return Err(format!("a service's name has 1 to {MOST} characters and neither / nor \\"));
    }
    Ok(text.to_owned())
}

impl WindowsArgs {
    /// Whether to run as a service. Nowhere but on Windows.
    pub fn as_service(&self) -> bool {
        self.service && cfg!(windows)
    }

    /// Whether a service was asked for, wherever this runs.
    pub(super) fn is_given(&self) -> bool {
        self.service
    }

    /// The service's name.
    pub fn service_name(&self) -> &str {
        self.name.as_deref().unwrap_or(SERVICE)
    }

    /// The priority class that is asked for.
    pub fn priority(&self) -> Option<PriorityClass> {
        self.priority
    }

    /// What does not go with a service.
    pub(super) fn problems(&self, once: bool) -> Option<String> {
        (self.as_service() && once)
            .then(|| "--windows-service cannot be used with '--once': a service stays".to_owned())
    }

    /// The flags that were given and have no effect, here or for this command.
    pub(super) fn notices(&self, is_proxy: bool) -> Vec<Notice> {
        let reason = match (cfg!(windows), is_proxy) {
            (true, true) => return Vec::new(),
            (true, false) => "it is for `transom proxy`",
            (false, _) => "it concerns Windows only",
        };
        [
            ("--windows-service", self.service),
            ("--windows-service-name", self.name.is_some()),
            ("--windows-priorityclass", self.priority.is_some()),
        ]
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(flag, _)| Notice { flag: flag.to_owned(), reason })
        .collect()
    }
}
