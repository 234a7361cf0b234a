//! From samples to rows: medians, what they spread over, how they compare to the other systems, and the budgets.

use crate::window::{Sample, number};

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Bulk,
    Packets,
    Connects,
}

impl Work {
    pub(crate) const ALL: [Self; 3] = [Self::Bulk, Self::Packets, Self::Connects];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk TCP",
            Self::Packets => "64-byte UDP",
            Self::Connects => "TCP connects",
        }
    }

    pub(crate) fn rate(self, rate: f64) -> String {
        match self {
            Self::Bulk => format!("{:.2} Gb/s", rate * 8.0 / 1e9),
            Self::Packets => format!("{:.3} Mpps", rate / 1e6),
            Self::Connects => format!("{:.1} k/s", rate / 1e3),
        }
    }

    fn cpu(self, seconds: f64) -> String {
        match self {
            Self::Bulk => format!("{:.2} CPU s/GB", seconds * 1e9),
            Self::Packets => format!("{:.1} CPU µs/packet", seconds * 1e6),
            Self::Connects => format!("{:.0} CPU µs/connection", seconds * 1e6),
        }
    }

    /// What is wanted: times the peer, times the kernel.
    fn budget(self) -> &'static str {
        match self {
            Self::Bulk => "≥ 5 × peer, ≥ 0.5 × kernel",
            Self::Packets => "≥ 2 × peer",
            Self::Connects => "–",
        }
    }
}

/// The part that a system plays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// What nobody passes.
    Limit,
    /// What is compared to.
    Peer,
    /// What is measured.
    Subject,
}

/// What one system did in all runs.
pub(crate) struct Result {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) samples: Vec<Sample>,
}

impl Result {
    fn median(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        let mut values: Vec<f64> = self.samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => 0.0,
            even if even % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        }
    }

    fn rate(&self) -> f64 {
        self.median(|sample| sample.rate)
    }
}

/// The rows of one kind of work on one path, one for each system.
pub(crate) fn rows(work: Work, path: &str, results: &[Result]) -> Vec<String> {
    let of = |role: Role| results.iter().find(|result| result.role == role);
    results
        .iter()
        .map(|result| {
            let rates = || result.samples.iter().map(|sample| sample.rate);
            let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
            let mut details = vec![format!("{} to {}", work.rate(least), work.rate(most))];
            details.push(work.cpu(result.median(|sample| sample.cpu)));
            if result.role == Role::Subject {
                for other in [Role::Peer, Role::Limit].into_iter().filter_map(of) {
                    details.push(format!("{:.2} × {}", result.rate() / other.rate(), other.name));
                }
            }
            let lost: u64 = result.samples.iter().map(|sample| sample.lost).sum();
            if lost > 0 {
                details.push(format!("lost: {:.0}", number(lost)));
            }
            let budget = match result.role {
                Role::Limit => "the limit",
                Role::Peer => "the peer",
                Role::Subject => work.budget(),
            };
            format!(
                "{}, {path}: {}|{budget}|{}|{}",
                work.name(),
                result.name,
                work.rate(result.rate()),
                details.join("; ")
            )
        })
        .collect()
}
