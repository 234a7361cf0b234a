//! What a Windows node's daemon answers for this program's commands, beside what the lab itself needs.
//!
//! It runs in the daemon's process: it knows the node's HNS and switch, and nothing of other nodes.

use std::fmt;

use hcn::{Endpoint, HcnExt};
use hnsd::{Call, CallError, StreamSink};
use lab::daemon::{Extension, NodeAccess};
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};
use uuid::Uuid;
use vfp::model::{PortKind, PortSpec};

use super::super::vfp::{Ask, Names};
use super::recording::{self, Recordings};

/// The names of these methods.
pub(super) mod methods {
    /// An [`Ask`](super::Ask) → an `Answer`.
    pub(in super::super) const VFP: &str = "transom.vfp";
    /// `{}` → a list of [`PortName`](super::PortName).
    pub(in super::super) const PORTS: &str = "transom.ports";
    /// A stream: a recording's [`Wanted`](super::recording::Wanted) → one event, its number; it lasts as long as the
    /// stream.
    pub(in super::super) const RECORD: &str = "transom.record";
    /// `{"recording": N}` → what was recorded so far, which is forgotten then.
    pub(in super::super) const RECORDED: &str = "transom.recorded";
}

/// The compartment that is the host's own.
const HOST: Option<u32> = Some(1);

/// What a port of the switch is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PortName {
    pub(super) port: Uuid,
    /// `pod/NAMESPACE/NAME`, `host`, `external`, or its adapter's name.
    pub(super) name: String,
    /// What a capture calls it.
    pub(super) interface: String,
    pub(super) description: String,
}

/// The pods' ports: each with its pod.
fn pods(node: &NodeAccess) -> Vec<(Uuid, String)> {
    let hns = node.hns.actor("operator");
    let ports = node.hns.endpoint_ports();
    let pods = ports.into_iter().filter(|port| port.compartment != HOST).filter_map(|port| {
        // One that is gone since has no name any more. Those of pods are called as these are.
        let name = hns.get::<Endpoint>(port.endpoint).ok()?.name?;
        name.contains('/').then_some((port.port, name))
    });
    pods.collect()
}

/// What all ports are called.
pub(super) fn ports(node: &NodeAccess) -> Vec<PortName> {
    let pods = pods(node);
    let name = |spec: &PortSpec| match spec.kind {
        PortKind::Host => "host".to_owned(),
        PortKind::External => "external".to_owned(),
        PortKind::Endpoint => {
            let pod = pods.iter().find(|(port, _)| *port == spec.name);
            pod.map_or_else(|| spec.nic_name.clone(), |(_, pod)| format!("pod/{pod}"))
        }
    };
    let all = node.switch.ports();
    all.iter()
        .map(|spec| {
            let (interface, description) = node::capture::interface(&node.name, spec);
            PortName { port: spec.name, name: name(spec), interface, description }
        })
        .collect()
}

/// These methods.
#[derive(Default)]
pub(super) struct NodeExtension {
    recordings: Recordings,
}

impl fmt::Debug for NodeExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeExtension").finish_non_exhaustive()
    }
}

fn vfp(node: &NodeAccess, ask: &Ask) -> Result<Value, CallError> {
    let names = Names { pods: pods(node) };
    let now = node.clock.now();
    let answer = node.switch.with(|switch| ask.answer(switch, &names, now));
    answer.map_err(|error| CallError::invalid(format!("{error:#}"))).and_then(json)
}

fn json(value: impl Serialize) -> Result<Value, CallError> {
    to_value(value).map_err(CallError::failed)
}

impl Extension for NodeExtension {
    fn call(&self, node: &NodeAccess, call: &Call<'_>) -> Option<Result<Value, CallError>> {
        match call.method {
            methods::VFP => Some(call.arguments().and_then(|ask| vfp(node, &ask))),
            methods::PORTS => Some(json(ports(node))),
            methods::RECORDED => {
                let taken = call.arguments().and_then(|begun| self.recordings.take(node, &begun));
                Some(taken.and_then(json))
            }
            _ => None,
        }
    }

    fn stream(
        &self,
        node: &NodeAccess,
        call: &Call<'_>,
        sink: StreamSink,
    ) -> Result<Result<(), CallError>, StreamSink> {
        if call.method != methods::RECORD {
            return Err(sink);
        }
        let wanted = call.arguments::<recording::Wanted>();
        Ok(wanted.and_then(|wanted| self.recordings.begin(node, wanted, &sink)))
    }
}
