//! The kinds of values that switches have, and how each is written.

use hcn::{Guid, HResult, Version};
use serde_json::Value;

/// A value that can be read from JSON or YAML.
pub(super) trait SwitchValue: Sized {
    fn read(value: &Value) -> Option<Self>;
    fn show(&self) -> String;
    fn wanted() -> String;
}

impl SwitchValue for bool {
    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn wanted() -> String {
        "true or false".to_owned()
    }
}

macro_rules! number {
    ($($type:ty),*) => { $(impl SwitchValue for $type {
        fn read(value: &Value) -> Option<Self> {
            value.as_u64().and_then(|number| number.try_into().ok())
        }
        fn show(&self) -> String {
            self.to_string()
        }
        fn wanted() -> String {
            format!("a whole number from 0 to {}", <$type>::MAX)
        }
    })* };
}
number!(u32, u64);

impl SwitchValue for HResult {
    fn read(value: &Value) -> Option<Self> {
        let code = match value {
            Value::Number(number) => Self(number.as_u64()?.try_into().ok()?),
            Value::String(text) => {
                let named = hcn::error::CODES.iter().find(|code| code.name.eq_ignore_ascii_case(text));
                match named {
                    Some(code) => code.value,
                    None => Self(u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?),
                }
            }
            _ => return None,
        };
        code.is_failure().then_some(code)
    }
    fn show(&self) -> String {
        self.name().into_owned()
    }
    fn wanted() -> String {
        "a failing HRESULT: its name (HCN_E_PORT_ALREADY_EXISTS) or number (0x803B0013)".to_owned()
    }
}

impl SwitchValue for Option<Version> {
    fn read(value: &Value) -> Option<Self> {
        let text = match value {
            Value::Null => return Some(None),
            Value::String(text) => text.clone(),
            // 15.5 without quotes is a number.
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        let (major, minor) = text.split_once('.')?;
        Some(Some(Version::new(major.parse().ok()?, minor.parse().ok()?)))
    }
    fn show(&self) -> String {
        self.map_or_else(|| "none".to_owned(), |version| version.to_string())
    }
    fn wanted() -> String {
        "a version such as \"15.10\" (in quotes) or null".to_owned()
    }
}

impl SwitchValue for Vec<String> {
    fn read(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
    }
    fn show(&self) -> String {
        format!("[{}]", self.join(", "))
    }
    fn wanted() -> String {
        "a list of names".to_owned()
    }
}

macro_rules! choice {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)*
        }

        impl SwitchValue for $name {
            fn read(value: &Value) -> Option<Self> {
                match value.as_str()? {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
            fn show(&self) -> String {
                match self { $(Self::$variant => $text,)* }.to_owned()
            }
            fn wanted() -> String {
                format!("one of {}", [$($text),*].join(", "))
            }
        }
    )* };
}

choice! {
    /// Letter case of hexadecimal ids.
    pub enum Case {
        /// Lower.
        Lower = "lower",
        /// Upper.
        Upper = "upper",
    }

    /// The order of enumerated ids.
    pub enum ListOrder {
        /// First created first.
        Oldest = "oldest",
        /// Last created first.
        Newest = "newest",
        /// By id.
        Id = "id",
    }

    /// How a filter on `Flags` compares.
    pub enum FilterFlags {
        /// The flags are equal.
        Equal = "equal",
        /// The bits asked for are set.
        Mask = "mask",
    }

    /// What a filter on an unknown property does.
    pub enum UnknownKey {
        /// It is disregarded.
        Ignore = "ignore",
        /// Nothing matches.
        MatchNothing = "match_nothing",
    }

    /// How a refused v1 call is answered.
    pub enum V1Failure {
        /// `{"Success": false, "Error": …}`.
        Envelope = "envelope",
        /// A failing HRESULT.
        HResult = "hresult",
    }

    /// What becomes of load balancers when their network is deleted.
    pub enum BalancerDeletion {
        /// They go with it.
        Remove = "remove",
        /// They stay in state 4; deleting one says that the network was not found (microsoft/Windows-Containers
        /// and wcnscripts reports).
        Degrade = "degrade",
    }

    /// What creating a second HostDefault namespace does.
    pub enum SecondDefault {
        /// A second object.
        Create = "create",
        /// The id of the one that is there.
        Existing = "existing",
        /// GCN_E_DEFAULTNAMESPACE_EXISTS.
        Refuse = "refuse",
    }

    /// What an Update of endpoint policies replaces.
    pub enum EndpointUpdate {
        /// All policies.
        All = "all",
        /// Those of the types that are sent.
        ListedTypes = "listed_types",
    }

    /// What deleting an endpoint that is referred to does.
    pub enum InUse {
        /// The references stay and lead nowhere.
        Dangle = "dangle",
        /// The references go too.
        Drop = "drop",
        /// HCN_E_ENTITY_HAS_REFERENCES.
        Refuse = "refuse",
    }

    /// What Modify of a load balancer does.
    pub enum ModifyBalancer {
        /// By the HNS version.
        ByVersion = "by_version",
        /// It works.
        Works = "works",
        /// Success without effect.
        Ignored = "ignored",
        /// E_NOTIMPL.
        NotImplemented = "not_implemented",
    }

    /// Which fields Modify of a load balancer changes.
    pub enum ModifyScope {
        /// All.
        Whole = "whole",
        /// The endpoints only.
        Endpoints = "endpoints",
    }

    /// Who answers ARP on an overlay.
    pub enum OverlayArp {
        /// The switch, or nobody.
        Proxy = "proxy",
        /// The switch for what is behind tunnels, else the pods.
        Flood = "flood",
    }

    /// Which load balancers are hairpinned at the host's port.
    pub enum HairpinRules {
        /// All.
        Always = "always",
        /// Those with a local backend, and those without DSR.
        LocalBackends = "local_backends",
    }

    /// What becomes of a connection whose backend is gone from its load balancer.
    pub enum RemovedDip {
        /// Established TCP connections keep it, everything else chooses anew.
        KeepEstablished = "keep_established",
        /// Every flow keeps it.
        Keep = "keep",
        /// Every flow chooses anew.
        Rehash = "rehash",
    }

    /// How a load balancer chooses a backend.
    pub enum LbChoice {
        /// The highest score wins: few connections move when a backend leaves.
        Rendezvous = "rendezvous",
        /// A hash modulo the number of backends.
        Modulo = "modulo",
    }

    /// Whose packets to a NAT port are led to its owner.
    pub enum NatReply {
        /// Everybody's.
        Everywhere = "everywhere",
        /// Those from the wire.
        FromWire = "from_wire",
    }

    /// The inner source MAC behind a tunnel header.
    pub enum InnerSource {
        /// The sender's.
        Keep = "keep",
        /// The distributed router's.
        Router = "router",
    }

    /// What a load balancer without SourceVIP translates the source to.
    pub enum EmptySourceVip {
        /// The node's address.
        Node = "node",
        /// The VIP.
        Vip = "vip",
    }

    /// What an unsupported distribution type does.
    pub enum Distribution {
        /// It is kept and shown, without effect.
        Keep = "keep",
        /// It is dropped from the document.
        Drop = "drop",
        /// E_INVALIDARG.
        Refuse = "refuse",
    }
}

impl Case {
    /// The id in this case.
    pub(crate) fn of(self, id: Guid) -> Guid {
        match self {
            Self::Lower => id.lower(),
            Self::Upper => id.upper(),
        }
    }
}
