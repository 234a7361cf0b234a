//! What a node's server answers: HCN, and what is asked of an emulated node only.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcn::time::Clock;
use hcn::{Endpoint, Hcn, HcnExt, Query};
use hns::Hns;
use hns::faults::{FaultPlan, Loss};
use hnsd::{Call, CallError, Service, StreamSink};
use node::windows::SwitchHandle;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;
use vfp::DropReason;
use vfp::model::Direction;

use super::messages::{SUPERVISOR, SeatSpec, methods};
use super::seating::{Sandboxes, Seating};
use super::watch::{self, Watchers};
use crate::pump::{Command, Degraded, Handle, Seat};

/// The host's own compartment.
const HOST_COMPARTMENT: u32 = 1;

/// An emulated node from inside its process.
#[derive(Clone)]
pub struct NodeAccess {
    /// Its name.
    pub name: Arc<str>,
    /// Its HNS.
    pub hns: Hns,
    /// Its switch.
    pub switch: Arc<SwitchHandle>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// What moves its frames.
    pub pump: Handle,
    /// Who watches its switch.
    pub watchers: Watchers,
}

/// More that a node answers, which this crate does not know.
pub trait Extension: Send + Sync {
    /// Answers a call; `None`: it is none of these.
    fn call(&self, node: &NodeAccess, call: &Call<'_>) -> Option<Result<Value, CallError>>;

    /// Begins a stream; the sink comes back if it is none of these.
    fn stream(
        &self,
        node: &NodeAccess,
        call: &Call<'_>,
        sink: StreamSink,
    ) -> Result<Result<(), CallError>, StreamSink>;
}

/// Nothing more.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExtension;

impl Extension for NoExtension {
    fn call(&self, _: &NodeAccess, _: &Call<'_>) -> Option<Result<Value, CallError>> {
        None
    }

    fn stream(
        &self,
        _: &NodeAccess,
        _: &Call<'_>,
        sink: StreamSink,
    ) -> Result<Result<(), CallError>, StreamSink> {
        Err(sink)
    }
}

/// A port of the switch for status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchPort {
    /// The port.
    pub port: Uuid,
    /// Its name for people.
    pub name: String,
    /// Its flows.
    pub flows: usize,
    /// Drops by reason.
    pub drops: BTreeMap<String, u64>,
}

fn drops(switch: &vfp::Switch, port: Uuid) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for counters in [Direction::Out, Direction::In].into_iter().filter_map(|way| switch.counters(port, way)) {
        for (reason, &count) in DropReason::ALL.iter().zip(&counters.drops).filter(|(_, count)| **count > 0) {
            *drops.entry(reason.to_string()).or_default() += count;
        }
    }
    drops
}

