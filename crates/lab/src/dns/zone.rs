//! What names mean.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hickory_proto::rr::Name;
use serde::{Deserialize, Serialize};
use services::{Cluster, Naming, Protocol, ServiceKey};

/// The domain of the cluster.
pub const DOMAIN: &str = "cluster.local";

/// The version of the specification that is followed.
const VERSION: &str = "1.1.0";

/// One thing that a name means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// CNAME: another name for this one.
    Alias(String),
    /// SRV.
    Service {
        /// The port.
        port: u16,
        /// The name of the host.
        target: String,
    },
    /// PTR: the name of an address.
    Pointer(String),
    /// TXT.
    Text(String),
}

/// The names of a cluster: lower case, without the last dot. Names that have something below them are there, too: they
/// exist and mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Zone {
    names: BTreeMap<String, Vec<Data>>,
}

impl Zone {
    /// The names of a cluster's Services. Those with the label of another proxy have none: their objects are not kept.
    pub fn of(cluster: &Cluster) -> Self {
        let mut zone = Self::default();
        zone.add(&format!("dns-version.{DOMAIN}"), Data::Text(VERSION.to_owned()));
        for view in cluster.services().filter_map(|key| cluster.view(key)) {
            let name = service_name(&view.key);
            for port in &view.ports {
                if port.cluster_ip.is_unspecified() {
                    continue;
                }
                zone.add(&name, Data::Address(port.cluster_ip));
                zone.add(&reverse(port.cluster_ip), Data::Pointer(name.clone()));
                if !port.name.is_empty() {
                    let data = Data::Service { port: port.port, target: name.clone() };
                    zone.add(&port_name(&port.name, port.protocol, &name), data);
                }
            }
        }
        for (key, naming) in cluster.named() {
            let name = service_name(&key);
            match naming {
                Naming::External(target) => {
                    let target = target.trim_end_matches('.').to_ascii_lowercase();
                    zone.add(&name, Data::Alias(target));
                }
                Naming::Headless(endpoints) => {
                    // A Service without a ready endpoint exists all the same.
                    zone.exists(&name);
                    for endpoint in endpoints.iter().filter(|endpoint| endpoint.ready) {
                        let host = endpoint
                            .hostname
                            .as_deref()
                            .map_or_else(|| dashed(endpoint.address), str::to_ascii_lowercase);
                        let host = format!("{host}.{name}");
                        zone.add(&name, Data::Address(endpoint.address));
                        zone.add(&host, Data::Address(endpoint.address));
                        for (port, protocol, number) in &endpoint.ports {
                            if !port.is_empty() {
                                let data = Data::Service { port: *number, target: host.clone() };
                                zone.add(&port_name(port, *protocol, &name), data);
                            }
                        }
                    }
                }
            }
        }
        zone
    }

    /// Adds what a name means. The name and those above it exist from now on.
    pub fn add(&mut self, name: &str, data: Data) {
        self.exists(name);
        if let Some(known) = self.names.get_mut(name)
            && !known.contains(&data)
        {
            known.push(data);
        }
    }

    fn exists(&mut self, name: &str) {
        let mut rest = Some(name);
        while let Some(name) = rest {
            if self.names.contains_key(name) {
                return;
            }
            self.names.insert(name.to_owned(), Vec::new());
            rest = name.split_once('.').map(|(_, above)| above);
        }
    }

    /// What a name means. `None`: there is no such name.
    pub fn get(&self, name: &str) -> Option<&[Data]> {
        self.names.get(name).map(Vec::as_slice)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}

fn service_name(key: &ServiceKey) -> String {
    format!("{}.{}.svc.{DOMAIN}", key.name, key.namespace).to_ascii_lowercase()
}

fn port_name(port: &str, protocol: Protocol, service: &str) -> String {
    format!("_{port}._{protocol}.{service}").to_ascii_lowercase()
}

/// The name that an address has in `in-addr.arpa` or `ip6.arpa`.
fn reverse(address: IpAddr) -> String {
    key(&Name::from(address))
}

/// A name as the zone writes it.
pub(super) fn key(name: &Name) -> String {
    name.to_lowercase().to_ascii().trim_end_matches('.').to_owned()
}

/// The host name of an endpoint without one: its address with dashes, as clusters' DNS servers make it.
fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}
