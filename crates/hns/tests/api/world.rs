//! An HNS on a manual clock with a seeded source of ids, and the documents that the tests make.

use std::sync::Arc;

use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, HResult, Hcn, HcnExt, Kind};
use hns::{Hns, Options, Profile, Switches};

/// Options of a profile: at rest, repeatable, in memory.
pub(crate) fn options(profile: Profile) -> Options {
    Options {
        clock: Arc::new(ManualClock::jumping()),
        entropy: Arc::new(SeededEntropy::new(42)),
        ..Options::new(profile)
    }
}

/// Options with a clock that moves when told.
pub(crate) fn options_with_clock(profile: Profile) -> (ManualClock, Options) {
    let clock = ManualClock::new();
    let options = Options { clock: Arc::new(clock.clone()), ..options(profile) };
    (clock, options)
}

/// An HNS with presets.
pub(crate) fn open(profile: Profile) -> Hns {
    Hns::open(options(profile)).unwrap()
}

/// An HNS of the newest profile with switches in YAML.
pub(crate) fn switched(yaml: &str) -> Hns {
    switched_on(Profile::Newest, yaml)
}

/// An HNS with switches in YAML.
pub(crate) fn switched_on(profile: Profile, yaml: &str) -> Hns {
    let mut switches = Switches::of(profile);
    switches.apply_yaml(yaml).unwrap();
    Hns::open(Options { switches, ..options(profile) }).unwrap()
}

/// An id that reads well.
pub(crate) fn id(n: u128) -> Guid {
    Guid::from_u128(0xFEED_0000_0000_4000_8000_0000_0000_0000 + n)
}

/// A network with 10.50.<n>.0/24.
pub(crate) fn network(hns: &Hns, mode: &str, n: u8) -> Guid {
    hns.create(Kind::Network, None, Guid::NIL, &network_json(mode, n, "")).unwrap()
}

/// The document of [`network`], with more members.
pub(crate) fn network_json(mode: &str, n: u8, members: &str) -> String {
    let policies =
        if mode == "Overlay" { r#"[{"Type":"VSID","Settings":{"IsolationId":4096}}]"# } else { "[]" };
    format!(
        r#"{{"Name":"{mode}{n}","Type":"{mode}",{members}"Ipams":[{{"Type":"Static","Subnets":[{{
            "IpAddressPrefix":"10.50.{n}.0/24","Policies":{policies},
            "Routes":[{{"NextHop":"10.50.{n}.1","DestinationPrefix":"0.0.0.0/0"}}]}}]}}],
            "SchemaVersion":{{"Major":2,"Minor":0}}}}"#
    )
}

/// A local endpoint with an address.
pub(crate) fn local(hns: &Hns, network: Guid, ip: &str) -> Guid {
    try_endpoint(hns, network, ip, 0).unwrap()
}

/// A remote endpoint with an address.
pub(crate) fn remote(hns: &Hns, network: Guid, ip: &str) -> Guid {
    try_endpoint(hns, network, ip, 1).unwrap()
}

pub(crate) fn try_endpoint(hns: &Hns, network: Guid, ip: &str, flags: u32) -> hcn::Result<Guid> {
    let json = format!(
        r#"{{"IpConfigurations":[{{"IpAddress":"{ip}"}}],"Flags":{flags},"SchemaVersion":{{"Major":2,"Minor":0}}}}"#
    );
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, &json)
}

/// A load balancer document: VIPs and endpoints as lists, `<protocol> <external>-><internal>`.
pub(crate) fn balancer(vips: &[&str], mapping: (u32, u16, u16), endpoints: &[Guid], flags: u32) -> String {
    let (protocol, external, internal) = mapping;
    let vips: Vec<String> = vips.iter().map(|vip| format!("{vip:?}")).collect();
    let endpoints: Vec<String> = endpoints.iter().map(|id| format!("\"{id}\"")).collect();
    format!(
        r#"{{"HostComputeEndpoints":[{}],"FrontendVIPs":[{}],"Flags":{flags},"PortMappings":[{{
            "Protocol":{protocol},"ExternalPort":{external},"InternalPort":{internal}}}],
            "SchemaVersion":{{"Major":2,"Minor":0}}}}"#,
        endpoints.join(","),
        vips.join(","),
    )
}

pub(crate) fn make_balancer(hns: &Hns, document: &str) -> hcn::Result<Guid> {
    hns.create(Kind::LoadBalancer, None, Guid::NIL, document)
}

/// The code of a call that must fail; the detail must name every part.
pub(crate) fn refused<T: std::fmt::Debug>(result: hcn::Result<T>, parts: &[&str]) -> HResult {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(error.call.is_some(), "{text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{text} should name {parts:?}");
    error.code
}

pub(crate) fn endpoint(hns: &Hns, id: Guid) -> hcn::Endpoint {
    hns.get(id).unwrap()
}
