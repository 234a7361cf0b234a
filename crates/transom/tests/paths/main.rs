//! The packet paths: for each case of `testdata/paths/*.yaml` a whole exchange runs through an emulated cluster, and
//! what was seen at every port and on the wire, both ways, must be what the case says.
//!
//! Cases are data; see docs/paths.md for how to read and add them. `UPDATE_PATHS=1` writes what was seen into the files:
//! read the difference before keeping it.

mod cases;
mod names;
mod observe;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let mut files = cases::load();
    let listing = arguments.list;
    let mut trials = Vec::new();
    for file in &mut files {
        // A runner that starts this program once for each test wants one file and none of the others.
        let wanted = match &arguments.filter {
            Some(name) if arguments.exact => name.starts_with(&format!("{}::", file.stem)),
            _ => true,
        };
        if !listing && wanted {
            observe::run(file);
        }
        if std::env::var_os("UPDATE_PATHS").is_some() && !listing {
            file.keep_what_was_seen();
        }
        for case in &file.cases {
            let (expected, seen) = (case.expected.clone(), case.seen.clone());
            trials.push(Trial::test(format!("{}::{}", file.stem, case.id), move || match cases::difference(
                &expected, &seen,
            ) {
                None => Ok(()),
                Some(text) => Err(Failed::from(text)),
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
