//! Calls on an emulated HNS: single v1 calls, scripts of calls, and the fault plans that steer them.

use std::sync::Arc;

use hcn::api::{V1Method, V1Response};
use hcn::time::{Clock, ManualClock, SeededEntropy};
use hcn::{Guid, Hcn, HcnExt, Kind, Query};
use hns::faults::{FaultPlan, Loss};
use hns::{Hns, Options, Profile};

use crate::{Verdict, text};

/// Longer scripts find nothing that shorter ones do not.
const MOST_CALLS: usize = 64;

/// Plans of faults in YAML.
pub fn fault_plan(data: &[u8]) -> Verdict {
    let Ok(plan) = FaultPlan::from_yaml(&text(data)) else {
        return Verdict::Refused;
    };
    // Durations are rounded when they are written, so the two need not be equal.
    let written = plan.to_yaml();
    let again = FaultPlan::from_yaml(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    let shape = |plan: &FaultPlan| (plan.seed, plan.latency.len(), plan.rules.len(), plan.actions.len());
    assert_eq!(shape(&plan), shape(&again), "lost in a round trip:\n{written}");
    Verdict::Read
}

/// An HNS that does the same for the same calls.
fn hns(profile: Profile) -> (Hns, ManualClock) {
    let clock = ManualClock::jumping();
    let mut options = Options::new(profile);
    options.clock = Arc::new(clock.clone());
    options.entropy = Arc::new(SeededEntropy::new(1));
    (Hns::open(options).expect("nothing of it can be wrong"), clock)
}

/// One v1 call on an HNS with a network and an endpoint: `METHOD PATH` on the first line, the body after it.
pub fn v1_call(data: &[u8]) -> Verdict {
    let text = text(data);
    let (line, body) = text.split_once('\n').unwrap_or((&text, ""));
    let (method, path) = line.split_once(' ').unwrap_or((line, ""));
    let Some(method) = V1Method::parse(method) else {
        return Verdict::Refused;
    };
    let (hns, _clock) = hns(Profile::Ws2022);
    let network = Guid::from_u128(0xF0);
    let made = hns.create(Kind::Network, None, network, r#"{"Name":"nat","Type":"NAT"}"#);
    assert_eq!(made.ok(), Some(network));
    let endpoint = hns.create(Kind::Endpoint, Some(network), Guid::from_u128(0xE0), r#"{"Name":"eth0"}"#);
    assert!(endpoint.is_ok(), "{endpoint:?}");
    let Ok(answer) = hns.call_v1(method, path.trim(), body) else {
        return Verdict::Refused;
    };
    let answer = V1Response::parse(&answer).expect("every answer is an envelope");
    leaves_nothing(&hns);
    if answer.success { Verdict::Read } else { Verdict::Refused }
}

/// A script of calls, one a line: `create KIND JSON`, `modify KIND ID JSON`, `delete KIND ID`, `list KIND JSON`,
/// `v1 METHOD PATH BODY`, `restart`, `wait`. `$N` stands for the id of the object that was made as number N. The
/// first line may name a profile.
pub fn hns_calls(data: &[u8]) -> Verdict {
    let text = text(data);
    let profile = text.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(Profile::Ws2022);
    let (hns, clock) = hns(profile);
    let mut made = Vec::new();
    let mut verdict = Verdict::Refused;
    for line in text.lines().filter(|line| !line.trim().is_empty()).take(MOST_CALLS) {
        let line = with_ids(line, &made);
        if call(&hns, &clock, &line, &mut made).is_some() {
            verdict = Verdict::Read;
        }
    }
    can_be_read(&hns);
    leaves_nothing(&hns);
    verdict
}

/// A line with the ids that it speaks of; an object that was not made has the nil id.
fn with_ids(line: &str, made: &[Guid]) -> String {
    let mut parts = line.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let number: usize = part[..digits].parse().unwrap_or(usize::MAX);
        out.push_str(&made.get(number).copied().unwrap_or(Guid::NIL).to_string());
        out.push_str(&part[digits..]);
    }
    out
}

fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "network" => Kind::Network,
        "endpoint" => Kind::Endpoint,
        "namespace" => Kind::Namespace,
        "loadbalancer" => Kind::LoadBalancer,
        "route" => Kind::SdnRoute,
        _ => return None,
    })
}

/// Carries a line out; `None` when it is no call or is refused.
fn call(hns: &Hns, clock: &ManualClock, line: &str, made: &mut Vec<Guid>) -> Option<()> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "restart" => hns.restart(Loss::None).ok(),
        "wait" => {
            clock.sleep(std::time::Duration::from_mins(1));
            Some(())
        }
        "v1" => {
            let mut words = rest.splitn(3, ' ');
            let method = V1Method::parse(words.next()?)?;
            let answer = hns.call_v1(method, words.next()?, words.next().unwrap_or_default()).ok()?;
            V1Response::parse(&answer).expect("every answer is an envelope").success.then_some(())
        }
        _ => {
            let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let kind = kind(word)?;
            let (id, settings) = rest.split_once(' ').unwrap_or((rest, ""));
            match verb {
                "create" => {
                    // An endpoint is made on the network that its document names.
                    let network = (kind == Kind::Endpoint)
                        .then(|| hcn::v1::read_endpoint(rest).ok()?.network)
                        .flatten();
                    made.push(hns.create(kind, network, Guid::NIL, rest).ok()?);
                    Some(())
                }
                "modify" => hns.modify(kind, id.parse().ok()?, settings).ok(),
                "delete" => hns.delete(kind, id.parse().ok()?).ok(),
                "list" => hns.enumerate(kind, &Query::from_text(rest).ok()?).ok().map(drop),
                _ => None,
            }
        }
    }
}

/// Whatever an HNS has taken in, it gives out in a form that can be read.
fn can_be_read(hns: &Hns) {
    for kind in Kind::ALL {
        for id in hns.enumerate(kind, &Query::all()).expect("a list of all") {
            for query in [Query::all(), Query::default()] {
                let text = hns.query(kind, id, &query).expect("what is listed can be queried");
                let read = match kind {
                    Kind::Network => hcn::v1::read_network(&text).map(drop),
                    Kind::Endpoint => hcn::v1::read_endpoint(&text).map(drop),
                    Kind::Namespace => hcn::v1::read_namespace(&text).map(drop),
                    Kind::LoadBalancer => hcn::v1::read_load_balancer(&text).map(drop),
                    Kind::SdnRoute => hcn::v1::read_route(&text).map(drop),
                };
                assert!(read.is_ok(), "{kind} {id}: {read:?}\n{text}");
            }
        }
    }
}

/// When everything is deleted, from the top down, nothing is left: no object, no port.
fn leaves_nothing(hns: &Hns) {
    for kind in [Kind::LoadBalancer, Kind::SdnRoute, Kind::Endpoint, Kind::Namespace, Kind::Network] {
        for id in hns.enumerate(kind, &Query::all()).expect("a list of all") {
            let deleted = hns.delete(kind, id);
            let gone = hns.enumerate(kind, &Query::by_id(id)).expect("a list by id").is_empty();
            assert_eq!(deleted.is_ok(), gone, "{kind} {id}: {deleted:?}");
        }
    }
    let left: Vec<_> = hns.list::<hcn::Network>(&Query::all()).expect("a list of all");
    assert!(left.is_empty(), "networks are left: {left:?}");
    for space in hns.ports().spaces {
        assert!(space.blocks.is_empty() && space.ports.is_empty(), "ports are left: {space:?}");
    }
}
