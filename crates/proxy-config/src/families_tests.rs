//! Families: the decision as a table, and what does not fit.

use super::*;
use crate::document::Document;
use crate::flags::Flags;
use crate::settings::Sources;

fn settings(fields: &str) -> ProxySettings {
    let text =
        format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{fields}");
    let file = Document::parse(&text).expect(fields);
    let sources =
        Sources { file: Some(&file), flags: &Flags::default(), kube_network: None, host_name: "win-1" };
    sources.resolve().expect(fields).settings
}

#[test]
fn both_families_only_where_all_can() {
    for primary in [Family::V4, Family::V6] {
        for (hns_has_both, is_overlay, dual) in [
            (true, Some(false), true),
            (true, Some(true), false),
            (true, None, false),
            (false, Some(false), false),
            (false, None, false),
        ] {
            let (families, why) = families(Facts { primary, hns_has_both, is_overlay });
            assert_eq!(families.primary(), primary);
            assert_eq!(matches!(families, Families::Dual(_)), dual, "{hns_has_both} {is_overlay:?}");
            assert_eq!(why.is_none(), dual, "a single family is explained");
        }
    }
}

#[test]
fn the_nodes_address() {
    let ip = |text: &str| text.parse::<IpAddr>().expect(text);
    let table: &[(Option<&str>, &[&str], &str, bool)] = &[
        (Some("10.0.0.9"), &["10.0.0.1"], "10.0.0.9", false),
        (None, &["fd00::1", "10.0.0.1"], "fd00::1", false),
        (None, &[], "127.0.0.1", true),
    ];
    for (given, node, want, is_loopback) in table {
        let node: Vec<IpAddr> = node.iter().map(|text| ip(text)).collect();
        assert_eq!(
            node_address(given.map(ip), &node),
            NodeAddress { ip: ip(want), is_loopback: *is_loopback }
        );
    }
}

/// Fields, the families that are served, the Node's ranges; what does not fit, and whether that is fatal.
type Row<'a> = (&'a str, Families, &'a [&'a str], &'a [(&'a str, bool)]);

#[test]
fn what_does_not_fit() {
    let v4 = Families::Single(Family::V4);
    let v6 = Families::Single(Family::V6);
    let table: &[Row<'_>] = &[
        ("winkernel: {sourceVip: 'fd00::1'}", v4, &[], &[("winkernel.sourceVip", false)]),
        ("winkernel: {sourceVip: 'fd00::1,10.0.0.1'}", v4, &[], &[]),
        (
            "winkernel: {sourceVip: 10.0.0.1}",
            Families::Dual(Family::V6),
            &[],
            &[("winkernel.sourceVip", false)],
        ),
        ("clusterCIDR: 'fd00::/8'", v4, &[], &[("clusterCIDR", false)]),
        ("clusterCIDR: 'fd00::/8'\ndetectLocalMode: ClusterCIDR", v4, &[], &[("clusterCIDR", true)]),
        ("clusterCIDR: 'fd00::/8'\ndetectLocalMode: ClusterCIDR", Families::Dual(Family::V4), &[], &[]),
        ("clusterCIDR: '10.0.0.0/8,fd00::/8'\ndetectLocalMode: ClusterCIDR", v4, &[], &[]),
        ("detectLocalMode: NodeCIDR", v4, &["fd00::/64"], &[("detectLocalMode", true)]),
        ("detectLocalMode: NodeCIDR", v4, &["fd00::/64", "10.0.0.0/24"], &[]),
        ("detectLocalMode: NodeCIDR", v4, &[], &[]),
        ("", v6, &[], &[("healthzBindAddress", false), ("metricsBindAddress", false)]),
        ("bindAddress: 'fd00::1'", v6, &[], &[]),
    ];
    for (fields, families, ranges, want) in table {
        let ranges: Vec<ipnet::IpNet> = ranges.iter().map(|text| text.parse().expect("a range")).collect();
        let found = misfits(&settings(fields), *families, &ranges);
        let found: Vec<(&str, bool)> = found.iter().map(|misfit| (misfit.key, misfit.is_fatal)).collect();
        assert_eq!(found, *want, "{fields}");
    }
}
