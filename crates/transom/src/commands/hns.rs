//! `transom hns`: the objects of an HNS, this machine's, an emulated one or one in another process, in tables, documents and `hnsdiag`'s forms.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use anyhow::{Context, bail};
use hcn::api::V1Method;
use hcn::{Endpoint, Guid, Hcn, HcnExt, LoadBalancer, Namespace, Network, Object, Query};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

use super::lab;
use super::node_hns::{self, OtherHns};
use super::session::Asked;
use super::{proxy as proxy_command, render};
use crate::cli::Output;
use crate::cli::hns::{HnsAction, HnsCommand, HnsDelete, HnsGet, HnsList, Kind, ListKind, ListOutput};
use crate::cli::hns_at::HnsAt;
use crate::cli::inputs::{NodeArgs, OptionalInputArgs};
use crate::exit::Exit;
use crate::stop::Stop;

pub(super) fn run(command: &HnsCommand) -> anyhow::Result<Exit> {
    match &command.action {
        HnsAction::List(list) => run_list(list),
        HnsAction::Get(get) => run_get(get),
        HnsAction::Delete(delete) => run_delete(delete),
        HnsAction::Conformance(wanted) => super::conformance::run(wanted),
        #[cfg(unix)]
        HnsAction::Serve(serve) => super::serve::run(serve),
    }
}

/// The HNS to work on: this machine's, another process', what `--state` holds, or, from manifests, the node set up and its Services
/// programmed.
fn open(input: &OptionalInputArgs, node: &NodeArgs) -> anyhow::Result<(Arc<dyn Hcn>, Exit)> {
    if let Some(lab) = &input.lab {
        let address = lab::hns(lab, input.common.node.as_deref())?;
        return Ok((Arc::new(node_hns::connect(&address, "operator")?), Exit::Success));
    }
    let at = HnsAt::or_default_without(input.hns.as_ref(), node, &input.manifests);
    if let Some(other) = OtherHns::open(&at, "operator")? {
        return Ok((other.actor("operator"), Exit::Success));
    }
    let asked = Asked {
        manifests: &input.manifests,
        options: &input.common,
        node,
        hns: &at,
        settings: None,
        engine: None,
    };
    if input.manifests.is_empty() {
        if let Some(state) = node.state.as_ref().filter(|state| !state.exists()) {
            bail!("there is no file {}; `transom proxy --state` makes one", state.display());
        }
        return Ok((Arc::new(asked.open_hns(asked.profile(None), None)?), Exit::Success));
    }
    let mut session = asked.session(|hcn| hcn)?;
    proxy_command::bring(&mut session, &Stop::new());
    let exit = session.input_exit();
    Ok((session.hns.actor("operator"), exit))
}

fn run_list(list: &HnsList) -> anyhow::Result<Exit> {
    let (hns, exit) = open(&list.input, &list.node)?;
    let only = list.id.as_deref().map(parse_id).transpose()?;
    let text = if list.details {
        details(&*hns, list.kind, only)?
    } else {
        match list.output {
            ListOutput::Text => tables(&*hns, list.kind, only)?,
            ListOutput::Hnsdiag => hnsdiag(&*hns, list.kind, only)?,
            ListOutput::Json => render::document(&all_documents(&*hns, list.kind, only)?, Output::Json)?,
            ListOutput::Yaml => render::document(&all_documents(&*hns, list.kind, only)?, Output::Yaml)?,
        }
    };
    render::print(&text)?;
    Ok(exit)
}

fn run_get(get: &HnsGet) -> anyhow::Result<Exit> {
    let (hns, exit) = open(&get.input, &get.node)?;
    let id = parse_id(&get.id)?;
    let kind = hcn_kind(get.kind);
    let text = hns.query(kind, id, &Query::all()).with_context(|| format!("{kind} {id}"))?;
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{kind} {id}"))?;
    render::print(&render::document(&value, get.output.output)?)?;
    Ok(exit)
}

fn run_delete(delete: &HnsDelete) -> anyhow::Result<Exit> {
    let (hns, exit) = open(&delete.input, &delete.node)?;
    let id = parse_id(&delete.id)?;
    let kind = hcn_kind(delete.kind);
    let before = held(&*hns)?;
    hns.delete(kind, id).with_context(|| format!("{kind} {id}"))?;
    let after = held(&*hns)?;
    let mut text = String::new();
    for (kind, id) in before.difference(&after) {
        let _ = writeln!(text, "Deleted {kind} {id}");
    }
    render::print(&text)?;
    Ok(exit)
}

