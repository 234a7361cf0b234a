//! `transom proxy`: sets the node up, brings HNS to what the Services want, and stays unless told otherwise.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use proxy::status::{FrontendState, Report};
use proxy_config::{Cleanup, ProxySettings};

use super::node_hns::OtherHns;
use super::progress::Progress;
use super::session::{self, Asked, Session};
use super::{cleanup, configuration, live, live_cluster, node_hns, proxy_status, render};
use crate::cli::ProxyCommand;
use crate::cli::hns_at::HnsAt;
use crate::cli::proxy_status::ProxyAction;
use crate::exit::Exit;
use crate::stop::Stop;

/// How often a failing object is tried again before `--once` gives up.
const TRIES: usize = 5;

/// Runs until the work is done or, without `--once`, until somebody asks to stop.
pub fn run(command: ProxyCommand, stop: &Stop) -> anyhow::Result<Exit> {
    if let Some(ProxyAction::Status(status)) = &command.action {
        return proxy_status::run(status);
    }
    if let Some(exit) = instead(&command)? {
        return Ok(exit);
    }
    if command.input.manifests.is_empty() {
        if command.once {
            bail!("--once works on manifests: give '--manifests <PATH>...'");
        }
        return live::apart(stop, move |stop| {
            let at = HnsAt::or_default(command.hns.hns.as_ref(), &command.node);
            live_cluster::run(command.flags, &at, stop)
        });
    }
    configuration::beside_manifests(command.flags.settings());
    if !command.once {
        return live::apart(stop, move |stop| stay(&command, stop));
    }
    let at = HnsAt::or_default(command.hns.hns.as_ref(), &command.node);
    let mut session = asked(&command, &at).session(|hcn| hcn)?;
    render::print(&heading(&session))?;
    let report = bring(&mut session, stop);
    render::print(&told(&session, &report))?;
    let exit = session.input_exit();
    Ok(if report.is_settled() { exit } else { exit.and(Exit::Degraded) })
}

/// Does what was asked for instead of serving, if anything was.
fn instead(command: &ProxyCommand) -> anyhow::Result<Option<Exit>> {
    let settings = command.flags.settings();
    if let Some(exit) = configuration::written(settings)? {
        return Ok(Some(exit));
    }
    let cleanup = settings.map_or(Cleanup::Nothing, |settings| settings.instead.cleanup);
    if cleanup == Cleanup::Nothing {
        return Ok(None);
    }
    let at = HnsAt::or_default(command.hns.hns.as_ref(), &command.node);
    let hcn = if let Some(other) = OtherHns::open(&at, "proxy")? {
        other.actor("proxy")
    } else {
        let asked = asked(command, &at);
        Arc::new(asked.open_hns(asked.profile(None), None)?.actor("proxy"))
    };
    cleanup::run(&*hcn, cleanup).map(Some)
}

/// Why there is nothing to serve.
pub(super) fn no_cluster(settings: Option<&ProxySettings>) -> String {
    let from = match settings.map(|settings| &settings.api) {
        Some(api) if !api.is_in_cluster() => {
            let names = [&api.kubeconfig, &api.master].into_iter().flatten().map(String::as_str);
            format!("the API server ({})", names.collect::<Vec<_>>().join(", "))
        }
        _ => "the API server of the cluster that this process runs in".to_owned(),
    };
    format!("{from} is read by 'transom proxy' only; give '--manifests <PATH>...'")
}

fn asked<'a>(command: &'a ProxyCommand, hns: &'a HnsAt) -> Asked<'a> {
    Asked {
        manifests: &command.input.manifests,
        options: &command.input.common,
        node: &command.node,
        hns,
        settings: command.flags.settings(),
        engine: Some(&command.flags.engine),
    }
}

