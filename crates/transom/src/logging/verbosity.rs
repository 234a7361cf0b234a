//! How much is logged: klog's `-v` and `--vmodule`, mapped to `tracing`'s levels.
//!
//! It must not know of log lines.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};

/// From this verbosity on, libraries that are not Transom's own are logged like its own.
const FOREIGN_FROM: u8 = 8;

/// The crates that `-v` speaks of; all others are libraries of others.
const OWN: &[&str] = &[
    "apiserver",
    "cluster",
    "computenetwork",
    "hcn",
    "hcn_abi",
    "hcn_conformance",
    "hcn_dll",
    "hcn_fake_dll",
    "hcn_windows",
    "hns",
    "hnsd",
    "lab",
    "manifest_check",
    "node",
    "proxy",
    "proxy_config",
    "proxyd",
    "services",
    "transom",
    "vfp",
    "vfpctrl",
    "vmcompute",
    "wire",
];

/// Libraries whose every failure comes back as an error that is told by who called them, once: what they say beside it, at each
/// try anew, is for those who look for it.
const ECHOES: &[&str] = &["kube_client"];

/// How much is logged, everywhere and in single modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verbosity {
    /// klog's `-v`, 0 to 10 by habit; larger numbers mean no more than 10.
    pub everywhere: u8,
    /// klog's `--vmodule`; the first pattern that fits decides.
    pub modules: Vec<ModuleVerbosity>,
}

impl Verbosity {
    /// Whether a line of this place is written. Asked once per place in the sources, not once per line.
    pub(super) fn admits(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level_of(metadata.target(), metadata.file())
    }

    /// The most that any module may log.
    pub(super) fn most(&self) -> LevelFilter {
        let loudest = self.modules.iter().map(|module| module.verbosity).max().unwrap_or(0);
        level(loudest.max(self.everywhere))
    }

    fn level_of(&self, target: &str, file: Option<&str>) -> LevelFilter {
        if let Some(module) = self.modules.iter().find(|module| module.fits(target, file)) {
            return level(module.verbosity);
        }
        let name = target.split("::").next().unwrap_or_default();
        match () {
            () if self.everywhere >= FOREIGN_FROM || OWN.contains(&name) => level(self.everywhere),
            () if ECHOES.contains(&name) => LevelFilter::OFF,
            () => LevelFilter::WARN,
        }
    }
}

/// The level that a verbosity opens.
fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 | 1 => LevelFilter::INFO,
        2..=4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// The verbosity that a line of this level would need: what the JSON form shows as `v`.
pub(super) fn verbosity_of(level: Level) -> u8 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => 2,
        Level::TRACE => 5,
    }
}

/// One `pattern=N` of `--vmodule`.
///
/// The pattern may hold `*` and `?`. It is compared with the name of the source file (without `.rs`) and with
/// each part of the module path; a pattern with `::` is compared with the whole module path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleVerbosity {
    pattern: String,
    verbosity: u8,
}

impl ModuleVerbosity {
    fn fits(&self, target: &str, file: Option<&str>) -> bool {
        if self.pattern.contains("::") {
            return glob(&self.pattern, target);
        }
        let stem =
            file.and_then(|path| path.rsplit(['/', '\\']).next()).and_then(|name| name.strip_suffix(".rs"));
        stem.is_some_and(|stem| glob(&self.pattern, stem))
            || target.split("::").any(|part| glob(&self.pattern, part))
    }
}

/// Why an item of `--vmodule` was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VmoduleError {
    /// There is no `=`.
    #[error("{0:?} is not of the form pattern=N, such as reconcile=5")]
    NoVerbosity(String),
    /// Nothing stands before the `=`.
    #[error("{0:?} has no pattern before the =")]
    NoPattern(String),
    /// What stands after the `=` is not a number.
    #[error("{pattern}: the verbosity {verbosity:?} is not a number from 0 to 255")]
    BadVerbosity {
        /// What stands before the `=`.
        pattern: String,
        /// What stands after it.
        verbosity: String,
    },
}

impl FromStr for ModuleVerbosity {
    type Err = VmoduleError;

    fn from_str(text: &str) -> Result<Self, VmoduleError> {
        let (pattern, verbosity) =
            text.split_once('=').ok_or_else(|| VmoduleError::NoVerbosity(text.to_owned()))?;
        let (pattern, verbosity) = (pattern.trim(), verbosity.trim());
        if pattern.is_empty() {
            return Err(VmoduleError::NoPattern(text.to_owned()));
        }
        let verbosity = verbosity.parse().map_err(|_| VmoduleError::BadVerbosity {
            pattern: pattern.to_owned(),
            verbosity: verbosity.to_owned(),
        })?;
        Ok(Self { pattern: pattern.to_owned(), verbosity })
    }
}

impl fmt::Display for ModuleVerbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.pattern, self.verbosity)
    }
}

