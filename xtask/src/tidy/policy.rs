//! Which packages may be in the dependency graph: licences, duplicate versions, refused crates and sources.
//!
//! The rules are read from `deny.toml`, the part of cargo-deny's format that is used here.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Deserialize;

use super::{Finding, Package};

/// What `deny.toml` says.
#[derive(Debug, Default, Deserialize)]
pub struct Policy {
    /// Licences.
    #[serde(default)]
    pub licenses: Licenses,
    /// Crates.
    #[serde(default)]
    pub bans: Bans,
}

/// The rules on licences.
#[derive(Debug, Default, Deserialize)]
pub struct Licenses {
    /// The licences that any package may have.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Licences that single packages may have besides.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
}

/// More licences for one package.
#[derive(Debug, Deserialize)]
pub struct Exception {
    /// The package's name.
    #[serde(rename = "crate")]
    pub name: String,
    /// The licences.
    pub allow: Vec<String>,
}

/// The rules on crates.
#[derive(Debug, Default, Deserialize)]
pub struct Bans {
    /// Crates that must not be there.
    #[serde(default)]
    pub deny: Vec<Named>,
    /// Versions that may be there beside others of the same crate.
    #[serde(default)]
    pub skip: Vec<Named>,
}

/// A crate, with a version where that matters, and the reason for the rule.
#[derive(Debug, Deserialize)]
pub struct Named {
    /// `name` or `name@version`, where the version may be the start of one.
    #[serde(rename = "crate")]
    pub spec: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

impl FromStr for Policy {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        toml::from_str(text).map_err(|error| anyhow::anyhow!("deny.toml: {error}"))
    }
}

impl Named {
    fn fits(&self, package: &Package) -> bool {
        match self.spec.split_once('@') {
            None => self.spec == package.name,
            Some((name, version)) => {
                name == package.name
                    && package
                        .version
                        .strip_prefix(version)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
            }
        }
    }
}

fn place(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

/// Packages whose licence is not among those allowed.
pub fn licences(packages: &[Package], policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(expression) = &package.license else {
            findings.push(Finding::new(place(package), "has no licence expression"));
            continue;
        };
        let more = policy.licenses.exceptions.iter().filter(|exception| exception.name == package.name);
        let more: Vec<&String> = more.flat_map(|exception| &exception.allow).collect();
        let allowed = |licence: &str| {
            policy.licenses.allow.iter().chain(more.iter().copied()).any(|allowed| allowed == licence)
        };
        match satisfied(expression, &allowed) {
            Some(true) => {}
            Some(false) => findings.push(Finding::new(
                place(package),
                format!("`{expression}` is not covered by the licences that deny.toml allows"),
            )),
            None => findings
                .push(Finding::new(place(package), format!("`{expression}` is not an SPDX expression"))),
        }
    }
    for exception in &policy.licenses.exceptions {
        if !packages.iter().any(|package| package.name == exception.name) {
            findings.push(Finding::new(
                "deny.toml",
                format!("the exception for {} is not needed", exception.name),
            ));
        }
    }
    findings
}

/// Whether the allowed licences satisfy an SPDX expression; `None` when it is none.
fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    // `MIT/Apache-2.0` is how old packages write OR.
    let spaced = spaced.replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = any_of(&tokens, &mut at, allowed)?;
    (at == tokens.len()).then_some(value)
}

fn any_of(tokens: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut value = all_of(tokens, at, allowed)?;
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        value |= all_of(tokens, at, allowed)?;
    }
    Some(value)
}

fn all_of(tokens: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut value = one(tokens, at, allowed)?;
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(tokens, at, allowed)?;
    }
    Some(value)
}

