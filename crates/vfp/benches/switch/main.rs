//! The engine's budgets: packets on cached flows, first packets, changes of policy, memory.
//!
//! Prints one line per row, `bench-row|work|budget|measured|detail`, which `cargo xtask bench` puts into a table. A
//! number is the median of several runs. Packets are 64-byte TCP segments in 1,024 buffers, each of a flow drawn at
//! random; copying the frame into its buffer is measured alone and taken off.

#![expect(clippy::print_stdout, reason = "a bench prints what it measures")]

mod floor;
mod rig;

use std::time::Duration;

use hcn::time::{Clock, SystemClock};
use vfp::{Env, NextHop, Output};
use wire::Packet;

use floor::Floor;
use rig::{L1, Node, frame};

const BUFFERS: usize = 1024;
const RUNS: usize = 7;

/// The host's routes: one hop for everything.
struct OneHop;

impl vfp::HostRoutes for OneHop {
    fn next_hop(&mut self, _: u32, _: std::net::IpAddr) -> NextHop {
        NextHop::Via { mac: rig::ROUTER, source_mac: rig::HOST_MAC }
    }
}

/// A sequence of numbers that looks random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % count as u64).unwrap_or(0)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn row(work: &str, budget: &str, measured: &str, detail: &str) {
    println!("bench-row|{work}|{budget}|{measured}|{detail}");
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a bench")]
fn nanos(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count as f64
}

/// Nanoseconds of one round over all buffers, per packet: filling them, and working on them.
struct Bench<'c> {
    clock: &'c SystemClock,
    buffers: Vec<Packet>,
    packets: Vec<Packet>,
    out: Output,
    dice: Dice,
}

impl<'c> Bench<'c> {
    fn new(clock: &'c SystemClock) -> Self {
        Self {
            clock,
            buffers: (0..BUFFERS).map(|_| Packet::new(&[0; 64])).collect(),
            packets: Vec::with_capacity(BUFFERS),
            out: Output { delivered: Vec::with_capacity(BUFFERS), pending: Vec::new() },
            dice: Dice(0x1234_5678_9abc_def1),
        }
    }

    fn fill(&mut self, flows: usize, syn: bool) {
        for buffer in &mut self.buffers {
            let flow = self.dice.below(flows);
            rig::write(buffer, flow, syn);
        }
    }

    /// Packets in batches of `size` through the switch.
    fn packets(&mut self, node: &mut Node, flows: usize, size: usize) -> f64 {
        let rounds = (200_000 / BUFFERS).max(1);
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                self.fill(flows, false);
                let mut routes = OneHop;
                let mut env = Env { now: node.now, routes: &mut routes, observer: None };
                self.buffers.reverse();
                let begun = self.clock.now();
                while !self.buffers.is_empty() {
                    let from = self.buffers.len().saturating_sub(size);
                    self.packets.extend(self.buffers.drain(from..));
                    node.switch.transmit(L1, &mut self.packets, &mut env, &mut self.out);
                }
                spent += self.clock.now().saturating_sub(begun);
                assert_eq!(self.out.delivered.len(), BUFFERS, "every packet comes out");
                self.buffers.extend(self.out.delivered.drain(..).map(|(_, packet)| packet));
            }
            runs.push(nanos(spent, rounds * BUFFERS));
        }
        median(runs)
    }

    fn floor(&mut self, flows: usize) -> f64 {
        let mut floor = Floor::new((0..flows).map(|flow| frame(flow, false)), flows);
        let rounds = (200_000 / BUFFERS).max(1);
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                self.fill(flows, false);
                let begun = self.clock.now();
                for packet in &mut self.buffers {
                    floor.pass(packet);
                }
                spent += self.clock.now().saturating_sub(begun);
            }
            runs.push(nanos(spent, rounds * BUFFERS));
        }
        median(runs)
    }

    /// First packets of `count` flows, beginning with a number.
    fn open(&mut self, node: &mut Node, first: usize, count: usize) -> f64 {
        let mut spent = Duration::ZERO;
        let mut flow = first;
        while flow < first + count {
            for buffer in &mut self.buffers {
                rig::write(buffer, flow, node.track);
                flow += 1;
            }
            let mut routes = OneHop;
            let mut env = Env { now: node.now, routes: &mut routes, observer: None };
            let begun = self.clock.now();
            self.packets.append(&mut self.buffers);
            node.switch.transmit(L1, &mut self.packets, &mut env, &mut self.out);
            spent += self.clock.now().saturating_sub(begun);
            self.buffers.extend(self.out.delivered.drain(..).map(|(_, packet)| packet));
        }
        nanos(spent, flow - first)
    }
}

