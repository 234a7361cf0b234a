//! Lists and watches when all goes well: selectors, chunks, streams, bookmarks, kinds that are not served.

use apiserver::{Effect, Match, Options, Rule};
use cluster::State;
use cluster::status::Resource;
use services::ObjectKind;

use crate::rig::{NODE, Rig, Source, nodes, service, slice};

#[test]
fn what_a_proxy_needs_is_followed_and_nothing_else() {
    let rig = Rig::plain();
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply(&nodes());
    rig.apply(&service("web", "10.96.0.10"));
    rig.apply(&slice("web", "10.244.1.5"));
    for others in [
        "{apiVersion: v1, kind: Service, metadata: {name: headless, namespace: shop}, spec: {clusterIP: None, ports: [{port: 80}]}}",
        "{apiVersion: v1, kind: Service, metadata: {name: foreign, namespace: shop, labels: {service.kubernetes.io/service-proxy-name: mesh}}, spec: {clusterIP: 10.96.0.77, ports: [{port: 80}]}}",
        "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {name: headless-1, namespace: shop, labels: {kubernetes.io/service-name: headless, service.kubernetes.io/headless: ''}}, ports: [{port: 80}], endpoints: [{addresses: [10.244.1.6]}]}",
    ] {
        rig.apply(others);
    }
    let source = rig.source();
    source.synced();
    source.until("the Node is known", |told| !told.names(ObjectKind::Node).is_empty());
    source.told(|told| {
        assert_eq!(told.names(ObjectKind::Service), ["shop/web"]);
        assert_eq!(told.names(ObjectKind::EndpointSlice), ["shop/web-1"]);
        assert_eq!(told.names(ObjectKind::Node), [format!("/{NODE}")]);
    });
    for request in rig.server.activity().requests() {
        let selector = |name| request.parameter(name).unwrap_or_default();
        let wanted = match &*request.resource {
            "services" => ("!service.kubernetes.io/service-proxy-name", "spec.clusterIP!=None"),
            "endpointslices" => ("!service.kubernetes.io/headless", ""),
            "nodes" => ("", "metadata.name=win-1"),
            _ => ("", ""),
        };
        assert_eq!((&*selector("labelSelector"), &*selector("fieldSelector")), wanted, "{request:?}");
        assert!(request.user_agent.starts_with("transom/"), "{request:?}");
    }

    // Changes, of the object and of whether it is one that matters.
    rig.apply(&service("api", "10.96.0.11"));
    source.until("a new Service comes", |told| told.names(ObjectKind::Service) == ["shop/api", "shop/web"]);
    rig.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, labels: {service.kubernetes.io/service-proxy-name: mesh}}, spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}}",
    );
    source.until("one that another proxy takes goes", |told| told.names(ObjectKind::Service) == ["shop/api"]);
    rig.delete(&slice("web", ""));
    source.until("a slice goes", |told| told.names(ObjectKind::EndpointSlice).is_empty());
    assert_eq!(source.told(|told| told.triggered), 0);
    let triggered = slice("web", "10.244.1.9").replace(
        "namespace: shop",
        "namespace: shop, annotations: {endpoints.kubernetes.io/last-change-trigger-time: '2026-01-02T03:04:05Z'}",
    );
    rig.apply(&triggered);
    source.until("the time of a trigger comes along", |told| told.triggered == 1);
    let status = source.status(Resource::Services);
    assert_eq!((status.state, status.objects, status.lists, status.failures), (State::Watching, 1, 1, 0));
}

#[test]
fn lists_come_as_streams_or_in_chunks() {
    for streaming in [true, false] {
        let rig = Rig::plain();
        rig.server.features().set_streaming_lists(streaming);
        rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
        for number in 0..250 {
            rig.apply(&service(
                &format!("s{number}"),
                &format!("10.96.{}.{}", number / 200 + 1, number % 200 + 1),
            ));
        }
        let mut settings = rig.settings();
        settings.chunk = 100;
        let source = Source::start(&settings);
        source.synced();
        assert_eq!(source.told(|told| told.names(ObjectKind::Service).len()), 250, "streaming: {streaming}");
        let chunks: Vec<String> = rig
            .server
            .activity()
            .requests()
            .iter()
            .filter(|request| request.verb == "list" && request.resource == "services")
            .map(|request| request.parameter("limit").unwrap_or_default())
            .collect();
        assert_eq!(chunks.len(), if streaming { 0 } else { 3 }, "{chunks:?}");
        assert!(chunks.iter().all(|limit| limit == "100"), "{chunks:?}");
        rig.apply(&service("late", "10.96.9.9"));
        source.until("changes are followed", |told| told.names(ObjectKind::Service).contains(&"shop/late"));
    }
}

#[test]
fn a_continue_token_that_has_expired_begins_the_list_anew() {
    let rig = Rig::plain();
    rig.server.features().set_streaming_lists(false);
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    for number in 1..=30 {
        rig.apply(&service(&format!("s{number}"), &format!("10.96.1.{number}")));
    }
    let expired = Match::of("list", "services").parameter("continue");
    let rule = rig.server.faults().add(Rule::new(expired, Effect::ExpireContinue).once());
    let mut settings = rig.settings();
    settings.chunk = 10;
    let source = Source::start(&settings);
    source.synced();
    assert_eq!(rig.server.faults().hits(rule), 1);
    assert_eq!(source.told(|told| told.names(ObjectKind::Service).len()), 30);
    assert!(source.status(Resource::Services).failures >= 1);
}

#[test]
fn an_old_server_without_service_cidrs_is_no_failure() {
    let rig = Rig::plain();
    rig.server.features().set_service_cidrs(false);
    let source = rig.source();
    source.synced();
    source.until_status("the kind is not served", |status| {
        status.resources.get(&Resource::ServiceCidrs).is_some_and(|of| of.state == State::NotServed)
    });
    assert_eq!(source.running.status().outage(), None);
}

#[test]
fn bookmarks_keep_a_quiet_watch_young() {
    // After the history is compacted away, a watch that had bookmarks goes on where it was; nothing is listed again.
    let options = Options { bookmark_every: std::time::Duration::from_millis(20), ..Options::plain() };
    let rig = Rig::with(options);
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply(&service("web", "10.96.0.10"));
    let ends = Match::of("watch", "services");
    let source = rig.source();
    source.synced();
    let lists = source.status(Resource::Services).lists;
    // Others change things that this watch does not see.
    for number in 0..20 {
        rig.apply(&slice(&format!("x{number}"), "10.244.1.7"));
    }
    let revision = rig.server.store().revision();
    rig.server.activity().wait(|ledger| {
        ledger.watches().filter(|watch| watch.resource == "services").all(|watch| watch.through >= revision)
            && ledger.watching("services") == 1
    });
    source.until("the slices came", |told| told.names(ObjectKind::EndpointSlice).len() == 20);
    rig.server.store().compact_all();
    rig.server.faults().add(Rule::new(ends, Effect::EndAfterEvents(0)).once());
    rig.apply(&service("api", "10.96.0.11"));
    source.until("a change comes", |told| told.names(ObjectKind::Service).contains(&"shop/api"));
    assert_eq!(source.status(Resource::Services).lists, lists, "{:?}", source.running.status());
}
