//! Endpoint policies: which are taken, kept byte for byte, changed.

use hcn::{Guid, HResult, Hcn, Kind};
use hns::{Hns, Profile};

use crate::world::{endpoint, local, network, open, refused, switched};

fn setup(profile: Profile) -> (Hns, Guid) {
    let hns = open(profile);
    let network = network(&hns, "Overlay", 0);
    let id = local(&hns, network, "10.50.0.9");
    (hns, id)
}

fn modify(hns: &Hns, id: Guid, request: &str, policies: &str) -> hcn::Result<()> {
    let json = format!(
        r#"{{"ResourceType":"Policy","RequestType":"{request}","Settings":{{"Policies":[{policies}]}}}}"#
    );
    hns.modify(Kind::Endpoint, id, &json)
}

fn kinds(hns: &Hns, id: Guid) -> Vec<String> {
    endpoint(hns, id).policies.iter().map(|policy| policy.kind.text().into_owned()).collect()
}

const ACL: &str = r#"{"Type":"ACL","Settings":{ "Protocols":"6", "Action":"Block", "Direction":"In", "LocalPorts":"80,8080" }}"#;
const NAT: &str = r#"{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.0.0.0/8"]}}"#;
const IOV: &str = r#"{"Type":"Iov","Settings":{"IovOffloadWeight":100}}"#;

#[test]
fn settings_are_kept_byte_for_byte() {
    let (hns, id) = setup(Profile::Newest);
    modify(&hns, id, "Add", &format!("{ACL},{NAT}")).unwrap();
    let policies = endpoint(&hns, id).policies;
    let sent = [ACL, NAT].map(|json| hcn::Policy::parse(json).unwrap());
    assert_eq!(policies, sent);
}

#[test]
fn update_replaces_and_remove_goes_by_content() {
    let (hns, id) = setup(Profile::Newest);
    modify(&hns, id, "Add", &format!("{ACL},{NAT},{IOV}")).unwrap();
    // ncproxy turns an Iov policy to 0 and removes what it had set before.
    modify(&hns, id, "Remove", r#"{"Type":"IOV","Settings":{"IovOffloadWeight":0}}"#).unwrap();
    assert_eq!(kinds(&hns, id), ["ACL", "OutBoundNAT"]);
    let other = ACL.replace("8080", "8081");
    assert_eq!(refused(modify(&hns, id, "Remove", &other), &["ACL"]), HResult::POLICY_NOT_FOUND);
    modify(&hns, id, "Remove", ACL).unwrap();
    modify(&hns, id, "Update", IOV).unwrap();
    assert_eq!(kinds(&hns, id), ["Iov"]);
    modify(&hns, id, "Update", "{}").unwrap();
    assert!(kinds(&hns, id).is_empty());

    let hns = switched("endpoint_update: listed_types");
    let network = network(&hns, "Overlay", 0);
    let id = local(&hns, network, "10.50.0.9");
    modify(&hns, id, "Add", &format!("{ACL},{NAT}")).unwrap();
    modify(&hns, id, "Update", &ACL.replace("80,8080", "81")).unwrap();
    assert_eq!(kinds(&hns, id), ["OutBoundNAT", "ACL"]);
}

#[test]
fn a_request_that_fails_leaves_the_endpoint_alone() {
    let (hns, id) = setup(Profile::Ws2022);
    modify(&hns, id, "Add", ACL).unwrap();
    let before = hns.digest();
    for (policies, code) in [
        (format!("{NAT},{}", r#"{"Type":"TierAcl","Settings":{}}"#), HResult::INVALID_POLICY_TYPE),
        (format!("{NAT},{}", r#"{"Type":"Weather"}"#), HResult::INVALID_POLICY_TYPE),
        (format!("{NAT},{}", r#"{"Type":"ProviderAddress","Settings":{"ProviderAddress":"x"}}"#), HResult::INVALID_POLICY),
        (
            r#"{"Type":"InterfaceParameters","Settings":{"Mtu":1400}},{"Type":"InterfaceParameters","Settings":{"Mtu":1500}}"#.to_owned(),
            HResult::INTERFACEPARAMETERS_ALREADY_APPLIED,
        ),
    ] {
        assert_eq!(refused(modify(&hns, id, "Add", &policies), &[]), code, "{policies}");
    }
    assert_eq!(hns.digest(), before);
    assert_eq!(refused(modify(&hns, id, "Refresh", ACL), &["Refresh"]), HResult::REQUEST_UNSUPPORTED);
}

#[test]
fn port_mappings_need_a_network_that_maps_and_an_internal_port() {
    let hns = open(Profile::Newest);
    let mapping = r#"{"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"InternalPort":80,"ExternalPort":8080}}]}"#;
    for (mode, works) in
        [("NAT", true), ("L2Bridge", true), ("Overlay", true), ("Transparent", false), ("Private", false)]
    {
        let network = network(&hns, mode, 1);
        let made = hns.create(Kind::Endpoint, Some(network), Guid::NIL, mapping);
        if works {
            hns.delete(Kind::Endpoint, made.unwrap()).unwrap();
        } else {
            assert_eq!(refused(made, &["PortMapping", mode]), HResult::MAPPING_NOT_SUPPORTED);
        }
    }
    let network = network(&hns, "NAT", 2);
    let bare = mapping.replace(r#""InternalPort":80,"#, "");
    assert_eq!(
        refused(hns.create(Kind::Endpoint, Some(network), Guid::NIL, &bare), &["InternalPort"]),
        HResult::INVALID_INTERNAL_PORT
    );
}

#[test]
fn bridged_endpoints_carry_a_policy_of_hns_own() {
    let hns = open(Profile::Ws2022);
    for (mode, own) in [("L2Bridge", true), ("NAT", true), ("Overlay", false)] {
        let network = network(&hns, mode, 3);
        let id = local(&hns, network, "10.50.3.9");
        assert_eq!(kinds(&hns, id).contains(&"L2Driver".to_owned()), own, "{mode}");
    }
}
