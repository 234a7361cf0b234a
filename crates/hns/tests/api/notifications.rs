//! Notifications.

use std::sync::{Arc, Mutex};

use hcn::NotificationKind as N;
use hcn::{Guid, Hcn, Kind, Notification};
use hns::{Hns, Profile};

use crate::world::{local, network, open};

type Heard = Arc<Mutex<Vec<(N, Option<Guid>)>>>;

fn listen(hns: &Hns) -> (Heard, hcn::api::SubscriptionId) {
    let heard = Heard::default();
    let sink = Arc::clone(&heard);
    let id = hns
        .subscribe(Arc::new(move |note: &Notification| sink.lock().unwrap().push((note.kind, note.id))))
        .unwrap();
    (heard, id)
}

#[test]
fn networks_namespaces_and_attachments_are_told_in_order() {
    let hns = open(Profile::Ws2022);
    let (heard, subscription) = listen(&hns);
    let net = network(&hns, "L2Bridge", 0);
    let endpoint = local(&hns, net, "10.50.0.9");
    let ns = hns.create(Kind::Namespace, None, Guid::NIL, "{}").unwrap();
    let add = format!(
        r#"{{"ResourceType":"Endpoint","RequestType":"Add","Settings":{{"EndpointId":"{endpoint}"}}}}"#
    );
    hns.modify(Kind::Namespace, ns, &add).unwrap();
    hns.delete(Kind::Namespace, ns).unwrap();
    hns.delete(Kind::Network, net).unwrap();
    assert!(hns.delete(Kind::Network, net).is_err(), "and what fails is not told");
    hns.unsubscribe(subscription);
    network(&hns, "L2Bridge", 1);
    let wanted = [
        (N::NetworkPreCreate, Some(net)),
        (N::NetworkCreate, Some(net)),
        (N::NamespaceCreate, Some(ns)),
        (N::NetworkEndpointAttached, Some(endpoint)),
        (N::NetworkEndpointDetached, Some(endpoint)),
        (N::NamespaceDelete, Some(ns)),
        (N::NetworkPreDelete, Some(net)),
        (N::NetworkDelete, Some(net)),
    ];
    assert_eq!(*heard.lock().unwrap(), wanted);
}

#[test]
fn a_restart_disconnects_everybody() {
    let hns = open(Profile::Ws2022);
    let (heard, _) = listen(&hns);
    hns.restart(hns::Loss::None).unwrap();
    network(&hns, "L2Bridge", 0);
    assert_eq!(*heard.lock().unwrap(), [(N::ServiceDisconnect, None)]);
}

#[test]
fn a_subscriber_may_call_hns() {
    let hns = open(Profile::Ws2022);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inner, sink) = (hns.clone(), Arc::clone(&seen));
    hns.subscribe(Arc::new(move |note: &Notification| {
        if note.kind == N::NetworkCreate {
            sink.lock().unwrap().extend(inner.enumerate(Kind::Network, &hcn::Query::all()));
        }
    }))
    .unwrap();
    let net = network(&hns, "L2Bridge", 0);
    assert_eq!(*seen.lock().unwrap(), [vec![net]]);
}
