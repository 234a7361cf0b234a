//! A machine of a simulation, whichever kind it is.

use std::time::Duration;

use wire::Packet;

use crate::fabric::{Device, LearningSwitch, Outbox};
use crate::host::Host;
use crate::linux::LinuxNode;
use crate::stack::Stack;
use crate::windows::WindowsNode;

/// A machine of a simulation.
#[derive(Debug)]
pub enum Machine {
    /// A switch of the underlay.
    Switch(LearningSwitch),
    /// A router, or a host that is no node.
    Host(Box<Host>),
    /// A Linux node.
    Linux(Box<LinuxNode>),
    /// A Windows node.
    Windows(Box<WindowsNode>),
}

impl Machine {
    fn device(&mut self) -> &mut dyn Device {
        match self {
            Self::Switch(device) => device,
            Self::Host(device) => &mut **device,
            Self::Linux(device) => &mut **device,
            Self::Windows(device) => &mut **device,
        }
    }

    /// The stack of the machine itself, or of a pod on it, to be looked at.
    pub fn stack(&self, pod: Option<&str>) -> Option<&Stack> {
        match (self, pod) {
            (Self::Host(host), None) => Some(&host.stack),
            (Self::Linux(node), None) => Some(node.stack()),
            (Self::Linux(node), Some(pod)) => node.pod(pod),
            (Self::Windows(node), None) => Some(node.host()),
            (Self::Windows(node), Some(pod)) => node.pod(pod),
            _ => None,
        }
    }

    /// The stack of the machine itself, or of a pod on it. [`flush`](Self::flush) after acting on it.
    pub fn stack_mut(&mut self, pod: Option<&str>) -> Option<&mut Stack> {
        match (self, pod) {
            (Self::Host(host), None) => Some(&mut host.stack),
            (Self::Linux(node), None) => Some(node.stack_mut()),
            (Self::Linux(node), Some(pod)) => node.pod_mut(pod),
            (Self::Windows(node), None) => Some(node.host_mut()),
            (Self::Windows(node), Some(pod)) => node.pod_mut(pod),
            _ => None,
        }
    }

    /// Sends what the machine's stacks have to send.
    pub fn flush(&mut self, now: Duration, out: &mut Outbox) {
        match self {
            Self::Switch(_) => {}
            Self::Host(host) => host.flush(out),
            Self::Linux(node) => node.flush(now, out),
            Self::Windows(node) => node.flush(now, out),
        }
    }
}

impl Device for Machine {
    fn receive(&mut self, now: Duration, port: usize, frame: Packet, out: &mut Outbox) {
        self.device().receive(now, port, frame, out);
    }

    fn poll(&mut self, now: Duration, out: &mut Outbox) {
        self.device().poll(now, out);
    }

    fn next_timer(&mut self) -> Option<Duration> {
        self.device().next_timer()
    }
}
