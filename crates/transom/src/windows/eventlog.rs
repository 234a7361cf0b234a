//! Windows' event log as a place for log lines. It must not know what is logged.

use std::io;

use tracing::Level;
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, EVENTLOG_WARNING_TYPE,
    RegisterEventSourceW, ReportEventW,
};

use crate::logging::events::Events;

/// The source that events are listed under.
pub const SOURCE: &str = "transom";

/// The longest text of an event, in UTF-16 units; Windows takes 31,839.
const MOST: usize = 31_000;

/// An open source of the event log of this machine.
pub struct EventLog(HANDLE);

// SAFETY: the handle may be used from any thread, as handles of the system may.
unsafe impl Send for EventLog {}
// SAFETY: likewise, at the same time too.
unsafe impl Sync for EventLog {}

impl EventLog {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        let source: Vec<u16> = SOURCE.encode_utf16().chain([0]).collect();
        // SAFETY: no machine is named, the source is NUL-terminated.
        let handle = unsafe { RegisterEventSourceW(std::ptr::null(), source.as_ptr()) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }
}

impl Events for EventLog {
    fn event(&self, level: Level, text: &str) -> io::Result<()> {
        // Ids up to 1000 are those that Windows' own message file `EventCreate.exe` prints as they are.
        let (kind, id) = match level {
            Level::ERROR => (EVENTLOG_ERROR_TYPE, 3),
            Level::WARN => (EVENTLOG_WARNING_TYPE, 2),
            _ => (EVENTLOG_INFORMATION_TYPE, 1),
        };
        let text: Vec<u16> = text.encode_utf16().filter(|unit| *unit != 0).take(MOST).chain([0]).collect();
        let strings = [text.as_ptr()];
        // SAFETY: the handle is open; there is one string, NUL-terminated, and no user and no data.
        let is_written = unsafe {
            ReportEventW(self.0, kind, 0, id, std::ptr::null_mut(), 1, 0, strings.as_ptr(), std::ptr::null())
        };
        if is_written == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by `open` and is closed here only. There is nothing to do when that fails.
        unsafe { DeregisterEventSource(self.0) };
    }
}
