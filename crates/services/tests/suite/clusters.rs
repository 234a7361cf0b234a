//! The view of every Service on every Windows node of the recorded clusters.

use std::fmt::Write as _;

use crate::common::{cluster, parse, read, render};
use services::{IpFamily, Perspective, SkipReason};

fn views(file: &str, node: &str, families: &[IpFamily], limit: Option<usize>) -> String {
    let parsed = parse(file, &read(&format!("testdata/clusters/{file}")));
    assert_eq!(parsed.problems, []);
    assert!(parsed.complete);
    let mut perspective = Perspective::of_node(node, families.iter().copied());
    perspective.max_backends = limit;
    let mut cluster = cluster(perspective.clone(), parsed.objects);
    let facts = cluster.node(node).expect("the node is in the cluster");
    assert!(facts.windows);
    perspective.zone.clone_from(&facts.zone);
    assert!(cluster.set_perspective(perspective));
    let mut text = String::new();
    for key in cluster.services() {
        text += &render(&cluster.view(key).expect("it is served"));
    }
    for (key, reason) in cluster.skipped() {
        let why = match reason {
            SkipReason::Headless => "is headless",
            SkipReason::ExternalName => "is an external name",
            SkipReason::NoClusterIp => "has no cluster IP",
            SkipReason::OtherProxy(_) => "belongs to another proxy",
        };
        writeln!(text, "{key} {why}").unwrap();
    }
    text
}

const BOTH: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

#[test]
fn hybrid_overlay_on_win_1_with_a_limit() {
    insta::assert_snapshot!(views("hybrid-overlay.yaml", "lab-win-1", &[IpFamily::V4], Some(64)));
}

#[test]
fn hybrid_overlay_on_win_2() {
    insta::assert_snapshot!(views("hybrid-overlay.yaml", "lab-win-2", &[IpFamily::V4], None));
}

#[test]
fn dual_stack_on_win_1() {
    insta::assert_snapshot!(views("dualstack-l2bridge.yaml", "lab-win-1", &BOTH, None));
}

#[test]
fn dual_stack_on_win_2() {
    insta::assert_snapshot!(views("dualstack-l2bridge.yaml", "lab-win-2", &BOTH, None));
}

#[test]
fn dual_stack_seen_by_a_single_stack_node() {
    insta::assert_snapshot!(views("dualstack-l2bridge.yaml", "lab-win-1", &[IpFamily::V4], None));
}

/// With the slices taken away, those derived from the Pods must lead to the same views, apart from the Services whose slices
/// were written by hand.
#[test]
fn derived_slices_agree_with_the_controller() {
    for (file, by_hand) in [
        ("hybrid-overlay.yaml", &["default/kubernetes", "legacy/db", "legacy/node-db"][..]),
        ("dualstack-l2bridge.yaml", &["default/kubernetes"][..]),
    ] {
        let text = read(&format!("testdata/clusters/{file}"));
        let mut perspective = Perspective::of_node("lab-win-1", BOTH);
        perspective.zone = Some("zone-a".into());
        let with = cluster(perspective.clone(), parse(file, &text).objects);
        let without = cluster(
            perspective,
            parse(file, &text)
                .objects
                .into_iter()
                .filter(|o| !matches!(o, services::Object::EndpointSlice(_))),
        );
        for key in with.services() {
            assert!(!with.is_derived(key));
            let (real, derived) = (with.view(key), without.view(key));
            if by_hand.contains(&key.to_string().as_str()) {
                assert_ne!(real, derived, "{key} has no Pods");
            } else {
                assert_eq!(real, derived, "{file} {key}");
            }
        }
    }
}
