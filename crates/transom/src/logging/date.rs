//! From a point in time to the digits of a log line, in UTC.
//!
//! klog prints local time. Containers run in UTC, and lines of several nodes are read side by side, so the
//! local zone is not looked up. It must not know of log lines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// 1 to 12.
    pub(super) month: u64,
    /// 1 to 31.
    pub(super) day: u64,
    pub(super) hour: u64,
    pub(super) minute: u64,
    pub(super) second: u64,
    pub(super) microsecond: u32,
}

const SECONDS_OF_A_DAY: u64 = 86_400;

/// Takes a time apart. A clock before 1970 is shown as 1970: a log line must not fail.
pub(super) fn moment(time: SystemTime) -> Moment {
    let since = since_epoch(time);
    let seconds = since.as_secs();
    let (month, day) = month_and_day(seconds / SECONDS_OF_A_DAY);
    let of_day = seconds % SECONDS_OF_A_DAY;
    Moment {
        month,
        day,
        hour: of_day / 3600,
        minute: of_day / 60 % 60,
        second: of_day % 60,
        microsecond: since.subsec_micros(),
    }
}

/// Milliseconds since 1970 with their microseconds as a fraction, such as `1764445629123.456`.
pub(super) fn epoch_millis(time: SystemTime) -> String {
    let since = since_epoch(time);
    let micros = since.subsec_micros() % 1000;
    let millis = since.as_millis();
    if micros == 0 { format!("{millis}") } else { format!("{millis}.{micros:03}") }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Month and day of the given day after 1 January 1970, in the Gregorian calendar.
fn month_and_day(mut days: u64) -> (u64, u64) {
    // 400 years have a fixed length; what is left is small enough to walk.
    const DAYS_OF_400_YEARS: u64 = 146_097;
    days %= DAYS_OF_400_YEARS;
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (month, days + 1)
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        // Seconds as `date -u -d @N` tells them.
        let table = [
            (0, (1, 1, 0, 0, 0)),
            (951_782_400, (2, 29, 0, 0, 0)),
            (951_868_799, (2, 29, 23, 59, 59)),
            (1_709_164_800, (2, 29, 0, 0, 0)),
            (1_764_445_629, (11, 29, 19, 47, 9)),
            (4_107_542_400, (3, 1, 0, 0, 0)),
            (1_735_689_599, (12, 31, 23, 59, 59)),
            (13_569_465_600, (1, 1, 0, 0, 0)),
        ];
        for (seconds, (month, day, hour, minute, second)) in table {
            let got = moment(UNIX_EPOCH + Duration::from_secs(seconds));
            let want = Moment { month, day, hour, minute, second, microsecond: 0 };
            assert_eq!(got, want, "{seconds}");
        }
    }

    #[test]
    fn a_clock_before_1970_does_not_fail() {
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(moment(early).month, 1);
        assert_eq!(epoch_millis(early), "0");
    }

    #[test]
    fn milliseconds_keep_their_microseconds() {
        let time = UNIX_EPOCH + Duration::from_micros(1_764_445_629_123_456);
        assert_eq!(epoch_millis(time), "1764445629123.456");
        let even = UNIX_EPOCH + Duration::from_millis(7);
        assert_eq!(epoch_millis(even), "7");
    }
}
