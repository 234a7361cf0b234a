//! The conformance suite on the emulated HNS: every profile, both stores, the switches that leave it open, a machine
//! that is in use; and a defective HNS, on which it must fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, Hcn, HcnExt, Kind};
use hcn_conformance::{Counts, Report, Scope, cases};
use hns::journal::Op;
use hns::{Hns, Options, Profile, StoreKind, Switches};

#[path = "conformance/broken.rs"]
mod broken;

use broken::{Broken, Defect};

struct Bench {
    clock: ManualClock,
    hns: Hns,
}

fn open(profile: Profile, switches: Switches, store: StoreKind) -> Bench {
    let clock = ManualClock::jumping();
    let options = Options {
        switches,
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(7)),
        store,
        ..Options::new(profile)
    };
    Bench { clock, hns: Hns::open(options).unwrap() }
}

fn plain(profile: Profile) -> Bench {
    open(profile, Switches::of(profile), StoreKind::Memory)
}

fn run(hcn: &dyn Hcn, clock: &ManualClock) -> Report {
    let options =
        hcn_conformance::Options { clock: Arc::new(clock.clone()), ..hcn_conformance::Options::default() };
    hcn_conformance::run(hcn, &options)
}

/// How many cases each profile passes, and how many it must refuse because its version lacks a feature.
const WANTED: [(Profile, Counts); 4] = [
    (Profile::Ws2019, Counts { passed: 86, refused: 19, failed: 0 }),
    (Profile::Ws2022, Counts { passed: 96, refused: 9, failed: 0 }),
    (Profile::Ws2025, Counts { passed: 103, refused: 2, failed: 0 }),
    (Profile::Newest, Counts { passed: 105, refused: 0, failed: 0 }),
];

#[test]
#[expect(clippy::print_stdout, reason = "the counts are what people run this test for")]
fn every_profile_conforms_with_both_stores() {
    let folder = tempfile::tempdir().unwrap();
    for (profile, wanted) in WANTED {
        let file = folder.path().join(format!("{profile}.redb"));
        for store in [StoreKind::Memory, StoreKind::File(file)] {
            let bench = open(profile, Switches::of(profile), store.clone());
            let before = bench.hns.digest();
            let report = run(&bench.hns, &bench.clock);
            assert!(report.is_good(), "{profile} {store:?}\n{report}");
            let counts = report.counts();
            println!(
                "{profile}: {} passed, {} refused as expected, {} failed",
                counts.passed, counts.refused, counts.failed
            );
            assert_eq!(counts, wanted, "{profile}\n{report}");
            assert_eq!(bench.hns.digest(), before, "{profile} {store:?}: something was left behind");
        }
    }
}

/// HNS versions between the profiles, among them those where features come and go again.
const VERSIONS: [&str; 13] =
    ["9.2", "9.3", "10.2", "10.3", "10.4", "11.10", "11.11", "12.0", "14.0", "15.0", "15.1", "15.5", "16.1"];

#[test]
fn every_version_conforms_to_its_feature_table() {
    for version in VERSIONS {
        let mut switches = Switches::of(Profile::Newest);
        switches.apply_yaml(&format!("version: \"{version}\"")).unwrap();
        let bench = open(Profile::Newest, switches, StoreKind::Memory);
        let report = run(&bench.hns, &bench.clock);
        assert!(report.is_good(), "{version}\n{report}");
    }
}

/// Choices that nobody can settle and that conforming clients must not notice.
const OPEN: [&str; 16] = [
    "list_order: newest",
    "list_order: id",
    "v1_failure: hresult",
    "second_default_namespace: existing",
    "initial_default_namespace: false",
    "honour_namespace_id: true",
    "network_id_case: upper",
    "endpoint_id_case: upper",
    "balancer_endpoint_case: upper",
    "balancer_id_case: upper",
    "namespace_id_case: upper",
    "filter_flags: mask",
    "filter_name_ignores_case: true",
    "v2_base_fields: false",
    "endpoint_update: listed_types",
    "management_delay_ms: 0",
];

#[test]
fn open_choices_make_no_difference() {
    for yaml in OPEN {
        let mut switches = Switches::of(Profile::Newest);
        switches.apply_yaml(yaml).unwrap();
        let bench = open(Profile::Newest, switches, StoreKind::Memory);
        let report = run(&bench.hns, &bench.clock);
        assert!(report.is_good(), "{yaml}\n{report}");
    }
}

