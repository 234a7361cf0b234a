//! The correspondence of v1 and v2 documents, by example: what clients send and what HNS prints.

use hcn::network::NetworkMode;
use hcn::v1::{self, EndpointState, Facts, PolicyListObject};
use hcn::{Guid, HResult, Kind};

fn guid(n: u128) -> Guid {
    Guid::from_u128(n)
}

#[test]
fn a_v1_network_becomes_an_ipam_a_mac_pool_and_policies() {
    let text = r#"{"Name":"n","Type":"L2Bridge","NetworkAdapterName":"eth0","SourceMac":"00-15-5D-00-00-01",
        "Policies":[{"Type":"VLAN","VLAN":7}],"DNSSuffix":"a.test,b.test","DNSServerList":"192.0.2.53,192.0.2.54",
        "MacPools":[{"StartMacAddress":"00-15-5D-52-C0-00","EndMacAddress":"00-15-5D-52-CF-FF"}],
        "Subnets":[{"AddressPrefix":"10.50.1.0/24","GatewayAddress":"10.50.1.1",
                    "Policies":[{"Type":"VSID","VSID":4096}]}],
        "ManagementIP":"192.0.2.11","AutomaticDNS":true,"NatName":"x","LayeredOn":"00000000-0000-0000-0000-00000000000a"}"#;
    let v2 = v1::read_network(text).unwrap();
    assert_eq!(
        v2.to_json(),
        concat!(
            r#"{"Name":"n","Type":"L2Bridge","Policies":[{"Type":"VLAN","Settings":{"IsolationId":7}},"#,
            r#"{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"eth0"}},"#,
            r#"{"Type":"SourceMacAddress","Settings":{"SourceMacAddress":"00-15-5D-00-00-01"}},"#,
            r#"{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.11"}},"#,
            r#"{"Type":"AutomaticDNS","Settings":{"Enable":true}}],"#,
            r#""MacPool":{"Ranges":[{"StartMacAddress":"00-15-5D-52-C0-00","EndMacAddress":"00-15-5D-52-CF-FF"}]},"#,
            r#""Dns":{"Search":["a.test","b.test"],"ServerList":["192.0.2.53","192.0.2.54"]},"#,
            r#""Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.50.1.0/24","#,
            r#""Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],"#,
            r#""Routes":[{"NextHop":"10.50.1.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"#,
            r#""Health":{"Extra":{"LayeredOn":"00000000-0000-0000-0000-00000000000a"}},"NatName":"x"}"#
        )
    );
}

#[test]
fn a_v1_network_comes_back_whole() {
    let text = concat!(
        r#"{"ActivityId":"00000000-0000-0000-0000-00000000000b","AdditionalParams":{},"AutomaticDNS":false,"#,
        r#""CurrentEndpointCount":0,"DNSDomain":"d.test","DNSServerCompartment":3,"DNSServerList":"192.0.2.53","#,
        r#""DNSSuffix":"a.test","DrMacAddress":"00-15-5D-00-00-02","#,
        r#""Extensions":[{"Id":"e","IsEnabled":false,"Name":"n"}],"Flags":8,"GatewayMac":"00-15-5D-00-00-03","#,
        r#""Health":{"LastErrorCode":0,"LastUpdateTime":133000000000000000},"#,
        r#""ID":"00000000-0000-0000-0000-00000000000C","IPv6":false,"#,
        r#""LayeredOn":"00000000-0000-0000-0000-00000000000D","#,
        r#""MacPools":[{"StartMacAddress":"00-15-5D-52-C0-00","EndMacAddress":"00-15-5D-52-CF-FF"}],"#,
        r#""ManagementIP":"192.0.2.11","MaxConcurrentEndpoints":2,"Name":"n","NatName":"x","#,
        r#""NetworkAdapterName":"eth0","Policies":[{"Type":"VLAN","VLAN":1},{"Type":"Unheard","B":[1, 2],"a":null}],"#,
        r#""Resources":{"Allocators":[]},"SourceMac":"00-15-5D-00-00-01","State":1,"#,
        r#""Subnets":[{"AdditionalParams":{},"AddressPrefix":"10.50.1.0/24","Flags":1,"GatewayAddress":"10.50.1.1","#,
        r#""Health":{},"ID":"00000000-0000-0000-0000-00000000000E","IpSubnets":[{"ID":"00000000-0000-0000-0000-00000000000F","#,
        r#""IpAddressPrefix":"10.50.1.0/25","ObjectType":6}],"ObjectType":5,"Policies":[{"Type":"VSID","VSID":4096}]}],"#,
        r#""SwitchGuid":"00000000-0000-0000-0000-00000000000D","TotalEndpoints":9,"Type":"Overlay","#,
        r#""Version":55834574851,"Unknown":{"K" : 1}}"#
    );
    let document = v1::Network::parse(text).unwrap();
    assert_eq!(document.to_json(), text);
    let back = v1::network_from_v2(&v1::network_to_v2(&document), &Facts::of_network(&document));
    assert_eq!(back.to_json(), text);
}

