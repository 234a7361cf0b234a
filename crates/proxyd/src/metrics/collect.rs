//! What is read from the state at each scrape. Knows the names of metrics; decides nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use proxy::meter::{LATENCY_BOUNDS, Meters};
use proxy::status::FrontendState;

use super::Sources;
use super::expose::{Classes, Pairs, Samples, Writer, count, one};
use super::process;
use crate::health::{Effect, HnsSeen, Reason, Seen, family_name, judge};
use crate::state::{Facts, Phase};

/// The collector.
pub(super) struct Collected(Sources);

impl Collected {
    pub(super) fn new(sources: Sources) -> Self {
        Self(sources)
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}

impl Collector for Collected {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sources = &self.0;
        let seen = Seen::of(&sources.state, sources.api.figures(), sources.board.failures());
        let mut writer = Writer(encoder);
        self.upstream(&mut writer, &seen)?;
        self.program(&mut writer)?;
        self.health(&mut writer, &seen)?;
        self.services(&mut writer, &seen.facts)?;
        objects(&mut writer, &seen.facts)?;
        let meters = sources.state.hns().map(|watch| watch.meters()).unwrap_or_default();
        calls(&mut writer, &meters, seen.hns.as_ref())?;
        api(&mut writer, &seen)?;
        self.listeners(&mut writer)
    }
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn label(key: &'static str, value: impl Into<String>) -> Pairs {
    vec![(key, value.into())]
}

impl Collected {
    /// What upstream's proxy says of its passes and changes.
    fn upstream(&self, writer: &mut Writer<'_>, seen: &Seen) -> fmt::Result {
        let facts = &seen.facts;
        let state = &self.0.state;
        let times = |pick: fn(&crate::state::FamilyTimes) -> Option<Duration>| -> Samples {
            facts
                .times
                .iter()
                .filter_map(|(&family, times)| {
                    Some((label("ip_family", family_name(family)), seconds(state.wall(pick(times)?))))
                })
                .collect()
        };
        writer.gauge(
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "When a pass was last completed",
            times(|times| times.completed),
        )?;
        writer.gauge(
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "When a change last came in",
            times(|times| times.last_queued),
        )?;
        writer.gauge(
            "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
            "Changes of endpoints that no pass has taken yet",
            one(count(facts.queued.0)),
        )?;
        writer.counter(
            "kubeproxy_sync_proxy_rules_endpoint_changes",
            "Changes of endpoints",
            one(count(facts.changes.0)),
        )?;
        writer.gauge(
            "kubeproxy_sync_proxy_rules_service_changes_pending",
            "Changes of Services that no pass has taken yet",
            one(count(facts.queued.1)),
        )?;
        writer.counter(
            "kubeproxy_sync_proxy_rules_service_changes",
            "Changes of Services",
            one(count(facts.changes.1)),
        )?;
        let no_local = facts.no_local.iter().flat_map(|(&family, &(internal, external))| {
            [("internal", internal), ("external", external)].map(|(policy, services)| {
                let labels = vec![
                    ("ip_family", family_name(family).to_owned()),
                    ("traffic_policy", policy.to_owned()),
                ];
                (labels, count(services))
            })
        });
        // A gauge in spite of its name, as upstream's.
        writer.gauge(
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
            "Services that have endpoints, but none on this node although their policy is Local",
            no_local.collect(),
        )
    }

    fn program(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let build = &self.0.build;
        let labels = vec![("version", build.version.clone()), ("commit", build.commit.clone())];
        writer.gauge("transom_build_info", "What is running; always 1", vec![(labels, 1.0)])?;
        let gates = build.features.iter().map(|(name, stage, on)| {
            let labels = vec![("name", name.clone()), ("stage", stage.clone())];
            (labels, f64::from(u8::from(*on)))
        });
        writer.gauge("kubernetes_feature_enabled", "Feature gates that are on", gates.collect())?;
        process::write(writer, seconds(self.0.state.started()))
    }

