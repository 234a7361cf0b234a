//! Lengths of time as Go writes them, which may be negative until they are checked.
//!
//! Pure text and numbers. It must not know which field holds the time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time in nanoseconds, with the text form of Go: `30s`, `1m30s`, `1.5h`, `250ms`, `-1s`, or a bare `0`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// What a time looks like.
const FORM: &str = "must be a duration such as 30s, 1m30s or 250ms";

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many whole seconds.
    pub const fn from_secs(seconds: i32) -> Self {
        Self(seconds as i64 * 1_000_000_000)
    }

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// In nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whether it is no time at all, which in a file means "not said".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// As a time that can pass; a negative one is none.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or_default())
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if unsigned == "0" {
            return Ok(Self::ZERO);
        }
        if unsigned.is_empty() {
            return Err(FORM.to_owned());
        }
        let too_long = || format!("{text} is too long a time; it ends at 292 years");
        let mut total: u128 = 0;
        let mut rest = unsigned;
        while !rest.is_empty() {
            let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(number_end);
            let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            let part = decimal_times(number, unit_of(number, unit)?).map_err(|refused| match refused {
                Decimal::NoNumber => FORM.to_owned(),
                Decimal::TooLarge => too_long(),
            })?;
            total = total.checked_add(part).ok_or_else(too_long)?;
            rest = after;
        }
        let nanos = i128::try_from(total).map_err(|_| too_long())?;
        i64::try_from(if negative { -nanos } else { nanos }).map(Self).map_err(|_| too_long())
    }
}

fn unit_of(number: &str, unit: &str) -> Result<u128, String> {
    if number.is_empty() {
        return Err(FORM.to_owned());
    }
    Ok(match unit {
        "ns" => 1,
        // Both signs for micro are in use: the unit sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND.into(),
        "m" => MINUTE.into(),
        "h" => HOUR.into(),
        "" => return Err(format!("the number {number} has no unit; {FORM}")),
        _ => return Err(format!("the unit {unit:?} is not one of ns, us, ms, s, m, h")),
    })
}

/// Why a decimal number could not be multiplied.
enum Decimal {
    NoNumber,
    TooLarge,
}

/// A decimal number times `unit`, cut to a whole number.
fn decimal_times(number: &str, unit: u128) -> Result<u128, Decimal> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(Decimal::NoNumber);
    }
    // The caller hands in digits and dots only, so what does not parse is too large.
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    // More than 18 places cannot matter: the largest unit has 13 digits.
    let places = &fraction[..fraction.len().min(18)];
    let scale = 10_u128.pow(u32::try_from(places.len()).unwrap_or(18));
    let part = digits(places).map_or(0, |part| part * unit / scale);
    let product = digits(whole).and_then(|whole| whole.checked_mul(unit)).ok_or(Decimal::TooLarge)?;
    product.checked_add(part).ok_or(Decimal::TooLarge)
}

impl fmt::Display for GoDuration {
    /// As Go prints it: `1h0m0s`, `1m30s`, `1.5s`, `250ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let (unit, name) = match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            1_000_000..SECOND => (1_000_000, "ms"),
            _ => (SECOND, "s"),
        };
        let rest = if unit == SECOND {
            let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
            if hours > 0 {
                write!(f, "{hours}h")?;
            }
            if nanos >= MINUTE {
                write!(f, "{minutes}m")?;
            }
            nanos % MINUTE
        } else {
            nanos
        };
        write!(f, "{}", rest / unit)?;
        let fraction = rest % unit;
        if fraction > 0 {
            let width = unit.ilog10() as usize;
            let digits = format!("{fraction:0width$}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_and_times() {
        let table: &[(&str, Result<i64, &str>)] = &[
            ("30s", Ok(30_000_000_000)),
            ("1m30s", Ok(90_000_000_000)),
            ("1.5h", Ok(5_400_000_000_000)),
            (".5s", Ok(500_000_000)),
            ("5.s", Ok(5_000_000_000)),
            ("3us", Ok(3_000)),
            ("3\u{b5}s", Ok(3_000)),
            ("3\u{3bc}s", Ok(3_000)),
            ("0.9999999999999999999999ns", Ok(0)),
            ("+2s", Ok(2_000_000_000)),
            ("-1s", Ok(-1_000_000_000)),
            ("0", Ok(0)),
            ("-0s", Ok(0)),
            ("9223372036854775807ns", Ok(i64::MAX)),
            ("-9223372036854775808ns", Ok(i64::MIN)),
            ("9223372036854775808ns", Err("too long a time")),
            ("9999999999999999999999999999999999999999999h", Err("too long a time")),
            ("", Err("must be a duration such as 30s")),
            ("-", Err("must be a duration such as 30s")),
            ("30", Err("the number 30 has no unit")),
            ("1m30", Err("the number 30 has no unit")),
            ("s", Err("must be a duration")),
            ("1.2.3s", Err("must be a duration")),
            ("3d", Err("the unit \"d\" is not one of")),
            ("1s ", Err("the unit \"s \" is not one of")),
        ];
        for (text, want) in table {
            match (text.parse::<GoDuration>(), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.nanos(), *want, "{text:?}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text:?}: {got:?} lacks {want:?}"),
                (got, want) => panic!("{text:?}: {got:?} is not {want:?}"),
            }
        }
    }

    #[test]
    fn printed_as_go_prints_them() {
        let table = [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5\u{b5}s"),
            (250_000_000, "250ms"),
            (1_000_000_000, "1s"),
            (1_050_000_000, "1.05s"),
            (90_000_000_000, "1m30s"),
            (900_000_000_000, "15m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (86_400_000_000_000, "24h0m0s"),
            (-1_000_000_000, "-1s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, want) in table {
            assert_eq!(GoDuration::from_nanos(nanos).to_string(), want);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(nanos: i64) {
            let time = GoDuration::from_nanos(nanos);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