#[test]
fn a_v1_endpoint_becomes_configurations_routes_and_flags() {
    let text = format!(
        r#"{{"Name":"e","VirtualNetwork":"{}","IPAddress":"10.50.1.5","PrefixLength":24,"IPv6Address":"2001:db8:50::5",
        "IPv6PrefixLength":64,"GatewayAddress":"10.50.1.1","GatewayAddressV6":"2001:db8:50::1","DisableICC":true,
        "IsRemoteEndpoint":true,"EncapOverhead":50,"MacAddress":"00-15-5D-52-C0-05","Namespace":{{"ID":"{}"}},
        "Policies":[{{"Type":"PA","PA":"192.0.2.12"}},{{"Type":"ROUTE","DestinationPrefix":"10.60.0.0/16","NeedEncap":true}},
          {{"Type":"OutBoundNAT","VIP":"192.0.2.11","ExceptionList":["10.60.0.0/16"]}},
          {{"Type":"ACL","Protocol":6,"Action":"Block","Direction":"In","LocalPort":80,"Priority":200}},
          {{"Type":"NAT","Protocol":"TCP","InternalPort":80,"ExternalPort":8080,"ExternalPortReserved":true}},
          {{"Type":"PROXY","IP":"192.0.2.1","Port":"15001","ExceptionList":["192.0.2.0/24"],"OutboundNat":true}},
          {{"Type":"L2Driver"}}]}}"#,
        guid(1),
        guid(2)
    );
    assert!(v1::is_v1(Kind::Endpoint, &text));
    let v2 = v1::read_endpoint(&text).unwrap();
    assert_eq!(
        v2.to_json(),
        format!(
            concat!(
                r#"{{"Name":"e","HostComputeNetwork":"{}","HostComputeNamespace":"{}","Policies":["#,
                r#"{{"Type":"ProviderAddress","Settings":{{"ProviderAddress":"192.0.2.12"}}}},"#,
                r#"{{"Type":"SDNRoute","Settings":{{"DestinationPrefix":"10.60.0.0/16","NeedEncap":true}}}},"#,
                r#"{{"Type":"OutBoundNAT","Settings":{{"VirtualIP":"192.0.2.11","Exceptions":["10.60.0.0/16"]}}}},"#,
                r#"{{"Type":"ACL","Settings":{{"Protocols":"6","Action":"Block","Direction":"In","LocalPorts":"80","Priority":200}}}},"#,
                r#"{{"Type":"PortMapping","Settings":{{"Protocol":6,"InternalPort":80,"ExternalPort":8080,"Flags":4}}}},"#,
                r#"{{"Type":"L4Proxy","Settings":{{"IP":"192.0.2.1","Port":"15001","Exceptions":["192.0.2.0/24"],"OutboundNAT":true}}}},"#,
                r#"{{"Type":"L2Driver"}},{{"Type":"EncapOverhead","Settings":{{"Overhead":50}}}}],"#,
                r#""IpConfigurations":[{{"IpAddress":"10.50.1.5","PrefixLength":24}},{{"IpAddress":"2001:db8:50::5","PrefixLength":64}}],"#,
                r#""Routes":[{{"NextHop":"10.50.1.1","DestinationPrefix":"0.0.0.0/0"}},{{"NextHop":"2001:db8:50::1","DestinationPrefix":"::/0"}}],"#,
                r#""MacAddress":"00-15-5D-52-C0-05","Flags":3}}"#
            ),
            guid(1),
            guid(2)
        )
    );
}

