//! Dependencies that a crate asks for and never names.
//!
//! A text search, not a compiler: a name in a comment counts as a use. What it finds is never used.

use super::{Finding, Workspace};

/// Dependencies that no source file of the crate names.
pub fn unused(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.source.is_none()) {
        let Some(folder) = workspace.members.get(&package.name) else { continue };
        let within = format!("{folder}/");
        let sources: Vec<&str> = workspace
            .files
            .iter()
            .filter(|file| file.path.starts_with(&within) && has_extension(&file.path, "rs"))
            .map(|file| file.text.as_str())
            .collect();
        for dependency in &package.dependencies {
            let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
            if !sources.iter().any(|text| names(text, &name)) {
                findings.push(Finding::new(
                    format!("{folder}/Cargo.toml"),
                    format!("{} is not used by any source of the crate", dependency.name),
                ));
            }
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

/// Whether a file's name ends so.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Whether a text has a name as a word of its own.
fn names(text: &str, name: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(part_of_word) && !text[at + name.len()..].starts_with(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{Dependency, Package, TextFile};

    #[test]
    fn words_not_parts_of_words() {
        assert!(names("use serde::Deserialize;", "serde"));
        assert!(names("#[serde]", "serde"));
        assert!(!names("use serde_json::Value;", "serde"));
        assert!(!names("myserde::x", "serde"));
        assert!(names("serde_json, serde", "serde"));
    }

    #[test]
    fn what_is_never_named_is_found() {
        let dependency = |name: &str, rename: Option<&str>| Dependency {
            name: name.to_owned(),
            rename: rename.map(str::to_owned),
        };
        let package = Package {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            license: None,
            source: None,
            dependencies: vec![
                dependency("used-here", None),
                dependency("never", None),
                dependency("odd", Some("even")),
                dependency("elsewhere", None),
            ],
            manifest_path: "x".into(),
        };
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let workspace = Workspace {
            files: vec![
                file("a/src/lib.rs", "use used_here::X; use even::Y;"),
                file("a/README.md", "never"),
                file("ab/src/lib.rs", "use elsewhere::Z;"),
            ],
            paths: vec![],
            packages: vec![package],
            members: [("a".to_owned(), "a".to_owned())].into(),
            policy: crate::tidy::policy::Policy::default(),
        };
        let found: Vec<String> = unused(&workspace).into_iter().map(|finding| finding.text).collect();
        assert_eq!(
            found,
            [
                "elsewhere is not used by any source of the crate",
                "never is not used by any source of the crate"
            ]
        );
    }
}
