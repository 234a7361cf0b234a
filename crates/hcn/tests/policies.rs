//! Typed policies: every type by name and number, what clients write, what is refused.

use hcn::Policy;
use hcn::policy::endpoint::{InterruptModeration, TypeName};
use hcn::policy::network::SetPolicyType;
use hcn::policy::{
    ActionType, DirectionType, EndpointPolicy, NatFlags, NetworkPolicy, PolicyType, RuleType, SubnetPolicy,
};

/// Envelopes as hcsshim writes them; each must be a known type and print back as it came.
const ENDPOINT: &[&str] = &[
    r#"{"Type":"PortMapping","Settings":{"Protocol":17,"InternalPort":45678,"ExternalPort":56789,"VIP":"192.0.2.11","Flags":3}}"#,
    r#"{"Type":"ACL","Settings":{"Id":"a","Protocols":"6","Action":"Allow","Direction":"In","LocalAddresses":"192.168.100.0/24,10.0.0.21","RemoteAddresses":"192.168.100.0/24,10.0.0.21","LocalPorts":"80,8080","RemotePorts":"80,8080","RuleType":"Switch","Priority":200}}"#,
    r#"{"Type":"QOS","Settings":{"MaximumOutgoingBandwidthInBytes":0}}"#,
    r#"{"Type":"L2Driver"}"#,
    r#"{"Type":"OutBoundNAT","Settings":{"VirtualIP":"10.50.1.2","Exceptions":["10.60.0.0/16"],"Destinations":["10.50.1.5"],"Flags":2,"MaxPortPoolUsage":4}}"#,
    r#"{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.60.0.0/16","NextHop":"192.0.2.1","NeedEncap":true}}"#,
    r#"{"Type":"L4Proxy","Settings":{"IP":"192.0.2.1","Port":"15001","Protocol":6,"Exceptions":["192.0.2.0/24"],"Destination":"10.60.0.0/16","OutboundNAT":true}}"#,
    r#"{"Type":"L4Proxy","Settings":{"Destination":""}}"#,
    r#"{"Type":"L4WFPPROXY","Settings":{"InboundProxyPort":"80","OutboundProxyPort":"81","FilterTuple":{"Protocols":"6","RemoteAddresses":"10.0.0.4","Priority":8},"UserSID":"S-1-5-32-556","InboundExceptions":{},"OutboundExceptions":{"IpAddressExceptions":["10.0.1.12"],"PortExceptions":["81"]}}}"#,
    r#"{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.12"}}"#,
    r#"{"Type":"PortName","Settings":{"Name":"p"}}"#,
    r#"{"Type":"EncapOverhead","Settings":{"Overhead":50}}"#,
    r#"{"Type":"InterfaceConstraint","Settings":{"InterfaceGuid":"00000000-0000-0000-0000-00000000000a","InterfaceLuid":1,"InterfaceIndex":2,"InterfaceMediaType":3,"InterfaceAlias":"eth0","InterfaceDescription":"d"}}"#,
    r#"{"Type":"Encryption","Settings":{"EncryptionMethodType":"Ipsec","AuthenticationMethods":[{"Type":"PresharedKey","Settings":{"Key":"k"}}],"Name":"n","Endpoints1":["a"],"Endpoints2":["b"],"ProtocolType":"TCP","Endpoint1Ports":["1"],"Endpoint2Ports":["2"]}}"#,
    r#"{"Type":"VLAN","Settings":{"IsolationId":7}}"#,
    r#"{"Type":"InterfaceParameters","Settings":{"Mtu":1450}}"#,
    r#"{"Type":"Iov","Settings":{"IovOffloadWeight":100,"QueuePairsRequested":1,"InterruptModeration":200}}"#,
    r#"{"Type":"TierAcl","Settings":{"Name":"t","Direction":"In","Order":1001,"TierAclRules":[{"Id":"r","Protocols":"6","TierAclRuleAction":"Pass","LocalAddresses":"10.0.0.1","RemoteAddresses":"10.0.0.2","LocalPorts":"80","RemotePorts":"81","Priority":1}]}}"#,
    r#"{"Type":"Firewall","Settings":{"VmCreatorId":"00000000-0000-0000-0000-00000000000a","PolicyFlags":1}}"#,
];

