//! A Linux node's Services and masquerading as a script for nftables: what [`node::stack`] does with the same table,
//! done by the kernel. Pure: nothing is run.
//!
//! Where it cannot be equal: a client with affinity keeps its backend as long as the backends are the same (in memory
//! others' backends may come and go), and UDP connections to a backend that has gone go on until they are idle, because
//! nftables cannot end the kernel's connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use node::app::Transport;
use node::stack::{MasqueradeRule, Reach, ServiceRule, ServiceTable};

/// The table that is the lab's in every namespace.
pub const TABLE: &str = "transom";

/// The mark of a packet whose connection is to be masqueraded. It is taken away when that is done: the tunnel's own
/// packets would inherit it.
const MASQUERADED: &str = "0x4000";

/// One of the two families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// As expressions begin.
    fn word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// At the end of names.
    fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    fn address_type(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr",
            Self::V6 => "ipv6_addr",
        }
    }

    /// What a machine calls itself, which no frontend is.
    fn loopback(self) -> &'static str {
        match self {
            Self::V4 => "127.0.0.0/8",
            Self::V6 => "::1",
        }
    }

    fn select(self, nets: &[IpNet]) -> Vec<IpNet> {
        let own: Vec<IpNet> =
            nets.iter().filter(|net| Self::of(net.addr()) == self).map(IpNet::trunc).collect();
        IpNet::aggregate(&own)
    }
}

/// The script that makes a node serve a table and masquerade by a rule, in place of an earlier one, in one step.
pub fn script(table: &ServiceTable, masquerade: &MasqueradeRule) -> String {
    // Of two with the same frontend the later one counts.
    let rules: BTreeMap<(IpAddr, Transport, u16), &ServiceRule> =
        table.rules.iter().map(|rule| ((rule.vip, rule.transport, rule.port), rule)).collect();
    let mut script = Script::default();
    script.line(format!("table inet {TABLE}"));
    script.line(format!("delete table inet {TABLE}"));
    script.open(format!("table inet {TABLE}"));
    for family in [Family::V4, Family::V6] {
        let own = || rules.values().copied().filter(|rule| Family::of(rule.vip) == family);
        script.nets("pods", family, &table.pods);
        script.nets("inside", family, &masquerade.inside);
        script.nets("cluster", family, &masquerade.except);
        script.hairpins(family, own());
        script.frontends(family, own());
        for rule in own() {
            script.rule(family, rule);
        }
    }
    script.hooks();
    script.close();
    script.text
}

#[derive(Default)]
struct Script {
    text: String,
    depth: usize,
}

impl Script {
    fn line(&mut self, line: impl AsRef<str>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{:1$}{2}", "", self.depth * 2, line.as_ref());
    }

    fn open(&mut self, head: impl AsRef<str>) {
        self.line(format!("{} {{", head.as_ref()));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn elements(&mut self, elements: &[String]) {
        if !elements.is_empty() {
            self.line(format!("elements = {{ {} }}", elements.join(", ")));
        }
    }

    /// A set of ranges.
    fn nets(&mut self, name: &str, family: Family, nets: &[IpNet]) {
        self.open(format!("set {name}{}", family.number()));
        self.line(format!("type {}", family.address_type()));
        self.line("flags interval");
        let nets: Vec<String> = family.select(nets).iter().map(ToString::to_string).collect();
        self.elements(&nets);
        self.close();
    }

    /// Backends as clients of themselves.
    fn hairpins<'a>(&mut self, family: Family, rules: impl Iterator<Item = &'a ServiceRule>) {
        let backends: BTreeSet<IpAddr> = rules.flat_map(backends).map(SocketAddr::ip).collect();
        let kind = family.address_type();
        self.open(format!("set hairpins{}", family.number()));
        self.line(format!("type {kind} . {kind}"));
        let pairs: Vec<String> =
            backends.into_iter().map(|backend| format!("{backend} . {backend}")).collect();
        self.elements(&pairs);
        self.close();
    }

