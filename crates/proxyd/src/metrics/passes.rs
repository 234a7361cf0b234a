//! What is counted while passes are made: how long they took, what they changed, how long changes waited. Runs on the loop's
//! thread and costs a few atomic additions.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets, linear_buckets};
use prometheus_client::registry::Registry;

use super::Labels;
use crate::health::family_name;
use crate::run::{Observer, Passed};

/// Makes histograms with upstream's classes.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(fn() -> Histogram);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        (self.0)()
    }
}

/// From one millisecond on, fifteen times doubled.
fn pass_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// Quarters of a second at first, then seconds, then steps of five and of thirty up to five minutes.
fn programming_buckets() -> Histogram {
    let steps = linear_buckets(0.25, 0.25, 2)
        .chain(linear_buckets(1.0, 1.0, 59))
        .chain(linear_buckets(60.0, 5.0, 12))
        .chain(linear_buckets(120.0, 30.0, 7));
    Histogram::new(steps)
}

/// Figures of passes. Clones are the same figures.
#[derive(Clone)]
pub struct Passes {
    took: Family<Labels<1>, Histogram, Buckets>,
    programming: Family<Labels<1>, Histogram, Buckets>,
    changes: Family<Labels<2>, Counter>,
    failures: Counter,
    unfinished: Counter,
    incomplete: Counter,
}

impl Passes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let passes = Self {
            took: Family::new_with_constructor(Buckets(pass_buckets)),
            programming: Family::new_with_constructor(Buckets(programming_buckets)),
            changes: Family::default(),
            failures: Counter::default(),
            unfinished: Counter::default(),
            incomplete: Counter::default(),
        };
        registry.register(
            "kubeproxy_sync_proxy_rules_duration_seconds",
            "How long a pass took, completed or not",
            passes.took.clone(),
        );
        registry.register(
            "kubeproxy_network_programming_duration_seconds",
            "How long it took from the trigger of a change of endpoints until HNS held it",
            passes.programming.clone(),
        );
        registry.register("transom_changes", "Objects that were written to HNS", passes.changes.clone());
        registry.register(
            "transom_pass_failures",
            "Reads and writes of HNS that failed within passes",
            passes.failures.clone(),
        );
        registry.register(
            "transom_passes_unfinished",
            "Passes that ran out of time and were continued by the next one",
            passes.unfinished.clone(),
        );
        registry.register(
            "transom_passes_incomplete",
            "Passes after which changes still wait, for lack of time or because HNS could not be read",
            passes.incomplete.clone(),
        );
        passes
    }
}

impl Observer for Passes {
    fn passed(&mut self, passed: &Passed<'_>) {
        for &family in passed.families {
            let label = [("ip_family", family_name(family).to_owned())];
            self.took.get_or_create(&label).observe(passed.took.as_secs_f64());
            // So that the series is there from the first pass on.
            let _ = self.programming.get_or_create(&label);
        }
        for (family, took) in passed.programmed {
            let label = [("ip_family", family_name(*family).to_owned())];
            self.programming.get_or_create(&label).observe(took.as_secs_f64());
        }
        for change in &passed.report.changes {
            let labels = [("action", change.action.to_string()), ("kind", change.kind.to_string())];
            self.changes.get_or_create(&labels).inc();
        }
        self.failures.inc_by(passed.report.failures.len() as u64);
        self.incomplete.inc_by(u64::from(!passed.completed));
        self.unfinished.inc_by(u64::from(passed.unfinished));
    }
}
