//! What a test says to the shared object and hears from it: JSON through one exported function.

#![expect(unsafe_code, reason = "calls the shared object's control function")]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hcn::HResult;
use hcn::time::Clock;
use libloading::Library;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The control function's name.
pub const CONTROL: &str = "hcn_fake_control";

/// The control function: a request as JSON, its length, who takes the answer, and what goes with that.
pub(crate) type Control = unsafe extern "C" fn(*const u8, usize, Answer, *mut c_void);

/// Takes an answer: `(context, JSON, its length)`.
pub(crate) type Answer = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// A string that a call hands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Words {
    /// None: NULL.
    Null,
    /// This text.
    Text(String),
    /// These units, whether they are UTF-16 or not; a NUL is put behind them.
    Units(Vec<u16>),
}

/// What a call answers instead of what it would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The export; with `*` at its end, all that begin so.
    pub export: String,
    /// How many calls it is for; none: all.
    pub times: Option<u32>,
    /// Whether the call is carried out, and only its answer is another.
    pub acts: bool,
    /// The HRESULT.
    pub result: Option<u32>,
    /// The error record.
    pub record: Option<Words>,
    /// The payload.
    pub payload: Option<Words>,
    /// Whether NULL is handed out as the handle.
    pub null_handle: bool,
}

impl Rule {
    /// For every call of an export, which is carried out.
    pub fn of(export: &str) -> Self {
        Self {
            export: export.to_owned(),
            times: None,
            acts: true,
            result: None,
            record: None,
            payload: None,
            null_handle: false,
        }
    }

    /// The call is not carried out and fails, without a record.
    #[must_use]
    pub fn fails(self, code: HResult) -> Self {
        Self { acts: false, result: Some(code.0), ..self }
    }

    /// The HRESULT.
    #[must_use]
    pub fn result(self, code: u32) -> Self {
        Self { result: Some(code), ..self }
    }

    /// The error record.
    #[must_use]
    pub fn record(self, words: Words) -> Self {
        Self { record: Some(words), ..self }
    }

    /// The payload.
    #[must_use]
    pub fn payload(self, words: Words) -> Self {
        Self { payload: Some(words), ..self }
    }

    /// No handle.
    #[must_use]
    pub fn null_handle(self) -> Self {
        Self { null_handle: true, ..self }
    }

    /// For the next calls only.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }
}

/// What was lent and what came back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Strings that were handed out.
    pub strings: u64,
    /// Those that were not freed.
    pub live_strings: u64,
    /// Frees of what is not a live string: freed twice, or never handed out.
    pub bad_frees: u64,
    /// Handles that were handed out.
    pub handles: u64,
    /// Those that were not closed.
    pub live_handles: u64,
    /// Uses and closes of what is not a live handle of that kind.
    pub bad_handles: u64,
    /// Registrations for notifications that were not ended.
    pub live_registrations: u64,
    /// Ends of what is not a live registration.
    pub bad_registrations: u64,
}

impl Counts {
    /// What is wrong with them when nothing is in use.
    pub fn faults(&self) -> Option<String> {
        let none = Self { strings: self.strings, handles: self.handles, ..Self::default() };
        (*self != none).then(|| format!("not everything was given back, once: {self:?}"))
    }
}

/// What can be asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A new HNS of this profile, with these switches (YAML); all counts at zero, no rules.
    Reset { profile: String, switches: String },
    /// One rule more; the first one that fits counts.
    Rule(Rule),
    /// The counts.
    Counts,
    /// The exports that were called, in order.
    Calls,
    /// Tells all who are registered, from a thread of its own or from the caller's.
    Notify { kind: u32, data: Words, thread: bool },
    /// The HNS restarts and says so.
    Restart,
    /// Whether an unregistering first has the callback called once more, from another thread.
    Late(bool),
    /// The HNS's time in nanoseconds.
    Now,
    /// Lets the HNS's time pass.
    Pass(u64),
    /// All objects.
    Digest,
}

/// The shared object, for one test at a time.
pub struct Fake {
    /// Never unloaded: callbacks and late frees may be on their way.
    library: ManuallyDrop<Library>,
    _turn: MutexGuard<'static, ()>,
}

