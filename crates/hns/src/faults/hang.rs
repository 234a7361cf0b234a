//! Calls that never return, until they are let go (F-HANG).

use std::sync::Arc;

use hcn::HResult;
use parking_lot::{Condvar, Mutex};

/// How a hung call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It has its effect after all, late.
    Proceed,
    /// It fails without effect.
    Fail(HResult),
}

#[derive(Debug, Default)]
struct State {
    /// Each release opens a new generation; tokens of older ones are free.
    generation: u64,
    last: Option<Release>,
    waiting: usize,
}

/// Where hung calls wait.
#[derive(Debug, Default)]
pub(super) struct HangGate {
    state: Mutex<State>,
    changed: Condvar,
}

impl HangGate {
    pub(super) fn token(self: &Arc<Self>) -> HangToken {
        HangToken { gate: Arc::clone(self), generation: self.state.lock().generation }
    }

    pub(super) fn release(&self, how: Release) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.last = Some(how);
        self.changed.notify_all();
    }

    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    pub(super) fn wait_until_waiting(&self, calls: usize) {
        let mut state = self.state.lock();
        while state.waiting < calls {
            self.changed.wait(&mut state);
        }
    }
}

/// One hung call's way to wait. Held by the thread of the call, outside every lock of the state.
#[derive(Clone, Debug)]
pub struct HangToken {
    gate: Arc<HangGate>,
    generation: u64,
}

impl HangToken {
    /// Blocks until the call is released, and says how it goes on.
    pub fn wait(&self) -> Release {
        let mut state = self.gate.state.lock();
        state.waiting += 1;
        self.gate.changed.notify_all();
        while state.generation == self.generation {
            self.gate.changed.wait(&mut state);
        }
        state.waiting -= 1;
        self.gate.changed.notify_all();
        state.last.unwrap_or(Release::Fail(HResult::RPC_CALL_FAILED))
    }
}

impl PartialEq for HangToken {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.gate, &other.gate) && self.generation == other.generation
    }
}

impl Eq for HangToken {}
