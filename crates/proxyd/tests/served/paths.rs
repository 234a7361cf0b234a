//! Each path of the two addresses, and the addresses themselves.

use proxyd::Input;
use proxyd::http::{Addresses, Server, Settings};
use proxyd::listen::Purpose;
use proxyd::status::{self, Status};

use crate::rig::{Rig, any, exchange, free_port, get, make_network, objects, until};

#[test]
fn health_follows_a_start() {
    let rig = Rig::start();
    let before = rig.healthz("/healthz");
    assert_eq!((before.status, before.json()["degraded"][0]["effect"].as_str()), (503, Some("unhealthy")));
    assert_eq!(rig.healthz("/livez").status, 200);
    make_network(&rig.hns);
    rig.apply(&objects(free_port()));
    rig.send(Input::Synced);
    rig.pass();
    let healthz = rig.healthz("/healthz");
    assert_eq!(healthz.status, 200, "{healthz:?}");
    assert_eq!(healthz.header("content-type"), Some("application/json"));
    let document = healthz.json();
    assert_eq!(document["status"]["IPv4"]["healthy"], true);
    assert_eq!(document["nodeEligible"], true);
    for path in ["/livez", "/readyz"] {
        let answer = rig.healthz(path);
        assert_eq!((answer.status, answer.json().get("nodeEligible")), (200, None), "{path}");
    }
    assert_eq!(rig.healthz("/metrics").status, 404);
    rig.end();
}

#[test]
fn the_metrics_address_has_upstreams_paths() {
    let rig = Rig::start();
    for (path, status, begins) in [
        ("/healthz", 200, "ok"),
        ("/proxyMode", 200, "kernelspace"),
        ("/configz", 200, "{\"kubeproxy.config.k8s.io\":"),
        ("/flagz", 200, "v=2"),
        ("/statusz", 200, "transom proxy statusz"),
        ("/metrics", 200, "# HELP "),
        ("/metrics/slis", 200, "# HELP kubernetes_healthcheck "),
        ("/debug/pprof/", 404, "profiling is off"),
        ("/livez", 404, "there is nothing"),
        ("/", 404, "there is nothing"),
    ] {
        let answer = rig.metrics(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.starts_with(begins), "{path}: {}", answer.body);
    }
    rig.end();
}

#[test]
fn only_get_and_head_are_answered() {
    let rig = Rig::start();
    let at = rig.at(&Purpose::Metrics);
    let ask = |method: &str| {
        exchange(at, &format!("{method} /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"))
            .expect("an answer")
    };
    assert!(ask("POST").starts_with("HTTP/1.1 405 "));
    let head = ask("HEAD");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    // Nonsense and heads without end close the connection instead of filling memory.
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(64 * 1024));
    assert!(exchange(at, "nonsense\r\n\r\n").is_ok_and(|text| text.starts_with("HTTP/1.1 400 ")));
    match exchange(at, &long) {
        Ok(text) => assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}"),
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::TimedOut),
    }
    rig.end();
}

