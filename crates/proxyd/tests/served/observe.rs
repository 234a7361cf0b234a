//! The dashboard and the alerts of `deploy/observe`: they can be read, and use only metrics that are exposed.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names that are exposed: the snapshot of `figures`.
fn exposed() -> BTreeSet<String> {
    let text = read("crates/proxyd/tests/served/snapshots/served__figures__metrics.snap");
    let body = text.splitn(3, "---").nth(2).expect("a snapshot has a head");
    let names: BTreeSet<String> =
        body.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(names.len() > 40, "the snapshot lost some");
    names
}

/// The names in a query that are ours or upstream's.
fn used(query: &str) -> BTreeSet<String> {
    query
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| {
            ["transom_", "kubeproxy_", "kubernetes_", "process_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        .map(|word| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
            base.unwrap_or(word).to_owned()
        })
        .collect()
}

fn check(what: &str, query: &str, exposed: &BTreeSet<String>) {
    let used = used(query);
    let unknown: Vec<&String> = used.difference(exposed).collect();
    assert!(unknown.is_empty(), "{what} uses {unknown:?}, which nobody exposes");
    let balance = |open, close| query.matches(open).count() == query.matches(close).count();
    assert!(balance('(', ')') && balance('{', '}') && balance('[', ']'), "{what}: {query}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    r#for: String,
    labels: std::collections::BTreeMap<String, String>,
    annotations: std::collections::BTreeMap<String, String>,
}

#[test]
fn alerts_use_what_is_exposed() {
    let rules: Rules = serde_saphyr::from_str(&read("deploy/observe/alerts.yaml")).expect("rules");
    let exposed = exposed();
    let documented = read("docs/observability.md");
    let mut names = BTreeSet::new();
    for rule in rules.groups.iter().flat_map(|group| &group.rules) {
        check(&rule.alert, &rule.expr, &exposed);
        assert!(names.insert(&rule.alert), "{} is there twice", rule.alert);
        assert!(["critical", "warning"].contains(&rule.labels["severity"].as_str()), "{}", rule.alert);
        assert!(rule.annotations.contains_key("summary") && rule.annotations.contains_key("description"));
        let unit = rule.r#for.trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(["s", "m", "h"].contains(&unit), "{}: {}", rule.alert, rule.r#for);
        let cell = format!("`{}`", rule.alert);
        assert!(documented.contains(&cell), "{cell} is not in docs/observability.md");
    }
    assert_eq!(rules.groups[0].name, "transom-proxy");
}

#[test]
fn the_dashboard_uses_what_is_exposed() {
    let dashboard: Value = serde_json::from_str(&read("deploy/observe/dashboard.json")).expect("JSON");
    let exposed = exposed();
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    let mut queries = 0;
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is there twice");
        for target in panel["targets"].as_array().into_iter().flatten() {
            check(title, target["expr"].as_str().expect("a query"), &exposed);
            queries += 1;
        }
    }
    assert!(queries > 20, "only {queries} queries");
}

#[test]
fn every_metric_is_documented() {
    let documented = read("docs/observability.md");
    for name in exposed().iter().filter(|name| name.starts_with("transom_") || name.starts_with("kubeproxy_"))
    {
        assert!(documented.contains(&format!("`{name}`")), "{name} is not in docs/observability.md");
    }
}
