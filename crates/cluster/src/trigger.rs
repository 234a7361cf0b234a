//! When a change of endpoints was made: EndpointSlices carry the time at which the oldest of the changes that they bring was
//! triggered, for the metric of how long programming the network takes.

use std::time::SystemTime;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation with the time, in RFC 3339.
const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The time, if the object says one that can be read.
pub fn triggered(metadata: &ObjectMeta) -> Option<SystemTime> {
    let text = metadata.annotations.as_ref()?.get(ANNOTATION)?;
    let time: k8s_openapi::jiff::Timestamp = text.parse().ok()?;
    Some(SystemTime::from(time))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_is_read_where_there_is_one() {
        let object = |text: Option<&str>| ObjectMeta {
            annotations: text.map(|text| [(ANNOTATION.to_owned(), text.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let at = |text| triggered(&object(text));
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(at(Some("1970-01-01T00:00:01Z")), Some(second));
        assert_eq!(at(Some("1970-01-01T01:00:01.5+01:00")), Some(second + Duration::from_millis(500)));
        for none in [None, Some(""), Some("yesterday")] {
            assert_eq!(at(none), None, "{none:?}");
        }
    }
}