fn one(tokens: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let token = *tokens.get(*at)?;
    *at += 1;
    match token {
        "(" => {
            let value = any_of(tokens, at, allowed)?;
            let closed = tokens.get(*at) == Some(&")");
            *at += 1;
            closed.then_some(value)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence if tokens.get(*at) == Some(&"WITH") => {
            let exception = *tokens.get(*at + 1)?;
            *at += 2;
            // The licence without its exception grants less, so it never covers the pair.
            Some(allowed(&format!("{licence} WITH {exception}")))
        }
        licence => Some(allowed(licence)),
    }
}

/// Crates of which more than one version is there without a reason.
pub fn duplicates(packages: &[Package], policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut skipped = BTreeSet::new();
    for package in packages {
        match policy.bans.skip.iter().position(|skip| skip.fits(package)) {
            Some(skip) => {
                skipped.insert(skip);
            }
            None => {
                versions.entry(&package.name).or_default().insert(&package.version);
            }
        }
    }
    for (name, versions) in &versions {
        if versions.len() > 1 {
            let list: Vec<&str> = versions.iter().copied().collect();
            findings.push(Finding::new(
                *name,
                format!(
                    "comes in {} versions ({}) and deny.toml gives no reason",
                    list.len(),
                    list.join(", ")
                ),
            ));
        }
    }
    for (at, skip) in policy.bans.skip.iter().enumerate() {
        let name = skip.spec.split('@').next().unwrap_or_default();
        if !skipped.contains(&at) {
            findings
                .push(Finding::new("deny.toml", format!("the exception for {} is not needed", skip.spec)));
        } else if packages.iter().filter(|package| package.name == name).count() < 2 {
            findings.push(Finding::new("deny.toml", format!("{} comes in one version only", skip.spec)));
        }
        if skip.reason.is_empty() {
            findings
                .push(Finding::new("deny.toml", format!("the exception for {} has no reason", skip.spec)));
        }
    }
    findings
}

/// Crates that are refused, and crates that come from anywhere but the registry.
pub fn refused(packages: &[Package], policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        if let Some(rule) = policy.bans.deny.iter().find(|rule| rule.fits(package)) {
            findings.push(Finding::new(place(package), format!("is refused: {}", rule.reason)));
        }
        if let Some(source) = &package.source
            && !source.starts_with("registry+")
        {
            findings
                .push(Finding::new(place(package), format!("comes from {source}, not from the registry")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.map(str::to_owned),
            source: Some("registry+x".to_owned()),
            dependencies: vec![],
            manifest_path: "x".into(),
        }
    }

    fn policy(text: &str) -> Policy {
        text.parse().expect("valid")
    }

    #[test]
    fn licence_expressions() {
        let allowed =
            |licence: &str| matches!(licence, "MIT" | "Apache-2.0" | "Apache-2.0 WITH LLVM-exception");
        let table = [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT OR GPL-3.0", Some(true)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            ("MIT/GPL-3.0", Some(true)),
            ("(MIT OR GPL-3.0) AND Apache-2.0", Some(true)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(false)),
            ("GPL-3.0 OR MIT AND GPL-2.0", Some(false)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("Apache-2.0 WITH Other-exception", Some(false)),
            ("MIT WITH LLVM-exception", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT)", None),
            ("MIT Apache-2.0", None),
            ("OR MIT", None),
            ("MIT WITH", None),
        ];
        for (expression, want) in table {
            assert_eq!(satisfied(expression, &allowed), want, "{expression:?}");
        }
    }

    #[test]
    fn licences_that_are_not_allowed_are_found() {
        let rules = policy(
            "[licenses]\nallow = ['MIT']\nexceptions = [{crate = 'b', allow = ['NCSA']}, {crate = 'gone', allow = ['X']}]",
        );
        let packages = [
            package("a", "1.0.0", Some("MIT")),
            package("b", "1.0.0", Some("MIT AND NCSA")),
            package("c", "1.0.0", Some("NCSA")),
            package("d", "1.0.0", None),
            package("e", "1.0.0", Some("MIT OR")),
        ];
        let places: Vec<String> =
            licences(&packages, &rules).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["c 1.0.0", "d 1.0.0", "e 1.0.0", "deny.toml"]);
    }

    #[test]
    fn duplicates_need_a_reason_and_reasons_need_a_duplicate() {
        let two = [package("a", "1.2.0", None), package("a", "2.0.0", None), package("b", "1.0.0", None)];
        assert_eq!(duplicates(&two, &policy("")).len(), 1);
        let reasoned = policy("[bans]\nskip = [{crate = 'a@1.2', reason = 'c has not moved'}]");
        assert_eq!(duplicates(&two, &reasoned), []);
        for (rules, complaint) in [
            ("[bans]\nskip = [{crate = 'a@1.2', reason = ''}]", "has no reason"),
            (
                "[bans]\nskip = [{crate = 'a@1.2', reason = 'x'}, {crate = 'a@3', reason = 'x'}]",
                "is not needed",
            ),
            (
                "[bans]\nskip = [{crate = 'a@1.2', reason = 'x'}, {crate = 'b@1', reason = 'x'}]",
                "one version only",
            ),
        ] {
            let findings = duplicates(&two, &policy(rules));
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].text.contains(complaint), "{findings:?}");
        }
        // The start of a number is not the start of a version.
        assert_eq!(duplicates(&two, &policy("[bans]\nskip = [{crate = 'a@1.', reason = 'x'}]")).len(), 2);
    }

    #[test]
    fn refused_crates_and_foreign_sources_are_found() {
        let rules =
            policy("[bans]\ndeny = [{crate = 'old', reason = 'dead'}, {crate = 'half@2', reason = 'slow'}]");
        let mut elsewhere = package("git", "1.0.0", None);
        elsewhere.source = Some("git+https://example.com/x".to_owned());
        let mut ours = package("ours", "1.0.0", None);
        ours.source = None;
        let packages = [
            package("old", "9.9.9", None),
            package("half", "2.3.0", None),
            package("half", "3.0.0", None),
            package("older", "1.0.0", None),
            elsewhere,
            ours,
        ];
        let places: Vec<String> =
            refused(&packages, &rules).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["old 9.9.9", "half 2.3.0", "git 1.0.0"]);
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_an_error() {
        assert!("[bans]\ndeny = 3".parse::<Policy>().is_err());
    }
}
