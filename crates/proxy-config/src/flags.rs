//! kube-proxy's flags: the values that were given, in their order, and what they do to a configuration.
//!
//! It must not know how a command line is split into flags, nor of flags that kube-proxy has not. The table of flags
//! is in `table`.

mod table;

use crate::address;
use crate::defaults::{HEALTHZ_PORT, METRICS_PORT, MODE, ROOT_ENDPOINT};
use crate::problem::Place;
use crate::types::KubeProxyConfiguration;

pub use table::TABLE;

/// `--init-only`, which has no field.
pub(crate) const INIT_ONLY: Place =
    Place { path: "KubeProxyConfiguration", key: "no field", flag: "init-only" };

/// One of kube-proxy's flags.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// The field that it stands for; blank where there is none.
    pub key: &'static str,
    /// What its value is called in help texts; blank for truth values.
    pub value_name: &'static str,
    /// kube-proxy's default, as help texts show it.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Where it stands in help texts.
    pub group: Group,
    /// Why it does nothing here; blank where it does something.
    pub idle: &'static str,
    /// Whether it counts beside `--config`.
    pub beside_file: bool,
    set: Set,
}

/// Where a flag stands in help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What matters on Windows.
    Windows,
    /// How the API server is reached.
    Api,
    /// Health and metrics.
    Endpoints,
    /// The configuration itself.
    Configuration,
    /// What is accepted without effect.
    Idle,
    /// The program declares it beside its other flags of the kind: logging, Windows' services.
    Elsewhere,
}

/// What a value does; an error says what would be right.
#[derive(Debug, Clone, Copy)]
enum Set {
    /// Changes a field.
    Field(fn(&mut KubeProxyConfiguration, &str) -> Result<(), String>),
    /// Changes what is no field.
    Start(fn(&mut Start, &str) -> Result<(), String>),
}

/// What flags say that is no field of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// `--config`.
    pub config: Option<String>,
    /// `--write-config-to`.
    pub write_config_to: Option<String>,
    /// `--master`.
    pub master: Option<String>,
    /// `--cleanup`.
    pub cleanup: Cleanup,
    /// `--init-only`.
    pub init_only: bool,
    /// `--windows-service`.
    pub windows_service: bool,
    hostname_override: Option<String>,
    healthz_port: Option<u16>,
    metrics_port: Option<u16>,
}

/// What `--cleanup` removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cleanup {
    /// Nothing: the proxy serves.
    #[default]
    Nothing,
    /// What this proxy has made.
    Own,
    /// Every load balancer, as kube-proxy's own start does.
    All,
}

/// The flags that were given.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    given: Vec<(&'static Flag, String)>,
}

/// A flag by its name.
pub fn flag(name: &str) -> Option<&'static Flag> {
    TABLE.iter().find(|flag| flag.name == name)
}

impl Flag {
    /// Whether the flag may stand alone.
    pub fn is_bool(&self) -> bool {
        self.value_name.is_empty()
    }

    /// Checks a value; an error says what would be right.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self.set {
            Set::Field(set) => set(&mut KubeProxyConfiguration::default(), value),
            Set::Start(set) => set(&mut Start::default(), value),
        }
    }
}

impl Flags {
    /// Takes a flag that was given, without its dashes. Of two values of a flag that takes one, the later counts.
    pub fn give(&mut self, name: &str, value: &str) -> Result<(), String> {
        let known = flag(name).ok_or_else(|| format!("--{name} is no flag of kube-proxy"))?;
        known.check(value).map_err(|error| format!("--{name}: {value:?}: {error}"))?;
        self.given.push((known, value.to_owned()));
        Ok(())
    }

    /// The flags that were given, in their order.
    pub fn given(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        self.given.iter().map(|(flag, value)| (*flag, &**value))
    }

    /// What they say that is no field.
    pub fn start(&self) -> Start {
        let mut start = Start::default();
        for (flag, value) in &self.given {
            if let Set::Start(set) = flag.set {
                // It was checked when it was given.
                let _ = set(&mut start, value);
            }
        }
        start
    }

    /// The flags that do nothing here, with why.
    pub fn idle(&self) -> impl Iterator<Item = &'static Flag> {
        self.given.iter().map(|(flag, _)| *flag).filter(|flag| !flag.idle.is_empty())
    }

    /// The flags that a file pushes aside.
    pub(crate) fn pushed_aside(&self) -> impl Iterator<Item = &'static Flag> {
        self.given.iter().map(|(flag, _)| *flag).filter(|flag| !flag.beside_file && flag.idle.is_empty())
    }

    /// `--hostname-override`.
    pub(crate) fn hostname_override(&self) -> Option<&str> {
        self.given.iter().rev().find(|(flag, _)| flag.name == "hostname-override").map(|(_, value)| &**value)
    }

    /// Changes a configuration whose defaults are filled in.
    pub(crate) fn apply(&self, configuration: &mut KubeProxyConfiguration) {
        self.apply_if(configuration, |_| true);
        let start = self.start();
        let (healthz, metrics) = (start.healthz_port, start.metrics_port);
        listen(&mut configuration.healthz_bind_address, healthz, HEALTHZ_PORT);
        listen(&mut configuration.metrics_bind_address, metrics, METRICS_PORT);
        // Start scripts leave values blank.
        if configuration.winkernel.root_hns_endpoint_name.trim().is_empty() {
            ROOT_ENDPOINT.clone_into(&mut configuration.winkernel.root_hns_endpoint_name);
        }
        if configuration.mode.is_empty() {
            MODE.clone_into(&mut configuration.mode);
        }
    }

    /// The same with those flags only that count beside a file.
    pub(crate) fn apply_beside_file(&self, configuration: &mut KubeProxyConfiguration) {
        self.apply_if(configuration, |flag| flag.beside_file);
    }

    fn apply_if(&self, configuration: &mut KubeProxyConfiguration, counts: impl Fn(&Flag) -> bool) {
        for (flag, value) in self.given.iter().filter(|(flag, _)| counts(flag)) {
            if let Set::Field(set) = flag.set {
                // It was checked when it was given.
                let _ = set(configuration, value);
            }
        }
    }
}

/// The deprecated port flag counts where the address has no port, and 0 switches off.
fn listen(address: &mut String, port: Option<u16>, default: u16) {
    if port == Some(0) {
        address.clear();
    } else {
        *address = address::with_port(address, port.unwrap_or(default));
    }
}

/// A truth value in the forms that Go's flags take.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}
