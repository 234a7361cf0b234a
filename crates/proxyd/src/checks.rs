//! The ports where load balancers ask whether this node has endpoints of a Service (`healthCheckNodePort`): which are open follows
//! the Services, and what is answered is read at each request. Knows no path but this one, and nothing of HNS.
//!
//! One socket serves both families where the system allows; whoever asks over a family is told the endpoints of that family,
//! as by upstream's two sockets.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use services::IpFamily;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::health::{Seen, Settings};
use crate::http::Reply;
use crate::http::serve::{Handler, Limits, serve, told};
use crate::http::site::Site;
use crate::listen::{ListenFailure, Purpose, open};
use crate::run::{Observer, Passed};
use crate::state::HealthCheck;

/// The header that tells load balancers how much of the traffic this node can take.
pub const WEIGHT: &str = "x-load-balancing-endpoint-weight";

/// The Service of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is answered, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckDocument {
    /// The Service.
    pub service: Name,
    /// Its ready endpoints on this node.
    pub local_endpoints: usize,
    /// Whether the proxy does its work for it.
    pub service_proxy_healthy: bool,
}

/// The answer about a Service: 200 if this node has endpoints of it and the proxy serves it.
pub fn answer(check: &HealthCheck, family: IpFamily, serving: bool, seen: &Seen, limits: &Settings) -> Reply {
    let of_family = check.by_family.iter().find(|(of, _)| *of == family).map(|(_, local)| *local);
    let local = of_family.unwrap_or(if check.by_family.is_empty() { check.local } else { 0 });
    let late = seen.facts.unserved.values().any(|open| {
        open.service == check.service && seen.now.saturating_sub(open.since) > limits.unserved_after
    });
    let healthy = serving && !late;
    let document = CheckDocument {
        service: Name {
            namespace: check.service.namespace.to_string(),
            name: check.service.name.to_string(),
        },
        local_endpoints: local,
        service_proxy_healthy: healthy,
    };
    let mut reply = Reply::json(if healthy && local > 0 { 200 } else { 503 }, &document);
    reply.header = Some((WEIGHT, local.to_string()));
    reply
}

/// Tells the ports that Services may be others.
pub(crate) struct Nudge(pub(crate) Arc<Notify>);

impl Observer for Nudge {
    fn passed(&mut self, _: &Passed<'_>) {
        self.0.notify_one();
    }
}

/// One port.
struct Port {
    purpose: Purpose,
    /// None: it could not be opened.
    open: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

/// Opens and closes ports as the Services want, until it is told to end.
pub(crate) async fn follow(
    site: Arc<Site>,
    nudge: Arc<Notify>,
    retry: std::time::Duration,
    mut stop: watch::Receiver<bool>,
) {
    let mut ports: BTreeMap<u16, Port> = BTreeMap::new();
    loop {
        let wanted = site.state().with(|facts| facts.checks.clone());
        let failed = reconcile(&site, &mut ports, &wanted);
        tokio::select! {
            () = nudge.notified() => {}
            () = tokio::time::sleep(retry), if failed => {}
            () = told(&mut stop) => break,
        }
    }
    for port in ports.into_values() {
        close(port).await;
    }
}

async fn close(port: Port) {
    if let Some((stop, task)) = port.open {
        stop.send_replace(true);
        let _ = task.await;
    }
}

/// Whether a port could not be opened.
fn reconcile(site: &Arc<Site>, ports: &mut BTreeMap<u16, Port>, wanted: &BTreeMap<u16, HealthCheck>) -> bool {
    let board = site.board();
    let gone: Vec<u16> = ports.keys().copied().filter(|port| !wanted.contains_key(port)).collect();
    for number in gone {
        if let Some(port) = ports.remove(&number) {
            board.gone(&port.purpose);
            // The socket closes with its task; nobody needs to wait for the answers under way.
            if let Some((stop, _)) = port.open {
                stop.send_replace(true);
            }
        }
    }
    for (&number, check) in wanted {
        let purpose = Purpose::Check(check.service.clone(), number);
        let port = ports.entry(number).or_insert_with(|| Port { purpose: purpose.clone(), open: None });
        if port.purpose != purpose {
            // Another Service has the number now: the socket stays, its answer is read anew anyway.
            board.gone(&port.purpose);
            port.purpose = purpose.clone();
            if port.open.is_some() {
                board.up(&purpose);
            }
        }
        if port.open.as_ref().is_none_or(|(_, task)| task.is_finished()) {
            port.open = start(site, number, &purpose);
        }
    }
    ports.values().any(|port| port.open.is_none())
}

fn start(site: &Arc<Site>, number: u16, purpose: &Purpose) -> Option<(watch::Sender<bool>, JoinHandle<()>)> {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), number);
    let listener = match open(address) {
        Ok(listener) => listener,
        Err(error) => {
            let error = error.to_string();
            site.board().failed(&ListenFailure { purpose: purpose.clone(), address, error });
            return None;
        }
    };
    site.board().up(purpose);
    let (stop, stopped) = watch::channel(false);
    let handler: Handler = {
        let site = Arc::clone(site);
        Arc::new(move |request| site.check(number, IpFamily::of(request.peer)))
    };
    let task = tokio::spawn(async move {
        if let Err(error) = serve(listener, handler, Limits::default(), stopped).await {
            tracing::error!(%error, port = number, "A health check port cannot be served");
        }
    });
    Some((stop, task))
}
