//! Large inputs: limits must not stand in the way of a large cluster, and memory follows what is used.

use std::fmt::Write as _;

use services::{IpFamily, Object, Perspective, ServiceKey};

use crate::common::{cluster, parse};

const SLICES: usize = 200;
const PER_SLICE: usize = 1000;

/// One Service with 200 slices of 1,000 endpoints: a list with its kind last, as `kubectl get -o yaml` writes it.
fn yaml() -> String {
    let mut text = "apiVersion: v1\nitems:\n\
         - apiVersion: v1\n  kind: Service\n  metadata: {name: big, namespace: x}\n  spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"
        .to_owned();
    for a in 0..SLICES {
        text.push_str("- addressType: IPv4\n  apiVersion: discovery.k8s.io/v1\n  endpoints:\n");
        for b in 0..PER_SLICE {
            let (c, d, node, zone) = (b / 250, b % 250 + 1, b % 100, b % 3);
            writeln!(text, "  - {{addresses: [10.{a}.{c}.{d}], nodeName: node-{node}, zone: zone-{zone}}}")
                .unwrap();
        }
        writeln!(
            text,
            "  kind: EndpointSlice\n  metadata: {{name: big-{a}, namespace: x, labels: {{kubernetes.io/service-name: big}}}}\n  ports:\n  - port: 8080"
        )
        .unwrap();
    }
    text.push_str("kind: List\n");
    text
}

#[test]
fn two_hundred_thousand_endpoints_in_one_file() {
    let parsed = parse("big.yaml", &yaml());
    assert_eq!(parsed.problems, []);
    assert_eq!(parsed.objects.len(), SLICES + 1);
    let listed: usize = parsed
        .objects
        .iter()
        .map(|object| match object {
            Object::EndpointSlice(slice) => slice.endpoint_count(),
            _ => 0,
        })
        .sum();
    assert_eq!(listed, SLICES * PER_SLICE);
    let mut perspective = Perspective::of_node("node-7", [IpFamily::V4]);
    perspective.max_backends = Some(1024);
    let view = cluster(perspective, parsed.objects).view(&ServiceKey::new("x", "big")).expect("it is served");
    let port = &view.ports[0];
    assert_eq!((port.cluster.len(), port.local.len(), view.local_ready), (1024, 1024, 2000));
    assert!(port.cluster.iter().all(|e| e.local), "2,000 are local, and they come first");
    assert_eq!(port.left_out.len(), SLICES * PER_SLICE - 1024);
}
