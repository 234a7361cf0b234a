//! The exchanges of a setting with real sockets, from the network namespaces of a lab.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hcn::time::SystemClock;
use lab::exchange::exchange_in;
use lab::netns::Netns;
use lab::supervisor::methods;
use node::app::{Exchange, Outcome, Request};
use node::sim::Client;
use serde_json::json;

use crate::check::Seen;
use crate::expect::Expected;
use crate::lab_support::Lab;
use crate::memory::Case;

/// How many ask at once: most of the time they wait for what does not come.
const AT_ONCE: usize = 32;

/// When a client gives up that must be answered. A SYN that is lost comes again after one and after three seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// When a client gives up that must not be: the second SYN has had its time too.
const SILENCE: Duration = Duration::from_millis(1500);

/// What took longer than this has lost a packet, or was not given the processor.
const SLOW: Duration = Duration::from_millis(900);

/// What was seen of one exchange.
pub(crate) struct Real {
    pub(crate) seen: Seen,
    /// It was answered at the second attempt only.
    pub(crate) flaky: bool,
    /// It was answered late.
    pub(crate) slow: bool,
    /// How long the first exchange took.
    pub(crate) took: Duration,
}

/// Makes all exchanges of the cases, in their order.
pub(crate) fn exchanges(lab: &Lab, cases: &[&Case]) -> Vec<Real> {
    let places = places(lab, cases);
    let mut done: BTreeMap<usize, Real> = BTreeMap::new();
    // Those that ask led addresses one entry after the other, for an address is led to one node at a time.
    let mut groups: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (number, case) in cases.iter().enumerate() {
        let entry = case.ask.entry.as_deref().filter(|_| case.ask.frontend.is_led());
        groups.entry(entry).or_default().push(number);
    }
    for (entry, group) in groups {
        if let Some(entry) = entry {
            let led: BTreeSet<IpAddr> =
                group.iter().filter_map(|&number| Some(cases.get(number)?.ask.to.ip())).collect();
            lead(lab, &led, entry);
        }
        let jobs: Vec<(usize, &Case)> =
            group.iter().filter_map(|&number| Some((number, *cases.get(number)?))).collect();
        done.extend(together(&jobs, |case| ask(&places, &lab.clock(), case)));
    }
    done.into_values().collect()
}

/// The namespaces of the clients.
fn places(lab: &Lab, cases: &[&Case]) -> BTreeMap<String, Netns> {
    let clients: BTreeSet<String> = cases.iter().map(|case| place(&case.client)).collect();
    clients.into_iter().map(|place| (place.clone(), lab.netns(&place))).collect()
}

fn place(client: &Client) -> String {
    match client {
        Client::Pod(pod) => pod.clone(),
        Client::Node(node) => format!("node/{node}"),
        Client::Outside => "outside".to_owned(),
    }
}

/// Leads addresses to a node.
fn lead(lab: &Lab, addresses: &BTreeSet<IpAddr>, node: &str) {
    let supervisor = lab.supervisor();
    for address in addresses {
        let led = supervisor.call_extension(methods::LEAD, &json!({"address": address, "node": node}));
        led.unwrap_or_else(|error| panic!("{address} is led to {node}: {error}"));
    }
}

/// Does jobs on several threads.
fn together<'a, R: Send>(jobs: &[(usize, &'a Case)], act: impl Fn(&'a Case) -> R + Sync) -> Vec<(usize, R)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((number, case)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*number, act(case)));
        }
        done
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE.min(jobs.len())).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(thread::ScopedJoinHandle::join);
        done.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// One exchange, twice if the client is to keep its backend.
fn ask(places: &BTreeMap<String, Netns>, clock: &SystemClock, case: &Case) -> Real {
    let netns = places.get(&place(&case.client)).expect("every client has its place");
    let answered = matches!(case.expected, Expected::Answer(_));
    let timeout = if answered { PATIENCE } else { SILENCE };
    let request = Request { timeout, ..case.request.clone() };
    let (mut flaky, mut slow) = (false, false);
    let mut once = || -> Exchange {
        let attempt = || exchange_in(netns, &request, clock).expect("the namespace is there");
        let mut exchange = attempt();
        if answered && exchange.outcome == Outcome::TimedOut {
            exchange = attempt();
            flaky |= exchange.outcome.answer().is_some();
        }
        slow |= exchange.outcome.answer().is_some() && exchange.took > SLOW;
        exchange
    };
    let first = once();
    let again = (case.ask.affinity && first.outcome.answer().is_some()).then(|| once().outcome);
    let seen = Seen { outcome: first.outcome, from: first.from, to: case.ask.to, again };
    Real { seen, flaky, slow, took: first.took }
}
