//! The links of a lab's nodes, whoever keeps them: a Windows node's daemon, or the kernel.

use anyhow::Context;
use lab::daemon::methods;
use lab::links::Link;
use lab::pump::{Counted, Degraded};
use lab::supervisor::NodeStatus;
use serde::Deserialize;
use serde_json::json;

use super::live::LiveLab;

#[derive(Deserialize)]
struct DaemonStatus {
    devices: Counted,
}

fn kernel(lab: &LiveLab, node: &NodeStatus) -> anyhow::Result<Link> {
    Ok(Link::of(&lab.names.underlay(), &node.name)?)
}

/// How a node's link is worse than it could be.
pub(super) fn of(lab: &LiveLab, node: &NodeStatus) -> anyhow::Result<Degraded> {
    if !node.windows {
        return Ok(kernel(lab, node)?.degraded()?);
    }
    let status: DaemonStatus = lab
        .daemon(&node.name)?
        .call_extension_as(methods::STATUS, &json!({}))
        .with_context(|| format!("node {}", node.name))?;
    Ok(status.devices.degraded)
}

/// Makes a node's link what is said.
pub(super) fn degrade(lab: &LiveLab, node: &NodeStatus, degraded: &Degraded) -> anyhow::Result<()> {
    if !node.windows {
        return Ok(kernel(lab, node)?.degrade(degraded)?);
    }
    let daemon = lab.daemon(&node.name)?;
    let params = serde_json::to_value(degraded)?;
    daemon.call_extension(methods::DEGRADE, &params).with_context(|| format!("node {}", node.name))?;
    // The answer comes when it is done: the counters are asked of the thread that does it.
    of(lab, node).map(drop)
}

/// A link's state for people; none for a good one.
pub(super) fn text(link: &Degraded) -> Option<String> {
    let mut parts = Vec::new();
    if link.cut {
        parts.push("cut".to_owned());
    }
    if link.loss > 0.0 {
        parts.push(format!("loss {}%", link.loss * 100.0));
    }
    if !link.delay.is_zero() {
        parts.push(format!("delay {} ms", link.delay.as_millis()));
    }
    if link.rate > 0 {
        parts.push(format!("rate {} kbit/s", link.rate / 125));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
