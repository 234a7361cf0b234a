//! Which form is asked for. The figures themselves are tested over HTTP (`tests/served/figures.rs`).

use super::Format;

#[test]
fn openmetrics_is_served_to_those_who_ask_for_it() {
    for (accept, format) in [
        (None, Format::Classic),
        (Some("*/*"), Format::Classic),
        (Some("text/plain;version=0.0.4"), Format::Classic),
        (Some("application/openmetrics-text"), Format::OpenMetrics),
        (Some("text/plain, application/openmetrics-text; version=1.0.0"), Format::OpenMetrics),
        (Some("application/openmetrics-text; q=0"), Format::Classic),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept:?}");
    }
}
