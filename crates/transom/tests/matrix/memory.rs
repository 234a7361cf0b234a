//! Every exchange of a setting, made in memory.

use std::fmt;
use std::time::Duration;

use node::app::{Request, Transport};
use node::sim::Client;
use transom::world::World;

use crate::ask::{self, Ask};
use crate::check::Seen;
use crate::expect::{self, Expected};

/// One client that asks one frontend.
pub(crate) struct Case {
    pub(crate) client: Client,
    pub(crate) ask: Ask,
    pub(crate) request: Request,
    pub(crate) expected: Expected,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.client, self.ask)
    }
}

/// Calls for every exchange, with its address led to the node that it is to come in by.
pub(crate) fn each(world: &mut World, mut act: impl FnMut(&mut World, Case)) {
    let clients = ask::clients(world);
    for ask in ask::asks(world) {
        if let Some(entry) = ask.entry.as_deref().filter(|_| ask.frontend.is_led()) {
            world.lead(ask.to.ip(), Some(entry));
        }
        for client in clients.iter().filter(|client| ask.everybody || **client == Client::Outside) {
            let Some(expected) = expect::expected(world, client, &ask) else { continue };
            let request = request(world, client, &ask);
            act(world, Case { client: client.clone(), ask: ask.clone(), request, expected });
        }
    }
}

fn request(world: &mut World, client: &Client, ask: &Ask) -> Request {
    let transport = if ask.udp { Transport::Udp } else { Transport::Tcp };
    // One who may be let in asks with the address that is.
    let own = if ask.sources.is_empty() { Vec::new() } else { expect::client_addresses(world, client) };
    let from = own.into_iter().find(|own| ask.sources.iter().any(|range| range.contains(own)));
    Request { from, ..Request::new(ask.to, transport) }
}

/// Asks, twice if the client is to keep its backend.
pub(crate) fn exchange(world: &mut World, case: &Case) -> Seen {
    let mut once = || {
        let exchange = world.simulation.exchange(&case.client, case.request.clone());
        exchange.expect("the client is there")
    };
    let first = once();
    let again = (case.ask.affinity && first.outcome.answer().is_some()).then(|| once().outcome);
    Seen { outcome: first.outcome, from: first.from, to: case.ask.to, again }
}

/// Whatever still waits for a neighbour gives up, so that the next exchange begins anew.
pub(crate) fn settle(world: &mut World, seen: &Seen) {
    if seen.outcome.answer().is_none() {
        world.simulation.run_for(Duration::from_mins(1));
    }
}
