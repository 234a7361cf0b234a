//! The proxy's figures as Prometheus reads them: those of upstream's proxy under upstream's names, and ours.
//!
//! | module | job |
//! |---|---|
//! | [`passes`] | what is counted while passes are made |
//! | `collect` | what is read from the state at each scrape |
//! | `expose` | one family of samples: name, type, labels |
//! | `process` | figures of the process |
//!
//! Nothing here waits for HNS, and labels are bounded: no name of a Service is ever one.
//!
//! The client library adds `_total` to counters, so counters are registered without it.

mod collect;
mod expose;
pub mod passes;
mod process;

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::api::ApiSource;
use crate::health::Settings;
use crate::listen::Board;
use crate::run::Observer;
use crate::state::State;
use passes::Passes;

/// Labels of a family whose children are counted while the proxy runs.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

/// In which form metrics are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic text format 0.0.4, for whoever does not ask for anything else.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What an `Accept` header asks for.
    pub fn accepted(accept: Option<&str>) -> Self {
        let open = |accept: &str| {
            accept.split(',').any(|range| {
                let mut parts = range.split(';').map(str::trim);
                parts.next() == Some("application/openmetrics-text") && !parts.any(|part| part == "q=0")
            })
        };
        if accept.is_some_and(open) { Self::OpenMetrics } else { Self::Classic }
    }

    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => prometheus_client::encoding::prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What the program says about itself.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// What it was built from, if that is known.
    pub commit: String,
    /// The feature gates that it knows: name, stage, on.
    pub features: Vec<(String, String, bool)>,
}

/// A path of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// `/healthz` of the health address.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
    /// `/healthz` of the metrics address.
    Ping,
    /// A port of a Service's health check.
    Check,
}

/// All figures.
pub struct Metrics {
    registry: Registry,
    slis: Registry,
    passes: Passes,
    healthz: Family<Labels<1>, Counter>,
    livez: Family<Labels<1>, Counter>,
    readyz: Family<Labels<1>, Counter>,
    checks: Family<Labels<1>, Counter>,
    check: Family<Labels<2>, Gauge>,
    check_results: Family<Labels<3>, Counter>,
}

/// Whence figures are read at each scrape.
pub struct Sources {
    /// What the loop publishes.
    pub state: State,
    /// What is known of the API.
    pub api: Arc<dyn ApiSource>,
    /// What the program says about itself.
    pub build: Build,
    /// The limits of health, which may change while the proxy runs.
    pub limits: Arc<Mutex<Settings>>,
    /// What is listened on.
    pub board: Board,
}

impl Metrics {
    /// Registers all of them.
    pub fn new(sources: Sources) -> Self {
        let mut registry = Registry::default();
        let passes = Passes::register(&mut registry);
        let mut by_code = |name: &str, help: &str| {
            let family = Family::<Labels<1>, Counter>::default();
            registry.register(name, help, family.clone());
            for code in [200_u16, 503] {
                let _ = family.get_or_create(&[("code", code.to_string())]);
            }
            family
        };
        let healthz = by_code("kubeproxy_proxy_healthz", "Answers of /healthz by status code");
        let livez = by_code("kubeproxy_proxy_livez", "Answers of /livez by status code");
        let readyz = by_code("transom_proxy_readyz", "Answers of /readyz by status code");
        let checks = by_code(
            "transom_health_check_answers",
            "Answers on the health check ports of Services by status code",
        );
        registry.register_collector(Box::new(collect::Collected::new(sources)));
        let mut slis = Registry::default();
        let check = Family::<Labels<2>, Gauge>::default();
        slis.register(
            "kubernetes_healthcheck",
            "The result of a health check when it was last asked for",
            check.clone(),
        );
        let check_results = Family::<Labels<3>, Counter>::default();
        slis.register("kubernetes_healthchecks", "Results of health checks", check_results.clone());
        Self { registry, slis, passes, healthz, livez, readyz, checks, check, check_results }
    }

    /// Who must be told of passes for these figures to move.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(self.passes.clone())
    }

    /// Counts an answer of health.
    pub fn answered(&self, asked: Asked, code: u16) {
        let label = [("code", code.to_string())];
        let (name, kind) = match asked {
            Asked::Healthz => {
                self.healthz.get_or_create(&label).inc();
                ("proxy", "healthz")
            }
            Asked::Livez => {
                self.livez.get_or_create(&label).inc();
                ("proxy", "livez")
            }
            Asked::Readyz => {
                self.readyz.get_or_create(&label).inc();
                ("proxy", "readyz")
            }
            Asked::Ping => ("ping", "healthz"),
            Asked::Check => {
                self.checks.get_or_create(&label).inc();
                return;
            }
        };
        let good = code == 200;
        let (name, kind) = (name.to_owned(), kind.to_owned());
        self.check.get_or_create(&[("name", name.clone()), ("type", kind.clone())]).set(i64::from(good));
        let status = if good { "success" } else { "error" }.to_owned();
        self.check_results.get_or_create(&[("name", name), ("status", status), ("type", kind)]).inc();
    }

    /// All figures as text.
    pub fn expose(&self, format: Format) -> Result<String, std::fmt::Error> {
        encode(&self.registry, format)
    }

    /// The indicators of health checks as text.
    pub fn expose_slis(&self, format: Format) -> Result<String, std::fmt::Error> {
        encode(&self.slis, format)
    }
}

fn encode(registry: &Registry, format: Format) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    match format {
        Format::Classic => prometheus_client::encoding::prometheus_text::encode(&mut text, registry)?,
        Format::OpenMetrics => prometheus_client::encoding::text::encode(&mut text, registry)?,
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
