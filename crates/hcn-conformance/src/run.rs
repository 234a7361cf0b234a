//! The runner: one case after the other on one HNS, and what is to be concluded from how each ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hcn::time::{Clock, SystemClock};
use hcn::{ErrorClass, Feature, Features, Guid, HResult, Hcn, Kind, Query, Version};

use crate::context::{Context, name_of};
use crate::failure::{Failure, Nature};
use crate::report::{CaseReport, Outcome, Report};
use crate::{Case, cases};

/// Which networks a run may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All types. Overlay and bridge networks take the adapter that they are on: a machine that is reached over it is
    /// cut off for some seconds, or for good where its cloud knows nothing of the new addresses.
    #[default]
    All,
    /// NAT networks only, which touch no adapter. A case ends where it would make another one; what it did before
    /// that is cleaned up, and the case is reported as out of scope, not as passed.
    NatOnly,
}

impl Scope {
    /// Its name: `all` or `nat`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::NatOnly => "nat",
        }
    }

    /// Whether a network of this type may be made; the default type is NAT.
    pub(crate) fn allows(self, network_type: &str) -> bool {
        self == Self::All || network_type.is_empty() || network_type.eq_ignore_ascii_case("nat")
    }
}

/// How to run.
#[derive(Clone)]
pub struct Options {
    /// What the names of the suite's own objects begin with. Objects with such names that are there already are
    /// taken for leftovers of an earlier run.
    pub prefix: String,
    /// The host's adapter for Overlay and L2Bridge networks; none lets HNS choose. On a real machine these networks
    /// take the adapter's link down for some seconds.
    pub adapter: Option<String>,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Which networks may be made.
    pub scope: Scope,
    /// Time, for what HNS does after a call has returned.
    pub clock: Arc<dyn Clock>,
    /// How long between two looks at such a thing.
    pub poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "hcn-conformance".to_owned(),
            adapter: None,
            only: None,
            scope: Scope::All,
            clock: Arc::new(SystemClock::default()),
            poll: Duration::from_millis(500),
        }
    }
}

/// Codes by which a build may say that it does not have a feature: "not implemented" and "unsupported" in their
/// forms, and "invalid" for a policy, flag, prefix or document that it does not know.
pub const REFUSALS: &[HResult] = &[
    HResult::E_NOTIMPL,
    HResult::NOT_SUPPORTED,
    HResult::REQUEST_UNSUPPORTED,
    HResult::GCN_REQUEST_UNSUPPORTED,
    HResult::INVALID_PARAMETER,
    HResult::INVALID_POLICY,
    HResult::INVALID_POLICY_TYPE,
    HResult::INVALID_NETWORK,
    HResult::INVALID_SUBNET,
    HResult::INVALID_PREFIX,
    HResult::INVALID_ENDPOINT,
];

/// A feature that builds without it are known to accept and not to carry out, and the public report of that.
struct Ignored {
    feature: Feature,
    from: Version,
    to: Version,
    report: &'static str,
}

const IGNORED: &[Ignored] = &[
    Ignored {
        feature: Feature::ModifyLoadBalancer,
        from: Version::new(15, 4),
        to: Version::new(15, 4),
        report: "kubernetes/kubernetes#131466",
    },
    Ignored {
        feature: Feature::SessionAffinity,
        from: Version::new(0, 0),
        to: Version::new(11, u32::MAX),
        report: "kubernetes/kubernetes#91701",
    },
];

fn ignored(feature: Feature, version: Version) -> Option<&'static str> {
    let row = IGNORED.iter().find(|row| row.feature == feature && (row.from..=row.to).contains(&version))?;
    Some(row.report)
}

/// Runs the suite. Nothing but the suite's own objects is touched; each case cleans up after itself.
pub fn run(hcn: &dyn Hcn, options: &Options) -> Report {
    let version = match hcn.version() {
        Ok(version) => version,
        Err(error) => return Report::unable(format!("the version cannot be asked: {error}")),
    };
    let foreign = match foreign(hcn, options) {
        Ok(foreign) => foreign,
        Err(error) => return Report::unable(format!("the objects that are there cannot be listed: {error}")),
    };
    let wanted = |case: &&Case| options.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
    let reports = cases()
        .iter()
        .filter(wanted)
        .map(|case| run_case(&Context::new(hcn, options, version, &foreign), case))
        .collect();
    Report { version: Some(version), unable: None, cases: reports }
}

