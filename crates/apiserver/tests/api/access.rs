//! TLS, certificates, tokens, rights, kubeconfig files, the proxy.

use apiserver::{
    Allow, ApiServer, ConnectProxy, Connecting, Credential, Identity, Options, Running, Transport, User,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Connection, How, over, tls};

fn secured() -> Running {
    ApiServer::start(Options { anonymous: false, ..Options::default() }).unwrap()
}

async fn code(server: &Running, how: How, path: &str) -> u16 {
    Connection::open(server, &how).await.get(path).await.code
}

fn with(identity: Identity) -> How {
    How { identity: Some(identity), ..How::default() }
}

fn bearing(token: &str) -> How {
    How { token: Some(token.to_owned()), ..How::default() }
}

#[tokio::test]
async fn who_is_let_in() {
    let server = secured();
    let user = User::in_groups("jane", &["readers"]);
    let good = server.client_identity(&user).unwrap();
    let expired = server.expired_identity(&user).unwrap();
    let foreign = secured().client_identity(&user).unwrap();
    let token = server.access().issue_token(user.clone());
    let path = "/api/v1/services";
    for http2 in [false, true] {
        for (what, how, wanted) in [
            ("nothing", How::default(), 401),
            ("a certificate", with(good.clone()), 200),
            ("an expired certificate", with(expired.clone()), 401),
            ("another cluster's certificate", with(foreign.clone()), 401),
            ("a token", bearing(&token), 200),
            ("a wrong token", bearing("wrong"), 401),
        ] {
            assert_eq!(code(&server, How { http2, ..how }, path).await, wanted, "{what} http2={http2}");
        }
    }
    server.access().allow_anonymous(true);
    assert_eq!(code(&server, How::default(), path).await, 200);
    assert_eq!(code(&server, bearing("wrong"), path).await, 401, "wrong credentials are worse than none");
    let users: Vec<String> = server.activity().requests().into_iter().map(|request| request.user).collect();
    assert_eq!(users.iter().filter(|user| *user == "jane").count(), 4);
    assert_eq!(users.iter().filter(|user| *user == "system:anonymous").count(), 1);
    let unauthorised = Connection::open(&server, &bearing("wrong")).await.get(path).await;
    assert_eq!(unauthorised.reason(), "Unauthorized");
}

#[tokio::test]
async fn both_versions_of_http() {
    let server = secured();
    let token = server.access().issue_token(User::new("jane"));
    for http2 in [false, true] {
        assert_eq!(code(&server, How { http2, ..bearing(&token) }, "/api/v1/nodes").await, 200);
    }
    let seen: Vec<bool> = server.activity().requests().iter().map(|request| request.http2).collect();
    assert_eq!(seen, [false, true]);
    let server = ApiServer::start(Options { transport: Transport::TlsHttp1, ..Options::default() }).unwrap();
    let stream = TcpStream::connect(server.address()).await.unwrap();
    assert!(tls(&server, stream, &How { http2: true, ..How::default() }).await.is_err(), "no HTTP/2 there");
    server.activity().until(|ledger| ledger.connections.refused == 1).await;
}

#[tokio::test]
async fn a_client_that_does_not_know_the_ca_ends_the_handshake() {
    let (server, other) = (secured(), secured());
    let stream = TcpStream::connect(server.address()).await.unwrap();
    assert!(tls(&other, stream, &How::default()).await.is_err());
}

#[tokio::test]
async fn a_token_file_is_rotated() {
    let server = secured();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let mut file = server.token_file(&path, &User::new("jane")).unwrap();
    let read = || std::fs::read_to_string(&path).unwrap();
    let first = read();
    assert_eq!(code(&server, bearing(&first), "/api/v1/nodes").await, 200);
    // A connection that is open does not keep its user's rights.
    let mut open = Connection::open(&server, &bearing(&first)).await;
    assert_eq!(file.rotate().unwrap(), first);
    assert_eq!(open.get("/api/v1/nodes").await.code, 401);
    assert_eq!(code(&server, bearing(&read()), "/api/v1/nodes").await, 200);
}

