//! Console events: Ctrl-C, Ctrl-Break, a closed console, the system's shutdown. It must not know what is stopped.

use std::io;
use std::sync::OnceLock;

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_SHUTDOWN_EVENT, SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

use crate::stop::Stop;

/// Who is asked. The system's handler has no context.
static STOP: OnceLock<Stop> = OnceLock::new();

/// Has console events ask.
pub fn ask_on_events(stop: &Stop) -> io::Result<()> {
    if STOP.set(stop.clone()).is_err() {
        return Err(io::Error::other("console events are handled already"));
    }
    // SAFETY: the handler is a function of this program with the signature that is asked for.
    let is_set = unsafe { SetConsoleCtrlHandler(Some(handle), 1) };
    if is_set == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What an event means for this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Stop.
    Stop,
    /// Stop, and Windows ends the process as soon as the handler returns.
    StopAndStay,
    /// None: a user has logged off, which is no reason for a program that serves the node.
    None,
}

const fn meaning(event: u32) -> Meaning {
    match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT => Meaning::Stop,
        CTRL_CLOSE_EVENT | CTRL_SHUTDOWN_EVENT => Meaning::StopAndStay,
        _ => Meaning::None,
    }
}

unsafe extern "system" fn handle(event: u32) -> BOOL {
    let meaning = meaning(event);
    if let Some(stop) = STOP.get()
        && meaning != Meaning::None
    {
        stop.ask();
        if meaning == Meaning::StopAndStay {
            loop {
                // The process ends by itself, with its own exit code; this thread of Windows' has nothing more to do.
                std::thread::park();
            }
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_events_mean() {
        for (event, wanted) in [
            (0, Meaning::Stop),
            (1, Meaning::Stop),
            (2, Meaning::StopAndStay),
            (5, Meaning::None),
            (6, Meaning::StopAndStay),
            (99, Meaning::None),
        ] {
            assert_eq!(meaning(event), wanted, "{event}");
        }
    }

    #[test]
    fn an_event_asks() {
        let stop = Stop::new();
        ask_on_events(&stop).unwrap();
        // SAFETY: the handler may be called by anybody.
        assert_eq!(unsafe { handle(5) }, 1);
        assert!(!stop.is_asked());
        // SAFETY: likewise.
        assert_eq!(unsafe { handle(CTRL_C_EVENT) }, 1);
        assert!(stop.is_asked());
        assert!(ask_on_events(&stop).is_err());
    }
}
