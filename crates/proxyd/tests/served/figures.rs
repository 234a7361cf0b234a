//! The set of metrics: every name, type and label that is exposed after a pass, and that upstream's are among them.

use std::collections::{BTreeMap, BTreeSet};

use hns::faults::{Fault, FaultRule};
use proxyd::Input;
use serde::Deserialize;

use crate::rig::{Rig, free_port, make_network, objects, until};

/// By name: the type, and the label keys of all samples.
pub fn families(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut families: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            families.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix).filter(|base| families.contains_key(*base)))
                .unwrap_or(name);
            let (_, keys) = families.get_mut(name).unwrap_or_else(|| panic!("{name} has no type"));
            for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
                let key = label.split_once('=').expect("a label").0;
                if key != "le" {
                    keys.insert(key.to_owned());
                }
            }
        }
    }
    families
}

/// Everything that can be counted was once.
fn full() -> (Rig, String) {
    let rig = Rig::start();
    make_network(&rig.hns);
    rig.apply(&objects(free_port()));
    rig.hns
        .faults()
        .add(FaultRule::new(Fault::Down).actor("proxy").kind(hcn::Kind::LoadBalancer).times(1))
        .expect("the rule can be");
    rig.send(Input::Synced);
    rig.pass();
    rig.clock.advance(std::time::Duration::from_mins(5));
    rig.pass();
    rig.apply(&objects(free_port()).replace("10.50.2.7", "10.50.2.8"));
    rig.pass();
    until(|| rig.server.site().board().listeners().contains_key("check"));
    rig.healthz("/healthz");
    let text = rig.metrics("/metrics").body;
    (rig, text)
}

#[test]
fn the_whole_set_of_metrics() {
    let (rig, text) = full();
    let lines: Vec<String> = families(&text)
        .into_iter()
        .map(|(name, (kind, labels))| {
            let labels: Vec<String> = labels.into_iter().collect();
            format!("{name} {kind} {{{}}}", labels.join(","))
        })
        .collect();
    insta::assert_snapshot!("metrics", lines.join("\n"));
    let slis = rig.metrics("/metrics/slis").body;
    for series in [
        "kubernetes_healthcheck{name=\"proxy\",type=\"healthz\"} 1",
        "kubernetes_healthchecks_total{name=\"proxy\",status=\"success\",type=\"healthz\"} 1",
    ] {
        assert!(slis.contains(series), "{series} is not in {slis}");
    }
    rig.end();
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Upstream {
    name: String,
    r#type: String,
    labels: Vec<String>,
    buckets: Option<Vec<f64>>,
}

#[test]
fn upstreams_metrics_are_there_after_a_pass() {
    let (rig, text) = full();
    let table: Vec<Upstream> =
        serde_saphyr::from_str(include_str!("../../testdata/upstream-metrics.yaml")).expect("the table");
    assert!(table.len() >= 11);
    let found = families(&text);
    for metric in table {
        let (kind, labels) =
            found.get(&metric.name).unwrap_or_else(|| panic!("{} is not exposed", metric.name));
        assert_eq!(
            (kind, labels.iter().cloned().collect::<Vec<_>>()),
            (&metric.r#type, metric.labels),
            "{}",
            metric.name
        );
        let samples = text.lines().filter(|line| line.starts_with(&metric.name)).count();
        assert!(samples > 0, "{} has no sample", metric.name);
        if let Some(buckets) = metric.buckets {
            let prefix = format!("{}_bucket{{le=\"", metric.name);
            let any = format!("{}_bucket{{", metric.name);
            let bounds: Vec<f64> = text
                .lines()
                .filter(|line| line.starts_with(&any) || line.starts_with(&prefix))
                .filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()?.parse().ok())
                .filter(|bound: &f64| bound.is_finite())
                .collect();
            assert_eq!(bounds, buckets, "{}", metric.name);
        }
    }
    // They move.
    for series in [
        "kubeproxy_network_programming_duration_seconds_count{ip_family=\"IPv4\"}",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total",
        "kubeproxy_sync_proxy_rules_service_changes_total",
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=\"IPv4\",traffic_policy=\"internal\"}",
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}",
        "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv4\"}",
        "kubeproxy_proxy_healthz_total{code=\"200\"}",
    ] {
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value: f64 =
            value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{series}: {text}"));
        assert!(value > 0.0, "{series} is {value}");
    }
    rig.end();
}
