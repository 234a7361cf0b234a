//! One family of samples at a time: its name, type and labels, and values that were read elsewhere. Knows no figure.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Labels of one sample.
pub(super) type Pairs = Vec<(&'static str, String)>;

/// Samples of one family.
pub(super) type Samples = Vec<(Pairs, f64)>;

/// A sample without labels.
pub(super) fn one(value: f64) -> Samples {
    vec![(Vec::new(), value)]
}

/// A count as a sample; beyond 2⁵³ the last digits are lost, which no counter here reaches.
#[expect(clippy::cast_precision_loss, reason = "Prometheus' samples are doubles")]
pub(super) fn count(value: impl TryInto<u64>) -> f64 {
    value.try_into().unwrap_or(u64::MAX) as f64
}

/// Upper bounds and how many fell between them and the ones before.
pub(super) struct Classes {
    /// All together.
    pub(super) sum: f64,
    /// How many there were.
    pub(super) count: u64,
    /// By class.
    pub(super) bounded: Vec<(f64, u64)>,
}

/// Writes families.
pub(super) struct Writer<'a>(pub(super) DescriptorEncoder<'a>);

impl Writer<'_> {
    pub(super) fn gauge(&mut self, name: &str, help: &str, samples: Samples) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            if labels.is_empty() {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// `name` without `_total`.
    pub(super) fn counter(&mut self, name: &str, help: &str, samples: Samples) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            if labels.is_empty() {
                family.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
            } else {
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        samples: Vec<(Pairs, Classes)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, Classes { sum, count, bounded }) in samples {
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &bounded, None)?;
        }
        Ok(())
    }
}
