//! A second place for warnings and errors: an event log, which takes one text after the other, each with its severity. It must not know
//! which one.

use std::io::{self, Write};
use std::sync::Arc;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Takes events.
pub trait Events: Send + Sync {
    /// Takes one.
    fn event(&self, level: Level, text: &str) -> io::Result<()>;
}

/// Makes an event of each line.
#[derive(Clone)]
pub(super) struct EventWriter {
    events: Arc<dyn Events>,
    level: Level,
}

impl EventWriter {
    pub(super) fn new(events: Box<dyn Events>) -> Self {
        Self { events: events.into(), level: Level::INFO }
    }
}

impl<'w> MakeWriter<'w> for EventWriter {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }

    fn make_writer_for(&'w self, metadata: &Metadata<'_>) -> Self {
        Self { level: *metadata.level(), ..self.clone() }
    }
}

impl Write for EventWriter {
    /// A line comes whole, in one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.events.event(self.level, String::from_utf8_lossy(line).trim_end())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
