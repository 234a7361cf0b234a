//! The tables of error codes, features and needs, against data written down apart from the code.

use hcn::error::{CODES, ErrorRecord};
use hcn::version::{Feature, Features, Version};
use hcn::{Endpoint, Error, ErrorClass, HResult, LoadBalancer, Network, needs};

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split('\t').collect())
}

#[test]
fn every_hcn_code_has_its_name_number_and_message() {
    let mut count = 0;
    for row in rows(include_str!("../testdata/hresults.tsv")) {
        let [hex, decimal, name, message] = row[..] else {
            panic!("four columns, not {row:?}");
        };
        let value = HResult(u32::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap());
        assert_eq!(value.0.to_string(), decimal);
        assert_eq!(value.to_string(), hex);
        let code = value.code().unwrap_or_else(|| panic!("{hex} {name} is not in the table"));
        assert_eq!((code.name, code.message), (name, message), "{hex}");
        assert!(value.is_failure());
        assert_eq!(value.errno(), value.0, "facility 0x3B is shown whole");
        count += 1;
    }
    let hcn = CODES.iter().filter(|code| code.value.0 >> 16 == 0x803B).count();
    assert_eq!(count, hcn, "the table has codes of facility 0x3B that the data has not");
    assert_eq!(count, 55);
}

#[test]
fn codes_are_listed_once() {
    for (at, code) in CODES.iter().enumerate() {
        assert!(
            CODES[..at].iter().all(|other| other.value != code.value && other.name != code.name),
            "{code:?}"
        );
        assert!(!code.message.ends_with('.'), "{code:?}");
    }
}

#[test]
fn win32_codes_are_shown_by_their_low_word() {
    for (code, errno, error_code) in [
        (HResult::ELEMENT_NOT_FOUND, 0x490, 2_147_943_568),
        (HResult::INVALID_PARAMETER, 0x57, 2_147_942_487),
        (HResult::DUP_NAME, 0x34, 2_147_942_452),
        (HResult::ALREADY_EXISTS, 0xB7, 2_147_942_583),
        (HResult::PORT_ALREADY_EXISTS, 0x803B_0013, 2_151_350_291),
        (HResult::E_NOTIMPL, 0x8000_4001, 2_147_500_033),
    ] {
        assert_eq!(code.errno(), errno);
        assert_eq!(code.0, error_code);
    }
    assert_eq!(HResult::from_win32(0x490), HResult::ELEMENT_NOT_FOUND);
    assert!(!HResult(0).is_failure());
    assert!(!HResult(1).is_failure(), "S_FALSE is a success");
}

#[test]
fn the_error_record_looks_like_the_ones_seen() {
    assert_eq!(
        ErrorRecord::of(HResult::PORT_ALREADY_EXISTS).to_json(),
        r#"{"Success":false,"Error":"The specified port already exists. ","ErrorCode":2151350291}"#
    );
    assert_eq!(
        ErrorRecord::of(HResult::ELEMENT_NOT_FOUND).to_json(),
        r#"{"Success":false,"Error":"Element not found. ","ErrorCode":2147943568}"#
    );
    let unheard = HResult(0x8765_4321);
    assert_eq!(ErrorRecord::of(unheard).error_code, 0x8765_4321);
    assert_eq!(unheard.name(), "0x87654321");
}

#[test]
fn errors_say_call_code_and_detail() {
    let error = Error::detailed(HResult::INVALID_IP, "IpConfigurations[0]: 10.0.0.1 is in no subnet")
        .in_call("HcnCreateEndpoint")
        .in_call("HcnOther");
    assert_eq!(
        error.to_string(),
        "HcnCreateEndpoint: IP address is either invalid or not part of any configured subnet(s) \
         (0x803B001E HCN_E_INVALID_IP): IpConfigurations[0]: 10.0.0.1 is in no subnet"
    );
    assert_eq!(error.class(), ErrorClass::Invalid);
}

#[test]
fn only_not_found_codes_say_that_something_is_absent() {
    let absent: Vec<_> = CODES.iter().filter(|code| code.value.class() == ErrorClass::NotFound).collect();
    let names: Vec<_> = absent.iter().map(|code| code.name).collect();
    assert_eq!(names, ["ERROR_NOT_FOUND", "HCN_E_NETWORK_NOT_FOUND", "HCN_E_ENDPOINT_NOT_FOUND"]);
    // A service that is down says "not found" in other words, which must not read as absence.
    for code in [HResult::SERVICE_NOT_FOUND, HResult::SERVICE_DOES_NOT_EXIST, HResult::MODULE_NOT_FOUND] {
        assert_eq!(code.class(), ErrorClass::Unavailable);
    }
}

fn version(text: &str) -> Version {
    let (major, minor) = text.split_once('.').unwrap();
    Version::new(major.parse().unwrap(), minor.parse().unwrap())
}

#[test]
fn each_version_has_the_features_of_the_matrix() {
    let mut rows = rows(include_str!("../testdata/features.tsv"));
    let head = rows.next().unwrap();
    let versions: Vec<Version> = head[1..].iter().map(|text| version(text)).collect();
    let mut seen = Vec::new();
    for row in rows {
        let feature = *Feature::ALL.iter().find(|feature| feature.name() == row[0]).unwrap();
        seen.push(feature);
        assert_eq!(row.len(), head.len(), "{row:?}");
        for (version, cell) in versions.iter().zip(&row[1..]) {
            assert_eq!(version.supports(feature), *cell == "x", "{} in {version}", feature.name());
            assert_eq!(Features::of(*version).supports(feature), *cell == "x");
        }
        assert!(!Features::unknown().supports(feature), "an unknown version supports nothing");
    }
    seen.sort_unstable();
    let mut all = Feature::ALL.to_vec();
    all.sort_unstable();
    assert_eq!(seen, all, "the matrix has every feature once");
}

