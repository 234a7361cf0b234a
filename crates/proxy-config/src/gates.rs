//! Kubernetes' feature gates, as far as a proxy on Windows meets them.
//!
//! Three kinds of names are accepted: gates that touch the proxy (a table with stage, default and lock), gates of
//! other components (a list: kube-proxy knows them all and they change nothing in it), and gates that are gone from
//! newer releases, where kube-proxy refuses to start and this proxy warns. It must not know where gates are said.

use std::collections::BTreeMap;

use crate::near;
use crate::problem::Problem;
use crate::validate::places;

/// How far a gate has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `AllAlpha` moves it.
    Alpha,
    /// `AllBeta` moves it.
    Beta,
    /// Here to stay.
    Stable,
    /// Here to go.
    Deprecated,
}

/// A gate that touches the proxy.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Its stage in Kubernetes 1.36.
    pub stage: Stage,
    /// Whether it is on when nobody says anything.
    pub default: bool,
    /// Whether it must stay so.
    pub locked: bool,
    /// Whether it changes what this proxy does.
    pub used: bool,
}

/// The gates that touch the proxy, as of Kubernetes 1.36.
pub const GATES: &[Gate] = &[
    gate("AllowServiceExternalIPs", Stage::Deprecated, true, false, true),
    gate("ComponentFlagz", Stage::Beta, true, false, true),
    gate("ComponentStatusz", Stage::Beta, true, false, true),
    gate("ContextualLogging", Stage::Beta, true, false, false),
    gate("LoggingAlphaOptions", Stage::Alpha, false, false, false),
    gate("LoggingBetaOptions", Stage::Beta, true, false, false),
    gate("MultiCIDRServiceAllocator", Stage::Stable, true, true, false),
    gate("NativeHistograms", Stage::Alpha, false, false, false),
    gate("PreferSameTrafficDistribution", Stage::Stable, true, true, false),
    gate("WinDSR", Stage::Stable, true, true, false),
    gate("WinOverlay", Stage::Stable, true, true, false),
    gate("WindowsHostNetwork", Stage::Deprecated, false, false, false),
];

const fn gate(name: &'static str, stage: Stage, default: bool, locked: bool, used: bool) -> Gate {
    Gate { name, stage, default, locked, used }
}

/// Gates that are gone: what they switched is now always so, or nowhere.
const REMOVED: &[&str] = &[
    "EndpointSlice",
    "EndpointSliceNodeName",
    "EndpointSliceProxying",
    "EndpointSliceTerminatingCondition",
    "ExpandedDNSConfig",
    "HyperVContainer",
    "IPv6DualStack",
    "KubeProxyDrainingTerminatingNodes",
    "LoadBalancerIPMode",
    "MinimizeIPTablesRestore",
    "MixedProtocolLBService",
    "NetworkPolicyEndPort",
    "ProxyTerminatingEndpoints",
    "SCTPSupport",
    "ServiceIPStaticSubrange",
    "ServiceInternalTrafficPolicy",
    "ServiceLBNodePortControl",
    "ServiceLoadBalancerClass",
    "ServiceLoadBalancerFinalizer",
    "ServiceNodeExclusion",
    "ServiceNodePortStaticSubrange",
    "ServiceTopology",
    "ServiceTrafficDistribution",
    "SupportIPVSProxyMode",
    "TopologyAwareHints",
    "WindowsEndpointSliceProxying",
    "WindowsGMSA",
    "WindowsHostProcessContainers",
    "WindowsRunAsUserName",
];

/// Gates of other components, one a line.
const OTHERS: &str = include_str!("other_gates.txt");

/// The names that move all gates of a stage.
const GROUPS: [(&str, Stage); 2] = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];

