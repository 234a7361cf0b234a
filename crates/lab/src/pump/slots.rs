//! Which device is behind which port.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Seat;
use crate::tap::Tap;

/// What passed a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that the device gave.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the device took.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that it did not take.
    pub refused: u64,
}

impl Counters {
    pub(super) fn received(&mut self, bytes: usize) {
        self.rx_frames += 1;
        self.rx_bytes += bytes as u64;
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.tx_frames += 1;
        self.tx_bytes += bytes as u64;
    }
}

/// A device and where it belongs.
pub(super) struct Slot {
    pub(super) seat: Seat,
    /// The port of the switch, while there is one.
    pub(super) port: Option<Uuid>,
    pub(super) tap: Tap,
    pub(super) counters: Counters,
}

/// All devices. A number stays a device's own until that leaves.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    by_port: FxHashMap<Uuid, usize>,
}

impl Slots {
    pub(super) fn add(&mut self, seat: Seat, tap: Tap) -> usize {
        let slot = Slot { seat, port: None, tap, counters: Counters::default() };
        let free = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Some(place) = self.slots.get_mut(free) {
            *place = Some(slot);
        }
        free
    }

    pub(super) fn remove(&mut self, seat: Seat) -> Option<Slot> {
        let place = self.slots.iter_mut().find(|slot| slot.as_ref().is_some_and(|slot| slot.seat == seat))?;
        let slot = place.take()?;
        if let Some(port) = slot.port {
            self.by_port.remove(&port);
        }
        Some(slot)
    }

    pub(super) fn tap(&self, number: usize) -> Option<&Tap> {
        self.slots.get(number)?.as_ref().map(|slot| &slot.tap)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Slot> {
        self.slots.get_mut(number)?.as_mut()
    }

    pub(super) fn of_port(&mut self, port: Uuid) -> Option<&mut Slot> {
        let number = *self.by_port.get(&port)?;
        self.get_mut(number)
    }

    pub(super) fn of_seat(&mut self, seat: Seat) -> Option<&mut Slot> {
        self.slots.iter_mut().flatten().find(|slot| slot.seat == seat)
    }

    /// Says anew which port each seat has.
    pub(super) fn seat(&mut self, port: impl Fn(Seat) -> Option<Uuid>) {
        self.by_port.clear();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            slot.port = port(slot.seat);
            if let Some(port) = slot.port {
                self.by_port.insert(port, number);
            }
        }
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = (Seat, Counters)> {
        self.slots.iter().flatten().map(|slot| (slot.seat, slot.counters))
    }
}
