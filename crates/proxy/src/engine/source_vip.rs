//! The source VIP of an overlay network: given by flag, else the address of an endpoint with a known name, else an
//! address that HNS gives from the node's own range. Without one, only the load balancers that need it wait.

use std::net::IpAddr;

use hcn::endpoint::IpConfig;
use hcn::loadbalancer::Frontend;
use hcn::namespace::NamespaceType;
use hcn::query::SchemaVersion;
use hcn::{Endpoint, Guid, HcnExt, Kind, Namespace};
use ipnet::IpNet;
use services::IpFamily;

use super::endpoints::{SOURCE_VIP_KEY, field};
use super::{OWNER, Pass, Proxy, Retryable};
use crate::observed::{EndpointOwner, ObservedEndpoint};
use crate::plan::SourceVip;
use crate::status::{Action, Change, ConditionReason, ProxyCondition};

/// The name of the endpoint that is made when none is found; found again by it after a restart.
const NAME: &str = "source_vip";

impl Proxy {
    /// The source VIP, found or made; `None` when there is none yet (a condition says why).
    pub(super) fn source_vip(&mut self, pass: &mut Pass) -> Option<IpAddr> {
        if let Some((id, address)) = self.source_vip
            && self.observed.endpoint(id).is_some()
        {
            return Some(address);
        }
        self.source_vip = None;
        if pass.down || !self.backoff.is_due(&Retryable::SourceVip, pass.now) {
            return None;
        }
        match self.find_source_vip(pass) {
            Ok(found) => {
                self.source_vip = Some(found);
                self.backoff.succeeded(&Retryable::SourceVip);
                self.clear_condition(ConditionReason::SourceVipMissing);
                Some(found.1)
            }
            Err(why) => {
                if !pass.down {
                    self.backoff.failed(Retryable::SourceVip, why.clone(), &*self.clock, &*self.entropy);
                }
                self.set_condition(ProxyCondition::new(ConditionReason::SourceVipMissing, why));
                None
            }
        }
    }

    /// The source VIP's endpoint is gone: whoever needs one looks again, and so comes to make it anew.
    pub(super) fn source_vip_lost(&mut self) {
        self.source_vip = None;
        let frontends: Vec<Frontend> = self
            .wanted()
            .filter(|(_, _, balancer)| balancer.source_vip == SourceVip::Dedicated)
            .map(|(frontend, _, _)| *frontend)
            .collect();
        for frontend in frontends {
            self.touch(frontend);
        }
    }

    fn find_source_vip(&mut self, pass: &mut Pass) -> Result<(Guid, IpAddr), String> {
        if let Some(address) = self.told_source_vip() {
            return self.given_source_vip(address, pass);
        }
        let names = self.config.source_vip_endpoints.clone();
        for name in names.iter().map(String::as_str).chain([NAME]) {
            // Calico makes its `Calico_ep` a remote endpoint on overlays: the address is kept out of its IPAM all the same.
            let found = self
                .observed
                .endpoints()
                .filter(|(_, endpoint)| endpoint.name.eq_ignore_ascii_case(name))
                .filter_map(|(id, endpoint)| {
                    let address = endpoint
                        .addresses
                        .iter()
                        .copied()
                        .find(|&a| IpFamily::of(a) == self.node.primary_family());
                    address.map(|address| (endpoint.remote, id, address))
                })
                .min();
            if let Some((_, id, address)) = found {
                return Ok((id, address));
            }
        }
        self.make_source_vip(None, pass)
    }

    /// The address that the settings give, if possible one of the node's primary family.
    fn told_source_vip(&self) -> Option<IpAddr> {
        let primary = self.node.primary_family();
        let given = &self.config.source_vips;
        given.iter().find(|&&address| IpFamily::of(address) == primary).or_else(|| given.first()).copied()
    }

    fn given_source_vip(&mut self, address: IpAddr, pass: &mut Pass) -> Result<(Guid, IpAddr), String> {
        if IpFamily::of(address) != self.node.primary_family() {
            return Err(format!(
                "--source-vip {address} is of another family than the node's address; give an {} address",
                self.node.primary_family()
            ));
        }
        // Builds that let two local endpoints share an address have been seen: ours first, a pod's never.
        let own = self.derived(SOURCE_VIP_KEY);
        let mut ids = self.observed.endpoints_at(address).to_vec();
        ids.sort_unstable_by_key(|&id| (id != own, id));
        let mut of_pod = None;
        for id in ids {
            let Some(endpoint) = self.observed.endpoint(id).filter(|endpoint| !endpoint.remote) else {
                continue;
            };
            match endpoint.namespace {
                Some(namespace) if !self.is_host_namespace(namespace)? => of_pod = Some((id, namespace)),
                _ => return Ok((id, address)),
            }
        }
        if let Some((id, namespace)) = of_pod {
            return Err(format!(
                "--source-vip {address} is the address of endpoint {id} in namespace {namespace}, a pod's; give an address that no pod has"
            ));
        }
        let subnets = self.network.as_ref().map(|network| network.subnets.clone()).unwrap_or_default();
        if !subnets.is_empty() {
            match subnets.iter().find(|subnet| subnet.contains(&address)) {
                None => {
                    let list: Vec<String> = subnets.iter().map(ToString::to_string).collect();
                    return Err(format!(
                        "--source-vip {address} is in none of the network's subnets ({}); give an address from one of them",
                        list.join(", ")
                    ));
                }
                Some(subnet) if is_edge(subnet, address) => {
                    return Err(format!(
                        "--source-vip {address} is the network or broadcast address of {subnet}; replies to it would be lost; give a host's address"
                    ));
                }
                Some(_) => {}
            }
        }
        self.make_source_vip(Some(address), pass)
    }

