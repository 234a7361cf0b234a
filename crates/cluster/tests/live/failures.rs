//! Failures of the server and of the way to it. What was told stays told; when the server is back, the source tells what differs.

use std::time::Duration;

use apiserver::server::StoreFate;
use apiserver::{ConnectProxy, Connecting, Credential, Effect, Gate, Match, Options, Rule, Status};
use bytes::Bytes;
use cluster::State;
use cluster::source::Settings;
use cluster::status::Resource;
use cluster::watching::Patience;
use services::ObjectKind;

use crate::rig::{Rig, Source, nodes, service, settings, slice};

fn shop() -> Rig {
    shop_with(Options::plain())
}

fn shop_with(options: Options) -> Rig {
    let rig = Rig::with(options);
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply(&nodes());
    for number in 1..=20 {
        rig.apply(&service(&format!("s{number}"), &format!("10.96.1.{number}")));
        rig.apply(&slice(&format!("s{number}"), &format!("10.244.1.{number}")));
    }
    rig
}

/// Everything that the server has, and nothing else, is known.
fn agrees(rig: &Rig, source: &Source) {
    let want: std::collections::BTreeSet<String> = rig
        .server
        .store()
        .list::<k8s_openapi::api::core::v1::Service>()
        .iter()
        .map(|service| format!("shop/{}", service.metadata.name.clone().unwrap_or_default()))
        .collect();
    source.until("what is known is what there is", |told| {
        told.names(ObjectKind::Service)
            .into_iter()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
            == want
    });
}

#[test]
fn each_way_in_which_a_watch_can_break_is_survived() {
    let status = |code| Status::of_code(code);
    let breaks: Vec<(&str, Effect)> = vec![
        ("in the middle of an object", Effect::CloseAfterBytes(1_500)),
        ("after some events", Effect::CloseAfterEvents(3)),
        ("at its end", Effect::EndAfterEvents(2)),
        (
            "with garbage",
            Effect::Garbage {
                after: 2,
                bytes: Bytes::from_static(b"{\"type\": \"ADDED\", \"object\": [}\n"),
            },
        ),
        ("with 410 as an event", Effect::ErrorEvent { after: 1, status: Status::expired(1, 5) }),
        ("with 500 as an event", Effect::ErrorEvent { after: 1, status: status(500) }),
        ("before it begins", Effect::CloseBeforeAnswer),
        ("with 500", Effect::Answer(status(500))),
        ("with 503", Effect::Answer(status(503))),
        ("with 504", Effect::Answer(status(504))),
        ("slowly", Effect::Slow { bytes: 400, every: Duration::from_millis(1) }),
    ];
    for (how, effect) in breaks {
        for streaming in [true, false] {
            let rig = shop();
            rig.server.features().set_streaming_lists(streaming);
            let rule =
                rig.server.faults().add(Rule::new(Match::of("watch", "services"), effect.clone()).times(3));
            let source = rig.source();
            source.synced();
            for number in 21..=30 {
                rig.apply(&service(&format!("s{number}"), &format!("10.96.1.{number}")));
            }
            rig.delete(&service("s1", "10.96.1.1"));
            agrees(&rig, &source);
            assert!(rig.server.faults().hits(rule) >= 1, "{how}, streaming: {streaming}");
        }
    }
}

#[test]
fn lists_that_break_are_begun_anew() {
    for (how, effect) in [
        ("in the middle of an object", Effect::CloseAfterBytes(2_000)),
        ("before the answer", Effect::CloseBeforeAnswer),
        ("with 500", Effect::Answer(Status::of_code(500))),
        ("with 429", Effect::Answer(Status::too_many_requests(0))),
    ] {
        let rig = shop();
        rig.server.features().set_streaming_lists(false);
        let rule = rig.server.faults().add(Rule::new(Match::of("list", "services"), effect).times(2));
        let source = rig.source();
        source.synced();
        agrees(&rig, &source);
        assert_eq!(rig.server.faults().hits(rule), 2, "{how}");
    }
}

