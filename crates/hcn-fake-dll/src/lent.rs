//! Strings and handles that are out: who has them, and what came back that was not. It must not know what they are for.

use std::collections::HashMap;

use hcn::{Guid, Kind};

use crate::control::{Counts, Words};

/// What is out.
#[derive(Default)]
pub(crate) struct Lent {
    strings: HashMap<usize, Box<[u16]>>,
    handles: HashMap<usize, (Kind, Guid)>,
    last: usize,
    pub(crate) counts: Counts,
}

impl Lent {
    /// A string to hand out; NULL for none.
    pub(crate) fn string(&mut self, words: &Words) -> *mut u16 {
        let mut units: Vec<u16> = match words {
            Words::Null => return std::ptr::null_mut(),
            Words::Text(text) => text.encode_utf16().collect(),
            Words::Units(units) => units.clone(),
        };
        units.push(0);
        let mut string = units.into_boxed_slice();
        let pointer = string.as_mut_ptr();
        self.strings.insert(pointer.addr(), string);
        self.counts.strings += 1;
        self.counts.live_strings += 1;
        pointer
    }

    /// A string comes back.
    pub(crate) fn free(&mut self, address: usize) {
        if self.strings.remove(&address).is_some() {
            self.counts.live_strings -= 1;
        } else if address != 0 {
            self.counts.bad_frees += 1;
        }
    }

    /// A handle to hand out: a number that is no address.
    pub(crate) fn handle(&mut self, kind: Kind, id: Guid) -> usize {
        self.last += 16;
        self.handles.insert(self.last, (kind, id));
        self.counts.handles += 1;
        self.counts.live_handles += 1;
        self.last
    }

    /// The object behind a handle.
    pub(crate) fn object(&mut self, kind: Kind, handle: usize) -> Option<Guid> {
        let id = self.handles.get(&handle).filter(|(own, _)| *own == kind).map(|(_, id)| *id);
        self.counts.bad_handles += u64::from(id.is_none());
        id
    }

    /// A handle comes back.
    pub(crate) fn close(&mut self, kind: Kind, handle: usize) -> bool {
        let is_known = self.object(kind, handle).is_some();
        if is_known {
            self.handles.remove(&handle);
            self.counts.live_handles -= 1;
        }
        is_known
    }
}
