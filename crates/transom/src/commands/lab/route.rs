//! Leading an external or ingress address to a node.

use anyhow::Context;
use lab::supervisor::methods;
use serde_json::json;

use super::super::render;
use super::{control, names};
use crate::cli::lab::LabRoute;
use crate::exit::Exit;

pub(super) fn run(route: &LabRoute) -> anyhow::Result<Exit> {
    let names = names(&route.name.name);
    let params = json!({ "address": route.address, "node": route.node });
    control(&names)?
        .call_extension(methods::LEAD, &params)
        .with_context(|| format!("lab {}", names.lab()))?;
    render::print(&format!("{} is led to {}.\n", route.address, route.node))?;
    Ok(Exit::Success)
}
