//! The DNS name of this computer, which Node objects are named after. It must not know what the name is for.

use windows_sys::Win32::System::SystemInformation::{ComputerNamePhysicalDnsHostname, GetComputerNameExW};

/// The computer's name; blank where it cannot be had.
pub fn name() -> String {
    // DNS names have 63 characters at most between dots; this is far more.
    let mut buffer = [0_u16; 512];
    let mut length: u32 = 512;
    // SAFETY: the buffer has as many places as `length` says, and both outlive the call.
    let is_told =
        unsafe { GetComputerNameExW(ComputerNamePhysicalDnsHostname, buffer.as_mut_ptr(), &raw mut length) };
    if is_told == 0 {
        return String::new();
    }
    let length = usize::try_from(length).unwrap_or_default().min(buffer.len());
    String::from_utf16_lossy(&buffer[..length])
}
