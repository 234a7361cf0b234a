//! The form of a scenario file. See docs/scenarios.md.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::world::objects::{ShortService, ShortSlice};

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Scenario {
    /// A stable short name, e.g. `PL-01`.
    pub(crate) id: String,
    /// One line for people.
    pub(crate) title: String,
    /// Where it comes from: public references.
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the file")]
    pub(crate) source: Option<String>,
    /// Compared with kube-proxy: `same` or `better`.
    #[serde(default)]
    pub(crate) verdict: Option<Verdict>,
    /// For `better`: why.
    #[serde(default)]
    pub(crate) why: Option<String>,
    /// The row is run once for each; default: ws2022.
    #[serde(default)]
    pub(crate) profiles: Vec<String>,
    /// The row is run once for each; default: l2bridge.
    #[serde(default)]
    pub(crate) networks: Vec<String>,
    /// The row is run once for each with DSR on or off; default: `config.enableDsr`.
    #[serde(default)]
    pub(crate) dsr: Vec<bool>,
    #[serde(default)]
    pub(crate) dual_stack: bool,
    /// `v4`, `v6`: the families that node and network have; default: v4, with `dualStack` both.
    #[serde(default)]
    pub(crate) families: Vec<String>,
    #[serde(default)]
    pub(crate) zone: Option<String>,
    #[serde(default)]
    pub(crate) config: ShortConfig,
    /// Switches of the emulated HNS, as YAML text.
    #[serde(default)]
    pub(crate) switches: Option<String>,
    /// Pods on the node at the start.
    #[serde(default)]
    pub(crate) locals: Vec<String>,
    /// Faults from the start, as a fault plan's YAML text.
    #[serde(default)]
    pub(crate) faults: Option<String>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Same,
    Better,
}

/// The proxy's settings that a row changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the proxy")]
pub(crate) struct ShortConfig {
    pub(crate) source_vip: Option<String>,
    pub(crate) source_vip_endpoints: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) enable_dsr: bool,
    #[serde(default)]
    pub(crate) forward_health_check_vip: bool,
    pub(crate) root_endpoint: Option<String>,
    pub(crate) healthz_port: Option<u16>,
    /// `all`, `primary` or networks.
    pub(crate) node_port_addresses: Option<Vec<String>>,
    pub(crate) check_slice: Option<usize>,
    #[serde(default)]
    pub(crate) reapply_after_restart: bool,
    #[serde(default)]
    pub(crate) verify_writes: bool,
    pub(crate) dynamic_ports: Option<u32>,
    pub(crate) parallel_calls: Option<usize>,
}

/// One step; the keys of a step act in the order in which they are listed here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Step {
    /// For people, and for the message when it fails.
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// The step is run once for each: `L1, R1 terminating => L1 | L1`. The part before `=>` stands for `$` among a
    /// slice's endpoints; the parts after it, parted by `|`, for `[$1]`, `[$2]`… among expected load balancers (a
    /// load balancer with an empty set is not expected). Without `=>`, `[$1]` is the endpoints themselves.
    #[serde(default)]
    pub(crate) each: Vec<String>,
    /// Fault rules that come into force, as a fault plan's YAML text; about calls of the proxy unless they name an
    /// actor.
    #[serde(default)]
    pub(crate) faults: Option<String>,
    /// All fault rules end and hung calls return.
    #[serde(default)]
    pub(crate) clear_faults: bool,
    /// The pods on the node are these from now on.
    #[serde(default)]
    pub(crate) locals: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) services: Vec<ShortService>,
    #[serde(default)]
    pub(crate) slices: Vec<ShortSlice>,
    /// Kubernetes objects as they are.
    #[serde(default)]
    pub(crate) objects: Vec<serde_json::Value>,
    /// `Service default/web`, `EndpointSlice default/web-1`.
    #[serde(default)]
    pub(crate) delete: Vec<String>,
    /// What others do to HNS.
    #[serde(default)]
    pub(crate) outside: Vec<Outside>,
    /// What others try to do to HNS and HNS refuses.
    #[serde(default)]
    pub(crate) refused: Vec<Outside>,
    /// The addresses of the host's interface from now on, as the proxy is told.
    #[serde(default)]
    pub(crate) interfaces: Option<Vec<String>>,
    /// `proxy`, `hns`, `hns losing load balancers`, `hns losing endpoints`, `hns losing half`, `hns losing all`.
    #[serde(default)]
    pub(crate) restart: Option<String>,
    /// Ports that a process of the host opens, e.g. `TCP 10256`.
    #[serde(default)]
    pub(crate) listen: Vec<String>,
    /// Seconds.
    #[serde(default)]
    pub(crate) advance: Option<u64>,
    /// How many passes; default 1 when the step expects something, else 0.
    #[serde(default)]
    pub(crate) passes: Option<usize>,
    /// Moves the clock over one check period and passes.
    #[serde(default)]
    pub(crate) check: bool,
    /// Passes and moves the clock until nothing is left to do.
    #[serde(default)]
    pub(crate) settle: bool,
    /// Repeats the step.
    #[serde(default)]
    pub(crate) repeat: Option<usize>,
    /// Steps within the step, for repeating several together.
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) expect: Option<Expect>,
}

