//! Documents as clients really write them: printed back as they came, read in any spelling, refused by name.

use hcn::modify::{ModifyEndpoint, ModifyNamespace, ModifyNetwork, NetworkResource, RequestType};
use hcn::namespace::NamespaceType;
use hcn::network::{IpamType, NetworkFlags, NetworkMode};
use hcn::{Endpoint, LoadBalancer, Namespace, Network, Policy, Query, SdnRoute, v1};

type Reader = fn(&str) -> Result<String, serde_json::Error>;

/// Every document type by name, as a function from text to text.
const TYPES: &[(&str, Reader)] = &[
    ("Network", |text| Network::parse(text).map(|d| d.to_json())),
    ("Endpoint", |text| Endpoint::parse(text).map(|d| d.to_json())),
    ("Namespace", |text| Namespace::parse(text).map(|d| d.to_json())),
    ("LoadBalancer", |text| LoadBalancer::parse(text).map(|d| d.to_json())),
    ("SdnRoute", |text| SdnRoute::parse(text).map(|d| d.to_json())),
    ("Policy", |text| Policy::parse(text).map(|d| d.to_json())),
    ("Query", |text| Query::parse(text).map(|d| d.to_json())),
    ("ModifyNetwork", |text| ModifyNetwork::parse(text).map(|d| d.to_json())),
    ("ModifyEndpoint", |text| ModifyEndpoint::parse(text).map(|d| d.to_json())),
    ("ModifyNamespace", |text| ModifyNamespace::parse(text).map(|d| d.to_json())),
    ("v1 Network", |text| v1::Network::parse(text).map(|d| d.to_json())),
    ("v1 Endpoint", |text| v1::Endpoint::parse(text).map(|d| d.to_json())),
    ("v1 Namespace", |text| v1::Namespace::parse(text).map(|d| d.to_json())),
    ("v1 PolicyList", |text| v1::PolicyList::parse(text).map(|d| d.to_json())),
    ("v1 AttachRequest", |text| v1::AttachRequest::parse(text).map(|d| d.to_json())),
    ("v1 EndpointStats", |text| v1::EndpointStats::parse(text).map(|d| d.to_json())),
    ("v1 AccelnetMacs", |text| v1::AccelnetMacs::parse(text).map(|d| d.to_json())),
];

fn print_back(name: &str, text: &str) -> String {
    let (_, parse) = TYPES.iter().find(|(own, _)| *own == name).unwrap();
    parse(text).unwrap_or_else(|error| panic!("{name} {text}: {error}"))
}

