//! `transom trace --lab`: one real exchange in a lab, and what the switches of all its Windows nodes did with its packets.

mod around;
mod way;

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use hcn::time::Clock;

use self::around::Around;
use self::way::Way;
use super::super::trace::{Told, show};
use super::live::{LiveCluster, LiveLab};
use super::recording::{Recorded, Recording, Wanted};
use crate::cli::Output;
use crate::cli::traffic::Flow;
use crate::exit::Exit;

pub(in crate::commands) fn run(
    lab: &str,
    node: Option<&str>,
    flow: &Flow,
    all: bool,
    form: Output,
) -> anyhow::Result<Exit> {
    let live = LiveCluster::read(LiveLab::named(lab)?);
    let asked = live.resolve(flow, node)?;
    let target = asked.request.to;
    let backends = live.backends(target);
    let mut hosts: BTreeSet<_> = live.lab.addresses(&asked.client).into_iter().collect();
    hosts.insert(target.ip());
    hosts.extend(backends.iter().map(std::net::SocketAddr::ip));
    let wanted = Wanted { hosts, protocol: asked.request.transport.number() };
    let mut recordings = Vec::new();
    for node in live.lab.windows() {
        match live.lab.daemon(&node.name) {
            Ok(remote) => recordings.push(Recording::begin(&node.name, remote, &wanted)?),
            // The others' steps are worth seeing all the more.
            Err(error) => tracing::warn!("{error:#}; its steps are not seen"),
        }
    }
    let clock = super::clock();
    let began = clock.wall().duration_since(UNIX_EPOCH).context("the time")?;
    let exchange = asked.ask(&clock)?;
    let mut seen = Vec::new();
    for recording in recordings {
        let Recorded { journey, full } = recording.end()?;
        if full {
            tracing::warn!("Not all packets could be recorded; there is much traffic between these hosts");
        }
        seen.extend(journey.steps);
    }
    let mut around = Around::new(&live);
    let way = Way { lab: &live.lab, client: &asked.client, exchange: &exchange };
    let mut journey = way.of(seen, |node| around.is_cut_off(node));
    for (_, step) in &mut journey.steps {
        since(step.at_mut(), began);
    }
    let status = &live.lab.status;
    let told = Told {
        network: status.network.clone(),
        dsr: status.dsr,
        flow,
        client: &asked.client,
        exchange: &exchange,
        journey: &journey,
        all,
    };
    let answered = show(&told.report(&mut around), form)?;
    Ok(if answered { Exit::Success } else { Exit::Failure })
}

/// A time since 1970 as one since the exchange began.
fn since(at: &mut Duration, began: Duration) {
    *at = at.saturating_sub(began);
}
