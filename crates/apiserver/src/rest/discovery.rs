//! What is no resource: the server's version and health, and what it has.
//!
//! This module must not know objects.

use serde_json::{Value, json};

use super::reply::Reply;
use super::{Asked, Server, acceptable};
use crate::kind::{KINDS, Kind};
use crate::status::Status;

pub(super) fn answer(server: &Server, asked: &Asked) -> Result<Reply, Status> {
    if !matches!(asked.call.verb.as_str(), "get" | "head") {
        return Err(Status::of_code(405));
    }
    let kinds: Vec<&Kind> = KINDS.iter().copied().filter(|kind| server.features.serves(kind)).collect();
    let parts: Vec<&str> = asked.call.path.split('/').filter(|part| !part.is_empty()).collect();
    let document = match parts.as_slice() {
        ["livez" | "healthz"] => return Ok(Reply::text(200, "ok")),
        ["readyz"] if server.is_ready() => return Ok(Reply::text(200, "ok")),
        ["readyz"] => {
            return Ok(Reply::text(500, "[-]shutdown failed: reason withheld\nreadyz check failed\n"));
        }
        [] => json!({"paths": paths()}),
        ["version"] => version(server),
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
        ["apis"] => json!({
            "kind": "APIGroupList", "apiVersion": "v1", "groups": groups().into_iter().map(group).collect::<Vec<_>>(),
        }),
        ["apis", name] if groups().contains(name) => {
            let mut group = group(name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["api", "v1"] => resources("v1", kinds.into_iter().filter(|kind| kind.group.is_empty())),
        ["apis", name, "v1"] if groups().contains(name) => {
            resources(&format!("{name}/v1"), kinds.into_iter().filter(|kind| kind.group == *name))
        }
        _ => return Ok(Reply::text(404, "404 page not found\n")),
    };
    acceptable(&asked.headers)?;
    Ok(Reply::value(200, &document))
}

/// The groups besides core's. A group is there even when all that this server has of it is switched off: a real one
/// has more kinds in each of them.
fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> =
        KINDS.iter().map(|kind| kind.group).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version.clone()], "preferredVersion": version})
}

fn paths() -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in groups() {
        paths.extend([format!("/apis/{group}"), format!("/apis/{group}/v1")]);
    }
    paths.extend(["/healthz", "/livez", "/readyz", "/version"].map(str::to_owned));
    paths
}

fn version(server: &Server) -> Value {
    let version = &server.version;
    json!({
        "major": version.major, "minor": version.minor, "gitVersion": version.git,
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn resources<'a>(group_version: &str, kinds: impl Iterator<Item = &'a Kind>) -> Value {
    let mut resources = Vec::new();
    for kind in kinds {
        resources.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"], "shortNames": kind.short_names,
        }));
        if kind.status {
            resources.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}