#[test]
fn later_lines_have_what_earlier_ones_gained() {
    assert!(!Version::new(15, 4).supports(Feature::ModifyLoadBalancer));
    assert!(Version::new(16, 0).supports(Feature::ModifyLoadBalancer));
    assert!(!Version::new(10, 1).supports(Feature::Dsr), "a gap between two ranges");
    assert!(!Version::new(12, 0).supports(Feature::L4Proxy), "a gap between two ranges");
}

#[test]
fn packed_versions_are_those_of_dumps() {
    for (packed, version) in [
        (64_424_509_440, Version::new(15, 0)),
        (55_834_574_851, Version::new(13, 3)),
        (42_949_672_963, Version::new(10, 3)),
        (38_654_705_665, Version::new(9, 1)),
    ] {
        assert_eq!(Version::from_packed(packed), version);
        assert_eq!(version.packed(), packed);
    }
}

fn features(needs: &[needs::Need]) -> Vec<Feature> {
    needs.iter().map(|need| need.feature).collect()
}

#[test]
fn networks_need_what_their_flags_subnets_and_policies_need() {
    let plain = r#"{"Type":"Overlay","Flags":8,"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.1.0/24"}]}],
        "Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"eth0"}},{"Type":"Unheard"}]}"#;
    assert_eq!(features(&needs::of_network(&Network::parse(plain).unwrap())), []);
    let all = r#"{"Flags":1032,
        "Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.1.0/24"},{"IpAddressPrefix":"2001:db8:50::/64"}]}],
        "Policies":[{"Type":"RemoteSubnetRoute","Settings":{}},{"Type":"HOSTROUTE","Settings":{}},
          {"Type":"VxlanPort","Settings":{"Port":4790}},{"Type":10,"Settings":{"PolicyType":1}},
          {"Type":"L4Proxy","Settings":{}},{"Type":"NetworkACL","Settings":{}},{"Type":"VxlanPort","Settings":7}]}"#;
    assert_eq!(
        features(&needs::of_network(&Network::parse(all).unwrap())),
        [
            Feature::DisableHostPort,
            Feature::IPv6DualStack,
            Feature::RemoteSubnet,
            Feature::HostRoute,
            Feature::VxlanPort,
            Feature::SetPolicy,
            Feature::NestedIpSet,
            Feature::L4Proxy,
            Feature::NetworkAcl,
        ]
    );
}

#[test]
fn endpoints_need_what_their_addresses_and_policies_need() {
    let text = r#"{"IpConfigurations":[{"IpAddress":"10.50.1.5","PrefixLength":32},{"IpAddress":"2001:db8::5"}],
        "Policies":[{"Type":"TierAcl","Settings":{"TierAclRules":[{"RemotePorts":"80-90"}]}},
          {"Type":"L4Proxy","Settings":{}},{"Type":"L4WFPPROXY","Settings":{}},
          {"Type":"ACL","Settings":{"Id":"a","Protocols":"6, 252","LocalAddresses":"10.0.0.1,10.0.0.2","RuleType":"Host"}},
          {"Type":"PortMapping","Settings":{"Flags":2}},{"Type":"OutBoundNAT","Settings":{"Flags":"IPv6"}}]}"#;
    assert_eq!(
        features(&needs::of_endpoint(&Endpoint::parse(text).unwrap())),
        [
            Feature::Slash32EndpointPrefixes,
            Feature::IPv6DualStack,
            Feature::TierAcl,
            Feature::AclPortRanges,
            Feature::L4Proxy,
            Feature::L4WfpProxy,
            Feature::AclAddressLists,
            Feature::AclSupportForProtocol252,
            Feature::AclRuleId,
            Feature::AclHostRulePriority,
            Feature::IPv6DualStack,
            Feature::IPv6DualStack,
        ]
    );
    let plain = r#"{"IpConfigurations":[{"IpAddress":"10.50.1.5","PrefixLength":24}],"Flags":1,
        "Policies":[{"Type":"ACL","Settings":{"Protocols":"6","LocalPorts":"80","RuleType":"Switch"}},
          {"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.12"}}]}"#;
    assert_eq!(features(&needs::of_endpoint(&Endpoint::parse(plain).unwrap())), []);
}

#[test]
fn load_balancers_need_what_their_flags_need() {
    let text = r#"{"Flags":3,"PortMappings":[{"DistributionType":2},{"DistributionType":0}]}"#;
    let needed = needs::of_load_balancer(&LoadBalancer::parse(text).unwrap());
    assert_eq!(features(&needed), [Feature::Dsr, Feature::IPv6DualStack, Feature::SessionAffinity]);

    let missing = |major, minor| needs::missing(&needed, Features::of(Version::new(major, minor)));
    assert_eq!(missing(9, 2).unwrap().feature, Feature::Dsr);
    assert_eq!(missing(11, 10).unwrap().feature, Feature::SessionAffinity);
    assert_eq!(missing(12, 0), None);
    assert_eq!(
        missing(10, 1).unwrap().to_string(),
        "load balancer flag DSR needs feature DSR, which HNS has in 9.3 to 9.x, 10.2 and later"
    );
    assert_eq!(features(&needs::of_load_balancer(&LoadBalancer::default())), []);
}
