//! The only module that knows which crate reads YAML: a text in, JSON values out.
//!
//! Booleans are `true` and `false` only, so that an object may be called `n`. Limits follow the size of the text, so
//! that a large cluster is no special case, while aliases can add only little to what is written.

use serde_json::Value;

/// What a text may add by aliases, in nodes and bytes, whatever its size.
const SLACK: usize = 64 * 1024;

/// The documents of a text.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let limit = text.len().saturating_mul(2).saturating_add(SLACK);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: limit,
            max_nodes: limit,
            max_total_scalar_bytes: limit,
            max_documents: limit,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limit,
            max_replay_stack_depth: 32,
        },
        strict_booleans: true,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())
}
