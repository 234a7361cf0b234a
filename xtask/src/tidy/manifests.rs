//! `Cargo.toml` files: dependencies are declared once for all crates, and every crate has the workspace's lints.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Finding, Workspace};

/// The tables of a manifest that hold dependencies.
const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// The members' manifests, with findings for those that cannot be read.
fn members(workspace: &Workspace, findings: &mut Vec<Finding>) -> Vec<(String, Table)> {
    let mut manifests = Vec::new();
    for folder in workspace.members.values() {
        let path = format!("{folder}/Cargo.toml");
        match workspace.text(&path).map(str::parse::<Table>) {
            Some(Ok(manifest)) => manifests.push((path, manifest)),
            Some(Err(error)) => findings.push(Finding::new(path, error.to_string())),
            None => findings.push(Finding::new(path, "is not in the repository")),
        }
    }
    manifests
}

/// Every dependency of a manifest, those for single platforms too.
fn dependencies(manifest: &Table) -> Vec<(&str, &Value)> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables = platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(|table| TABLES.iter().filter_map(|name| table.get(*name)?.as_table()))
        .flat_map(|table| table.iter().map(|(name, value)| (name.as_str(), value)))
        .collect()
}

fn inherited(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

/// Dependencies that do not say `workspace = true`.
pub fn declared_once(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, manifest) in members(workspace, &mut findings) {
        for (name, value) in dependencies(&manifest) {
            if !inherited(Some(value)) {
                let text = format!(
                    "{name} must be declared in the root's Cargo.toml and read `workspace = true` here"
                );
                findings.push(Finding::new(path.clone(), text));
            }
        }
    }
    findings
}

/// Declarations in the root's manifest that no crate uses.
pub fn declared_and_unused(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let manifests = members(workspace, &mut findings);
    let used: BTreeSet<&str> =
        manifests.iter().flat_map(|(_, manifest)| dependencies(manifest)).map(|(name, _)| name).collect();
    let root = workspace.text("Cargo.toml").unwrap_or_default();
    match root.parse::<Table>() {
        Err(error) => findings.push(Finding::new("Cargo.toml", error.to_string())),
        Ok(root) => {
            let declared =
                root.get("workspace").and_then(|table| table.get("dependencies")).and_then(Value::as_table);
            for name in declared.into_iter().flat_map(Table::keys) {
                if !used.contains(name.as_str()) {
                    findings
                        .push(Finding::new("Cargo.toml", format!("{name} is declared and no crate uses it")));
                }
            }
        }
    }
    findings
}

/// Crates without the workspace's lints.
pub fn lints_inherited(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, manifest) in members(workspace, &mut findings) {
        if !inherited(manifest.get("lints")) {
            findings.push(Finding::new(path, "lacks `[lints] workspace = true`"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::TextFile;

    fn workspace(root: &str, member: &str) -> Workspace {
        Workspace {
            files: vec![
                TextFile { path: "Cargo.toml".to_owned(), text: root.to_owned() },
                TextFile { path: "a/Cargo.toml".to_owned(), text: member.to_owned() },
            ],
            paths: vec![],
            packages: vec![],
            members: [("a".to_owned(), "a".to_owned())].into(),
            policy: crate::tidy::policy::Policy::default(),
        }
    }

    #[test]
    fn dependencies_with_a_version_of_their_own_are_found() {
        let good =
            workspace("", "[dependencies]\nx.workspace = true\ny = { workspace = true, features = ['z'] }");
        assert_eq!(declared_once(&good), []);
        for bad in [
            "[dependencies]\nx = '1'",
            "[dev-dependencies]\nx = { version = '1' }",
            "[build-dependencies.x]\npath = '../x'",
            "[target.'cfg(windows)'.dependencies]\nx = { workspace = false }",
            "not toml",
        ] {
            assert_eq!(declared_once(&workspace("", bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn declarations_that_nobody_uses_are_found() {
        let root = "[workspace.dependencies]\nx = '1'\ny = '1'";
        let used =
            "[dependencies]\nx.workspace = true\n[target.'cfg(unix)'.dev-dependencies]\ny.workspace = true";
        assert_eq!(declared_and_unused(&workspace(root, used)), []);
        assert_eq!(declared_and_unused(&workspace(root, "[dependencies]\nx.workspace = true")).len(), 1);
        assert_eq!(declared_and_unused(&workspace("= 3", used)).len(), 1);
    }

    #[test]
    fn crates_without_the_lints_are_found() {
        assert_eq!(lints_inherited(&workspace("", "[lints]\nworkspace = true")), []);
        for bad in ["", "[lints]\nworkspace = false", "[lints.rust]\nunsafe_code = 'allow'"] {
            assert_eq!(lints_inherited(&workspace("", bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_member_that_is_not_in_the_repository_is_found() {
        let mut missing = workspace("", "[lints]\nworkspace = true");
        missing.members.insert("b".to_owned(), "b".to_owned());
        assert_eq!(lints_inherited(&missing), [Finding::new("b/Cargo.toml", "is not in the repository")]);
    }
}
