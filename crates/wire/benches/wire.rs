//! What the hot path of a switch does to one frame, each step by itself. The packet is in the cache: this is the
//! floor below which no engine on top can be.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use criterion::{Criterion, criterion_group, criterion_main};
use wire::build::FrameBuilder;
use wire::checksum::{self, Delta};
use wire::rewrite::Rewrite;
use wire::vxlan::{self, Outer};
use wire::{Mac, Packet, TcpFlags, bytes, parse};

const SRC: Ipv4Addr = Ipv4Addr::new(10, 50, 1, 5);
const DST: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 20);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfd00, 50, 0, 1, 0, 0, 0, 5);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 50, 0, 2, 0, 0, 0, 5);

fn eth() -> FrameBuilder {
    FrameBuilder::eth(Mac([0x0e, 0x2a, 10, 50, 1, 5]), Mac([0, 0x15, 0x5d, 0xaa, 0, 0x11]))
}

fn segment() -> Vec<u8> {
    eth().ipv4(SRC, DST).tcp(50_000, 80, TcpFlags::ACK).payload(&[7; 10]).build()
}

fn segment6() -> Vec<u8> {
    eth().vlan(10).ipv6(SRC6, DST6).tcp(50_000, 80, TcpFlags::ACK).payload(&[7; 10]).build()
}

fn outer(src: IpAddr, dst: IpAddr) -> Outer {
    Outer {
        src_mac: Mac([0, 0x15, 0x5d, 0xaa, 0, 0x11]),
        dst_mac: Mac([0x66, 0, 0, 0, 0, 0x12]),
        vlan: None,
        src,
        dst,
        src_port: 50_000,
        dst_port: vxlan::UDP_PORT,
        vni: 4096,
        ttl: 64,
        tos: 0,
        df: false,
    }
}

fn reading(criterion: &mut Criterion) {
    let (tcp, tcp6) = (segment(), segment6());
    criterion.bench_function("parse/tcp", |bencher| bencher.iter(|| parse(black_box(&tcp))));
    criterion.bench_function("parse/tcp-key", |bencher| {
        bencher.iter(|| {
            let parsed = parse(black_box(&tcp)).ok()?;
            let ip = parsed.ip()?;
            Some((ip.src, ip.dst, ip.proto, ip.l4.ports()))
        });
    });
    criterion.bench_function("parse/tcp6-vlan", |bencher| bencher.iter(|| parse(black_box(&tcp6))));
    let large = vec![7; 1500];
    for length in [20, 64, 1500] {
        criterion.bench_function(&format!("ones/{length}"), |bencher| {
            bencher.iter(|| checksum::ones(black_box(&large[..length]), 0));
        });
    }
    criterion
        .bench_function("crc32c/1500", |bencher| bencher.iter(|| checksum::crc32c(&[black_box(&large)])));
    criterion.bench_function("verify/tcp", |bencher| bencher.iter(|| checksum::verify(black_box(&tcp))));
    criterion.bench_function("describe/tcp", |bencher| bencher.iter(|| wire::describe(black_box(&tcp))));
}

/// Destination NAT with a known difference, as a cached flow does it, and by the general rewrite.
fn rewriting(criterion: &mut Criterion) {
    let frame = segment();
    let mut packet = Packet::new(&frame);
    let to = Ipv4Addr::new(10, 50, 2, 5);
    let addresses = Delta::NONE.word32(DST.to_bits(), to.to_bits());
    let all = addresses.word16(80, 8080);
    criterion.bench_function("dnat/known-offsets", |bencher| {
        bencher.iter(|| {
            let data = black_box(packet.data_mut());
            let header = bytes::get_u16(data, 24).map_or(0, |sum| addresses.apply(sum));
            let upper = bytes::get_u16(data, 50).map_or(0, |sum| all.apply(sum));
            bytes::set_mac(data, 0, Mac([2; 6]))
                && bytes::set_u32(data, 30, to.to_bits())
                && bytes::set_u16(data, 36, 8080)
                && bytes::set_u16(data, 24, header)
                && bytes::set_u16(data, 50, upper)
        });
    });
    let change = Rewrite { dst: Some(to.into()), dport: Some(8080), ..Rewrite::default() };
    let mut ip = *parse(&frame).expect("it is a frame").ip().expect("it is IP");
    criterion.bench_function("dnat/rewrite", |bencher| {
        bencher.iter(|| change.apply(black_box(packet.data_mut()), &mut ip));
    });
}

fn tunnels(criterion: &mut Criterion) {
    let node: [(&str, IpAddr, IpAddr); 2] = [
        ("v4", Ipv4Addr::new(192, 0, 2, 11).into(), Ipv4Addr::new(192, 0, 2, 12).into()),
        ("v6", SRC6.into(), DST6.into()),
    ];
    for (name, src, dst) in node {
        let template = outer(src, dst).template();
        let mut packet = Packet::new(&segment());
        criterion.bench_function(&format!("vxlan/push-and-pull-{name}"), |bencher| {
            bencher.iter(|| {
                let pushed = black_box(&template).push(black_box(&mut packet), 50_000, 7).is_ok();
                pushed && packet.pull(template.outer_len())
            });
        });
    }
    let frame = segment();
    let mut packet = Packet::new(&frame);
    criterion
        .bench_function("packet/copy-from", |bencher| bencher.iter(|| packet.copy_from(black_box(&frame))));
}

criterion_group!(benches, reading, rewriting, tunnels);
criterion_main!(benches);
