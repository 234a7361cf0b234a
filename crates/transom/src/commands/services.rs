//! `transom services`: what the node makes of the cluster's Services.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use hcn::Hcn;
use proxy::dry_run::DryRun;
use proxy::status::{FrontendState, ServiceStatus};
use serde::Serialize;
use services::{LeftOut, ServicePort, ServiceView, SkipReason};

use super::render;
use super::session::{Asked, Session};
use crate::cli::Output;
use crate::cli::hns_at::HnsAt;
use crate::cli::services::{ServiceSelector, ServicesAction, ServicesCommand};
use crate::exit::Exit;

/// One Service for programs.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    view: &'a ServiceView,
    programming: Option<ServiceStatus>,
}

pub(super) fn run(command: &ServicesCommand) -> anyhow::Result<Exit> {
    match &command.action {
        ServicesAction::List(list) => {
            let session = look(&list.input, &list.node)?;
            let select = |view: &ServiceView| {
                list.namespace.as_deref().is_none_or(|namespace| *view.key.namespace == *namespace)
            };
            let text = match list.output.output {
                Output::Text => list_text(&session, select),
                form => documents(&session, select, form)?,
            };
            render::print(&text)?;
            Ok(session.input_exit())
        }
        ServicesAction::Describe(describe) => {
            let session = look(&describe.input, &describe.node)?;
            let wanted = &describe.services;
            let select = |view: &ServiceView| {
                describe.namespace.as_deref().is_none_or(|namespace| *view.key.namespace == *namespace)
                    && (wanted.is_empty() || wanted.iter().any(|selector| names(selector, view)))
            };
            let text = match describe.output.output {
                Output::Text => describe_text(&session, select, wanted),
                form => documents(&session, select, form)?,
            };
            missing(&session, wanted)?;
            render::print(&text)?;
            Ok(session.input_exit())
        }
    }
}

fn look(
    input: &crate::cli::inputs::InputArgs,
    node: &crate::cli::inputs::NodeArgs,
) -> anyhow::Result<Session> {
    let asked = Asked {
        manifests: &input.manifests,
        options: &input.common,
        node,
        hns: &HnsAt::Emulated,
        settings: None,
        engine: None,
    };
    // What is shown depends on the cluster and the build; a stored HNS is not opened for it, nor written.
    let mut session = asked.session_at(None, |hcn| Arc::new(DryRun::new(hcn)) as Arc<dyn Hcn>)?;
    session.driver.pass();
    Ok(session)
}

fn names(selector: &ServiceSelector, view: &ServiceView) -> bool {
    view.ports.iter().any(|port| selector.selects(&view.key.namespace, &view.key.name, &port.name))
        || (selector.port.is_none() && selector.selects(&view.key.namespace, &view.key.name, ""))
}

/// A Service that was asked for by name and is not there is said, with the reason when it was passed over.
fn missing(session: &Session, wanted: &[ServiceSelector]) -> anyhow::Result<()> {
    for selector in wanted {
        if session.driver.proxy().services().any(|(_, view)| names(selector, view)) {
            continue;
        }
        let skipped = session.driver.cluster().skipped().find(|(key, _)| {
            selector.name == *key.name
                && selector.namespace.as_deref().is_none_or(|namespace| *namespace == *key.namespace)
        });
        match skipped {
            Some((key, reason)) => {
                anyhow::bail!("Service {key} is not served by this proxy: {}", why_skipped(reason))
            }
            None => anyhow::bail!(
                "there is no Service {}{}",
                selector.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default(),
                selector.name
            ),
        }
    }
    Ok(())
}

fn why_skipped(reason: &SkipReason) -> String {
    match reason {
        SkipReason::Headless => "it is headless (clusterIP: None)".to_owned(),
        SkipReason::ExternalName => "it is of type ExternalName".to_owned(),
        SkipReason::NoClusterIp => "it has no cluster IP yet".to_owned(),
        SkipReason::OtherProxy(name) => {
            format!("its label service.kubernetes.io/service-proxy-name gives it to {name:?}")
        }
    }
}

fn documents(
    session: &Session,
    select: impl Fn(&ServiceView) -> bool,
    form: Output,
) -> anyhow::Result<String> {
    let proxy = session.driver.proxy();
    let described: Vec<Described<'_>> = proxy
        .services()
        .filter(|(_, view)| select(view))
        .map(|(key, view)| Described { view, programming: proxy.status(key) })
        .collect();
    render::document(&described, form)
}

fn list_text(session: &Session, select: impl Fn(&ServiceView) -> bool) -> String {
    let mut table = render::table(&[
        "NAMESPACE",
        "SERVICE",
        "PORT",
        "TYPE",
        "CLUSTER IP",
        "NODE PORT",
        "BACKENDS",
        "LOCAL",
        "TARGET",
        "CONDITIONS",
    ]);
    let proxy = session.driver.proxy();
    for (key, view) in proxy.services().filter(|(_, view)| select(view)) {
        for port in &view.ports {
            let label = port.label();
            let mut reasons: Vec<String> = view
                .conditions
                .iter()
                .filter(|condition| condition.port.as_deref().is_none_or(|of| of == label))
                .map(|condition| condition.kind.reason().to_owned())
                .collect();
            if let Some(status) = proxy.status(key) {
                reasons.extend(
                    status
                        .conditions
                        .iter()
                        .filter(|condition| condition.port.as_deref().is_none_or(|of| of == label))
                        .map(|condition| condition.reason.to_string()),
                );
            }
            reasons.sort();
            reasons.dedup();
            table.add_row([
                key.namespace.to_string(),
                key.name.to_string(),
                label,
                view.kind.to_string(),
                format!("{}:{}", bracketed(port.cluster_ip), port.port),
                port.node_port.map(|port| port.to_string()).unwrap_or_default(),
                port.internal().len().to_string(),
                port.local.len().to_string(),
                if port.target_port == 0 { String::new() } else { port.target_port.to_string() },
                reasons.join(","),
            ]);
        }
    }
    render::text(&table)
}