/// The objects that are there before the run and do not bear the suite's names.
fn foreign(hcn: &dyn Hcn, options: &Options) -> hcn::Result<HashSet<(Kind, Guid)>> {
    let mut foreign = HashSet::new();
    for kind in Kind::ALL {
        for id in hcn.enumerate(kind, &Query::all())? {
            let own = match kind {
                Kind::Network | Kind::Endpoint => hcn
                    .query(kind, id, &Query::all())
                    .ok()
                    .and_then(|text| name_of(kind, &text))
                    .is_some_and(|name| name.starts_with(&format!("{}-", options.prefix))),
                Kind::Namespace | Kind::LoadBalancer | Kind::SdnRoute => false,
            };
            if !own {
                foreign.insert((kind, id));
            }
        }
    }
    Ok(foreign)
}

fn run_case(context: &Context<'_>, case: &Case) -> CaseReport {
    let result = (case.run)(context);
    let trail = context.take_trail();
    let left = context.clean_up();
    let outcome = match judge(result, case.needs, context.version()) {
        Outcome::Passed | Outcome::RefusedAsExpected { .. } | Outcome::OutOfScope { .. }
            if !left.is_empty() =>
        {
            Outcome::Failed(Failure::unmet(
                "clean up",
                "every object of the case can be deleted",
                left.join("; "),
            ))
        }
        outcome => outcome,
    };
    let trail = if matches!(outcome, Outcome::Failed(_)) { trail } else { Vec::new() };
    CaseReport { name: case.name, source: case.source, outcome, notes: context.take_notes(), trail }
}

/// What a result means, given what the version has.
pub(crate) fn judge(result: Result<(), Failure>, needs: &[Feature], version: Version) -> Outcome {
    if let Err(Failure { nature: Nature::OutOfScope(network), step, .. }) = result {
        return Outcome::OutOfScope { network, step };
    }
    let features = Features::of(version);
    let absent: Vec<Feature> = needs.iter().copied().filter(|&need| !features.supports(need)).collect();
    let failure = match (result, absent.is_empty()) {
        (Ok(()), true) => return Outcome::Passed,
        (Ok(()), false) => return accepted(&absent, version),
        (Err(failure), true) => return Outcome::Failed(failure),
        (Err(failure), false) => failure,
    };
    let Some(feature) = failure.feature.filter(|feature| absent.contains(feature)) else {
        // It failed before or beside what the feature is about.
        return Outcome::Failed(failure);
    };
    match &failure.nature {
        Nature::Refused(error)
            if error.class() == ErrorClass::Unsupported || REFUSALS.contains(&error.code) =>
        {
            let how = format!("{}: {} {}", failure.step, error.code, error.code.name());
            Outcome::RefusedAsExpected { absent, how }
        }
        Nature::Unmet => match ignored(feature, version) {
            Some(report) => Outcome::RefusedAsExpected {
                absent,
                how: format!("{}: accepted without effect ({report})", failure.step),
            },
            None => Outcome::Failed(failure),
        },
        Nature::Refused(_) | Nature::NotListed | Nature::Foreign | Nature::OutOfScope(_) => {
            Outcome::Failed(Failure {
                expected: format!("a refusal that says that HNS {version} has no {}", feature.name()),
                ..failure
            })
        }
    }
}

/// A case went through although the version lacks what it needs.
fn accepted(absent: &[Feature], version: Version) -> Outcome {
    let mut reports = absent.iter().filter_map(|&feature| ignored(feature, version));
    if let Some(report) = reports.next() {
        let how = format!("accepted, without effect on traffic ({report})");
        return Outcome::RefusedAsExpected { absent: absent.to_vec(), how };
    }
    let names: Vec<&str> = absent.iter().map(|feature| feature.name()).collect();
    Outcome::Failed(Failure::unmet(
        "the whole case",
        format!("a refusal: HNS {version} has no {}", names.join(", ")),
        "every step was accepted",
    ))
}

