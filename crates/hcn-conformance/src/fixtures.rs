//! The objects that cases start from: the shapes are those that hcsshim's encoder sends, empty structures included.

use hcn::loadbalancer::{LoadBalancerFlags, PortMappingFlags};
use hcn::{Endpoint, Guid, LoadBalancer, Namespace, Network, SdnRoute};
use serde_json::{Value, json};

use crate::context::{Context, Found};
use crate::failure::Failure;

/// The schema version that hcsshim sends.
pub(crate) fn v2_0() -> Value {
    json!({ "Major": 2, "Minor": 0 })
}

/// The schema version that ncproxy and PowerShell send.
pub(crate) fn v2_2() -> Value {
    json!({ "Major": 2, "Minor": 2 })
}

/// The fixtures' MAC pool.
pub(crate) fn mac_pool() -> Value {
    json!({ "Ranges": [{
        "StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"
    }] })
}

/// A subnet with its gateway.
pub(crate) fn subnet(prefix: &str, gateway: &str) -> Value {
    let default = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
    json!({
        "IpAddressPrefix": prefix,
        "Routes": [{ "NextHop": gateway, "DestinationPrefix": default }]
    })
}

/// The fixtures' IPv4 subnet.
pub(crate) fn subnet_v4() -> Value {
    subnet("192.168.100.0/24", "192.168.100.1")
}

/// ncproxy's IPv6 subnet.
pub(crate) fn subnet_v6() -> Value {
    subnet("2001:db8:abcd:0012::0/64", "2001:db8:abcd:0012::1")
}

/// A load balancer's document: TCP from an external port to 8080 on two VIPs, with flags.
pub(crate) fn balancer_document(
    endpoints: &[Guid],
    external: u16,
    flags: LoadBalancerFlags,
    mapping_flags: PortMappingFlags,
) -> Value {
    let mut mapping = json!({ "Protocol": 6, "InternalPort": 8080, "ExternalPort": external });
    if !mapping_flags.is_empty() {
        mapping["Flags"] = json!(mapping_flags);
    }
    let mut document = json!({
        "HostComputeEndpoints": endpoints,
        "SourceVIP": "10.0.0.1",
        "FrontendVIPs": ["1.1.1.2", "1.1.1.3"],
        "PortMappings": [mapping],
        "SchemaVersion": v2_0(),
    });
    if !flags.is_empty() {
        document["Flags"] = json!(flags);
    }
    document
}

/// The fixture's: port 8090, no flags.
pub(crate) fn plain_balancer(endpoints: &[Guid]) -> Value {
    balancer_document(endpoints, 8090, LoadBalancerFlags::empty(), PortMappingFlags::empty())
}

