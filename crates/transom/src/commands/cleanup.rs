//! `--cleanup`: takes away what proxies have left in HNS, and ends.
//!
//! Load balancers go first, as they refer to endpoints. Others' load balancers stay unless all was asked for; others'
//! endpoints stay always, as it cannot be told whose they are.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, LoadBalancer, Query};
use proxy::engine::OWNER;
use proxy_config::Cleanup;

use super::render;
use crate::exit::Exit;

/// Removes what `cleanup` names, and says what that was.
pub(super) fn run(hcn: &dyn Hcn, cleanup: Cleanup) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let mut failed = 0;
    let balancers: Vec<(Guid, LoadBalancer)> =
        hcn.list(&Query::all()).context("cannot list load balancers")?;
    let mut used = Vec::new();
    let mut delete = |kind: Kind, id: Guid| match hcn.delete(kind, id) {
        Ok(()) => {
            let _ = writeln!(text, "Removed {kind} {id}");
            true
        }
        // Somebody else was quicker.
        Err(error) if error.is_not_found() => true,
        Err(error) => {
            let _ = writeln!(text, "Failed: {kind} {id}: {error}");
            failed += 1;
            false
        }
    };
    for (id, balancer) in balancers {
        let is_own = balancer.owner.as_deref() == Some(OWNER);
        if !(cleanup == Cleanup::All || is_own) || !delete(Kind::LoadBalancer, id) {
            used.extend(balancer.endpoints);
        }
    }
    let endpoints: Vec<(Guid, Endpoint)> = hcn.list(&Query::all()).context("cannot list endpoints")?;
    for (id, endpoint) in endpoints {
        if endpoint.owner.as_deref() == Some(OWNER) && !used.contains(&id) {
            delete(Kind::Endpoint, id);
        }
    }
    if text.is_empty() {
        text.push_str("There was nothing to remove.\n");
    }
    render::print(&text)?;
    if failed > 0 {
        bail!("{failed} objects could not be removed");
    }
    Ok(Exit::Success)
}