#[cfg(test)]
mod tests {
    use hcn::Error;

    use super::*;

    const ACL: &[Feature] = &[Feature::NetworkAcl];
    const MODIFY: &[Feature] = &[Feature::ModifyLoadBalancer];
    const AFFINITY: &[Feature] = &[Feature::SessionAffinity];

    /// What a row is called, how its case ended, what it needs, the version, what that means.
    type Row = (&'static str, Result<(), Failure>, &'static [Feature], (u32, u32), &'static str);

    fn refused(code: HResult, feature: Option<Feature>) -> Result<(), Failure> {
        Err(Failure { feature, ..Failure::refused("step", Error::new(code)) })
    }

    fn unmet(feature: Option<Feature>) -> Result<(), Failure> {
        Err(Failure { feature, ..Failure::unmet("step", "this", "that") })
    }

    fn scoped_out() -> Result<(), Failure> {
        let nature = Nature::OutOfScope("Overlay".to_owned());
        Err(Failure { nature, ..Failure::unmet("create network", "this", "that") })
    }

    #[test]
    fn a_scope_allows_types_of_networks() {
        for (kind, nat_only) in [
            ("NAT", true),
            ("nat", true),
            ("", true),
            ("Overlay", false),
            ("L2Bridge", false),
            ("Transparent", false),
            ("ICS", false),
        ] {
            assert_eq!(Scope::NatOnly.allows(kind), nat_only, "{kind}");
            assert!(Scope::All.allows(kind), "{kind}");
        }
    }

    #[test]
    fn a_result_means_what_the_version_makes_of_it() {
        let (old, new) = ((13, 3), (16, 0));
        let rows: &[Row] = &[
            ("all well", Ok(()), ACL, new, "passed"),
            ("no needs", Ok(()), &[], old, "passed"),
            ("accepted without feature", Ok(()), ACL, old, "failed"),
            ("refused for the feature", refused(HResult::E_NOTIMPL, Some(ACL[0])), ACL, old, "refused"),
            ("refused as invalid", refused(HResult::INVALID_POLICY_TYPE, Some(ACL[0])), ACL, old, "refused"),
            ("refused beside the feature", refused(HResult::E_NOTIMPL, None), ACL, old, "failed"),
            (
                "refused for another feature",
                refused(HResult::E_NOTIMPL, Some(Feature::Dsr)),
                ACL,
                old,
                "failed",
            ),
            ("refused though it is there", refused(HResult::E_NOTIMPL, Some(ACL[0])), ACL, new, "failed"),
            ("the service is down", refused(HResult::RPC_CALL_FAILED, Some(ACL[0])), ACL, old, "failed"),
            (
                "not found is no refusal",
                refused(HResult::NETWORK_NOT_FOUND, Some(ACL[0])),
                ACL,
                old,
                "failed",
            ),
            ("no effect, unreported", unmet(Some(ACL[0])), ACL, old, "failed"),
            ("no effect on 15.4", unmet(Some(MODIFY[0])), MODIFY, (15, 4), "refused"),
            ("no effect on 15.3", unmet(Some(MODIFY[0])), MODIFY, (15, 3), "failed"),
            ("no effect on 15.5", unmet(Some(MODIFY[0])), MODIFY, (15, 5), "failed"),
            ("affinity kept and ignored", Ok(()), AFFINITY, (9, 5), "refused"),
            ("affinity dropped", unmet(Some(AFFINITY[0])), AFFINITY, (9, 5), "refused"),
            ("affinity", Ok(()), AFFINITY, (12, 0), "passed"),
            ("out of scope", scoped_out(), &[], new, "out of scope"),
            ("out of scope before the feature's turn", scoped_out(), ACL, old, "out of scope"),
        ];
        for (name, result, needs, (major, minor), wanted) in rows {
            let outcome = judge(result.clone(), needs, Version::new(*major, *minor));
            let word = match outcome {
                Outcome::Passed => "passed",
                Outcome::RefusedAsExpected { .. } => "refused",
                Outcome::Failed(_) => "failed",
                Outcome::OutOfScope { .. } => "out of scope",
            };
            assert_eq!(word, *wanted, "{name}: {outcome:?}");
        }
    }
}
