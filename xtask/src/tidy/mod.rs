//! Checks of the workspace that no tool makes as we want them.
//!
//! Each check is a pure function from what was read to findings, in a module of its own; its tests feed it bad
//! samples. [`Workspace`] does the reading. Rules that a person may want to change (licences, refused crates,
//! crates that may come twice) stand in `deny.toml`, where cargo-deny reads them too.

pub mod dependencies;
pub mod links;
pub mod manifests;
pub mod policy;
pub mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process;
use crate::steps::say;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file (with a line where there is one) or the package.
    pub place: String,
    /// What is wrong and what would be right.
    pub text: String,
}

impl Finding {
    /// A finding.
    pub fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// The path from the repository's folder, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

/// A package of the dependency graph, as `cargo metadata` tells it.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The package's SPDX expression.
    pub license: Option<String>,
    /// Where it comes from; `None` is this workspace.
    pub source: Option<String>,
    /// What it asks for.
    pub dependencies: Vec<Dependency>,
    /// The path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
}

/// What a package asks for.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    /// The package that is asked for.
    pub name: String,
    /// The name that the sources use instead.
    pub rename: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Everything that the checks look at.
#[derive(Debug)]
pub struct Workspace {
    /// The text files that are tracked or could be.
    pub files: Vec<TextFile>,
    /// Every path in the repository, folders too.
    pub paths: Vec<String>,
    /// The dependency graph.
    pub packages: Vec<Package>,
    /// The members' folders from the repository's folder, by package name.
    pub members: BTreeMap<String, String>,
    /// What `deny.toml` says.
    pub policy: policy::Policy,
}

impl Workspace {
    /// Reads the workspace.
    pub fn read(root: &Path) -> Result<Self> {
        let mut listing = std::process::Command::new("git");
        listing.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listing = process::output(&mut listing).context("the repository's files cannot be listed")?;
        let mut paths = Vec::new();
        let mut files = Vec::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // A file that is tracked but deleted in the work tree is not there to be checked.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            paths.push(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        if files.is_empty() {
            bail!("no files were found in {}", root.display());
        }
        let mut metadata = process::cargo(root, &["metadata", "--format-version", "1", "--all-features"]);
        let metadata: Metadata =
            serde_json::from_str(&process::output(&mut metadata)?).context("the answer of cargo metadata")?;
        let members = metadata
            .packages
            .iter()
            .filter(|package| package.source.is_none())
            .filter_map(|package| {
                let folder = package.manifest_path.parent()?.strip_prefix(root).ok()?;
                Some((package.name.clone(), folder.to_string_lossy().replace('\\', "/")))
            })
            .collect();
        let policy = std::fs::read_to_string(root.join("deny.toml")).context("deny.toml cannot be read")?;
        Ok(Self { files, paths, packages: metadata.packages, members, policy: policy.parse()? })
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// A check: its name and what it does.
pub type Check = (&'static str, fn(&Workspace) -> Vec<Finding>);

/// All checks.
pub const CHECKS: &[Check] = &[
    ("licences", |workspace| policy::licences(&workspace.packages, &workspace.policy)),
    ("duplicate versions", |workspace| policy::duplicates(&workspace.packages, &workspace.policy)),
    ("refused crates and sources", |workspace| policy::refused(&workspace.packages, &workspace.policy)),
    ("unused dependencies", dependencies::unused),
    ("dependencies declared once", manifests::declared_once),
    ("declared but unused", manifests::declared_and_unused),
    ("lints inherited", manifests::lints_inherited),
    ("module docs", |workspace| sources::module_docs(&workspace.files)),
    ("file length", |workspace| sources::length(&workspace.files)),
    ("unfinished or waiting code", |workspace| sources::banned_words(&workspace.files)),
    ("paths of a machine", |workspace| sources::machine_paths(&workspace.files)),
    ("links", |workspace| links::broken(&workspace.files, &workspace.paths)),
];

/// Runs all checks and prints what they found.
pub fn run(root: &Path) -> Result<()> {
    let workspace = Workspace::read(root)?;
    let mut count = 0;
    for (name, check) in CHECKS {
        let findings = check(&workspace);
        say(&format!(
            "{name}: {}",
            if findings.is_empty() { "ok".to_owned() } else { findings.len().to_string() }
        ));
        for finding in &findings {
            say(&format!("  {finding}"));
        }
        count += findings.len();
    }
    if count > 0 {
        bail!("{count} findings");
    }
    Ok(())
}
