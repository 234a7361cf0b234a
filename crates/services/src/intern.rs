//! One copy of a text that repeats, such as the node names in a slice.

use std::sync::Arc;

use rustc_hash::FxHashSet;

/// A pool of texts, as long-lived as its owner wants. The texts outlive the pool.
#[derive(Debug, Default)]
pub(crate) struct Pool(FxHashSet<Arc<str>>);

impl Pool {
    /// The pool's copy of a text.
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }

    /// The pool's copy of a text that may be absent; an empty text counts as absent.
    pub(crate) fn get_some(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.filter(|t| !t.is_empty()).map(|t| self.get(t))
    }
}
