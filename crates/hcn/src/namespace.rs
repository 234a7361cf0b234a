//! `HostComputeNamespace`. Facts: hcsshim's types and Microsoft's HCN schema pages.

use crate::guid::Guid;
use crate::json::RawJson;
use crate::query::SchemaVersion;
use crate::{document, enumeration};

enumeration! {
    /// What a namespace is for. A namespace made without a type is `Host`.
    pub enum NamespaceType as name {
        /// Containers on the host.
        Host = 0 "Host",
        /// The host's own, compartment 1.
        HostDefault = 1 "HostDefault",
        /// In a utility VM.
        Guest = 2 "Guest",
        /// The utility VM's default.
        GuestDefault = 3 "GuestDefault",
    }
}

enumeration! {
    /// What a namespace's resource is.
    pub enum NamespaceResourceType as name {
        /// A container.
        Container = 0 "Container",
        /// An endpoint.
        Endpoint = 1 "Endpoint",
    }
}

document! {
    /// `HostComputeNamespace`.
    pub struct Namespace {
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// Who made it (base field).
        owner: Option<String> = "Owner",
        /// The compartment's number; 0 until something is in it.
        namespace_id: Option<u32> = "NamespaceId",
        /// The compartment's GUID.
        namespace_guid: Option<Guid> = "NamespaceGuid",
        /// What it is for.
        kind: Option<NamespaceType> = "Type",
        /// What is in it.
        resources: Vec<NamespaceResource> = "Resources",
        /// Input only: make the compartment at once (PowerShell's module sends it).
        create_with_compartment: bool = "CreateWithCompartment",
        /// Schema version.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
    }
}

document! {
    /// One thing in a namespace. `Data` is `{"Id": "<id>"}`, with the id in upper case.
    pub struct NamespaceResource {
        /// Container or endpoint.
        kind: Option<NamespaceResourceType> = "Type",
        /// Names the thing.
        data: Option<RawJson> = "Data",
    }
}

document! {
    /// The `Data` of a resource.
    pub struct ResourceId {
        /// The endpoint's or container's id, as text: container ids are not GUIDs.
        id: String = "Id",
    }
}

impl NamespaceResource {
    /// An endpoint's entry, spelled as HNS does.
    pub fn endpoint(id: Guid) -> Self {
        Self::of(NamespaceResourceType::Endpoint, id.upper().to_string())
    }

    /// A container's entry.
    pub fn container(id: &str) -> Self {
        Self::of(NamespaceResourceType::Container, id.to_owned())
    }

    fn of(kind: NamespaceResourceType, id: String) -> Self {
        let data = ResourceId { id, ..ResourceId::default() };
        Self { kind: Some(kind), data: Some(RawJson::of(&data)), ..Self::default() }
    }

    /// The id in `Data`, as text.
    pub fn data_id(&self) -> Option<String> {
        self.data.as_ref()?.read::<ResourceId>().ok().map(|data| data.id).filter(|id| !id.is_empty())
    }

    /// The endpoint's id, if the resource is one.
    pub fn endpoint_id(&self) -> Option<Guid> {
        if self.kind != Some(NamespaceResourceType::Endpoint) {
            return None;
        }
        self.data_id()?.parse().ok()
    }
}
