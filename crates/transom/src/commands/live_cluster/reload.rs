//! A configuration file that changes: read again, compared, and followed as far as each setting allows. A file that is wrong
//! changes nothing and says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use proxy_config::ProxySettings;
use proxy_config::changes::{Needs, changes};
use proxyd::Input;
use proxyd::http::Server;
use proxyd::http::site::Site;

use super::site;
use crate::cli::kube_proxy::{EngineArgs, KubeProxyArgs};
use crate::commands::configuration;
use crate::paths;

/// Editors write in several steps; what comes within this time is one change.
const SETTLE: Duration = Duration::from_millis(200);

/// Follows a file until it is dropped.
pub(super) struct Reload {
    _watcher: Option<RecommendedWatcher>,
}

/// What follows changes.
struct Follow {
    flags: Arc<Mutex<KubeProxyArgs>>,
    now: ProxySettings,
    engine: EngineArgs,
    site: Arc<Site>,
    addresses: Box<dyn Fn(&ProxySettings) + Send>,
    inputs: Sender<Input>,
    again: Box<dyn Fn() + Send>,
}

impl Reload {
    /// Starts, if the settings come from a file. `again` is called when all must be put together anew.
    pub(super) fn start(
        flags: &Arc<Mutex<KubeProxyArgs>>,
        settings: &ProxySettings,
        engine: &EngineArgs,
        server: &Server,
        inputs: &Sender<Input>,
        again: Box<dyn Fn() + Send>,
    ) -> anyhow::Result<Self> {
        let Some(file) = flags.lock().config() else { return Ok(Self { _watcher: None }) };
        let place = paths::resolve(Path::new(&file));
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        let (woken, wakes) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is what this process itself does to it.
            let matters = event.map_or(true, |event| !event.kind.is_access());
            if matters {
                // The thread has ended when nobody listens.
                let _ = woken.send(());
            }
        })
        .with_context(|| format!("--config {file}: it cannot be watched"))?;
        // Kubernetes replaces a mounted ConfigMap's folder; editors replace files: the folder is what stays.
        watcher
            .watch(&folder, RecursiveMode::NonRecursive)
            .with_context(|| format!("--config {file}: {} cannot be watched", folder.display()))?;
        let handle = server.handle();
        let mut follow = Follow {
            flags: Arc::clone(flags),
            now: settings.clone(),
            engine: engine.clone(),
            site: Arc::clone(server.site()),
            addresses: Box::new(move |settings| handle.set_addresses(site::addresses(settings))),
            inputs: inputs.clone(),
            again,
        };
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || {
                while wakes.recv().is_ok() {
                    while wakes.recv_timeout(SETTLE).is_ok() {}
                    follow.look();
                }
            })
            .context("cannot start the thread that follows the configuration file")?;
        Ok(Self { _watcher: Some(watcher) })
    }
}

impl Follow {
    fn look(&mut self) {
        let mut flags = self.flags.lock();
        if let Err(error) = configuration::reread(&mut flags) {
            tracing::error!(error = format!("{error:#}"), "The changed configuration is not used");
            return;
        }
        let Some(new) = flags.settings().cloned() else { return };
        drop(flags);
        let found = changes(&self.now, &new);
        if found.is_empty() {
            return;
        }
        let mut all = false;
        for change in &found {
            tracing::info!(setting = change.key, from = change.from, to = change.to, needs = ?change.needs, "The configuration has changed");
            match change.needs {
                Needs::Connection | Needs::Network | Needs::Node => all = true,
                Needs::Process => {
                    tracing::warn!(
                        setting = change.key,
                        "This setting counts from the next start of the process on"
                    );
                }
                Needs::NextPass | Needs::AtOnce | Needs::HealthListener | Needs::MetricsListener => {}
            }
        }
        self.now = new;
        if all {
            (self.again)();
            return;
        }
        self.site.set_health(site::health(&self.now));
        (self.addresses)(&self.now);
        let config = super::config(&self.now, &self.engine);
        for input in [
            Input::Config(Box::new(config)),
            Input::PrimaryAddress(self.now.node_ip),
            Input::MinPeriod(self.now.min_sync_period),
        ] {
            // The loop has ended when nobody listens.
            let _ = self.inputs.send(input);
        }
    }
}
