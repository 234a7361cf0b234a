//! Clients of one stack: which exchanges run, which port each has, how each ended. Pings are clients too.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use wire::build::FrameBuilder;
use wire::{Ip, L4, Mac};

use super::Stack;
use crate::app::{Exchange, Outcome, Request, Transport, Unreachable};

/// A client of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

#[derive(Debug)]
struct Running {
    request: Request,
    from: SocketAddr,
    started: Duration,
}

/// The clients of one stack.
#[derive(Debug)]
pub(super) struct Clients {
    next: u64,
    ports: RangeInclusive<u16>,
    /// The last port that was given out.
    last: u16,
    reserved: Vec<(Transport, RangeInclusive<u16>)>,
    running: BTreeMap<ClientId, Running>,
    finished: BTreeMap<ClientId, Exchange>,
    /// Echo replies: who, with which identifier and sequence number.
    echoed: Vec<(IpAddr, u16)>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            next: 0,
            ports: 49152..=65535,
            last: 65535,
            reserved: Vec::new(),
            running: BTreeMap::new(),
            finished: BTreeMap::new(),
            echoed: Vec::new(),
        }
    }
}

impl Clients {
    pub(super) fn set_ports(&mut self, ports: RangeInclusive<u16>) {
        self.last = *ports.end();
        self.ports = ports;
    }

    pub(super) fn reserve(&mut self, reserved: Vec<(Transport, RangeInclusive<u16>)>) {
        self.reserved = reserved;
    }

    pub(super) fn finished(&self, client: ClientId) -> Option<&Exchange> {
        self.finished.get(&client)
    }

    pub(super) fn take(&mut self, client: ClientId) -> Option<Exchange> {
        self.finished.remove(&client)
    }

    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.running.values().map(|running| running.started + running.request.timeout).min()
    }
}

impl Stack {
    /// Starts an exchange. Its end is seen with [`exchange`](Stack::exchange).
    pub fn request(&mut self, now: Duration, request: Request) -> ClientId {
        self.now = self.now.max(now);
        let id = ClientId(self.clients.next);
        self.clients.next += 1;
        match self.client_end(&request) {
            Ok(from) => {
                let (to, payload, transport) = (request.to, request.payload, request.transport);
                self.clients.running.insert(id, Running { request, from, started: self.now });
                match transport {
                    Transport::Tcp => {
                        let mtu = self.interface_mtu(from.ip());
                        if !self.tcp.connect(self.now, id, from, to, payload, mtu) {
                            self.finish(id, Outcome::Unreachable(Unreachable::NoRoute));
                        }
                    }
                    Transport::Udp => self.start_udp(id, from, to, payload),
                }
                self.settle();
            }
            Err(why) => {
                let outcome = Outcome::Unreachable(why);
                let exchange =
                    Exchange { request, from: None, started: self.now, took: Duration::ZERO, outcome };
                self.clients.finished.insert(id, exchange);
            }
        }
        id
    }

    /// The client's end of a connection.
    fn client_end(&mut self, request: &Request) -> Result<SocketAddr, Unreachable> {
        let to = request.to.ip();
        if !self.owns(to) && self.routes.lookup(to).is_none() {
            return Err(Unreachable::NoRoute);
        }
        let from = match request.from {
            Some(from) if self.owns(from) && from.is_ipv4() == to.is_ipv4() => from,
            Some(_) => return Err(Unreachable::NoSource),
            None => self.source_for(to).ok_or(Unreachable::NoSource)?,
        };
        let port = match request.port {
            Some(port) => port,
            None => self.free_port(request.transport, from).ok_or(Unreachable::NoPort)?,
        };
        Ok(SocketAddr::new(from, port))
    }

