//! What is done to nodes and their HNS in the middle of a row: as the CNI plugin, as an administrator, as a fault.

use hcn::modify::{
    EndpointRequest, EndpointResource, ModifyEndpoint, ModifyNamespace, ModifyNetwork,
    NamespaceRequestResource, NetworkResource, RequestType,
};
use hcn::policy::PolicyList;
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, Namespace, Network, Query};
use hns::Hns;
use hns::faults::Loss;
use hns::journal::Op;
use ipnet::IpNet;
use node::app::Transport;
use node::sim::Client;
use transom::world::World;

use crate::row::{HostAddress, Policy, PolicyKind, RestartHns, RestartProxy};

/// What every pod of the cluster serves.
const POD_PORT: u16 = 8080;

/// A pod's endpoint that is gone.
pub(crate) struct Unplugged {
    node: String,
    network: Guid,
    id: Guid,
    endpoint: Endpoint,
    namespace: Guid,
    sandbox: Namespace,
}

fn hns(world: &World, node: &str) -> Result<Hns, String> {
    let windows = world.simulation.windows(node).ok_or_else(|| format!("{node} is no Windows node"))?;
    Ok(windows.hns().actor("cni"))
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn text(error: hcn::Error) -> String {
    error.to_string()
}

/// The node that a pod is on, and the pod's whole name.
fn place(world: &World, pod: &str) -> Result<(String, String), String> {
    let full = if pod.contains('/') { pod.to_owned() } else { format!("default/{pod}") };
    let node = world.simulation.pods().find(|(name, _)| *name == full).map(|(_, node)| node.to_owned());
    node.map(|node| (node, full)).ok_or_else(|| format!("there is no pod {pod}"))
}

fn endpoint(hns: &Hns, pod: &str) -> Result<(Guid, Endpoint), String> {
    let found = hns.list::<Endpoint>(&Query::by_name(pod)).map_err(text)?;
    found.into_iter().next().ok_or_else(|| format!("HNS has no endpoint of pod {pod}"))
}

/// Starts a server: `pod/NAME:PORT`, `node/NAME:PORT` or `outside:PORT`, TCP and UDP.
pub(crate) fn serve(world: &mut World, server: &str) -> Result<(), String> {
    let (place, port) = server.rsplit_once(':').ok_or_else(|| format!("{server:?} has no port"))?;
    let port: u16 = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    let client = match place.split_once('/') {
        Some(("pod", name)) => Client::Pod(self::place(world, name)?.1),
        Some(("node", name)) => Client::Node(name.to_owned()),
        _ => Client::Outside,
    };
    let serve = |stack: &mut node::stack::Stack, _| {
        stack.serve(Transport::Tcp, port);
        stack.serve(Transport::Udp, port);
    };
    world.simulation.with_stack(&client, serve).map_err(|error| error.to_string())
}

pub(crate) fn restart_proxy(world: &mut World, restart: &RestartProxy) -> Result<(), String> {
    let before = hns(world, &restart.node)?.journal().next_seq();
    world.restart_proxy(&restart.node).map_err(|error| format!("{error:#}"))?;
    if !restart.idle {
        world.check();
    }
    let hns = hns(world, &restart.node)?;
    if !restart.idle && hns.journal().entries_since(before).is_empty() {
        return Err("the new proxy did not even look at HNS".to_owned());
    }
    let journal = hns.journal().writes_since(before);
    let deleted = journal
        .iter()
        .filter(|entry| entry.op == Op::Delete && entry.kind == Some(Kind::LoadBalancer))
        .count();
    match deleted {
        0 => Ok(()),
        _ if !restart.adopts => Ok(()),
        _ => Err(format!("the new proxy deleted {deleted} load balancers")),
    }
}

pub(crate) fn restart_hns(world: &World, restart: &RestartHns) -> Result<(), String> {
    let loss = match &*restart.loses {
        "nothing" => Loss::None,
        "load-balancers" => Loss::LoadBalancers,
        "endpoints" => Loss::Endpoints,
        "rules" => Loss::Rules,
        other => {
            return Err(format!("{other:?} cannot be lost: nothing, load-balancers, endpoints or rules"));
        }
    };
    hns(world, &restart.node)?.restart(loss).map_err(text)
}

pub(crate) fn unplug(world: &mut World, pod: &str) -> Result<Unplugged, String> {
    let (node, full) = place(world, pod)?;
    let hns = hns(world, &node)?;
    let (id, old) = endpoint(&hns, &full)?;
    let namespaces = hns.list::<Namespace>(&Query::all()).map_err(text)?;
    let namespace = id.derive("namespace");
    let (_, sandbox) = namespaces
        .into_iter()
        .find(|(own, _)| *own == namespace)
        .ok_or_else(|| format!("HNS has no namespace of pod {pod}"))?;
    let network = old.network.ok_or("the endpoint is on no network")?;
    // What a CNI plugin asks for; the rest HNS fills in.
    let endpoint = Endpoint {
        id: Some(id),
        owner: old.owner,
        name: old.name,
        ip_configurations: old.ip_configurations,
        policies: old.policies,
        routes: old.routes,
        schema_version: old.schema_version,
        ..Endpoint::default()
    };
    let sandbox = Namespace {
        id: Some(namespace),
        owner: sandbox.owner,
        kind: sandbox.kind,
        schema_version: sandbox.schema_version,
        ..Namespace::default()
    };
    hns.delete(Kind::Namespace, namespace).map_err(text)?;
    hns.delete(Kind::Endpoint, id).map_err(text)?;
    sync(world, &node);
    Ok(Unplugged { node, network, id, endpoint, namespace, sandbox })
}

pub(crate) fn plug(world: &mut World, pod: &str, gone: &Unplugged) -> Result<(), String> {
    let hns = hns(world, &gone.node)?;
    hns.make_endpoint(gone.network, gone.id, &gone.endpoint).map_err(text)?;
    hns.make(gone.namespace, &gone.sandbox).map_err(text)?;
    let request = EndpointRequest { endpoint_id: Some(gone.id), ..EndpointRequest::default() };
    let request = ModifyNamespace::new(NamespaceRequestResource::Endpoint, RequestType::Add, &request);
    hns.modify(Kind::Namespace, gone.namespace, &request.to_json()).map_err(text)?;
    sync(world, &gone.node);
    serve(world, &format!("pod/{pod}:{POD_PORT}"))
}

/// The node looks at what HNS has by now.
fn sync(world: &mut World, node: &str) {
    world.simulation.with_windows(node, node::windows::WindowsNode::sync);
}

fn change_policies(
    hns: &Hns,
    id: Guid,
    request: RequestType,
    policies: Vec<hcn::Policy>,
) -> Result<(), String> {
    let list = PolicyList { policies, ..PolicyList::default() };
    let request = ModifyEndpoint::new(EndpointResource::Policy, request, &list);
    hns.modify(Kind::Endpoint, id, &request.to_json()).map_err(text)
}

pub(crate) fn add_policy(world: &World, policy: &Policy) -> Result<(), String> {
    let (node, full) = place(world, &policy.pod)?;
    let hns = hns(world, &node)?;
    let (id, _) = endpoint(&hns, &full)?;
    let document: hcn::Policy = serde_json::from_str(&policy.policy).map_err(|error| error.to_string())?;
    change_policies(&hns, id, RequestType::Add, vec![document])
}

pub(crate) fn remove_policies(world: &World, policy: &PolicyKind) -> Result<(), String> {
    let (node, full) = place(world, &policy.pod)?;
    let hns = hns(world, &node)?;
    let (id, endpoint) = endpoint(&hns, &full)?;
    let (removed, _): (Vec<_>, Vec<_>) =
        endpoint.policies.into_iter().partition(|own| own.kind.is(&policy.kind));
    if removed.is_empty() {
        return Err(format!("pod {} has no policy {}", policy.pod, policy.kind));
    }
    change_policies(&hns, id, RequestType::Remove, removed)
}

pub(crate) fn remove_remote_subnets(world: &World, node: &str) -> Result<(), String> {
    let hns = hns(world, node)?;
    let mut removed = 0;
    for (id, network) in hns.list::<Network>(&Query::all()).map_err(text)? {
        let routes: Vec<_> =
            network.policies.into_iter().filter(|policy| policy.kind.is("RemoteSubnetRoute")).collect();
        for route in routes {
            let list = PolicyList { policies: vec![route], ..PolicyList::default() };
            let request = ModifyNetwork::new(NetworkResource::Policy, RequestType::Remove, &list);
            hns.modify(Kind::Network, id, &request.to_json()).map_err(text)?;
            removed += 1;
        }
    }
    if removed == 0 { Err(format!("no network of {node} has a RemoteSubnetRoute")) } else { Ok(()) }
}

pub(crate) fn host_address(world: &mut World, host: &HostAddress) -> Result<(), String> {
    let address: IpNet = host.address.parse().map_err(|_| format!("{:?} is no prefix", host.address))?;
    world
        .simulation
        .with_stack(&Client::Node(host.node.clone()), |stack, _| stack.add_address(0, address))
        .map_err(|error| error.to_string())
}
