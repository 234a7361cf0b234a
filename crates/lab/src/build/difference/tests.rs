//! Scripts are run on a model of the kernel, and what comes out is what a plan says.

use node::NetworkKind;
use proptest::prelude::*;

use super::*;
use crate::plan::tests::{cluster, plan};

/// A namespace as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Space {
    /// What each device was made with, and what it belongs to.
    devices: BTreeMap<String, Link>,
    routes: BTreeMap<String, String>,
    neighbors: BTreeMap<String, String>,
    forwardings: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    made: String,
    /// The other end of a pair, or the device that a tunnel leaves by.
    end: Option<(String, String)>,
    set: String,
    addresses: Vec<String>,
}

/// The kernel, as far as scripts ask for it. It refuses what the real one refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kernel {
    spaces: BTreeMap<String, Space>,
}

fn word<'a>(words: &[&'a str], before: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == before)?;
    words.get(at + 1).copied()
}

impl Kernel {
    fn apply(&mut self, difference: &Difference) {
        for (namespace, script) in &difference.removals {
            self.run(namespace, script);
        }
        for namespace in &difference.gone {
            let devices: Vec<String> = self.spaces[namespace].devices.keys().cloned().collect();
            for device in &devices {
                self.remove(namespace, device);
            }
            self.spaces.remove(namespace);
        }
        for namespace in &difference.new {
            assert!(difference.settings.contains_key(namespace));
            assert_eq!(self.spaces.insert(namespace.clone(), Space::default()), None, "{namespace}");
        }
        for scripts in [&difference.devices, &difference.contents, &difference.forwardings] {
            for (namespace, script) in scripts {
                self.run(namespace, script);
            }
        }
    }

    fn run(&mut self, namespace: &str, script: &Script) {
        for line in script {
            self.line(namespace, line);
        }
    }

    fn space(&mut self, namespace: &str) -> &mut Space {
        self.spaces.get_mut(namespace).unwrap_or_else(|| panic!("no namespace {namespace}"))
    }

    /// A device goes, with all that is on it, with its other end and with tunnels that leave by it.
    fn remove(&mut self, namespace: &str, device: &str) {
        let Some(gone) = self.space(namespace).devices.remove(device) else { return };
        let space = self.space(namespace);
        let ends = format!(" dev {device} ");
        space.routes.retain(|_, line| !format!("{line} ").contains(&ends));
        space.neighbors.retain(|_, line| !format!("{line} ").contains(&ends));
        space.forwardings.retain(|line| !format!("{line} ").contains(&ends));
        for other in space.devices.values_mut() {
            if word(&other.set.split(' ').collect::<Vec<_>>(), "master") == Some(device) {
                other.set.clear();
            }
        }
        let on = Some((namespace.to_owned(), device.to_owned()));
        let tunnels: Vec<String> =
            space.devices.iter().filter(|(_, link)| link.end == on).map(|(name, _)| name.clone()).collect();
        for tunnel in &tunnels {
            self.remove(namespace, tunnel);
        }
        if let Some((there, end)) = gone.end.filter(|_| gone.made.contains("veth"))
            && self.spaces.contains_key(&there)
        {
            self.remove(&there, &end);
        }
    }

    fn add(&mut self, namespace: &str, device: &str, link: Link) {
        let old = self.space(namespace).devices.insert(device.to_owned(), link);
        assert_eq!(old, None, "{device} in {namespace} is there already");
    }

    fn line(&mut self, namespace: &str, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let device = word(&words, "dev").unwrap().to_owned();
        let made = || line.to_owned();
        match words[..2] {
            ["link", "add"] => {
                let (end, peer) = match word(&words, "type").unwrap() {
                    "veth" => {
                        let end = (word(&words, "netns").unwrap(), word(&words, "name").unwrap());
                        let end = (end.0.to_owned(), end.1.to_owned());
                        (Some(end.clone()), Some(end))
                    }
                    "vxlan" => {
                        let at = words.iter().rposition(|word| *word == "dev").unwrap();
                        let underlay = words[at + 1].to_owned();
                        assert!(self.space(namespace).devices.contains_key(&underlay), "{line}");
                        (Some((namespace.to_owned(), underlay)), None)
                    }
                    _ => (None, None),
                };
                self.add(namespace, &device, Link { made: made(), end, ..Link::default() });
                if let Some((there, name)) = peer {
                    let back = Some((namespace.to_owned(), device));
                    self.add(&there, &name, Link { made: made(), end: back, ..Link::default() });
                }
                return;
            }
            ["link", "del"] => {
                assert!(self.space(namespace).devices.contains_key(&device), "{line}");
                return self.remove(namespace, &device);
            }
            _ => {}
        }
        let space = self.space(namespace);
        let on = space.devices.get_mut(&device).unwrap_or_else(|| panic!("{line} in {namespace}"));
        match words[..2] {
            ["link", "set"] => {
                line.clone_into(&mut on.set);
                if let Some(bridge) = word(&words, "master") {
                    assert!(space.devices.contains_key(bridge), "{line}");
                }
            }
            ["addr", "add"] => {
                let known = on.addresses.iter().any(|address| address.split(' ').next() == Some(words[2]));
                assert!(!known, "{line} in {namespace}");
                on.addresses.push(words[2..].join(" "));
            }
            ["addr", "del"] => {
                let before = on.addresses.len();
                on.addresses.retain(|address| address.split(' ').next() != Some(words[2]));
                assert_eq!(before, on.addresses.len() + 1, "{line}");
                let routed = |line: &String| !line.ends_with(&format!("dev {device}"));
                if on.addresses.is_empty() {
                    space.routes.retain(|_, line| routed(line));
                }
            }
            ["route", "replace"] => {
                assert!(!on.addresses.is_empty(), "{line} in {namespace}");
                space.routes.insert(words[2].to_owned(), line.to_owned());
            }
            ["route", "del"] => assert!(space.routes.remove(words[2]).is_some(), "{line} in {namespace}"),
            ["neigh", "replace"] => {
                space.neighbors.insert(format!("{} {device}", words[2]), line.to_owned());
            }
            ["neigh", "del"] => {
                let old = space.neighbors.remove(&format!("{} {device}", words[2]));
                assert!(old.is_some(), "{line}");
            }
            ["fdb", "replace"] => {
                space.forwardings.insert(words[2..].join(" "));
            }
            ["fdb", "del"] => {
                assert!(space.forwardings.remove(&format!("{} permanent", words[2..].join(" "))), "{line}");
            }
            _ => panic!("{line}"),
        }
    }
}

