//! Frames of every kind at random, with the words that they were built from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::build::FrameBuilder;
use wire::{L4, Mac, TcpFlags, VlanTag, proto};

/// What a frame was built from.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) src_mac: Mac,
    pub(crate) dst_mac: Mac,
    pub(crate) vlan: Option<VlanTag>,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) ipid: u16,
    pub(crate) df: bool,
    pub(crate) ipv4_options: Vec<u8>,
    /// Kinds of IPv6 extension headers with their content.
    pub(crate) extensions: Vec<(u8, Vec<u8>)>,
    pub(crate) upper: Upper,
    pub(crate) payload: Vec<u8>,
    pub(crate) padding: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Upper {
    Tcp { sport: u16, dport: u16, flags: TcpFlags, seq: u32, ack: u32, window: u16, options: Vec<u8> },
    Udp { sport: u16, dport: u16, checksum: bool },
    Sctp { sport: u16, dport: u16, tag: u32 },
    Echo { request: bool, id: u16, seq: u16 },
    Raw(u8),
}

impl Spec {
    pub(crate) fn builder(&self) -> FrameBuilder {
        let v6 = self.src.is_ipv6();
        let mut builder = FrameBuilder::eth(self.src_mac, self.dst_mac)
            .tag(self.vlan)
            .ip(self.src, self.dst)
            .ttl(self.ttl)
            .tos(self.tos)
            .ipid(self.ipid)
            .df(self.df)
            .ipv4_options(&self.ipv4_options)
            .payload(&self.payload)
            .pad_to(self.padding);
        for (kind, content) in &self.extensions {
            builder = builder.extension(*kind, content);
        }
        match &self.upper {
            Upper::Tcp { sport, dport, flags, seq, ack, window, options } => {
                builder.tcp(*sport, *dport, *flags).seq(*seq).ack(*ack).window(*window).tcp_options(options)
            }
            // Over IPv6 a datagram without a checksum is refused.
            Upper::Udp { sport, dport, checksum } if *checksum || v6 => builder.udp(*sport, *dport),
            Upper::Udp { sport, dport, .. } => builder.udp_unchecked(*sport, *dport),
            Upper::Sctp { sport, dport, tag } => builder.sctp(*sport, *dport, *tag),
            Upper::Echo { request, id, seq } if v6 => builder.icmp6_echo(*request, *id, *seq),
            Upper::Echo { request, id, seq } => builder.icmp_echo(*request, *id, *seq),
            Upper::Raw(number) => builder.proto(*number),
        }
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        self.builder().build()
    }

    /// The upper layer as it must be read.
    pub(crate) fn l4(&self) -> L4 {
        let v6 = self.src.is_ipv6();
        match self.upper {
            Upper::Tcp { sport, dport, flags, seq, ack, window, ref options } => {
                let header_len = u8::try_from(20 + options.len().next_multiple_of(4)).expect("at most 60");
                L4::Tcp { sport, dport, flags, header_len, seq, ack, window }
            }
            Upper::Udp { sport, dport, .. } => {
                L4::Udp { sport, dport, len: u16::try_from(self.payload.len() + 8).expect("a short payload") }
            }
            Upper::Sctp { sport, dport, .. } => L4::Sctp { sport, dport },
            Upper::Echo { request, id, .. } if v6 => {
                L4::Icmp6 { kind: if request { 128 } else { 129 }, code: 0, id }
            }
            Upper::Echo { request, id, .. } => L4::Icmp { kind: if request { 8 } else { 0 }, code: 0, id },
            Upper::Raw(_) => L4::Other,
        }
    }

    /// The number of the upper layer.
    pub(crate) fn proto(&self) -> u8 {
        match self.upper {
            Upper::Tcp { .. } => proto::TCP,
            Upper::Udp { .. } => proto::UDP,
            Upper::Sctp { .. } => proto::SCTP,
            Upper::Echo { .. } if self.src.is_ipv6() => proto::ICMP6,
            Upper::Echo { .. } => proto::ICMP,
            Upper::Raw(number) => number,
        }
    }
}

fn vlan() -> impl Strategy<Value = VlanTag> {
    (0_u16..4096, 0_u8..8, any::<bool>()).prop_map(|(id, pcp, dei)| VlanTag { id, pcp, dei })
}

/// Two addresses of one family.
pub(crate) fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

fn upper() -> impl Strategy<Value = Upper> {
    let options = prop_oneof![
        Just(Vec::new()),
        Just(vec![2, 4, 5, 180]),
        Just(vec![1, 2, 4, 5, 180, 4, 2, 3, 3, 7]),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop_oneof![
        3 => (any::<(u16, u16, u8, u32, u32, u16)>(), options).prop_map(
            |((sport, dport, flags, seq, ack, window), options)| Upper::Tcp {
                sport,
                dport,
                flags: TcpFlags::from_bits_retain(flags),
                seq,
                ack,
                window,
                options,
            }
        ),
        // The tunnels' port would make the payload a frame.
        3 => (any::<u16>(), any::<u16>().prop_filter("VXLAN", |port| *port != 4789), any::<bool>())
            .prop_map(|(sport, dport, checksum)| Upper::Udp { sport, dport, checksum }),
        1 => any::<(u16, u16, u32)>().prop_map(|(sport, dport, tag)| Upper::Sctp { sport, dport, tag }),
        2 => any::<(bool, u16, u16)>().prop_map(|(request, id, seq)| Upper::Echo { request, id, seq }),
        1 => prop::sample::select(vec![4, 47, 50, 89, 253]).prop_map(Upper::Raw),
    ]
}

fn extensions() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let content = || prop::collection::vec(any::<u8>(), 0..30);
    let hop_by_hop = prop::option::weighted(0.3, content().prop_map(|content| (proto::HOP_BY_HOP, content)));
    let other = prop::sample::select(vec![proto::ROUTING, proto::DESTINATION]);
    let others = prop::collection::vec((other, content()), 0..3);
    (hop_by_hop, others).prop_map(|(first, others)| first.into_iter().chain(others).collect())
}

/// Any whole packet: no fragment, no tunnel.
pub(crate) fn spec() -> impl Strategy<Value = Spec> {
    let link = (any::<[u8; 6]>(), any::<[u8; 6]>(), prop::option::weighted(0.3, vlan()));
    let ip = (addresses(), any::<(u8, u8, u16, bool)>());
    let options = prop::option::weighted(0.2, prop::collection::vec(any::<u8>(), 1..41));
    let payload = prop_oneof![4 => 0_usize..64, 1 => 64_usize..1600]
        .prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    let extensions = prop::option::weighted(0.3, extensions());
    (link, ip, options, extensions, upper(), payload, prop::sample::select(vec![0, 60, 100])).prop_map(
        |(
            (src_mac, dst_mac, vlan),
            ((src, dst), (ttl, tos, ipid, df)),
            options,
            extensions,
            upper,
            payload,
            padding,
        )| {
            let v6 = src.is_ipv6();
            Spec {
                src_mac: Mac(src_mac),
                dst_mac: Mac(dst_mac),
                vlan,
                src,
                dst,
                ttl,
                tos,
                ipid,
                df,
                ipv4_options: options.filter(|_| !v6).unwrap_or_default(),
                extensions: extensions.filter(|_| v6).unwrap_or_default(),
                upper,
                payload,
                padding,
            }
        },
    )
}
