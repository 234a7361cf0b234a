//! Why a case failed: which step, what was expected, what came.

use std::fmt;

use hcn::{Error, Feature, HResult};

/// What kind of thing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nature {
    /// A call was answered with this error.
    Refused(Box<Error>),
    /// A call succeeded and had not the effect it should have.
    Unmet,
    /// A lookup by id or name listed nothing.
    NotListed,
    /// The suite would have touched an object that was there before it and is not its own.
    Foreign,
    /// The case would have made a network of this type, which the run's scope excludes.
    OutOfScope(String),
}

/// A step that did not go as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which step.
    pub step: String,
    /// What should have come.
    pub expected: String,
    /// What came.
    pub came: String,
    /// What kind of thing it is.
    pub nature: Nature,
    /// The feature that the step was about, when it was about one.
    pub feature: Option<Feature>,
}

impl Failure {
    /// A call that was refused.
    pub fn refused(step: impl Into<String>, error: Error) -> Self {
        Self {
            step: step.into(),
            expected: "success".to_owned(),
            came: error.to_string(),
            nature: Nature::Refused(Box::new(error)),
            feature: None,
        }
    }

    /// An effect that is not there.
    pub fn unmet(step: impl Into<String>, expected: impl Into<String>, came: impl Into<String>) -> Self {
        Self {
            step: step.into(),
            expected: expected.into(),
            came: came.into(),
            nature: Nature::Unmet,
            feature: None,
        }
    }

    /// The code of the error, when a call was refused.
    pub const fn code(&self) -> Option<HResult> {
        match &self.nature {
            Nature::Refused(error) => Some(error.code),
            Nature::Unmet | Nature::NotListed | Nature::Foreign | Nature::OutOfScope(_) => None,
        }
    }

    /// Says that the step was about a feature, unless it is said already.
    #[must_use]
    pub fn about(mut self, feature: Feature) -> Self {
        self.feature.get_or_insert(feature);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, came {}", self.step, self.expected, self.came)
    }
}

impl std::error::Error for Failure {}
