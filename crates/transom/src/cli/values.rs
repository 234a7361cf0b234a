//! Parsers for single values, in the forms that Kubernetes' components take.
//!
//! Each is a pure function from text to a value or a sentence that says what would be right. It must not know
//! which flag asks.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use proxy_config::GoDuration;

/// Where manifests are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestPath {
    /// `-`: standard input, once.
    StandardInput,
    /// A file or a folder.
    Path(PathBuf),
}

impl FromStr for ManifestPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a path must not be empty; `-` is standard input".to_owned()),
            "-" => Ok(Self::StandardInput),
            path => Ok(Self::Path(path.into())),
        }
    }
}

/// A truth value in the forms that Go's flags take.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A length of time as Go writes it: numbers with units, such as `30s`, `1m30s`, `1.5h` or `250ms`, or a bare 0.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    let time: GoDuration = text.parse()?;
    if time.nanos() < 0 { Err("must not be negative".to_owned()) } else { Ok(time.to_std()) }
}

/// A number of bytes, plain or with a suffix: `1000`, `64MiB`, `64Mi`, `1GB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: u64 =
        number.parse().map_err(|_| "must be a number of bytes such as 1000000, 64MiB or 1GB".to_owned())?;
    let unit: u64 = match suffix.trim() {
        "" | "B" => 1,
        "k" | "kB" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        other => return Err(format!("the unit {other:?} is not one of B, kB, MB, GB, KiB, MiB, GiB")),
    };
    number
        .checked_mul(unit)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "must be between 1 and 2^64 bytes".to_owned())
}

/// A node's name as kube-proxy reads it from a flag: trimmed, in lower case, not blank.
pub fn node_name(text: &str) -> Result<String, String> {
    let name = text.trim().to_lowercase();
    if name.is_empty() { Err("a node name must not be blank".to_owned()) } else { Ok(name) }
}

/// The name of a lab.
#[cfg(target_os = "linux")]
pub(super) fn lab_name(text: &str) -> Result<String, String> {
    text.parse::<lab::names::LabName>().map(|name| name.to_string())
}

/// There are no labs on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn lab_name(_: &str) -> Result<String, String> {
    Err("labs run on Linux only".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        let ns = Duration::from_nanos;
        let table: &[(&str, Result<Duration, &str>)] = &[
            ("30s", Ok(Duration::from_secs(30))),
            ("1m30s", Ok(Duration::from_secs(90))),
            ("1h0m0s", Ok(Duration::from_hours(1))),
            ("1.5h", Ok(Duration::from_mins(90))),
            ("250ms", Ok(Duration::from_millis(250))),
            (".5s", Ok(Duration::from_millis(500))),
            ("5.s", Ok(Duration::from_secs(5))),
            ("3us", Ok(ns(3_000))),
            ("3\u{b5}s", Ok(ns(3_000))),
            ("3\u{3bc}s", Ok(ns(3_000))),
            ("7ns", Ok(ns(7))),
            ("0.9999999999999999999999ns", Ok(ns(0))),
            ("+2s", Ok(Duration::from_secs(2))),
            ("0", Ok(Duration::ZERO)),
            ("-0", Ok(Duration::ZERO)),
            ("0s", Ok(Duration::ZERO)),
            ("-0s", Ok(Duration::ZERO)),
            ("9223372036854775807ns", Ok(ns(9_223_372_036_854_775_807))),
            ("9223372036854775808ns", Err("9223372036854775808ns is too long a time")),
            ("9999999999999999999999999999999999999999999h", Err("is too long a time")),
            ("-1s", Err("must not be negative")),
            ("", Err("must be a duration such as 30s")),
            ("-", Err("must be a duration such as 30s")),
            ("30", Err("the number 30 has no unit")),
            ("1m30", Err("the number 30 has no unit")),
            ("s", Err("must be a duration")),
            (".s", Err("must be a duration")),
            ("1.2.3s", Err("must be a duration")),
            ("3d", Err("the unit \"d\" is not one of")),
            ("3 s", Err("the unit \" s\" is not one of")),
            ("1s ", Err("the unit \"s \" is not one of")),
        ];
        for (text, want) in table {
            match (go_duration(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, *want, "{text:?}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text:?}: {got:?} lacks {want:?}"),
                (got, want) => panic!("{text:?}: {got:?} is not {want:?}"),
            }
        }
    }

    #[test]
    fn numbers_of_bytes() {
        let table: &[(&str, Option<u64>)] = &[
            ("1", Some(1)),
            ("1000", Some(1000)),
            ("64MiB", Some(64 << 20)),
            ("64Mi", Some(64 << 20)),
            ("64 MiB", Some(64 << 20)),
            ("3kB", Some(3000)),
            ("1G", Some(1_000_000_000)),
            ("0", None),
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("1.5G", None),
            ("1TB", None),
            ("99999999999999999999", None),
            ("18446744073709551615KiB", None),
        ];
        for (text, want) in table {
            assert_eq!(bytes(text).ok(), *want, "{text:?}");
        }
    }

    #[test]
    fn truth_values() {
        for text in ["1", "t", "T", "true", "True", "TRUE"] {
            assert_eq!(go_bool(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "False", "FALSE"] {
            assert_eq!(go_bool(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "tRUE", "2"] {
            assert!(go_bool(text).is_err(), "{text}");
        }
    }

    #[test]
    fn small_values() {
        assert_eq!("-".parse(), Ok(ManifestPath::StandardInput));
        assert_eq!("./a".parse(), Ok(ManifestPath::Path("./a".into())));
        assert!("".parse::<ManifestPath>().is_err());
        assert_eq!(node_name(" Win-1 "), Ok("win-1".to_owned()));
        assert!(node_name("  ").is_err());
    }
}