    fn health(&self, writer: &mut Writer<'_>, seen: &Seen) -> fmt::Result {
        let limits = *self.0.limits.lock();
        let verdict = judge(seen, &limits);
        let phases = ["starting", "waiting", "syncing", "running"];
        let now = match seen.facts.phase {
            Phase::Starting => 0,
            Phase::Waiting { .. } => 1,
            Phase::Syncing => 2,
            Phase::Running => 3,
        };
        let phases = phases
            .iter()
            .enumerate()
            .map(|(at, phase)| (label("phase", *phase), f64::from(u8::from(at == now))));
        writer.gauge("transom_phase", "How far the proxy has come", phases.collect())?;
        let is = |yes: bool| one(f64::from(u8::from(yes)));
        writer.gauge("transom_serving", "Whether HNS follows the Services", is(verdict.is_serving()))?;
        writer.gauge(
            "transom_node_eligible",
            "Whether the own Node was seen and is not about to go",
            is(verdict.node_eligible),
        )?;
        let degraded = Reason::ALL.into_iter().map(|reason| {
            let found = verdict.degraded.iter().filter(|degraded| degraded.reason == reason);
            (label("reason", reason.to_string()), count(found.count()))
        });
        writer.gauge("transom_degraded", "What is not as it should be", degraded.collect())?;
        let failing = verdict.degraded.iter().filter(|degraded| degraded.effect != Effect::Shown);
        writer.gauge(
            "transom_degraded_failing",
            "How much of that makes /healthz fail",
            one(count(failing.count())),
        )?;
        writer.gauge(
            "transom_pending",
            "Frontends and deletions that are not done",
            one(count(seen.facts.pending)),
        )?;
        let passes = seen.facts.passes;
        writer.counter("transom_passes", "Passes that were made", one(count(passes.total)))?;
        let under_way = passes.under_way.map_or(Duration::ZERO, |since| seen.now.saturating_sub(since));
        writer.gauge(
            "transom_pass_under_way_seconds",
            "For how long the pass that is under way has been",
            one(under_way.as_secs_f64()),
        )?;
        writer.counter(
            "transom_repairs",
            "Differences found in HNS that the proxy had not made",
            one(count(seen.facts.repairs)),
        )
    }

    fn services(&self, writer: &mut Writer<'_>, facts: &Facts) -> fmt::Result {
        let mut frontends =
            BTreeMap::from([("programmed", 0_usize), ("pending", 0), ("waiting", 0), ("failed", 0)]);
        let mut conditions: BTreeMap<(String, &str), usize> = BTreeMap::new();
        let (mut left_out, mut unused) = (0_usize, 0_usize);
        let services = self.0.state.services();
        for (_, entry) in &services {
            left_out += entry.left_out;
            for frontend in &entry.status.frontends {
                let state = match frontend.state {
                    FrontendState::Programmed => "programmed",
                    FrontendState::Pending => "pending",
                    FrontendState::Waiting { .. } => "waiting",
                    FrontendState::Failed { .. } => "failed",
                };
                *frontends.entry(state).or_default() += 1;
                unused += frontend.left_out.len();
            }
            for condition in &entry.status.conditions {
                *conditions.entry((condition.reason.to_string(), "service")).or_default() += 1;
            }
            for (reason, _, _) in &entry.unsupported {
                *conditions.entry((reason.clone(), "service")).or_default() += 1;
            }
        }
        for condition in &facts.conditions {
            *conditions.entry((condition.reason.to_string(), "node")).or_default() += 1;
        }
        writer.gauge("transom_services", "Services that are served", one(count(services.len())))?;
        let by_state = frontends.into_iter().map(|(state, number)| (label("state", state), count(number)));
        writer.gauge("transom_frontends", "Frontends that are wanted, by state", by_state.collect())?;
        let conditions = conditions.into_iter().map(|((reason, scope), number)| {
            (vec![("reason", reason), ("scope", scope.to_owned())], count(number))
        });
        writer.gauge("transom_conditions", "Conditions of Services and of the node", conditions.collect())?;
        let now = self.0.state.clock().now();
        let oldest = facts.unserved.values().map(|open| now.saturating_sub(open.since)).max();
        writer.gauge(
            "transom_frontends_unserved",
            "Frontends that are wanted and not programmed",
            one(count(facts.unserved.len())),
        )?;
        writer.gauge(
            "transom_frontend_unserved_longest_seconds",
            "For how long the oldest of them has not been",
            one(oldest.unwrap_or_default().as_secs_f64()),
        )?;
        writer.gauge(
            "transom_endpoints_left_out",
            "Endpoints that serve nothing: by the Services themselves, or because HNS cannot use them",
            vec![(label("by", "service"), count(left_out)), (label("by", "hns"), count(unused))],
        )
    }