    fn is_host_namespace(&self, namespace: Guid) -> Result<bool, String> {
        let document: Namespace = self.hcn.get(namespace).map_err(|error| {
            format!("cannot read namespace {namespace} of the source VIP's endpoint: {error}")
        })?;
        Ok(document.kind == Some(NamespaceType::HostDefault))
    }

    /// Makes a local endpoint: with the address given, or with one that HNS chooses.
    fn make_source_vip(
        &mut self,
        address: Option<IpAddr>,
        pass: &mut Pass,
    ) -> Result<(Guid, IpAddr), String> {
        let Some(network) = self.network.as_ref().map(|network| network.id) else {
            return Err("the HNS network is not there".to_owned());
        };
        let id = self.derived(SOURCE_VIP_KEY);
        if self.observed.is_doubted(id) || self.observed.endpoint(id).is_some() {
            // Of an earlier attempt or an earlier flag: usable when the address is the wanted one.
            let known =
                self.reread_endpoint(id).map_err(|error| self.source_vip_failed("read", &error, pass))?;
            let has = self.observed.endpoint(id).and_then(|endpoint| endpoint.addresses.first().copied());
            match has {
                Some(has) if known && address.is_none_or(|wanted| wanted == has) => return Ok((id, has)),
                Some(_) if known => {
                    self.hcn
                        .delete(Kind::Endpoint, id)
                        .map_err(|error| self.source_vip_failed("delete", &error, pass))?;
                    self.observed.remove_endpoint(id);
                }
                _ => {}
            }
        }
        let mac = self.node.host_mac().map(str::to_owned);
        let document = Endpoint {
            id: Some(id),
            owner: Some(OWNER.to_owned()),
            name: Some(NAME.to_owned()),
            ip_configurations: address
                .map(|address| IpConfig { ip_address: address.to_string(), ..IpConfig::default() })
                .into_iter()
                .collect(),
            mac_address: mac.clone(),
            schema_version: Some(SchemaVersion::V2),
            ..Endpoint::default()
        };
        let made = self
            .hcn
            .make_endpoint(network, id, &document)
            .map_err(|error| self.source_vip_failed("create", &error, pass))?;
        let has = if let Some(address) = address {
            self.observed.put_endpoint(
                made,
                ObservedEndpoint {
                    addresses: [address].into_iter().collect(),
                    remote: false,
                    owner: EndpointOwner::Ours,
                    provider_address: None,
                    mac: mac.unwrap_or_default().into(),
                    name: NAME.into(),
                    namespace: None,
                },
            );
            address
        } else {
            // The address is HNS's choice and must be read.
            self.reread_endpoint(made).map_err(|error| self.source_vip_failed("read", &error, pass))?;
            self.observed.endpoint(made).and_then(|endpoint| endpoint.addresses.first().copied()).ok_or_else(
                || {
                    format!(
                        "HNS gave the source VIP's endpoint {made} no address; give one with --source-vip"
                    )
                },
            )?
        };
        pass.changed(Change {
            action: Action::Create,
            kind: Kind::Endpoint,
            subject: has.to_string(),
            id: made,
            service: None,
            role: None,
            fields: vec![field("IpConfigurations", "", has.to_string()), field("Name", "", NAME.to_owned())],
            why: "the source VIP of overlay load balancers".to_owned(),
        });
        Ok((made, has))
    }

    fn source_vip_failed(&mut self, what: &str, error: &hcn::Error, pass: &mut Pass) -> String {
        let id = self.derived(SOURCE_VIP_KEY);
        self.observed.doubt(id);
        pass.failed(format!("{what} the source VIP's endpoint"), error);
        match self.told_source_vip() {
            Some(address) => format!("cannot {what} the source VIP's endpoint with {address}: {error}"),
            None => format!("cannot {what} the source VIP's endpoint: {error}"),
        }
    }
}

fn is_edge(subnet: &IpNet, address: IpAddr) -> bool {
    match subnet {
        IpNet::V4(v4) => v4.prefix_len() < 31 && (address == v4.network() || address == v4.broadcast()),
        IpNet::V6(v6) => v6.prefix_len() < 127 && address == v6.network(),
    }
}
