//! Modify requests. Facts: hcsshim's request types; numbers from WSL's header and PowerShell's module.

use crate::guid::Guid;
use crate::json::RawJson;
use crate::network::{IpSubnet, Subnet};
use crate::{document, enumeration};

enumeration! {
    /// What a request does. Update replaces what is there by what is sent.
    pub enum RequestType as name {
        /// Add.
        Add = 0 "Add",
        /// Remove; matches on content.
        Remove = 1 "Remove",
        /// Replace.
        Update = 2 "Update",
        /// Apply again.
        Refresh = 3 "Refresh",
        /// Back to defaults.
        Reset = 4 "Reset",
    }
}

enumeration! {
    /// What part of a network a request is about.
    pub enum NetworkResource as name {
        /// DNS settings.
        Dns = 0 "DNS",
        /// A vSwitch extension.
        Extension = 1 "Extension",
        /// Policies.
        Policy = 2 "Policy",
        /// Subnets (schema 2.6).
        Subnet = 3 "Subnet",
        /// IP subnets (schema 2.6).
        IpSubnet = 4 "IPSubnet",
    }
}

enumeration! {
    /// What part of an endpoint a request is about.
    pub enum EndpointResource as name {
        /// The switch port.
        Port = 0 "Port",
        /// Policies.
        Policy = 1 "Policy",
    }
}

enumeration! {
    /// What part of a namespace a request is about.
    pub enum NamespaceRequestResource as name {
        /// A container.
        Container = 0 "Container",
        /// An endpoint.
        Endpoint = 1 "Endpoint",
    }
}

macro_rules! request {
    ($(#[$meta:meta])* $name:ident, $resource:ty) => {
        document! {
            $(#[$meta])*
            pub struct $name {
                /// The part.
                resource_type: Option<$resource> = "ResourceType",
                /// What to do with it.
                request_type: Option<RequestType> = "RequestType",
                /// The part's settings.
                settings: Option<RawJson> = "Settings",
                /// A path to the part (schema only).
                resource_uri: Option<String> = "ResourceUri",
            }
        }

        impl $name {
            /// A request.
            pub fn new<T: serde::Serialize + ?Sized>(resource: $resource, request: RequestType, settings: &T) -> Self {
                Self {
                    resource_type: Some(resource),
                    request_type: Some(request),
                    settings: Some(RawJson::of(settings)),
                    ..Self::default()
                }
            }
        }
    };
}

request!(
    /// `HcnModifyNetwork`'s settings.
    ModifyNetwork,
    NetworkResource
);
request!(
    /// `HcnModifyEndpoint`'s settings.
    ModifyEndpoint,
    EndpointResource
);
request!(
    /// `HcnModifyNamespace`'s settings.
    ModifyNamespace,
    NamespaceRequestResource
);

document! {
    /// Names an endpoint in a namespace request.
    pub struct EndpointRequest {
        /// The endpoint.
        endpoint_id: Option<Guid> = "EndpointId",
    }
}

document! {
    /// Names a container in a namespace request.
    pub struct ContainerRequest {
        /// The container.
        container_id: String = "ContainerId",
    }
}

document! {
    /// The settings of a port request.
    pub struct PortRequest {
        /// The switch port.
        port_id: Option<Guid> = "PortId",
        /// The virtual NIC, e.g. `<vm id>--<endpoint id>`.
        virtual_nic_name: Option<String> = "VirtualNicName",
        /// The virtual machine.
        virtual_machine_id: Option<Guid> = "VirtualMachineId",
    }
}

document! {
    /// The settings of a subnet request.
    pub struct SubnetRequest {
        /// The subnets.
        subnets: Vec<Subnet> = "Subnets",
    }
}

document! {
    /// The settings of an IP subnet request.
    pub struct IpSubnetRequest {
        /// The subnet they belong to.
        subnet_id: Option<Guid> = "SubnetId",
        /// The IP subnets.
        ip_subnets: Vec<IpSubnet> = "IpSubnets",
    }
}

document! {
    /// A vSwitch extension.
    pub struct Extension {
        /// The extension.
        id: String = "Id",
        /// On or off.
        is_enabled: bool = "IsEnabled",
    }
}
