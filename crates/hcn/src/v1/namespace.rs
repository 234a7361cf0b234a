//! Namespaces, v1 to v2 and back.

use crate::namespace::NamespaceType;

use super::carry::{beside, fact, keep, take};
use super::documents::Namespace;
use super::facts::Facts;

/// A v1 namespace as a v2 document. Service-owned members are left out ([`Facts::of_namespace`] has them).
pub fn namespace_to_v2(v1: &Namespace) -> crate::Namespace {
    // Taken apart without `..`, so that a new member cannot be forgotten.
    let Namespace {
        activity_id: _,
        compartment_guid,
        compartment_id,
        containers: _,
        flags,
        health: _,
        id,
        is_default,
        policies,
        resource_list,
        resources: _,
        schema_version,
        state: _,
        version: _,
        extra,
    } = v1;
    let mut extra = extra.clone();
    // Guest types have no v1 word; `namespace_from_v2` keeps them.
    let kept: Option<NamespaceType> = take(&mut extra, "Type");
    let kind = kept.or_else(|| {
        is_default.map(|default| if default { NamespaceType::HostDefault } else { NamespaceType::Host })
    });
    let document = crate::Namespace {
        id: *id,
        owner: take(&mut extra, "Owner"),
        namespace_id: *compartment_id,
        namespace_guid: *compartment_guid,
        kind,
        resources: resource_list.clone(),
        create_with_compartment: take(&mut extra, "CreateWithCompartment").unwrap_or_default(),
        schema_version: *schema_version,
        extra: crate::json::Extra::default(),
    };
    keep(&mut extra, "Flags", flags);
    keep(&mut extra, "Policies", policies);
    crate::Namespace { extra: beside(extra, crate::Namespace::KEYS), ..document }
}

/// A v2 namespace as a v1 document.
pub fn namespace_from_v2(v2: &crate::Namespace, facts: &Facts) -> Namespace {
    let crate::Namespace {
        id,
        owner,
        namespace_id,
        namespace_guid,
        kind,
        resources,
        create_with_compartment,
        schema_version,
        extra,
    } = v2;
    let mut extra = extra.clone();
    keep(&mut extra, "Owner", owner);
    keep(&mut extra, "CreateWithCompartment", create_with_compartment);
    let is_default = match kind {
        None => None,
        Some(NamespaceType::Host) => Some(false),
        Some(NamespaceType::HostDefault) => Some(true),
        Some(other) => {
            keep(&mut extra, "Type", kind);
            Some(*other == NamespaceType::GuestDefault)
        }
    };
    Namespace {
        activity_id: fact(facts.activity_id.as_ref(), &mut extra, "ActivityId"),
        compartment_guid: *namespace_guid,
        compartment_id: *namespace_id,
        containers: fact(facts.containers.as_ref(), &mut extra, "Containers"),
        flags: take(&mut extra, "Flags"),
        health: fact(facts.health.as_ref(), &mut extra, "Health"),
        id: *id,
        is_default,
        policies: take(&mut extra, "Policies"),
        resource_list: resources.clone(),
        resources: fact(facts.resources.as_ref(), &mut extra, "Resources"),
        schema_version: *schema_version,
        state: fact(facts.state.as_ref(), &mut extra, "State"),
        version: fact(facts.version.as_ref(), &mut extra, "Version"),
        extra: beside(extra, Namespace::KEYS),
    }
}
