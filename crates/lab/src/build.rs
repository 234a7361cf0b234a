//! Carries plans out: namespaces, and iproute2's programs in them.
//!
//! It must not know what a cluster is; it makes one plan of another, and takes away what a lab has left behind.

mod batch;
mod difference;
mod down;

use std::io;

use crate::names::Names;
use crate::netns::{Netns, NetnsError};
use crate::plan::{LabPlan, Namespace};
use crate::record::{Record, RecordError};

pub(crate) use batch::feed;
pub use difference::{Difference, Script};
pub use down::{Ended, down};

/// What cannot be built or removed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A namespace.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// The lab's record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A line of a script.
    #[error("{program} in network namespace {namespace}: {line}: {error}")]
    Script {
        /// The program.
        program: &'static str,
        /// Where it ran.
        namespace: String,
        /// The line that failed.
        line: String,
        /// What the program said.
        error: String,
    },
    /// The lab's folder, or what there is in the system.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
}

/// Builds a plan where nothing of it is. On an error, what was made stays for [`down`].
pub fn build(plan: &LabPlan, names: &Names, record: &mut Record) -> Result<(), BuildError> {
    apply(&Difference::all(plan), names, record)
}

/// Makes the difference between two plans. Every namespace is in the record before it is made, and as long as it may
/// be there.
pub fn apply(difference: &Difference, names: &Names, record: &mut Record) -> Result<(), BuildError> {
    batch::run(batch::Program::Ip, &difference.removals)?;
    for namespace in &difference.gone {
        Netns::delete(namespace)?;
    }
    record.namespaces.retain(|namespace| !difference.gone.contains(namespace));
    record.namespaces.extend(difference.new.iter().cloned());
    record.save(names)?;
    let settings: Vec<_> = difference.settings.iter().collect();
    batch::each(&settings, |(namespace, settings)| -> Result<(), BuildError> {
        if difference.new.contains(*namespace) {
            tracing::debug!(namespace, "making a network namespace");
            set(&Netns::create(namespace)?, settings)
        } else {
            set(&Netns::open(namespace)?, settings)
        }
    })?;
    batch::run(batch::Program::Ip, &difference.devices)?;
    batch::run(batch::Program::Ip, &difference.contents)?;
    batch::run(batch::Program::Bridge, &difference.forwardings)
}

fn set(namespace: &Netns, settings: &[(String, &'static str)]) -> Result<(), BuildError> {
    let here: Vec<(&str, &str)> = settings.iter().map(|(path, value)| (&**path, *value)).collect();
    namespace.sysctls(&here)?;
    namespace.optional_sysctls(Namespace::optional_settings())?;
    Ok(())
}
