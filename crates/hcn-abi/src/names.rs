//! The names of the exports. The 57 of `computenetwork.dll` are those of a current x64 build's public listing.

use hcn::Kind;

/// The file with the v2 functions.
pub const COMPUTENETWORK: &str = "computenetwork.dll";

/// The file with the v1 call.
pub const VMCOMPUTE: &str = "vmcompute.dll";

/// The v1 call, in `vmcompute.dll`.
pub const HNS_CALL: &str = "HNSCall";

/// Registers for notifications of the service.
pub const REGISTER_SERVICE_CALLBACK: &str = "HcnRegisterServiceCallback";

/// Ends them.
pub const UNREGISTER_SERVICE_CALLBACK: &str = "HcnUnregisterServiceCallback";

/// A function that exists for each kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `HcnEnumerateNetworks` and so on.
    Enumerate,
    /// `HcnCreateNetwork`.
    Create,
    /// `HcnOpenNetwork`.
    Open,
    /// `HcnModifyNetwork`.
    Modify,
    /// `HcnQueryNetworkProperties`.
    Query,
    /// `HcnDeleteNetwork`.
    Delete,
    /// `HcnCloseNetwork`.
    Close,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Enumerate, Self::Create, Self::Open, Self::Modify, Self::Query, Self::Delete, Self::Close];

    /// The export's name for a kind.
    pub fn export(self, kind: Kind) -> String {
        let word = kind.export_word();
        match self {
            Self::Enumerate => format!("HcnEnumerate{word}s"),
            Self::Create => format!("HcnCreate{word}"),
            Self::Open => format!("HcnOpen{word}"),
            Self::Modify => format!("HcnModify{word}"),
            Self::Query => format!("HcnQuery{word}Properties"),
            Self::Delete => format!("HcnDelete{word}"),
            Self::Close => format!("HcnClose{word}"),
        }
    }
}

/// The exports of `computenetwork.dll` besides those of [`Family`].
pub const OTHERS: [&str; 22] = [
    "HcnCloseGuestNetworkService",
    "HcnCreateGuestNetworkService",
    "HcnDeleteGuestNetworkService",
    "HcnEnumerateGuestNetworkPortReservations",
    "HcnEnumerateGuestNetworkServices",
    "HcnFreeGuestNetworkPortReservations",
    "HcnModifyGuestNetworkService",
    "HcnOpenGuestNetworkService",
    "HcnQueryEndpointAddresses",
    "HcnQueryEndpointStats",
    "HcnQueryFeatures",
    "HcnQueryGuestNetworkServiceProperties",
    "HcnQueryMetrics",
    "HcnRegisterGuestNetworkServiceCallback",
    "HcnRegisterNetworkCallback",
    REGISTER_SERVICE_CALLBACK,
    "HcnReleaseGuestNetworkServicePortReservationHandle",
    "HcnReserveGuestNetworkServicePort",
    "HcnReserveGuestNetworkServicePortRange",
    "HcnUnregisterGuestNetworkServiceCallback",
    "HcnUnregisterNetworkCallback",
    UNREGISTER_SERVICE_CALLBACK,
];

/// Every export of `computenetwork.dll`, sorted.
pub fn computenetwork() -> Vec<String> {
    let mut names: Vec<String> =
        Family::ALL.into_iter().flat_map(|family| Kind::ALL.map(|kind| family.export(kind))).collect();
    names.extend(OTHERS.map(str::to_owned));
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_57_and_none_twice() {
        let mut names = computenetwork();
        assert_eq!(names.len(), 57);
        names.dedup();
        assert_eq!(names.len(), 57);
        for name in [
            "HcnEnumerateSdnRoutes",
            "HcnQueryLoadBalancerProperties",
            "HcnCloseNamespace",
            "HcnModifySdnRoute",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
