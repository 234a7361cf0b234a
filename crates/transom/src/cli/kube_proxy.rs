//! kube-proxy's flags as they stand on Windows, and what comes of them.
//!
//! The flags are a table of the crate `proxy_config`, which also knows their rules; this module makes arguments of the
//! rows and keeps what was given. Without a configuration file the settings are known at once, and all that is wrong
//! is told as a mistake of the command line; with one, whoever reads the file finishes them.

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use proxy_config::flags::{Flag, Group, TABLE};
use proxy_config::{Document, Flags, Problems, ProxySettings, Sources};

use super::ignored::Notice;

/// The variable that names the HNS network where nothing else does.
const KUBE_NETWORK: &str = "KUBE_NETWORK";

/// kube-proxy's flags.
#[derive(Debug, Args)]
pub struct KubeProxyArgs {
    /// What kube-proxy has no flags for.
    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    given: Given,

    /// What the flags and a file come to.
    #[arg(skip)]
    settings: Option<Box<ProxySettings>>,

    /// What is to be told about that.
    #[arg(skip)]
    warnings: Vec<String>,
}

/// What kube-proxy has no flags for.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// Names of HNS endpoints whose address is the source VIP, first found first taken
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = WINDOWS,
          default_values_t = ["Calico_ep".to_owned(), "source_vip".to_owned()])]
    pub source_vip_endpoint: Vec<String>,

    /// How many calls of HNS may be under way at a time, where they do not depend on each other; kube-proxy makes one at a
    /// time, and whether HNS works on several at once is not known
    #[arg(long, value_name = "COUNT", help_heading = CALLS, default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub hns_parallel_calls: u8,

    /// Read back each load balancer that was made, and try again if it is not what was asked for
    #[arg(long, help_heading = CALLS)]
    pub hns_verify_writes: bool,

    /// When HNS has restarted, make every load balancer anew, one at a time: a remedy where HNS still lists load balancers
    /// that its switch has lost
    #[arg(long, help_heading = CALLS)]
    pub hns_reapply_after_restart: bool,
}

const CALLS: &str = "How HNS is called";

const WINDOWS: &str = "kube-proxy's Windows flags";

/// The flags of the table that were given.
#[derive(Debug, Default)]
struct Given(Flags);

impl KubeProxyArgs {
    /// The settings. `None` as long as a configuration file that was named has not been read.
    pub fn settings(&self) -> Option<&ProxySettings> {
        self.settings.as_deref()
    }

    /// What is to be told about the settings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The configuration file that was named.
    pub fn config(&self) -> Option<String> {
        self.given.0.start().config
    }

    /// The node's name as a flag gives it.
    pub fn hostname_override(&self) -> Option<String> {
        self.values("hostname-override")
            .last()
            .map(|name| name.trim().to_lowercase())
            .filter(|name| !name.is_empty())
    }

    /// Whether a flag was given with something in it.
    pub(super) fn says(&self, name: &str) -> bool {
        self.values(name).any(|value| !value.trim().is_empty())
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.given.0.given().filter(move |(flag, _)| flag.name == name).map(|(_, value)| value)
    }

    /// Takes flags of the table that are declared elsewhere.
    pub(super) fn also(
        &mut self,
        flags: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<(), String> {
        flags.into_iter().try_for_each(|(name, value)| self.given.0.give(name, &value))
    }

    /// Makes the settings of the flags and, where one was named, the file.
    pub fn resolve(&mut self, file: Option<&Document>, host_name: &str) -> Result<(), Problems> {
        let kube_network = std::env::var(KUBE_NETWORK).ok();
        let sources =
            Sources { file, flags: &self.given.0, kube_network: kube_network.as_deref(), host_name };
        let resolved = sources.resolve()?;
        self.settings = Some(Box::new(resolved.settings));
        self.warnings = resolved.warnings;
        Ok(())
    }

    /// What is wrong with the values taken together, as far as no file is needed to know it.
    pub(super) fn problems(&mut self, host_name: &str) -> Vec<String> {
        if self.config().is_some() {
            return Vec::new();
        }
        match self.resolve(None, host_name) {
            Ok(()) => Vec::new(),
            Err(Problems(problems)) => problems.iter().map(ToString::to_string).collect(),
        }
    }

    /// The flags that were given and have no effect. `live`: objects come from an API server, and health and metrics are served.
    pub(super) fn notices(&self, live: bool) -> Vec<Notice> {
        let idle = self.given.0.given().filter_map(|(flag, _)| Some((flag.name, why_idle(flag, live)?)));
        idle.map(|(name, reason)| Notice { flag: format!("--{name}"), reason }).collect()
    }
}

/// Why a flag has no effect here: for good, or because objects come from manifests.
fn why_idle(flag: &Flag, live: bool) -> Option<&'static str> {
    match flag.group {
        Group::Endpoints | Group::Api if live => Some(flag.idle).filter(|reason| !reason.is_empty()),
        // The port counts all the same: forwarded health checks go there.
        Group::Endpoints if flag.key == "healthzBindAddress" => None,
        Group::Endpoints => Some("health and metrics are served on live clusters only"),
        Group::Api if !matches!(flag.name, "kubeconfig" | "master") => Some("objects come from --manifests"),
        _ => Some(flag.idle).filter(|reason| !reason.is_empty()),
    }
}

fn heading(group: Group) -> &'static str {
    match group {
        Group::Windows => WINDOWS,
        Group::Api => "The API server",
        Group::Endpoints => "Health and metrics",
        Group::Configuration => "Configuration",
        Group::Idle | Group::Elsewhere => "kube-proxy's flags without effect",
    }
}

fn argument(flag: &'static Flag) -> Arg {
    let mut help =
        if flag.idle.is_empty() { flag.help.to_owned() } else { format!("No effect: {}", flag.idle) };
    if !flag.default.is_empty() {
        help.push_str(" [default: ");
        help.push_str(flag.default);
        help.push(']');
    }
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .help(help)
        .help_heading(heading(flag.group))
        .hide_short_help(flag.group == Group::Idle)
        .action(ArgAction::Append)
        .value_parser(ValueParser::from(move |text: &str| flag.check(text).map(|()| text.to_owned())));
    // A truth value may be left out, and so may what `--cleanup` removes.
    if flag.is_bool() || flag.name == "cleanup" {
        let name = if flag.is_bool() { "BOOL" } else { flag.value_name };
        argument.value_name(name).num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
            .value_name(flag.value_name)
            .allow_hyphen_values(flag.value_name == "N" || flag.value_name == "DURATION")
    }
}

/// The rows that are arguments here.
fn rows() -> impl Iterator<Item = &'static Flag> {
    TABLE.iter().filter(|flag| flag.group != Group::Elsewhere)
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(rows().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Flags::default();
        for flag in rows() {
            if matches.value_source(flag.name) != Some(ValueSource::CommandLine) {
                continue;
            }
            for value in matches.get_many::<String>(flag.name).into_iter().flatten() {
                flags.give(flag.name, value).map_err(|error| {
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, error + "\n")
                })?;
            }
        }
        Ok(Self(flags))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
