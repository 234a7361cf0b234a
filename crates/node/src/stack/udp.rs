//! UDP of one stack: servers that answer each datagram, clients that ask again until they are answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use wire::build::{FrameBuilder, IcmpError};
use wire::{Ip, L4, Mac};

use super::{Claimed, ClientId, Stack, StackDrop};
use crate::app::{self, Answer, Transport};

/// Between two requests of a client.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Waiting {
    from: SocketAddr,
    to: SocketAddr,
    payload: usize,
    next: Duration,
}

/// The clients that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Udp {
    waiting: BTreeMap<ClientId, Waiting>,
}

impl Udp {
    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.waiting.values().map(|waiting| waiting.next).min()
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        self.waiting.remove(&client);
    }

    pub(super) fn uses(&self, from: SocketAddr) -> bool {
        self.waiting.values().any(|waiting| waiting.from == from)
    }

    /// Requests that are due, and when the next ones are.
    fn due(&mut self, now: Duration) -> Vec<(SocketAddr, SocketAddr, usize)> {
        let mut due = Vec::new();
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.next <= now) {
            waiting.next = now + RETRY;
            due.push((waiting.from, waiting.to, waiting.payload));
        }
        due
    }

    fn client_at(&self, local: SocketAddr, remote: SocketAddr) -> Option<(ClientId, usize)> {
        self.waiting
            .iter()
            .find(|(_, waiting)| waiting.from == local && waiting.to == remote)
            .map(|(id, waiting)| (*id, waiting.payload))
    }
}

impl Stack {
    pub(super) fn start_udp(&mut self, client: ClientId, from: SocketAddr, to: SocketAddr, payload: usize) {
        self.udp.waiting.insert(client, Waiting { from, to, payload, next: self.now });
        self.poll_udp();
    }

    pub(super) fn poll_udp(&mut self) {
        for (from, to, payload) in self.udp.due(self.now) {
            let mut data = app::request_line(payload).into_bytes();
            data.extend(app::filler(payload));
            self.send_datagram(from, to, &data);
        }
    }

    fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, data: &[u8]) {
        // Longer ones than UDP can carry are cut by nobody.
        if data.len() > 65_000 {
            return self.count_drop(StackDrop::TooBig);
        }
        let frame = FrameBuilder::eth(Mac::ZERO, Mac::ZERO)
            .ip(from.ip(), to.ip())
            .df(true)
            .udp(from.port(), to.port())
            .payload(data)
            .build();
        self.send(frame);
    }

    /// A datagram for one of the stack's own addresses.
    pub(super) fn datagram(&mut self, frame: Vec<u8>, ip: &Ip) {
        let L4::Udp { sport, dport, len } = ip.l4 else { return };
        let data = ip.payload_offset()..(ip.l4_offset() + usize::from(len)).min(ip.end());
        if self.claims.contains(&dport) {
            self.claimed.push(Claimed { frame, data });
            return;
        }
        let (local, remote) = (SocketAddr::new(ip.dst, dport), SocketAddr::new(ip.src, sport));
        let bytes = frame.get(data).unwrap_or_default();
        if let Some((client, payload)) = self.udp.client_at(local, remote) {
            if let Some(outcome) = app::read_answer(bytes, payload) {
                self.udp.forget(client);
                self.finish(client, outcome);
            }
        } else if let Some(name) = self.servers.get(&(Transport::Udp, dport)) {
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return };
            let (line, rest) = bytes.split_at(end);
            if app::read_request(line).is_none() {
                return;
            }
            let answer = Answer { server: name.clone(), local, peer: remote };
            let mut out = answer.line().into_bytes();
            out.extend_from_slice(rest.get(1..).unwrap_or_default());
            self.send_datagram(local, remote, &out);
        } else {
            self.complain(&frame, ip, IcmpError::PortUnreachable);
        }
    }
}