fn cached(clock: &SystemClock, least: usize, most: usize) {
    let budget = |flows: usize, size: usize, vxlan: bool| match (flows, size, vxlan) {
        (1_000, _, false) => "≤ 25 ns",
        (1_000, _, true) => "≤ 35 ns",
        (1_000_000, 32, false) => "≤ 60 ns",
        (1_000_000, 32, true) => "≤ 70 ns",
        _ => "",
    };
    for flows in
        [1, 1_000, 64_000, 1_000_000, 4_000_000].into_iter().filter(|flows| (least..=most).contains(flows))
    {
        let mut bench = Bench::new(clock);
        let floor = bench.floor(flows);
        for (vxlan, track) in [(false, true), (false, false), (true, true)] {
            let mut node = Node::new(1, vxlan, track);
            bench.open(&mut node, 0, flows);
            // The handshake's last packet of each.
            bench.establish(&mut node, flows);
            for size in [1, 32] {
                let measured = bench.packets(&mut node, flows, size);
                let what = match (vxlan, track) {
                    (true, _) => "DNAT, TCP states, VXLAN",
                    (false, true) => "DNAT, TCP states",
                    (false, false) => "DNAT",
                };
                let batch = if size == 1 { "one by one".to_owned() } else { format!("batches of {size}") };
                row(
                    &format!("packet on a cached flow, {flows} flows, {what}, {batch}"),
                    budget(flows, size, vxlan),
                    &format!("{measured:.1} ns"),
                    &format!("floor {floor:.1} ns"),
                );
            }
        }
    }
}

impl Bench<'_> {
    fn establish(&mut self, node: &mut Node, flows: usize) {
        let mut flow = 0;
        while flow < flows {
            for buffer in &mut self.buffers {
                rig::write(buffer, flow.min(flows - 1), false);
                flow += 1;
            }
            let mut routes = OneHop;
            let mut env = Env { now: node.now, routes: &mut routes, observer: None };
            self.packets.append(&mut self.buffers);
            node.switch.transmit(L1, &mut self.packets, &mut env, &mut self.out);
            self.buffers.extend(self.out.delivered.drain(..).map(|(_, packet)| packet));
        }
    }
}

fn first_packets(clock: &SystemClock) {
    for balancers in [10, 2_000, 20_000] {
        let mut node = Node::new(balancers, false, true);
        let mut bench = Bench::new(clock);
        bench.open(&mut node, 0, 20_000);
        let mut runs: Vec<f64> =
            (1..=5).map(|run| bench.open(&mut node, run * 40_000, 20_000) / 1000.0).collect();
        let measured = median(std::mem::take(&mut runs));
        row(
            &format!("first packet of a flow, {balancers} load balancers"),
            if balancers == 2_000 { "≤ 2 µs" } else { "" },
            &format!("{measured:.2} µs"),
            "4 layers; in batches of 32",
        );
    }
}

fn policy(clock: &SystemClock) {
    for balancers in [2_000, 20_000] {
        let mut node = Node::new(balancers, false, true);
        let time = |node: &mut Node, changes: Vec<Vec<vfp::model::Change>>| {
            let mut runs = Vec::new();
            for list in changes {
                let begun = clock.now();
                node.switch.apply(&list).expect("the change is right");
                runs.push(nanos(clock.now().saturating_sub(begun), 1000));
            }
            median(runs)
        };
        let rules: Vec<_> =
            (0..200).map(|number| vec![rig::one_rule(number * 7 % balancers, number)]).collect();
        let one = time(&mut node, rules);
        row(&format!("one of {balancers} rules put"), "", &format!("{one:.2} µs"), "20 ports use the group");
        let groups: Vec<_> = (0..5).map(|_| vec![rig::whole_group(balancers)]).collect();
        let all = time(&mut node, groups) / 1000.0;
        row(&format!("group of {balancers} rules replaced"), "", &format!("{all:.2} ms"), "as a unit");
    }
}

fn memory(clock: &SystemClock) {
    for flows in [100_000, 1_000_000] {
        let mut node = Node::balancer_only();
        let mut bench = Bench::new(clock);
        let before = rig::live();
        bench.open(&mut node, 0, flows);
        let count = node.switch.flow_count(L1).unwrap_or(1);
        let bytes = (rig::live() - before) / count.max(1);
        row(
            &format!("memory of a flow pair, {flows} flows of a load balancer"),
            "≤ 256 bytes",
            &format!("{bytes} bytes"),
            "as the allocator counts",
        );
    }
}

fn main() {
    let clock = SystemClock::default();
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let wants = |name: &str| name.contains(&filter);
    if wants("cached") {
        cached(&clock, 1, 4_000_000);
    } else if filter == "thousand" {
        cached(&clock, 1_000, 1_000);
    } else if filter == "million" {
        cached(&clock, 1_000_000, 1_000_000);
    }
    if wants("first") {
        first_packets(&clock);
    }
    if wants("policy") {
        policy(&clock);
    }
    if wants("memory") {
        memory(&clock);
    }
}