#[test]
fn facts_fill_what_v2_does_not_carry() {
    let v2 = hcn::Endpoint::parse(
        r#"{"ID":"00000000-0000-0000-0000-000000000001","IpConfigurations":[{"IpAddress":"10.50.1.5"}]}"#,
    )
    .unwrap();
    let facts = Facts {
        endpoint_state: Some(EndpointState::Attached),
        virtual_network_name: Some("n".to_owned()),
        network_mode: Some(NetworkMode::Overlay),
        version: Some(hcn::Version::new(13, 3).packed()),
        gateway_address: Some("10.50.1.1".to_owned()),
        ..Facts::default()
    };
    assert_eq!(
        v1::endpoint_from_v2(&v2, &facts).to_json(),
        concat!(
            r#"{"GatewayAddress":"10.50.1.1","ID":"00000000-0000-0000-0000-000000000001","IPAddress":"10.50.1.5","#,
            r#""State":2,"Type":"Overlay","Version":55834574851,"VirtualNetworkName":"n"}"#
        )
    );
}

#[test]
fn what_v1_cannot_say_is_kept_and_comes_back() {
    for text in [
        // Two addresses of one family, an IPv6 subnet id, a route that is no gateway, DNS options.
        r#"{"IpConfigurations":[{"IpAddress":"10.50.1.5","PrefixLength":24},{"IpAddress":"10.50.1.6","PrefixLength":24},{"IpAddress":"2001:db8::5","IpSubnetId":"00000000-0000-0000-0000-000000000009"}],"Dns":{"Options":["ndots:5"]},"Routes":[{"NextHop":"10.50.1.1","DestinationPrefix":"0.0.0.0/0"},{"NextHop":"10.50.1.2","DestinationPrefix":"10.0.0.0/8","Metric":3}],"Flags":36,"Owner2":1}"#,
        r#"{"Owner":"o","Health":{"Data":{"LastErrorCode":0},"Extra":{"SharedContainers":["c"],"UtilityVM":"00000000-0000-0000-0000-000000000009"}}}"#,
    ] {
        let v2 = hcn::Endpoint::parse(text).unwrap();
        let back = v1::endpoint_to_v2(&v1::endpoint_from_v2(&v2, &Facts::default()));
        assert_eq!(back, v2, "{text}");
    }
}