/// Whose turn it is: the shared object has one state for the process.
static TURN: Mutex<()> = Mutex::new(());

impl Fake {
    /// The shared object beside the program that runs, where cargo puts it for a test that depends on this crate.
    ///
    /// # Panics
    ///
    /// When it is not there.
    pub fn path() -> PathBuf {
        let program = std::env::current_exe().unwrap_or_default();
        let path = program.with_file_name(libloading::library_filename("hcn_fake_dll"));
        assert!(path.exists(), "{} is not there; cargo makes it with this package's tests", path.display());
        path
    }

    /// The shared object with a new HNS of a profile; waits for other tests of this process.
    ///
    /// # Panics
    ///
    /// When it cannot be loaded or does not know the profile.
    pub fn fresh(profile: &str) -> Self {
        Self::with_switches(profile, "")
    }

    /// The same with switches of the HNS.
    ///
    /// # Panics
    ///
    /// As [`Fake::fresh`].
    pub fn with_switches(profile: &str, switches: &str) -> Self {
        let turn = TURN.lock();
        // SAFETY: the shared object is this crate's own; loading it runs no code of its own.
        let library = unsafe { Library::new(Self::path()) }.unwrap_or_else(|error| panic!("{error}"));
        let fake = Self { library: ManuallyDrop::new(library), _turn: turn };
        fake.ask(&Request::Reset { profile: profile.to_owned(), switches: switches.to_owned() });
        fake
    }

    /// Adds a rule.
    pub fn rule(&self, rule: Rule) {
        self.ask(&Request::Rule(rule));
    }

    /// What was lent and what came back.
    ///
    /// # Panics
    ///
    /// When the shared object is of another version.
    pub fn counts(&self) -> Counts {
        serde_json::from_value(self.ask(&Request::Counts)).expect("counts")
    }

    /// The exports that were called since the HNS is new, or since this was last asked.
    ///
    /// # Panics
    ///
    /// When the shared object is of another version.
    pub fn calls(&self) -> Vec<String> {
        serde_json::from_value(self.ask(&Request::Calls)).expect("names")
    }

    /// Tells all who are registered; from a thread of the shared object's own, which is waited for, or from this one.
    pub fn notify(&self, kind: u32, data: Words, thread: bool) {
        self.ask(&Request::Notify { kind, data, thread });
    }

    /// Restarts the HNS, which says so.
    pub fn restart(&self) {
        self.ask(&Request::Restart);
    }

    /// Whether an unregistering has the callback called once more, from another thread.
    pub fn late(&self, late: bool) {
        self.ask(&Request::Late(late));
    }

    /// All objects, as text.
    pub fn digest(&self) -> String {
        self.ask(&Request::Digest).as_str().unwrap_or_default().to_owned()
    }

    /// The HNS's time, which moves when it is slept on.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(FakeClock { control: self.control() })
    }

    fn control(&self) -> Control {
        // SAFETY: the shared object is this crate's own and exports this function with this type; it is never
        // unloaded.
        *unsafe { self.library.get::<Control>(CONTROL) }.unwrap_or_else(|error| panic!("{error}"))
    }

    fn ask(&self, request: &Request) -> Value {
        ask(self.control(), request)
    }
}

fn ask(control: Control, request: &Request) -> Value {
    unsafe extern "C" fn take(context: *mut c_void, text: *const u8, length: usize) {
        // SAFETY: the context is the vector below, and nobody else uses it during the call; the text is as long as is said.
        unsafe { (*context.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(text, length)) };
    }
    let text = serde_json::to_string(request).expect("a request is JSON");
    let mut answer: Vec<u8> = Vec::new();
    // SAFETY: the text is as long as is said; the context is what `take` expects and lives through the call.
    unsafe { control(text.as_ptr(), text.len(), take, (&raw mut answer).cast()) };
    let answer: Result<Value, String> = serde_json::from_slice(&answer).expect("an answer is JSON");
    answer.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The time of the HNS in the shared object.
struct FakeClock {
    control: Control,
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(ask(self.control, &Request::Now).as_u64().unwrap_or_default())
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + self.now()
    }

    fn sleep(&self, duration: Duration) {
        ask(self.control, &Request::Pass(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)));
    }
}