    /// The next port that is neither used nor reserved.
    fn free_port(&mut self, transport: Transport, from: IpAddr) -> Option<u16> {
        let (first, end) = (*self.clients.ports.start(), *self.clients.ports.end());
        let start =
            if self.clients.last >= end || self.clients.last < first { first } else { self.clients.last + 1 };
        let free = |port: &u16| {
            let reserved = &self.clients.reserved;
            let taken = reserved.iter().any(|(kind, ports)| *kind == transport && ports.contains(port));
            let used = match transport {
                Transport::Tcp => self.tcp.uses(from, *port),
                Transport::Udp => self.udp.uses(SocketAddr::new(from, *port)),
            };
            !taken && !used
        };
        let port = (start..=end).chain(first..start).find(free)?;
        self.clients.last = port;
        Some(port)
    }

    /// An exchange ends.
    pub(super) fn finish(&mut self, client: ClientId, outcome: Outcome) {
        if let Some(Running { request, from, started }) = self.clients.running.remove(&client) {
            let took = self.now.saturating_sub(started);
            let exchange = Exchange { request, from: Some(from), started, took, outcome };
            self.clients.finished.insert(client, exchange);
        }
    }

    /// Takes the ends of TCP exchanges over.
    pub(super) fn collect(&mut self) {
        for (client, outcome) in self.tcp.take_ended() {
            self.finish(client, outcome);
        }
    }

    /// Deadlines, and UDP requests that are due.
    pub(super) fn poll_clients(&mut self) {
        self.collect();
        let late: Vec<(ClientId, Transport)> = self
            .clients
            .running
            .iter()
            .filter(|(_, running)| running.started + running.request.timeout <= self.now)
            .map(|(id, running)| (*id, running.request.transport))
            .collect();
        for (client, transport) in late {
            self.stop(client, transport);
            self.finish(client, Outcome::TimedOut);
        }
        self.poll_udp();
    }

    fn stop(&mut self, client: ClientId, transport: Transport) {
        match transport {
            Transport::Tcp => self.tcp.abandon(self.now, client),
            Transport::Udp => self.udp.forget(client),
        }
    }

    /// An ICMP error about what a client sent. An open connection outlives it (RFC 1122).
    pub(super) fn fail_client(
        &mut self,
        transport: Transport,
        from: SocketAddr,
        to: SocketAddr,
        outcome: Outcome,
    ) {
        let concerned = self.clients.running.iter().find(|(_, running)| {
            running.from == from && running.request.to == to && running.request.transport == transport
        });
        let Some(client) = concerned.map(|(id, _)| *id) else { return };
        if transport == Transport::Udp || self.tcp.is_connecting(client) {
            self.finish(client, outcome);
            self.stop(client, transport);
        }
    }

    /// Sends an echo request with 56 bytes of data.
    pub fn ping(&mut self, now: Duration, to: IpAddr, id: u16, sequence: u16) {
        self.now = self.now.max(now);
        let Some(from) = self.source_for(to) else { return };
        let builder = FrameBuilder::eth(Mac::ZERO, Mac::ZERO).ip(from, to);
        let builder = if to.is_ipv4() {
            builder.icmp_echo(true, id, sequence)
        } else {
            builder.icmp6_echo(true, id, sequence)
        };
        self.send(builder.payload(&[0x2a; 56]).build());
        self.settle();
    }

    /// Whether an echo with this identifier came back from an address; asks once.
    pub fn take_echo(&mut self, from: IpAddr, id: u16) -> bool {
        let before = self.clients.echoed.len();
        self.clients.echoed.retain(|echo| *echo != (from, id));
        self.clients.echoed.len() != before
    }

    pub(super) fn echoed(&mut self, _frame: &[u8], ip: &Ip) {
        /// How many echoes are kept for those who ask.
        const MOST: usize = 1024;
        if let L4::Icmp { id, .. } | L4::Icmp6 { id, .. } = ip.l4 {
            if self.clients.echoed.len() >= MOST {
                self.clients.echoed.remove(0);
            }
            self.clients.echoed.push((ip.src, id));
        }
    }
}