/// Every object that there is.
fn held(hns: &dyn Hcn) -> hcn::Result<BTreeSet<(hcn::Kind, Guid)>> {
    let mut held = BTreeSet::new();
    for kind in hcn::Kind::ALL {
        held.extend(hns.enumerate(kind, &Query::all())?.into_iter().map(|id| (kind, id)));
    }
    Ok(held)
}

fn parse_id(text: &str) -> anyhow::Result<Guid> {
    Ok(text.trim_start_matches('{').trim_end_matches('}').parse::<Guid>()?)
}

fn hcn_kind(kind: Kind) -> hcn::Kind {
    match kind {
        Kind::Network => hcn::Kind::Network,
        Kind::Endpoint => hcn::Kind::Endpoint,
        Kind::Namespace => hcn::Kind::Namespace,
        Kind::LoadBalancer => hcn::Kind::LoadBalancer,
    }
}

/// The objects of one type, sorted by id.
fn objects<T: Object>(hns: &dyn Hcn, only: Option<Guid>) -> anyhow::Result<Vec<(Guid, T)>> {
    let query = only.map_or_else(Query::all, Query::by_id);
    let mut found = hns.list::<T>(&query)?;
    found.sort_by_key(|(id, _)| *id);
    Ok(found)
}

fn wants(kind: ListKind, of: ListKind) -> bool {
    kind == of || kind == ListKind::All
}

fn all_documents(hns: &dyn Hcn, kind: ListKind, only: Option<Guid>) -> anyhow::Result<Value> {
    let mut out = serde_json::Map::new();
    let mut single = Value::Null;
    for (of, hcn_kind, name) in [
        (ListKind::Networks, hcn::Kind::Network, "networks"),
        (ListKind::Endpoints, hcn::Kind::Endpoint, "endpoints"),
        (ListKind::Namespaces, hcn::Kind::Namespace, "namespaces"),
        (ListKind::LoadBalancers, hcn::Kind::LoadBalancer, "loadBalancers"),
    ] {
        if !wants(kind, of) {
            continue;
        }
        let query = only.map_or_else(Query::all, Query::by_id);
        let mut ids = hns.enumerate(hcn_kind, &query)?;
        ids.sort_unstable();
        let documents = ids
            .into_iter()
            .map(|id| Ok(serde_json::from_str(&hns.query(hcn_kind, id, &Query::all())?)?))
            .collect::<anyhow::Result<Vec<Value>>>()?;
        single = documents.clone().into();
        out.insert(name.to_owned(), documents.into());
    }
    // A list of one kind is a list; a list of all kinds names them.
    Ok(if kind == ListKind::All { out.into() } else { single })
}

