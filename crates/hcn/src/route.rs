//! `HostComputeRoute` (SDN route).
//!
//! hcsshim calls the settings `Setting`, Microsoft's schema calls them `Routes`; a document keeps both apart so
//! that nothing is lost, and [`SdnRoute::settings`] reads either.

use crate::document;
use crate::guid::Guid;
use crate::query::SchemaVersion;

document! {
    /// `HostComputeRoute`.
    pub struct SdnRoute {
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// Who made it (base field).
        owner: Option<String> = "Owner",
        /// The network (schema 2.5).
        network: Option<Guid> = "HostComputeNetwork",
        /// The endpoints the route is put on.
        endpoints: Vec<Guid> = "HostComputeEndpoints",
        /// hcsshim's name for the settings.
        setting: Vec<SdnRouteSetting> = "Setting",
        /// The schema's name for the settings.
        routes: Vec<SdnRouteSetting> = "Routes",
        /// Schema version.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
    }
}

document! {
    /// One route.
    pub struct SdnRouteSetting {
        /// CIDR.
        destination_prefix: String = "DestinationPrefix",
        /// Gateway or provider address.
        next_hop: String = "NextHop",
        /// Encapsulate.
        need_encap: bool = "NeedEncap",
        /// Follow the endpoint's state (schema only).
        automatic_endpoint_monitor: bool = "AutomaticEndpointMonitor",
    }
}

impl SdnRoute {
    /// The settings, under whichever name they came.
    pub fn settings(&self) -> &[SdnRouteSetting] {
        if self.routes.is_empty() { &self.setting } else { &self.routes }
    }
}