#[test]
fn namespaces_cross_with_their_types() {
    for (v2, v1_text) in [
        (r#"{"NamespaceId":1,"Type":"HostDefault"}"#, r#"{"CompartmentId":1,"IsDefault":true}"#),
        (r#"{"Type":"Host"}"#, r#"{"IsDefault":false}"#),
        (r"{}", r"{}"),
        (r#"{"Type":"GuestDefault"}"#, r#"{"IsDefault":true,"Type":"GuestDefault"}"#),
        (
            r#"{"Resources":[{"Type":"Endpoint","Data":{"Id":"00000000-0000-0000-0000-00000000000A"}}],"SchemaVersion":{"Major":0,"Minor":0}}"#,
            r#"{"ResourceList":[{"Type":"Endpoint","Data":{"Id":"00000000-0000-0000-0000-00000000000A"}}],"SchemaVersion":{"Major":0,"Minor":0}}"#,
        ),
    ] {
        let document = hcn::Namespace::parse(v2).unwrap();
        let old = v1::namespace_from_v2(&document, &Facts::default());
        assert_eq!(old.to_json(), v1_text);
        assert_eq!(v1::namespace_to_v2(&old).to_json(), v2);
    }
}

#[test]
fn an_elb_policy_list_is_a_load_balancer() {
    let text = concat!(
        r#"{"ID":"00000000-0000-0000-0000-000000000001","Policies":[{"Type":"ELB","VIPs":["10.60.0.10"],"#,
        r#""SourceVIP":"10.50.1.2","ILB":true,"IsDSR":true,"Protocol":17,"InternalPort":53,"ExternalPort":53}],"#,
        r#""References":["/endpoints/00000000-0000-0000-0000-00000000000a"],"State":1}"#
    );
    let list = v1::PolicyList::parse(text).unwrap();
    let PolicyListObject::LoadBalancer(balancer) = v1::policy_list_to_v2(&list).unwrap() else {
        panic!("an ELB list is a load balancer");
    };
    assert_eq!(
        balancer.to_json(),
        concat!(
            r#"{"ID":"00000000-0000-0000-0000-000000000001","HostComputeEndpoints":["00000000-0000-0000-0000-00000000000a"],"#,
            r#""SourceVIP":"10.50.1.2","FrontendVIPs":["10.60.0.10"],"#,
            r#""PortMappings":[{"Protocol":17,"InternalPort":53,"ExternalPort":53,"Flags":1}],"Flags":1}"#
        )
    );
    let back = v1::policy_list_from_load_balancer(&balancer, &Facts::of_policy_list(&list));
    assert_eq!(back.to_json(), text);
}

#[test]
fn a_route_policy_list_is_an_sdn_route_under_both_names() {
    let text = concat!(
        r#"{"Policies":[{"Type":"ROUTE","DestinationPrefix":"169.254.169.254/24","NextHop":"127.10.0.34","NeedEncap":true}],"#,
        r#""References":["/endpoints/00000000-0000-0000-0000-00000000000a"]}"#
    );
    let route = v1::read_route(text).unwrap();
    assert_eq!(route.setting, route.routes);
    assert_eq!(route.settings().len(), 1);
    assert_eq!(v1::policy_list_from_route(&route, &Facts::default()).to_json(), text);
}

#[test]
fn policy_lists_without_a_counterpart_are_refused() {
    for (text, code, says) in [
        (r#"{"Policies":[]}"#, HResult::INVALID_POLICY_TYPE, "all must be ELB or all ROUTE"),
        (r#"{"Policies":[{"Type":"ELB"},{"Type":"ROUTE"}]}"#, HResult::INVALID_POLICY_TYPE, "[ELB, ROUTE]"),
        (
            r#"{"Policies":[{"Type":"ELB"}],"References":["/networks/x"]}"#,
            HResult::INVALID_JSON_REFERENCE,
            r#""/networks/x" is not "/endpoints/<id>""#,
        ),
        (
            r#"{"Policies":[{"Type":"ELB","VIPs":["a"]},{"Type":"ELB","VIPs":["b"]}]}"#,
            HResult::INVALID_POLICY,
            "Policies[1].VIPs differs",
        ),
        (r#"{"Policies":[{"Type":"ELB","Protocol":"X25"}]}"#, HResult::INVALID_POLICY, "ElbPolicy.Protocol"),
    ] {
        let error = v1::policy_list_to_v2(&v1::PolicyList::parse(text).unwrap()).unwrap_err();
        assert_eq!(error.code, code, "{text}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn the_form_is_told_by_schema_version_then_by_names() {
    for (kind, text, is_v1) in [
        (Kind::Network, r#"{"Name":"n","Type":"NAT","Subnets":[]}"#, true),
        (Kind::Network, r#"{"Name":"n","Subnets":[],"SchemaVersion":{"Major":1,"Minor":0}}"#, true),
        (Kind::Network, r#"{"Name":"n","Subnets":[],"SchemaVersion":{"Major":2,"Minor":0}}"#, false),
        (Kind::Network, r#"{"Name":"n","Ipams":[],"SchemaVersion":{"Major":0,"Minor":0}}"#, false),
        (Kind::Network, r#"{"name":"n","IPAMS":[]}"#, false),
        (Kind::Network, r#"{"Name":"n","Policies":[{"Type":"VLAN","VLAN":1}]}"#, true),
        (Kind::Network, r#"{"Name":"n","Policies":[{"Type":"VLAN","Settings":{"IsolationId":1}}]}"#, false),
        (Kind::Endpoint, r#"{"Name":"e","VirtualNetwork":"x"}"#, true),
        (Kind::Endpoint, r#"{"Name":"e","HostComputeNetwork":"x"}"#, false),
        (Kind::Endpoint, r#"{"Name":"e"}"#, false),
        (Kind::Namespace, r#"{"SchemaVersion":{"Major":0,"Minor":0}}"#, false),
        (Kind::Namespace, r#"{"IsDefault":true}"#, true),
        (Kind::LoadBalancer, r#"{"References":[],"Policies":[{"Type":"ELB","VIPs":[]}]}"#, true),
        (Kind::LoadBalancer, r#"{"HostComputeEndpoints":[]}"#, false),
        (Kind::SdnRoute, r#"{"References":[]}"#, true),
        (Kind::Network, "[]", false),
        (Kind::Network, "", false),
    ] {
        assert_eq!(v1::is_v1(kind, text), is_v1, "{kind} {text}");
    }
}

#[test]
fn policies_cross_both_ways() {
    for (flat, envelope) in [
        (r#"{"Type":"VLAN","VLAN":7}"#, r#"{"Type":"VLAN","Settings":{"IsolationId":7}}"#),
        (
            r#"{"Type":"QOS","MaximumOutgoingBandwidthInBytes":9}"#,
            r#"{"Type":"QOS","Settings":{"MaximumOutgoingBandwidthInBytes":9}}"#,
        ),
        (
            r#"{"Type":"Isolation","VLAN":1,"VSID":2,"InDefaultIsolation":true}"#,
            r#"{"Type":"Isolation","Settings":{"VLAN":1,"VSID":2,"InDefaultIsolation":true}}"#,
        ),
        (
            r#"{"Type":"PROXY","IP":"192.0.2.1","Port":"1","ExceptionList":["x"],"Destination":"d","OutboundNat":true}"#,
            r#"{"Type":"L4Proxy","Settings":{"IP":"192.0.2.1","Port":"1","Exceptions":["x"],"Destination":"d","OutboundNAT":true}}"#,
        ),
        (
            r#"{"Type":"NAT","Protocol":"SCTP","InternalPort":1,"ExternalPort":2}"#,
            r#"{"Type":"PortMapping","Settings":{"Protocol":132,"InternalPort":1,"ExternalPort":2}}"#,
        ),
        (r#"{"Type":"NAT","Protocol":"47"}"#, r#"{"Type":"PortMapping","Settings":{"Protocol":47}}"#),
        (
            r#"{"Type":"outboundnat","VIP":"192.0.2.1"}"#,
            r#"{"Type":"outboundnat","Settings":{"VirtualIP":"192.0.2.1"}}"#,
        ),
        (
            r#"{"Type":"ACL","Id":"a","Protocols":"6","Action":"Allow","Direction":"In","ServiceName":"s"}"#,
            r#"{"Type":"ACL","Settings":{"Id":"a","Protocols":"6","Action":"Allow","Direction":"In","ServiceName":"s"}}"#,
        ),
        (
            r#"{"Type":"INTERFACECONSTRAINT","Settings":"eth0"}"#,
            r#"{"Type":"INTERFACECONSTRAINT","Settings":"eth0"}"#,
        ),
        (r#"{"Type":"L2Driver"}"#, r#"{"Type":"L2Driver"}"#),
        (r#"{"Type":"HostRoute"}"#, r#"{"Type":"HostRoute","Settings":{}}"#),
        (r#"{"Type":17,"A":1}"#, r#"{"Type":17,"Settings":{"A":1}}"#),
    ] {
        let (old, new) = (hcn::Policy::parse(flat).unwrap(), hcn::Policy::parse(envelope).unwrap());
        assert_eq!(v1::policy_to_v2(&old).to_json(), envelope);
        assert_eq!(v1::policy_from_v2(&new).to_json(), flat);
    }
}

#[test]
fn v2_spellings_of_others_reach_v1_too() {
    for (envelope, flat) in [
        (r#"{"Type":"VSID","IsolationId":5000}"#, r#"{"Type":"VSID","VSID":5000}"#),
        (r#"{"Type":"VSID","Data":{"IsolationId":5000}}"#, r#"{"Type":"VSID","VSID":5000}"#),
        (
            r#"{"Type":"L4Proxy","Settings":{"ExceptionList":["x"],"OutboundNat":true}}"#,
            r#"{"Type":"PROXY","ExceptionList":["x"],"OutboundNat":true}"#,
        ),
    ] {
        assert_eq!(v1::policy_from_v2(&hcn::Policy::parse(envelope).unwrap()).to_json(), flat);
    }
}

#[test]
fn a_network_with_an_address_and_a_policy_of_its_type_gets_both_back() {
    let text = r#"{"ManagementIP":"192.0.2.11","Policies":[{"Type":"PA","PA":"192.0.2.12"}]}"#;
    let network = v1::Network::parse(text).unwrap();
    let back = v1::network_from_v2(&v1::network_to_v2(&network), &Facts::of_network(&network));
    assert_eq!(back.to_json(), text);
}
