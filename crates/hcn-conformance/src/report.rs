//! What came of a run, for people (a table, then each failure with its documents) and for programs (JSON).

use std::fmt;

use hcn::{Feature, Version};
use serde_json::{Value, json};

use crate::context::Exchange;
use crate::failure::Failure;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything held.
    Passed,
    /// The version lacks a feature that the case needs, and said so in a way that is known.
    RefusedAsExpected {
        /// The features that the version lacks.
        absent: Vec<Feature>,
        /// Which step was refused, and how.
        how: String,
    },
    /// Something did not hold.
    Failed(Failure),
    /// The case needs a network that the run's scope excludes; nothing is known of what it would have shown.
    OutOfScope {
        /// The type of network.
        network: String,
        /// The step that would have made it.
        step: String,
    },
}

impl Outcome {
    const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::RefusedAsExpected { .. } => "refused as expected",
            Self::Failed(_) => "FAILED",
            Self::OutOfScope { .. } => "out of scope",
        }
    }
}

/// One case of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseReport {
    /// The case.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// What is worth knowing although it is no failure.
    pub notes: Vec<String>,
    /// Every call of a case that failed, with what was sent and what came.
    pub trail: Vec<Exchange>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The version of HNS.
    pub version: Option<Version>,
    /// Why nothing could be run.
    pub unable: Option<String>,
    /// The cases, in the order in which they ran.
    pub cases: Vec<CaseReport>,
}

/// How many cases ended how; what was out of scope is in none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Refused as expected.
    pub refused: usize,
    /// Failed.
    pub failed: usize,
}

impl Report {
    pub(crate) const fn unable(why: String) -> Self {
        Self { version: None, unable: Some(why), cases: Vec::new() }
    }

    /// How many ended how.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for case in &self.cases {
            match case.outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::RefusedAsExpected { .. } => counts.refused += 1,
                Outcome::Failed(_) => counts.failed += 1,
                Outcome::OutOfScope { .. } => {}
            }
        }
        counts
    }

    /// Whether something ran and nothing failed.
    pub fn is_good(&self) -> bool {
        let counts = self.counts();
        self.unable.is_none() && counts.passed + counts.refused > 0 && counts.failed == 0
    }

    /// How many cases the run's scope has excluded.
    pub fn out_of_scope(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.outcome, Outcome::OutOfScope { .. })).count()
    }

    /// The names of the cases that failed.
    pub fn failed(&self) -> Vec<&'static str> {
        self.cases
            .iter()
            .filter(|case| matches!(case.outcome, Outcome::Failed(_)))
            .map(|case| case.name)
            .collect()
    }

    /// The report as one JSON document.
    pub fn to_json(&self) -> Value {
        let counts = self.counts();
        let cases: Vec<Value> = self.cases.iter().map(CaseReport::to_json).collect();
        json!({
            "version": self.version,
            "unable": self.unable,
            "passed": counts.passed,
            "refusedAsExpected": counts.refused,
            "failed": counts.failed,
            "outOfScope": self.out_of_scope(),
            "cases": cases,
        })
    }
}

