//! Signals and closed consoles ask a command to stop. It must not know what is stopped.

use anyhow::Context;

use crate::stop::Stop;

/// Has SIGINT, SIGTERM and SIGHUP, or on Windows Ctrl-C, Ctrl-Break, a closed console and a shutdown, ask.
pub fn ask_on_signals(stop: &Stop) -> anyhow::Result<()> {
    #[cfg(windows)]
    let set = crate::windows::console::ask_on_events(stop);
    #[cfg(not(windows))]
    let set = {
        let stop = stop.clone();
        ctrlc::set_handler(move || stop.ask())
    };
    set.context("cannot handle the signals to stop")
}
