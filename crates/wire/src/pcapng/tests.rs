//! What is written is read, byte for byte where the format says so.

use std::io;

use super::*;

fn capture() -> Vec<u8> {
    let about = About { hardware: "emulated", os: "", application: "Transom", comment: "two ports" };
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    let pod = writer.add_interface("pod-a", "Port of pod a").unwrap();
    let first = PacketMeta { interface: pod, nanos: 1_700_000_000_123_456_789, ..PacketMeta::default() };
    writer.packet(&first, &[1, 2, 3, 4, 5]).unwrap();
    let host = writer.add_interface("host", "").unwrap();
    let second = PacketMeta {
        interface: host,
        nanos: u64::MAX,
        direction: Some(Direction::Outbound),
        id: Some(42),
        comments: &["VFP ACL_ENDPOINT_LAYER", "dropped: no rule – déjà vu"],
    };
    writer.packet(&second, &[9; 60]).unwrap();
    writer.packet(&PacketMeta { direction: Some(Direction::Inbound), ..second }, &[]).unwrap();
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read() {
    let bytes = capture();
    let blocks: Vec<Block<'_>> = Reader::new(&bytes).collect::<Result<_, _>>().unwrap();
    let interface = |name: &str, description: &str| {
        Block::Interface(Interface {
            link_type: 1,
            name: name.to_owned(),
            description: description.to_owned(),
            resolution: 9,
        })
    };
    let second = Captured {
        interface: 1,
        nanos: u64::MAX,
        direction: Some(Direction::Outbound),
        id: Some(42),
        original_len: 60,
        data: &[9; 60],
        comments: vec!["VFP ACL_ENDPOINT_LAYER".to_owned(), "dropped: no rule – déjà vu".to_owned()],
    };
    let third =
        Captured { direction: Some(Direction::Inbound), original_len: 0, data: &[], ..second.clone() };
    let first = Captured {
        interface: 0,
        nanos: 1_700_000_000_123_456_789,
        direction: None,
        id: None,
        original_len: 5,
        data: &[1, 2, 3, 4, 5],
        comments: Vec::new(),
    };
    let section = Block::Section {
        hardware: "emulated".to_owned(),
        os: String::new(),
        application: "Transom".to_owned(),
    };
    let wanted = [
        section,
        interface("pod-a", "Port of pod a"),
        Block::Packet(first),
        interface("host", ""),
        Block::Packet(second),
        Block::Packet(third),
    ];
    assert_eq!(blocks, wanted);
    let packets = Reader::new(&bytes).packets().unwrap();
    assert_eq!(
        packets.iter().map(|(interface, _)| &*interface.name).collect::<Vec<_>>(),
        ["pod-a", "host", "host"]
    );
}

#[test]
fn the_bytes_of_a_packet_block() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    writer.add_interface("", "").unwrap();
    writer.flush().unwrap();
    let meta = PacketMeta { nanos: 0x0102_0304_0506_0708, comments: &["ab"], ..PacketMeta::default() };
    writer.packet(&meta, &[0xaa]).unwrap();
    let bytes = writer.finish().unwrap();
    let wanted = [
        6, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 1, 0, 0, 0, 1, 0, 0, 0, 0xaa, 0, 0, 0,
        1, 0, 2, 0, b'a', b'b', 0, 0, 0, 0, 0, 0, 48, 0, 0, 0,
    ];
    assert_eq!(bytes[bytes.len() - 48..], wanted);
}

#[test]
fn an_unknown_interface_is_refused_and_nothing_is_written() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let error = writer.packet(&PacketMeta::default(), &[1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(Reader::new(&writer.finish().unwrap()).count(), 1);
}

#[test]
fn long_comments_are_cut_between_characters() {
    let long = "é".repeat(40_000);
    let mut writer = Writer::new(Vec::new(), &About { comment: &long, ..About::default() }).unwrap();
    writer.add_interface(&long, "").unwrap();
    writer.packet(&PacketMeta { comments: &[&long], ..PacketMeta::default() }, &[0]).unwrap();
    let bytes = writer.finish().unwrap();
    let packets = Reader::new(&bytes).packets().unwrap();
    assert_eq!(packets[0].1.comments, [&long[..65_534]]);
    assert_eq!(packets[0].0.name, long[..65_534]);
}

/// The same capture as a machine of the other byte order would write it.
fn swapped() -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    [
        words(&[SECTION, 28, BYTE_ORDER, 0x0001_0000, u32::MAX, u32::MAX, 28]),
        // 2^-20 s, then the microseconds that are meant when nothing is said.
        words(&[INTERFACE, 32, 0x0001_0000, 0, 0x0009_0001, 0x9400_0000, 0, 32]),
        words(&[INTERFACE, 20, 0x0001_0000, 0, 20]),
        words(&[PACKET, 36, 0, 0, 1 << 20, 1, 1, 0xab00_0000, 36]),
        words(&[0x0bad, 12, 12]),
        words(&[PACKET, 36, 1, 0, 7, 1, 9, 0xcd00_0000, 36]),
    ]
    .concat()
}

#[test]
fn the_other_byte_order_and_other_resolutions_are_read() {
    let bytes = swapped();
    let packets = Reader::new(&bytes).packets().unwrap();
    let found: Vec<_> =
        packets.iter().map(|(_, packet)| (packet.nanos, packet.data, packet.original_len)).collect();
    assert_eq!(found, [(1_000_000_000, &[0xab][..], 1), (7000, &[0xcd][..], 9)]);
}

#[test]
fn broken_files_are_refused() {
    let good = swapped();
    let change = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Reader::new(&bytes).find_map(Result::err)
    };
    assert_eq!(change(0, 1), Some(ReadError::NoSection));
    assert_eq!(change(8, 1), Some(ReadError::ByteOrder { offset: 0 }));
    assert_eq!(change(13, 2), Some(ReadError::Version { offset: 0, major: 2 }));
    assert_eq!(change(7, 27), Some(ReadError::BlockLength { offset: 0, stated: 27 }));
    assert_eq!(change(27, 32), Some(ReadError::BlockLength { offset: 0, stated: 28 }));
    assert_eq!(change(28 + 19, 9), Some(ReadError::Content { offset: 28 }));
    assert_eq!(change(80 + 11, 2), Some(ReadError::UnknownInterface { offset: 80, interface: 2 }));
    assert_eq!(change(80 + 23, 200), Some(ReadError::Content { offset: 80 }));
    for length in 1..good.len() {
        // Cut between blocks it is a shorter capture; cut inside one it is an error, and nothing comes after it.
        let blocks: Vec<_> = Reader::new(&good[..length]).collect();
        let errors = blocks.iter().filter(|block| block.is_err()).count();
        assert!(errors == usize::from(![28, 60, 80, 116, 128].contains(&length)), "{length}: {blocks:?}");
        assert!(errors == 0 || blocks.last().is_some_and(Result::is_err));
    }
}
