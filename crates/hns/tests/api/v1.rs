//! The v1 API.

use hcn::api::V1Method::{self, Delete, Get, Post};
use hcn::{Guid, HResult, Hcn, HcnExt, Kind, Query};
use hns::{Hns, Profile};
use serde_json::Value;

use crate::world::{balancer, endpoint, id, local, make_balancer, network, open, refused, switched};

fn call(hns: &Hns, method: V1Method, path: &str, body: &str) -> Value {
    let text = hns.call_v1(method, path, body).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["Success"], true, "{path}: {text}");
    value["Output"].clone()
}

/// The error text and code of a refused call.
fn failure(hns: &Hns, method: V1Method, path: &str, body: &str) -> (String, HResult) {
    let text = hns.call_v1(method, path, body).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["Success"], false, "{path}: {text}");
    let code = value["ErrorCode"].as_u64().unwrap();
    (value["Error"].as_str().unwrap().to_owned(), HResult(code.try_into().unwrap()))
}

fn id_of(value: &Value) -> Guid {
    value["ID"].as_str().unwrap().parse().unwrap()
}

#[test]
fn networks_and_endpoints_live_and_die() {
    let hns = open(Profile::Ws2022);
    assert_eq!(call(&hns, Get, "/globals/version", ""), serde_json::json!({"Major": 13, "Minor": 3}));
    let made = call(
        &hns,
        Post,
        "/networks/",
        r#"{"Name":"n","Type":"L2Bridge","Subnets":[{"AddressPrefix":"10.1.0.0/24","GatewayAddress":"10.1.0.1"}]}"#,
    );
    let network = id_of(&made);
    assert_eq!(made["Subnets"][0]["GatewayAddress"], "10.1.0.1");
    assert_eq!((made["State"].as_u64(), made["Version"].as_u64()), (Some(1), Some(55_834_574_851)));
    let made = call(&hns, Post, "/endpoints/", &format!(r#"{{"Name":"e","VirtualNetwork":"{network}"}}"#));
    let endpoint = id_of(&made);
    assert_eq!(
        (made["IPAddress"].as_str(), made["GatewayAddress"].as_str()),
        (Some("10.1.0.2"), Some("10.1.0.1"))
    );
    assert_eq!((made["VirtualNetworkName"].as_str(), made["State"].as_u64()), (Some("n"), Some(1)));
    assert_eq!(call(&hns, Get, "/networks", "").as_array().unwrap().len(), 1);
    assert_eq!(call(&hns, Get, &format!("/networks/{network}"), "")["CurrentEndpointCount"], 1);
    assert!(call(&hns, Get, &format!("/endpoints/{endpoint}/detailed"), "")["Resources"].is_object());
    assert_eq!(call(&hns, Get, &format!("/endpointstats/{endpoint}"), "")["PacketsSent"], 0);
    call(&hns, Delete, &format!("/networks/{}", network.upper()), "");
    assert_eq!(call(&hns, Get, "/endpoints/", ""), serde_json::json!([]));
}

#[test]
fn attach_and_detach_follow_system_and_container() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let id = local(&hns, network, "10.50.0.9");
    let post = |what: &str, body: &str| hns.call_v1(Post, &format!("/endpoints/{id}/{what}"), body).unwrap();
    let state = || endpoint(&hns, id).extra.read::<u16>("State").unwrap();
    assert!(post("attach", r#"{"SystemType":"Host","CompartmentId":1}"#).contains("true"));
    assert_eq!(state(), 2);
    let again =
        failure(&hns, Post, &format!("/endpoints/{id}/attach"), r#"{"SystemType":"Host","CompartmentId":1}"#);
    assert_eq!(
        again,
        ("This endpoint is already attached to the switch. ".to_owned(), HResult::ENDPOINT_ALREADY_ATTACHED)
    );
    post("detach", r#"{"SystemType":"Host"}"#);
    assert_eq!(state(), 4);
    for (body, wanted) in [
        (r#"{"SystemType":"Container","ContainerId":"c1"}"#, 2),
        (r#"{"SystemType":"Container","ContainerId":"c2"}"#, 3),
    ] {
        post("attach", body);
        assert_eq!(state(), wanted);
    }
    let shared = call(&hns, Get, &format!("/endpoints/{id}"), "");
    assert_eq!(shared["SharedContainers"], serde_json::json!(["c1", "c2"]));
    post("detach", r#"{"SystemType":"Container","ContainerId":"c1"}"#);
    assert_eq!(state(), 2);
    post("detach", r#"{"SystemType":"Container","ContainerId":"c2"}"#);
    assert_eq!(state(), 4);
    assert_eq!(
        failure(&hns, Post, &format!("/endpoints/{id}/detach"), r#"{"SystemType":"Host"}"#).1,
        HResult::ENDPOINT_NOT_ATTACHED
    );
    assert_eq!(failure(&hns, Post, &format!("/endpoints/{id}/attach"), "{}").1, HResult::INVALID_PARAMETER);
    post("attach", r#"{"SystemType":"VirtualMachine","VirtualNicName":"vm--ep"}"#);
    assert_eq!(state(), 2);
}

#[test]
fn policy_lists_are_balancers_and_routes() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let endpoint = local(&hns, network, "10.50.0.9");
    let elb = format!(
        r#"{{"References":["/endpoints/{endpoint}"],"Policies":[{{"Type":"ELB","VIPs":["10.60.0.1"],"Protocol":6,"InternalPort":80,"ExternalPort":80,"IsDSR":true}}]}}"#
    );
    let made = id_of(&call(&hns, Post, "/policylists/", &elb));
    let read: hcn::LoadBalancer = hns.get(made).unwrap();
    assert_eq!((read.frontend_vips[0].as_str(), read.flags.bits()), ("10.60.0.1", 1));
    let route = format!(
        r#"{{"References":["/endpoints/{endpoint}"],"Policies":[{{"Type":"ROUTE","DestinationPrefix":"10.0.0.0/8","NextHop":"10.50.0.1","NeedEncap":true}}]}}"#
    );
    let route = id_of(&call(&hns, Post, "/policylists", &route));
    make_balancer(&hns, &balancer(&["10.60.0.2"], (17, 53, 53), &[endpoint], 0)).unwrap();
    let lists = call(&hns, Get, "/policylists/", "");
    assert_eq!(lists.as_array().unwrap().len(), 3);
    let shown = call(&hns, Get, &format!("/policylists/{made}"), "");
    assert_eq!(shown["References"][0], format!("/endpoints/{endpoint}"));
    assert_eq!(shown["Policies"][0]["Type"], "ELB");
    assert_eq!(failure(&hns, Post, "/policylists/", &elb).1, HResult::ALREADY_EXISTS);
    for id in [made, route] {
        call(&hns, Delete, &format!("/policylists/{id}"), "");
    }
    assert_eq!(call(&hns, Get, "/policylists/", "").as_array().unwrap().len(), 1);
}

#[test]
fn namespaces_take_resources() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let inside = local(&hns, network, "10.50.0.9");
    let ns = id_of(&call(&hns, Post, "/namespaces/", r#"{"IsDefault":false}"#));
    let resource = format!(r#"{{"Type":"Endpoint","Data":{{"Id":"{inside}"}}}}"#);
    let after = call(&hns, Post, &format!("/namespaces/{ns}/addresource"), &resource);
    assert_eq!(after["ResourceList"][0]["Data"]["Id"], inside.to_string().to_uppercase());
    assert_eq!(call(&hns, Get, &format!("/endpoints/{inside}"), "")["Namespace"]["ID"], ns.to_string());
    let container = r#"{"Type":"Container","Data":{"Id":"c1"}}"#;
    call(&hns, Post, &format!("/namespaces/{ns}/addresource"), container);
    assert_eq!(failure(&hns, Delete, &format!("/namespaces/{ns}"), "").1, HResult::REQUEST_UNSUPPORTED);
    call(&hns, Post, &format!("/namespaces/{ns}/removeresource"), container);
    call(&hns, Post, &format!("/namespaces/{ns}/removeresource"), &resource);
    call(&hns, Delete, &format!("/namespaces/{ns}"), "");
    // internal/hns of hcsshim looks for this text.
    assert_eq!(failure(&hns, Get, &format!("/namespaces/{ns}"), "").0, "Element not found. ");
    let default = call(&hns, Get, "/namespaces/", "");
    assert_eq!(
        (default[0]["IsDefault"].as_bool(), default[0]["CompartmentId"].as_u64()),
        (Some(true), Some(1))
    );
}

#[test]
fn updates_replace_policies_and_set_extensions() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let id = local(&hns, network, "10.50.0.9");
    let nat = r#"{"Policies":[{"Type":"OutBoundNAT","ExceptionList":["10.0.0.0/8"]}]}"#;
    let after = call(&hns, Post, &format!("/endpoints/{id}"), nat);
    assert_eq!(after["Policies"][0]["ExceptionList"][0], "10.0.0.0/8");
    assert!(endpoint(&hns, id).policies[0].settings.as_ref().unwrap().get().contains("Exceptions"));
    let after = call(
        &hns,
        Post,
        &format!("/networks/{network}"),
        r#"{"Extensions":[{"Id":"E1","IsEnabled":true}],"DNSServerList":"1.1.1.1,8.8.8.8"}"#,
    );
    assert_eq!(
        (after["Extensions"][0]["IsEnabled"].as_bool(), after["DNSServerList"].as_str()),
        (Some(true), Some("1.1.1.1,8.8.8.8"))
    );
}

#[test]
fn accelnet_is_a_list_of_addresses_on_new_builds() {
    let macs =
        r#"{"MacAddressList":[{"MacAddress":"00-15-5D-00-00-01"},{"MacAddress":"00-15-5D-00-00-02"}]}"#;
    let hns = open(Profile::Ws2025);
    let count = |value: Value| value["MacAddressList"].as_array().unwrap().len();
    assert_eq!(count(call(&hns, Post, "/accelnet/", macs)), 2);
    assert_eq!(count(call(&hns, Get, "/accelnet/", "")), 2);
    assert_eq!(count(call(&hns, Delete, "/accelnet/", "")), 0);
    assert_eq!(count(call(&hns, Get, "/accelnet/", "")), 0);
    assert_eq!(failure(&open(Profile::Ws2022), Get, "/accelnet/", "").1, HResult::REQUEST_UNSUPPORTED);
}

#[test]
fn refusals_come_in_the_style_of_the_switch() {
    let envelope = open(Profile::Ws2022);
    let path = format!("/endpoints/{}", id(1));
    assert_eq!(
        failure(&envelope, Delete, &path, ""),
        ("The endpoint was not found. ".to_owned(), HResult::ENDPOINT_NOT_FOUND)
    );
    let hresult = switched("v1_failure: hresult");
    assert_eq!(
        refused(hresult.call_v1(Delete, &path, ""), &["HNSCall", &id(1).to_string()]),
        HResult::ENDPOINT_NOT_FOUND
    );
    for (method, path, code) in [
        (Get, "/pods/", HResult::REQUEST_UNSUPPORTED),
        (Delete, "/networks/", HResult::REQUEST_UNSUPPORTED),
        (Get, "/networks/x", HResult::GUID_CONVERSION_FAILURE),
    ] {
        assert_eq!(failure(&envelope, method, path, "").1, code, "{path}");
    }
    assert_eq!(failure(&envelope, Post, "/networks/", "{").1, HResult::INVALID_JSON);
    for path in ["/activities", "/plugins", "/endpointaddresses"] {
        assert!(call(&envelope, Get, path, "").is_array(), "{path}");
    }
    assert!(call(&envelope, Get, "/portpools", "")["PortPoolAllocations"].is_array());
}

#[test]
fn v1_documents_work_through_v2_calls() {
    let hns = open(Profile::Ws2022);
    let json = r#"{"Name":"GoTestNat","Type":"NAT","MacPools":[{"StartMacAddress":"00-15-5D-52-C0-00","EndMacAddress":"00-15-5D-52-CF-FF"}],"Subnets":[{"AddressPrefix":"192.168.100.0/24","GatewayAddress":"192.168.100.1"}]}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, json).unwrap();
    let read: hcn::Network = hns.get(network).unwrap();
    assert_eq!(read.subnets().next().unwrap().gateway(), Some("192.168.100.1"));
    let json = format!(r#"{{"Name":"e","VirtualNetwork":"{network}","IPAddress":"192.168.100.9"}}"#);
    let made = hns.create(Kind::Endpoint, None, Guid::NIL, &json).unwrap();
    assert_eq!(endpoint(&hns, made).ip_configurations[0].ip_address, "192.168.100.9");
    assert_eq!(hns.enumerate(Kind::Endpoint, &Query::endpoints_of(network)).unwrap(), [made]);
}
