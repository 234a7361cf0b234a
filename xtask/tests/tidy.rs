//! The tidy checks over this workspace, as ordinary tests: one fails, its findings are its message.

use std::sync::OnceLock;

use xtask::process::workspace_root;
use xtask::tidy::{CHECKS, Workspace};

fn workspace() -> &'static Workspace {
    static WORKSPACE: OnceLock<Workspace> = OnceLock::new();
    WORKSPACE.get_or_init(|| Workspace::read(&workspace_root()).expect("the workspace can be read"))
}

#[test]
fn the_workspace_is_tidy() {
    let mut complaints = Vec::new();
    for (name, check) in CHECKS {
        complaints.extend(check(workspace()).into_iter().map(|finding| format!("{name}: {finding}")));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// A check over nothing would pass for ever.
#[test]
fn the_checks_have_something_to_look_at() {
    let workspace = workspace();
    for member in ["hcn", "hns", "proxy", "services", "transom", "xtask"] {
        assert!(workspace.members.contains_key(member), "{member} is not seen as a member");
    }
    assert!(workspace.packages.iter().any(|package| package.name == "serde_json"));
    for path in ["Cargo.toml", "xtask/tests/tidy.rs", "deny.toml", "CONTRIBUTING.md"] {
        assert!(workspace.text(path).is_some(), "{path} is not seen");
    }
    assert!(!workspace.policy.licenses.allow.is_empty() && !workspace.policy.bans.deny.is_empty());
}
