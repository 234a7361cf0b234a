//! The sequences of calls by which clients do one thing: what hcsshim, and so kube-proxy and CNI plugins, send.
//!
//! | thing | calls |
//! |---|---|
//! | list | enumerate, then query each id with the same query, filter and all |
//! | get by id or name | list with a filter; nothing listed is a "not found" of the client's own |
//! | create | create with the nil id, query what came of it with the default query |
//! | modify | modify, query with the default query |
//! | delete | delete; an SDN route is looked up first and none is no error |
//! | add or remove a load balancer's or route's endpoint | delete, create with the old id in the document |

use hcn::modify::{EndpointResource, ModifyEndpoint, ModifyNamespace, ModifyNetwork};
use hcn::modify::{NamespaceRequestResource, NetworkResource, RequestType};
use hcn::{Endpoint, Guid, Kind, LoadBalancer, Network, Object, Policy, Query, SdnRoute};
use serde_json::{Value, json};

use crate::context::{Context, Found, read};
use crate::failure::{Failure, Nature};

impl Context<'_> {
    /// Every object that matches.
    pub fn list<T: Object>(&self, query: &Query) -> Result<Vec<Found<T>>, Failure> {
        let mut found = Vec::new();
        for id in self.enumerate(T::KIND, query)? {
            match self.query(T::KIND, id, query) {
                Ok(text) => found.push(read(&format!("list {}s", T::KIND), text)?),
                // One of somebody else's may vanish between the two calls.
                Err(failure) if matches!(&failure.nature, Nature::Refused(error) if error.is_not_found()) => {
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }

    fn only<T: Object>(&self, query: &Query, not_found: String) -> Result<Found<T>, Failure> {
        let mut found = self.list::<T>(query)?;
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (None, _) => Err(Failure {
                step: "look up".to_owned(),
                expected: "one object listed".to_owned(),
                came: not_found,
                nature: Nature::NotListed,
                feature: None,
            }),
            (Some(_), false) => Err(Failure::unmet(
                format!("look up with {}", query.to_json()),
                "one object",
                format!("{} objects", found.len() + 1),
            )),
        }
    }

    /// The object with this id.
    pub fn by_id<T: Object>(&self, id: Guid) -> Result<Found<T>, Failure> {
        self.only(&Query::by_id(id), format!("{} \"{id}\" not found", client_word(T::KIND, "ID")))
    }

    /// The network or endpoint with this name.
    pub fn by_name<T: Object>(&self, name: &str) -> Result<Found<T>, Failure> {
        self.only(&Query::by_name(name), format!("{} \"{name}\" not found", client_word(T::KIND, "name")))
    }

    /// Demands that a lookup finds nothing, and hands out what a client would say.
    pub fn missing<T>(&self, lookup: Result<Found<T>, Failure>) -> Result<String, Failure> {
        match lookup {
            Err(failure) if failure.nature == Nature::NotListed => Ok(failure.came),
            Err(failure) => Err(failure),
            Ok(found) => Err(Failure::unmet("look up", "nothing listed", found.text)),
        }
    }

    /// Reads an object again.
    pub fn reload<T: Object>(&self, id: Guid) -> Result<Found<T>, Failure> {
        read(&format!("reload {}", T::KIND), self.query(T::KIND, id, &Query::all())?)
    }

    /// Creates an object that is not an endpoint.
    pub fn create<T: Object>(&self, settings: &Value) -> Result<Found<T>, Failure> {
        self.created(self.create_raw(T::KIND, None, &settings.to_string())?)
    }

    /// Creates an endpoint on a network.
    pub fn create_endpoint(&self, network: Guid, settings: &Value) -> Result<Found<Endpoint>, Failure> {
        self.created(self.create_raw(Kind::Endpoint, Some(network), &settings.to_string())?)
    }

    /// What has just been created; the id in it must be the one that was handed out.
    pub fn created<T: Object>(&self, id: Guid) -> Result<Found<T>, Failure> {
        let found: Found<T> = self.reload(id)?;
        self.check(
            found.id == id,
            &format!("query the new {}", T::KIND),
            format!("ID {id}"),
            found.text.clone(),
        )?;
        Ok(found)
    }

    /// Creates a network as hcsshim's `Create` does: it looks at the routes of every subnet with a prefix first, and
    /// refuses by itself those without next hop or without a default route.
    pub fn create_network(&self, settings: &Value) -> Result<Found<Network>, Failure> {
        let document = Network::parse(&settings.to_string())
            .map_err(|error| Failure::unmet("prepare a network", "a document", error.to_string()))?;
        for subnet in document.subnets().filter(|subnet| !subnet.prefix.is_empty()) {
            let hops = subnet.routes.iter().all(|route| !route.next_hop.is_empty());
            let default = |prefix: &str| prefix == "0.0.0.0/0" || prefix == "::/0";
            if !hops || !subnet.routes.iter().any(|route| default(&route.destination_prefix)) {
                return Err(Failure::unmet(
                    "validate the network",
                    "a next hop in every route, and a default route",
                    settings.to_string(),
                ));
            }
        }
        self.create(settings)
    }

    /// A policy request on a network.
    pub fn network_policy(&self, id: Guid, request: RequestType, policy: &Policy) -> Result<(), Failure> {
        let settings = json!({ "Policies": [policy] });
        let request = ModifyNetwork::new(NetworkResource::Policy, request, &settings);
        self.modify(Kind::Network, id, &request.to_json())?;
        self.reload::<Network>(id).map(|_| ())
    }

    /// A policy request on an endpoint.
    pub fn endpoint_policies(
        &self,
        id: Guid,
        request: RequestType,
        policies: &[Policy],
    ) -> Result<(), Failure> {
        let settings = json!({ "Policies": policies });
        let request = ModifyEndpoint::new(EndpointResource::Policy, request, &settings);
        self.modify(Kind::Endpoint, id, &request.to_json())?;
        self.reload::<Endpoint>(id).map(|_| ())
    }

    /// Puts an endpoint into a namespace or takes it out.
    pub fn namespace_endpoint(
        &self,
        namespace: Guid,
        request: RequestType,
        endpoint: Guid,
    ) -> Result<(), Failure> {
        let settings = json!({ "EndpointId": endpoint });
        let request = ModifyNamespace::new(NamespaceRequestResource::Endpoint, request, &settings);
        self.modify(Kind::Namespace, namespace, &request.to_json())?;
        self.reload::<hcn::Namespace>(namespace).map(|_| ())
    }

    /// Replaces a load balancer in place by the whole document.
    pub fn update_balancer(&self, id: Guid, document: &LoadBalancer) -> Result<Found<LoadBalancer>, Failure> {
        self.modify(Kind::LoadBalancer, id, &document.to_json())?;
        self.reload(id)
    }

    /// Deletes a load balancer and makes it again with other endpoints, keeping its id by the document.
    pub fn remake_balancer(
        &self,
        balancer: &Found<LoadBalancer>,
        endpoints: &[Guid],
    ) -> Result<Found<LoadBalancer>, Failure> {
        self.delete(Kind::LoadBalancer, balancer.id)?;
        let document = LoadBalancer { endpoints: endpoints.to_vec(), ..balancer.doc.clone() };
        self.created(self.create_raw(Kind::LoadBalancer, None, &document.to_json())?)
    }

    /// As [`Context::remake_balancer`], for an SDN route.
    pub fn remake_route(
        &self,
        route: &Found<SdnRoute>,
        endpoints: &[Guid],
    ) -> Result<Found<SdnRoute>, Failure> {
        self.delete_route(route.id)?;
        let document = SdnRoute { endpoints: endpoints.to_vec(), ..route.doc.clone() };
        self.created(self.create_raw(Kind::SdnRoute, None, &document.to_json())?)
    }

    /// Deletes an SDN route; one that is not listed is no error.
    pub fn delete_route(&self, id: Guid) -> Result<(), Failure> {
        match self.by_id::<SdnRoute>(id) {
            Ok(_) => self.delete(Kind::SdnRoute, id),
            Err(failure) if failure.nature == Nature::NotListed => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Deletes what an earlier run left behind under this name; errors are disregarded, as fixtures do.
    pub fn pre_clean(&self, name: &str) {
        if let Ok(found) = self.list::<Network>(&Query::by_name(name)) {
            for network in found {
                if network.doc.name.as_deref() == Some(name)
                    && self.delete(Kind::Network, network.id).is_err()
                {
                    self.note(format!("network {name} of an earlier run is still there"));
                }
            }
        }
    }
}

/// How hcsshim calls a missing object.
fn client_word(kind: Kind, by: &str) -> String {
    match kind {
        Kind::Network => format!("Network {by}"),
        Kind::Endpoint => format!("Endpoint {by}"),
        Kind::Namespace => format!("Namespace {by}"),
        Kind::LoadBalancer => "LoadBalancer".to_owned(),
        Kind::SdnRoute => "SDN Route".to_owned(),
    }
}