    /// Which frontend is which chain's.
    fn frontends<'a>(&mut self, family: Family, rules: impl Iterator<Item = &'a ServiceRule>) {
        let (every, single): (Vec<&ServiceRule>, Vec<&ServiceRule>) =
            rules.partition(|rule| rule.vip.is_unspecified());
        self.open(format!("map frontends{}", family.number()));
        self.line(format!("type {} . inet_proto . inet_service : verdict", family.address_type()));
        let single: Vec<String> = single
            .into_iter()
            .map(|rule| {
                format!("{} . {} . {} : goto {}", rule.vip, word(rule.transport), rule.port, chain(rule))
            })
            .collect();
        self.elements(&single);
        self.close();
        self.open(format!("map nodeports{}", family.number()));
        self.line("type inet_proto . inet_service : verdict");
        let every: Vec<String> = every
            .into_iter()
            .map(|rule| format!("{} . {} : goto {}", word(rule.transport), rule.port, chain(rule)))
            .collect();
        self.elements(&every);
        self.close();
    }

    /// The chain of a frontend. Only the first packet of a connection comes here.
    fn rule(&mut self, family: Family, rule: &ServiceRule) {
        let (word, number, name) = (family.word(), family.number(), chain(rule));
        if let Reach::Local { .. } = rule.reach {
            self.open(format!("chain {name}/any"));
            self.line(choice(family, rule, &rule.backends, false));
            self.close();
        }
        self.open(format!("chain {name}"));
        if !rule.sources.is_empty() {
            let sources: Vec<String> = family.select(&rule.sources).iter().map(ToString::to_string).collect();
            self.line(match &sources[..] {
                // None of this family is let in.
                [] => "drop".to_owned(),
                sources => format!("{word} saddr != {{ {} }} drop", sources.join(", ")),
            });
        }
        let mark = format!("meta mark set meta mark | {MASQUERADED}");
        match &rule.reach {
            Reach::Cluster => {
                self.line(format!("{word} saddr != @pods{number} {mark}"));
                self.line(choice(family, rule, &rule.backends, false));
            }
            Reach::Everybody => {
                self.line(mark);
                self.line(choice(family, rule, &rule.backends, false));
            }
            Reach::Local { near } => {
                // Only the node's own packets come from one of its addresses.
                self.line(format!("fib saddr type local {mark} goto {name}/any"));
                self.line(format!("{word} saddr @pods{number} goto {name}/any"));
                self.line(choice(family, rule, near, !rule.backends.is_empty()));
            }
        }
        self.close();
    }

    /// Where packets come by.
    fn hooks(&mut self) {
        self.open("chain services");
        for family in [Family::V4, Family::V6] {
            let (word, number, loopback) = (family.word(), family.number(), family.loopback());
            self.line(format!("{word} daddr . meta l4proto . th dport vmap @frontends{number}"));
            self.line(format!(
                "{word} daddr != {loopback} fib daddr type local meta l4proto . th dport vmap @nodeports{number}"
            ));
        }
        self.close();
        for hook in ["prerouting", "output"] {
            self.open(format!("chain {hook}"));
            // The number is that of `dstnat`, a word that older programs do not know for every hook.
            self.line(format!("type nat hook {hook} priority -100; policy accept;"));
            self.line("jump services");
            self.close();
        }
        self.open("chain postrouting");
        self.line("type nat hook postrouting priority srcnat; policy accept;");
        // What stays on the node has an address of the node already.
        self.line("oifname \"lo\" accept");
        self.line(format!(
            "meta mark & {MASQUERADED} == {MASQUERADED} meta mark set meta mark ^ {MASQUERADED} masquerade fully-random"
        ));
        for family in [Family::V4, Family::V6] {
            let (word, number) = (family.word(), family.number());
            self.line(format!(
                "ct status dnat {word} saddr . {word} daddr @hairpins{number} masquerade fully-random"
            ));
            self.line(format!(
                "{word} saddr @inside{number} {word} daddr != @cluster{number} fib saddr type != local masquerade fully-random"
            ));
        }
        self.close();
    }
}

/// What becomes of a client that may have one of these backends.
fn choice(family: Family, rule: &ServiceRule, backends: &[SocketAddr], elsewhere: bool) -> String {
    let (word, transport) = (family.word(), word(rule.transport));
    match backends {
        [] if elsewhere || rule.elsewhere => "drop".to_owned(),
        // Also for TCP: the client is told that nobody listens.
        [] => "reject with icmpx port-unreachable".to_owned(),
        [only] => format!("meta l4proto {transport} dnat {word} to {only}"),
        several => {
            let pick = if rule.affinity { format!("jhash {word} saddr") } else { "numgen random".to_owned() };
            let numbered: Vec<String> = several
                .iter()
                .enumerate()
                .map(|(number, backend)| format!("{number} : {} . {}", backend.ip(), backend.port()))
                .collect();
            format!(
                "meta l4proto {transport} dnat {word} to {pick} mod {} map {{ {} }}",
                several.len(),
                numbered.join(", ")
            )
        }
    }
}

fn backends(rule: &ServiceRule) -> impl Iterator<Item = &SocketAddr> {
    let near = match &rule.reach {
        Reach::Local { near } => &near[..],
        _ => &[],
    };
    rule.backends.iter().chain(near)
}

fn word(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    }
}

/// A frontend's chain.
fn chain(rule: &ServiceRule) -> String {
    let number = Family::of(rule.vip).number();
    // No colons are allowed in names.
    let address =
        if rule.vip.is_unspecified() { "any".to_owned() } else { rule.vip.to_string().replace(':', ".") };
    format!("v{number}/{}/{address}/{}", word(rule.transport), rule.port)
}

#[cfg(test)]
mod tests;
