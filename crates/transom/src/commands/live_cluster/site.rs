//! What a proxy on a live cluster serves over HTTP, and whom it tells that it is ready.

use std::fmt::Write as _;
use std::sync::Arc;

use cluster::Running;
use cluster::status::Board;
use proxy_config::ProxySettings;
use proxyd::api::{ApiFigures, ApiResource};
use proxyd::health::Settings as Health;
use proxyd::http::site::{Content, Site};
use proxyd::http::{Addresses, Server, Settings};
use proxyd::metrics::Build;
use proxyd::{Observer, Passed, State};
use serde_json::json;

/// Starts the servers.
pub(super) fn serve(settings: &ProxySettings, state: &State, source: &Running) -> anyhow::Result<Server> {
    let board = source.board();
    // As upstream: the key is the group, the value the file's form.
    let configz = json!({ "kubeproxy.config.k8s.io": settings.configuration.to_json() });
    let flagz = flags(settings);
    let content = Content {
        state: state.clone(),
        api: Arc::new(move || figures(&board)),
        build: build(settings),
        health: health(settings),
        configz: Arc::new(move || configz.clone()),
        flagz: Arc::new(move || flagz.clone()),
        profiling: settings.profiling,
    };
    let served = Settings {
        addresses: addresses(settings),
        hard_fail: settings.bind_address_hard_fail,
        ..Settings::default()
    };
    Ok(Server::start(Arc::new(Site::new(content)), served)?)
}

/// Where is listened.
pub(super) fn addresses(settings: &ProxySettings) -> Addresses {
    Addresses { healthz: settings.healthz, metrics: Some(settings.metrics) }
}

/// The limits of health.
pub(super) fn health(settings: &ProxySettings) -> Health {
    Health { sync_period: settings.sync_period, ..Health::default() }
}

fn build(settings: &ProxySettings) -> Build {
    let gates = settings.gates.iter().map(|(name, on)| (name.to_owned(), String::new(), on));
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("TRANSOM_COMMIT").unwrap_or_default().to_owned(),
        features: gates.collect(),
    }
}

/// The flags that the settings come to, as `/flagz` shows them.
fn flags(settings: &ProxySettings) -> String {
    let or_blank = |value: Option<String>| value.unwrap_or_default();
    let rows = [
        ("bind-address", or_blank(settings.node_ip.map(|ip| ip.to_string()))),
        ("enable-dsr", settings.enable_dsr.to_string()),
        ("healthz-bind-address", or_blank(settings.healthz.map(|address| address.to_string()))),
        ("hostname-override", settings.node_name.clone()),
        ("iptables-min-sync-period", format!("{:?}", settings.min_sync_period)),
        ("iptables-sync-period", format!("{:?}", settings.sync_period)),
        ("kubeconfig", or_blank(settings.api.kubeconfig.clone())),
        ("master", or_blank(settings.api.master.clone())),
        ("metrics-bind-address", settings.metrics.to_string()),
        ("network-name", or_blank(settings.network_name.clone())),
        ("profiling", settings.profiling.to_string()),
        ("root-hnsendpoint-name", settings.root_endpoint_name.clone()),
    ];
    let mut text = String::new();
    for (name, value) in rows {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

/// What is known of the API, in the form of those who show it.
fn figures(board: &Board) -> ApiFigures {
    let status = board.read();
    let word = |state| serde_json::to_value(state).ok().and_then(|value| value.as_str().map(str::to_owned));
    let resources = status.resources.iter().map(|(resource, of)| ApiResource {
        name: resource.name().to_owned(),
        state: word(of.state).unwrap_or_default(),
        synced: of.synced,
        objects: of.objects as u64,
        lists: of.lists,
        events: of.events,
        failures: of.failures,
        refused: of.refused,
        error: of.error.clone(),
    });
    ApiFigures { resources: resources.collect(), outage: status.outage() }
}

/// Says that the first pass is done to a service manager that asked for it.
#[derive(Default)]
pub(super) struct Ready {
    told: bool,
}

impl Observer for Ready {
    fn passed(&mut self, passed: &Passed<'_>) {
        if passed.completed && !self.told {
            self.told = true;
            tracing::info!(
                changes = passed.report.changes.len(),
                pending = passed.report.pending,
                "HNS was compared with what the Services want for the first time"
            );
            super::super::proxy::ready();
        }
    }
}