impl CaseReport {
    fn to_json(&self) -> Value {
        let mut case = json!({ "name": self.name, "source": self.source, "outcome": self.outcome.word() });
        match &self.outcome {
            Outcome::Passed => {}
            Outcome::RefusedAsExpected { absent, how } => {
                let absent: Vec<&str> = absent.iter().map(|feature| feature.name()).collect();
                case["absent"] = json!(absent);
                case["how"] = json!(how);
            }
            Outcome::OutOfScope { network, step } => {
                case["network"] = json!(network);
                case["step"] = json!(step);
            }
            Outcome::Failed(failure) => {
                let calls = self.trail.iter().map(|exchange| {
                    let (answer, error) = match &exchange.answer {
                        Ok(answer) => (Some(answer), None),
                        Err(error) => (None, Some(error)),
                    };
                    json!({ "call": exchange.call, "sent": exchange.sent, "answer": answer, "error": error })
                });
                case["failure"] = json!({
                    "step": failure.step,
                    "expected": failure.expected,
                    "came": failure.came,
                    "code": failure.code().map(|code| code.to_string()),
                    "feature": failure.feature.map(Feature::name),
                    "calls": calls.collect::<Vec<_>>(),
                });
            }
        }
        if !self.notes.is_empty() {
            case["notes"] = json!(self.notes);
        }
        case
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.unable {
            return writeln!(f, "nothing was run: {why}");
        }
        if let Some(version) = self.version {
            writeln!(f, "HNS {version}")?;
        }
        let wide = |part: fn(&CaseReport) -> &str| {
            self.cases.iter().map(|case| part(case).chars().count()).max().unwrap_or(0)
        };
        let (name, word) = (wide(|case| case.name), wide(|case| case.outcome.word()));
        for case in &self.cases {
            write!(f, "{:<name$}  {:<word$}  {}", case.name, case.outcome.word(), case.source)?;
            if let Outcome::RefusedAsExpected { how, .. } = &case.outcome {
                write!(f, "  [{how}]")?;
            }
            if let Outcome::OutOfScope { network, .. } = &case.outcome {
                write!(f, "  [{network}]")?;
            }
            writeln!(f)?;
            for note in &case.notes {
                writeln!(f, "{:name$}  note: {note}", "")?;
            }
        }
        let counts = self.counts();
        write!(
            f,
            "{} passed, {} refused as expected, {} failed",
            counts.passed, counts.refused, counts.failed
        )?;
        if self.out_of_scope() > 0 {
            write!(f, ", {} out of scope", self.out_of_scope())?;
        }
        writeln!(f)?;
        for case in &self.cases {
            let Outcome::Failed(failure) = &case.outcome else { continue };
            writeln!(f, "\n{} ({})", case.name, case.source)?;
            writeln!(f, "  step:     {}", failure.step)?;
            writeln!(f, "  expected: {}", failure.expected)?;
            writeln!(f, "  came:     {}", failure.came)?;
            for exchange in &case.trail {
                writeln!(f, "  > {} {}", exchange.call, exchange.sent)?;
                match &exchange.answer {
                    Ok(answer) => writeln!(f, "  < {answer}")?,
                    Err(error) => writeln!(f, "  < error: {error}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hcn::{Error, HResult};

    use super::*;

    fn report() -> Report {
        let case = |name, outcome, trail| CaseReport {
            name,
            source: "hcsshim hcn TestX",
            outcome,
            notes: Vec::new(),
            trail,
        };
        let refused = Outcome::RefusedAsExpected {
            absent: vec![Feature::TierAcl],
            how: "modify: 0x80004001 E_NOTIMPL".to_owned(),
        };
        let failure = Failure::refused("create network", Error::new(HResult::E_FAIL));
        let trail = vec![Exchange {
            call: "create network".to_owned(),
            sent: "{}".to_owned(),
            answer: Err("Unspecified error".to_owned()),
        }];
        Report {
            version: Some(Version::new(13, 3)),
            unable: None,
            cases: vec![
                case("a/passed", Outcome::Passed, Vec::new()),
                case("a/refused", refused, Vec::new()),
                case("a/failed", Outcome::Failed(failure), trail),
            ],
        }
    }

    #[test]
    fn it_counts_and_names_what_failed() {
        let report = report();
        assert_eq!(report.counts(), Counts { passed: 1, refused: 1, failed: 1 });
        assert_eq!(report.failed(), ["a/failed"]);
        assert!(!report.is_good());
        let unable = Report::unable("no version".to_owned());
        assert!(!unable.is_good() && unable.to_string().contains("no version"));
    }

    #[test]
    fn it_reads_as_a_table_and_as_json() {
        let report = report();
        let table = report.to_string();
        for line in [
            "HNS 13.3",
            "a/passed   passed               hcsshim hcn TestX",
            "[modify: 0x80004001 E_NOTIMPL]",
            "1 passed, 1 refused as expected, 1 failed",
            "  expected: success",
            "  > create network {}",
            "  < error: Unspecified error",
        ] {
            assert!(table.contains(line), "{line:?} is not in\n{table}");
        }
        let json = report.to_json();
        assert_eq!(json["version"], json!({ "Major": 13, "Minor": 3 }));
        assert_eq!(json["cases"][1]["absent"], json!(["TierAcl"]));
        assert_eq!(json["cases"][2]["failure"]["code"], "0x80004005");
        assert_eq!(json["cases"][2]["failure"]["calls"][0]["sent"], "{}");
    }
}
