//! Patterns over subjects and actors: `*` for any run of characters, `?` for one, the rest as it stands.

use std::fmt;

/// A pattern, matched without regard to ASCII case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// A pattern; every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` as a whole matches.
    pub fn matches(&self, text: &str) -> bool {
        matches(self.0.as_bytes(), text.as_bytes())
    }

    /// Whether the whole subject or one of its parts (frontends, addresses: parted by ", ") matches.
    pub fn matches_subject(&self, subject: &str) -> bool {
        self.matches(subject)
            || (subject.contains(", ") && subject.split(", ").any(|part| self.matches(part)))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Glob {
    fn from(pattern: &str) -> Self {
        Self::new(pattern)
    }
}

/// Greedy matching with one point to come back to: linear but for the last star, never exponential.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c.eq_ignore_ascii_case(&text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, at)) => {
                    star = Some((after, at + 1));
                    p = after;
                    t = at + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_people_expect() {
        for (pattern, text, wanted) in [
            ("10.60.0.10:53/UDP", "10.60.0.10:53/UDP", true),
            ("10.60.0.10:53/udp", "10.60.0.10:53/UDP", true),
            ("10.60.0.1:*", "10.60.0.10:53/UDP", false),
            ("*:53/*", "10.60.0.10:53/UDP", true),
            ("10.60.0.?0:*", "10.60.0.10:53/UDP", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("*a*b*c", "xxaxxbxxbcd", false),
            ("?", "", false),
            ("[fd00::1]:80/TCP", "[fd00::1]:80/TCP", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), wanted, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn one_part_of_a_subject_is_enough() {
        let glob = Glob::new("1.1.1.3:8090/TCP");
        assert!(glob.matches_subject("1.1.1.2:8090/TCP, 1.1.1.3:8090/TCP"));
        assert!(!glob.matches_subject("1.1.1.2:8090/TCP, 1.1.1.30:8090/TCP"));
    }
}
