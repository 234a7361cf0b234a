//! What a lab could not do.

use std::error::Error;
use std::fmt;

/// Something that a lab could not do, and why.
#[derive(Debug)]
pub struct LabError {
    what: String,
    why: Box<dyn Error + Send + Sync>,
}

impl LabError {
    /// An error.
    pub fn new(what: impl Into<String>, why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.what, self.why)
    }
}

impl Error for LabError {}

/// Says what was being done when an error came up.
pub(super) trait Step<T> {
    /// Says it.
    fn step(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T, E: Error + Send + Sync + 'static> Step<T> for Result<T, E> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|error| LabError::new(what(), error))
    }
}
