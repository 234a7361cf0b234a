//! Switches: every choice about HNS's behaviour that no source settles.
//!
//! A behaviour that is documented, read in a client's code or quoted in a report is simply coded (and listed in
//! docs/fidelity.md). What nobody outside Microsoft knows is here, one field each, with the default that most
//! evidence speaks for. A profile presets those that are known to differ between builds; a YAML mapping or code
//! sets the rest:
//!
//! ```
//! # use hns::{Profile, Switches};
//! let mut switches = Switches::of(Profile::Ws2019);
//! switches.apply_yaml("destination_limit: 8\nduplicate_frontend: HCN_E_PORT_ALREADY_EXISTS\n")?;
//! assert_eq!(switches.destination_limit, 8);
//! # Ok::<(), hns::SwitchError>(())
//! ```

use hcn::{HResult, Kind, Version};
use serde_json::Value;

use crate::profile::Profile;

mod values;

use values::SwitchValue;
pub use values::{
    BalancerDeletion, Case, Distribution, EmptySourceVip, EndpointUpdate, FilterFlags, HairpinRules, InUse,
    InnerSource, LbChoice, ListOrder, ModifyBalancer, ModifyScope, NatReply, OverlayArp, RemovedDip,
    SecondDefault, UnknownKey, V1Failure,
};

/// A switch as documentation lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchInfo {
    /// The name in YAML.
    pub name: &'static str,
    /// What it decides.
    pub doc: &'static str,
}

/// A switch that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// There is no such switch.
    #[error("there is no switch {name:?}{}", nearest(.name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The value is of the wrong kind.
    #[error("switch {name}: {given} is not a value of it: use {wanted}")]
    Value {
        /// The switch.
        name: &'static str,
        /// What was given, as JSON.
        given: String,
        /// What can be given.
        wanted: String,
    },
    /// The text is not a YAML mapping.
    #[error("switches: not a YAML mapping of names to values: {0}")]
    Yaml(String),
}

fn nearest(name: &str) -> String {
    let words: Vec<&str> = name.split(['_', '-']).filter(|word| word.len() > 2).collect();
    let best = Switches::TABLE
        .iter()
        .map(|info| (words.iter().filter(|word| info.name.contains(*word)).count(), info.name))
        .max_by_key(|&(hits, _)| hits);
    match best {
        Some((hits, like)) if hits > 0 => format!(": did you mean {like}?"),
        _ => String::new(),
    }
}

macro_rules! switches {
    ($($(#[doc = $doc:literal])* $name:ident : $type:ty = $default:expr;)*) => {
        /// Every choice that no source settles, with the default that most evidence speaks for.
        ///
        /// [`Switches::of`] gives a profile's presets, [`Switches::apply_yaml`] sets others by name,
        /// [`Switches::TABLE`] lists them all.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Switches {
            $($(#[doc = $doc])* pub $name: $type,)*
        }

        impl Default for Switches {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Switches {
            /// Every switch, in order.
            pub const TABLE: &'static [SwitchInfo] = &[
                $(SwitchInfo { name: stringify!($name), doc: concat!($($doc),*) },)*
            ];

            /// Sets one switch from a JSON (or YAML) value.
            pub fn set(&mut self, name: &str, value: &Value) -> Result<(), SwitchError> {
                match name {
                    $(stringify!($name) => {
                        self.$name = SwitchValue::read(value).ok_or_else(|| SwitchError::Value {
                            name: stringify!($name),
                            given: value.to_string(),
                            wanted: <$type as SwitchValue>::wanted(),
                        })?;
                    })*
                    _ => return Err(SwitchError::Unknown { name: name.to_owned() }),
                }
                Ok(())
            }

            /// Every switch with its value, as text.
            pub fn values(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.show()),)*]
            }
        }
    };
}

