//! What the server says about itself, and what it answers to paths and requests that it does not have.

use http_body_util::Full;
use serde_json::{Value, json};

use super::client::{Connection, How, plain};

#[tokio::test]
async fn paths_that_are_no_resources() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    for (path, code, pointer, wanted) in [
        ("/version", 200, "/gitVersion", json!("v1.34.0")),
        ("/version", 200, "/minor", json!("34")),
        ("/api", 200, "/versions", json!(["v1"])),
        ("/apis", 200, "/kind", json!("APIGroupList")),
        ("/apis/discovery.k8s.io", 200, "/preferredVersion/groupVersion", json!("discovery.k8s.io/v1")),
        ("/apis/discovery.k8s.io/v1", 200, "/resources/0/name", json!("endpointslices")),
        ("/apis/networking.k8s.io/v1", 200, "/resources/0/namespaced", json!(false)),
        ("/", 200, "/paths/0", json!("/api")),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.code, code, "{path}");
        assert_eq!(answer.json().pointer(pointer), Some(&wanted), "{path} {}", answer.json());
    }
    for (path, code, text) in
        [("/livez", 200, "ok"), ("/readyz", 200, "ok"), ("/nothing", 404, "404 page not found\n")]
    {
        let answer = client.get(path).await;
        assert_eq!((answer.code, answer.body.as_ref()), (code, text.as_bytes()), "{path}");
    }
    server.set_ready(false);
    assert_eq!(client.get("/readyz").await.code, 500);
    assert_eq!(client.get("/livez").await.code, 200);
}

#[tokio::test]
async fn core_has_its_resources_and_their_status() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    let resources = client.get("/api/v1").await.json();
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    let wanted = [
        "configmaps",
        "events",
        "namespaces",
        "namespaces/status",
        "nodes",
        "nodes/status",
        "pods",
        "pods/status",
        "services",
        "services/status",
    ];
    assert_eq!(names, wanted);
}

#[tokio::test]
async fn an_older_server_has_no_service_cidrs() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    assert_eq!(client.get("/apis/networking.k8s.io/v1/servicecidrs").await.code, 200);
    server.features().set_service_cidrs(false);
    let gone = client.get("/apis/networking.k8s.io/v1/servicecidrs").await;
    assert_eq!((gone.code, gone.reason().as_str()), (404, "NotFound"));
    assert_eq!(client.get("/apis/networking.k8s.io/v1").await.json()["resources"], json!([]));
}

#[tokio::test]
async fn requests_that_fit_nothing() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    for (method, path, code, reason) in [
        ("GET", "/api/v1/gadgets", 404, "NotFound"),
        ("GET", "/api/v2/services", 404, "NotFound"),
        ("GET", "/apis/example.org/v1/gadgets", 404, "NotFound"),
        ("GET", "/api/v1/services/web", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/services/web", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/services/web/scale", 404, "NotFound"),
        ("DELETE", "/api/v1/namespaces/default/services", 405, "MethodNotAllowed"),
        ("PUT", "/api/v1/namespaces/default/services", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/services", 405, "MethodNotAllowed"),
        ("OPTIONS", "/api/v1/services", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
    ] {
        let answer = client.send(method, path, "application/json", "{}").await;
        assert_eq!((answer.code, answer.reason().as_str()), (code, reason), "{method} {path}");
    }
}

#[tokio::test]
async fn json_is_served_or_nothing() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How::default()).await;
    for (accept, code) in [
        ("application/json", 200),
        ("*/*", 200),
        ("application/vnd.kubernetes.protobuf", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 200),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", 406),
        ("text/html", 406),
    ] {
        let request =
            hyper::Request::get("/api/v1/services").header("accept", accept).body(Full::default()).unwrap();
        let answer = client.request(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "{accept}");
        assert_eq!(answer.headers()["content-type"], "application/json", "{accept}");
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap();
    }
}
