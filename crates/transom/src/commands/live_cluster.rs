//! `transom proxy` on a live cluster: the API as the source, this node's HNS, and what is seen of it from outside. Everything that
//! waits does so visibly, with the ports of health and metrics open.
//!
//! | module | job |
//! |---|---|
//! | `engine` | kube-proxy's settings → the engine's |
//! | `follow` | a network that is made anew under another name |
//! | `interfaces` | the host's network interfaces |
//! | `notes` | what people are told on the cluster |
//! | `reload` | a configuration file that changes |
//! | `site` | what is served over HTTP |

pub(super) mod engine;
mod follow;
mod interfaces;
mod notes;
mod reload;
mod site;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster::source::{Event, Settings as SourceSettings};
use cluster::{Connection, Running};
use hcn::time::{Clock, SeededEntropy, SystemClock};
use parking_lot::Mutex;
use proxy::meter::Metered;
use proxy::{Config, Driver, NodeInput, Proxy};
use proxy_config::ProxySettings;
use proxyd::{Ended, Input, Loop, Phase, Settings, State};
use services::{Cluster, IpFamily, Perspective};

use super::node_hns::{self, OtherHns};
use super::session;
use crate::cli::hns_at::HnsAt;
use crate::cli::kube_proxy::{EngineArgs, KubeProxyArgs};
use crate::exit::Exit;
use crate::paths;
use crate::startup::{self, NetworkPattern};
use crate::stop::Stop;
use reload::Reload;

/// How long one pass may write before changes that have come in are taken.
const PASS_TIME: Duration = Duration::from_secs(1);

/// How often the host's interfaces are looked at.
const INTERFACES: Duration = Duration::from_secs(30);

/// Where the API is, on nodes where the cluster IP of its Service does not work yet: an address in place of what a pod finds.
const ENDPOINT_VARIABLE: &str = "KUBERNETES_API_ENDPOINT";

/// How a run ended.
enum Outcome {
    /// Somebody has asked to stop.
    Stopped,
    /// The configuration has changed in a way for which all of it is put together anew; HNS stays as it is meanwhile.
    Again,
}

/// Serves until somebody asks to stop.
pub(super) fn run(flags: KubeProxyArgs, at: &HnsAt, stop: &Stop) -> anyhow::Result<Exit> {
    if matches!(at, HnsAt::Emulated) {
        bail!(
            "on a live cluster the node's HNS must be one that a CNI sets up: give --hns native on a Windows node, or the address \
             of an emulated one (`transom hns serve`, a lab's node); --manifests FILE works with an HNS in this process"
        );
    }
    let engine = flags.engine.clone();
    let flags = Arc::new(Mutex::new(flags));
    loop {
        let Some(settings) = flags.lock().settings().cloned() else { bail!("the settings are not complete") };
        let one = One { settings, engine: &engine, at, stop, flags: &flags };
        match one.serve()? {
            Outcome::Stopped => return Ok(Exit::Success),
            Outcome::Again => tracing::info!("Starting anew with the changed configuration"),
        }
    }
}

/// One run with one configuration, as far as changes do not ask for another.
struct One<'a> {
    settings: ProxySettings,
    engine: &'a EngineArgs,
    at: &'a HnsAt,
    stop: &'a Stop,
    flags: &'a Arc<Mutex<KubeProxyArgs>>,
}