switches! {
    /// The HNS version, where it is to differ from the profile's (which of 15.4, 15.5 and 16.x Windows Server 2025
    /// carries at which patch level is not known: U9). Features follow it.
    version: Option<Version> = None;

    /// Whether a caller's non-nil id is kept at creation; if not, HNS makes one up.
    honour_id_parameter: bool = true;
    /// Whether an `ID` in the document is kept when the id parameter is nil (U3; hcsshim's own tests need it).
    honour_json_id: bool = true;
    /// The error of creating an object, other than a network, under an id that exists (U4).
    existing_id: HResult = HResult::OBJECT_ALREADY_EXISTS;
    /// The error of naming a load balancer that does not exist (U2; by analogy with namespaces).
    unknown_balancer: HResult = HResult::ELEMENT_NOT_FOUND;
    /// The error of naming an SDN route that does not exist (U2; by analogy with namespaces).
    unknown_route: HResult = HResult::ELEMENT_NOT_FOUND;
    /// Letter case of network ids. Public v1 dumps show upper, v2 output lower.
    network_id_case: Case = Case::Lower;
    /// Letter case of endpoint ids: lower from 11.x on, upper on 9.x.
    endpoint_id_case: Case = Case::Lower;
    /// Letter case of namespace ids. (Ids *inside* a namespace's resources are upper case on every build.)
    namespace_id_case: Case = Case::Lower;
    /// Letter case of load balancer ids.
    balancer_id_case: Case = Case::Lower;
    /// Letter case of SDN route ids.
    route_id_case: Case = Case::Lower;
    /// Letter case of the endpoint ids inside a load balancer: upper on at least some builds.
    balancer_endpoint_case: Case = Case::Lower;

    /// The order in which ids are enumerated: no source promises one.
    list_order: ListOrder = ListOrder::Oldest;
    /// Whether a filter on `Name` disregards letter case (U6).
    filter_name_ignores_case: bool = false;
    /// Whether a filter on `Flags` asks for equality or for those bits (U6).
    filter_flags: FilterFlags = FilterFlags::Equal;
    /// What a filter on a property that the object does not have does (U6).
    filter_unknown_key: UnknownKey = UnknownKey::Ignore;
    /// Whether v2 output carries the base fields `Version` and `State` (U1).
    v2_base_fields: bool = true;
    /// How a refused v1 call is answered: as `Success: false` or as a failing HRESULT (U17: both are seen).
    v1_failure: V1Failure = V1Failure::Envelope;
    /// Whether a call waits until the one before has returned, however long that takes, instead of both being worked on at once.
    one_call_at_a_time: bool = false;
    /// Actors whose every call is refused with E_ACCESSDENIED (U18).
    denied_actors: Vec<String> = Vec::new();

    /// The error of a network name that is taken (U12). ICS networks give ERROR_DUP_NAME whatever this says.
    network_name_taken: HResult = HResult::NETWORK_ALREADY_EXISTS;
    /// Whether network names are the same when they differ only in letter case.
    network_names_ignore_case: bool = false;
    /// How many NAT networks a host may have; one more gives ERROR_OBJECT_ALREADY_EXISTS (U13; 0: any number).
    nat_networks: u32 = 0;
    /// The lowest VSID of an overlay subnet (0: none is asked for).
    lowest_vsid: u32 = 4096;
    /// Whether subnets of different networks may overlap.
    overlapping_subnets: bool = true;
    /// How long after creation the management address, the DR MAC and the host vNIC of an L2Bridge, L2Tunnel or
    /// Overlay network appear, in milliseconds. Clients poll for seconds; 0 is at once.
    management_delay_ms: u64 = 1000;
    /// Whether a network with attached endpoints can be deleted; if not, HCN_E_ENTITY_HAS_REFERENCES.
    delete_network_with_attached: bool = true;
    /// What becomes of load balancers when their network is deleted.
    delete_network_balancers: BalancerDeletion = BalancerDeletion::Remove;

    /// Whether the default host namespace (compartment 1) is there from the start.
    initial_default_namespace: bool = true;
    /// What creating a second HostDefault namespace does (U5).
    second_default_namespace: SecondDefault = SecondDefault::Create;
    /// Whether a `NamespaceId` asked for at creation is kept (U5); if not, the number is 0 until something is
    /// attached.
    honour_namespace_id: bool = false;
    /// Whether adding an endpoint to a namespace attaches it to the switch; if not, only
    /// [`crate::Hns::attach_to_switch`] or a v1 attach does.
    attach_on_namespace_add: bool = true;

    /// Whether two local endpoints of one network may have the same address.
    duplicate_local: bool = false;
    /// Whether a local and a remote endpoint of one network may have the same address: seen on real nodes.
    duplicate_local_remote: bool = true;
    /// Whether two remote endpoints of one network may have the same address: seen on Server 2019.
    duplicate_remote: bool = false;
    /// Whether an Update of endpoint policies replaces all policies or only those of the types sent (U14).
    endpoint_update: EndpointUpdate = EndpointUpdate::All;
    /// What deleting an endpoint that load balancers or SDN routes refer to does.
    delete_endpoint_in_use: InUse = InUse::Dangle;

    /// How many destinations a load balancer may have: 64 on older builds.
    destination_limit: u32 = 1024;
    /// Whether a load balancer may have no endpoint.
    empty_balancer: bool = false;
    /// The error of a load balancer or SDN route over an endpoint that does not exist.
    unknown_reference: HResult = HResult::INVALID_JSON_REFERENCE;
    /// The error of a frontend that another load balancer has: reported as 0xB7 on recent builds and, for ports,
    /// as HCN_E_PORT_ALREADY_EXISTS on older ones.
    duplicate_frontend: HResult = HResult::ALREADY_EXISTS;
    /// Whether a load balancer over a local endpoint without a switch port is refused (HCN_E_PORT_NOT_FOUND) on
    /// L2Bridge and L2Tunnel networks. On Overlay it never is: hcsshim's tests need that.
    balancer_needs_port: bool = true;
    /// Whether VIPs, the IPv6 flag and the endpoints of a load balancer must be of one family.
    one_family: bool = true;
    /// Whether a load balancer with a VIP and without DSR is refused when a process of the host listens on its
    /// external port (kubernetes/community#8883, Server 2019).
    vip_port_collides_with_listener: bool = false;
    /// What Modify of a load balancer does; by version: works from 15.5 on, is accepted without effect on 15.4, is
    /// not implemented below.
    modify_balancer: ModifyBalancer = ModifyBalancer::ByVersion;
    /// Which fields Modify of a load balancer changes where it works.
    modify_scope: ModifyScope = ModifyScope::Whole;
    /// What a session-affinity distribution does on a build that lacks it (below 12.0).
    distribution_unsupported: Distribution = Distribution::Keep;
    /// Blocks of 64 dynamic ports that a load balancer without DSR takes per protocol.
    balancer_blocks: u32 = 1;
    /// Blocks of 64 dynamic ports that an endpoint's OutBoundNAT pool takes per protocol.
    outbound_nat_blocks: u32 = 1;
    /// The error when the dynamic range has no free block left.
    blocks_exhausted: HResult = HResult::PORT_ALREADY_EXISTS;

    /// Whether the ACL layers stand before load balancing, so that an ACL of outgoing traffic sees the VIP; if not,
    /// it sees the backend, as policy engines that program pod addresses need it.
    acl_before_lb: bool = false;
    /// Whether traffic of a direction for which an endpoint has ACLs is blocked when none of them matches. Dumps
    /// show rules that allow everything at priority 65500; one update blocked everything (projectcalico/calico#9019).
    acl_default_deny: bool = false;
    /// Whether ICMP echo is translated by its identifier. Documentation says that ICMP cannot be translated, yet
    /// endpoints have a pool for it.
    icmp_nat: bool = false;
    /// Who answers ARP on an overlay: the switch for every address it knows, or the pods themselves.
    overlay_arp: OverlayArp = OverlayArp::Proxy;
    /// How a load balancer chooses a backend: by the highest score of a hash, or by a hash modulo their number.
    lb_choice: LbChoice = LbChoice::Rendezvous;
    /// Whose packets to a NAT port are led to the pod or host that owns it.
    nat_reply: NatReply = NatReply::Everywhere;
    /// Mixed into the choice of a backend; the real hash is not public.
    lb_hash_seed: u64 = 0;
    /// Which load balancers get a rule that turns packets at the host's port back into the switch.
    hairpin_rules: HairpinRules = HairpinRules::Always;
    /// What becomes of a connection whose backend is no longer among its load balancer's.
    removed_dip: RemovedDip = RemovedDip::KeepEstablished;
    /// Whether both ends get a TCP reset when a change of policy blocks an established connection (a registry
    /// switch of Windows is said to decide it).
    tcp_reset_on_policy_change: bool = false;
    /// What the source MAC of the inner frame is when it enters a tunnel.
    vxlan_inner_source: InnerSource = InnerSource::Keep;
    /// Whether the TTL of the inner packet is decremented when it enters a tunnel.
    vxlan_decrement_ttl: bool = false;
    /// The lowest UDP source port of VXLAN.
    vxlan_source_port_base: u32 = 49152;
    /// How many UDP source ports VXLAN is spread over.
    vxlan_source_ports: u32 = 16384;
    /// Whether remote subnet routes are in the switch only while a local endpoint of their network is attached
    /// (projectcalico/calico#8569).
    remote_routes_need_endpoint: bool = true;
    /// What a load balancer without SourceVIP translates the source to. Some 2019 builds took the VIP, and packets
    /// went in circles (kubernetes/community#8890).
    empty_source_vip: EmptySourceVip = EmptySourceVip::Node;
    /// How many connections to different remotes may share one port of a NAT pool.
    nat_port_reuse: u32 = 64;
}

