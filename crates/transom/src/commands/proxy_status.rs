//! `transom proxy status`: asks the proxy that runs on this machine, by the port of its metrics on the loopback device.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use proxyd::status::{PATH, ServiceDocument, Status};

use super::render;
use crate::cli::Output;
use crate::cli::proxy_status::ProxyStatus;
use crate::exit::Exit;

/// How long an answer may take; it waits for nothing but a processor.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(command: &ProxyStatus) -> anyhow::Result<Exit> {
    let status = all(command)?;
    let text = match command.output.output {
        Output::Text => text(&status),
        form => render::document(&status, form)?,
    };
    render::print(&text)?;
    Ok(if status.serving && status.unserved == 0 { Exit::Success } else { Exit::Degraded })
}

/// The status with all Services that were asked for, which may come in several pages.
fn all(command: &ProxyStatus) -> anyhow::Result<Status> {
    let mut query: Vec<(&str, String)> = Vec::new();
    if let Some(service) = &command.service {
        let (namespace, name) = match service.split_once('/') {
            Some((namespace, name)) => (namespace, Some(name)),
            None => (&**service, None),
        };
        query.push(("namespace", namespace.to_owned()));
        query.extend(name.map(|name| ("name", name.to_owned())));
    }
    if command.troubled {
        query.push(("troubled", "true".to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut whole: Option<Status> = None;
    loop {
        let mut asked = query.clone();
        asked.extend(whole.as_ref().and_then(|status| status.next.clone()).map(|after| ("after", after)));
        let page = runtime.block_on(ask(command.metrics_bind_address, &asked))?;
        let more = page.next.is_some();
        match &mut whole {
            None => whole = Some(page),
            Some(status) => {
                status.next = page.next;
                status.services.extend(page.services);
            }
        }
        if !more && let Some(status) = whole {
            return Ok(status);
        }
    }
}

async fn ask(address: SocketAddr, query: &[(&str, String)]) -> anyhow::Result<Status> {
    let named = || {
        format!(
            "no proxy answers at {address}; does one run here? --metrics-bind-address says where it serves metrics"
        )
    };
    let asking = async {
        let stream = tokio::net::TcpStream::connect(address).await.with_context(named)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let parameters: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let uri = format!("{PATH}?{}", parameters.join("&"));
        let request = hyper::Request::get(uri).header("host", address.to_string()).body(Empty::new())?;
        let answer = sender.send_request(request).await?;
        let code = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        connection.abort();
        if !code.is_success() {
            bail!("{address} answers {code}: {}", String::from_utf8_lossy(&body).trim());
        }
        serde_json::from_slice(&body)
            .with_context(|| format!("what answers at {address} is no proxy of this version"))
    };
    tokio::time::timeout(PATIENCE, asking).await.with_context(named)?
}

/// A value in a query.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn text(status: &Status) -> String {
    let mut text = format!("Phase: {}", status.phase);
    if let Some(what) = &status.waiting_for {
        let _ = write!(text, ", waiting for {what}");
    }
    let _ = writeln!(
        text,
        "\n{} Services, {} frontends wanted, {} of them not programmed; HNS: {} calls, {} of them failed",
        status.service_count, status.frontends, status.unserved, status.hns.calls, status.hns.errors
    );
    if let Some(call) = &status.hns.under_way {
        let kind = call.kind.as_deref().unwrap_or_default();
        let _ =
            writeln!(text, "A call of HNS is under way for {:.0} s: {} {kind}", call.seconds, call.operation);
    }
    for resource in &status.api {
        let _ = write!(text, "API: {} {}, {} objects", resource.name, resource.state, resource.objects);
        let _ = match &resource.error {
            Some(error) => writeln!(text, ": {error}"),
            None => writeln!(text),
        };
    }
    for degraded in &status.degraded {
        let _ = writeln!(text, "Degraded: {}", degraded.message);
    }
    let mut conditions = render::table(&["OBJECT", "REASON", "PORT", "MESSAGE"]);
    for condition in &status.conditions {
        conditions.add_row(["node", &condition.reason, "", &condition.message]);
    }
    let mut table = render::table(&["SERVICE", "FRONTEND", "FOR", "STATE", "RETRY AT", "ERROR"]);
    for service in &status.services {
        let name = format!("{}/{}", service.namespace, service.name);
        rows(&mut table, &name, service);
        for condition in &service.conditions {
            let port = condition.port.as_deref().unwrap_or_default();
            conditions.add_row([&*name, &condition.reason, port, &condition.message]);
        }
    }
    for (heading, table) in [("Services", &table), ("Conditions", &conditions)] {
        if !table.is_empty() {
            let _ = write!(text, "\n{heading}\n{}", render::text(table));
        }
    }
    text
}

fn rows(table: &mut comfy_table::Table, name: &str, service: &ServiceDocument) {
    for frontend in &service.frontends {
        table.add_row([
            name,
            &frontend.frontend,
            &frontend.role,
            &frontend.state,
            frontend.retry_at.as_deref().unwrap_or_default(),
            frontend.error.as_deref().unwrap_or_default(),
        ]);
    }
}
