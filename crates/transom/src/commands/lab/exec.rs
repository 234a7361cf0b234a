//! Any program in a pod, on a node, outside.

use anyhow::bail;
use lab::exec::Exec;
use lab::names::Names;
use lab::supervisor::{PodStatus, Status};

use super::{names, status};
use crate::cli::lab::{LabExec, Place};
use crate::cli::traffic::Name;
use crate::exit::Exit;

pub(super) fn run(command: &LabExec) -> anyhow::Result<Exit> {
    let names = names(&command.name.name);
    let exec = place(&names, &command.place)?;
    match exec.run(&command.command) {
        Ok(code) => Ok(Exit::Program(u8::try_from(code).unwrap_or(u8::MAX))),
        Err(error) => {
            let code = error.exit_code();
            tracing::error!("{error}");
            Ok(Exit::Program(u8::try_from(code).unwrap_or(u8::MAX)))
        }
    }
}

/// Where a place's programs run.
pub(in crate::commands) fn place(names: &Names, place: &Place) -> anyhow::Result<Exec> {
    let status = status(names)?;
    let bare = |namespace| Exec { namespace, ..Exec::default() };
    Ok(match place {
        Place::Outside => bare(names.outside()),
        Place::Router => bare(names.router()),
        Place::Underlay => bare(names.underlay()),
        Place::Node(name) => {
            let Some(node) = status.nodes.iter().find(|node| node.name == *name) else {
                let known: Vec<&str> = status.nodes.iter().map(|node| &*node.name).collect();
                bail!("lab {} has no node {name}; it has {}", names.lab(), known.join(", "));
            };
            Exec { hostname: Some(name.clone()), ..bare(node.namespace.clone()) }
        }
        Place::Pod(name) => {
            let pod = pod(&status, name)?;
            let etc = names.etc(&pod.namespace);
            let hostname = pod.name.rsplit('/').next().map(str::to_owned);
            Exec { hostname, etc: etc.exists().then_some(etc), ..bare(pod.namespace.clone()) }
        }
    })
}

/// The pod that a name means.
pub(in crate::commands) fn pod<'a>(status: &'a Status, name: &Name) -> anyhow::Result<&'a PodStatus> {
    let found: Vec<&PodStatus> = status
        .pods
        .iter()
        .filter(|pod| match &name.namespace {
            Some(namespace) => pod.name == format!("{namespace}/{}", name.name),
            None => pod.name.rsplit('/').next() == Some(&name.name),
        })
        .collect();
    match found[..] {
        [one] => Ok(one),
        [] => {
            let mut known: Vec<&str> = status.pods.iter().map(|pod| &*pod.name).collect();
            known.truncate(10);
            bail!("there is no pod {name} in lab {}; it has {}", status.name, known.join(", "))
        }
        _ => {
            let several: Vec<&str> = found.iter().map(|pod| &*pod.name).collect();
            bail!("{name} is the name of several pods; choose one of {}", several.join(", "))
        }
    }
}
