//! The host's port space: blocks of ports, single ports and who holds them.

use super::*;

const TCP4: Space = Space { protocol: Protocol::Tcp, ipv6: false };
const UDP4: Space = Space { protocol: Protocol::Udp, ipv6: false };

fn id(n: u128) -> Guid {
    Guid::from_u128(n)
}

fn port(space: Space, port: u16) -> HostPort {
    HostPort { space, vip: None, port }
}

fn free(ports: &Ports, space: Space) -> usize {
    ports.report().space(space).unwrap().free
}

#[test]
fn the_default_range_has_256_blocks_per_space() {
    let ports = Ports::new(&DynamicPorts::default());
    for space in Space::ALL {
        assert_eq!(free(&ports, space), 256);
    }
    let odd = DynamicPorts { tcp: 60000..=60100, udp: 0..=65535 };
    let ports = Ports::new(&odd);
    assert_eq!((free(&ports, TCP4), free(&ports, UDP4)), (1, 1024));
    #[expect(clippy::reversed_empty_ranges, reason = "what a host without a range would have")]
    let none = DynamicPorts { tcp: 2..=1, udp: 5..=5 };
    let ports = Ports::new(&none);
    assert_eq!((free(&ports, TCP4), free(&ports, UDP4)), (0, 0));
}

#[test]
fn a_port_is_held_once_per_space_and_address() {
    let mut ports = Ports::new(&DynamicPorts::default());
    let (a, b) = (Holder::LoadBalancer(id(1)), Holder::LoadBalancer(id(2)));
    ports.claim(port(TCP4, 30080), a);
    assert_eq!(ports.holder(port(TCP4, 30080), b), Some(a));
    assert_eq!(ports.holder(port(TCP4, 30080), a), None);
    assert_eq!(ports.holder(port(UDP4, 30080), b), None);
    assert_eq!(ports.holder(port(Space { ipv6: true, ..TCP4 }, 30080), b), None);
    let on_vip = HostPort { vip: Some("10.0.0.9".parse().unwrap()), ..port(TCP4, 30080) };
    assert_eq!(ports.holder(on_vip, b), None);
    ports.release(port(TCP4, 30080), b);
    assert_eq!(ports.holder(port(TCP4, 30080), b), Some(a));
    ports.release(port(TCP4, 30080), a);
    assert_eq!(ports.holder(port(TCP4, 30080), b), None);
}

#[test]
fn blocks_and_single_ports_keep_off_each_other() {
    let dynamic = DynamicPorts { tcp: 50000..=50191, udp: 50000..=50191 };
    let mut ports = Ports::new(&dynamic);
    ports.listen(Protocol::Tcp, 50001).unwrap();
    assert_eq!(free(&ports, TCP4), 2);
    let block = ports.free_blocks(TCP4, 1).unwrap()[0];
    assert_eq!(block.index, 1);
    let holder = Holder::LoadBalancer(id(1));
    ports.claim_block(block, holder);
    assert_eq!(ports.holder(port(TCP4, 50064), Holder::Listener), Some(holder));
    assert_eq!(ports.listen(Protocol::Tcp, 50100), Err((port(TCP4, 50100), holder)));
    assert_eq!(ports.free_blocks(TCP4, 2), Err(1));
    assert!(ports.unlisten(Protocol::Tcp, 50001) && !ports.unlisten(Protocol::Tcp, 50001));
    assert_eq!(free(&ports, TCP4), 2);
    ports.release_block(block, Holder::LoadBalancer(id(9)));
    assert_eq!(free(&ports, TCP4), 2, "only the holder gives a block back");
    ports.release_block(block, holder);
    assert_eq!(free(&ports, TCP4), 3);
    // Blocks beyond the range, from a store made with a wider one, are passed over.
    ports.claim_block(Block { index: 77, ..block }, holder);
    ports.release_block(Block { index: 77, ..block }, holder);
    assert_eq!(free(&ports, TCP4), 3);
}

#[test]
fn leaks_end_at_their_time_and_survive_a_restart() {
    let dynamic = DynamicPorts::default();
    let mut ports = Ports::new(&dynamic);
    let block = Block { space: TCP4, index: 0 };
    let second = Duration::from_secs(1);
    ports.leak(&[port(TCP4, 30080)], &[block], id(1), Some(60 * second));
    ports.leak(&[port(TCP4, 30081)], &[], id(2), None);
    ports.listen(Protocol::Udp, 53).unwrap();
    let mut ports = ports.carry_over(&dynamic);
    assert!(ports.is_listening(UDP4, 53) && !ports.is_listening(TCP4, 53));
    let me = Holder::LoadBalancer(id(3));
    ports.expire(59 * second);
    assert!(ports.holder(port(TCP4, 30080), me).is_some());
    assert_eq!(free(&ports, TCP4), 255);
    ports.expire(60 * second);
    assert_eq!(ports.holder(port(TCP4, 30080), me), None);
    assert_eq!(free(&ports, TCP4), 256);
    ports.expire(Duration::MAX);
    let left = ports.holder(port(TCP4, 30081), me).unwrap();
    assert!(left.to_string().contains("left over"), "{left}");
}
