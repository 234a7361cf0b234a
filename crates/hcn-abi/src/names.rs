//! The names of the exports. The 57 of `computenetwork.dll` are those of a current x64 build's public listing.

use hcn::Kind;

/// The file with the v2 functions.
pub const COMPUTENETWORK: &str = "computenetwork.dll";

/// The file with the v1 call.
pub const VMCOMPUTE: &str = "vmcompute.dll";

/// The file with the COM task allocator.
pub const COMBASE: &str = "combase.dll";

/// Frees what the other files hand out, in `combase.dll`.
pub const CO_TASK_MEM_FREE: &str = "CoTaskMemFree";

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

/// Which Windows has an export, as a sentence about "it". What is not documented says so.
pub fn since(export: &str) -> &'static str {
    match export {
        HNS_CALL => "Windows Server 2016, Windows 10 version 1607 and later have it",
        CO_TASK_MEM_FREE => "every Windows has it",
        _ if ["SdnRoute", "Metrics", "Features", "NetworkCallback"]
            .iter()
            .any(|word| export.contains(word)) =>
        {
            "current builds have it; since when is not documented"
        }
        _ => "Windows Server 2019 (build 17763), Windows 10 version 1809 and later have it",
    }
}

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