const NETWORK: &[&str] = &[
    r#"{"Type":"SourceMacAddress","Settings":{"SourceMacAddress":"00-15-5D-52-C0-00"}}"#,
    r#"{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"eth0"}}"#,
    r#"{"Type":"InterfaceConstraint","Settings":{"InterfaceAlias":"eth0"}}"#,
    r#"{"Type":"VSwitchExtension","Settings":{"ExtensionID":"x","Enable":true}}"#,
    r#"{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.11"}}"#,
    r#"{"Type":"DrMacAddress","Settings":{"Address":"00-15-5D-52-C0-00"}}"#,
    r#"{"Type":"AutomaticDNS","Settings":{}}"#,
    r#"{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"192.168.2.0/24","IsolationId":5000,"ProviderAddress":"1.1.1.1","DistributedRouterMacAddress":"00-12-34-56-78-9a"}}"#,
    r#"{"Type":"VxlanPort","Settings":{"Port":4789}}"#,
    r#"{"Type":"HostRoute","Settings":{}}"#,
    r#"{"Type":"SetPolicy","Settings":{"Id":"s","Name":"n","PolicyType":"IPSET","Values":""}}"#,
    r#"{"Type":"L4Proxy","Settings":{"IP":"192.0.2.1","Port":"15001","Destination":""}}"#,
    r#"{"Type":"LayerConstraint","Settings":{"LayerId":"00000000-0000-0000-0000-00000000000a"}}"#,
    r#"{"Type":"NetworkACL","Settings":{"Protocols":"6","Action":"Allow","Direction":"In","RuleType":"Switch","Priority":200}}"#,
    r#"{"Type":"NeighborDiscovery","Settings":{"TargetIpPrefix":"10.0.0.0/8","SenderIpAddress":"10.0.0.1","SenderMacAddress":"00-15-5D-52-C0-00"}}"#,
];

/// Checks a table of envelopes against a table of types: all covered, each reads and prints back.
fn all_print_back(envelopes: &[&str], types: &[TypeName], back: impl Fn(&Policy) -> (String, Policy)) {
    let mut seen = Vec::new();
    for text in envelopes {
        let (name, printed) = back(&Policy::parse(text).unwrap());
        assert_eq!(printed.to_json(), *text);
        let row = types.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{text} is not known"));
        seen.push(row.name);
        // The type by number, and in another case, reads the same and is written by name.
        let other_case =
            Policy { kind: PolicyType::named(&name.to_uppercase()), ..Policy::parse(text).unwrap() };
        assert_eq!(back(&other_case).1.to_json(), *text);
        if let Some(number) = row.number {
            let quoted = serde_json::to_string(&name).unwrap();
            let numbered = text.replacen(&quoted, &number.to_string(), 1);
            assert_eq!(back(&Policy::parse(&numbered).unwrap()).1.to_json(), *text);
        }
    }
    for row in types {
        assert!(seen.contains(&row.name), "no example of {}", row.name);
    }
}

#[test]
fn every_endpoint_policy_reads_and_prints_back() {
    all_print_back(ENDPOINT, EndpointPolicy::TYPES, |policy| {
        let typed = EndpointPolicy::decode(policy).unwrap();
        (typed.type_name().into_owned(), typed.into())
    });
}

#[test]
fn every_network_policy_reads_and_prints_back() {
    all_print_back(NETWORK, NetworkPolicy::TYPES, |policy| {
        let typed = NetworkPolicy::decode(policy).unwrap();
        (typed.type_name().into_owned(), typed.into())
    });
}

