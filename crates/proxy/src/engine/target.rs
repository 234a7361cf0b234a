//! A wanted load balancer resolved to what HNS knows, as a document and compared with what HNS holds. Pure.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::loadbalancer::{Distribution, LoadBalancerFlags, PortMapping};
use hcn::query::SchemaVersion;
use hcn::{Guid, LoadBalancer};
use services::ServiceKey;

use super::OWNER;
use super::endpoints::field;
use crate::observed::ObservedBalancer;
use crate::plan::WantedBalancer;
use crate::status::FieldChange;

/// A wanted load balancer with everything resolved to what HNS knows.
pub(super) struct Target {
    pub(super) service: ServiceKey,
    pub(super) wanted: Arc<WantedBalancer>,
    pub(super) source_vip: Option<IpAddr>,
    /// Sorted.
    pub(super) backends: Vec<Guid>,
    /// An endpoint could not be made or brought up to date; that is tried again.
    pub(super) partial: bool,
}

pub(super) fn document(id: Guid, target: &Target) -> LoadBalancer {
    let wanted = &target.wanted;
    LoadBalancer {
        id: Some(id),
        owner: Some(OWNER.to_owned()),
        endpoints: target.backends.clone(),
        source_vip: target.source_vip.map(|address| address.to_string()).unwrap_or_default(),
        frontend_vips: wanted.frontend.vip.map(|vip| vip.to_string()).into_iter().collect(),
        port_mappings: vec![PortMapping {
            protocol: wanted.frontend.protocol,
            internal_port: wanted.internal_port,
            external_port: wanted.frontend.port,
            distribution: Some(wanted.distribution.clone())
                .filter(|distribution| *distribution != Distribution::None),
            flags: wanted.mapping_flags,
            ..PortMapping::default()
        }],
        flags: wanted.flags,
        schema_version: Some(SchemaVersion::V2),
        ..LoadBalancer::default()
    }
}

pub(super) fn all_fields(target: &Target) -> Vec<FieldChange> {
    let nothing = ObservedBalancer {
        frontends: smallvec::SmallVec::new(),
        internal_port: 0,
        distribution: Distribution::None,
        mapping_flags: hcn::loadbalancer::PortMappingFlags::empty(),
        flags: LoadBalancerFlags::empty(),
        source_vip: None,
        backends: Box::default(),
        owner: None,
        odd: false,
        degraded: false,
    };
    let mut fields = differences(&nothing, target);
    for change in &mut fields {
        change.from.clear();
    }
    fields
}

/// The fields in which an observed load balancer differs from what is wanted. The id, the owner and the order of
/// backends do not count.
pub(super) fn differences(observed: &ObservedBalancer, target: &Target) -> Vec<FieldChange> {
    let wanted = &target.wanted;
    let mut fields = Vec::new();
    if observed.odd {
        fields.push(field(
            "FrontendVIPs",
            "several frontends in one load balancer",
            wanted.frontend.to_string(),
        ));
    }
    if observed.degraded {
        fields.push(field("State", "degraded", "created".to_owned()));
    }
    if observed.backends[..] != target.backends[..] {
        fields.push(field("HostComputeEndpoints", &list(&observed.backends), list(&target.backends)));
    }
    if observed.internal_port != wanted.internal_port {
        fields.push(field(
            "InternalPort",
            &observed.internal_port.to_string(),
            wanted.internal_port.to_string(),
        ));
    }
    if observed.source_vip != target.source_vip {
        fields.push(field("SourceVIP", &address(observed.source_vip), address(target.source_vip)));
    }
    if observed.distribution != wanted.distribution {
        fields.push(field(
            "DistributionType",
            &observed.distribution.name(),
            wanted.distribution.name().into_owned(),
        ));
    }
    if observed.mapping_flags != wanted.mapping_flags {
        fields.push(field(
            "PortMappings.Flags",
            &observed.mapping_flags.names(),
            wanted.mapping_flags.names(),
        ));
    }
    if observed.flags != wanted.flags {
        fields.push(field("Flags", &observed.flags.names(), wanted.flags.names()));
    }
    fields
}

fn list(ids: &[Guid]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(" ")
}

fn address(address: Option<IpAddr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}
