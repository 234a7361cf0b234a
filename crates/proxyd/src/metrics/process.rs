//! Figures of the process under the names that Prometheus' clients give them. What a system does not tell is left out.

use std::fmt;

use super::expose::{Writer, count, one};

/// What the system says about this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Processor time, in seconds.
    pub(super) cpu: Option<f64>,
    /// Memory in use, in bytes.
    pub(super) resident: Option<u64>,
    /// Memory asked for, in bytes.
    pub(super) virtual_size: Option<u64>,
    /// Open files, or handles.
    pub(super) open: Option<u64>,
}

pub(super) fn write(writer: &mut Writer<'_>, started: f64) -> fmt::Result {
    let figures = read();
    writer.gauge("process_start_time_seconds", "When the process began", one(started))?;
    if let Some(cpu) = figures.cpu {
        writer.counter("process_cpu_seconds", "Processor time that was used", one(cpu))?;
    }
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Memory in use", figures.resident),
        ("process_virtual_memory_bytes", "Memory that was asked for", figures.virtual_size),
        ("process_open_fds", "Open files, or handles", figures.open),
    ] {
        if let Some(value) = value {
            writer.gauge(name, help, one(count(value)))?;
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn read() -> Figures {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
    Figures { open, ..linux_stat(&stat) }
}

/// The fields of `/proc/self/stat`: times in hundredths of a second, resident memory in pages of 4 KiB (both are fixed on the
/// architectures that are built for).
#[cfg(target_os = "linux")]
fn linux_stat(stat: &str) -> Figures {
    // The program's name may hold anything but ends with the last bracket; the state follows as field 3.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
    Figures {
        cpu: field(14).zip(field(15)).map(|(user, system)| count(user + system) / 100.0),
        resident: field(24).map(|pages| pages * 4096),
        virtual_size: field(23),
        open: None,
    }
}

#[cfg(windows)]
fn read() -> Figures {
    windows::read()
}

#[cfg(not(any(target_os = "linux", windows)))]
fn read() -> Figures {
    Figures::default()
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "Windows' own functions")]
mod windows {
    use windows_sys::Win32::Foundation::FILETIME;
    use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
    use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount, GetProcessTimes};

    use super::{Figures, count};

    pub(super) fn read() -> Figures {
        let none = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
        let (mut created, mut ended, mut system, mut user) = (none, none, none, none);
        // SAFETY: takes nothing and gives a pseudo handle that need not be closed.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: the handle is of this process, and all four places live until the call returns.
        let timed = unsafe {
            GetProcessTimes(process, &raw mut created, &raw mut ended, &raw mut system, &raw mut user)
        };
        let mut handles = 0;
        // SAFETY: as above.
        let counted = unsafe { GetProcessHandleCount(process, &raw mut handles) };
        // SAFETY: all of its members are numbers, for which zero is a value.
        let mut memory: PROCESS_MEMORY_COUNTERS = unsafe { std::mem::zeroed() };
        let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).unwrap_or_default();
        memory.cb = size;
        // SAFETY: the place is as large as it is said to be.
        let measured = unsafe { K32GetProcessMemoryInfo(process, &raw mut memory, size) };
        Figures {
            cpu: (timed != 0).then(|| (ticks(system) + ticks(user)) / 1e7),
            resident: (measured != 0).then_some(memory.WorkingSetSize as u64),
            virtual_size: (measured != 0).then_some(memory.PagefileUsage as u64),
            open: (counted != 0).then_some(u64::from(handles)),
        }
    }

    /// In units of 100 ns.
    fn ticks(time: FILETIME) -> f64 {
        count((u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_brackets_in_its_name_is_read() {
        let stat = "12 (a) b (c)) S 1 1 1 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 100 8192000 25 18446744073709551615";
        let figures = linux_stat(stat);
        assert_eq!(figures.cpu, Some(3.0));
        assert_eq!((figures.virtual_size, figures.resident), (Some(8_192_000), Some(25 * 4096)));
        assert_eq!(linux_stat(""), Figures::default());
    }

    #[test]
    fn this_process_has_figures() {
        let figures = read();
        assert!(figures.cpu.is_some() && figures.resident > Some(0) && figures.open > Some(0), "{figures:?}");
    }
}