#[test]
fn what_clients_send_is_printed_back_as_it_came() {
    for (name, text) in [
        ("Query", r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#),
        ("Query", r#"{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"ID\":\"x\"}"}"#),
        (
            "Network",
            r#"{"Name":"x","Type":"NAT","MacPool":{},"Dns":{},"Health":{"Extra":{}},"SchemaVersion":{"Major":2,"Minor":2}}"#,
        ),
        (
            "Network",
            r#"{"ID":"00000000-0000-0000-0000-00000000000A","Name":"n","Type":"Overlay","Policies":[{"Type":"HostRoute","Settings":{}}],"MacPool":{"Ranges":[{"StartMacAddress":"00-15-5D-52-C0-00","EndMacAddress":"00-15-5D-52-CF-FF"}]},"Dns":{"Domain":"d","Search":["s"],"ServerList":["192.0.2.53"],"Options":["o"]},"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"192.168.100.0/24","Policies":[{"Type":"VSID","Settings":{"IsolationId":5000}}],"Routes":[{"NextHop":"192.168.100.1","DestinationPrefix":"0.0.0.0/0","Metric":5}]}]}],"Flags":8,"Health":{"Data":{"LastErrorCode":0},"Extra":{"Resources":{"Allocators":[]},"SharedContainers":[],"LayeredOn":"00000000-0000-0000-0000-00000000000b","SwitchGuid":"00000000-0000-0000-0000-00000000000b","UtilityVM":"00000000-0000-0000-0000-00000000000b","VirtualMachine":"00000000-0000-0000-0000-00000000000b"}},"SchemaVersion":{"Major":2,"Minor":0}}"#,
        ),
        (
            "Endpoint",
            r#"{"Name":"e","HostComputeNetwork":"00000000-0000-0000-0000-00000000000a","Dns":{},"Health":{"Extra":{}},"SchemaVersion":{"Major":2,"Minor":0}}"#,
        ),
        (
            "Endpoint",
            r#"{"Name":"e","HostComputeNetwork":"00000000-0000-0000-0000-00000000000a","HostComputeNamespace":"00000000-0000-0000-0000-000000000000","Policies":[{"Type":"L2Driver"}],"IpConfigurations":[{"IpAddress":"10.50.1.5","PrefixLength":24}],"Routes":[{"NextHop":"10.50.1.1","DestinationPrefix":"0.0.0.0/0"}],"MacAddress":"00-15-5D-52-C0-05","Flags":1}"#,
        ),
        ("Namespace", r#"{"SchemaVersion":{"Major":0,"Minor":0}}"#),
        ("Namespace", r#"{"NamespaceId":5,"Type":"HostDefault","SchemaVersion":{"Major":2,"Minor":0}}"#),
        (
            "Namespace",
            r#"{"Resources":[{"Type":"Endpoint","Data":{"Id":"00000000-0000-0000-0000-00000000000A"}},{"Type":"Container","Data":{"Id":"c"}}]}"#,
        ),
        (
            "LoadBalancer",
            r#"{"HostComputeEndpoints":["00000000-0000-0000-0000-00000000000A"],"SourceVIP":"10.0.0.1","FrontendVIPs":["1.1.1.2","1.1.1.3"],"PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":8090,"DistributionType":2,"Flags":8}],"Flags":1,"SchemaVersion":{"Major":2,"Minor":0}}"#,
        ),
        (
            "SdnRoute",
            r#"{"HostComputeEndpoints":["00000000-0000-0000-0000-00000000000a"],"Setting":[{"DestinationPrefix":"169.254.169.254/24","NextHop":"127.10.0.34"}],"SchemaVersion":{"Major":2,"Minor":0}}"#,
        ),
        (
            "SdnRoute",
            r#"{"Routes":[{"DestinationPrefix":"169.254.169.254/24","NextHop":"127.10.0.34","NeedEncap":true,"AutomaticEndpointMonitor":true}]}"#,
        ),
        (
            "ModifyNamespace",
            r#"{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"00000000-0000-0000-0000-00000000000a"}}"#,
        ),
        (
            "ModifyNetwork",
            r#"{"ResourceType":"Policy","RequestType":"Add","Settings":{"Policies":[{"Type":"HostRoute","Settings":{}}]}}"#,
        ),
        ("ModifyEndpoint", r#"{"ResourceType":"Port","RequestType":"Remove","Settings":{}}"#),
        ("Policy", r#"{"Type":"","Settings":{ "kept" : [ 1 , 2 ] }}"#),
        ("v1 AttachRequest", r#"{"SystemType":"Host","CompartmentId":1}"#),
        ("v1 AttachRequest", r#"{"ContainerId":"c","SystemType":"Container","VirtualNicName":"n"}"#),
        (
            "v1 EndpointStats",
            r#"{"BytesReceived":0,"BytesSent":1,"DroppedPacketsIncoming":0,"DroppedPacketsOutgoing":0,"EndpointId":"00000000-0000-0000-0000-00000000000a","InstanceId":"00000000-0000-0000-0000-00000000000b","PacketsReceived":0,"PacketsSent":1}"#,
        ),
        ("v1 AccelnetMacs", r#"{"MacAddressList":[{"MacAddress":"00-15-5D-52-C0-00"}]}"#),
        ("v1 AccelnetMacs", r#"{"MacAddressList":[]}"#),
    ] {
        assert_eq!(print_back(name, text), text);
    }
}

#[test]
fn keys_are_read_in_any_case_and_written_in_one() {
    assert_eq!(
        print_back(
            "Network",
            r#"{"nAME":"x","ipams":[{"TYPE":"static","SUBNETS":[{"ipaddressprefix":"10.0.0.0/8"}]}],"schemaversion":{"MAJOR":2,"minor":1}}"#
        ),
        r#"{"Name":"x","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.0.0.0/8"}]}],"SchemaVersion":{"Major":2,"Minor":1}}"#
    );
    assert_eq!(
        print_back("Namespace", r#"{"Id":"00000000-0000-0000-0000-00000000000a"}"#),
        r#"{"ID":"00000000-0000-0000-0000-00000000000a"}"#
    );
    assert_eq!(print_back("Endpoint", "{\"N\\u0061me\":\"e\"}"), r#"{"Name":"e"}"#);
}

#[test]
fn enumerations_are_names_numbers_or_kept() {
    let mode = |text: &str| Network::parse(&format!(r#"{{"Type":{text}}}"#)).unwrap();
    for (text, wanted, printed) in [
        (r#""overlay""#, NetworkMode::Overlay, r#"{"Type":"Overlay"}"#),
        ("5", NetworkMode::Overlay, r#"{"Type":"Overlay"}"#),
        (r#""5""#, NetworkMode::Overlay, r#"{"Type":"Overlay"}"#),
        ("0", NetworkMode::Nat, r#"{"Type":"NAT"}"#),
        (r#""Wormhole""#, NetworkMode::OtherName("Wormhole".to_owned()), r#"{"Type":"Wormhole"}"#),
        ("77", NetworkMode::OtherNumber(77), r#"{"Type":77}"#),
    ] {
        let network = mode(text);
        assert_eq!(network.mode, Some(wanted), "{text}");
        assert_eq!(network.to_json(), printed);
    }
    assert_eq!(mode("null").network_mode(), NetworkMode::Nat);
    let ipam = Network::parse(r#"{"Ipams":[{"Type":"DHCP"}]}"#).unwrap();
    assert_eq!(ipam.ipams[0].kind, Some(IpamType::Dhcp));
    let request = ModifyNetwork::parse(r#"{"ResourceType":2,"RequestType":0}"#).unwrap();
    assert_eq!(request.resource_type, Some(NetworkResource::Policy));
    assert_eq!(request.request_type, Some(RequestType::Add));
    assert_eq!(NamespaceType::ALL.iter().filter_map(NamespaceType::number).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn protocols_may_be_names_and_are_written_as_numbers() {
    let balancer =
        LoadBalancer::parse(r#"{"PortMappings":[{"Protocol":"tcp"},{"Protocol":"17"},{"Protocol":132}]}"#)
            .unwrap();
    let numbers: Vec<u32> = balancer.port_mappings.iter().map(|mapping| mapping.protocol).collect();
    assert_eq!(numbers, [6, 17, 132]);
    assert_eq!(balancer.to_json(), r#"{"PortMappings":[{"Protocol":6},{"Protocol":17},{"Protocol":132}]}"#);
}

#[test]
fn flags_are_numbers_or_names_and_keep_unknown_bits() {
    let flags = |text: &str| Network::parse(&format!(r#"{{"Flags":{text}}}"#)).unwrap().flags;
    assert_eq!(flags("1032"), NetworkFlags::ENABLE_NON_PERSISTENT | NetworkFlags::DISABLE_HOST_PORT);
    assert_eq!(flags(r#""EnableNonPersistent, disablehostport""#).bits(), 1032);
    assert_eq!(flags(r#""None""#).bits(), 0);
    assert_eq!(flags("1073741832").names(), "EnableNonPersistent, 0x40000000");
    assert_eq!(print_back("Network", r#"{"Flags":4294967295}"#), r#"{"Flags":4294967295}"#);
}

#[test]
fn null_reads_as_absent() {
    for (name, _) in TYPES {
        let nulls = r#"{"ID":null,"Name":null,"Type":null,"Policies":null,"Flags":null,"Health":null,"Ipams":null,
            "Routes":null,"Subnets":null,"References":null,"PortMappings":null,"Settings":null,"State":null,
            "SchemaVersion":null,"Resources":null,"Filter":null,"SystemType":null,"CompartmentId":null}"#;
        let printed = print_back(name, nulls);
        // What the type does not know is kept, `null` as it is; what it knows is gone.
        let known = print_back(name, "{}");
        assert_eq!(print_back(name, &printed), printed);
        assert!(printed.starts_with(known.trim_end_matches('}')), "{name}: {printed}");
    }
}

#[test]
fn a_key_given_twice_counts_once_the_later() {
    assert_eq!(print_back("Network", r#"{"Name":"a","name":"b"}"#), r#"{"Name":"b"}"#);
    assert_eq!(print_back("Network", r#"{"X":1,"x":2,"X":3}"#), r#"{"X":1,"x":2,"X":3}"#);
}

#[test]
fn unknown_members_are_kept_in_order_and_to_the_byte() {
    let text = r#"{"Name":"n","Zeta":{ "a" : 1e400 , "b":[ 1.50 ] },"alpha":"\u00e9\/","big":123456789012345678901234567890}"#;
    for (name, _) in TYPES.iter().filter(|(name, _)| ["Network", "Endpoint"].contains(name)) {
        assert_eq!(print_back(name, text), text);
    }
}

#[test]
fn errors_name_document_and_field() {
    for (name, text, says) in [
        ("Network", r#"{"Name":5}"#, "Network.Name: invalid type: integer `5`, expected a string"),
        (
            "Network",
            r#"{"Flags":-1}"#,
            "Network.Flags: invalid value: integer `-1`, expected a name or a number",
        ),
        ("Network", r#"{"Flags":4294967296}"#, "Network.Flags: invalid value"),
        ("Network", r#"{"Flags":"Sideways"}"#, r#"Network.Flags: "Sideways" is not a flag of NetworkFlags"#),
        ("Network", r#"{"Type":true}"#, "Network.Type: invalid type: boolean `true`"),
        ("Network", r#"{"ID":"{00000000-0000-0000-0000-00000000000a}"}"#, "Network.ID: "),
        (
            "Network",
            r#"{"Ipams":[{"Subnets":[{"IpAddressPrefix":1}]}]}"#,
            "Network.Ipams: Ipam.Subnets: Subnet.IpAddressPrefix: invalid type",
        ),
        (
            "Network",
            r#"{"SchemaVersion":{"Major":"2"}}"#,
            "Network.SchemaVersion: SchemaVersion.Major: invalid type",
        ),
        (
            "Network",
            r#"{"SchemaVersion":[2,0]}"#,
            "Network.SchemaVersion: invalid type: sequence, expected a JSON object",
        ),
        (
            "Endpoint",
            r#"{"IpConfigurations":[{"PrefixLength":256}]}"#,
            "Endpoint.IpConfigurations: IpConfig.PrefixLength: invalid value: integer `256`, expected u8",
        ),
        ("Endpoint", r#"{"Policies":{}}"#, "Endpoint.Policies: invalid type: map, expected a sequence"),
        ("Endpoint", r#"{"Policies":[{"Type":[]}]}"#, "Endpoint.Policies: Policy.Type: invalid type"),
        (
            "LoadBalancer",
            r#"{"HostComputeEndpoints":["x"]}"#,
            r#"LoadBalancer.HostComputeEndpoints: "x" is not a GUID: 36 characters"#,
        ),
        (
            "LoadBalancer",
            r#"{"PortMappings":[{"ExternalPort":70000}]}"#,
            "PortMapping.ExternalPort: invalid value: integer `70000`, expected u16",
        ),
        ("LoadBalancer", r#"{"PortMappings":[{"Protocol":"X25"}]}"#, "PortMapping.Protocol: invalid value"),
        ("Query", r#"{"Filter":{}}"#, "Query.Filter: invalid type: map, expected a string"),
        ("v1 Endpoint", r#"{"PrefixLength":"24"}"#, "Endpoint.PrefixLength: invalid type"),
        ("v1 PolicyList", r#"{"References":"x"}"#, "PolicyList.References: invalid type"),
        ("Namespace", "[]", "invalid type: sequence, expected a JSON object"),
        ("Namespace", "", "EOF while parsing"),
        ("Namespace", "{}x", "trailing characters"),
    ] {
        let (_, parse) = TYPES.iter().find(|(own, _)| *own == name).unwrap();
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(says), "{name} {text}\n says: {error}\nwants: {says}");
    }
}

#[test]
fn hostile_text_is_refused_or_kept_without_a_panic() {
    let deep = "[".repeat(200_000);
    let balanced = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let unknown = format!(r#"{{"Unheard":{balanced}}}"#);
    let settings = format!(r#"{{"Type":"ACL","Settings":{balanced}}}"#);
    let numbers = format!(r#"{{"Flags":{0},"Version":{0},"State":{0},"Unheard":{0}}}"#, "9".repeat(10_000));
    let many: Vec<String> = (0..20_000).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let many = format!("{{{}}}", many.join(","));
    for (name, parse) in TYPES {
        for text in [
            deep.as_str(),
            &balanced,
            &unknown,
            &settings,
            &numbers,
            &many,
            "{\"Name\":\"\\ud800\"}",
            "{\"\\ud800\":1}",
            "\u{feff}{}",
            "nul",
            "{\"a\":}",
            "{,}",
            "\0",
            "{\"Name\":\"\0\"}",
            "-",
            "1e999",
            "\"",
            "{\"Type\":1e999}",
        ] {
            if let Ok(printed) = parse(text) {
                assert_eq!(parse(&printed).unwrap_or_else(|e| panic!("{name}: {e}")), printed);
            }
        }
    }
    assert_eq!(print_back("Network", &unknown), unknown);
    let policy = Policy::parse(&settings).unwrap();
    assert!(hcn::policy::EndpointPolicy::decode(&policy).is_err());
    assert_eq!(v1::policy_from_v2(&policy), policy, "settings that are no object cross as they are");
}
