//! Names of layers and groups, and where layers stand.
//!
//! Names are those of public dumps; the ones that no dump shows are marked. Only two numbers are public
//! (`INTERNAL_L2_REWRITE_LAYER` 75 and the group `VNET_GROUP_PA_ROUTE_IPV4_OUT` 200); the order of the others is
//! inferred from what each must see.

use std::sync::Arc;
use std::sync::LazyLock;

use vfp::model::{Direction, Family, GroupKey};

macro_rules! layers {
    ($($(#[$meta:meta])* $name:ident = $text:literal, $priority:literal;)*) => {
        /// Layer names, made once.
        pub(crate) struct Layers {
            $($(#[$meta])* pub(crate) $name: Arc<str>,)*
        }

        static LAYERS: LazyLock<Layers> = LazyLock::new(|| Layers { $($name: $text.into(),)* });

        /// Where layers stand: OUT walks them upwards.
        pub(crate) mod priority {
            $(pub(crate) const $name: u32 = $priority;)*
        }
    };
}

#[expect(non_upper_case_globals, reason = "priorities are named as the layers are")]
mod list {
    use super::{Arc, LazyLock};

    layers! {
        /// The VFP proxy; name inferred.
        l4_proxy = "L4_PROXY_LAYER", 90;
        lb_dsr = "LB_DSR", 100;
        /// ACLs of the network; name inferred.
        acl_network = "ACL_NETWORK_LAYER", 190;
        acl = "ACL_ENDPOINT_LAYER", 200;
        slb_nat = "SLB_NAT_LAYER", 300;
        internal_l2 = "INTERNAL_L2_REWRITE_LAYER", 350;
        vnet_encap = "VNET_ENCAP_LAYER", 400;
        vnet_pa_route = "VNET_PA_ROUTE_LAYER", 500;
        /// The bandwidth cap; name inferred.
        qos = "QOS_LAYER", 600;
        /// Every frame through the wire; name inferred.
        l2_tunnel = "L2_TUNNEL_LAYER", 900;
        slb_hairpin = "SLB_HAIRPIN_LAYER", 50;
        slb_lb = "SLB_LB_LAYER", 100;
        lb = "LB", 110;
        /// A NAT network's translation; name inferred.
        nat = "NAT_LAYER", 310;
        /// Where VXLAN comes off; name inferred.
        vnet_decap = "VNET_DECAP_LAYER", 100;
        external_l2 = "EXTERNAL_L2_REWRITE_LAYER", 360;
    }

    pub(crate) fn layers() -> &'static Layers {
        &LAYERS
    }
}

pub(crate) use list::{layers, priority};

/// Where the ACL layers stand when they come before load balancing.
pub(crate) const ACL_BEFORE_LB: (u32, u32) = (45, 50);

/// Priorities of rules inside their groups.
pub(crate) mod rank {
    /// Rules of load balancers.
    pub(crate) const BALANCER: u32 = 100;
    /// Replies of load-balanced backends, which outbound NAT leaves alone.
    pub(crate) const NAT_REPLY: u32 = 50;
    /// Outbound NAT of given destinations only.
    pub(crate) const NAT_DESTINATIONS: u32 = 150;
    /// Exceptions of outbound NAT.
    pub(crate) const NAT_EXCEPTION: u32 = 200;
    /// Outbound NAT.
    pub(crate) const NAT: u32 = 300;
    /// What no ACL matches (in a public dump).
    pub(crate) const ACL_DEFAULT: u32 = 65500;
    /// The rule at the end of the NAT groups.
    pub(crate) const DEFAULT: u32 = 65535;
    /// RemoteSubnetRoute (in a public dump).
    pub(crate) const ENCAP: u32 = 10;
    /// A remote endpoint's own encapsulation: where no RemoteSubnetRoute matches.
    pub(crate) const ENCAP_ENDPOINT: u32 = 20;
    /// `PA_ROUTE` (in a public dump).
    pub(crate) const PA_ROUTE: u32 = 45535;
}

/// How long a load-balanced or filtered flow lives idle, in seconds (in public dumps).
pub(crate) const FLOW_TTL: u32 = 240;

/// A group's key and what a dump prints of it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    pub(crate) id: Arc<str>,
    pub(crate) direction: Direction,
    pub(crate) family: Family,
    pub(crate) priority: u32,
}

/// `IPv4` in the groups of load balancing, `IPV4` in the others.
pub(crate) const fn mixed(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// As [`mixed`], in capitals.
pub(crate) const fn capital(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPV4",
        Family::V6 => "IPV6",
    }
}

impl Group {
    /// A group of a scope: `host`, `external`, a network's or a port's id.
    pub(crate) fn new(
        scope: &str,
        layer: &str,
        id: &str,
        direction: Direction,
        family: Family,
        priority: u32,
    ) -> Self {
        let key = GroupKey(format!("{scope}/{layer}/{id}").into());
        Self { key, id: id.into(), direction, family, priority }
    }
}

/// Both families, v4 first.
pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// 0 for IPv4, 1 for IPv6.
pub(crate) const fn at(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// Groups of the host's and the external port that objects of all networks put rules into.
pub(crate) struct HostGroups {
    pub(crate) hairpin: [Group; 2],
    pub(crate) slb_lb: [Group; 2],
    pub(crate) lb: [Group; 2],
    pub(crate) nat: Group,
    pub(crate) external_in: [Group; 2],
    pub(crate) external_out: [Group; 2],
    pub(crate) decap: Group,
}

static HOST_GROUPS: LazyLock<HostGroups> = LazyLock::new(|| {
    let each = |make: &dyn Fn(Family) -> Group| FAMILIES.map(make);
    let layers = layers();
    HostGroups {
        hairpin: each(&|family| {
            let id = format!("SLB_GROUP_HAIRPIN_{}_IN", mixed(family));
            Group::new("host", &layers.slb_hairpin, &id, Direction::In, family, 100)
        }),
        slb_lb: each(&|family| {
            let id = format!("SLB_GROUP_LB_{}_OUT", mixed(family));
            Group::new("host", &layers.slb_lb, &id, Direction::Out, family, 100)
        }),
        // The dump's LB_OUT says no family; its twin is named like the others.
        lb: each(&|family| {
            let id = if family == Family::V4 { "LB_OUT" } else { "LB_IPv6_OUT" };
            Group::new("host", &layers.lb, id, Direction::Out, family, 100)
        }),
        nat: Group::new("host", &layers.nat, "NAT_GROUP_IPV4_OUT", Direction::Out, Family::V4, 100),
        external_in: each(&|family| {
            let id = format!("EXTERNAL_L2_REWRITE_GROUP_{}_IN", capital(family));
            Group::new("external", &layers.external_l2, &id, Direction::In, family, 100)
        }),
        external_out: each(&|family| {
            let id = format!("EXTERNAL_L2_REWRITE_GROUP_{}_OUT", capital(family));
            Group::new("external", &layers.external_l2, &id, Direction::Out, family, 100)
        }),
        decap: Group::new(
            "external",
            &layers.vnet_decap,
            "VNET_GROUP_DECAP_IPV4_OUT",
            Direction::Out,
            Family::V4,
            100,
        ),
    }
});

pub(crate) fn host_groups() -> &'static HostGroups {
    &HOST_GROUPS
}
