//! `HcnModifyNetwork`.

use hcn::{Guid, HResult, Hcn, HcnExt, Kind, Network};
use hns::{Hns, Profile};

use crate::world::{local, network, open, refused};

fn modify(hns: &Hns, id: Guid, resource: &str, request: &str, settings: &str) -> hcn::Result<()> {
    let json = format!(r#"{{"ResourceType":{resource},"RequestType":{request},"Settings":{settings}}}"#);
    hns.modify(Kind::Network, id, &json)
}

fn read(hns: &Hns, id: Guid) -> Network {
    hns.get(id).unwrap()
}

const ROUTE: &str = r#"{"Policies":[{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"192.168.2.0/24","IsolationId":5000,"ProviderAddress":"1.1.1.1","DistributedRouterMacAddress":"00-12-34-56-78-9a"}}]}"#;

#[test]
fn policies_are_added_and_removed_by_content() {
    let hns = open(Profile::Ws2022);
    let id = network(&hns, "Overlay", 0);
    modify(&hns, id, r#""Policy""#, r#""Add""#, ROUTE).unwrap();
    modify(&hns, id, "2", "0", r#"{"Policies":[{"Type":"HostRoute","Settings":{}}]}"#).unwrap();
    assert_eq!(read(&hns, id).policies.len(), 2);
    assert_eq!(
        refused(modify(&hns, id, r#""Policy""#, r#""Add""#, ROUTE), &["RemoteSubnetRoute"]),
        HResult::POLICY_ALREADY_EXISTS
    );
    // Content counts, not spelling: flannel writes the policy anew before it removes it.
    let respelled = ROUTE
        .replace("RemoteSubnetRoute", "REMOTESUBNETROUTE")
        .replace(r#""IsolationId":5000,"#, "")
        .replace(r#""1.1.1.1","#, r#""1.1.1.1", "IsolationId": 5000,"#);
    modify(&hns, id, r#""policy""#, r#""remove""#, &respelled).unwrap();
    let other = ROUTE.replace("1.1.1.1", "1.1.1.2");
    assert_eq!(
        refused(modify(&hns, id, r#""Policy""#, r#""Remove""#, &other), &["RemoteSubnetRoute"]),
        HResult::POLICY_NOT_FOUND
    );
    modify(&hns, id, r#""Policy""#, r#""Remove""#, r#"{"Policies":[{"Type":"HostRoute"}]}"#).unwrap();
    assert!(read(&hns, id).policies.is_empty());
    modify(&hns, id, r#""Policy""#, r#""Update""#, ROUTE).unwrap();
    modify(&hns, id, r#""Policy""#, r#""Update""#, r#"{"Policies":[{}]}"#).unwrap();
    assert!(read(&hns, id).policies.is_empty());
}

#[test]
fn dns_is_replaced_and_extensions_are_set() {
    let hns = open(Profile::Ws2022);
    let id = network(&hns, "L2Bridge", 0);
    modify(&hns, id, r#""DNS""#, r#""Update""#, r#"{"ServerList":["10.0.0.10"],"Domain":"x"}"#).unwrap();
    assert_eq!(read(&hns, id).dns.unwrap().server_list, ["10.0.0.10"]);
    modify(&hns, id, r#""DNS""#, r#""Update""#, "{}").unwrap();
    assert_eq!(read(&hns, id).dns, None);
    modify(&hns, id, r#""Extension""#, r#""Update""#, r#"{"Id":"E1","IsEnabled":true}"#).unwrap();
    modify(&hns, id, "1", "2", r#"{"Id":"e1"}"#).unwrap();
    let v1 = hns.query(Kind::Network, id, &hcn::Query::default()).unwrap();
    let v1 = hcn::v1::Network::parse(&v1).unwrap();
    assert_eq!(v1.extensions.len(), 1);
    assert_eq!(v1.extensions[0].is_enabled, Some(false));
    assert_eq!(
        refused(modify(&hns, id, "1", "2", "{}"), &["Extension.Id"]),
        HResult::SWITCH_EXTENSION_NOT_FOUND
    );
}

#[test]
fn subnets_come_and_go_unless_they_are_in_use() {
    let hns = open(Profile::Newest);
    let id = network(&hns, "L2Bridge", 0);
    let second = r#"{"Subnets":[{"IpAddressPrefix":"10.51.0.0/24","Routes":[{"NextHop":"10.51.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}"#;
    modify(&hns, id, r#""Subnet""#, r#""Add""#, second).unwrap();
    let endpoint = local(&hns, id, "10.51.0.7");
    assert_eq!(crate::world::endpoint(&hns, endpoint).routes[0].next_hop, "10.51.0.1");
    assert_eq!(
        refused(modify(&hns, id, "3", "1", second), &[&endpoint.to_string()]),
        HResult::ENTITY_HAS_REFERENCES
    );
    hns.delete(Kind::Endpoint, endpoint).unwrap();
    modify(&hns, id, "3", "1", second).unwrap();
    assert_eq!(read(&hns, id).subnets().count(), 1);
    assert_eq!(refused(modify(&hns, id, "3", "1", second), &["10.51.0.0/24"]), HResult::SUBNET_NOT_FOUND);
    assert_eq!(
        refused(
            modify(&hns, id, "3", "0", r#"{"Subnets":[{"IpAddressPrefix":"10.50.0.0/16"}]}"#),
            &["overlap"]
        ),
        HResult::INVALID_SUBNET
    );
}

#[test]
fn ip_subnets_lie_in_their_subnet() {
    let hns = open(Profile::Newest);
    let id = network(&hns, "L2Bridge", 0);
    let subnet = read(&hns, id).subnets().next().unwrap().id.unwrap();
    let request =
        |prefix: &str| format!(r#"{{"SubnetId":"{subnet}","IpSubnets":[{{"IpAddressPrefix":"{prefix}"}}]}}"#);
    modify(&hns, id, r#""IPSubnet""#, r#""Add""#, &request("10.50.0.64/26")).unwrap();
    let nested = read(&hns, id).subnets().next().unwrap().ip_subnets[0].id.unwrap();
    assert_eq!(
        refused(modify(&hns, id, "4", "0", &request("10.60.0.64/26")), &["10.60"]),
        HResult::INVALID_IP_SUBNET
    );
    let json = format!(r#"{{"IpConfigurations":[{{"IpAddress":"10.50.0.70","IpSubnetId":"{nested}"}}]}}"#);
    hns.create(Kind::Endpoint, Some(id), Guid::NIL, &json).unwrap();
    let json = json.replace("10.50.0.70", "10.50.0.71").replace(&nested.to_string(), &id.to_string());
    assert_eq!(
        refused(hns.create(Kind::Endpoint, Some(id), Guid::NIL, &json), &["IpSubnetId"]),
        HResult::SUBNET_NOT_FOUND
    );
    modify(&hns, id, "4", "1", &request("10.50.0.64/26")).unwrap();
    assert_eq!(
        refused(modify(&hns, id, "4", "1", &request("10.50.0.64/26")), &["no IP subnet"]),
        HResult::INVALID_IP_SUBNET
    );
}

#[test]
fn other_requests_are_refused() {
    let hns = open(Profile::Newest);
    let id = network(&hns, "L2Bridge", 0);
    for (resource, request) in
        [("0", "0"), (r#""Policy""#, r#""Reset""#), (r#""Weather""#, r#""Add""#), ("9", "9")]
    {
        assert_eq!(
            refused(modify(&hns, id, resource, request, "{}"), &["HcnModifyNetwork"]),
            HResult::REQUEST_UNSUPPORTED
        );
    }
    assert_eq!(
        refused(hns.modify(Kind::Network, Guid::NIL, "{}"), &["there is no network"]),
        HResult::NETWORK_NOT_FOUND
    );
    assert_eq!(refused(hns.modify(Kind::Network, id, "[]"), &["object"]), HResult::INVALID_JSON);
}