/// Sets up, does the first pass, and stays.
fn stay(command: &ProxyCommand, stop: &Stop) -> anyhow::Result<Exit> {
    let at = HnsAt::or_default(command.hns.hns.as_ref(), &command.node);
    if !node_hns::wait_for(&at, stop)? {
        return Ok(Exit::Success);
    }
    if let Some(other) = OtherHns::open(&at, "proxy")? {
        let pattern = asked(command, &at).network_pattern()?;
        if !session::await_network(&*other.actor("proxy"), &pattern, |pause| stop.pause(pause))? {
            return Ok(Exit::Success);
        }
    }
    let mut session = asked(command, &at).session(|hcn| hcn)?;
    render::print(&heading(&session))?;
    let report = bring(&mut session, stop);
    render::print(&told(&session, &report))?;
    ready();
    let least = command.flags.settings().map_or(Duration::ZERO, |settings| settings.min_sync_period);
    live::stay(session, least, stop)
}

/// Says that the first pass is done to a service manager that asked for it (sd_notify(3)).
pub(super) fn ready() {
    #[cfg(target_os = "linux")]
    if let Err(error) = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "The service manager does not hear that the first pass is done");
    }
}

/// Passes until HNS holds what is wanted, or what fails has failed a few times.
pub(super) fn bring(session: &mut Session, stop: &Stop) -> Report {
    let _progress = Progress::start("Bringing HNS to what the Services want:", Some(session.watch.clone()));
    let mut all = session.driver.pass();
    for _ in 1..TRIES {
        if all.pending == 0 || (all.failures.is_empty() && session.driver.proxy().is_ready()) {
            break;
        }
        let wait = session.driver.next_wakeup().saturating_sub(session.clock.now());
        if stop.pause(wait.min(Duration::from_secs(5))) {
            break;
        }
        let report = session.driver.pass();
        all.changes.extend(report.changes);
        all.repairs += report.repairs;
        all.conditions = report.conditions;
        all.pending = report.pending;
        all.failures = report.failures;
    }
    all
}

pub(super) fn heading(session: &Session) -> String {
    let addresses: Vec<String> = session.spec.addresses.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "Node {} ({}): {} network {:?}, {}\n",
        session.spec.name,
        addresses.join(", "),
        session.spec.kind,
        session.spec.network_name,
        session.hns,
    );
    if session.furnished.added + session.furnished.removed > 0 {
        let _ = writeln!(
            text,
            "Set up: {} pod endpoints, {} other nodes, {} objects and routes added, {} removed",
            session.spec.pods.len(),
            session.spec.peers.len(),
            session.furnished.added,
            session.furnished.removed,
        );
    }
    text
}

/// What was done, what was not, and what to know.
fn told(session: &Session, report: &Report) -> String {
    let mut text = render::difference(&report.changes);
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{}", render::summary(report));
    let proxy = session.driver.proxy();
    let meters = session.watch.meters();
    let _ = writeln!(
        text,
        "{} frontends are wanted; {} HNS calls were made, {} of them writes.",
        proxy.wanted_count(),
        meters.calls(),
        meters.writes()
    );
    for failure in &report.failures {
        let _ = writeln!(text, "Failed: {}: {}", failure.what, failure.error);
    }
    let conditions = conditions(session);
    if !conditions.is_empty() {
        text.push_str("\nConditions\n");
        text.push_str(&conditions);
    }
    text
}

/// Conditions of the node and of the Services, a line each.
pub(super) fn conditions(session: &Session) -> String {
    let proxy = session.driver.proxy();
    let mut table = render::table(&["OBJECT", "REASON", "PORT", "MESSAGE"]);
    for condition in proxy.conditions() {
        table.add_row([&session.spec.name, &*condition.reason.to_string(), "", &condition.message]);
    }
    for (key, view) in proxy.services() {
        let name: Arc<str> = key.to_string().into();
        for condition in &view.conditions {
            table.add_row([
                &*name,
                condition.kind.reason(),
                condition.port.as_deref().unwrap_or_default(),
                &condition.message,
            ]);
        }
        let Some(status) = proxy.status(key) else { continue };
        for condition in &status.conditions {
            table.add_row([
                &*name,
                &condition.reason.to_string(),
                condition.port.as_deref().unwrap_or_default(),
                &condition.message,
            ]);
        }
        for frontend in &status.frontends {
            if let FrontendState::Waiting { reason } = &frontend.state {
                table.add_row([&*name, "Waiting", &frontend.frontend, reason]);
            }
        }
    }
    if table.is_empty() { String::new() } else { render::text(&table) }
}