    fn listeners(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let listeners = self.0.board.listeners();
        let up = listeners.iter().filter(|(name, _)| name.as_str() != "check").map(|(name, (up, down))| {
            (label("listener", name.clone()), f64::from(u8::from(*up > 0 && *down == 0)))
        });
        writer.gauge("transom_listener_up", "Whether an address is listened on", up.collect())?;
        let (up, down) = listeners.get("check").copied().unwrap_or_default();
        writer.gauge(
            "transom_health_check_ports",
            "Ports of Services' health checks",
            vec![(label("state", "listening"), count(up)), (label("state", "failed"), count(down))],
        )?;
        writer.counter(
            "transom_listen_failures",
            "Attempts to listen that failed",
            one(count(self.0.board.attempts_failed())),
        )
    }
}

fn objects(writer: &mut Writer<'_>, facts: &Facts) -> fmt::Result {
    let census = &facts.census;
    let of = |kind: &'static str, by_state: &BTreeMap<&'static str, usize>| -> Samples {
        let sample = |(state, number): (&&'static str, &usize)| {
            (vec![("kind", kind.to_owned()), ("state", (*state).to_owned())], count(*number))
        };
        by_state.iter().map(sample).collect()
    };
    let mut samples = of("LoadBalancer", &census.balancers);
    samples.extend(of("Endpoint", &census.endpoints));
    writer.gauge("transom_hns_objects", "What HNS was last read to hold", samples)?;
    let pools = census.pools.iter().map(|pool| {
        let labels =
            vec![("ip_family", family_name(pool.family).to_owned()), ("protocol", pool.protocol.clone())];
        (labels, count(pool.taken))
    });
    writer.gauge(
        "transom_port_pool_blocks_used",
        "Blocks of 64 dynamic ports that load balancers without direct server return take",
        pools.collect(),
    )?;
    writer.gauge(
        "transom_port_pool_blocks",
        "Blocks that each pool has",
        one(count(u64::from(census.pool_size))),
    )
}

fn calls(writer: &mut Writer<'_>, meters: &Meters, hns: Option<&HnsSeen>) -> fmt::Result {
    let labels = |operation: proxy::meter::Operation, kind: Option<hcn::Kind>| -> Pairs {
        let kind = kind.map(|kind| kind.to_string()).unwrap_or_default();
        vec![("operation", operation.name().to_owned()), ("kind", kind)]
    };
    let latency = meters.figures.iter().map(|((operation, kind), figures)| {
        let mut bounded: Vec<(f64, u64)> = LATENCY_BOUNDS
            .iter()
            .zip(figures.classes)
            .map(|(&bound, number)| (Duration::from_millis(bound).as_secs_f64(), number))
            .collect();
        let within: u64 = figures.classes.iter().sum();
        bounded.push((f64::INFINITY, figures.calls.saturating_sub(within)));
        let classes = Classes { sum: figures.total.as_secs_f64(), count: figures.calls, bounded };
        (labels(*operation, *kind), classes)
    });
    writer.histogram("transom_hns_call_duration_seconds", "How long calls of HNS took", latency.collect())?;
    let longest = meters
        .figures
        .iter()
        .map(|((operation, kind), figures)| (labels(*operation, *kind), figures.longest.as_secs_f64()));
    writer.gauge("transom_hns_call_longest_seconds", "How long the longest took", longest.collect())?;
    let total = meters
        .figures
        .iter()
        .map(|((operation, kind), figures)| (labels(*operation, *kind), count(figures.calls)));
    writer.counter("transom_hns_calls", "Calls of HNS that returned", total.collect())?;
    let errors = meters.errors.iter().map(|((operation, kind, code), number)| {
        let mut labels = labels(*operation, *kind);
        labels.push(("code", code.name().into_owned()));
        labels.push(("class", format!("{:?}", code.class())));
        (labels, count(*number))
    });
    writer.counter("transom_hns_call_errors", "Calls of HNS that failed, by error code", errors.collect())?;
    let under_way = hns.and_then(|hns| hns.under_way).map_or(Duration::ZERO, |(_, _, since)| since);
    writer.gauge(
        "transom_hns_call_under_way_seconds",
        "For how long the oldest call of HNS has been under way; 0: there is none",
        one(under_way.as_secs_f64()),
    )
}

fn api(writer: &mut Writer<'_>, seen: &Seen) -> fmt::Result {
    let resources = &seen.api.resources;
    let of = |pick: fn(&crate::api::ApiResource) -> u64| -> Samples {
        resources.iter().map(|it| (label("resource", it.name.clone()), count(pick(it)))).collect()
    };
    writer.gauge(
        "transom_api_synced",
        "Whether all objects were known once",
        of(|it| u64::from(it.synced)),
    )?;
    let states =
        resources.iter().map(|it| (vec![("resource", it.name.clone()), ("state", it.state.clone())], 1.0));
    writer.gauge("transom_api_watch_state", "What a watch is at", states.collect())?;
    writer.gauge("transom_api_objects", "Objects that are known", of(|it| it.objects))?;
    writer.counter("transom_api_lists", "How often all objects were read", of(|it| it.lists))?;
    writer.counter("transom_api_events", "Changes that came", of(|it| it.events))?;
    writer.counter("transom_api_failures", "Requests that failed", of(|it| it.failures))?;
    writer.counter("transom_api_refused", "Objects that could not be taken", of(|it| it.refused))?;
    let outage = seen.api.outage.map_or(Duration::ZERO, |since| seen.now.saturating_sub(since));
    writer.gauge(
        "transom_api_outage_seconds",
        "For how long the API cannot be followed",
        one(outage.as_secs_f64()),
    )
}
