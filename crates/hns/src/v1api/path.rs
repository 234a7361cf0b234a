//! v1 paths. Clients end collections with a slash or not; letter case does not count.

use hcn::{Guid, HResult, Kind, Result};

use crate::tx::refuse;

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Version,
    Collection(Kind),
    Object(Kind, Guid),
    /// `/endpoints/{id}/detailed`
    Detailed(Guid),
    Attach(Guid),
    Detach(Guid),
    Stats(Option<Guid>),
    PolicyLists(Policy),
    AddResource(Guid),
    RemoveResource(Guid),
    Accelnet,
    /// Paths that only PowerShell names.
    Named(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    All,
    One(Guid),
}

const NAMED: [&str; 4] = ["activities", "plugins", "endpointaddresses", "portpools"];

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let unknown = || refuse(HResult::REQUEST_UNSUPPORTED, format!("there is no v1 path {text:?}"));
        let lower = text.trim().trim_matches('/').to_ascii_lowercase();
        let parts: Vec<&str> = lower.split('/').collect();
        let id = |part: &str| {
            part.parse::<Guid>().map_err(|error| {
                refuse(HResult::GUID_CONVERSION_FAILURE, format!("v1 path {text:?}: {error}"))
            })
        };
        Ok(match parts.as_slice() {
            ["globals", "version"] => Self::Version,
            ["networks"] => Self::Collection(Kind::Network),
            ["networks", one] => Self::Object(Kind::Network, id(one)?),
            ["endpoints"] => Self::Collection(Kind::Endpoint),
            ["endpoints", one] => Self::Object(Kind::Endpoint, id(one)?),
            ["endpoints", one, "detailed"] => Self::Detailed(id(one)?),
            ["endpoints", one, "attach"] => Self::Attach(id(one)?),
            ["endpoints", one, "detach"] => Self::Detach(id(one)?),
            ["endpointstats"] => Self::Stats(None),
            ["endpointstats", one] => Self::Stats(Some(id(one)?)),
            ["policylists"] => Self::PolicyLists(Policy::All),
            ["policylists", one] => Self::PolicyLists(Policy::One(id(one)?)),
            ["namespaces"] => Self::Collection(Kind::Namespace),
            ["namespaces", one] => Self::Object(Kind::Namespace, id(one)?),
            ["namespaces", one, "addresource"] => Self::AddResource(id(one)?),
            ["namespaces", one, "removeresource"] => Self::RemoveResource(id(one)?),
            ["accelnet"] => Self::Accelnet,
            [other] => Self::Named(NAMED.into_iter().find(|name| name == other).ok_or_else(unknown)?),
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_and_case_do_not_count() {
        for text in ["/networks/", "/networks", "networks", "/Networks/"] {
            assert_eq!(Path::parse(text).unwrap(), Path::Collection(Kind::Network), "{text}");
        }
        let id: Guid = "0badcafe-0000-4000-8000-00000000000a".parse().unwrap();
        assert_eq!(
            Path::parse("/endpoints/0BADCAFE-0000-4000-8000-00000000000A/Attach").unwrap(),
            Path::Attach(id)
        );
    }

    #[test]
    fn other_paths_are_refused() {
        for (text, code) in [
            ("", HResult::REQUEST_UNSUPPORTED),
            ("/pods/", HResult::REQUEST_UNSUPPORTED),
            ("/networks/1/2/3", HResult::REQUEST_UNSUPPORTED),
            ("/networks/nat", HResult::GUID_CONVERSION_FAILURE),
        ] {
            assert_eq!(Path::parse(text).unwrap_err().code, code, "{text:?}");
        }
    }
}