fn bracketed(address: std::net::IpAddr) -> String {
    if address.is_ipv6() { format!("[{address}]") } else { address.to_string() }
}

fn describe_text(
    session: &Session,
    select: impl Fn(&ServiceView) -> bool,
    wanted: &[ServiceSelector],
) -> String {
    let mut out = String::new();
    let proxy = session.driver.proxy();
    for (key, view) in proxy.services().filter(|(_, view)| select(view)) {
        let _ = writeln!(out, "Service {key} ({})", view.kind);
        if view.preserve_destination {
            let _ = writeln!(out, "  The destination address is preserved.");
        }
        let status = proxy.status(key);
        for port in &view.ports {
            let asked = wanted.is_empty()
                || wanted.iter().any(|selector| selector.selects(&key.namespace, &key.name, &port.name));
            if asked {
                describe_port(&mut out, session, port, status.as_ref());
            }
        }
        if view.ports.is_empty() {
            let _ = writeln!(out, "  It has no port that this node serves.");
        }
        let mut said = false;
        let conditions = view
            .conditions
            .iter()
            .map(|condition| (condition.kind.reason().to_owned(), &condition.port, &condition.message))
            .chain(
                status
                    .iter()
                    .flat_map(|status| &status.conditions)
                    .map(|condition| (condition.reason.to_string(), &condition.port, &condition.message)),
            );
        for (reason, port, message) in conditions {
            if !said {
                let _ = writeln!(out, "  Conditions");
                said = true;
            }
            let port = port.as_ref().map(|port| format!("{port}: ")).unwrap_or_default();
            let _ = writeln!(out, "    {reason}: {port}{message}");
        }
        out.push('\n');
    }
    out
}

fn describe_port(out: &mut String, session: &Session, port: &ServicePort, status: Option<&ServiceStatus>) {
    let _ = writeln!(out, "  Port {}", port.label());
    let balancers: BTreeMap<String, &proxy::plan::WantedBalancer> = session
        .driver
        .proxy()
        .wanted()
        .map(|(frontend, _, balancer)| (frontend.to_string(), balancer))
        .collect();
    let mut table = render::table(&["    FRONTEND", "FOR", "BACKENDS", "FLAGS", "STATE"]);
    for frontend in status.iter().flat_map(|status| &status.frontends) {
        let Some(balancer) = balancers.get(&frontend.frontend).filter(|balancer| of_port(balancer, port))
        else {
            continue;
        };
        let count = match &balancer.backends {
            proxy::plan::Backends::Addresses(list) => list.len().to_string(),
            proxy::plan::Backends::Gateway => "the host".to_owned(),
        };
        let flags: Vec<String> = [balancer.flags.names(), balancer.mapping_flags.names()]
            .into_iter()
            .filter(|names| names != "None")
            .collect();
        let state = match &frontend.state {
            FrontendState::Programmed => "programmed".to_owned(),
            FrontendState::Pending => "pending".to_owned(),
            FrontendState::Waiting { reason } => format!("waiting: {reason}"),
            FrontendState::Failed { error, .. } => format!("failed: {error}"),
        };
        table.add_row([
            format!("    {}", frontend.frontend),
            balancer.role.to_string(),
            count,
            flags.join(", "),
            state,
        ]);
    }
    if table.is_empty() {
        let _ = writeln!(out, "    No frontend: there is no endpoint to send to.");
    } else {
        out.push_str(&render::text(&table));
    }
    for (title, set, policy) in [
        ("cluster IP", port.internal(), port.internal_policy),
        ("node ports, external and ingress addresses", port.external(), port.external_policy),
    ] {
        if set.is_empty() || (title != "cluster IP" && !has_external(port)) {
            continue;
        }
        let _ = writeln!(out, "    Backends for {title} (policy {policy}), port {}", port.target_port);
        for endpoint in set {
            let _ = writeln!(out, "      {}", endpoint_text(endpoint));
        }
    }
    if !port.left_out.is_empty() {
        let _ = writeln!(out, "    Left out");
        for LeftOut { endpoint, reason } in &port.left_out {
            let _ = writeln!(out, "      {}: {}", endpoint_text(endpoint), reason.explain());
        }
    }
}

fn has_external(port: &ServicePort) -> bool {
    port.node_port.is_some() || !port.external_ips.is_empty() || !port.ingress_ips.is_empty()
}

fn of_port(balancer: &proxy::plan::WantedBalancer, port: &ServicePort) -> bool {
    let frontend = &balancer.frontend;
    let family = frontend.ipv6 == (port.family == services::IpFamily::V6);
    let health = balancer.role == proxy::plan::Role::HealthCheck
        && frontend.vip.is_some_and(|vip| port.ingress_ips.contains(&vip));
    family
        && (health
            || (frontend.protocol == u32::from(port.protocol.number())
                && (frontend.port == port.port || Some(frontend.port) == port.node_port)))
}

fn endpoint_text(endpoint: &services::Endpoint) -> String {
    let mut text = format!("{}:{}", bracketed(endpoint.address), endpoint.port);
    if let Some(pod) = &endpoint.pod {
        let _ = write!(text, "  pod {pod}");
    }
    match &endpoint.node {
        Some(node) if endpoint.local => {
            let _ = write!(text, "  on this node ({node})");
        }
        Some(node) => {
            let _ = write!(text, "  on {node}");
        }
        None => text.push_str("  outside the cluster's nodes"),
    }
    if endpoint.terminating {
        text.push_str("  terminating");
    }
    text
}
