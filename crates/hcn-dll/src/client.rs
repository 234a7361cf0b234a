//! The connection to the server, made by the first call that needs it, and how many calls may be under way on it.
//!
//! A server takes so many calls of one connection at a time and refuses the others. A program knows nothing of that, so
//! threads beyond that number wait here for their turn.

use std::sync::Arc;
use std::time::Duration;

use hcn::{Error, HResult, Result};
use hnsd::{Options, Remote};
use parking_lot::{Condvar, Mutex};

use crate::settings::Settings;

/// How long a server may take to let this process in. It is on the same machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection.
pub(crate) struct Client {
    remote: Remote,
    turns: Turns,
}

impl Client {
    pub(crate) fn new(settings: Settings) -> Self {
        let Settings { address, token, actor } = settings;
        let options = Options { token, patience: PATIENCE, ..Options::actor(actor) };
        Self { remote: Remote::new(address, options), turns: Turns::default() }
    }

    /// One call.
    pub(crate) fn call<T>(&self, work: impl FnOnce(&Remote) -> Result<T>) -> Result<T> {
        let limits = self
            .remote
            .limits()
            .map_err(|error| Error::detailed(HResult::RPC_SERVER_UNAVAILABLE, error.to_string()))?;
        let _turn = self.turns.take(limits.calls.max(1));
        work(&self.remote)
    }

    /// For what nobody waits for.
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }
}

/// How many calls are under way.
#[derive(Default)]
struct Turns {
    taken: Mutex<usize>,
    given_back: Condvar,
}

struct Turn<'a>(&'a Turns);

impl Turns {
    fn take(&self, most: usize) -> Turn<'_> {
        let mut taken = self.taken.lock();
        self.given_back.wait_while(&mut taken, |taken| *taken >= most);
        *taken += 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() -= 1;
        self.0.given_back.notify_one();
    }
}

/// Makes sure that the library stays loaded: a thread of its own is about to run in it.
#[cfg(windows)]
#[expect(unsafe_code, reason = "a call of the system")]
pub(crate) fn stay_loaded() {
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    };
    let here: fn() = stay_loaded;
    let mut module = std::ptr::null_mut();
    // SAFETY: the address is that of a function in this library, and the place lives.
    unsafe {
        GetModuleHandleExW(
            GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
            (here as *const ()).cast(),
            &raw mut module,
        );
    }
}

/// Elsewhere nobody unloads it.
#[cfg(not(windows))]
pub(crate) const fn stay_loaded() {}

/// The folder of the library's file.
#[cfg(windows)]
#[expect(unsafe_code, reason = "calls of the system")]
pub(crate) fn own_folder() -> Option<std::path::PathBuf> {
    use std::os::windows::ffi::OsStringExt as _;

    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
        GetModuleFileNameW, GetModuleHandleExW,
    };
    /// The longest path that Windows knows, in units.
    const LONGEST_PATH: u32 = 32_768;
    let here: fn() -> Option<std::path::PathBuf> = own_folder;
    let mut module = std::ptr::null_mut();
    // SAFETY: the address is that of a function in this library, and the place lives.
    let found = unsafe {
        GetModuleHandleExW(
            GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
            (here as *const ()).cast(),
            &raw mut module,
        )
    };
    if found == 0 {
        return None;
    }
    let mut units = vec![0_u16; LONGEST_PATH as usize];
    // SAFETY: the buffer is as long as is said.
    let length = unsafe { GetModuleFileNameW(module, units.as_mut_ptr(), LONGEST_PATH) };
    units.truncate(length as usize);
    let path = std::path::PathBuf::from(std::ffi::OsString::from_wide(&units));
    path.parent().map(std::path::Path::to_owned)
}

/// Elsewhere the library is for tests, which set the environment.
#[cfg(not(windows))]
pub(crate) const fn own_folder() -> Option<std::path::PathBuf> {
    None
}

/// What every part of the library that asks the server holds.
pub(crate) type Shared = Arc<Client>;
