//! The priority class of this process. It must not know who asks.

use std::io;

use anyhow::Context;
use windows_sys::Win32::System::Threading::{
    ABOVE_NORMAL_PRIORITY_CLASS, BELOW_NORMAL_PRIORITY_CLASS, GetCurrentProcess, HIGH_PRIORITY_CLASS,
    IDLE_PRIORITY_CLASS, NORMAL_PRIORITY_CLASS, REALTIME_PRIORITY_CLASS, SetPriorityClass,
};

use crate::cli::windows::PriorityClass;

/// Sets it.
pub fn set(class: PriorityClass) -> anyhow::Result<()> {
    let value = match class {
        PriorityClass::Idle => IDLE_PRIORITY_CLASS,
        PriorityClass::BelowNormal => BELOW_NORMAL_PRIORITY_CLASS,
        PriorityClass::Normal => NORMAL_PRIORITY_CLASS,
        PriorityClass::AboveNormal => ABOVE_NORMAL_PRIORITY_CLASS,
        PriorityClass::High => HIGH_PRIORITY_CLASS,
        PriorityClass::Realtime => REALTIME_PRIORITY_CLASS,
    };
    // SAFETY: the pseudo handle of this process is always valid.
    let is_set = unsafe { SetPriorityClass(GetCurrentProcess(), value) };
    if is_set == 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("--windows-priorityclass {class}: cannot set the priority class"));
    }
    Ok(())
}
