//! `transom proxy` on a live cluster: the API as the source, this node's HNS, and what is seen of it from outside. Everything that
//! waits does so visibly, with the ports of health and metrics open.

mod engine;
mod interfaces;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster::source::{Event, Settings as SourceSettings};
use cluster::{Connection, Running};
use hcn::time::{Clock, SeededEntropy, SystemClock};
use proxy::meter::Metered;
use proxy::{Driver, NodeInput, Proxy};
use proxy_config::ProxySettings;
use proxyd::{Ended, Input, Loop, Phase, Settings, State};
use services::{Cluster, IpFamily, Perspective};

use super::node_hns::{self, OtherHns};
use super::session;
use crate::cli::hns_at::HnsAt;
use crate::exit::Exit;
use crate::paths;
use crate::startup::{self, NetworkPattern};
use crate::stop::Stop;

/// How long one pass may write before changes that have come in are taken.
const PASS_TIME: Duration = Duration::from_secs(1);

/// How often the host's interfaces are looked at.
const INTERFACES: Duration = Duration::from_secs(30);

/// What names the network where no setting does.
const NETWORK_VARIABLE: &str = "KUBE_NETWORK";

/// Serves until somebody asks to stop.
pub(super) fn run(settings: &ProxySettings, at: &HnsAt, stop: &Stop) -> anyhow::Result<Exit> {
    if matches!(at, HnsAt::Emulated) {
        bail!(
            "on a live cluster the node's HNS must be one that a CNI sets up: give --hns native on a Windows node, or the address \
             of an emulated one (`transom hns serve`, a lab's node); --manifests FILE works with an HNS in this process"
        );
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let state = State::new(Arc::clone(&clock));
    let (inputs, inbox) = mpsc::channel();
    let source = source(settings, &clock, &inputs)?;
    if !await_node(settings, at, &state, stop)? {
        return Ok(Exit::Success);
    }
    let driver = driver(settings, at, &clock, &state)?;
    let mut looped = Loop::new(driver, inbox, state.clone(), loop_settings(settings));
    let for_stop = inputs.clone();
    stop.when_asked(move || {
        // The loop has ended when nobody listens.
        let _ = for_stop.send(Input::Stop);
    });
    watch_interfaces(inputs, stop.clone())?;
    let ended = looped.run();
    drop(source);
    match ended {
        Ended::Stopped => Ok(Exit::Success),
        Ended::Forsaken => bail!("nothing feeds the proxy any more"),
    }
}

fn loop_settings(settings: &ProxySettings) -> Settings {
    Settings { node: settings.node_name.clone(), min_period: settings.min_sync_period }
}

/// Starts to list and watch.
fn source(settings: &ProxySettings, clock: &Arc<dyn Clock>, inputs: &Sender<Input>) -> anyhow::Result<Running> {
    let api = &settings.api;
    let connection = Connection {
        kubeconfig: api.kubeconfig.as_ref().map(Into::into),
        master: api.master.clone(),
        endpoint: std::env::var("KUBERNETES_API_ENDPOINT").ok().filter(|text| !text.is_empty()),
        resolve: Arc::new(paths::resolve),
        ..Connection::default()
    };
    let settings = SourceSettings::new(connection, &settings.node_name);
    let inputs = inputs.clone();
    let needed = [cluster::status::Resource::Services, cluster::status::Resource::EndpointSlices];
    let synced: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
    let sink: cluster::watching::Sink = Arc::new(move |told| {
        let input = match told {
            Event::Changed(change, triggered) => Input::Changed(change, triggered),
            Event::Refused(why) => {
                tracing::warn!(why, "An object of the cluster cannot be used");
                return;
            }
            Event::Synced(resource) => {
                for (known, needed) in synced.iter().zip(needed) {
                    if needed == resource {
                        known.store(true, Ordering::Release);
                    }
                }
                if !synced.iter().all(|known| known.load(Ordering::Acquire)) {
                    return;
                }
                Input::Synced
            }
        };
        // The loop has ended when nobody listens.
        let _ = inputs.send(input);
    });
    cluster::source::start(&settings, Arc::clone(clock), &sink).context("the API server")
}

/// Waits for HNS and the network. False when somebody asks to stop.
fn await_node(settings: &ProxySettings, at: &HnsAt, state: &State, stop: &Stop) -> anyhow::Result<bool> {
    state.set_phase(Phase::Waiting { what: "HNS".to_owned() });
    if !node_hns::wait_for(at, stop)? {
        return Ok(false);
    }
    let pattern = pattern(settings)?;
    let Some(other) = OtherHns::open(at, "proxy")? else { return Ok(true) };
    state.set_phase(Phase::Waiting { what: format!("the HNS network {:?}", pattern.text()) });
    session::await_network(&*other.actor("proxy"), &pattern, |pause| stop.pause(pause))
}

fn pattern(settings: &ProxySettings) -> anyhow::Result<NetworkPattern> {
    let Some(name) = &settings.network_name else {
        bail!("the HNS network is not named: give --network-name, winkernel.networkName or {NETWORK_VARIABLE}");
    };
    Ok(NetworkPattern::parse(name)?)
}

fn driver(
    settings: &ProxySettings,
    at: &HnsAt,
    clock: &Arc<dyn Clock>,
    state: &State,
) -> anyhow::Result<Driver> {
    let other = OtherHns::open(at, "proxy")?.context("there is no HNS")?;
    let pattern = pattern(settings)?;
    let mut config = engine::config(settings);
    config.pass_time = Some(PASS_TIME);
    match startup::look(&*other.actor("proxy"), &pattern) {
        startup::State::Found(name) => startup::settle(&mut config, &pattern, &name),
        // It was there a moment ago; the proxy waits for one of an exact name by itself.
        _ if pattern.is_exact() => pattern.text().clone_into(&mut config.network_name),
        other => bail!("{other}"),
    }
    let metered = Metered::new(other.actor("proxy"), Arc::clone(clock));
    state.set_hns(metered.watch());
    let perspective = Perspective {
        allow_external_ips: engine::allows_external_ips(settings),
        ..Perspective::of_node(&*settings.node_name, [IpFamily::V4])
    };
    let entropy = Arc::new(SeededEntropy::from_time(&**clock));
    let proxy = Proxy::new(Arc::new(metered), Arc::clone(clock), entropy, config, NodeInput::default());
    let interfaces = interfaces::read().context("the host's network interfaces")?;
    let mut driver = Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces);
    driver.set_primary_address(settings.node_ip);
    Ok(driver)
}

/// Tells the loop when the host's interfaces change.
fn watch_interfaces(inputs: Sender<Input>, stop: Stop) -> anyhow::Result<()> {
    let mut last = interfaces::read().unwrap_or_default();
    thread::Builder::new()
        .name("interfaces".to_owned())
        .spawn(move || {
            while !stop.pause(INTERFACES) {
                match interfaces::read() {
                    Ok(now) if now == last => {}
                    Ok(now) => {
                        tracing::info!("The host's network interfaces have changed");
                        last.clone_from(&now);
                        if inputs.send(Input::Interfaces(now)).is_err() {
                            return;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "The host's network interfaces cannot be read"),
                }
            }
        })
        .context("cannot start the thread that looks at the host's interfaces")?;
    Ok(())
}
