//! How a command that stays is asked to end: by a signal, a closed console, or Windows' service manager. It must not know any of them,
//! nor any command.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Asks, and is asked; clones are the same one.
#[derive(Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    is_asked: bool,
    waiting: Vec<Box<dyn FnOnce() + Send>>,
}

impl Stop {
    /// Not asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks; once is enough.
    pub fn ask(&self) {
        let waiting = {
            let mut state = self.inner.state.lock();
            state.is_asked = true;
            std::mem::take(&mut state.waiting)
        };
        self.inner.asked.notify_all();
        for act in waiting {
            act();
        }
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.inner.state.lock().is_asked
    }

    /// Has something done as soon as somebody asks: at once, when somebody has.
    pub fn when_asked(&self, act: impl FnOnce() + Send + 'static) {
        {
            let mut state = self.inner.state.lock();
            if !state.is_asked {
                state.waiting.push(Box::new(act));
                return;
            }
        }
        act();
    }

    /// Waits for so long or until somebody asks. True when somebody has.
    pub fn pause(&self, duration: Duration) -> bool {
        let mut state = self.inner.state.lock();
        self.inner.asked.wait_while_for(&mut state, |state| !state.is_asked, duration);
        state.is_asked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_waits_hears_it_once() {
        let stop = Stop::new();
        assert!(!stop.is_asked() && !stop.pause(Duration::ZERO));
        let (heard, told) = channel();
        let later = heard.clone();
        stop.when_asked(move || heard.send("before").unwrap());
        stop.clone().ask();
        stop.ask();
        assert!(stop.is_asked() && stop.pause(Duration::from_hours(1)));
        stop.when_asked(move || later.send("after").unwrap());
        assert_eq!(told.iter().collect::<Vec<_>>(), ["before", "after"]);
    }

    #[test]
    fn a_pause_ends_when_somebody_asks() {
        let stop = Stop::new();
        std::thread::scope(|scope| {
            let pause = scope.spawn(|| stop.pause(Duration::from_hours(1)));
            stop.ask();
            assert!(pause.join().unwrap());
        });
    }
}
