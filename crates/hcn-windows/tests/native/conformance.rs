//! The conformance suite through the binary interface: strings, handles and error records between it and the emulated HNS.

use hcn_conformance::Counts;
use hcn_fake_dll::Fake;
use hcn_windows::{Options, VerifyIds};

use crate::{all_is_back, over};

/// The same counts as without the interface in between (crates/hns/tests/conformance.rs).
const WANTED: [(&str, Counts); 4] = [
    ("ws2019", Counts { passed: 86, refused: 19, failed: 0 }),
    ("ws2022", Counts { passed: 96, refused: 9, failed: 0 }),
    ("ws2025", Counts { passed: 103, refused: 2, failed: 0 }),
    ("newest", Counts { passed: 105, refused: 0, failed: 0 }),
];

#[test]
fn the_api_conforms_and_gives_everything_back() {
    for (profile, wanted) in WANTED {
        for verify_ids in [VerifyIds::Never, VerifyIds::UntilKept, VerifyIds::Always] {
            let fake = Fake::fresh(profile);
            let native = over(Options { verify_ids });
            let before = fake.digest();
            let options =
                hcn_conformance::Options { clock: fake.clock(), ..hcn_conformance::Options::default() };
            let report = hcn_conformance::run(&native, &options);
            assert_eq!(report.counts(), wanted, "{profile} {verify_ids:?}\n{report}");
            assert_eq!(fake.digest(), before, "{profile}: something was left behind");
            drop(native);
            all_is_back(&fake, profile);
            let counts = fake.counts();
            assert!(counts.strings > 500 && counts.handles > 400, "{counts:?}");
        }
    }
}
