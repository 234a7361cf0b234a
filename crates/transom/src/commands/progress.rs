//! A line that moves while something takes long, on a terminal only; elsewhere the log tells.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use proxy::meter::Watch;

/// Shows how many HNS calls have been made until it is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Starts.
    pub(super) fn start(what: &str, watch: Option<Watch>) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg} {hns} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .with_key("hns", move |_: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                if let Some(watch) = &watch {
                    let meters = watch.meters();
                    // A formatter that fails has nowhere to say so.
                    let _ = write!(out, "{} calls, {} of them writes", meters.calls(), meters.writes());
                }
            });
        bar.set_style(style);
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }
}

#[cfg(target_os = "linux")]
impl Progress {
    /// Says what is being done now.
    pub(super) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
