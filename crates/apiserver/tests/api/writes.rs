//! Create, update, patch, delete.

use serde_json::{Value, json};

use super::client::{Answer, Connection, How, apply, plain, revision, service};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn slice(name: &str, address: &str) -> Value {
    json!({"metadata": {"name": name}, "addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}]})
}

fn failed(answer: &Answer) -> (u16, String) {
    (answer.code, answer.reason())
}

fn failure(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

#[tokio::test]
async fn a_life() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let created = client.send("POST", SLICES, JSON, &slice("s", "10.0.0.1").to_string()).await;
    assert_eq!(created.code, 201);
    let first = created.json();
    assert_eq!(
        (&first["kind"], &first["metadata"]["namespace"]),
        (&json!("EndpointSlice"), &json!("default"))
    );
    assert_eq!(
        (&first["metadata"]["generation"], &first["ports"][0]["protocol"]),
        (&json!(1), &json!("TCP"))
    );
    assert_eq!(first["metadata"]["uid"].as_str().map(str::len), Some(36));

    let mut next = first.clone();
    next["endpoints"][0]["addresses"] = json!(["10.0.0.2"]);
    next["metadata"]["uid"] = Value::Null;
    next["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    let path = format!("{SLICES}/s");
    let second = client.send("PUT", &path, JSON, &next.to_string()).await.json();
    assert_eq!(second["metadata"]["generation"], 2);
    assert_eq!(revision(&second), revision(&first) + 1);
    for member in ["uid", "creationTimestamp"] {
        assert_eq!(second["metadata"][member], first["metadata"][member], "the server's own");
    }
    // The version that it was made from is not the newest any more.
    assert_eq!(failed(&client.send("PUT", &path, JSON, &next.to_string()).await), failure(409, "Conflict"));
    // Labels are no change of what is wanted.
    let labelled = client.send("PATCH", &path, MERGE, r#"{"metadata": {"labels": {"a": "b"}}}"#).await.json();
    assert_eq!(
        (&labelled["metadata"]["generation"], &labelled["metadata"]["labels"]),
        (&json!(2), &json!({"a": "b"}))
    );
    // Nothing new is no new version.
    let again = client.send("PUT", &path, JSON, &labelled.to_string()).await;
    assert_eq!((again.code, again.json()), (200, labelled.clone()));

    assert_eq!(client.get(&path).await.json(), labelled);
    let deleted = client.send("DELETE", &path, JSON, "").await;
    assert_eq!((deleted.code, &deleted.json()["status"]), (200, &json!("Success")));
    assert_eq!(deleted.json()["details"]["uid"], first["metadata"]["uid"]);
    assert_eq!(failed(&client.get(&path).await), failure(404, "NotFound"));
    assert_eq!(failed(&client.send("DELETE", &path, JSON, "").await), failure(404, "NotFound"));
}

#[tokio::test]
async fn refusals() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    assert_eq!(client.send("POST", SERVICES, JSON, &service("web").to_string()).await.code, 201);
    let mut of_other_kind = service("x");
    of_other_kind["kind"] = "Node".into();
    let mut elsewhere = service("x");
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut with_version = service("x");
    with_version["metadata"]["resourceVersion"] = "3".into();
    let mut nameless = service("x");
    nameless["metadata"] = json!({});
    let mut wrong_type = service("x");
    wrong_type["spec"]["ports"] = json!("many");
    let mut no_ports = service("x");
    no_ports["spec"]["ports"] = json!([]);
    let mut wrong_port = service("x");
    wrong_port["spec"]["ports"][0]["port"] = 70_000.into();
    let mut wrong_label = service("x");
    wrong_label["metadata"]["labels"] = json!({"a": "-"});
    let mut moved = service("web");
    moved["spec"]["clusterIP"] = "10.96.1.1".into();
    let mut other_uid = service("web");
    other_uid["metadata"]["uid"] = "a".into();
    let (missing, web) = (format!("{SLICES}/none"), format!("{SERVICES}/web"));
    for (method, path, body, wanted) in [
        ("POST", SERVICES, service("web"), failure(409, "AlreadyExists")),
        ("POST", SERVICES, of_other_kind, failure(400, "BadRequest")),
        ("POST", SERVICES, elsewhere, failure(400, "BadRequest")),
        ("POST", SERVICES, with_version, failure(500, "")),
        ("POST", SERVICES, nameless, failure(422, "Invalid")),
        ("POST", SERVICES, wrong_type, failure(400, "BadRequest")),
        ("POST", SERVICES, no_ports, failure(422, "Invalid")),
        ("POST", SERVICES, wrong_port, failure(422, "Invalid")),
        ("POST", SERVICES, wrong_label, failure(422, "Invalid")),
        ("POST", SERVICES, service("Upper"), failure(422, "Invalid")),
        ("POST", SERVICES, json!([]), failure(400, "BadRequest")),
        (
            "POST",
            "/api/v1/namespaces/none/services",
            json!({"metadata": {"name": "x"}}),
            failure(404, "NotFound"),
        ),
        ("POST", SLICES, json!({"metadata": {"name": "x"}, "endpoints": []}), failure(422, "Invalid")),
        ("POST", SLICES, slice("x", "fd00::1"), failure(422, "Invalid")),
        ("PUT", &missing, slice("none", "10.0.0.1"), failure(404, "NotFound")),
        ("PUT", &web, service("other"), failure(400, "BadRequest")),
        ("PUT", &web, moved, failure(422, "Invalid")),
        ("PUT", &web, other_uid, failure(409, "Conflict")),
    ] {
        let before = server.store().revision();
        let answer = client.send(method, path, JSON, &body.to_string()).await;
        assert_eq!(failed(&answer), wanted, "{method} {path} {body}: {}", answer.json());
        assert_eq!(server.store().revision(), before, "nothing was written: {method} {path} {body}");
    }
    for (kind, body, code) in [
        ("application/vnd.kubernetes.protobuf", "k8s", 415),
        (JSON, "{", 400),
        ("application/yaml", "{metadata: {name: y}, spec: {ports: [{port: 1}]}}", 201),
    ] {
        assert_eq!(client.send("POST", SERVICES, kind, body).await.code, code, "{kind} {body}");
    }
    let long = format!("{{\"x\": \"{}\"}}", "y".repeat(3 << 20));
    assert_eq!(client.send("POST", SERVICES, JSON, &long).await.code, 413);
}

#[tokio::test]
async fn unknown_members_are_dropped() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let mut object = service("web");
    object["spec"]["fromTheFuture"] = json!({"a": 1});
    let created = client.send("POST", SERVICES, JSON, &object.to_string()).await;
    assert_eq!((created.code, created.json()["spec"].get("fromTheFuture").cloned()), (201, None));
}

#[tokio::test]
async fn patches() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    apply(
        &server,
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}),
    );
    let path = "/api/v1/namespaces/default/configmaps/c";
    let operations = "application/json-patch+json";
    let strategic = "application/strategic-merge-patch+json";
    for (kind, body, code, data) in [
        (MERGE, r#"{"data": {"a": null, "c": "3"}}"#, 200, json!({"b": "2", "c": "3"})),
        (
            operations,
            r#"[{"op": "add", "path": "/data/d", "value": "4"}, {"op": "remove", "path": "/data/b"}]"#,
            200,
            json!({"c": "3", "d": "4"}),
        ),
        (
            operations,
            r#"[{"op": "test", "path": "/data/d", "value": "5"}]"#,
            422,
            json!({"c": "3", "d": "4"}),
        ),
        (operations, r#"{"op": "test"}"#, 400, json!({"c": "3", "d": "4"})),
        (MERGE, r#"{"metadata": {"resourceVersion": "1"}}"#, 409, json!({"c": "3", "d": "4"})),
        (MERGE, r#"{"metadata": {"name": "other"}}"#, 400, json!({"c": "3", "d": "4"})),
        (MERGE, r#"{"data": {"a": 1}}"#, 400, json!({"c": "3", "d": "4"})),
        (strategic, r#"{"data": {"d": null}}"#, 200, json!({"c": "3"})),
        (strategic, r#"{"data": {"$patch": "delete"}}"#, 415, json!({"c": "3"})),
        ("application/apply-patch+yaml", "data: {}", 415, json!({"c": "3"})),
        (JSON, "{}", 415, json!({"c": "3"})),
    ] {
        let answer = client.send("PATCH", path, kind, body).await;
        assert_eq!(answer.code, code, "{kind} {body}: {}", answer.json());
        assert_eq!(client.get(path).await.json()["data"], data, "{kind} {body}");
    }
    assert_eq!(
        failed(&client.send("PATCH", &format!("{path}x"), MERGE, "{}").await),
        failure(404, "NotFound")
    );
}

#[tokio::test]
async fn status_is_a_resource_of_its_own() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let mut object = service("web");
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let created = client.send("POST", SERVICES, JSON, &object.to_string()).await.json();
    assert_eq!(created["status"], json!({"loadBalancer": {}}), "nobody creates a status");
    let mut next = created.clone();
    next["status"] = object["status"].clone();
    next["spec"]["sessionAffinity"] = "ClientIP".into();
    let web = format!("{SERVICES}/web");
    let after = client.send("PUT", &format!("{web}/status"), JSON, &next.to_string()).await.json();
    assert_eq!((&after["status"], &after["spec"]["sessionAffinity"]), (&object["status"], &json!("None")));
    let after = client
        .send("PATCH", &web, MERGE, r#"{"status": null, "spec": {"sessionAffinity": "ClientIP"}}"#)
        .await
        .json();
    assert_eq!(
        (&after["status"], &after["spec"]["sessionAffinity"]),
        (&object["status"], &json!("ClientIP"))
    );
    assert_eq!(after["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10_800);
    assert_eq!(client.get(&format!("{SLICES}/x/status")).await.code, 404, "slices have none");
}

#[tokio::test]
async fn services_get_addresses_and_ports() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let mut create = async |name: &str, spec: Value| {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        client.send("POST", SERVICES, JSON, &object.to_string()).await
    };
    let ports = json!([{"port": 80}]);
    let plain = create("plain", json!({"ports": ports})).await.json();
    let ip: std::net::Ipv4Addr = plain["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
    assert_eq!(u32::from(ip) & 0xfff0_0000, u32::from(std::net::Ipv4Addr::new(10, 96, 0, 0)));
    assert_eq!(plain["spec"]["clusterIPs"], json!([ip.to_string()]));
    assert_eq!(
        (&plain["spec"]["type"], &plain["spec"]["ipFamilies"]),
        (&json!("ClusterIP"), &json!(["IPv4"]))
    );
    assert_eq!(plain["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    let headless = create("headless", json!({"clusterIP": "None"})).await.json();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let dual = create("dual", json!({"ports": ports, "ipFamilyPolicy": "RequireDualStack"})).await.json();
    assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert!(dual["spec"]["clusterIPs"][1].as_str().unwrap().starts_with("fd00:10:96::"), "{dual}");
    let node = create("node", json!({"ports": ports, "type": "NodePort"})).await.json();
    let port = node["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    assert_eq!(node["spec"]["externalTrafficPolicy"], "Cluster");
    let taken = create("taken", json!({"ports": [{"port": 80, "nodePort": port}], "type": "NodePort"})).await;
    assert_eq!(failed(&taken), failure(422, "Invalid"));
    let taken = create("taken", json!({"ports": ports, "clusterIP": ip.to_string()})).await;
    assert_eq!(failed(&taken), failure(422, "Invalid"));
    let elsewhere =
        create("elsewhere", json!({"type": "ExternalName", "externalName": "example.org"})).await.json();
    assert!(elsewhere["spec"].get("clusterIP").is_none());
    // An update that leaves the address out keeps it.
    let kept =
        client.send("PUT", &format!("{SERVICES}/plain"), JSON, &service("plain").to_string()).await.json();
    assert_eq!(kept["spec"]["clusterIP"], ip.to_string());
}

#[tokio::test]
async fn generated_names_and_dry_runs() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let mut object = slice("x", "10.0.0.1");
    object["metadata"] = json!({"generateName": "web-"});
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let name = client.send("POST", SLICES, JSON, &object.to_string()).await.json()["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        names.insert(name);
    }
    assert_eq!(names.len(), 3);
    let before = server.store().revision();
    let dry = client
        .send("POST", &format!("{SLICES}?dryRun=All"), JSON, &slice("dry", "10.0.0.1").to_string())
        .await;
    assert_eq!((dry.code, &dry.json()["metadata"]["name"]), (201, &json!("dry")));
    assert_eq!(
        client
            .send("DELETE", &format!("{SLICES}/{}?dryRun=All", names.first().unwrap()), JSON, "")
            .await
            .code,
        200
    );
    assert_eq!(server.store().revision(), before);
    assert_eq!(
        client
            .send("POST", &format!("{SLICES}?dryRun=Some"), JSON, &slice("dry", "10.0.0.1").to_string())
            .await
            .code,
        400
    );
}

#[tokio::test]
async fn finalizers_and_grace() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let mut object = service("web");
    object["metadata"]["finalizers"] = json!(["example.org/wait"]);
    client.send("POST", SERVICES, JSON, &object.to_string()).await;
    let web = format!("{SERVICES}/web");
    let mut events =
        Connection::open(&server, &How::default()).await.watch(&format!("{SERVICES}?watch=1")).await;
    assert_eq!(events.short().await, "ADDED web");
    for _ in 0..2 {
        let marked = client.send("DELETE", &web, JSON, "").await;
        assert_eq!((marked.code, marked.json()["metadata"]["deletionTimestamp"].is_string()), (200, true));
    }
    assert_eq!(client.send("PATCH", &web, MERGE, r#"{"metadata": {"finalizers": null}}"#).await.code, 200);
    assert_eq!(client.get(&web).await.code, 404);
    assert_eq!(events.shorts(3).await, ["MODIFIED web", "MODIFIED web", "DELETED web"]);

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}});
    apply(&server, &pod);
    let path = "/api/v1/namespaces/default/pods/p";
    let marked = client.send("DELETE", path, JSON, "").await.json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(client.get(path).await.code, 200, "until its node says that it is gone");
    assert_eq!(client.send("DELETE", path, JSON, r#"{"gracePeriodSeconds": 0}"#).await.code, 200);
    assert_eq!(client.get(path).await.code, 404);
}

#[tokio::test]
async fn deletions_with_preconditions() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let web = client.send("POST", SERVICES, JSON, &service("web").to_string()).await.json();
    let path = format!("{SERVICES}/web");
    for wrong in [json!({"uid": "x"}), json!({"resourceVersion": "1"})] {
        let answer = client.send("DELETE", &path, JSON, &json!({"preconditions": wrong}).to_string()).await;
        assert_eq!(failed(&answer), failure(409, "Conflict"), "{wrong}");
    }
    let right = json!({"preconditions": {"uid": web["metadata"]["uid"], "resourceVersion": web["metadata"]["resourceVersion"]}});
    let answer = client.send("DELETE", &path, JSON, &right.to_string()).await;
    assert_eq!(
        (answer.code, &answer.json()["kind"]),
        (200, &json!("Service")),
        "a deleted Service is answered"
    );
}

#[tokio::test]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let namespace = json!({"metadata": {"name": "team"}}).to_string();
    let created = client.send("POST", "/api/v1/namespaces", JSON, &namespace).await.json();
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
    assert_eq!(created["status"]["phase"], "Active");
    let object = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 1}]}}).to_string();
    assert_eq!(client.send("POST", "/api/v1/namespaces/team/services", JSON, &object).await.code, 201);
    assert_eq!(client.send("DELETE", "/api/v1/namespaces/team", JSON, "").await.code, 200);
    assert_eq!(client.get("/api/v1/namespaces/team/services/web").await.code, 404);
}

#[tokio::test]
async fn events_are_the_same_in_both_groups() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let new = json!({
        "metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.678901Z", "reportingController": "proxy", "reportingInstance": "n",
        "action": "Sync", "reason": "Failed", "type": "Warning", "note": "it failed", "regarding": {"kind": "Node", "name": "n"},
    });
    let path = "namespaces/default/events";
    let created =
        client.send("POST", &format!("/apis/events.k8s.io/v1/{path}"), JSON, &new.to_string()).await;
    assert_eq!(created.code, 201, "{}", created.json());
    assert_eq!(
        (&created.json()["note"], &created.json()["eventTime"]),
        (&json!("it failed"), &new["eventTime"])
    );
    let core = client.get(&format!("/api/v1/{path}/e")).await.json();
    assert_eq!((&core["message"], &core["involvedObject"]["name"]), (&json!("it failed"), &json!("n")));
    assert_eq!((&core["reportingComponent"], &core["apiVersion"]), (&json!("proxy"), &json!("v1")));
    let patched = client.send("PATCH", &format!("/api/v1/{path}/e"), MERGE, r#"{"count": 2}"#).await;
    assert_eq!(patched.code, 200);
    let again = client.get(&format!("/apis/events.k8s.io/v1/{path}/e")).await.json();
    assert_eq!(again["deprecatedCount"], 2);
}

#[tokio::test]
async fn put_creates_some_kinds_and_wants_a_version_of_others() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    assert_eq!(
        client.send("PUT", &format!("{SERVICES}/web"), JSON, &service("web").to_string()).await.code,
        201
    );
    let cidr = json!({"metadata": {"name": "c"}, "spec": {"cidrs": ["10.96.0.0/12"]}});
    let path = "/apis/networking.k8s.io/v1/servicecidrs";
    assert_eq!(client.send("PUT", &format!("{path}/c"), JSON, &cidr.to_string()).await.code, 404);
    assert_eq!(client.send("POST", path, JSON, &cidr.to_string()).await.code, 201);
    let mut changed = cidr.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(
        failed(&client.send("PUT", &format!("{path}/c"), JSON, &changed.to_string()).await),
        failure(422, "Invalid")
    );
}