/// What others do to HNS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) enum Outside {
    /// Deletes the load balancer at a frontend.
    DeleteBalancer(String),
    /// Deletes the endpoints with an address: `R1`, `remote R1`, `local L1`.
    DeleteEndpoint(String),
    /// Makes a load balancer.
    CreateBalancer(OutsideBalancer),
    /// Makes an endpoint.
    CreateEndpoint(OutsideEndpoint),
    /// Replaces the backends of the load balancer at a frontend.
    SetBackends(OutsideBackends),
    /// Deletes the network; HNS deletes what is on it. `locals` in a later step makes it again.
    DeleteNetwork,
    /// Deletes the network and makes one of the same name and ranges under another id.
    ReplaceNetwork,
    /// Makes a bridge network with this name and range 10.51.0.0/16.
    CreateNetwork(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct OutsideBalancer {
    /// VIPs; none for a node port.
    #[serde(default)]
    pub(crate) vips: Vec<String>,
    /// `80/TCP -> 8080`, several allowed.
    pub(crate) ports: Vec<String>,
    /// Backends: addresses of endpoints that exist.
    pub(crate) backends: Vec<String>,
    #[serde(default)]
    pub(crate) owner: Option<String>,
    #[serde(default)]
    pub(crate) flags: u32,
    #[serde(default)]
    pub(crate) mapping_flags: u32,
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// How many of its kind: kept apart by id.
    #[serde(default)]
    pub(crate) id: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct OutsideEndpoint {
    pub(crate) address: String,
    #[serde(default)]
    pub(crate) remote: bool,
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// `kube-proxy` for the one kube-proxy gives; else a MAC.
    #[serde(default)]
    pub(crate) mac: Option<String>,
    #[serde(default)]
    pub(crate) provider_address: Option<String>,
    #[serde(default)]
    pub(crate) owner: Option<String>,
    /// Put it into a namespace of a pod.
    #[serde(default)]
    pub(crate) in_pod: bool,
    /// The network's name, when it is not the node's.
    #[serde(default)]
    pub(crate) network: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct OutsideBackends {
    pub(crate) frontend: String,
    pub(crate) backends: Vec<String>,
}

/// What must hold after a step. I1 to I3 are always checked (I3 unless `unsettled`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Expect {
    /// All load balancers, in short form: `10.60.0.20:80/TCP -> 8080 [L1 R1] flags=DSR`. A key that is not named is
    /// not compared; `flags=`, `mapping=` or `dist=` without a value means none. `{dsr}` stands for `DSR` when the
    /// variant has it on, else for nothing; `{source}` for `SRC` on an overlay, else for `N1`.
    #[serde(default)]
    pub(crate) balancers: Option<Vec<String>>,
    /// Some load balancers.
    #[serde(default)]
    pub(crate) contains: Vec<String>,
    /// Frontends that nothing holds.
    #[serde(default)]
    pub(crate) absent: Vec<String>,
    /// How many load balancers there are.
    #[serde(default)]
    pub(crate) balancer_count: Option<usize>,
    /// All addresses of remote endpoints; `overlay 10.60.0.20` is there on an overlay only.
    #[serde(default)]
    pub(crate) remotes: Option<Vec<String>>,
    /// Some endpoints: `R1 remote pa=N2 mac=02-11-0A-32-02-05`, `L1 local`; exactly one endpoint has the address.
    /// `pa=` without a value means none.
    #[serde(default)]
    pub(crate) endpoints: Vec<String>,
    /// Addresses whose endpoint has the same id as at the last expectation.
    #[serde(default)]
    pub(crate) same_endpoint: Vec<String>,
    /// Addresses that have an endpoint of the node itself.
    #[serde(default)]
    pub(crate) locals: Vec<String>,
    /// Writes of the proxy since the last expectation: a number, or counts such as `create endpoint: 1`.
    /// `change balancer: 1` is one modify where HNS can, else one delete and one create.
    #[serde(default)]
    pub(crate) writes: Option<Writes>,
    /// At most so many calls of the proxy since the last expectation.
    #[serde(default)]
    pub(crate) calls_at_most: Option<u64>,
    /// Enumerations since the last expectation.
    #[serde(default)]
    pub(crate) lists_at_most: Option<u64>,
    /// `default/web: Reason`: conditions of the Service's view or programming.
    #[serde(default)]
    pub(crate) conditions: Vec<BTreeMap<String, String>>,
    /// Reasons that no Service and not the node has.
    #[serde(default)]
    pub(crate) no_conditions: Vec<String>,
    /// Conditions of the node.
    #[serde(default)]
    pub(crate) node_conditions: Vec<String>,
    /// Frontends whose load balancer has the same id as at the last expectation.
    #[serde(default)]
    pub(crate) same_id: Vec<String>,
    /// Frontends that HNS held without interruption since the last expectation: no delete, or a delete followed at
    /// once by a create.
    #[serde(default)]
    pub(crate) never_gone: Vec<String>,
    /// Order of the first creations since the last expectation, among those named.
    #[serde(default)]
    pub(crate) created_in_order: Vec<String>,
    /// Differences made by others and mended since the last expectation, at least.
    #[serde(default)]
    pub(crate) repairs_at_least: Option<usize>,
    /// The state of a frontend: `Programmed`, `Waiting`, `Failed`, `Pending`.
    #[serde(default)]
    pub(crate) states: BTreeMap<String, String>,
    /// Things are still failing, so a further pass may write.
    #[serde(default)]
    pub(crate) unsettled: bool,
    /// The maximum number of backends of any load balancer.
    #[serde(default)]
    pub(crate) backends_at_most: Option<usize>,
    /// The least number of backends of any load balancer.
    #[serde(default)]
    pub(crate) backends_at_least: Option<usize>,
    /// Backends that every load balancer has.
    #[serde(default)]
    pub(crate) backends_have: Vec<String>,
    /// Words that occur in the text of some condition or state.
    #[serde(default)]
    pub(crate) says: Vec<String>,
    /// Frontends and how many writes the proxy needed at most since the last expectation until each was made, that
    /// one included.
    #[serde(default)]
    pub(crate) made_within: BTreeMap<String, u64>,
    /// Frontends and how often at most the proxy tried to make each since the last expectation.
    #[serde(default)]
    pub(crate) attempts_at_most: BTreeMap<String, u64>,
    /// Objects that the proxy did not make are byte for byte as at the last expectation (or at the start).
    #[serde(default)]
    pub(crate) foreign_untouched: bool,
    /// Blocks of 64 dynamic ports that are taken, by port space: `TCPv4: 3`.
    #[serde(default)]
    pub(crate) blocks: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Writes {
    Total(u64),
    Counts(BTreeMap<String, u64>),
}

impl Step {
    /// Whether it does not matter in which order load balancers are made.
    fn expects_no_order(&self) -> bool {
        self.expect
            .as_ref()
            .is_none_or(|expect| expect.created_in_order.is_empty() && expect.made_within.is_empty())
            && self.steps.iter().all(Self::expects_no_order)
    }

    /// The step with each of its `each` put in; itself when it has none.
    pub(crate) fn rounds(&self) -> Vec<Self> {
        if self.each.is_empty() {
            vec![self.clone()]
        } else {
            self.each.iter().map(|each| self.with(each)).collect()
        }
    }

    fn with(&self, each: &str) -> Self {
        let (endpoints, sets) = match each.split_once("=>") {
            Some((endpoints, sets)) => (endpoints, Some(sets)),
            None => (each, None),
        };
        let endpoints: Vec<String> =
            endpoints.split(", ").map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let sets: Vec<String> = if let Some(sets) = sets {
            sets.split('|').map(|set| set.trim().to_owned()).collect()
        } else {
            let words = endpoints.iter().filter_map(|text| text.split_whitespace().next());
            vec![words.collect::<Vec<_>>().join(" ")]
        };
        let mut step = Self { each: Vec::new(), ..self.clone() };
        step.note = Some(format!("{} {each}", self.note.as_deref().unwrap_or_default()).trim().to_owned());
        for slice in &mut step.slices {
            slice.endpoints = slice
                .endpoints
                .iter()
                .flat_map(|text| if text == "$" { endpoints.clone() } else { vec![text.clone()] })
                .collect();
        }
        let fill = |lines: &mut Vec<String>| {
            for (number, set) in sets.iter().enumerate() {
                let place = format!("[${}]", number + 1);
                if set.is_empty() {
                    lines.retain(|line| !line.contains(&place));
                }
                for line in lines.iter_mut() {
                    *line = line.replace(&place, &format!("[{set}]"));
                }
            }
        };
        if let Some(expect) = &mut step.expect {
            fill(&mut expect.contains);
            expect.balancers.iter_mut().for_each(fill);
        }
        step
    }
}

impl Scenario {
    /// One scenario for each profile, network and DSR setting that the row names.
    pub(crate) fn variants(self) -> Vec<(String, Self)> {
        let or = |list: &[String], default: &str| {
            if list.is_empty() { vec![default.to_owned()] } else { list.to_vec() }
        };
        let profiles = or(&self.profiles, "ws2022");
        let networks = or(&self.networks, "l2bridge");
        let dsr = if self.dsr.is_empty() { vec![self.config.enable_dsr] } else { self.dsr.clone() };
        let mut variants = Vec::new();
        for profile in &profiles {
            for network in &networks {
                for &dsr_on in &dsr {
                    let mut suffix = String::new();
                    if profiles.len() > 1 {
                        suffix.push_str("::");
                        suffix.push_str(profile);
                    }
                    if networks.len() > 1 {
                        suffix.push_str("::");
                        suffix.push_str(network);
                    }
                    if dsr.len() > 1 {
                        suffix.push_str(if dsr_on { "::dsr" } else { "::nodsr" });
                    }
                    let mut variant = self.clone();
                    variant.profiles = vec![profile.clone()];
                    variant.networks = vec![network.clone()];
                    variant.config.enable_dsr = dsr_on;
                    // Each row holds too when calls are made in parallel, but for the order of what is alike. One build is enough.
                    if Some(profile) == profiles.last()
                        && self.config.parallel_calls.is_none()
                        && self.steps.iter().all(Step::expects_no_order)
                    {
                        let mut parallel = variant.clone();
                        parallel.config.parallel_calls = Some(4);
                        variants.push((format!("{suffix}::parallel"), parallel));
                    }
                    variants.push((suffix, variant));
                }
            }
        }
        variants
    }
}
