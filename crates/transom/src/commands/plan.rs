//! `transom plan`: the difference between wanted and observed, without touching anything.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, bail};
use hcn::Hcn;
use proxy::dry_run::DryRun;
use proxy::status::{Change, ProxyCondition};
use serde::Serialize;

use super::session::Asked;
use super::{configuration, proxy as proxy_command, render};
use crate::cli::hns_at::HnsAt;
use crate::cli::{Output, PlanCommand};
use crate::exit::Exit;

/// What is printed for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanDocument<'a> {
    node: &'a str,
    network: &'a str,
    hns_version: String,
    changes: &'a [Change],
    conditions: &'a [ProxyCondition],
    failures: &'a [proxy::status::Failure],
}

pub(super) fn run(command: &PlanCommand) -> anyhow::Result<Exit> {
    let settings = command.flags.settings();
    if let Some(exit) = configuration::written(settings)? {
        return Ok(exit);
    }
    if command.input.manifests.is_empty() {
        bail!("{}", proxy_command::no_cluster(settings));
    }
    configuration::beside_manifests(settings);
    let asked = Asked {
        manifests: &command.input.manifests,
        options: &command.input.common,
        node: &command.node,
        hns: &HnsAt::or_default(command.hns.hns.as_ref(), &command.node),
        settings,
        engine: Some(&command.flags.engine),
    };
    // Setting the node up writes; a copy of the state takes that, so that the state itself stays as it is.
    let copy = match &command.node.state {
        Some(path) if path.exists() => {
            let copy = tempfile::NamedTempFile::new().context("cannot make a copy of the state")?;
            std::fs::copy(path, copy.path()).with_context(|| format!("cannot read {}", path.display()))?;
            Some(copy)
        }
        _ => None,
    };
    let state = copy.as_ref().map(tempfile::NamedTempFile::path);
    let mut session = asked.session_at(state, |hcn| Arc::new(DryRun::new(hcn)) as Arc<dyn Hcn>)?;
    let report = session.driver.pass();
    let text = match command.output.output {
        Output::Text => {
            let mut text = proxy_command::heading(&session);
            if report.changes.is_empty() {
                text.push_str("HNS holds what is wanted.\n");
            } else {
                text.push_str(&render::difference(&report.changes));
            }
            for failure in &report.failures {
                let _ = writeln!(text, "Failed: {}: {}", failure.what, failure.error);
            }
            text
        }
        form => render::document(
            &PlanDocument {
                node: &session.spec.name,
                network: &session.spec.network_name,
                hns_version: session.hns.version().to_string(),
                changes: &report.changes,
                conditions: &report.conditions,
                failures: &report.failures,
            },
            form,
        )?,
    };
    render::print(&text)?;
    let mut exit = session.input_exit();
    if !report.changes.is_empty() {
        exit = exit.and(Exit::Differences);
    }
    if !report.failures.is_empty() || !session.driver.proxy().is_ready() {
        exit = exit.and(Exit::Degraded);
    }
    Ok(exit)
}
