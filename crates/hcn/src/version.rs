//! HNS versions and what each can do, as data.
//!
//! Ranges: hcsshim's feature table, with hnslib's correction for `ModifyLoadBalancer` (15.4 accepts the call and
//! does nothing: kubernetes/kubernetes#131466). Asking the version is the caller's business.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the HNS service: what `GET /globals/version` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Major number: one per Windows line.
    #[serde(rename = "Major")]
    pub major: u32,
    /// Minor number: raised by updates.
    #[serde(rename = "Minor")]
    pub minor: u32,
}

impl Version {
    /// A version.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The number that v1 objects carry as `Version`: major × 2³² + minor.
    pub const fn packed(self) -> u64 {
        ((self.major as u64) << 32) | self.minor as u64
    }

    /// The inverse of [`Version::packed`].
    #[expect(clippy::cast_possible_truncation, reason = "both halves are 32 bits by construction")]
    pub const fn from_packed(packed: u64) -> Self {
        Self { major: (packed >> 32) as u32, minor: packed as u32 }
    }

    /// Whether this version has the feature.
    pub fn supports(self, feature: Feature) -> bool {
        feature.ranges().iter().any(|&(low, high)| low <= self && self <= high)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

const MAX: u32 = i32::MAX as u32;

macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident $name:literal = $([$lmaj:literal . $lmin:literal, $hmaj:tt . $hmin:tt])*;)*) => {
        /// Something that depends on the HNS version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Feature {
            $($(#[$doc])* $feature,)*
        }

        impl Feature {
            /// Every feature, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$feature),*];

            /// The name that hcsshim's feature report uses.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$feature => $name,)* }
            }

            /// The inclusive version ranges that have it.
            pub const fn ranges(self) -> &'static [(Version, Version)] {
                match self {
                    $(Self::$feature => const { &[$((
                        Version::new($lmaj, $lmin), Version::new($hmaj, $hmin)
                    )),*] },)*
                }
            }
        }
    };
}

features! {
    /// Comma lists of addresses in an ACL.
    AclAddressLists "ACL.AclAddressLists" = [7 . 2, MAX . MAX];
    /// ACLs of rule type Host may leave the priority out.
    AclHostRulePriority "ACL.AclHostRulePriority" = [7 . 2, MAX . MAX];
    /// Port ranges in an ACL.
    AclPortRanges "ACL.AclPortRanges" = [7 . 2, MAX . MAX];
    /// Ids on ACLs.
    AclRuleId "ACL.AclRuleId" = [7 . 2, MAX . MAX];
    /// The HNS v1 API.
    ApiV1 "API.V1" = [0 . 0, MAX . MAX];
    /// The HCN v2 API and schema.
    ApiV2 "API.V2" = [9 . 2, MAX . MAX];
    /// RemoteSubnetRoute policies on overlay networks.
    RemoteSubnet "RemoteSubnet" = [9 . 2, MAX . MAX];
    /// The HostRoute network policy.
    HostRoute "HostRoute" = [9 . 2, MAX . MAX];
    /// Direct server return.
    Dsr "DSR" = [9 . 3, 9 . MAX] [10 . 2, MAX . MAX];
    /// /32 prefixes on endpoints.
    Slash32EndpointPrefixes "Slash32EndpointPrefixes" = [9 . 3, 9 . MAX] [10 . 4, MAX . MAX];
    /// Protocol 252 in an ACL.
    AclSupportForProtocol252 "AclSupportForProtocol252" = [11 . 0, MAX . MAX];
    /// Source-IP distribution of a load balancer.
    SessionAffinity "SessionAffinity" = [12 . 0, MAX . MAX];
    /// IPv4 and IPv6 on one network.
    IPv6DualStack "IPv6DualStack" = [11 . 10, MAX . MAX];
    /// IP sets as network policies.
    SetPolicy "SetPolicy" = [13 . 0, MAX . MAX];
    /// A VXLAN port other than 4789.
    VxlanPort "VxlanPort" = [10 . 3, MAX . MAX];
    /// The VFP layer-4 proxy policy.
    L4Proxy "L4Proxy" = [9 . 5, 9 . MAX] [10 . 5, 10 . MAX] [11 . 11, 11 . MAX] [12 . 1, 12 . MAX] [13 . 1, MAX . MAX];
    /// The WFP layer-4 proxy policy.
    L4WfpProxy "L4WfpProxy" = [13 . 2, MAX . MAX];
    /// ACLs in tiers.
    TierAcl "TierAcl" = [14 . 0, MAX . MAX];
    /// ACLs on a whole network.
    NetworkAcl "NetworkACL" = [15 . 0, MAX . MAX];
    /// Sets of sets.
    NestedIpSet "NestedIpSet" = [15 . 0, MAX . MAX];
    /// Networks without a host vNIC.
    DisableHostPort "DisableHostPort" = [15 . 1, MAX . MAX];
    /// Changing a load balancer in place, with effect.
    ModifyLoadBalancer "ModifyLoadbalancer" = [15 . 5, 15 . MAX] [16 . 0, MAX . MAX];
    /// Accelerated networking of the v1 API.
    Accelnet "Accelnet" = [15 . 4, MAX . MAX];
}

/// The features of one version; with no version (the call failed) nothing is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features {
    version: Option<Version>,
}

impl Features {
    /// The features of a version.
    pub const fn of(version: Version) -> Self {
        Self { version: Some(version) }
    }

    /// What may be assumed while the version is not known: nothing.
    pub const fn unknown() -> Self {
        Self { version: None }
    }

    /// The version, when known.
    pub const fn version(self) -> Option<Version> {
        self.version
    }

    /// Whether the feature may be used.
    pub fn supports(self, feature: Feature) -> bool {
        self.version.is_some_and(|version| version.supports(feature))
    }
}
