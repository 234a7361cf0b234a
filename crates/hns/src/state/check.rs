//! What must hold of a state after every operation, for tests.

use hcn::Kind;

use super::State;
use crate::host::Host;
use crate::ports::Ports;
use crate::record::Object;

/// Indexes, pools and reservations are what the records say; references that must hold do.
pub(crate) fn check(state: &State, host: &Host) -> Result<(), String> {
    let ports: Ports = state.ports.carry_over(&host.dynamic_ports);
    let mut rebuilt = State::new(host, ports);
    for object in state.objects() {
        rebuilt.put(object);
    }
    macro_rules! same {
        ($($field:ident),*) => { $(
            if state.$field != rebuilt.$field {
                return Err(format!(
                    "index {} is {:?}, the records say {:?}",
                    stringify!($field), state.$field, rebuilt.$field
                ));
            }
        )* };
    }
    same!(
        frontends,
        network_names,
        endpoint_names,
        endpoints_on,
        at,
        pools,
        balancers_of,
        balancers_on,
        routes_of
    );
    if state.ports.report() != rebuilt.ports.report() {
        return Err(format!(
            "ports are\n{}the records say\n{}",
            state.ports.report(),
            rebuilt.ports.report()
        ));
    }
    for kind in Kind::ALL {
        if state.ids(kind, crate::switches::ListOrder::Id)
            != rebuilt.ids(kind, crate::switches::ListOrder::Id)
        {
            return Err(format!("the list of {kind}s does not agree with the table"));
        }
    }
    state.objects().try_for_each(|object| references(state, &object))
}

fn references(state: &State, object: &Object) -> Result<(), String> {
    let id = object.id();
    match object {
        Object::Endpoint(record) => {
            if !state.networks.contains(record.network) {
                return Err(format!("endpoint {id} is on network {}, which is gone", record.network));
            }
            if let Some(namespace) = record.doc.namespace {
                let listed = state.namespaces.get(namespace).is_some_and(|namespace| {
                    namespace.doc.resources.iter().any(|resource| resource.endpoint_id() == Some(id))
                });
                if !listed {
                    return Err(format!("endpoint {id} is in namespace {namespace}, which does not list it"));
                }
            }
        }
        Object::Namespace(record) => {
            for endpoint in
                record.doc.resources.iter().filter_map(hcn::namespace::NamespaceResource::endpoint_id)
            {
                let inside = state.endpoints.get(endpoint).and_then(|endpoint| endpoint.doc.namespace);
                if inside != Some(id) {
                    return Err(format!("namespace {id} lists endpoint {endpoint}, which is in {inside:?}"));
                }
            }
        }
        Object::Balancer(record) => {
            for frontend in &record.frontends {
                if state.frontends.get(frontend) != Some(&id) {
                    return Err(format!("load balancer {id} shares frontend {frontend}"));
                }
            }
            if record.network.is_some_and(|network| !state.networks.contains(network))
                && record.degraded.is_none()
            {
                return Err(format!("load balancer {id} is on a network that is gone"));
            }
            for space in record.pool_spaces() {
                if !record.blocks.iter().any(|block| block.space == space) {
                    return Err(format!("load balancer {id} has no block of {space}"));
                }
            }
        }
        Object::Network(_) | Object::Route(_) => {}
    }
    Ok(())
}
