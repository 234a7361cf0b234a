//! Why an exchange had no answer, in words: what `trace` says and what tests of failures compare.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use hcn::{HcnExt, LoadBalancer, Query};
use node::app::Outcome;

use super::World;
use super::record::{Journey, Role, Step};
use crate::cli::traffic::Protocol;

impl World {
    /// Why there was no answer: the rule that dropped a packet, the object that is missing, or where it was last seen.
    pub fn reason(
        &self,
        journey: &Journey,
        outcome: &Outcome,
        target: SocketAddr,
        protocol: Protocol,
    ) -> String {
        if let Some(passage) = journey.drop()
            && let Some((reason, rule)) = &passage.dropped
        {
            let by = match rule {
                Some(rule) => format!("rule {} of {}/{}", rule.rule, rule.layer, rule.group),
                None => "no rule".to_owned(),
            };
            return format!(
                "dropped on node {}, port {}, {}: {reason} ({}); by {by}",
                passage.node,
                passage.port,
                passage.direction,
                reason.explain()
            );
        }
        if *outcome == Outcome::Refused && journey.steps.is_empty() {
            return "refused by the client's own machine: the address is its own, and nobody listens on the port"
                .to_owned();
        }
        if let Some(missing) = self.missing(target, protocol)
            && !journey.decided_by("lbnat")
            && !journey.decided_by("nat")
        {
            return self.listed(journey, target).unwrap_or(missing);
        }
        let lost = journey.steps.iter().find_map(|(_, step)| match step {
            Step::Wire(crossing) => Some((crossing, crossing.lost.as_ref()?)),
            Step::Port(_) => None,
        });
        if let Some((crossing, reason)) = lost {
            return format!("lost on the wire behind {}: {reason}", crossing.from);
        }
        match (outcome, journey.first(Role::Refusal).first()) {
            (Outcome::Refused | Outcome::Reset, Some(step)) => format!("refused by {}", place(step)),
            (Outcome::Unreachable(why), _) => why.to_string(),
            _ => match journey.steps.last() {
                Some((_, step)) => format!("last seen at {}", place(step)),
                None => "no packet left the client".to_owned(),
            },
        }
    }

    /// A load balancer that HNS lists although the switch of a node that was passed did not act by it.
    fn listed(&self, journey: &Journey, target: SocketAddr) -> Option<String> {
        let nodes: BTreeSet<&str> = journey
            .steps
            .iter()
            .filter_map(|(_, step)| match step {
                Step::Port(passage) => Some(&*passage.node),
                Step::Wire(_) => None,
            })
            .collect();
        nodes.into_iter().find_map(|node| {
            let windows = self.simulation.windows(node)?;
            let balancers = windows.hns().actor("trace").list::<LoadBalancer>(&Query::all()).ok()?;
            let (id, _) = balancers.into_iter().find(|(_, balancer)| {
                let vip = balancer.frontend_vips.iter().any(|vip| vip.parse() == Ok(target.ip()));
                vip && balancer.port_mappings.iter().any(|mapping| mapping.external_port == target.port())
            })?;
            Some(format!(
                "HNS of node {node} lists load balancer {id} for {target}, but its switch did not act by it"
            ))
        })
    }
}

fn place(step: &Step) -> String {
    match step {
        Step::Port(passage) => format!("node {}, port {}, {}", passage.node, passage.port, passage.direction),
        Step::Wire(crossing) => format!("the wire behind {}", crossing.from),
    }
}
