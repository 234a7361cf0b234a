//! Selectors: their whole grammar, over HTTP.

use serde_json::json;

use super::client::{Connection, How, apply, names, plain};

/// Encodes what a query may not hold.
fn encode(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

#[tokio::test]
async fn labels() {
    let (server, _) = plain();
    for (name, labels) in [
        ("a", json!({"env": "prod", "tier": "web", "example.org/rank": "3"})),
        ("b", json!({"env": "test", "tier": "web"})),
        ("c", json!({"env": "prod"})),
        ("d", json!({"empty": ""})),
        ("e", json!({})),
    ] {
        apply(
            &server,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}),
        );
    }
    let mut client = Connection::open(&server, &How::default()).await;
    for (selector, wanted) in [
        ("", "abcde"),
        ("env=prod", "ac"),
        ("env==prod", "ac"),
        (" env = prod ", "ac"),
        ("env=prod,tier=web", "a"),
        ("env!=prod", "bde"),
        ("env", "abc"),
        ("!env", "de"),
        ("! env", "de"),
        ("env in (prod)", "ac"),
        ("env in (prod,test)", "abc"),
        ("env in ( prod , test ),!tier", "c"),
        ("env notin (prod,test)", "de"),
        ("env,env notin (prod)", "b"),
        ("empty=", "d"),
        ("empty in ()", "d"),
        ("empty in (,x)", "d"),
        ("example.org/rank", "a"),
        ("example.org/rank>2", "a"),
        ("example.org/rank<3", ""),
        ("in in (a)", ""),
        ("notin", ""),
    ] {
        let answer = client
            .get(&format!("/api/v1/namespaces/default/configmaps?labelSelector={}", encode(selector)))
            .await;
        assert_eq!(answer.code, 200, "{selector}: {}", answer.json());
        assert_eq!(names(&answer.json()).concat(), wanted, "{selector}");
    }
    for selector in [
        "a,,b",
        "a,",
        ",a",
        "a b",
        "a=b=c",
        "a in b",
        "a in (b",
        "a in b)",
        "a in ((b))",
        "a notin",
        "=a",
        "!",
        "!a=b",
        "-a",
        "a=-b",
        "a>x",
        "a/b/c",
        "A.b_/c",
        "x in (a b)",
    ] {
        let answer = client
            .get(&format!("/api/v1/namespaces/default/configmaps?labelSelector={}", encode(selector)))
            .await;
        assert_eq!((answer.code, answer.reason().as_str()), (400, "BadRequest"), "{selector}");
    }
}

#[tokio::test]
async fn fields() {
    let (server, _) = plain();
    let manifests = r#"
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.96.0.1, type: ClusterIP}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: other}, spec: {clusterIP: None, type: ClusterIP}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: true}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p1}, spec: {nodeName: n1, containers: []}, status: {phase: Running, podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p2}, spec: {nodeName: n2, hostNetwork: true, containers: []}, status: {phase: Pending}}
---
{apiVersion: v1, kind: Event, metadata: {name: e1}, involvedObject: {kind: Node, name: n1}, reason: "a,b", source: {component: proxy}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s1}, addressType: IPv4, endpoints: []}
"#;
    assert_eq!(server.store().apply_manifests(manifests).unwrap(), 8);
    let mut client = Connection::open(&server, &How::default()).await;
    let slices = "/apis/discovery.k8s.io/v1/endpointslices";
    for (path, selector, wanted) in [
        ("/api/v1/services", "metadata.name=a", Some("a")),
        ("/api/v1/services", "metadata.namespace!=default", Some("b")),
        ("/api/v1/services", "spec.clusterIP!=None", Some("a")),
        ("/api/v1/services", "spec.clusterIP==10.96.0.1,spec.type=ClusterIP", Some("a")),
        ("/api/v1/services", "", Some("ab")),
        ("/api/v1/services", "spec.sessionAffinity=None", None),
        ("/api/v1/services", "spec.clusterIP", None),
        ("/api/v1/services", "metadata.name=a=b", None),
        ("/api/v1/services", "metadata.name=a\\x", None),
        ("/api/v1/nodes", "spec.unschedulable=false", Some("n2")),
        ("/api/v1/nodes", "spec.unschedulable=true", Some("n1")),
        ("/api/v1/nodes", "status.phase=Ready", None),
        ("/api/v1/pods", "spec.nodeName=n1", Some("p1")),
        ("/api/v1/pods", "status.phase!=Running", Some("p2")),
        ("/api/v1/pods", "spec.hostNetwork=true", Some("p2")),
        ("/api/v1/pods", "status.podIP=10.0.0.1", Some("p1")),
        ("/api/v1/pods", "spec.containers=x", None),
        ("/api/v1/events", "involvedObject.kind=Node,involvedObject.name=n1", Some("e1")),
        ("/api/v1/events", "reason=a\\,b,source=proxy", Some("e1")),
        ("/api/v1/events", "regarding.kind=Node", None),
        ("/apis/events.k8s.io/v1/events", "regarding.kind=Node", Some("e1")),
        ("/api/v1/namespaces", "metadata.name=default,status.phase=Active", Some("default")),
        (slices, "metadata.name=s1", Some("s1")),
        (slices, "addressType=IPv4", None),
    ] {
        let answer = client.get(&format!("{path}?fieldSelector={}", encode(selector))).await;
        match wanted {
            Some(wanted) => assert_eq!(names(&answer.json()).concat(), wanted, "{path} {selector}"),
            None => {
                assert_eq!((answer.code, answer.reason().as_str()), (400, "BadRequest"), "{path} {selector}");
            }
        }
    }
}
