//! Moments as other programs read them. Knows nothing of the proxy.

use std::time::SystemTime;

/// RFC 3339, in UTC, as upstream's documents have it.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_written_as_go_writes_it() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        assert_eq!(rfc3339(at), "2023-11-14T22:13:20.25Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
