//! Rows as they stand in `testdata/reports/*.yaml`. docs/reports.md tells how to write one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use node::NetworkKind;
use serde::Deserialize;

/// A public report, or one side of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Row {
    /// The report's number, and after a point what this row is about.
    pub(crate) id: String,
    pub(crate) title: String,
    /// `owner/repo#number` of the reports.
    pub(crate) upstream: Vec<String>,
    /// Where it runs: words of [`Setting::has`]; none: everywhere.
    #[serde(default)]
    pub(crate) only: String,
    /// Which of the clusters beside the paths.
    #[serde(default)]
    pub(crate) families: Families,
    /// Objects besides the cluster's own.
    #[serde(default)]
    pub(crate) manifests: String,
    /// Pods may reach themselves through a Service.
    #[serde(default)]
    pub(crate) loopback: bool,
    /// The Windows build of every node.
    #[serde(default)]
    pub(crate) build: Option<String>,
    /// Switches of HNS, a YAML mapping.
    #[serde(default)]
    pub(crate) switches: String,
    /// What goes wrong in HNS, as for `--faults`.
    #[serde(default)]
    pub(crate) faults: String,
    #[serde(default)]
    pub(crate) proxy: ProxySettings,
    /// Servers besides those that slices speak of: `pod/NAME:PORT` or `node/NAME:PORT`.
    #[serde(default)]
    pub(crate) serve: Vec<String>,
    /// How long a frame is on each link, in milliseconds; none: a good cable.
    #[serde(default)]
    pub(crate) delay: Option<u64>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Families {
    #[default]
    Ipv4,
    /// Two; the Services of the cluster's file are IPv6.
    Dual,
}

/// Settings of the proxies that differ from the defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ProxySettings {
    #[serde(default)]
    pub(crate) forward_health_check_vip: bool,
    #[serde(default)]
    pub(crate) reapply_after_restart: bool,
}

