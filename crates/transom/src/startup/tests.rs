//! The decisions as tables, and the waiting beside an emulated HNS in virtual time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use hcn::time::{Clock, ManualClock};
use hcn::{Guid, Hcn, Kind};
use hns::faults::{Fault, FaultRule};
use hns::{Hns, Options, Profile};
use serde_json::json;

use super::*;

fn found(name: &str) -> Resolution {
    Resolution::Found(name.to_owned())
}

#[test]
fn a_text_means_networks() {
    let several = |names: &[&str]| Resolution::Ambiguous(names.iter().map(|&name| name.to_owned()).collect());
    let table: &[(&str, &[&str], Resolution)] = &[
        // Names.
        ("Calico", &["External", "Calico"], found("Calico")),
        ("Calico", &["External", "Calico-10-0-1-0"], Resolution::Missing),
        ("Calico", &["calico"], Resolution::Missing),
        (" Calico ", &["Calico"], found("Calico")),
        ("flannel.4096", &["flannelx4096"], Resolution::Missing),
        ("flannel.4096", &["flannelx4096", "flannel.4096"], found("flannel.4096")),
        ("cbr0", &[], Resolution::Missing),
        ("cbr0", &["cbr0", "cbr0"], found("cbr0")),
        // Patterns match the whole name.
        ("Calico.*", &["External", "Calico"], found("Calico")),
        ("Calico.*", &["nat", "Calico-10-0-1-0"], found("Calico-10-0-1-0")),
        ("Calico.*", &["Not-Calico", "calico"], Resolution::Missing),
        ("(?i)calico.*", &["Calico"], found("Calico")),
        (".*alic.*", &["Not-Calico"], found("Not-Calico")),
        ("a|b", &["ab", "b"], found("b")),
        ("^Calico$", &["Calico"], found("Calico")),
        ("Calico-[0-9-]+", &["Calico", "Calico-1-2"], found("Calico-1-2")),
        // One name twice is one answer; two names are none.
        ("Calico.*", &["Calico-1", "Calico-1"], found("Calico-1")),
        ("Calico.*", &["Calico-2", "nat", "Calico-1"], several(&["Calico-1", "Calico-2"])),
        // Whoever is called as the text is meant first.
        ("Calico*", &["Calic", "Calico*", "Calicoo"], found("Calico*")),
    ];
    for (text, names, want) in table {
        let pattern = NetworkPattern::parse(text).expect(text);
        assert_eq!(pattern.resolve(names.iter().copied()), *want, "{text:?} among {names:?}");
    }
}

#[test]
fn a_text_that_is_neither_is_refused() {
    let table = [
        ("", "it is blank"),
        ("  ", "it is blank"),
        ("Calico(", "unclosed group"),
        ("*", "repetition operator"),
        ("a)(b", "unopened group"),
    ];
    for (text, why) in table {
        let error = NetworkPattern::parse(text).expect_err(text).to_string();
        assert!(error.contains(why) && error.contains("give a name"), "{text:?}: {error}");
    }
}

#[test]
fn what_is_found_becomes_a_setting() {
    let defaults = Config::default().source_vip_endpoints;
    let table: &[(&str, &str, &[&str])] = &[
        ("Calico", "Calico", &[]),
        ("Calico.*", "Calico", &[]),
        ("Calico.*", "Calico-10-0-1-0", &["Calico-10-0-1-0_ep"]),
        ("cbr0", "cbr0", &[]),
    ];
    for (text, network, more) in table {
        let mut config = Config::default();
        settle(&mut config, &NetworkPattern::parse(text).expect(text), network);
        let wanted: Vec<String> =
            defaults.iter().cloned().chain(more.iter().map(|&name| name.to_owned())).collect();
        assert_eq!(
            (config.network_name.as_str(), &config.source_vip_endpoints),
            (*network, &wanted),
            "{text}"
        );
    }
}

fn make(hns: &dyn Hcn, name: &str, third: u8) -> Guid {
    let document = json!({
        "Name": name, "Type": "NAT", "SchemaVersion": { "Major": 2, "Minor": 0 },
        "Ipams": [{ "Subnets": [{
            "IpAddressPrefix": format!("10.9.{third}.0/24"),
            "Routes": [{ "NextHop": format!("10.9.{third}.1"), "DestinationPrefix": "0.0.0.0/0" }],
        }] }],
    });
    hns.create(Kind::Network, None, Guid::NIL, &document.to_string()).expect("a network")
}

