//! `transom install`: prints the manifests of the Windows proxy.

use anyhow::{Context, bail};
use serde_json::json;

use super::render;
use crate::cli::Output;
use crate::cli::install::{InstallCommand, ManifestForm};
use crate::exit::Exit;
use crate::install::{self, Cni};

pub(super) fn run(command: &InstallCommand) -> anyhow::Result<Exit> {
    if command.list {
        render::print(&list(command.output)?)?;
        return Ok(Exit::Success);
    }
    let request = command.request().context("--cni must name a CNI; `transom install --list` shows them")?;
    if !command.dry_run {
        bail!(
            "this version cannot reach a cluster: add --dry-run and pipe the manifests into `kubectl apply -f -`"
        );
    }
    let documents = install::manifests(&request)?;
    for advice in install::advice(&request) {
        tracing::warn!("{advice}");
    }
    let text = match command.output {
        ManifestForm::Json => render::document(
            &json!({ "apiVersion": "v1", "kind": "List", "items": documents }),
            Output::Json,
        )?,
        ManifestForm::Yaml => documents
            .iter()
            .map(|document| render::document(document, Output::Yaml))
            .collect::<anyhow::Result<Vec<_>>>()?
            .join("---\n"),
    };
    render::print(&text)?;
    Ok(Exit::Success)
}

fn list(form: ManifestForm) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for cni in Cni::ALL {
        let winkernel = cni.configuration()?.winkernel;
        rows.push((cni, winkernel));
    }
    if form == ManifestForm::Json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(cni, winkernel)| {
                json!({
                    "cni": cni.name(),
                    "networkName": winkernel.network_name,
                    "sourceVip": cni.source_vip(),
                    "enableDSR": winkernel.enable_dsr,
                    "needs": cni.needs(),
                })
            })
            .collect();
        return render::document(&rows, Output::Json);
    }
    let mut table = render::table(&["CNI", "NETWORK", "SOURCE VIP", "DSR", "NEEDS"]);
    for (cni, winkernel) in &rows {
        let dsr = if winkernel.enable_dsr { "on" } else { "off" };
        table.add_row([cni.name(), &winkernel.network_name, cni.source_vip(), dsr, cni.needs()]);
    }
    Ok(render::text(&table))
}
