//! The health check ports of Services.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proxyd::Input;
use proxyd::checks::{CheckDocument, WEIGHT};
use services::{Change, ObjectKind, ObjectRef};

use crate::rig::{Answer, Rig, free_port, get, loopback, make_network, objects, until};

fn ask(port: u16, ipv6: bool) -> Answer {
    get(SocketAddr::new(loopback(ipv6), port), "/healthz", None)
}

fn listening(rig: &Rig) -> (u64, u64) {
    rig.server.site().board().listeners().get("check").copied().unwrap_or_default()
}

#[test]
fn a_port_is_open_as_long_as_its_service_is_there() {
    let rig = Rig::start();
    make_network(&rig.hns);
    let port = free_port();
    rig.apply(&objects(port));
    rig.send(Input::Synced);
    rig.pass();
    until(|| listening(&rig) == (1, 0));
    let answer = ask(port, false);
    assert_eq!((answer.status, answer.header(WEIGHT)), (200, Some("1")), "{answer:?}");
    let document: CheckDocument = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((document.local_endpoints, document.service_proxy_healthy), (1, true));
    assert_eq!(
        answer.body,
        r#"{"service":{"namespace":"shop","name":"web"},"localEndpoints":1,"serviceProxyHealthy":true}"#
    );
    // The last endpoint of this node goes: traffic should not come any more.
    let text = objects(port).replace("nodeName: n1", "nodeName: n2");
    rig.apply(&text);
    rig.pass();
    let answer = ask(port, false);
    assert_eq!((answer.status, answer.header(WEIGHT)), (503, Some("0")), "{answer:?}");
    rig.send(Input::Changed(
        Change::Delete(ObjectRef { kind: ObjectKind::Service, namespace: "shop".into(), name: "web".into() }),
        None,
    ));
    rig.pass();
    until(|| listening(&rig) == (0, 0));
    until(|| std::net::TcpStream::connect((loopback(false), port)).is_err());
    let text = rig.metrics("/metrics").body;
    assert!(text.contains("transom_health_check_answers_total{code=\"503\"} 1"), "{text}");
    rig.end();
}

#[test]
fn a_port_that_is_taken_is_visible_and_tried_again() {
    let rig = Rig::start();
    make_network(&rig.hns);
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    rig.server.site().board().on_failure(Arc::new(move |failure| {
        assert_eq!(failure.reason(), "FailedToStartServiceHealthcheck");
        count.fetch_add(1, Ordering::SeqCst);
    }));
    rig.apply(&objects(port));
    rig.send(Input::Synced);
    rig.pass();
    until(|| told.load(Ordering::SeqCst) == 1);
    let metrics = rig.metrics("/metrics").body;
    assert!(metrics.contains("transom_health_check_ports{state=\"failed\"} 1"), "{metrics}");
    let health = rig.healthz("/healthz");
    assert_eq!(health.status, 200, "{health:?}");
    assert!(health.body.contains(&format!("the health check port {port} of shop/web")), "{health:?}");
    drop(taken);
    until(|| listening(&rig) == (1, 0));
    assert_eq!(ask(port, false).status, 200);
    assert_eq!(told.load(Ordering::SeqCst), 1, "it was told once");
    rig.end();
}