impl One<'_> {
    fn serve(&self) -> anyhow::Result<Outcome> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let state = State::new(Arc::clone(&clock));
        let (inputs, inbox) = mpsc::channel();
        let source = self.source(&clock, &inputs)?;
        // What changes for which everything is made anew ends the loop, as a stop does.
        let (again, ending) = (Arc::new(AtomicBool::new(false)), Stop::new());
        let server = site::serve(&self.settings, &state, &source)?;
        let _reload = Reload::start(self.flags, &self.settings, self.engine, &server, &inputs, {
            let (again, ending) = (Arc::clone(&again), ending.clone());
            Box::new(move || {
                again.store(true, Ordering::Release);
                ending.ask();
            })
        })?;
        let for_ending = ending.clone();
        self.stop.when_asked(move || for_ending.ask());
        let outcome = |again: &AtomicBool| {
            if again.load(Ordering::Acquire) { Outcome::Again } else { Outcome::Stopped }
        };
        if !self.await_node(&state, &ending)? {
            return Ok(outcome(&again));
        }
        let (driver, follower) = self.driver(&clock, &state, &inputs)?;
        let settings =
            Settings { node: self.settings.node_name.clone(), min_period: self.settings.min_sync_period };
        let mut looped = Loop::new(driver, inbox, state.clone(), settings);
        for observer in server.observers() {
            looped.observe(observer);
        }
        looped.observe(Box::new(follower));
        if let Some(telling) = notes::start(&source, &server) {
            looped.observe(telling);
        }
        looped.observe(Box::new(site::Ready::default()));
        let for_stop = inputs.clone();
        ending.when_asked(move || {
            // The loop has ended when nobody listens.
            let _ = for_stop.send(Input::Stop);
        });
        watch_interfaces(inputs, ending)?;
        match looped.run() {
            Ended::Stopped => Ok(outcome(&again)),
            Ended::Forsaken => bail!("nothing feeds the proxy any more"),
        }
    }

    /// Starts to list and watch.
    fn source(&self, clock: &Arc<dyn Clock>, inputs: &Sender<Input>) -> anyhow::Result<Running> {
        let api = &self.settings.api;
        let connection = Connection {
            kubeconfig: api.kubeconfig.as_ref().map(Into::into),
            master: api.master.clone(),
            endpoint: std::env::var(ENDPOINT_VARIABLE).ok().filter(|text| !text.is_empty()),
            resolve: Arc::new(paths::resolve),
            ..Connection::default()
        };
        let settings = SourceSettings::new(connection, &self.settings.node_name);
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

    /// Waits for HNS and the network. False when it is time to end.
    fn await_node(&self, state: &State, ending: &Stop) -> anyhow::Result<bool> {
        state.set_phase(Phase::Waiting { what: "HNS".to_owned() });
        if !node_hns::wait_for(self.at, ending)? {
            return Ok(false);
        }
        let pattern = self.pattern()?;
        let Some(other) = OtherHns::open(self.at, "proxy")? else { return Ok(true) };
        state.set_phase(Phase::Waiting { what: format!("the HNS network {:?}", pattern.text()) });
        session::await_network(&*other.actor("proxy"), &pattern, |pause| ending.pause(pause))
    }

    fn pattern(&self) -> anyhow::Result<NetworkPattern> {
        let Some(name) = &self.settings.network_name else {
            bail!("the HNS network is not named: give --network-name, winkernel.networkName or KUBE_NETWORK");
        };
        Ok(NetworkPattern::parse(name)?)
    }

    fn driver(
        &self,
        clock: &Arc<dyn Clock>,
        state: &State,
        inputs: &Sender<Input>,
    ) -> anyhow::Result<(Driver, follow::Follower)> {
        let other = OtherHns::open(self.at, "proxy")?.context("there is no HNS")?;
        let pattern = self.pattern()?;
        let mut config = config(&self.settings, self.engine);
        match startup::look(&*other.actor("proxy"), &pattern) {
            startup::State::Found(name) => startup::settle(&mut config, &pattern, &name),
            // It was there a moment ago; the proxy waits for one of an exact name by itself.
            _ if pattern.is_exact() => pattern.text().clone_into(&mut config.network_name),
            other => bail!("{other}"),
        }
        let follower = follow::Follower::new(other.actor("proxy"), pattern, config.clone(), inputs.clone());
        let metered = Metered::new(other.actor("proxy"), Arc::clone(clock));
        state.set_hns(metered.watch());
        let perspective = Perspective {
            allow_external_ips: self.settings.gates.allow_service_external_ips(),
            ..Perspective::of_node(&*self.settings.node_name, [IpFamily::V4])
        };
        let entropy = Arc::new(SeededEntropy::from_time(&**clock));
        let proxy = Proxy::new(Arc::new(metered), Arc::clone(clock), entropy, config, NodeInput::default());
        let interfaces = interfaces::read().context("the host's network interfaces")?;
        let mut driver = Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces);
        driver.set_primary_address(self.settings.node_ip);
        Ok((driver, follower))
    }
}

/// The engine's settings; the network is put in when it is found.
fn config(settings: &ProxySettings, engine: &EngineArgs) -> Config {
    Config { pass_time: Some(PASS_TIME), ..engine::config(settings, engine) }
}

/// Tells the loop when the host's interfaces change.
fn watch_interfaces(inputs: Sender<Input>, ending: Stop) -> anyhow::Result<()> {
    let mut last = interfaces::read().unwrap_or_default();
    thread::Builder::new()
        .name("interfaces".to_owned())
        .spawn(move || {
            while !ending.pause(INTERFACES) {
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
