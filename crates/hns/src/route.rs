//! SDN routes.

use hcn::{Guid, HResult, Kind, Result, SdnRoute};
use ipnet::IpNet;

use crate::policies;
use crate::record::{RouteRecord, object_state};
use crate::tx::{Tx, refuse};

/// Makes an SDN route.
pub(crate) fn create(tx: &mut Tx<'_>, id: Guid, mut doc: SdnRoute) -> Result<Guid> {
    let id = tx.choose_id(Kind::SdnRoute, id, doc.id)?;
    doc.id = Some(id);
    policies::strip_base_fields(&mut doc.extra);
    if doc.endpoints.is_empty() {
        return Err(refuse(HResult::INVALID_JSON_REFERENCE, "SDN route HostComputeEndpoints is empty"));
    }
    if let Some(network) = doc.network.filter(|network| !network.is_nil()) {
        doc.network = tx.network(network)?.doc.id;
    }
    let mut network = doc.network;
    for endpoint in &doc.endpoints {
        let Some(brief) = tx.state.endpoints.brief(*endpoint) else {
            let detail = format!("SDN route HostComputeEndpoints: there is no endpoint {endpoint}");
            return Err(refuse(tx.env.switches.unknown_reference, detail));
        };
        network = network.or(Some(brief.network));
    }
    for setting in doc.settings() {
        let text = &setting.destination_prefix;
        if text.parse::<IpNet>().is_err() {
            let detail = format!("SDN route DestinationPrefix {text:?} is not a CIDR");
            return Err(refuse(HResult::INVALID_PREFIX, detail));
        }
        if !setting.next_hop.is_empty() && setting.next_hop.parse::<std::net::IpAddr>().is_err() {
            let detail = format!("SDN route NextHop {:?} is not an address", setting.next_hop);
            return Err(refuse(HResult::INVALID_IP, detail));
        }
    }
    // Clients disagree about the member's name; both read their own.
    let settings = doc.settings().to_vec();
    doc.setting.clone_from(&settings);
    doc.routes = settings;
    let record = RouteRecord { seq: tx.state.next_seq(), doc, state: object_state::CREATED, network };
    tx.put_route(record);
    Ok(id)
}

/// Deletes an SDN route.
pub(crate) fn delete(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    tx.route(id)?;
    tx.remove(Kind::SdnRoute, id);
    Ok(())
}