impl Switches {
    /// The presets of a profile.
    pub fn of(profile: Profile) -> Self {
        let default = Self::default();
        match profile {
            Profile::Ws2019 => Self {
                endpoint_id_case: Case::Upper,
                balancer_endpoint_case: Case::Upper,
                destination_limit: 64,
                duplicate_remote: true,
                vip_port_collides_with_listener: true,
                ..default
            },
            Profile::Ws2022 | Profile::Ws2025 | Profile::Newest => default,
        }
    }

    /// Sets switches from a YAML mapping of names to values; what it does not name stays.
    pub fn apply_yaml(&mut self, text: &str) -> Result<(), SwitchError> {
        let value: Option<Value> =
            serde_saphyr::from_str(text).map_err(|error| SwitchError::Yaml(error.to_string()))?;
        match value {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Object(members)) => {
                members.iter().try_for_each(|(name, value)| self.set(name, value))
            }
            Some(other) => Err(SwitchError::Yaml(other.to_string())),
        }
    }

    /// The letter case of the ids of a kind.
    pub(crate) fn id_case(&self, kind: Kind) -> Case {
        match kind {
            Kind::Network => self.network_id_case,
            Kind::Endpoint => self.endpoint_id_case,
            Kind::Namespace => self.namespace_id_case,
            Kind::LoadBalancer => self.balancer_id_case,
            Kind::SdnRoute => self.route_id_case,
        }
    }

    /// The error of naming an object that does not exist.
    pub(crate) fn not_found(&self, kind: Kind) -> HResult {
        match kind {
            Kind::LoadBalancer => self.unknown_balancer,
            Kind::SdnRoute => self.unknown_route,
            known => known.not_found(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_is_documented_and_its_own_value_can_be_set() {
        let defaults = Switches::default();
        for (info, (name, shown)) in Switches::TABLE.iter().zip(defaults.values()) {
            assert_eq!(info.name, name);
            assert!(info.doc.trim().len() > 20, "{name}");
            let mut switches = Switches::default();
            if shown != "none" && shown != "[]" {
                let value = serde_json::from_str(&shown).unwrap_or(Value::String(shown));
                switches.set(name, &value).unwrap();
            }
            assert_eq!(switches, defaults, "{name}");
        }
    }

    #[test]
    fn every_open_question_about_the_service_has_a_switch() {
        let docs: String = Switches::TABLE.iter().map(|info| info.doc).collect();
        for question in ["U1", "U2", "U3", "U4", "U5", "U6", "U9", "U12", "U13", "U14", "U17", "U18"] {
            let named = [")", ";", ":", ","].iter().any(|end| docs.contains(&format!("{question}{end}")));
            assert!(named, "{question}");
        }
    }

    #[test]
    fn yaml_sets_what_it_names() {
        let mut switches = Switches::of(Profile::Ws2019);
        switches
            .apply_yaml(
                "version: 15.5\nunknown_balancer: 0x803B0001\nblocks_exhausted: E_OUTOFMEMORY\n\
                 list_order: newest\ndenied_actors: [guest]\nbalancer_needs_port: false\n",
            )
            .unwrap();
        assert_eq!(switches.version, Some(Version::new(15, 5)));
        assert_eq!(switches.unknown_balancer, HResult::NETWORK_NOT_FOUND);
        assert_eq!(switches.blocks_exhausted, HResult::OUT_OF_MEMORY);
        assert_eq!(switches.list_order, ListOrder::Newest);
        assert_eq!(switches.denied_actors, ["guest"]);
        assert_eq!((switches.balancer_needs_port, switches.destination_limit), (false, 64));
        assert_eq!(switches.apply_yaml(""), Ok(()));
    }

    #[test]
    fn errors_name_the_switch_and_what_would_be_right() {
        let mut switches = Switches::default();
        for (yaml, parts) in [
            ("list_order: sideways", ["list_order", "oldest"]),
            ("destination_limit: -1", ["destination_limit", "whole number"]),
            ("destinations_limit: 1", ["destinations_limit", "destination_limit?"]),
            ("existing_id: NOPE", ["existing_id", "HRESULT"]),
            ("- a", ["not a YAML mapping", "a"]),
            ("a: [", ["not a YAML mapping", ""]),
        ] {
            let text = switches.apply_yaml(yaml).unwrap_err().to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{yaml}: {text}");
        }
    }
}