#[tokio::test]
async fn rights() {
    let server = secured();
    let token = |user| server.access().issue_token(user);
    let (jane, member, root) = (
        token(User::new("jane")),
        token(User::in_groups("bob", &["proxies"])),
        token(User::in_groups("root", &["system:masters"])),
    );
    server.access().allow_only(vec![
        Allow::new("jane", &["list", "watch"], &["services", "endpointslices.discovery.k8s.io"]),
        Allow::new("jane", &["get"], &["pods"]).in_namespace("here"),
        Allow::new("proxies", &["*"], &["*"]),
        Allow::new("system:authenticated", &["get"], &["/api"]),
    ]);
    for (who, method, path, wanted) in [
        (&jane, "GET", "/api/v1/services", 200),
        (&jane, "GET", "/api/v1/services?watch=1&timeoutSeconds=-1&resourceVersion=abc", 500),
        (&jane, "GET", "/api/v1/namespaces/x/services/web", 403),
        (&jane, "GET", "/apis/discovery.k8s.io/v1/endpointslices", 200),
        (&jane, "GET", "/api/v1/nodes", 403),
        (&jane, "POST", "/api/v1/namespaces/x/services", 403),
        (&jane, "GET", "/api/v1/namespaces/here/pods/p", 404),
        (&jane, "GET", "/api/v1/namespaces/there/pods/p", 403),
        (&jane, "GET", "/api", 200),
        (&jane, "GET", "/apis", 403),
        (&jane, "GET", "/version", 200),
        (&member, "GET", "/api/v1/nodes", 200),
        (&root, "GET", "/api/v1/nodes", 200),
    ] {
        let mut client = Connection::open(&server, &bearing(who)).await;
        let answer = client.send(method, path, "application/json", "{}").await;
        assert_eq!(answer.code, wanted, "{method} {path}");
        if wanted == 403 {
            assert_eq!(answer.reason(), "Forbidden");
        }
    }
    let mut client = Connection::open(&server, &bearing(&jane)).await;
    let message = |answer: super::client::Answer| answer.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(
        message(client.get("/api/v1/nodes").await),
        r#"nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope"#
    );
    assert_eq!(
        message(client.get("/apis/events.k8s.io/v1/namespaces/x/events/e").await),
        r#"events.events.k8s.io "e" is forbidden: User "jane" cannot get resource "events" in API group "events.k8s.io" in the namespace "x""#
    );
    server.access().allow_everything();
    assert_eq!(client.get("/api/v1/nodes").await.code, 200);
}

#[tokio::test]
async fn through_a_proxy() {
    let server = secured();
    let token = server.access().issue_token(User::new("jane"));
    let proxy = ConnectProxy::start().unwrap();
    let address = proxy.url().trim_start_matches("http://").to_owned();
    let tunnel = async || {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let target = server.address();
        stream
            .write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        (stream, String::from_utf8(head).unwrap())
    };
    let (stream, head) = tunnel().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let stream = tls(&server, stream, &How::default()).await.unwrap();
    let mut client = over(stream, false).await.unwrap();
    let request = || {
        hyper::Request::get("/api/v1/nodes")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::default())
            .unwrap()
    };
    assert_eq!(client.request(request()).await.unwrap().status(), 200);
    assert_eq!(proxy.tunnels(), [server.address().to_string()]);
    proxy.cut();
    assert!(client.request(request()).await.is_err());
    proxy.refuse(Some(407));
    assert!(tunnel().await.1.starts_with("HTTP/1.1 407 "));
    assert_eq!(proxy.tunnels().len(), 2);
}

#[test]
fn kubeconfigs() {
    let server = secured();
    let folder = tempfile::tempdir().unwrap();
    let identity = server.client_identity(&User::new("jane")).unwrap();
    let connecting = Connecting {
        proxy_url: Some("http://127.0.0.1:1".to_owned()),
        tls_server_name: Some("kubernetes".to_owned()),
        namespace: Some("here".to_owned()),
        ..Connecting::default()
    };
    let files = identity.write(folder.path(), "jane").unwrap();
    for (credential, pointer) in [
        (Credential::None, ""),
        (Credential::Token("t".to_owned()), "/token"),
        (Credential::TokenFile(folder.path().join("token")), "/tokenFile"),
        (Credential::Certificate(identity), "/client-certificate-data"),
        (files, "/client-key"),
        (
            Credential::Exec {
                command: "/bin/plugin".into(),
                arguments: vec!["--for".to_owned(), "it's".to_owned()],
            },
            "/exec/args/1",
        ),
    ] {
        let path = folder.path().join("kubeconfig");
        server.write_kubeconfig(&path, &credential, &connecting).unwrap();
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], server.url());
        assert_eq!(
            (&cluster["proxy-url"], &cluster["tls-server-name"]),
            (&"http://127.0.0.1:1".into(), &"kubernetes".into())
        );
        let ca = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
        assert_eq!(ca, server.ca_pem().unwrap().as_bytes());
        assert_eq!(config["contexts"][0]["context"]["namespace"], "here");
        assert!(config["users"][0]["user"].pointer(pointer).is_some(), "{config}");
    }
    let config =
        server.kubeconfig(&Credential::None, &Connecting { insecure: true, ..Connecting::default() });
    let config: Value = serde_saphyr::from_str(&config).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["insecure-skip-tls-verify"], true);
}

#[cfg(unix)]
#[test]
fn a_credential_plugin() {
    let folder = tempfile::Builder::new().prefix("it's a folder ").tempdir().unwrap();
    let plugin = apiserver::write_exec_plugin(folder.path()).unwrap();
    for (token, expires) in [("one", None), ("two", Some("2026-01-01T00:00:00Z"))] {
        plugin.set_answer(&apiserver::exec_credential(token, expires)).unwrap();
        let output =
            std::process::Command::new(&plugin.command).env("KUBERNETES_EXEC_INFO", "{}").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["status"]["token"], token);
        assert_eq!(answer["status"]["expirationTimestamp"].as_str(), expires);
    }
    assert_eq!(plugin.calls(), 2);
}
