//! Machines of a world, some of them behind a VLAN.

use std::time::Duration;

use node::fabric::{Device, Outbox};
use node::sim::Machine;
use wire::{Packet, VlanTag};

/// A machine. With a VLAN, it stands for one behind an access port of that VLAN: its frames carry the tag on the
/// link, and it gets only frames that do.
pub(crate) struct Kit {
    pub(crate) machine: Machine,
    pub(crate) vlan: Option<u16>,
}

impl Kit {
    pub(crate) fn plain(machine: Machine) -> Self {
        Self { machine, vlan: None }
    }

    /// Lets the machine act, and tags what it sends.
    pub(crate) fn act<R>(&mut self, out: &mut Outbox, act: impl FnOnce(&mut Machine, &mut Outbox) -> R) -> R {
        let mut own = Outbox::default();
        let result = act(&mut self.machine, &mut own);
        for (port, mut frame) in own.drain() {
            if let Some(id) = self.vlan {
                assert!(wire::vlan::set(&mut frame, VlanTag::new(id)));
            }
            out.send(port, frame);
        }
        result
    }
}

impl Device for Kit {
    fn receive(&mut self, now: Duration, port: usize, mut frame: Packet, out: &mut Outbox) {
        if let Some(id) = self.vlan
            && wire::vlan::clear(&mut frame).map(|tag| tag.id) != Some(id)
        {
            return;
        }
        self.act(out, |machine, out| machine.receive(now, port, frame, out));
    }

    fn poll(&mut self, now: Duration, out: &mut Outbox) {
        self.act(out, |machine, out| machine.poll(now, out));
    }

    fn next_timer(&mut self) -> Option<Duration> {
        self.machine.next_timer()
    }
}
