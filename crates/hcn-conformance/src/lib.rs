//! One conformance suite for every implementation of the trait [`hcn::Hcn`]: the emulated HNS on Linux, a real HNS
//! on Windows, an HNS in another process.
//!
//! The cases hold what Microsoft's own tests of the Go package hcsshim/hcn hold, test by test, and the HNS parts of
//! its neighbours' (ncproxy, hnslib, windows-container-networking, kube-proxy's mock). They were written from facts
//! about those tests (steps and what must hold), not from their text. Each is a [`Case`] that names its source.
//!
//! ```
//! # fn report(hns: &dyn hcn::Hcn) -> String {
//! let report = hcn_conformance::run(hns, &hcn_conformance::Options::default());
//! assert!(report.is_good(), "{report}");
//! report.to_json().to_string()
//! # }
//! ```
//!
//! * No case is skipped. Where the version under test lacks a feature that a case needs, the case runs all the same
//!   and the feature must be *refused* with a code that says so ([`REFUSALS`]); two features that builds are known
//!   to accept without effect are told by their public reports.
//! * The suite touches only what it made: see [`Context`].
//! * Tests of hcsshim that call no service are listed in [`PURE`] with the test that covers them here.
//!
//! This crate knows the trait and its documents, no implementation.

mod cases;
mod context;
mod failure;
mod fixtures;
mod report;
mod run;
mod sequences;

use hcn::Feature;

pub use cases::cases;
pub use context::{Context, Exchange, Found};
pub use failure::{Failure, Nature};
pub use report::{CaseReport, Counts, Outcome, Report};
pub use run::{Options, REFUSALS, Scope, run};

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name: what it is about, then what it does.
    pub name: &'static str,
    /// The test that holds the same: project, package and name.
    pub source: &'static str,
    /// What the version must have for the case to pass; without one of them it must be refused.
    pub needs: &'static [Feature],
    /// The steps.
    pub run: fn(&Context<'_>) -> Result<(), Failure>,
}

/// A test of the source that calls no service, and where the same is tested here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pure {
    /// The test.
    pub source: &'static str,
    /// The test that covers it, in `tests/pure.rs` of this crate.
    pub covered_by: &'static str,
}

/// The tests of hcsshim/hcn that call no service.
pub const PURE: &[Pure] = &[
    Pure { source: "hcsshim hcn TestNewNamespace", covered_by: "a_namespace_document_is_made_for_each_type" },
    Pure {
        source: "hcsshim hcn TestIsNotFoundError",
        covered_by: "not_found_is_told_from_every_other_error",
    },
    Pure {
        source: "hcsshim hcn TestIsFeatureSupported",
        covered_by: "feature_ranges_are_inclusive_and_may_be_two",
    },
];