impl Context<'_> {
    /// A network document; `subnets` empty: without Ipams.
    pub(crate) fn network_document(
        &self,
        name: &str,
        mode: &str,
        subnets: &[Value],
        pool: &Value,
        schema: &Value,
    ) -> Value {
        let mut document = json!({
            "Name": name,
            "Type": mode,
            "MacPool": pool,
            "Dns": {},
            "Health": { "Extra": {} },
            "SchemaVersion": schema,
        });
        if !subnets.is_empty() {
            document["Ipams"] = json!([{ "Type": "Static", "Subnets": subnets }]);
        }
        if mode != "NAT"
            && let Some(adapter) = &self.options.adapter
        {
            let settings = json!({ "NetworkAdapterName": adapter });
            document["Policies"] = json!([{ "Type": "NetAdapterName", "Settings": settings }]);
        }
        document
    }

    fn make_network(&self, document: &Value) -> Result<Found<Network>, Failure> {
        if let Some(name) = document["Name"].as_str() {
            self.pre_clean(name);
        }
        self.create_network(document)
    }

    /// The NAT network.
    pub(crate) fn nat_network(&self) -> Result<Found<Network>, Failure> {
        let name = self.name("nat");
        self.make_network(&self.network_document(&name, "NAT", &[subnet_v4()], &mac_pool(), &v2_0()))
    }

    /// The document of the overlay network: VSID 5000, non-persistent.
    pub(crate) fn overlay_document(&self) -> Value {
        let mut subnet = subnet_v4();
        subnet["Policies"] = json!([{ "Type": "VSID", "Settings": { "IsolationId": 5000 } }]);
        let name = self.name("overlay");
        let mut document = self.network_document(&name, "Overlay", &[subnet], &mac_pool(), &v2_0());
        document["Flags"] = json!(8);
        document
    }

    /// The overlay network.
    pub(crate) fn overlay_network(&self) -> Result<Found<Network>, Failure> {
        self.make_network(&self.overlay_document())
    }

    /// The overlay network with one more policy in the create call.
    pub(crate) fn overlay_with_policy(
        &self,
        policy: &str,
        settings: &Value,
    ) -> Result<Found<Network>, Failure> {
        let mut document = self.overlay_document();
        let policy = json!({ "Type": policy, "Settings": settings });
        match document["Policies"].as_array_mut() {
            Some(policies) => policies.push(policy),
            None => document["Policies"] = json!([policy]),
        }
        self.make_network(&document)
    }

    /// The L2Bridge network, non-persistent.
    pub(crate) fn bridge_network(&self) -> Result<Found<Network>, Failure> {
        let name = self.name("bridge");
        let mut document = self.network_document(&name, "L2Bridge", &[subnet_v4()], &mac_pool(), &v2_0());
        document["Flags"] = json!(8);
        self.make_network(&document)
    }

    /// ncproxy's NAT network: with IPv4, or with both families.
    pub(crate) fn ncproxy_network(&self, word: &str, dual: bool) -> Result<Found<Network>, Failure> {
        let subnets = if dual { vec![subnet_v4(), subnet_v6()] } else { vec![subnet_v4()] };
        let name = self.name(word);
        self.make_network(&self.network_document(&name, "NAT", &subnets, &mac_pool(), &v2_2()))
    }

    /// The document of the endpoint: nothing but its name and network.
    pub(crate) fn endpoint_document(&self, network: Guid) -> Value {
        json!({
            "Name": self.name("endpoint"),
            "HostComputeNetwork": network,
            "Dns": {},
            "Health": { "Extra": {} },
            "SchemaVersion": v2_0(),
        })
    }

    /// The endpoint.
    pub(crate) fn endpoint(&self, network: Guid) -> Result<Found<Endpoint>, Failure> {
        self.create_endpoint(network, &self.endpoint_document(network))
    }

    /// The endpoint with policies.
    pub(crate) fn endpoint_with(&self, network: Guid, policies: &Value) -> Result<Found<Endpoint>, Failure> {
        let mut document = self.endpoint_document(network);
        document["Policies"] = policies.clone();
        self.create_endpoint(network, &document)
    }

    /// A namespace of this type; the fixture's is HostDefault with number 5.
    pub(crate) fn namespace(&self, kind: &str) -> Result<Found<Namespace>, Failure> {
        self.create(&json!({ "NamespaceId": 5, "Type": kind, "SchemaVersion": v2_0() }))
    }

    /// The load balancer.
    pub(crate) fn balancer(&self, endpoints: &[Guid]) -> Result<Found<LoadBalancer>, Failure> {
        self.create(&plain_balancer(endpoints))
    }

    /// The SDN route, with hcsshim's name for its settings.
    pub(crate) fn route(&self, endpoints: &[Guid]) -> Result<Found<SdnRoute>, Failure> {
        self.create(&json!({
            "HostComputeEndpoints": endpoints,
            "Setting": [{ "DestinationPrefix": "169.254.169.254/24", "NextHop": "127.10.0.34" }],
            "SchemaVersion": v2_0(),
        }))
    }
}
