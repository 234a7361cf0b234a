//! All that a lab holds as one JSON document: for bug reports, and to be compared.

use std::fs;

use anyhow::Context;
use hcn::{Guid, Hcn, Kind, Query};
use hnsd::Remote;
use lab::daemon::methods;
use serde_json::{Map, Value, json};

use super::super::render;
use super::super::vfp::{Answer, Ask, Show, What};
use super::extension;
use super::links;
use super::live::LiveLab;
use crate::cli::Output;
use crate::cli::lab::LabSnapshot;
use crate::cli::traffic::VfpFormat;
use crate::exit::Exit;

pub(super) fn run(command: &LabSnapshot) -> anyhow::Result<Exit> {
    let lab = LiveLab::of(&command.name.name)?;
    let mut nodes = Map::new();
    for node in &lab.status.nodes {
        let link = links::of(&lab, node);
        let mut told = match link {
            Ok(link) => json!({ "link": link }),
            Err(error) => json!({ "link": { "error": format!("{error:#}") } }),
        };
        if node.windows {
            // What one node does not tell must not keep the others from telling.
            let held = lab.daemon(&node.name).and_then(|daemon| held(&daemon));
            match (held, told.as_object_mut()) {
                (Ok(held), Some(told)) => told.extend(held),
                (Err(error), Some(told)) => {
                    told.insert("error".to_owned(), format!("{error:#}").into());
                }
                _ => {}
            }
        }
        nodes.insert(node.name.clone(), told);
    }
    let document = json!({
        "transom": env!("CARGO_PKG_VERSION"),
        "status": lab.status,
        "nodes": nodes,
    });
    let text = render::document(&document, Output::Json)?;
    match &command.file {
        Some(file) => fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?,
        None => render::print(&text)?,
    }
    Ok(Exit::Success)
}

/// What a Windows node holds: its HNS and its switch.
fn held(daemon: &Remote) -> anyhow::Result<Map<String, Value>> {
    let mut objects = Map::new();
    for kind in Kind::ALL {
        let list = documents(daemon, kind).map_err(|error| format!("{error:#}"));
        objects
            .insert(name(kind).to_owned(), list.map_or_else(|error| json!({ "error": error }), Value::Array));
    }
    let mut switch = Map::new();
    for (name, what) in [
        ("ports", What::Ports),
        ("layers", What::Layers),
        ("groups", What::Groups),
        ("rules", What::Rules),
        ("counters", What::Counters),
        ("nat", What::Nat),
    ] {
        switch.insert(name.to_owned(), view(daemon, what)?);
    }
    let call = |method| daemon.call_extension(method, &json!({})).with_context(|| method);
    let mut held = Map::new();
    held.insert("version".to_owned(), json!(daemon.version()?));
    held.insert("hns".to_owned(), objects.into());
    held.insert("portNames".to_owned(), call(extension::methods::PORTS)?);
    held.insert("switch".to_owned(), switch.into());
    held.insert("daemon".to_owned(), call(methods::STATUS)?);
    held.insert("faults".to_owned(), call(methods::FAULTS)?);
    Ok(held)
}

/// What a kind's objects are called in `hns list all -o json`.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Network => "networks",
        Kind::Endpoint => "endpoints",
        Kind::Namespace => "namespaces",
        Kind::LoadBalancer => "loadBalancers",
        Kind::SdnRoute => "sdnRoutes",
    }
}

/// The objects of a kind, whole, in the order of their ids.
fn documents(hns: &dyn Hcn, kind: Kind) -> anyhow::Result<Vec<Value>> {
    let mut ids: Vec<Guid> = hns.enumerate(kind, &Query::all())?;
    ids.sort_unstable();
    let mut documents = Vec::new();
    for id in ids {
        match hns.query(kind, id, &Query::all()) {
            Ok(text) => documents.push(serde_json::from_str(&text)?),
            // Gone since.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error).with_context(|| format!("{kind} {id}")),
        }
    }
    Ok(documents)
}

/// One view of the switch. The tool's own documents come one on a line.
fn view(daemon: &Remote, what: What) -> anyhow::Result<Value> {
    let show = Show { what, port: None, layer: None, group: None, format: VfpFormat::Json };
    let answer: Answer = daemon.call_extension_as(extension::methods::VFP, &Ask::Show(show))?;
    if let Ok(whole) = serde_json::from_str(&answer.text) {
        return Ok(whole);
    }
    let lines = answer.text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?.into())
}
