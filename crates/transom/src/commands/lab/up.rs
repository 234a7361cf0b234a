//! Making a lab, and making it follow its manifests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use lab::handover::Channel;
use lab::names::Names;
use lab::plan::Settings;
use lab::supervisor::{FromSupervisor, LabConfig, Status, methods};
use node::NetworkKind;
use serde_json::json;

use super::super::progress::Progress;
use super::super::render;
use super::{clock, control, manifests, names, status};
use crate::cli::inputs::{NetworkType, Profile};
use crate::cli::lab::{LabApply, LabUp};
use crate::exit::Exit;

fn text(path: Option<&Path>, what: &str) -> anyhow::Result<Option<String>> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("{what} {}", path.display()));
    path.map(read).transpose()
}

fn config(up: &LabUp, names: &Names) -> anyhow::Result<LabConfig> {
    let kind = match up.network {
        NetworkType::Overlay => NetworkKind::Overlay,
        NetworkType::L2bridge => NetworkKind::L2Bridge,
    };
    let profile = up.profile.map(|profile| match profile {
        Profile::Ws2019 => hns::Profile::Ws2019,
        Profile::Ws2022 => hns::Profile::Ws2022,
        Profile::Ws2025 => hns::Profile::Ws2025,
        Profile::Newest => hns::Profile::Newest,
    });
    let switches = text(up.switches.as_deref(), "switches")?.unwrap_or_default();
    hns::Switches::default().apply_yaml(&switches).context("switches of the emulated HNS")?;
    let mut faults = BTreeMap::new();
    if let Some(plan) = text(up.faults.as_deref(), "fault plan")? {
        hns::faults::FaultPlan::from_yaml(&plan).context("fault plan")?;
        faults.insert(String::new(), plan);
    }
    Ok(LabConfig {
        name: names.lab().to_string(),
        run: names.folder().parent().map(Path::to_owned).unwrap_or_default(),
        network: Settings { kind, ..Settings::default() },
        profile: profile.map(|profile| profile.name().to_owned()),
        dsr: up.enable_dsr,
        loopback: up.loopback_dsr,
        hns_network: if kind == NetworkKind::Overlay { "vxlan0" } else { "cbr0" }.to_owned(),
        root_endpoint: "cbr0".to_owned(),
        switches,
        faults,
        proxies: !up.without_proxy,
        answers: !up.without_responder,
    })
}

pub(super) fn run(up: &LabUp) -> anyhow::Result<Exit> {
    let names = names(&up.name.name);
    lab::needs::check(lab::needs::Uses {
        windows: true,
        vxlan: up.network == NetworkType::Overlay,
        nft: true,
    })?;
    if names.folder().exists() || !lab::netns::Netns::list(&names.prefix())?.is_empty() {
        if control(&names).is_ok() {
            bail!(
                "lab {} is there already; end it with `transom lab down`, or choose another --name",
                names.lab()
            );
        }
        bail!("something is left of lab {}; `transom lab down` takes it away", names.lab());
    }
    let config = config(up, &names)?;
    let made = manifests::take(&names, &up.manifests).and_then(|()| bring(&config, &names));
    match made {
        Ok(status) => {
            render::print(&summary(&status))?;
            Ok(Exit::Success)
        }
        Err(error) => {
            let log = fs::read_to_string(names.logs().join("supervisor.log")).unwrap_or_default();
            for line in log.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev() {
                tracing::error!(log = line, "supervisor");
            }
            lab::build::down(&names, &clock()).context("taking away what was made")?;
            Err(error)
        }
    }
}

/// Starts the supervisor and waits until the lab is there.
fn bring(config: &LabConfig, names: &Names) -> anyhow::Result<Status> {
    let (own, other) = Channel::pair().context("a channel to the supervisor")?;
    fs::create_dir_all(names.logs()).context("the folder of logs")?;
    let log = fs::File::create(names.logs().join("supervisor.log")).context("the supervisor's log")?;
    let program = std::env::current_exe().context("where this program is")?;
    own.send(config, &[]).context("the lab's configuration")?;
    let mut supervisor = Command::new(program)
        .args(["lab-part", "supervisor"])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(other)))
        .stdout(log.try_clone().context("the supervisor's log")?)
        .stderr(log)
        .spawn()
        .context("cannot start the supervisor")?;
    let progress = Progress::start("Starting", None);
    loop {
        match own.receive::<FromSupervisor>().context("the supervisor")? {
            Some((FromSupervisor::Step(step), _)) => {
                tracing::info!("{step}");
                progress.say(&step);
            }
            Some((FromSupervisor::Problem(problem), _)) => tracing::warn!("{problem}"),
            Some((FromSupervisor::Ready(status), _)) => return Ok(status),
            Some((FromSupervisor::Failed(why), _)) => {
                // It ends by itself now.
                let _ = supervisor.wait();
                bail!("{why}");
            }
            None => {
                let status = supervisor.wait().context("the supervisor")?;
                bail!("the supervisor ended ({status}); it left a log");
            }
        }
    }
}

fn summary(status: &Status) -> String {
    let windows = status.nodes.iter().filter(|node| node.windows).count();
    let dsr = if status.dsr { " with direct server return" } else { "" };
    let mut text = format!(
        "Lab {} is up: {} network{dsr}, {windows} Windows and {} Linux nodes, {} pods\n",
        status.name,
        status.network,
        status.nodes.len() - windows,
        status.pods.len()
    );
    for problem in &status.problems {
        let _ = writeln!(text, "Problem: {problem}");
    }
    text
}

pub(super) fn apply(apply: &LabApply) -> anyhow::Result<Exit> {
    let names = names(&apply.name.name);
    let lab = control(&names)?;
    if apply.manifests.is_empty() {
        manifests::take(&names, &manifests::sources(&names)?)?;
    } else {
        manifests::take(&names, &apply.manifests)?;
    }
    let progress = Progress::start("The lab follows", None);
    lab.call_extension(methods::APPLY, &json!({})).with_context(|| format!("lab {}", names.lab()))?;
    drop(progress);
    render::print(&summary(&status(&names)?))?;
    Ok(Exit::Success)
}
