//! `transom hns conformance`: the suite of behaviours on whichever HNS there is, and a report of it that can be kept.

use std::sync::Arc;

use hcn::Hcn;
use hcn::time::{Clock, SystemClock};
use hcn_conformance::{Options, Report, Scope};
use hns::{Hns, Profile};
use serde_json::{Value, json};

use super::node_hns::OtherHns;
use super::render;
use crate::cli::Output;
use crate::cli::hns::{ConformanceScope, HnsConformance};
use crate::cli::hns_at::HnsAt;
use crate::cli::inputs;
use crate::exit::Exit;

/// The number of the report's form; it grows when a reader of the last form would misread the new one.
const FORM: u32 = 1;

/// An HNS and what the report calls it.
struct Target {
    hns: Arc<dyn Hcn>,
    about: Value,
}

pub(super) fn run(command: &HnsConformance) -> anyhow::Result<Exit> {
    let target = target(command)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let options = Options {
        adapter: command.adapter.clone(),
        only: command.cases.clone(),
        scope: match command.only {
            ConformanceScope::All => Scope::All,
            ConformanceScope::Nat => Scope::NatOnly,
        },
        clock: Arc::clone(&clock),
        ..Options::default()
    };
    let report = hcn_conformance::run(&*target.hns, &options);
    let text = match command.output.output {
        Output::Text => report.to_string(),
        form => render::document(&document(command, &target, &report, options.scope), form)?,
    };
    render::print(&text)?;
    Ok(if report.is_good() { Exit::Success } else { Exit::Failure })
}

fn target(command: &HnsConformance) -> anyhow::Result<Target> {
    if let Some(at) = &command.hns
        && let Some(other) = OtherHns::open(at, "conformance")?
    {
        let about = match at {
            HnsAt::Server(address) => json!({ "kind": "remote", "address": address.to_string() }),
            HnsAt::Native | HnsAt::Emulated => json!({ "kind": at.to_string() }),
        };
        return Ok(Target { hns: other.actor("conformance"), about });
    }
    let profile = match command.profile {
        inputs::Profile::Ws2019 => Profile::Ws2019,
        inputs::Profile::Ws2022 => Profile::Ws2022,
        inputs::Profile::Ws2025 => Profile::Ws2025,
        inputs::Profile::Newest => Profile::Newest,
    };
    let hns = Hns::open(hns::Options::new(profile))?;
    let about = json!({ "kind": "emulated", "profile": profile.name() });
    Ok(Target { hns: Arc::new(hns.actor("conformance")), about })
}

/// The report with what is needed to cite it.
fn document(command: &HnsConformance, target: &Target, report: &Report, scope: Scope) -> Value {
    json!({
        "form": FORM,
        "transom": env!("CARGO_PKG_VERSION"),
        "hns": target.about,
        "build": command.build,
        "scope": scope.name(),
        "cases": command.cases,
        "report": report.to_json(),
    })
}
