//! Windows builds as profiles: which HNS version one has. What follows from the version is looked up in
//! [`hcn::version`]; what nobody knows is a [switch](crate::switches), for which a profile has presets.

use std::fmt;
use std::str::FromStr;

use hcn::Version;

/// A Windows build whose HNS is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Profile {
    /// Windows Server 2019 (build 17763) with late-2020 updates: HNS 9.5.
    Ws2019,
    /// Windows Server 2022 (build 20348): HNS 13.3.
    Ws2022,
    /// Windows Server 2025 (build 26100) as shipped: HNS 15.4, whose load-balancer Modify does nothing.
    Ws2025,
    /// The newest HNS that clients know of: 16.0.
    Newest,
}

impl Profile {
    /// Every profile, oldest first.
    pub const ALL: [Self; 4] = [Self::Ws2019, Self::Ws2022, Self::Ws2025, Self::Newest];

    /// The name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ws2019 => "ws2019",
            Self::Ws2022 => "ws2022",
            Self::Ws2025 => "ws2025",
            Self::Newest => "newest",
        }
    }

    /// The HNS version. 9.5 and 13.3 are dated by public dumps, 15.4 by a report on load-balancer updates
    /// (kubernetes/kubernetes#131466); 16.0 is the highest that hnslib's feature table names.
    pub const fn version(self) -> Version {
        match self {
            Self::Ws2019 => Version::new(9, 5),
            Self::Ws2022 => Version::new(13, 3),
            Self::Ws2025 => Version::new(15, 4),
            Self::Newest => Version::new(16, 0),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a profile: use one of ws2019, ws2022, ws2025, newest")]
pub struct UnknownProfile(pub String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use hcn::Feature;

    use super::*;

    #[test]
    fn names_round_trip() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().to_uppercase().parse(), Ok(profile));
        }
        assert!("ws2016".parse::<Profile>().unwrap_err().to_string().contains("ws2019"));
    }

    #[test]
    fn versions_rise_and_only_the_newest_modifies_load_balancers() {
        assert!(Profile::ALL.windows(2).all(|pair| pair[0].version() < pair[1].version()));
        let able: Vec<Profile> = Profile::ALL
            .into_iter()
            .filter(|profile| profile.version().supports(Feature::ModifyLoadBalancer))
            .collect();
        assert_eq!(able, [Profile::Newest]);
    }
}