#[test]
fn a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks() {
    // In the answer's body too, and by the header alone, as what limits requests in the server or stands before it says it.
    for busy in [Status::too_many_requests(1), Status::of_code(429).header("Retry-After", "1")] {
        let rig = shop();
        rig.server.features().set_streaming_lists(false);
        rig.server.faults().add(Rule::new(Match::of("list", "services"), Effect::Answer(busy)).once());
        let clock = hcn::time::SystemClock::default();
        let begun = hcn::time::Clock::now(&clock);
        let source = rig.source();
        source.until("Services are known", |told| told.synced.contains_key(&Resource::Services));
        // Nothing is asserted about how fast it is, only that it is not too fast.
        let waited = hcn::time::Clock::now(&clock).saturating_sub(begun);
        assert!(waited >= Duration::from_secs(1), "it has asked again after {waited:?}");
        agrees(&rig, &source);
    }
}

#[test]
fn a_server_that_cannot_answer_is_told_of_at_once_and_found_soon_when_it_can() {
    // As often as a load balancer without servers says so in a longer outage. Pauses that grew with each would last for minutes.
    const TIMES: u64 = 40;
    for code in [429, 503, 504] {
        let rig = shop();
        rig.server.features().set_streaming_lists(false);
        let fail = Effect::Answer(Status::of_code(code));
        let rule = rig.server.faults().add(Rule::new(Match::of("list", "services"), fail).times(TIMES));
        let source = rig.source();
        source.until_status("it is failing", |status| {
            status.resources.get(&Resource::Services).is_some_and(|services| {
                services.state == State::Failing
                    && services.error.as_deref().is_some_and(|error| error.contains(&code.to_string()))
            })
        });
        agrees(&rig, &source);
        assert_eq!(rig.server.faults().hits(rule), TIMES, "{code}");
        assert!(source.status(Resource::Services).failures >= TIMES, "{code}: each is told");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn connections_on_which_nothing_comes_are_probed() {
    let rig = shop();
    let source = rig.source();
    source.synced();
    until_probed(rig.server.address().port());
    let proxy = ConnectProxy::start().expect("the proxy starts");
    let connecting = Connecting { proxy_url: Some(proxy.url()), ..Connecting::default() };
    let source = Source::start(&settings(rig.kubeconfig(&Credential::None, &connecting)));
    source.synced();
    let port = proxy.url().rsplit_once(':').map(|(_, port)| port.trim_end_matches('/').to_owned());
    until_probed(port.and_then(|port| port.parse().ok()).expect("a port"));
}

/// Waits until the kernel probes each of our connections to a port, after 15 s of silence: it tells which timer runs for a socket,
/// and when it is over in hundredths of a second. <https://docs.kernel.org/networking/proc_net_tcp.html>
#[cfg(target_os = "linux")]
fn until_probed(port: u16) {
    let remote = format!(":{port:04X}");
    let sockets = || -> Vec<(String, u64)> {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel tells of its sockets");
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.len() > 5 && row[2].ends_with(&remote) && row[3] == "01")
            .map(|row| {
                let (timer, left) = row[5].split_once(':').expect("a timer");
                (timer.to_owned(), u64::from_str_radix(left, 16).expect("a time"))
            })
            .collect()
    };
    // A watch of each kind is open. While something is under way another timer runs; then the one that probes.
    let is_probed = |(timer, left): &(String, u64)| timer == "02" && *left <= 1_500;
    let clock = hcn::time::SystemClock::default();
    let end = hcn::time::Clock::now(&clock) + Duration::from_mins(1);
    loop {
        let now = sockets();
        if now.len() >= 3 && now.iter().all(is_probed) {
            break;
        }
        assert!(hcn::time::Clock::now(&clock) < end, "{now:?}");
        std::thread::yield_now();
    }
}

#[test]
fn what_happened_while_the_server_was_away_is_told_afterwards() {
    for fate in [StoreFate::Kept, StoreFate::Compacted] {
        let mut rig = shop();
        let source = rig.source();
        source.synced();
        source.until("all came", |told| told.names(ObjectKind::Service).len() == 20);
        rig.server.stop();
        source.until_status("the outage is seen", |status| {
            status.resources.get(&Resource::Services).is_some_and(|of| of.state == State::Failing)
        });
        // Nothing is forgotten.
        assert_eq!(source.told(|told| told.names(ObjectKind::Service).len()), 20);
        let status = source.status(Resource::Services);
        assert!(
            status.synced && status.error.is_some() && source.running.status().outage().is_some(),
            "{status:?}"
        );
        rig.delete(&service("s1", ""));
        rig.apply(&service("s21", "10.96.1.21"));
        rig.server.start_again(fate).expect("the server starts again");
        agrees(&rig, &source);
        source.until_status("the outage is over", |status| status.outage().is_none());
        assert_eq!(source.status(Resource::Services).error, None);
    }
}

#[test]
fn a_server_that_has_lost_everything_is_believed() {
    let mut rig = shop();
    let source = rig.source();
    source.synced();
    rig.server.restart(StoreFate::Lost).expect("the server starts again");
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply(&service("only", "10.96.1.1"));
    agrees(&rig, &source);
}

/// A server that is back before anybody has missed it: no request fails, the watch has only ended.
#[test]
fn a_server_that_was_replaced_unseen_is_found_out() {
    // What a streaming list begins with: the objects and the bookmark.
    for (streaming, before) in [(false, 0), (true, 21)] {
        for end in [Effect::EndAfterEvents, Effect::CloseAfterEvents] {
            let rig = shop();
            rig.server.features().set_streaming_lists(streaming);
            let faults = rig.server.faults();
            // Servers without streaming lists refuse the first watch.
            let rule = Rule::new(Match::of("watch", "services"), end(before + 1));
            let rule = faults.add(rule.skip(u64::from(!streaming)).once());
            let source = rig.source();
            source.synced();
            rig.server.activity().wait(|ledger| ledger.watching("services") == 1);
            let gate = Gate::new();
            faults.add(Rule::new(Match::any().resource("services"), Effect::Hang(gate.clone())));
            rig.apply(&service("last", "10.96.2.1"));
            // The next request is there before the store is lost, and answered after.
            rig.server.activity().wait(|ledger| ledger.watching("services") == 0);
            rig.server.store().lose();
            rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
            rig.apply(&service("only", "10.96.1.1"));
            gate.release();
            agrees(&rig, &source);
            assert_eq!(rig.server.faults().hits(rule), 1);
            assert_eq!(source.status(Resource::Services).failures, 0);
        }
    }
}

#[test]
fn a_server_that_has_forgotten_is_asked_for_everything_and_the_next_time_it_is_a_failure() {
    for (times, failures) in [(1, 0), (2, 1), (3, 2)] {
        let rig = shop();
        rig.server.features().set_streaming_lists(false);
        let expired = Effect::ErrorEvent { after: 0, status: Status::expired(1, 5) };
        // The first watch is refused, as it asks for a list.
        let rule = Rule::new(Match::of("watch", "services"), expired).skip(1).times(times);
        let rule = rig.server.faults().add(rule);
        let source = rig.source();
        source.until_status("a watch stands at last", |status| {
            status.resources.get(&Resource::Services).is_some_and(|of| of.lists == times + 1)
        });
        rig.apply(&service("s21", "10.96.1.21"));
        agrees(&rig, &source);
        assert_eq!(rig.server.faults().hits(rule), times);
        assert_eq!(source.status(Resource::Services).failures, failures, "{times} times");
    }
}

/// Its connections are alive, and nobody answers on them: no end comes that would tell.
#[test]
fn a_request_that_is_never_answered_is_a_failure() {
    for (streaming, verb) in [(false, "list"), (true, "watch")] {
        let rig = shop();
        rig.server.features().set_streaming_lists(streaming);
        let gate = Gate::new();
        rig.server.faults().add(Rule::new(Match::of(verb, "services"), Effect::Hang(gate.clone())));
        let answer = Duration::from_millis(300);
        let source = Source::start(&Settings {
            patience: Patience { answer, ..Patience::default() },
            ..rig.settings()
        });
        source.until_status("it is told", |status| {
            status.resources.get(&Resource::Services).is_some_and(|services| {
                let error = services.error.as_deref().unwrap_or_default();
                services.state == State::Failing && error.starts_with(verb) && error.contains("no answer")
            })
        });
        gate.release();
        agrees(&rig, &source);
    }
}

/// Something on the way has forgotten the connection: no end comes, and nothing else.
#[test]
fn a_watch_that_is_silent_is_taken_for_dead() {
    let usual = Patience::default();
    let brief = Duration::from_millis(20);
    for (how, failures, patience) in [
        // The server lets it last a second.
        ("at the end of its time", 1, Patience { lasts: 1, grace: brief, ..usual }),
        // Far sooner than it could last, because a server is silent that was known to send bookmarks.
        ("by its bookmarks", 0, Patience { quiet: Duration::from_secs(2), ..usual }),
    ] {
        let rig = shop_with(Options { bookmark_every: brief, ..Options::plain() });
        rig.server.features().set_streaming_lists(false);
        let faults = rig.server.faults();
        let of = || Match::of("watch", "services");
        // The first watch is refused, as it asks for a list.
        let bookmarks = failures == 0;
        let end = faults.add(Rule::new(of(), Effect::EndAfterEvents(2)).skip(1).times(u64::from(bookmarks)));
        let gate = Gate::new();
        let silent = Effect::Silent { after: 0, until: gate.clone() };
        let rule = faults.add(Rule::new(of(), silent).skip(1 + u64::from(bookmarks)).once());
        let source = Source::start(&Settings { patience, ..rig.settings() });
        source.synced();
        if bookmarks {
            // The server says where it is because something happens elsewhere.
            rig.server.activity().wait(|_| faults.hits(end) == 1);
            for number in 0.. {
                rig.apply(&slice("busy", &format!("10.244.2.{}", number % 250 + 1)));
                if faults.hits(rule) == 1 {
                    break;
                }
                std::thread::yield_now();
            }
        }
        rig.server.activity().wait(|_| faults.hits(rule) == 1);
        rig.apply(&service("s21", "10.96.1.21"));
        agrees(&rig, &source);
        let status = source.status(Resource::Services);
        // On a busy machine a later watch may be late too.
        assert!(status.failures >= failures && (failures > 0 || status.failures == 0), "{how}: {status:?}");
        assert_eq!(status.lists, 1, "{how}: {status:?}");
        gate.release();
    }
}

#[test]
fn changes_that_were_compacted_away_are_found_by_a_list() {
    let rig = shop();
    let cut = Rule::new(Match::of("watch", "services"), Effect::CloseBeforeAnswer);
    let source = rig.source();
    source.synced();
    let lists = source.status(Resource::Services).lists;
    let rule = rig.server.faults().add(cut);
    rig.server.faults().add(Rule::new(Match::of("watch", "services"), Effect::EndAfterEvents(0)));
    // The open watch ends with this change at the latest.
    rig.server.activity().wait(|ledger| ledger.watching("services") <= 1);
    rig.delete(&service("s3", ""));
    rig.apply(&service("s22", "10.96.1.22"));
    rig.server.store().compact_all();
    rig.server.faults().remove(rule);
    rig.server.faults().clear();
    agrees(&rig, &source);
    assert!(source.status(Resource::Services).lists >= lists);
}
