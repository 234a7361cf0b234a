//! A server that goes away and comes back.

use hcn::{Guid, HResult, Kind};
use hns::faults::{Fault, FaultRule};
use hns::journal::Op;

use crate::world::World;

#[test]
fn a_server_that_goes_away_is_an_error_and_one_that_comes_back_is_found() {
    let world = World::new();
    let network = world.network("n");
    for _ in 0..3 {
        let rule = world.hns.faults().add(FaultRule::new(Fault::Hang).on(Op::Delete)).unwrap();
        std::thread::scope(|scope| {
            let hung = scope.spawn(|| world.delete(Kind::Network, Guid::NIL));
            world.hns.faults().wait_until_hung(1);
            world.stop();
            let failed = hung.join().unwrap().unwrap_err();
            assert_eq!(failed.code, HResult::RPC_CALL_FAILED);
            assert!(failed.text.contains("the connection to HNS was lost"), "{}", failed.text);
        });
        let failed = world.enumerate(Kind::Network, None).unwrap_err();
        assert_eq!(failed.code, HResult::RPC_SERVER_UNAVAILABLE);
        assert!(failed.text.contains("token.json"), "{}", failed.text);
        assert_eq!(
            world.query(Kind::Network, network, None).unwrap_err().code,
            HResult::RPC_SERVER_UNAVAILABLE
        );

        world.hns.faults().remove(rule);
        world.hns.faults().release_hung();
        world.start();
        world.query(Kind::Network, network, None).expect("a handle of before stands for the same object");
    }
}

#[test]
fn calls_beyond_what_the_server_takes_wait_for_their_turn() {
    let limits = hnsd::Limits { calls_per_client: 2, ..hnsd::Limits::default() };
    let world = World::limited(limits);
    let rule = world.hns.faults().add(FaultRule::new(Fault::Hang).on(Op::Delete)).unwrap();
    std::thread::scope(|scope| {
        let calls: Vec<_> =
            (0..8).map(|_| scope.spawn(|| world.delete(Kind::Network, Guid::from_u128(1)))).collect();
        world.hns.faults().wait_until_hung(2);
        world.hns.faults().remove(rule);
        world.hns.faults().release_hung();
        for call in calls {
            let failed = call.join().unwrap().unwrap_err();
            assert_ne!(failed.code, HResult::RPC_CALL_FAILED_DNE, "none was turned away");
        }
    });
}