/// What is known of a name.
enum Known {
    Gate(&'static Gate),
    Group,
    Other,
    Removed,
}

fn known(name: &str) -> Option<Known> {
    if let Some(gate) = GATES.iter().find(|gate| gate.name == name) {
        return Some(Known::Gate(gate));
    }
    if GROUPS.iter().any(|(group, _)| *group == name) {
        return Some(Known::Group);
    }
    if REMOVED.contains(&name) {
        return Some(Known::Removed);
    }
    OTHERS.lines().any(|other| other == name).then_some(Known::Other)
}

/// The gates' positions, after everything that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: BTreeMap<&'static str, bool>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { enabled: GATES.iter().map(|gate| (gate.name, gate.default)).collect() }
    }
}

impl FeatureGates {
    /// Applies what was said; returns the positions and what to tell about names without effect.
    pub fn of(said: &BTreeMap<String, bool>) -> Result<(Self, Vec<String>), Vec<Problem>> {
        let (mut gates, mut warnings, mut problems) = (Self::default(), Vec::new(), Vec::new());
        // Groups first: what is said of one gate wins over what is said of its stage.
        for (name, stage) in GROUPS {
            let Some(&enabled) = said.get(name) else { continue };
            for gate in GATES.iter().filter(|gate| gate.stage == stage && !gate.locked) {
                gates.enabled.insert(gate.name, enabled);
            }
        }
        for (name, &enabled) in said {
            match known(name) {
                Some(Known::Gate(gate)) if gate.locked => {
                    if enabled == gate.default {
                        warnings.push(format!("feature gate {name}: is locked to {enabled} and will go; take it out"));
                    } else {
                        problems.push(places::FEATURE_GATES.problem_in(
                            name,
                            enabled,
                            format!("the feature is locked to {}; take the gate out", gate.default),
                        ));
                    }
                }
                Some(Known::Gate(gate)) => {
                    gates.enabled.insert(gate.name, enabled);
                    if !gate.used {
                        warnings.push(format!("feature gate {name}: changes nothing in this proxy"));
                    }
                }
                Some(Known::Group) => {}
                Some(Known::Other) => {
                    warnings.push(format!("feature gate {name}: is another component's and changes nothing here"));
                }
                Some(Known::Removed) => warnings.push(format!(
                    "feature gate {name}: is gone from Kubernetes and changes nothing; kube-proxy would refuse it, take it out"
                )),
                None => problems.push(places::FEATURE_GATES.problem_in(name, enabled, unknown(name))),
            }
        }
        if problems.is_empty() { Ok((gates, warnings)) } else { Err(problems) }
    }

    /// Whether a gate of [`GATES`] is on.
    pub fn is_enabled(&self, name: &str) -> bool {
        self.enabled.get(name).copied().unwrap_or(false)
    }

    /// Whether `spec.externalIPs` are served.
    pub fn allow_service_external_ips(&self) -> bool {
        self.is_enabled("AllowServiceExternalIPs")
    }

    /// All gates with their positions, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, bool)> + '_ {
        self.enabled.iter().map(|(name, enabled)| (*name, *enabled))
    }
}

fn unknown(name: &str) -> String {
    let own = || GATES.iter().map(|gate| gate.name).chain(GROUPS.iter().map(|(name, _)| *name));
    let all = own().chain(REMOVED.iter().copied()).chain(OTHERS.lines());
    match near::nearest(name, all) {
        Some(near) => format!("unrecognized feature gate; {near} is one, if that was meant"),
        None => {
            format!("unrecognized feature gate; the proxy's are {}", own().collect::<Vec<_>>().join(", "))
        }
    }
}

/// Reads the flag's form, `A=true,B=false`: blanks around names and values count for nothing, a later one wins.
pub fn parse_flag(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let mut said = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            format!("{part:?} has no value; it must be of the form Name=true or Name=false")
        })?;
        let name = name.trim();
        if name.is_empty() {
            return Err(format!("{part:?}: there is no name before the ="));
        }
        let enabled = crate::flags::parse_bool(value.trim()).map_err(|error| format!("{name}: {error}"))?;
        said.insert(name.to_owned(), enabled);
    }
    Ok(said)
}
