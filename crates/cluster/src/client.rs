//! A client of the API server that finds out when the server is gone, and leaves it alone for as long as it asks.
//!
//! kube's own keeps connections whose other end has vanished without a word, and when a server says that it is busy, it asks it
//! again by itself, up to 15 times and with pauses of more than a minute, while nobody is told that anything is wrong. Here each
//! answer is handed on at once, and who asks decides what follows.
//!
//! It must not know what is asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode, Uri};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};
use tower::layer::layer_fn;
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::trace::TraceLayer;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(15);

/// After how long without a byte the other end of a connection is asked whether it is there, and how often. So a server that is
/// gone is found out after 45 s, as by client-go, which asks by HTTP/2 after 30 s and waits for 15.
const IDLE: Duration = Duration::from_secs(15);
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 6;

/// How long what is sent may wait to be sent, or stay unacknowledged: the same time.
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

/// The longest that a server is heeded. It asks for a second or so; what stands before it may ask for much more.
const LONGEST: Duration = Duration::from_secs(30);

/// A client.
pub(crate) fn client(mut config: Config) -> kube::Result<Client> {
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false;
    let proxy = config.proxy_url.clone();
    // Who asks is told to a proxy by kube, and what it cannot do is said by it.
    let plain = |url: &Uri| url.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    match proxy.as_ref().map(|url| (url, url.scheme_str().filter(|_| plain(url)))) {
        None => stacked(config, tcp()),
        Some((url, Some("http"))) => stacked(config, Tunnel::new(url.clone(), tcp())),
        Some((url, Some("socks5"))) => stacked(config, SocksV5::new(url.clone(), tcp())),
        Some(_) => Ok(ClientBuilder::try_from(config)?.with_layer(&layer_fn(Heeding::new)).build()),
    }
}

/// A client on connections that are made so.
fn stacked<C>(config: Config, connector: C) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_write_timeout(Some(UNACKNOWLEDGED));
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        // Failures are told by who asked.
        .layer(TraceLayer::new_for_http().on_failure(()))
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(&layer_fn(Heeding::new)).build())
}

/// Makes connections.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(IDLE));
    tcp.set_keepalive_interval(Some(PROBE));
    tcp.set_keepalive_retries(Some(PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// Holds requests back while the server has asked to be left alone.
struct Heeding<S> {
    inner: S,
    /// Until when, as answers say: the server means whoever asks, not what is asked.
    until: Arc<Mutex<Option<Instant>>>,
    /// Wakes at that moment.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<S> Heeding<S> {
    fn new(inner: S) -> Self {
        Self { inner, until: Arc::default(), sleep: None }
    }
}

impl<S, A, B> Service<Request<A>> for Heeding<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // While this waits another answer may ask for more.
        loop {
            let held = *self.until.lock();
            let Some(moment) = held.filter(|moment| *moment > Instant::now()) else { break };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(moment)));
            if sleep.deadline() != moment {
                sleep.as_mut().reset(moment);
            }
            ready!(sleep.as_mut().poll(context));
        }
        self.sleep = None;
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let answer = self.inner.call(request);
        let until = Arc::clone(&self.until);
        Box::pin(async move {
            let response = answer.await?;
            if let Some(pause) = asked(&response) {
                let moment = Instant::now() + pause;
                let mut until = until.lock();
                *until = (*until).max(Some(moment));
            }
            Ok(response)
        })
    }
}

/// For how long an answer asks to be left alone. Servers write seconds; a date, which would be allowed, is not looked at.
fn asked<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt as _, service_fn};

    use super::*;

    /// A server that answers with the request's path as status, and its query as `Retry-After`.
    fn heeding() -> impl Service<Request<()>, Response = Response<()>, Error = Infallible> {
        Heeding::new(service_fn(async |request: Request<()>| {
            let mut response = Response::builder().status(&request.uri().path()[1..]);
            if let Some(after) = request.uri().query() {
                response = response.header(RETRY_AFTER, after.replace('_', " "));
            }
            Ok(response.body(()).expect("a response"))
        }))
    }

    async fn ask(
        server: &mut impl Service<Request<()>, Response = Response<()>, Error = Infallible>,
        answer: &str,
    ) -> u16 {
        let request = Request::get(format!("http://server/{answer}")).body(()).expect("a request");
        let ready = server.ready().await.expect("it never fails");
        ready.call(request).await.expect("it never fails").status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_request_waits_for_as_long_as_the_server_asks() {
        for (answer, seconds) in [
            ("200", 0),
            ("200?7", 0),
            ("403?7", 0),
            ("429", 0),
            ("429?0", 0),
            ("429?1", 1),
            ("500?2", 2),
            ("503?30", 30),
            ("504?31", 30),
            ("429?3600", 30),
            ("429?18446744073709551615", 30),
            ("429?99999999999999999999", 0),
            ("429?-1", 0),
            ("429?soon", 0),
            ("503?Wed,_21_Oct_2026_07:28:00_GMT", 0),
        ] {
            let mut server = heeding();
            let begun = Instant::now();
            assert_eq!(ask(&mut server, answer).await.to_string(), answer[..3]);
            assert_eq!(begun.elapsed(), Duration::ZERO, "{answer}: it is told at once");
            for _ in 0..2 {
                ask(&mut server, "200").await;
                assert_eq!(begun.elapsed(), Duration::from_secs(seconds), "{answer}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_while_requests_are_under_way_counts_from_then_and_less_takes_nothing_back() {
        let mut server = heeding();
        let begun = Instant::now();
        ask(&mut server, "429?5").await;
        // Two that were let through together.
        let mut together = Vec::new();
        for answer in ["429?10", "429?1"] {
            let request = Request::get(format!("http://server/{answer}")).body(()).expect("a request");
            together.push(server.ready().await.expect("it never fails").call(request));
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        for answer in together {
            answer.await.expect("it never fails");
        }
        ask(&mut server, "200").await;
        assert_eq!(begun.elapsed(), Duration::from_secs(15));
    }
}