fn tables(hns: &dyn Hcn, kind: ListKind, only: Option<Guid>) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut section = |title: &str, table: &comfy_table::Table| {
        if kind == ListKind::All {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(title);
            out.push('\n');
        }
        out.push_str(&render::text(table));
    };
    if wants(kind, ListKind::Networks) {
        let mut table = render::table(&["ID", "NAME", "TYPE", "SUBNETS", "GATEWAY", "POLICIES"]);
        for (id, network) in objects::<Network>(hns, only)? {
            let policies: Vec<String> =
                network.policies.iter().map(|policy| policy.kind.text().into_owned()).collect();
            table.add_row([
                id.to_string(),
                network.name.clone().unwrap_or_default(),
                network.network_mode().to_string(),
                join(network.subnets().map(|subnet| subnet.prefix.clone())),
                join(network.subnets().filter_map(|subnet| subnet.gateway().map(str::to_owned))),
                counted(&policies),
            ]);
        }
        section("Networks", &table);
    }
    if wants(kind, ListKind::Endpoints) {
        let mut table = render::table(&["ID", "NAME", "ADDRESSES", "MAC", "WHERE", "PROVIDER"]);
        for (id, endpoint) in objects::<Endpoint>(hns, only)? {
            let provider = endpoint
                .policies
                .iter()
                .find(|policy| policy.kind.is("ProviderAddress"))
                .and_then(|policy| policy.read::<Value>().ok())
                .and_then(|settings| Some(settings.get("ProviderAddress")?.as_str()?.to_owned()))
                .unwrap_or_default();
            table.add_row([
                id.to_string(),
                endpoint.name.clone().unwrap_or_default(),
                join(endpoint.addresses().map(|address| address.to_string())),
                endpoint.mac_address.clone().unwrap_or_default(),
                if endpoint.is_remote() { "remote" } else { "local" }.to_owned(),
                provider,
            ]);
        }
        section("Endpoints", &table);
    }
    if wants(kind, ListKind::Namespaces) {
        let mut table = render::table(&["ID", "TYPE", "COMPARTMENT", "ENDPOINTS"]);
        for (id, namespace) in objects::<Namespace>(hns, only)? {
            table.add_row([
                id.to_string(),
                namespace.kind.as_ref().map(|kind| kind.name().into_owned()).unwrap_or_default(),
                namespace.namespace_id.map(|id| id.to_string()).unwrap_or_default(),
                join(
                    namespace
                        .resources
                        .iter()
                        .filter_map(|resource| resource.endpoint_id().map(|id| id.to_string())),
                ),
            ]);
        }
        section("Namespaces", &table);
    }
    if wants(kind, ListKind::LoadBalancers) {
        let mut table = render::table(&["ID", "FRONTENDS", "PORT", "BACKENDS", "SOURCE VIP", "FLAGS"]);
        let addresses: std::collections::BTreeMap<Guid, String> = objects::<Endpoint>(hns, None)?
            .into_iter()
            .map(|(id, endpoint)| (id, join(endpoint.addresses().map(|address| address.to_string()))))
            .collect();
        let mut found = objects::<LoadBalancer>(hns, only)?;
        found.sort_by_key(|(_, balancer)| balancer.frontends().first().copied());
        for (id, balancer) in found {
            let backends = balancer
                .endpoints
                .iter()
                .map(|id| addresses.get(id).cloned().unwrap_or_else(|| format!("{id}?")));
            let mut flags = vec![balancer.flags.names()];
            flags.extend(balancer.port_mappings.iter().map(|mapping| mapping.flags.names()));
            flags.extend(balancer.port_mappings.iter().filter_map(|mapping| {
                mapping.distribution.as_ref().map(|distribution| distribution.name().into_owned())
            }));
            flags.retain(|names| names != "None");
            table.add_row([
                id.to_string(),
                join(balancer.frontends().iter().map(ToString::to_string)),
                join(balancer.port_mappings.iter().map(|mapping| mapping.internal_port.to_string())),
                shortened(&backends.collect::<Vec<_>>()),
                balancer.source_vip.clone(),
                flags.join(", "),
            ]);
        }
        section("Load balancers", &table);
    }
    Ok(out)
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" ")
}

/// The first few, and how many more there are.
fn shortened(parts: &[String]) -> String {
    const SHOWN: usize = 6;
    if parts.len() <= SHOWN + 1 {
        return parts.join(" ");
    }
    format!("{} and {} more", parts[..SHOWN].join(" "), parts.len() - SHOWN)
}

/// `RemoteSubnetRoute×4 VxlanPort`.
fn counted(names: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    join(
        counts
            .into_iter()
            .map(|(name, count)| if count == 1 { name.to_owned() } else { format!("{name}×{count}") }),
    )
}

/// The forms of `hnsdiag list`.
fn hnsdiag(hns: &dyn Hcn, kind: ListKind, only: Option<Guid>) -> anyhow::Result<String> {
    let all = kind == ListKind::All;
    let networks = objects::<Network>(hns, None)?;
    let network_name = |id: Option<Guid>| {
        networks
            .iter()
            .find(|(other, _)| Some(*other) == id)
            .and_then(|(_, network)| network.name.clone())
            .unwrap_or_default()
    };
    let mut out = String::new();
    if wants(kind, ListKind::Networks) {
        if all {
            out.push_str("Networks:\n");
        }
        let _ = writeln!(out, "{:<36} | Name", "ID");
        for (id, network) in objects::<Network>(hns, only)? {
            let _ = writeln!(out, "{id:<36} | {}", network.name.unwrap_or_default());
        }
    }
    if wants(kind, ListKind::Endpoints) {
        if all {
            out.push_str("\nEndpoints:\n");
            let _ = writeln!(out, "{:<36} | {:<36} | Virtual Network Name", "Name", "ID");
        }
        for (id, endpoint) in objects::<Endpoint>(hns, only)? {
            let name = endpoint.name.clone().unwrap_or_default();
            if all {
                let _ = writeln!(out, "{name:<36} | {id:<36} | {}", network_name(endpoint.network));
            } else {
                let address =
                    endpoint.addresses().next().map(|address| address.to_string()).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "Endpoint         : {id}\n    Name             : {name}\n    IP Address       : {address}\n"
                );
            }
        }
    }
    if wants(kind, ListKind::Namespaces) {
        if all {
            out.push_str("\nNamespaces:\n");
        }
        let _ = writeln!(out, "{:<36} | Endpoint IDs", "ID");
        for (id, namespace) in objects::<Namespace>(hns, only)? {
            let endpoints: Vec<String> = namespace
                .resources
                .iter()
                .filter_map(|resource| resource.endpoint_id().map(|id| id.to_string()))
                .collect();
            let _ = writeln!(out, "{id:<36} | {}", endpoints.join(" | "));
        }
    }
    if wants(kind, ListKind::LoadBalancers) {
        if all {
            out.push_str("\nLoadBalancers:\n");
        }
        let _ = writeln!(out, "{:<36} | {:<16} | Direct IP IDs", "ID", "Virtual IPs");
        for (id, balancer) in objects::<LoadBalancer>(hns, only)? {
            let vips = balancer.frontend_vips.join(" ");
            let endpoints: Vec<String> = balancer.endpoints.iter().map(ToString::to_string).collect();
            let _ = writeln!(out, "{id:<36} |  {vips:<15} | {}", endpoints.join(" "));
        }
    }
    Ok(out)
}

