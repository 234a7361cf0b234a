//! The time in which is counted, and what the machine did in it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hcn::time::Clock;

/// How long an interruption may go unnoticed.
const SLICE: Duration = Duration::from_millis(200);
/// The unit of `/proc/stat`, which is the same on all architectures (`USER_HZ`).
const TICKS: f64 = 100.0;

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Per second.
    pub(crate) rate: f64,
    /// The whole machine's processor seconds for each that was counted.
    pub(crate) cpu: f64,
    /// What did not arrive.
    pub(crate) lost: u64,
}

/// When is counted.
pub(crate) struct Window {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) interrupted: Arc<AtomicBool>,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
}

impl Window {
    /// Lets time pass and tells what a counter gained in it.
    pub(crate) fn measure(&self, counter: impl Fn() -> u64) -> Result<Sample> {
        self.pass(self.warm_up)?;
        let (count, cpu, start) = (counter(), busy()?, self.clock.now());
        self.pass(self.length)?;
        let (count, cpu) = (counter() - count, busy()? - cpu);
        let time = self.clock.now().saturating_sub(start);
        if count == 0 {
            bail!("nothing arrived");
        }
        let count = number(count);
        Ok(Sample { rate: count / time.as_secs_f64(), cpu: number(cpu) / TICKS / count, lost: 0 })
    }

    fn pass(&self, time: Duration) -> Result<()> {
        let until = self.clock.now() + time;
        loop {
            let rest = until.saturating_sub(self.clock.now());
            if rest.is_zero() {
                return Ok(());
            }
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            self.clock.sleep(rest.min(SLICE));
        }
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// The ticks that all processors were busy: all but what was idle, waited for disks or was another machine's.
fn busy() -> Result<u64> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("cpu ")).context("/proc/stat has no line cpu")?;
    let ticks: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
    match ticks.context("/proc/stat")?[..] {
        [user, nice, system, _idle, _waiting, interrupts, soft, ..] => {
            Ok(user + nice + system + interrupts + soft)
        }
        _ => bail!("/proc/stat: the line cpu is too short"),
    }
}

/// How many programs wanted to run in the last minute.
pub(crate) fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    text.split_whitespace().next().map(str::to_owned).context("/proc/loadavg is empty")
}
