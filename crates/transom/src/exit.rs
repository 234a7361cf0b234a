//! The exit codes of the command, in one place so that scripts can rely on them.
//!
//! | code | name | meaning |
//! |---|---|---|
//! | 0 | [`Exit::Success`] | the command did what it was asked; for `plan`: nothing differs |
//! | 1 | [`Exit::Failure`] | the command could not do its work; standard error says why |
//! | 2 | [`Exit::Differences`] | `plan`: wanted and observed differ |
//! | 3 | [`Exit::InputProblems`] | `--strict`: some input was refused, the rest was served |
//! | 4 | [`Exit::Degraded`] | `proxy --once`: some HNS objects could not be brought to what is wanted |
//! | any | [`Exit::Program`] | `lab exec`: what the program ended with; 128 and more: a signal |
//! | 64 | [`Exit::Usage`] | the command line was wrong (`EX_USAGE` of BSD's sysexits) |
//! | 101 | – | a panic, which is a bug in Transom |
//!
//! Argument parsers often end with 2 on a usage error. Here 2 means "there is a difference", as with `diff`
//! and `terraform plan`, so that a script never takes a mistyped flag for a finding.
//!
//! This module must not know of any command.

use std::process::{ExitCode, Termination};

/// How a command ended. The numbers are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// All is done.
    Success,
    /// The work could not be done.
    Failure,
    /// A plan has steps.
    Differences,
    /// Part of the input was refused and `--strict` was given.
    InputProblems,
    /// Part of the wanted state could not be reached.
    Degraded,
    /// The command line was wrong.
    Usage,
    /// A program that was run ended so.
    Program(u8),
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Differences => 2,
            Self::InputProblems => 3,
            Self::Degraded => 4,
            Self::Usage => 64,
            Self::Program(code) => code,
        }
    }

    /// Joins two outcomes of one run into the one that a script must hear of first.
    ///
    /// A failure hides everything else; a state that was not reached is worse than a difference that was only
    /// planned; refused input makes a plan incomplete, so it wins over "there are differences".
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self.weight() >= other.weight() { self } else { other }
    }

    fn weight(self) -> u8 {
        match self {
            Self::Success | Self::Program(0) => 0,
            Self::Differences => 1,
            Self::InputProblems => 2,
            Self::Degraded => 3,
            Self::Failure | Self::Program(_) => 4,
            Self::Usage => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_stable() {
        let numbers = [
            (Exit::Success, 0),
            (Exit::Failure, 1),
            (Exit::Differences, 2),
            (Exit::InputProblems, 3),
            (Exit::Degraded, 4),
            (Exit::Usage, 64),
            (Exit::Program(7), 7),
        ];
        for (exit, number) in numbers {
            assert_eq!(exit.code(), number, "{exit:?}");
        }
    }

    #[test]
    fn the_worse_outcome_is_reported() {
        let table = [
            (Exit::Success, Exit::Differences, Exit::Differences),
            (Exit::Differences, Exit::InputProblems, Exit::InputProblems),
            (Exit::InputProblems, Exit::Degraded, Exit::Degraded),
            (Exit::Degraded, Exit::Failure, Exit::Failure),
            (Exit::Success, Exit::Success, Exit::Success),
        ];
        for (a, b, worse) in table {
            assert_eq!(a.and(b), worse);
            assert_eq!(b.and(a), worse);
        }
    }
}