/// Nodes: is it there, has it another address, is it in another segment. Pods: the node, the address.
#[derive(Clone, Debug)]
struct Wish {
    nodes: Vec<(bool, bool, bool)>,
    pods: Vec<Option<(usize, u8)>>,
    overlay: bool,
    /// How many of the tunnels' MACs are told.
    told: u8,
}

fn wish() -> impl Strategy<Value = Wish> {
    let nodes = proptest::collection::vec((proptest::bool::weighted(0.8), any::<bool>(), any::<bool>()), 3);
    let pods = proptest::collection::vec(proptest::option::of((0..3_usize, 2..6_u8)), 6);
    (nodes, pods, proptest::bool::weighted(0.7), 0..3_u8).prop_map(|(nodes, pods, overlay, told)| Wish {
        nodes,
        pods,
        overlay,
        told,
    })
}

fn planned(wish: &Wish) -> LabPlan {
    let mut texts = Vec::new();
    for (number, (there, moved, away)) in wish.nodes.iter().enumerate().filter(|(_, node)| node.0) {
        assert!(there);
        let segment = if *away { "198.51.100" } else { "192.0.2" };
        let host = number + if *moved { 21 } else { 11 };
        texts.push(format!(
            "apiVersion: v1
kind: Node
metadata: {{name: n{number}, labels: {{kubernetes.io/os: linux}}}}
spec: {{podCIDR: 10.50.{number}.0/24}}
status: {{addresses: [{{type: InternalIP, address: {segment}.{host}}}]}}"
        ));
    }
    for (pod, place) in wish.pods.iter().enumerate() {
        let Some((node, host)) = place else { continue };
        let address = format!("10.50.{node}.{host}");
        texts.push(format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: p{pod}, namespace: t}}
spec: {{nodeName: n{node}, containers: [{{name: c, image: i}}]}}
status: {{phase: Running, podIP: {address}, podIPs: [{{ip: {address}}}]}}"
        ));
    }
    let kind = if wish.overlay { NetworkKind::Overlay } else { NetworkKind::L2Bridge };
    let mut plan = plan(&cluster(&texts), kind);
    let told = (0..wish.told).map(|node| (format!("n{node}"), wire::Mac([2, 0, 0, 0, wish.told, node])));
    plan.set_tunnels(&told.collect());
    plan
}

fn built(plan: &LabPlan) -> Kernel {
    let mut kernel = Kernel::default();
    kernel.apply(&Difference::all(plan));
    kernel
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_changed_lab_is_the_one_that_would_be_built_anew(wishes in proptest::collection::vec(wish(), 2..5)) {
        let mut plans = wishes.iter().map(planned);
        let mut old = plans.next().unwrap();
        let mut kernel = built(&old);
        for new in plans {
            kernel.apply(&Difference::new(&old, &new));
            prop_assert_eq!(&kernel, &built(&new));
            prop_assert!(Difference::new(&new, &new).is_empty());
            old = new;
        }
    }
}

#[test]
fn a_change_costs_what_it_changes() {
    let mut wish = Wish {
        nodes: vec![(true, false, false); 3],
        pods: vec![Some((0, 2)), Some((1, 2)), Some((2, 2)), Some((0, 3)), None, None],
        overlay: true,
        told: 0,
    };
    let before = planned(&wish);
    // One pod comes, one goes, one has another address.
    wish.pods = vec![Some((0, 2)), Some((1, 4)), None, Some((0, 3)), Some((1, 5)), None];
    insta::assert_snapshot!(Difference::new(&before, &planned(&wish)).to_string());
}
