//! What is captured of a node: the same bytes in every run, each frame with right checksums.

use node::NetworkKind;
use node::app::Transport;
use node::capture::Capture;
use wire::pcapng::{About, Reader};

use crate::world::{ask, pod, simulation};

/// The bytes of a capture of one exchange between pods of two nodes.
fn captured(kind: NetworkKind) -> Vec<u8> {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut simulation = simulation(kind);
    let capture = Capture::new(path.reopen().unwrap(), &About::default()).unwrap();
    let device = simulation.node("win-1").unwrap();
    simulation.fabric_mut().set_tap(Some(Box::new(capture.tap([(device, "win-1".to_owned())]))));
    simulation.with_windows("win-1", |node| {
        let observer = capture.observer("win-1", node.switch());
        node.set_observer(Some(Box::new(observer)));
    });
    let done = ask(&mut simulation, &pod("win-1-5"), "10.50.2.6", Transport::Tcp);
    assert!(done.outcome.answer().is_some(), "{}", done.outcome);
    capture.flush().unwrap();
    let bytes = std::fs::read(path.path()).unwrap();
    let packets = Reader::new(&bytes).packets().unwrap();
    assert_eq!(packets.len(), usize::try_from(capture.packets()).unwrap());
    assert!(packets.len() > 40, "{}", packets.len());
    bytes
}

#[test]
fn the_same_seed_gives_the_same_capture() {
    for kind in [NetworkKind::Overlay, NetworkKind::L2Bridge] {
        assert!(captured(kind) == captured(kind), "{kind}: two runs differ");
    }
}