/// One thing that happens. Exactly one of its fields besides `note` and `when` is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Step {
    /// Why, for the reader.
    #[serde(default)]
    pub(crate) note: String,
    /// Words of [`Setting::has`]: elsewhere the step is passed over.
    #[serde(default)]
    pub(crate) when: String,
    /// Whole exchanges, one after the other.
    #[serde(default)]
    pub(crate) exchange: Option<Exchange>,
    /// Long connections begin.
    #[serde(default)]
    pub(crate) start: Option<Start>,
    /// And end.
    #[serde(default)]
    pub(crate) finish: Option<Finish>,
    /// Objects that are there from now on, in this form.
    #[serde(default)]
    pub(crate) apply: Option<String>,
    /// `KIND NAMESPACE/NAME` of objects that go.
    #[serde(default)]
    pub(crate) delete: Vec<String>,
    /// Every proxy checks HNS so many times.
    #[serde(default)]
    pub(crate) check: Option<u32>,
    /// A node's proxy ends and starts anew.
    #[serde(default)]
    pub(crate) restart_proxy: Option<RestartProxy>,
    /// HNS of a node restarts.
    #[serde(default)]
    pub(crate) restart_hns: Option<RestartHns>,
    /// The CNI plugin's DEL of a pod: its endpoint goes.
    #[serde(default)]
    pub(crate) unplug: Option<String>,
    /// And its ADD, with what it had.
    #[serde(default)]
    pub(crate) plug: Option<String>,
    /// A pod's endpoint gets a policy.
    #[serde(default)]
    pub(crate) add_policy: Option<Policy>,
    /// A pod's endpoint loses its policies of a type.
    #[serde(default)]
    pub(crate) remove_policy: Option<PolicyKind>,
    /// A node's network loses its routes to the pods of other nodes.
    #[serde(default)]
    pub(crate) remove_remote_subnets: Option<String>,
    /// A node's interface gets an address.
    #[serde(default)]
    pub(crate) host_address: Option<HostAddress>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Exchange {
    /// `pod/NAME`, `node/NAME`, `external` or `external:IP`.
    pub(crate) from: String,
    /// `svc/NAME:PORT`, `pod/NAME:PORT` or `IP:PORT`; `outside:443` is the server outside.
    pub(crate) to: String,
    #[serde(default)]
    pub(crate) udp: bool,
    #[serde(default = "one")]
    pub(crate) times: u32,
    /// The node that addresses outside are led to.
    #[serde(default = "first_node")]
    pub(crate) node: String,
    /// Pods of which the one that answered is `{kept}` and the first other one `{other}` from now on.
    #[serde(default)]
    pub(crate) remember: Vec<String>,
    /// Expected: who may answer. Pods, nodes, `outside`.
    #[serde(default)]
    pub(crate) by: Vec<String>,
    /// Each of them answers at least once; with `one`, always the same.
    #[serde(default)]
    pub(crate) spread: Spread,
    /// Whom the backend sees: `client`, `source-vip`, `node` (the node of the exchange), or an address; by setting.
    #[serde(default)]
    pub(crate) sees: Option<BySetting>,
    /// Where the server was reached, `ADDRESS:PORT`.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// Nobody answers, and `transom trace` would say this.
    #[serde(default)]
    pub(crate) fails: Option<String>,
    /// How the request crosses the underlay: `encapsulated`, `native` or `not`; by setting.
    #[serde(default)]
    pub(crate) request: Option<BySetting>,
    /// And the reply.
    #[serde(default)]
    pub(crate) reply: Option<BySetting>,
    /// Ports that a packet passes, `NODE PORT` as `transom trace` calls them.
    #[serde(default)]
    pub(crate) passes: Vec<String>,
    /// Addresses that no packet on the underlay has, inside or outside of a tunnel.
    #[serde(default)]
    pub(crate) never: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spread {
    #[default]
    Any,
    One,
    All,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Start {
    /// What [`Finish`] calls them.
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    #[serde(default = "one")]
    pub(crate) times: u32,
    #[serde(default = "first_node")]
    pub(crate) node: String,
    /// Bytes sent and sent back on each.
    pub(crate) payload: usize,
    /// Milliseconds that pass before the next step.
    pub(crate) run: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Finish {
    pub(crate) name: String,
    /// Who may have answered; empty: every connection must have broken.
    #[serde(default)]
    pub(crate) by: Vec<String>,
    /// How many must have broken.
    #[serde(default)]
    pub(crate) broken: Broken,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Broken {
    #[default]
    None,
    Some,
    All,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RestartProxy {
    pub(crate) node: String,
    /// It has not done its first pass yet when the next step begins; a `check` has it begin.
    #[serde(default)]
    pub(crate) idle: bool,
    /// It deletes no load balancer.
    #[serde(default)]
    pub(crate) adopts: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RestartHns {
    pub(crate) node: String,
    /// `nothing`, `load-balancers`, `endpoints`, or `rules`: objects stay, the switch has lost them.
    pub(crate) loses: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Policy {
    pub(crate) pod: String,
    /// The policy, as JSON.
    pub(crate) policy: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PolicyKind {
    pub(crate) pod: String,
    /// Such as `OutBoundNAT`.
    pub(crate) kind: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct HostAddress {
    pub(crate) node: String,
    pub(crate) address: String,
}

fn one() -> u32 {
    1
}

fn first_node() -> String {
    "n1".to_owned()
}

/// A value that depends on the setting: words of [`Setting::has`] to values; the most words win, `else` is the rest.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum BySetting {
    Always(String),
    By(BTreeMap<String, String>),
}

impl BySetting {
    /// The value here; none: nothing is expected here.
    pub(crate) fn here(&self, setting: Setting) -> Option<&str> {
        match self {
            Self::Always(value) => Some(value),
            Self::By(values) => values
                .iter()
                .filter(|(words, _)| *words == "else" || setting.has(words))
                .max_by_key(|(words, _)| if *words == "else" { 0 } else { words.split_whitespace().count() })
                .map(|(_, value)| value.as_str()),
        }
    }
}

/// A kind of network with or without DSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) kind: NetworkKind,
    pub(crate) dsr: bool,
}

impl Setting {
    pub(crate) const ALL: [Self; 4] = [
        Self { kind: NetworkKind::Overlay, dsr: false },
        Self { kind: NetworkKind::Overlay, dsr: true },
        Self { kind: NetworkKind::L2Bridge, dsr: false },
        Self { kind: NetworkKind::L2Bridge, dsr: true },
    ];

    /// Whether every word holds: `overlay`, `l2bridge`, `dsr`, `no-dsr`.
    pub(crate) fn has(self, words: &str) -> bool {
        words.split_whitespace().all(|word| match word {
            "overlay" => self.kind == NetworkKind::Overlay,
            "l2bridge" => self.kind == NetworkKind::L2Bridge,
            "dsr" => self.dsr,
            "no-dsr" => !self.dsr,
            other => panic!("{other:?} is no word of a setting: overlay, l2bridge, dsr, no-dsr"),
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, if self.dsr { "-dsr" } else { "" })
    }
}

impl Step {
    /// How many things the step does; it must be one.
    pub(crate) fn acts(&self) -> usize {
        [
            self.exchange.is_some(),
            self.start.is_some(),
            self.finish.is_some(),
            self.apply.is_some(),
            !self.delete.is_empty(),
            self.check.is_some(),
            self.restart_proxy.is_some(),
            self.restart_hns.is_some(),
            self.unplug.is_some(),
            self.plug.is_some(),
            self.add_policy.is_some(),
            self.remove_policy.is_some(),
            self.remove_remote_subnets.is_some(),
            self.host_address.is_some(),
        ]
        .into_iter()
        .filter(|is| *is)
        .count()
    }
}

impl Exchange {
    /// The same with one expectation after the other made wrong: each must fail.
    pub(crate) fn broken(&self) -> Vec<Self> {
        let (nobody, never) = (vec!["nobody".to_owned()], "203.0.113.254".to_owned());
        let once = Self { times: 1, spread: Spread::Any, ..self.clone() };
        let mut broken = match &self.fails {
            // Words that are never said.
            Some(_) => {
                vec![
                    Self { fails: None, by: nobody, ..once.clone() },
                    Self { fails: Some("no such words".to_owned()), ..once.clone() },
                ]
            }
            None => {
                vec![Self { by: nobody, ..once.clone() }, Self { fails: Some(String::new()), ..once.clone() }]
            }
        };
        if self.sees.is_some() {
            broken.push(Self { sees: Some(BySetting::Always(never)), ..once.clone() });
        }
        if self.at.is_some() {
            broken.push(Self { at: Some("203.0.113.254:1".to_owned()), ..once.clone() });
        }
        let other = |way: &Option<BySetting>| {
            let flip = |way: &String| if way == "not" { "encapsulated".to_owned() } else { "not".to_owned() };
            way.as_ref().map(|way| match way {
                BySetting::Always(way) => BySetting::Always(flip(way)),
                BySetting::By(ways) => {
                    BySetting::By(ways.iter().map(|(words, way)| (words.clone(), flip(way))).collect())
                }
            })
        };
        if self.request.is_some() {
            broken.push(Self { request: other(&self.request), ..once.clone() });
        }
        if self.reply.is_some() {
            broken.push(Self { reply: other(&self.reply), ..once.clone() });
        }
        if !self.passes.is_empty() {
            broken.push(Self { passes: vec!["n9 host".to_owned()], ..once });
        }
        match self.spread {
            Spread::Any => {}
            Spread::One => broken.push(Self { spread: Spread::All, ..self.clone() }),
            Spread::All => broken.push(Self { spread: Spread::One, ..self.clone() }),
        }
        broken
    }
}

/// Every row of every file.
pub(crate) fn load() -> Vec<Row> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/reports");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    let mut rows: Vec<Row> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<Row> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for row in read {
            assert!(rows.iter().all(|other| other.id != row.id), "two rows are called {}", row.id);
            for (number, step) in row.steps.iter().enumerate() {
                assert_eq!(step.acts(), 1, "{}: step {} must do one thing", row.id, number + 1);
            }
            rows.push(row);
        }
    }
    rows
}
