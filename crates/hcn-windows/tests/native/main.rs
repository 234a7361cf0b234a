//! [`hcn_windows::Native`] over a shared object that counts what it lends. They are ordinary tests: on Windows they run with a DLL of the
//! same exports.

mod answers;
mod calls;
mod conformance;
mod loading;
mod notifications;

use hcn_fake_dll::Fake;
use hcn_windows::{Libraries, Native, Options};

/// The shared object with a new HNS, and the API over it.
fn open(options: Options) -> (Fake, Native) {
    let fake = Fake::fresh("newest");
    let native = over(options);
    (fake, native)
}

/// The API over the shared object as it is.
fn over(options: Options) -> Native {
    Native::load(&Libraries::one_file(Fake::path()), options).unwrap()
}

/// Fails when something that was handed out is still out, or came back twice.
#[track_caller]
fn all_is_back(fake: &Fake, after: &str) {
    if let Some(fault) = fake.counts().faults() {
        panic!("after {after}: {fault}");
    }
}