/// Whether `text` is what `pattern` describes, with `*` for any run of characters and `?` for one of them.
fn glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go on when the last star must swallow one character more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p).is_some_and(|c| *c == '?' || *c == text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after_star, from)) = retry {
            retry = Some((after_star, from + 1));
            p = after_star;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let table = [
            ("reconcile", "reconcile", true),
            ("reconcile", "reconciler", false),
            ("rec*", "reconcile", true),
            ("*cile", "reconcile", true),
            ("*", "", true),
            ("?", "", false),
            ("pl?n", "plan", true),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbxc", false),
            ("", "x", false),
            ("**", "x", true),
        ];
        for (pattern, text, fits) in table {
            assert_eq!(glob(pattern, text), fits, "{pattern} on {text}");
        }
    }

    /// A crate that is not named would be as quiet as a library of others.
    #[test]
    fn every_crate_of_the_workspace_is_an_own_one() {
        let crates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the crates");
        for folder in crates {
            let name = folder.expect("a folder").file_name().to_string_lossy().replace('-', "_");
            assert!(OWN.contains(&&*name), "{name} is not among them");
        }
    }

    #[test]
    fn libraries_are_as_quiet_as_they_should_be() {
        for (verbosity, target, want) in [
            (0, "cluster::watching", LevelFilter::INFO),
            (0, "proxyd", LevelFilter::INFO),
            (4, "proxyd::run", LevelFilter::DEBUG),
            (0, "hyper::proto", LevelFilter::WARN),
            (4, "hyper::proto", LevelFilter::WARN),
            (0, "kube_client::client::builder", LevelFilter::OFF),
            (8, "kube_client::client::builder", LevelFilter::TRACE),
            (8, "hyper::proto", LevelFilter::TRACE),
        ] {
            let of = Verbosity { everywhere: verbosity, modules: Vec::new() };
            assert_eq!(of.level_of(target, None), want, "{verbosity} {target}");
        }
        let asked = Verbosity { everywhere: 0, modules: vec!["kube_client::*=4".parse().unwrap()] };
        assert_eq!(asked.level_of("kube_client::client", None), LevelFilter::DEBUG);
    }

    #[test]
    fn items_of_vmodule() {
        let table = [
            ("reconcile=5", Ok("reconcile=5")),
            (" plan = 2 ", Ok("plan=2")),
            ("hns::*=9", Ok("hns::*=9")),
            ("reconcile", Err("\"reconcile\" is not of the form pattern=N, such as reconcile=5")),
            ("=3", Err("\"=3\" has no pattern before the =")),
            ("plan=loud", Err("plan: the verbosity \"loud\" is not a number from 0 to 255")),
            ("plan=-1", Err("plan: the verbosity \"-1\" is not a number from 0 to 255")),
        ];
        for (text, want) in table {
            let got = text.parse::<ModuleVerbosity>().map(|m| m.to_string()).map_err(|e| e.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        }
    }

    #[test]
    fn the_level_of_a_place() {
        let module = |text: &str| text.parse::<ModuleVerbosity>().expect("valid");
        let quiet = Verbosity::default();
        let loud = Verbosity { everywhere: 5, modules: vec![] };
        let all = Verbosity { everywhere: 8, modules: vec![] };
        let picked = Verbosity {
            everywhere: 0,
            modules: vec![module("plan=2"), module("hns::store*=5"), module("notify=1")],
        };
        let table = [
            (&quiet, "proxy::plan", "crates/proxy/src/plan.rs", LevelFilter::INFO),
            (&quiet, "notify::poll", "src/poll.rs", LevelFilter::WARN),
            (&loud, "proxy::plan", "crates/proxy/src/plan.rs", LevelFilter::TRACE),
            (&loud, "notify::poll", "src/poll.rs", LevelFilter::WARN),
            (&loud, "hnsx::poll", "src/poll.rs", LevelFilter::WARN),
            (&all, "notify::poll", "src/poll.rs", LevelFilter::TRACE),
            (&picked, "proxy::plan::vip", "crates/proxy/src/plan/vip.rs", LevelFilter::DEBUG),
            (&picked, "proxy::reconcile", "crates/proxy/src/reconcile.rs", LevelFilter::INFO),
            (&picked, "hns::store::redb", "crates\\hns\\src\\store\\redb.rs", LevelFilter::TRACE),
            (&picked, "notify::poll", "src/poll.rs", LevelFilter::INFO),
        ];
        for (verbosity, target, file, want) in table {
            assert_eq!(verbosity.level_of(target, Some(file)), want, "{target} under {verbosity:?}");
        }
        assert_eq!(picked.most(), LevelFilter::TRACE);
        assert_eq!(quiet.most(), LevelFilter::INFO);
    }

    #[test]
    fn what_a_level_needs_opens_it() {
        for wanted in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
            let needed = verbosity_of(wanted);
            assert!(wanted <= level(needed), "{wanted} at {needed}");
        }
    }
}
