//! The cached path allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use vfp::model::{Action, Conditions, Direction};
use vfp::{Env, Output};
use wire::{Packet, vxlan};

use crate::fixture::*;

/// Counts what a thread allocates.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "only an allocator sees every allocation")]
// SAFETY: everything is handed to the system's allocator as it came; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promises are the system allocator's conditions.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are the system allocator's conditions.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: the caller's promises are the system allocator's conditions.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A hundred thousand packets: destinations translated both ways, tunnels put on and taken off, TCP followed, of both
/// families, through the layers of two ports each.
#[test]
fn a_hundred_thousand_packets_without_an_allocation() {
    let mut rig = Rig::new();
    let (near, far): (std::net::IpAddr, _) = (Ips(false).node(), [192, 0, 2, 13].into());
    let mut bursts: Vec<(uuid::Uuid, Vec<Vec<u8>>)> = Vec::new();
    crate::tunnels::overlay(&mut rig, FAMILIES[0], (near, far));
    for ips in FAMILIES {
        let lb = balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None);
        if !ips.0 {
            rig.layer(L1, "LB_DSR", 100, true);
            rig.layer(L2, "ACL", 100, true);
        }
        rig.group(
            (L1, "LB_DSR"),
            Direction::Out,
            ips,
            100,
            vec![rule("lb", to_service(ips.vip(), 6, 80), Action::LbNat(lb))],
        );
        rig.group((L2, "ACL"), Direction::In, ips, 100, vec![rule("a", Conditions::any(), Action::Allow)]);
        let connections = 1000..1032_u16;
        let out = |flags| {
            connections
                .clone()
                .map(move |port| tcp((mac_of(L1), DR), (ips.pod(L1), port), (ips.vip(), 80), flags))
                .collect::<Vec<_>>()
        };
        let back = |flags| {
            connections
                .clone()
                .map(move |port| tcp(between(L2, L1), (ips.pod(L2), 8080), (ips.pod(L1), port), flags))
                .collect::<Vec<_>>()
        };
        rig.send_all(L1, &out(SYN));
        rig.send_all(L2, &back(SYN_ACK));
        bursts.push((L1, out(ACK)));
        bursts.push((L2, back(ACK)));
    }
    let ips = FAMILIES[0];
    let push = (1..=32).map(|port| udp((mac_of(L1), ROUTER), (ips.pod(L1), port), (ips.far(5), 2))).collect();
    let pop = (1..=32).map(|port| {
        let mut frame = Packet::new(&udp((DR, DR), (ips.far(5), 2), (ips.pod(L1), port)));
        let outer = vxlan::Outer {
            src_mac: ROUTER,
            dst_mac: mac_of(HOST),
            vlan: None,
            src: far,
            dst: near,
            src_port: 50_000,
            dst_port: vxlan::UDP_PORT,
            vni: 4096,
            ttl: 60,
            tos: 0,
            df: false,
        };
        outer.push(&mut frame, 1).unwrap();
        frame.into_vec()
    });
    bursts.push((L1, push));
    bursts.push((EXT, pop.collect()));

    let mut packets: Vec<Packet> = Vec::with_capacity(32);
    let mut out = Output { delivered: Vec::with_capacity(64), pending: Vec::new() };
    let mut spare: Vec<Packet> = (0..32).map(|_| Packet::new(&[0; 256])).collect();
    let (mut sent, mut came) = (0, 0);
    // The first rounds open flows and let buffers grow.
    for round in 0..600 {
        if round == 20 {
            COUNT.with(|count| count.set(0));
            (sent, came) = (0, 0);
        }
        // Whole bursts, and one by one.
        let size = if round % 2 == 0 { 32 } else { 1 };
        for (from, frames) in &bursts {
            for chunk in frames.chunks(size) {
                for frame in chunk {
                    let mut packet = spare.pop().expect("as many come out as go in");
                    packet.copy_from(frame);
                    packets.push(packet);
                }
                let mut env = Env { now: rig.now, routes: &mut rig.hops, observer: None };
                sent += packets.len();
                rig.switch.transmit(*from, &mut packets, &mut env, &mut out);
                came += out.delivered.len();
                spare.extend(out.delivered.drain(..).map(|(_, packet)| packet));
            }
        }
    }
    let allocations = COUNT.with(Cell::get);
    assert!(sent > 100_000 && came == sent, "{came} of {sent}");
    assert_eq!(allocations, 0, "in {sent} packets");
}
