//! A machine with one stack whose interfaces are its ports: a plain host, a router, a client outside of the cluster.

use std::time::Duration;

use wire::Packet;

use crate::fabric::{Device, Outbox};
use crate::stack::Stack;

/// A machine with one stack; interface n is port n.
#[derive(Debug)]
pub struct Host {
    /// Its stack.
    pub stack: Stack,
}

impl Host {
    /// A host.
    pub fn new(stack: Stack) -> Self {
        Self { stack }
    }

    /// A router: a host that forwards.
    pub fn router(mut stack: Stack) -> Self {
        stack.set_forwarding(true);
        Self { stack }
    }

    /// Sends what the stack has to send; to be called after acting on the stack.
    pub fn flush(&mut self, out: &mut Outbox) {
        for (interface, frame) in self.stack.take_output() {
            out.send(interface, frame);
        }
    }
}

impl Device for Host {
    fn receive(&mut self, now: Duration, port: usize, frame: Packet, out: &mut Outbox) {
        self.stack.receive(now, port, frame.data());
        self.flush(out);
    }

    fn poll(&mut self, now: Duration, out: &mut Outbox) {
        self.stack.poll(now);
        self.flush(out);
    }

    fn next_timer(&mut self) -> Option<Duration> {
        self.stack.next_timer()
    }
}
