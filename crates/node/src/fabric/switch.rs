//! An Ethernet switch that learns which station is behind which port.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::{Mac, Packet, bytes};

use super::{Device, Outbox};

/// How many stations are remembered; frames to others are flooded.
const MOST: usize = 8192;

/// An Ethernet switch. Frames to a station that was heard go to its port, all others everywhere.
#[derive(Debug)]
pub struct LearningSwitch {
    ports: usize,
    stations: BTreeMap<Mac, usize>,
}

impl LearningSwitch {
    /// A switch with so many ports.
    pub fn new(ports: usize) -> Self {
        Self { ports, stations: BTreeMap::new() }
    }

    /// Adds a port; its number.
    pub fn add_port(&mut self) -> usize {
        self.ports += 1;
        self.ports - 1
    }

    /// The stations that were heard, and where.
    pub fn stations(&self) -> impl Iterator<Item = (Mac, usize)> {
        self.stations.iter().map(|(mac, port)| (*mac, *port))
    }

    /// The ports that a frame goes out by.
    pub fn forward(&mut self, port: usize, frame: &[u8]) -> Vec<usize> {
        let (Some(to), Some(from)) = (bytes::get_mac(frame, 0), bytes::get_mac(frame, 6)) else {
            return Vec::new();
        };
        if !from.is_multicast() && (self.stations.len() < MOST || self.stations.contains_key(&from)) {
            self.stations.insert(from, port);
        }
        match self.stations.get(&to) {
            Some(&known) if known == port => Vec::new(),
            Some(&known) => vec![known],
            None => (0..self.ports).filter(|&other| other != port).collect(),
        }
    }
}

impl Device for LearningSwitch {
    fn receive(&mut self, _: Duration, port: usize, frame: Packet, out: &mut Outbox) {
        for other in self.forward(port, frame.data()) {
            out.send(other, frame.clone());
        }
    }

    fn poll(&mut self, _: Duration, _: &mut Outbox) {}

    fn next_timer(&mut self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        bytes::set_mac(&mut frame, 0, if to == 255 { Mac::BROADCAST } else { Mac([2, 0, 0, 0, 0, to]) });
        bytes::set_mac(&mut frame, 6, Mac([2, 0, 0, 0, 0, from]));
        frame
    }

    #[test]
    fn unknown_stations_are_flooded_and_known_ones_are_not() {
        let mut switch = LearningSwitch::new(3);
        assert_eq!(switch.forward(0, &frame(2, 1)), [1, 2]);
        assert_eq!(switch.forward(1, &frame(1, 2)), [0]);
        assert_eq!(switch.forward(0, &frame(2, 1)), [1]);
        assert_eq!(switch.forward(0, &frame(255, 1)), [1, 2]);
        assert_eq!(switch.forward(1, &frame(2, 3)), [0; 0], "both are behind one port");
        assert_eq!(switch.forward(0, &[1, 2, 3]), [0; 0]);
    }
}