#[test]
fn metrics_come_in_the_form_that_is_asked_for() {
    let rig = Rig::start();
    let at = rig.at(&Purpose::Metrics);
    for (accept, content_type, ends) in [
        (None, "text/plain; version=0.0.4; charset=utf-8", false),
        (Some("*/*"), "text/plain; version=0.0.4; charset=utf-8", false),
        (
            Some("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"),
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ] {
        let answer = get(at, "/metrics", accept);
        assert_eq!(answer.header("content-type"), Some(content_type), "{accept:?}");
        assert_eq!(answer.body.ends_with("# EOF\n"), ends, "{accept:?}");
        assert!(answer.body.contains("kubeproxy_proxy_healthz_total{code=\"200\"} 0"), "{accept:?}");
    }
    rig.end();
}

#[test]
fn the_status_names_each_service_and_can_be_paged() {
    let rig = Rig::start();
    make_network(&rig.hns);
    rig.apply(&objects(free_port()));
    rig.send(Input::Synced);
    rig.pass();
    let read = |query: &str| -> Status {
        let answer = rig.metrics(&format!("{}{query}", status::PATH));
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).expect("the document can be read")
    };
    let names = |status: &Status| -> Vec<String> {
        status.services.iter().map(|it| format!("{}/{}", it.namespace, it.name)).collect()
    };
    let all = read("");
    assert_eq!(names(&all), ["shop/api", "shop/db", "shop/web"]);
    assert_eq!(
        (all.phase.as_str(), all.serving, all.node.eligible, all.service_count),
        ("running", true, true, 3)
    );
    let api = &all.services[0].frontends[0];
    assert_eq!((api.state.as_str(), api.role.as_str()), ("programmed", "ClusterIP"));
    assert!(api.id.is_some());
    assert_eq!(names(&read("?name=db")), ["shop/db"]);
    assert!(read("?namespace=none").services.is_empty());
    // The endpoint that the slice places here is not in HNS.
    assert_eq!(names(&read("?troubled=true")), ["shop/web"]);
    let first = read("?limit=2");
    assert_eq!((names(&first).len(), first.next.as_deref()), (2, Some("shop/db")));
    assert_eq!(names(&read("?limit=2&after=shop%2Fdb")), ["shop/web"]);
    let wrong = rig.metrics(&format!("{}?limit=0", status::PATH));
    assert_eq!((wrong.status, wrong.body.contains("1 to 5000")), (400, true), "{wrong:?}");
    rig.end();
}

#[test]
fn addresses_may_change_while_it_runs() {
    // As soon as it runs, too: the tasks of the sockets may not have begun by then.
    let rig = Rig::start();
    let old = rig.at(&Purpose::Healthz);
    let port = free_port();
    let new = std::net::SocketAddr::new(old.ip(), port);
    rig.server.set_addresses(Addresses { healthz: Some(new), metrics: None });
    until(|| rig.server.bound().get(&Purpose::Healthz) == Some(&new));
    until(|| !rig.server.bound().contains_key(&Purpose::Metrics));
    assert_eq!(rig.healthz("/livez").status, 200);
    until(|| std::net::TcpStream::connect(old).is_err());
    rig.end();
}

#[test]
fn an_address_that_is_taken_is_an_error_or_is_tried_again() {
    let rig = Rig::start();
    let site = std::sync::Arc::clone(rig.server.site());
    let taken = std::net::TcpListener::bind(any()).unwrap();
    let address = taken.local_addr().unwrap();
    let addresses = Addresses { healthz: Some(address), metrics: None };
    let settings = Settings { addresses, hard_fail: true, retry: std::time::Duration::from_millis(5) };
    let error = Server::start(std::sync::Arc::clone(&site), settings).err().expect("the address is taken");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let server = Server::start(site, Settings { hard_fail: false, ..settings }).expect("it goes on");
    until(|| !server.site().board().failures().is_empty());
    assert!(rig.healthz("/livez").json()["degraded"].to_string().contains("ListenFailed"));
    drop(taken);
    until(|| server.bound().get(&Purpose::Healthz) == Some(&address));
    assert_eq!(get(address, "/livez", None).status, 200);
    assert!(server.site().board().failures().is_empty());
    server.stop();
    rig.end();
}

#[test]
fn one_socket_serves_both_families() {
    let rig = Rig::start_at(Addresses { healthz: Some("0.0.0.0:0".parse().unwrap()), metrics: Some(any()) });
    let port = rig.at(&Purpose::Healthz).port();
    for ipv6 in [false, true] {
        if ipv6 && rig.at(&Purpose::Healthz).is_ipv4() {
            continue;
        }
        let at = std::net::SocketAddr::new(crate::rig::loopback(ipv6), port);
        assert_eq!(get(at, "/livez", None).status, 200, "{at}");
    }
    rig.end();
}
