//! `cargo xtask explore`: the property tests, again and again, with inputs that were never tried.
//!
//! Which tests those are is read from the sources, so that a new one is among them without anybody's doing.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::steps::say;
use crate::test::{PROPERTIES, nextest, with_summary};
use crate::tidy::Workspace;

/// Runs rounds until a test fails. Each has another seed; without a first one, one of chance.
pub fn run(root: &Path, rounds: u64, seed: Option<u64>) -> Result<()> {
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let filter = filter(&all(&Workspace::read(root)?)?);
    for round in 0..rounds {
        let seed = seed.wrapping_add(round).to_string();
        say(&format!("round {} of {rounds}: {PROPERTIES}={seed}", round + 1));
        let mut command = nextest(root, &filter);
        command.env(PROPERTIES, &seed);
        with_summary(&mut command).with_context(|| format!("again: cargo xtask explore --seed {seed}"))?;
    }
    Ok(())
}

/// The names of all property tests of a workspace, without their modules.
fn all(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let is_rust = |path: &str| Path::new(path).extension().is_some_and(|end| end == "rs");
    let sources = workspace.files.iter().filter(|file| is_rust(&file.path));
    let names: BTreeSet<String> = sources.flat_map(|file| tests_of(&file.text)).collect();
    ensure!(!names.is_empty(), "there are no property tests");
    Ok(names)
}

/// The property tests of a source file: the functions of its `proptest!` blocks, which end where they were indented to.
fn tests_of(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut end: Option<String> = None;
    for line in text.lines() {
        if let Some(closing) = &end {
            if line == closing {
                end = None;
            } else if let Some(rest) = line.trim_start().strip_prefix("fn ")
                && line.len() - line.trim_start().len() == closing.len() + 3
            {
                names
                    .extend(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned));
            }
        } else if matches!(line.trim_start(), "proptest! {" | "proptest::proptest! {") {
            let indent = line.len() - line.trim_start().len();
            end = Some(format!("{}}}", " ".repeat(indent)));
        }
    }
    names
}

fn filter(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("test(/(^|::)({})$/)", names.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_blocks_are_found_and_no_others() {
        let text = "fn no() {}\nproptest! {\n    #![proptest_config(c)]\n\n    /// Why.\n    #[test]\n    fn one(a in 0..1) {\n        fn inner() {}\n    }\n\n    \
                    #[test]\n    fn other_2(\n        b in 0..1,\n    ) {\n    }\n}\nfn neither() {}\nmod tests {\n    proptest! {\n        #[test]\n        fn third(c in 0..1) {}\n    }\n    fn nor() {}\n}\n";
        assert_eq!(tests_of(text), ["one", "other_2", "third"]);
        let names = tests_of(text).into_iter().collect();
        assert_eq!(filter(&names), "test(/(^|::)(one|other_2|third)$/)");
    }

    #[test]
    fn those_of_the_workspace_are_found() {
        let names = Workspace::read(&crate::process::workspace_root()).and_then(|workspace| all(&workspace));
        let names = names.expect("there are some");
        assert!(names.contains("cached_watched_batched_and_layer_by_layer"), "{names:?}");
        assert!(names.len() >= 30, "{names:?}");
    }
}
