//! Which HNS a command works on: this Windows machine's own, an emulated one, or that of another process. The rule for what is
//! meant when nothing is said, and which other flags go with which.

use std::fmt;
use std::str::FromStr;

use hnsd::Address;

use super::inputs::NodeArgs;
use super::values::ManifestPath;

/// Which HNS, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HnsAt {
    /// `native`: that of this Windows machine.
    Native,
    /// `emulated`: one that is emulated in this process.
    Emulated,
    /// An address: that of another process.
    Server(Address),
}

/// A text that names no HNS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HnsAtError {
    /// There is none of this machine's own.
    #[error(
        "only a Windows machine has an HNS of its own, and this is none; give `emulated`, or the address of another process' HNS"
    )]
    NotWindows,
    /// It is neither a word nor an address.
    #[error("give native, emulated, or an address: {0}")]
    Address(#[from] hnsd::address::AddressError),
}

impl HnsAt {
    /// Reads it, on a system that is Windows or is not.
    fn parse(text: &str, is_windows: bool) -> Result<Self, HnsAtError> {
        match text {
            "native" if is_windows => Ok(Self::Native),
            "native" => Err(HnsAtError::NotWindows),
            "emulated" => Ok(Self::Emulated),
            address => Ok(Self::Server(address.parse()?)),
        }
    }

    /// What is meant when nothing is said: a Windows machine's own, unless something is said of an emulated one.
    pub fn or_default(asked: Option<&Self>, node: &NodeArgs) -> Self {
        Self::choose(asked, !node.of_emulated().is_empty(), cfg!(windows))
    }

    /// The same for commands that emulate a node when they are given a cluster and only look at an HNS when they are not.
    pub fn or_default_without(asked: Option<&Self>, node: &NodeArgs, manifests: &[ManifestPath]) -> Self {
        let of_emulated = !node.of_emulated().is_empty() || !manifests.is_empty();
        Self::choose(asked, of_emulated, cfg!(windows))
    }

    fn choose(asked: Option<&Self>, of_emulated: bool, is_windows: bool) -> Self {
        match asked {
            Some(asked) => asked.clone(),
            None if is_windows && !of_emulated => Self::Native,
            None => Self::Emulated,
        }
    }

    /// What does not go with it: what is said of an emulated HNS has no meaning for another one.
    pub(super) fn problems(asked: Option<&Self>, node: &NodeArgs) -> Vec<String> {
        let Some(asked @ (Self::Native | Self::Server(_))) = asked else { return Vec::new() };
        let problem = |flag: &&str| {
            format!("--hns {asked} cannot be used with '{flag}', which is for the HNS that is emulated here")
        };
        node.of_emulated().iter().map(problem).collect()
    }
}

impl FromStr for HnsAt {
    type Err = HnsAtError;

    fn from_str(text: &str) -> Result<Self, HnsAtError> {
        Self::parse(text, cfg!(windows))
    }
}

impl fmt::Display for HnsAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Emulated => f.write_str("emulated"),
            Self::Server(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_addresses() {
        let server = |text: &str| HnsAt::Server(text.parse().unwrap());
        for is_windows in [true, false] {
            assert_eq!(HnsAt::parse("emulated", is_windows).unwrap(), HnsAt::Emulated);
            for address in ["unix:/run/hns.sock", "/run/hns.sock", "token:f", "tcp:127.0.0.1:7"] {
                assert_eq!(HnsAt::parse(address, is_windows).unwrap(), server(address));
            }
            let text = HnsAt::parse("natve", is_windows).unwrap_err().to_string();
            assert!(text.contains("native, emulated, or an address") && text.contains("natve"), "{text}");
        }
        assert_eq!(HnsAt::parse("native", true).unwrap(), HnsAt::Native);
        assert_eq!(HnsAt::parse("native", false).unwrap_err(), HnsAtError::NotWindows);
    }

    #[test]
    fn what_is_meant_when_nothing_is_said() {
        for (asked, of_emulated, is_windows, wanted) in [
            (None, false, true, HnsAt::Native),
            (None, true, true, HnsAt::Emulated),
            (None, false, false, HnsAt::Emulated),
            (None, true, false, HnsAt::Emulated),
            (Some(HnsAt::Emulated), false, true, HnsAt::Emulated),
            (Some(HnsAt::Native), false, true, HnsAt::Native),
        ] {
            assert_eq!(HnsAt::choose(asked.as_ref(), of_emulated, is_windows), wanted, "{asked:?}");
        }
    }
}