#[test]
fn subnet_policies_are_read_in_three_spellings() {
    for text in [
        r#"{"Type":"VSID","Settings":{"IsolationId":5000}}"#,
        r#"{"Type":"VSID","Data":{"IsolationId":5000}}"#,
        r#"{"Type":"VSID","IsolationId":5000}"#,
        r#"{"Type":1,"IsolationId":5000}"#,
    ] {
        let SubnetPolicy::Vsid(isolation) = SubnetPolicy::decode(&Policy::parse(text).unwrap()).unwrap()
        else {
            panic!("{text} is a VSID");
        };
        assert_eq!(isolation.isolation_id, 5000);
        assert_eq!(
            Policy::from(SubnetPolicy::Vsid(isolation)).to_json(),
            r#"{"Type":"VSID","Settings":{"IsolationId":5000}}"#
        );
    }
    let none = SubnetPolicy::decode(&Policy::parse(r#"{"Type":"VLAN"}"#).unwrap()).unwrap();
    assert_eq!(none.type_name(), "VLAN");
}

#[test]
fn numbers_are_those_of_the_schemas_order() {
    let number = |types: &[TypeName], name: &str| types.iter().find(|row| row.name == name).unwrap().number;
    assert_eq!(number(EndpointPolicy::TYPES, "PortMapping"), Some(0));
    assert_eq!(number(EndpointPolicy::TYPES, "PortName"), Some(9));
    assert_eq!(number(EndpointPolicy::TYPES, "Firewall"), Some(18));
    assert_eq!(number(NetworkPolicy::TYPES, "NetAdapterName"), Some(1));
    assert_eq!(number(NetworkPolicy::TYPES, "InterfaceConstraint"), Some(2));
    assert_eq!(number(NetworkPolicy::TYPES, "NeighborDiscovery"), None);
}

#[test]
fn both_spellings_of_disputed_members_are_read() {
    for text in [
        r#"{"Type":"L4Proxy","Settings":{"Exceptions":["x"],"OutboundNAT":true}}"#,
        r#"{"Type":"L4Proxy","Settings":{"ExceptionList":["x"],"OutboundNat":true}}"#,
        r#"{"Type":"l4proxy","Settings":{"exceptionlist":["x"],"outboundnat":true}}"#,
    ] {
        let EndpointPolicy::L4Proxy(proxy) = EndpointPolicy::decode(&Policy::parse(text).unwrap()).unwrap()
        else {
            panic!("{text} is an L4Proxy");
        };
        assert_eq!((proxy.exceptions, proxy.outbound_nat), (vec!["x".to_owned()], true));
    }
}

#[test]
fn a_bare_string_is_an_interface_alias() {
    let policy = Policy::parse(r#"{"Type":"INTERFACECONSTRAINT","Settings":"eth 0"}"#).unwrap();
    let NetworkPolicy::InterfaceConstraint(constraint) = NetworkPolicy::decode(&policy).unwrap() else {
        panic!("an InterfaceConstraint");
    };
    assert_eq!(constraint.interface_alias, "eth 0");
    assert_eq!(policy.to_json(), r#"{"Type":"INTERFACECONSTRAINT","Settings":"eth 0"}"#);
}

#[test]
fn enumerations_of_settings_are_names_or_numbers() {
    let text = r#"{"Type":"ACL","Settings":{"Action":"block","Direction":1,"RuleType":"SWITCH"}}"#;
    let EndpointPolicy::Acl(acl) = EndpointPolicy::decode(&Policy::parse(text).unwrap()).unwrap() else {
        panic!("an ACL");
    };
    assert_eq!(acl.action, Some(ActionType::Block));
    assert_eq!(acl.direction, Some(DirectionType::Out));
    assert_eq!(acl.rule_type, Some(RuleType::Switch));

    let text = r#"{"Type":"SetPolicy","Settings":{"PolicyType":1}}"#;
    let NetworkPolicy::Set(set) = NetworkPolicy::decode(&Policy::parse(text).unwrap()).unwrap() else {
        panic!("a set");
    };
    assert_eq!(set.policy_type, Some(SetPolicyType::NestedIpSet));

    let text = r#"{"Type":"Iov","Settings":{"InterruptModeration":"IovInterruptModerationMedium"}}"#;
    let EndpointPolicy::Iov(iov) = EndpointPolicy::decode(&Policy::parse(text).unwrap()).unwrap() else {
        panic!("an Iov");
    };
    assert_eq!(iov.interrupt_moderation, Some(InterruptModeration::Medium));
    assert_eq!(InterruptModeration::High.number(), Some(300));
    assert_eq!((NatFlags::LOCAL_ROUTED_VIP | NatFlags::EXTERNAL_PORT_RESERVED).bits(), 5);
}

#[test]
fn unknown_types_keep_their_envelope() {
    for text in [
        r#"{"Type":"Unheard","Settings":[ 1 ],"Beside":true}"#,
        r#"{"Type":99,"Settings":null}"#,
        r#"{"Type":"","Settings":"x"}"#,
    ] {
        let policy = Policy::parse(text).unwrap();
        for back in [
            Policy::from(EndpointPolicy::decode(&policy).unwrap()),
            Policy::from(NetworkPolicy::decode(&policy).unwrap()),
            Policy::from(SubnetPolicy::decode(&policy).unwrap()),
        ] {
            assert_eq!(back, policy);
        }
    }
    // A network's type is unknown on an endpoint.
    let policy = Policy::parse(r#"{"Type":"VxlanPort","Settings":{"Port":1}}"#).unwrap();
    assert!(matches!(EndpointPolicy::decode(&policy).unwrap(), EndpointPolicy::Unknown(_)));
}

#[test]
fn unknown_settings_survive_the_typed_form() {
    let text = r#"{"Type":"OutBoundNAT","Settings":{"VirtualIP":"10.50.1.2","Unheard":{ "a":1 }}}"#;
    let typed = EndpointPolicy::decode(&Policy::parse(text).unwrap()).unwrap();
    assert_eq!(Policy::from(typed).to_json(), text);
}

#[test]
fn settings_that_cannot_be_read_are_refused_by_name() {
    for (text, says) in [
        (
            r#"{"Type":"ACL","Settings":{"Priority":70000}}"#,
            "endpoint policy ACL: Acl.Priority: invalid value: integer `70000`, expected u16",
        ),
        (r#"{"Type":"acl","Settings":[]}"#, "endpoint policy acl: Settings must be a JSON object"),
        (r#"{"Type":"ACL","Settings":"x"}"#, "endpoint policy ACL: Settings must be a JSON object"),
        (
            r#"{"Type":1,"Settings":{"Protocols":6}}"#,
            "endpoint policy 1: Acl.Protocols: invalid type: integer `6`, expected a string",
        ),
        (
            r#"{"Type":"PortMapping","Settings":{"Flags":"Sideways"}}"#,
            r#"endpoint policy PortMapping: PortMapping.Flags: "Sideways" is not a flag of NatFlags"#,
        ),
        (
            r#"{"Type":"InterfaceConstraint","Settings":{"InterfaceGuid":"x"}}"#,
            r#"endpoint policy InterfaceConstraint: InterfaceConstraint.InterfaceGuid: "x" is not a GUID"#,
        ),
    ] {
        let error = EndpointPolicy::decode(&Policy::parse(text).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with(says), "{error}\nwants {says}");
        assert_eq!(hcn::Error::from(error).code, hcn::HResult::INVALID_POLICY);
    }
    let error =
        NetworkPolicy::decode(&Policy::parse(r#"{"Type":"VxlanPort","Settings":{"Port":-1}}"#).unwrap());
    assert!(error.unwrap_err().to_string().starts_with("network policy VxlanPort: VxlanPort.Port: "));
    assert!(EndpointPolicy::decode(&Policy::parse(r#"{"Type":"QOS","Settings":null}"#).unwrap()).is_ok());
}
