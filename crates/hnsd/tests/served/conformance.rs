//! The conformance suite through a server and a client, over both kinds of sockets.

use std::sync::Arc;

use hcn_conformance::Counts;
use hns::Profile;
use hnsd::{Address, Limits, Options, Remote};

use crate::world::World;

/// The same counts as without a socket in between (crates/hns/tests/conformance.rs).
const WANTED: [(Profile, Counts); 2] = [
    (Profile::Ws2019, Counts { passed: 86, refused: 19, failed: 0 }),
    (Profile::Newest, Counts { passed: 105, refused: 0, failed: 0 }),
];

#[test]
fn a_remote_hns_conforms_over_both_kinds_of_sockets() {
    for (profile, wanted) in WANTED {
        let world = World::new(profile, Limits::default());
        for address in [world.unix(), Address::TokenFile(world.token_file())] {
            let remote = Remote::connect(address.clone(), Options::actor("suite")).unwrap();
            let before = world.service.hns.digest();
            let options = hcn_conformance::Options {
                clock: Arc::new(world.clock.clone()),
                ..hcn_conformance::Options::default()
            };
            let report = hcn_conformance::run(&remote, &options);
            assert_eq!(report.counts(), wanted, "{profile} over {address}\n{report}");
            assert_eq!(world.service.hns.digest(), before, "{profile}: something was left behind");
        }
    }
}