/// `hnsdiag list … -d`: one JSON object per item, v1 schema.
fn details(hns: &dyn Hcn, kind: ListKind, only: Option<Guid>) -> anyhow::Result<String> {
    let mut out = String::new();
    for (of, path) in [
        (ListKind::Networks, "/networks/"),
        (ListKind::Endpoints, "/endpoints/"),
        (ListKind::LoadBalancers, "/policylists/"),
    ] {
        if !wants(kind, of) {
            continue;
        }
        let output = hns.output_v1(V1Method::Get, path, "")?;
        let items: Vec<Value> = output.read::<Option<_>>()?.unwrap_or_default();
        for item in items.iter().filter(|item| is_wanted(item, only)) {
            write_item(&mut out, item)?;
        }
    }
    if wants(kind, ListKind::Namespaces) {
        for (id, _) in objects::<Namespace>(hns, only)? {
            let output = hns.output_v1(V1Method::Get, &format!("/namespaces/{id}"), "")?;
            write_item(&mut out, &output.read::<Value>()?)?;
        }
    }
    Ok(out)
}

fn is_wanted(item: &Value, only: Option<Guid>) -> bool {
    let id = item.get("ID").and_then(Value::as_str).and_then(|id| id.parse::<Guid>().ok());
    only.is_none() || id == only
}

fn write_item(out: &mut String, item: &Value) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    item.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Hnsdiag::default()))?;
    out.push_str(&String::from_utf8(bytes)?);
    out.push_str("\n\n");
    Ok(())
}

/// `hnsdiag`'s JSON: four blanks a level, nothing between colon and value.
#[derive(Default)]
struct Hnsdiag {
    level: usize,
    filled: bool,
}

impl Hnsdiag {
    fn line<W: io::Write + ?Sized>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        for _ in 0..self.level {
            out.write_all(b"    ")?;
        }
        Ok(())
    }

    fn open<W: io::Write + ?Sized>(&mut self, out: &mut W, bracket: u8) -> io::Result<()> {
        self.level += 1;
        self.filled = false;
        out.write_all(&[bracket])
    }

    fn close<W: io::Write + ?Sized>(&mut self, out: &mut W, bracket: u8) -> io::Result<()> {
        self.level -= 1;
        if self.filled {
            self.line(out)?;
        }
        self.filled = true;
        out.write_all(&[bracket])
    }

    fn next<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        self.line(out)
    }
}

impl Formatter for Hnsdiag {
    fn begin_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b'[')
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b']')
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b'{')
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b'}')
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_look_like_hnsdiags() {
        let mut out = String::new();
        write_item(
            &mut out,
            &serde_json::json!({ "ID": "x", "Policies": [{ "Type": "VSID" }], "Empty": [] }),
        )
        .unwrap();
        assert_eq!(
            out,
            "{\n    \"ID\":\"x\",\n    \"Policies\":[\n        {\n            \"Type\":\"VSID\"\n        }\n    ],\n    \"Empty\":[]\n}\n\n"
        );
    }

    #[test]
    fn long_lists_are_shortened_but_never_by_one() {
        let parts = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(shortened(&parts(7)), "0 1 2 3 4 5 6");
        assert_eq!(shortened(&parts(8)), "0 1 2 3 4 5 and 2 more");
    }
}