/// The service of one node.
pub(super) struct NodeService {
    node: NodeAccess,
    extension: Arc<dyn Extension>,
    sandboxes: Sandboxes,
    about: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultsParams {
    plan: Option<String>,
    #[serde(default)]
    clear: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestartParams {
    #[serde(default)]
    loss: LossName,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LossName {
    #[default]
    None,
    LoadBalancers,
    Endpoints,
    All,
}

impl From<LossName> for Loss {
    fn from(name: LossName) -> Self {
        match name {
            LossName::None => Self::None,
            LossName::LoadBalancers => Self::LoadBalancers,
            LossName::Endpoints => Self::Endpoints,
            LossName::All => Self::Everything,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VfpctrlParams {
    words: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchParams {
    #[serde(default = "yes")]
    frames: bool,
}

fn yes() -> bool {
    true
}

impl NodeService {
    pub(super) fn new(node: NodeAccess, extension: Arc<dyn Extension>, sandboxes: Sandboxes) -> Self {
        let version = node.hns.profile().version();
        let about = json!({
            "node": *node.name,
            "profile": node.hns.profile().name(),
            "hns": { "Major": version.major, "Minor": version.minor },
            "transom": env!("CARGO_PKG_VERSION"),
        });
        Self { node, extension, sandboxes, about }
    }

    fn seats(&self) -> Result<Value, CallError> {
        let hns = self.node.hns.actor("node");
        let ports = self.node.switch.ports();
        let mut seats = Vec::new();
        for port in self.node.hns.endpoint_ports() {
            // Gone since the ports were listed.
            let Ok(endpoint) = hns.get::<Endpoint>(port.endpoint) else { continue };
            let servers = endpoint.dns.iter().flat_map(|dns| &dns.server_list);
            let servers = servers.filter_map(|server| server.trim().parse().ok()).collect();
            seats.push(SeatSpec {
                endpoint: port.endpoint,
                name: endpoint.name.unwrap_or_default(),
                host: port.compartment == Some(HOST_COMPARTMENT),
                sandbox: port.namespace,
                servers,
                port: port.port,
                mac: port.mac.0.into(),
                addresses: port.addresses,
                gateways: port.gateways,
                mtu: ports.iter().find(|spec| spec.name == port.port).map_or(1500, |spec| spec.mtu),
            });
        }
        serde_json::to_value(seats).map_err(CallError::failed)
    }

    fn status(&self) -> Result<Value, CallError> {
        let counted = self.node.pump.count().ok_or_else(|| CallError::failed("frames are moved no more"))?;
        let ports: Vec<SwitchPort> = self.node.switch.with(|switch| {
            let port = |port: vfp::dump::PortDump| SwitchPort {
                port: port.spec.name,
                name: port.spec.nic_name.clone(),
                flows: switch.flow_count(port.spec.name).unwrap_or_default(),
                drops: drops(switch, port.spec.name),
            };
            switch.ports().into_iter().map(port).collect()
        });
        let query = Query::all();
        let hns = self.node.hns.actor("node");
        let count = |kind| hns.enumerate(kind, &query).map(|ids| ids.len()).ok();
        Ok(json!({
            "node": *self.node.name,
            "profile": self.node.hns.profile().name(),
            "objects": hcn::Kind::ALL.map(|kind| json!({ "kind": kind.to_string(), "count": count(kind) })),
            "devices": counted,
            "ports": ports,
            "hung": self.node.hns.faults().hung(),
            "errors": self.node.hns.datapath_errors(),
        }))
    }

    fn faults(&self, params: FaultsParams) -> Result<Value, CallError> {
        let faults = self.node.hns.faults();
        if params.clear {
            faults.clear();
            faults.release_hung();
        }
        if let Some(plan) = params.plan {
            let plan = FaultPlan::from_yaml(&plan).map_err(CallError::invalid)?;
            faults.replace(plan).map_err(CallError::invalid)?;
        }
        let rules = faults.rules();
        let told = rules.iter().map(|(_, rule, struck)| json!({ "name": rule.name, "struck": struck }));
        Ok(json!({ "rules": told.collect::<Vec<_>>(), "hung": faults.hung() }))
    }

    fn vfpctrl(&self, params: &VfpctrlParams) -> Value {
        let now = self.node.clock.now();
        match self.node.switch.with(|switch| vfpctrl::run(switch, &params.words, now)) {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }
}

/// Whether each endpoint of a namespace has its device.
fn is_seated(node: &NodeAccess, namespace: hcn::Guid) -> bool {
    let Some(counted) = node.pump.count() else { return true };
    let ports = node.hns.endpoint_ports();
    let mut wanted = ports.iter().filter(|port| port.namespace == Some(namespace));
    wanted.all(|port| counted.seats.iter().any(|(seat, _)| *seat == Seat::Endpoint(port.endpoint)))
}

impl Service for NodeService {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        let inner: Arc<dyn Hcn> = Arc::new(self.node.hns.actor(actor));
        if actor == SUPERVISOR {
            // Who makes the devices must not wait for them.
            return Some(inner);
        }
        let node = self.node.clone();
        let is_seated = Arc::new(move |namespace| is_seated(&node, namespace));
        let (sandboxes, clock) = (self.sandboxes.clone(), Arc::clone(&self.node.clock));
        Some(Arc::new(Seating { inner, sandboxes, is_seated, clock }))
    }

    fn about(&self) -> Value {
        self.about.clone()
    }

    fn call(&self, call: &Call<'_>) -> Result<Value, CallError> {
        match call.method {
            methods::SEATS => self.seats(),
            methods::STATUS => self.status(),
            methods::FAULTS => self.faults(call.arguments()?),
            methods::RESTART => {
                let params: RestartParams = call.arguments()?;
                self.node.hns.restart(params.loss.into()).map_err(CallError::failed)?;
                Ok(json!({}))
            }
            methods::DEGRADE => {
                let degraded: Degraded = call.arguments()?;
                if !(0.0..=1.0).contains(&degraded.loss) {
                    return Err(CallError::invalid("loss: use a number from 0 to 1"));
                }
                self.node.pump.tell(Command::Degrade(degraded));
                Ok(json!({}))
            }
            methods::VFPCTRL => Ok(self.vfpctrl(&call.arguments()?)),
            method => self
                .extension
                .call(&self.node, call)
                .unwrap_or_else(|| Err(CallError::unknown_method(method))),
        }
    }

    fn stream(&self, call: &Call<'_>, sink: StreamSink) -> Result<(), CallError> {
        if call.method == methods::WATCH {
            let params: WatchParams = call.arguments()?;
            watch::stream(&self.node, params.frames, &sink);
            return Ok(());
        }
        match self.extension.stream(&self.node, call, sink) {
            Ok(begun) => begun,
            Err(sink) => {
                drop(sink);
                Err(CallError::unknown_method(call.method))
            }
        }
    }
}
