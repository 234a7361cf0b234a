//! Arbitrary and damaged manifests: nothing panics, and damage harms only what it touches.

use proptest::collection::vec;
use proptest::prelude::*;
use services::source::manifests::fuzz_entry;

use crate::common::{parse, read};

/// Pieces that manifests are made of, so that random texts get past the first character.
const PIECES: [&str; 40] = [
    "apiVersion: v1\n",
    "kind: Service\n",
    "kind: List\n",
    "kind: EndpointSlice\n",
    "apiVersion: discovery.k8s.io/v1\n",
    "metadata:\n",
    "  name: web\n",
    "  labels: {kubernetes.io/service-name: web}\n",
    "spec:\n",
    "  clusterIP: 10.96.0.1\n",
    "  ports:\n",
    "  - port: 80\n",
    "    protocol: UDP\n",
    "endpoints:\n",
    "- addresses: [10.0.0.1]\n",
    "addressType: IPv4\n",
    "items:\n",
    "- ",
    "  ",
    "---\n",
    "...\n",
    "# comment\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    "\"",
    "'",
    "|\n",
    "? ",
    "!!binary ",
    "%YAML 1.2\n",
    "\t",
    "\u{feff}",
    "null\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(data in vec(any::<u8>(), 0..300)) {
        fuzz_entry(&data);
    }

    #[test]
    fn arbitrary_pieces(pieces in vec(proptest::sample::select(&PIECES[..]), 0..60)) {
        fuzz_entry(pieces.concat().as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A real dump with some bytes changed, taken out or put in.
    #[test]
    fn damaged_dumps(damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6)) {
        let mut data = read("testdata/clusters/dualstack-l2bridge.yaml").into_bytes();
        for (at, byte, how) in damage {
            let at = at.index(data.len());
            match how {
                0 => data[at] = byte,
                1 => { data.remove(at); }
                _ => data.insert(at, byte),
            }
        }
        fuzz_entry(&data);
    }

    /// What stands before the place where a file is cut off is used as if the file were whole.
    #[test]
    fn files_cut_off(at in any::<prop::sample::Index>()) {
        let text = read("testdata/clusters/dualstack-l2bridge.yaml");
        let whole = parse("x.yaml", &text).objects;
        let part = parse("x.yaml", &text[..at.index(text.len())]);
        prop_assert!(part.objects.len() <= whole.len());
        let common = part.objects.len().saturating_sub(1);
        prop_assert_eq!(&part.objects[..common], &whole[..common]);
    }
}

#[test]
fn seeds_pass() {
    let mut count = 0;
    for entry in std::fs::read_dir(crate::common::repository("fuzz/seeds/manifest")).unwrap() {
        fuzz_entry(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 8, "there are {count} seeds");
}
