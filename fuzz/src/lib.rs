//! What is fuzzed: one function for each kind of input that comes from outside.
//!
//! A function takes any bytes, must not panic, and checks properties of what was read, so that a lossy parser is
//! found too and not only one that crashes. libFuzzer calls them (`fuzz_targets/`), and so does the bounded smoke
//! (`tests/smoke.rs`), which needs no nightly toolchain.

#![expect(
    clippy::missing_panics_doc,
    reason = "a target panics when a property does not hold: that is its answer"
)]

mod calls;
mod cluster;
mod configuration;
mod documents;
mod frames;
pub mod mutate;
mod names;
mod node;
mod served;
mod switch;
mod words;

pub use calls::{fault_plan, hns_calls, v1_call};
pub use cluster::manifest;
pub use configuration::proxy_config;
pub use documents::{filter, hcn_document, v1_document};
pub use frames::{pcapng_reader, wire_build_error, wire_parse, wire_rewrite};
pub use names::dns_message;
pub use node::{node_frames, stack_frames, vfpctrl_line};
pub use served::hnsd_frames;
pub use switch::{vfp_changes, vfp_frames};

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was refused with an error, as most inputs are.
    Refused,
    /// It was read, and what was read has the properties that it must have.
    Read,
}

/// A function that is fuzzed.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of its folders and of its file in `fuzz_targets/`.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]) -> Verdict,
    /// Words that inputs of this kind are made of.
    pub dictionary: &'static [&'static str],
    /// How many mutations are worth one of the smoke's iterations: slow targets get fewer.
    pub share: u64,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "hcn_document", run: hcn_document, dictionary: words::HCN, share: 1 },
    Target { name: "v1_document", run: v1_document, dictionary: words::HCN, share: 1 },
    Target { name: "filter", run: filter, dictionary: words::HCN, share: 1 },
    Target { name: "v1_call", run: v1_call, dictionary: words::HCN, share: 2 },
    Target { name: "hns_calls", run: hns_calls, dictionary: words::CALLS, share: 4 },
    Target { name: "fault_plan", run: fault_plan, dictionary: words::FAULTS, share: 8 },
    Target { name: "manifest", run: manifest, dictionary: words::MANIFEST, share: 4 },
    Target { name: "wire_parse", run: wire_parse, dictionary: words::FRAMES, share: 1 },
    Target { name: "wire_build_error", run: wire_build_error, dictionary: words::FRAMES, share: 1 },
    Target { name: "wire_rewrite", run: wire_rewrite, dictionary: words::FRAMES, share: 1 },
    Target { name: "node_frames", run: node_frames, dictionary: words::FRAMES, share: 8 },
    Target { name: "stack_frames", run: stack_frames, dictionary: words::FRAMES, share: 4 },
    Target { name: "vfpctrl_line", run: vfpctrl_line, dictionary: words::CTRL, share: 8 },
    Target { name: "pcapng_reader", run: pcapng_reader, dictionary: words::CAPTURES, share: 1 },
    Target { name: "vfp_frames", run: vfp_frames, dictionary: words::FRAMES, share: 8 },
    Target { name: "vfp_changes", run: vfp_changes, dictionary: &[], share: 8 },
    Target { name: "dns_message", run: dns_message, dictionary: words::NAMES, share: 2 },
    Target { name: "hnsd_frames", run: hnsd_frames, dictionary: words::SERVED, share: 1 },
    Target { name: "proxy_config", run: proxy_config, dictionary: words::CONFIGURATION, share: 4 },
];

/// Documents are text; other bytes are made text as a lenient reader would.
pub(crate) fn text(data: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(data)
}

/// A document that was read must come back the same when it is written and read again.
pub(crate) fn keeps<T: PartialEq + std::fmt::Debug, E: std::fmt::Debug>(
    read: &T,
    write: impl Fn(&T) -> String,
    parse: impl Fn(&str) -> Result<T, E>,
) {
    let written = write(read);
    let again = parse(&written).unwrap_or_else(|error| panic!("own text is refused: {error:?}\n{written}"));
    assert_eq!(*read, again, "lost in a round trip:\n{written}");
    assert_eq!(written, write(&again), "the same document is written in two ways");
}