/// Choices that the suite itself settles: the other answer fails these cases.
const SETTLED: [(&str, &[&str]); 4] = [
    ("honour_json_id: false", &["load-balancers/add-remove-endpoint"]),
    ("second_default_namespace: refuse", &["namespaces/create-delete", "namespaces/sync-host-default"]),
    ("modify_balancer: ignored", &["load-balancers/create-update-delete"]),
    ("filter_unknown_key: match_nothing", &[]),
];

#[test]
fn settled_choices_fail_the_cases_that_settle_them() {
    for (yaml, wanted) in SETTLED {
        let mut switches = Switches::of(Profile::Newest);
        switches.apply_yaml(yaml).unwrap();
        let bench = open(Profile::Newest, switches, StoreKind::Memory);
        let report = run(&bench.hns, &bench.clock);
        let failed = report.failed();
        for case in wanted {
            assert!(failed.contains(case), "{yaml}: {case} did not fail\n{report}");
        }
    }
}

/// Objects of others: an overlay network with endpoints, a namespace and a load balancer.
fn populate(hns: &Hns) {
    let settings = r#"{"Name":"flannel.4096","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.1.0/24",
        "Routes":[{"NextHop":"10.244.1.1","DestinationPrefix":"0.0.0.0/0"}],
        "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, settings).unwrap();
    let mut endpoints = Vec::new();
    for n in 0..3 {
        let settings = format!(r#"{{"Name":"pod-{n}","SchemaVersion":{{"Major":2,"Minor":0}}}}"#);
        endpoints.push(hns.create(Kind::Endpoint, Some(network), Guid::NIL, &settings).unwrap());
    }
    let balancer = hcn::LoadBalancer {
        endpoints,
        source_vip: "10.244.1.9".to_owned(),
        frontend_vips: vec!["10.96.0.10".to_owned()],
        port_mappings: vec![hcn::loadbalancer::PortMapping {
            protocol: 17,
            internal_port: 53,
            external_port: 53,
            ..hcn::loadbalancer::PortMapping::default()
        }],
        ..hcn::LoadBalancer::default()
    };
    hns.make(Guid::NIL, &balancer).unwrap();
}

#[test]
fn a_run_within_the_scope_of_nat_makes_no_other_network() {
    let bench = plain(Profile::Ws2022);
    let before = bench.hns.digest();
    let options = hcn_conformance::Options {
        clock: Arc::new(bench.clock.clone()),
        scope: Scope::NatOnly,
        ..hcn_conformance::Options::default()
    };
    let report = hcn_conformance::run(&bench.hns, &options);
    let counts = report.counts();
    assert!(report.is_good(), "{report}");
    assert_eq!((counts.passed, counts.refused, report.out_of_scope()), (75, 2, 28), "{report}");
    assert_eq!(bench.hns.digest(), before, "what a case made before its end is cleaned up");
    let made: BTreeSet<String> = bench
        .hns
        .journal()
        .entries_since(0)
        .into_iter()
        .filter(|entry| entry.op == Op::Create && entry.kind == Some(Kind::Network))
        .map(|entry| entry.subject)
        .collect();
    assert!(made.contains("hcn-conformance-nat"), "{made:?}");
    assert!(!made.iter().any(|name| name.contains("overlay") || name.contains("bridge")), "{made:?}");
}

#[test]
fn a_machine_in_use_is_left_as_it_was() {
    for profile in Profile::ALL {
        let bench = plain(profile);
        populate(&bench.hns);
        // What an earlier run left behind is the suite's own, and goes.
        let left = r#"{"Name":"hcn-conformance-nat","Type":"NAT"}"#;
        let left = bench.hns.create(Kind::Network, None, Guid::NIL, left).unwrap();
        bench.clock.advance(std::time::Duration::from_mins(1));
        let report = run(&bench.hns, &bench.clock);
        assert!(report.is_good(), "{profile}\n{report}");
        assert!(bench.hns.get::<hcn::Network>(left).unwrap_err().is_not_found());
        let fresh = plain(profile);
        populate(&fresh.hns);
        fresh.clock.advance(std::time::Duration::from_mins(1));
        assert_eq!(bench.hns.digest(), fresh.hns.digest(), "{profile}");
    }
}

/// The cases that each defect must fail.
const CAUGHT: &[(Defect, &[&str])] = &[
    (Defect::DropsDocumentIds, &["load-balancers/add-remove-endpoint"]),
    (Defect::WrongPortCode, &["errors/port-mapping-taken"]),
    (Defect::WrongNamespaceCode, &["errors/open-unknown-namespace", "neighbours/unknown-ids"]),
    (
        Defect::ForgetsPolicies,
        &[
            "networks/remote-subnet-route-policy",
            "networks/network-acl-policy",
            "endpoints/apply-policy",
            "endpoints/modify-settings",
            "endpoints/tier-acl-policy",
            "support/set-policy",
            "neighbours/policy-bytes",
        ],
    ),
    (Defect::RespellsPolicies, &["neighbours/policy-bytes"]),
    (
        Defect::IgnoresFilters,
        &["errors/missing-network-by-name", "errors/missing-namespace-by-id", "endpoints/list-of-network"],
    ),
    (
        Defect::EmptyListsFail,
        &["errors/missing-network-by-name", "errors/missing-network-by-id", "ncproxy/delete-network"],
    ),
    (Defect::LowerCaseResources, &["ncproxy/add-endpoint", "neighbours/endpoint-references"]),
    (Defect::GhostDeletes, &["neighbours/network-gone", "ncproxy/delete-endpoint", "neighbours/unknown-ids"]),
    (
        Defect::GhostModifies,
        &[
            "networks/host-route-policy",
            "endpoints/namespace-attach-detach",
            "namespaces/endpoint-ids",
            "load-balancers/create-update-delete",
        ],
    ),
    (Defect::NoModify, &["endpoints/apply-policy", "namespaces/modify-settings"]),
    (Defect::AnswersInV1, &["support/v2-api", "endpoints/namespace-attach-detach", "v1-schema/network"]),
    (Defect::AnonymousDocuments, &["networks/create-delete", "namespaces/create-delete"]),
    (
        Defect::ForgetsFlags,
        &["networks/flags", "load-balancers/add-dsr", "load-balancers/add-ilb", "support/session-affinity"],
    ),
    (Defect::ForgetsNames, &["networks/get-by-name"]),
    (Defect::ForgetsAddresses, &["ncproxy/get-endpoints", "ncproxy/get-networks", "load-balancers/add"]),
    (Defect::ForgetsTypes, &["namespaces/sync-guest-no-registry", "namespaces/sync-host"]),
    (Defect::StrayContainers, &["namespaces/containers", "neighbours/endpoint-references"]),
    (Defect::UnderstatesVersion, &["support/features", "support/dsr", "networks/network-acl-policy"]),
    (Defect::UnsteadyVersion, &["support/features"]),
    (Defect::NoV1, &["v1-api/endpoint", "v1-api/network-get-all", "support/features"]),
    (Defect::EmptyV1, &["v1-api/network", "v1-api/endpoint-stats-all", "v1-api/accelnet"]),
    (Defect::NamesNotUnique, &["neighbours/duplicate-network-name", "networks/get-by-name"]),
    (Defect::ListsFail, &["networks/list", "load-balancers/list", "routes/list"]),
];

#[test]
fn a_defective_hns_fails_the_cases_that_are_about_the_defect() {
    let mut missed = Vec::new();
    for (defect, wanted) in CAUGHT {
        let bench = plain(Profile::Newest);
        let report = run(&Broken::new(bench.hns.clone(), *defect), &bench.clock);
        assert!(report.unable.is_none(), "{defect:?}: {report}");
        let failed = report.failed();
        let not_failed = wanted.iter().filter(|case| !failed.contains(case));
        missed
            .extend(not_failed.map(|case| format!("{defect:?}: {case} did not fail; failed are {failed:?}")));
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_service_that_is_less_than_its_version_fails() {
    let bench = plain(Profile::Ws2019);
    let report = run(&Broken::new(bench.hns.clone(), Defect::OverstatesVersion), &bench.clock);
    let failed = report.failed();
    for case in ["support/tier-acl", "support/network-acl", "support/set-policy", "v1-api/accelnet"] {
        assert!(failed.contains(&case), "{case} did not fail; failed are {failed:?}");
    }
}

#[test]
fn there_is_no_case_that_cannot_fail() {
    let mut failed: BTreeSet<&str> = BTreeSet::new();
    for defect in Defect::ALL {
        let bench = plain(Profile::Newest);
        failed.extend(run(&Broken::new(bench.hns.clone(), defect), &bench.clock).failed());
    }
    let never: Vec<&str> =
        cases().iter().map(|case| case.name).filter(|name| !failed.contains(name)).collect();
    assert!(never.is_empty(), "no defect fails {never:?}");
}

#[test]
fn an_hns_that_does_not_answer_is_reported_and_not_judged() {
    let bench = plain(Profile::Newest);
    bench.hns.faults().add(hns::faults::FaultRule::new(hns::faults::Fault::Down)).unwrap();
    let report = run(&bench.hns, &bench.clock);
    assert!(report.unable.is_some() && report.cases.is_empty() && !report.is_good(), "{report}");
}