/// What happens to HNS in which second.
type Step = (u64, fn(&Hns));

/// A clock that lets things happen while somebody sleeps.
struct Story {
    clock: ManualClock,
    hns: Hns,
    steps: Mutex<VecDeque<Step>>,
}

impl Story {
    fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        let hns = Hns::open(Options::new(Profile::Ws2022)).expect("an HNS in memory");
        Self { clock: ManualClock::jumping(), hns, steps: Mutex::new(steps.into_iter().collect()) }
    }
}

impl Clock for Story {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
        let mut steps = self.steps.lock().expect("one thread");
        assert!(self.now() < Duration::from_mins(10), "nobody stops waiting");
        while let Some((_, step)) =
            steps.pop_front_if(|(second, _)| Duration::from_secs(*second) <= self.clock.now())
        {
            step(&self.hns);
        }
    }
}

fn wait(story: &Story, text: &str) -> (State, Vec<String>) {
    let mut told = Vec::new();
    let pattern = NetworkPattern::parse(text).expect(text);
    let pause = |pause| {
        story.sleep(pause);
        false
    };
    let state = await_network(&story.hns, &pattern, pause, |state| {
        told.push(format!("{}s: {state}", story.now().as_secs()));
    });
    (state.expect("nobody ends the waiting"), told)
}

#[test]
fn it_waits_until_the_network_is_there_and_tells_what_changes() {
    let story = Story::of([
        (3, (|hns| _ = make(hns, "External", 1)) as fn(&Hns)),
        (90, |hns| hns.faults().add(FaultRule::new(Fault::Down)).map(drop).expect("a rule")),
        (95, |hns| hns.faults().clear()),
        (360, |hns| _ = make(hns, "Calico", 2)),
    ]);
    let (state, told) = wait(&story, "Calico");
    assert_eq!(state, State::Found("Calico".to_owned()));
    assert_eq!(told[0], "0s: there is no HNS network \"Calico\", and no other; the CNI makes it");
    assert_eq!(
        told[1],
        "3s: there is no HNS network \"Calico\" among \"External\"; the CNI makes it, or --network-name must name another"
    );
    assert!(told[2].starts_with("90s: HNS cannot be asked for its networks: "), "{told:?}");
    assert_eq!(told[3], told[1].replace("3s", "95s"), "what was known is told again");
    assert_eq!(told[4], "360s: the HNS network \"Calico\" is there");
    assert_eq!(told.len(), 5, "each state once: {told:?}");
}

#[test]
fn the_waiting_can_be_ended() {
    let story = Story::of([]);
    let pattern = NetworkPattern::parse("Calico").expect("a name");
    let mut pauses = 0;
    let pause = |_| {
        pauses += 1;
        pauses == 3
    };
    assert_eq!(await_network(&story.hns, &pattern, pause, |_| {}), None);
    assert_eq!(pauses, 3);
}

#[test]
fn several_networks_end_the_waiting() {
    let story = Story::of([(
        2,
        (|hns| {
            make(hns, "Calico-10-0-2-0", 2);
            make(hns, "Calico-10-0-1-0", 1);
        }) as fn(&Hns),
    )]);
    let (state, told) = wait(&story, "Calico.*");
    assert!(matches!(&state, State::Ambiguous { networks, .. } if networks.len() == 2), "{state:?}");
    assert_eq!(
        told[1],
        "2s: --network-name \"Calico.*\" means 2 HNS networks: \"Calico-10-0-1-0\", \"Calico-10-0-2-0\"; give the name of one of them"
    );
}

#[test]
fn a_network_that_is_made_anew_under_another_name_is_found_again() {
    let story = Story::of([]);
    let pattern = NetworkPattern::parse("Calico.*").expect("a pattern");
    let first = make(&story.hns, "Calico-10-0-1-0", 1);
    assert_eq!(look(&story.hns, &pattern), State::Found("Calico-10-0-1-0".to_owned()));
    story.hns.delete(Kind::Network, first).expect("deleted");
    assert!(matches!(look(&story.hns, &pattern), State::Missing { .. }));
    make(&story.hns, "Calico-10-0-7-0", 7);
    assert_eq!(look(&story.hns, &pattern), State::Found("Calico-10-0-7-0".to_owned()));
}
