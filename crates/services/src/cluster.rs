//! The store of objects: what is known of a cluster, seen from one node. Cost follows the change.
//!
//! Objects come in as changes, in any order; a Service's view can be asked for at any time and depends only on the
//! objects that are present, never on the order in which they came. The store compares records, so an update that
//! touches nothing used (an annotation, a resource version, the order of endpoints) marks nothing as dirty.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::derive::{self, Derivation};
use crate::model::{Perspective, ServiceKey, ServiceView};
use crate::naming::{self, Naming};
use crate::record::{
    Change, NodeFacts, Object, ObjectKind, ObjectRef, PodFacts, ServiceRecord, SkipReason, SliceRecord,
};
use crate::view;

/// Namespace and name.
type NameKey = (Arc<str>, Arc<str>);

/// What is known of one Service: itself, and the slices that name it. Either may come first.
#[derive(Debug, Default)]
struct ServiceState {
    record: Option<Arc<ServiceRecord>>,
    /// By name; orders the conditions of a view.
    slices: BTreeMap<Arc<str>, Arc<SliceRecord>>,
}

impl ServiceState {
    fn is_empty(&self) -> bool {
        self.record.is_none() && self.slices.is_empty()
    }

    fn served(&self) -> Option<&Arc<ServiceRecord>> {
        self.record.as_ref().filter(|r| r.skip.is_none())
    }

    /// The Service whose slices must be derived, if this is one.
    fn derivable(&self) -> Option<&Arc<ServiceRecord>> {
        self.record.as_ref().filter(|r| self.slices.is_empty() && Derivation::can(r))
    }
}

/// The objects of a cluster, seen from one node.
#[derive(Debug)]
pub struct Cluster {
    perspective: Perspective,
    services: BTreeMap<ServiceKey, ServiceState>,
    slices: FxHashMap<NameKey, Arc<SliceRecord>>,
    nodes: BTreeMap<Arc<str>, Arc<NodeFacts>>,
    /// Ordered, so that the Pods of one namespace are a range.
    pods: BTreeMap<NameKey, Arc<PodFacts>>,
    pods_by_node: FxHashMap<Arc<str>, BTreeSet<NameKey>>,
    derivation: Derivation,
    dirty: FxHashSet<ServiceKey>,
    nodes_changed: bool,
}

impl Cluster {
    /// An empty store.
    pub fn new(perspective: Perspective) -> Self {
        Self {
            perspective,
            services: BTreeMap::new(),
            slices: FxHashMap::default(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            pods_by_node: FxHashMap::default(),
            derivation: Derivation::default(),
            dirty: FxHashSet::default(),
            nodes_changed: false,
        }
    }

    /// Whose eyes the cluster is seen with.
    pub fn perspective(&self) -> &Perspective {
        &self.perspective
    }

    /// Changes the perspective. Tells whether it is another one; if so, every Service is dirty.
    pub fn set_perspective(&mut self, perspective: Perspective) -> bool {
        if self.perspective == perspective {
            return false;
        }
        self.perspective = perspective;
        let served = self.services.iter().filter(|(_, state)| state.served().is_some());
        self.dirty.extend(served.map(|(key, _)| key.clone()));
        true
    }

    /// Takes in a change of one object.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Set(Object::Service(service)) => self.set_service(service),
            Change::Set(Object::EndpointSlice(slice)) => {
                let key = (slice.namespace.clone(), slice.name.clone());
                self.replace_slice(&key, Some(slice));
            }
            Change::Set(Object::Node(node)) => {
                let name = node.name.clone();
                self.replace_node(&name, Some(node));
            }
            Change::Set(Object::Pod(pod)) => {
                let key = (pod.namespace.clone(), pod.name.clone());
                self.replace_pod(&key, Some(pod));
            }
            Change::Delete(reference) => self.delete(reference),
        }
    }

    fn delete(&mut self, reference: ObjectRef) {
        let ObjectRef { kind, namespace, name } = reference;
        match kind {
            ObjectKind::Service => self.delete_service(&ServiceKey { namespace, name }),
            ObjectKind::EndpointSlice => self.replace_slice(&(namespace, name), None),
            ObjectKind::Node => self.replace_node(&name, None),
            ObjectKind::Pod => self.replace_pod(&(namespace, name), None),
        }
    }

    /// The Services whose view may have changed since the last call, sorted, each once. A Service is listed also
    /// when it is gone or no longer served.
    pub fn take_dirty(&mut self) -> Vec<ServiceKey> {
        let mut keys: Vec<ServiceKey> = self.dirty.drain().collect();
        keys.sort_unstable();
        keys
    }

    /// What this node should do for a Service. `None`: it is gone, or it is not served (see
    /// [`skip_reason`](Self::skip_reason)).
    pub fn view(&self, key: &ServiceKey) -> Option<ServiceView> {
        let state = self.services.get(key)?;
        let service = state.served()?;
        if state.derivable().is_some() {
            let pods = self.derivation.members(key).filter_map(|name| {
                let pod = self.pods.get(&(key.namespace.clone(), name.clone()))?;
                Some(&**pod)
            });
            let derived = derive::slices(service, pods, |node| self.node(node)?.zone.clone());
            let slices: Vec<&SliceRecord> = derived.iter().collect();
            Some(view::build(service, &slices, &self.perspective))
        } else {
            let slices: Vec<&SliceRecord> = state.slices.values().map(|s| &**s).collect();
            Some(view::build(service, &slices, &self.perspective))
        }
    }

    /// The Services that are served, sorted.
    pub fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.iter().filter(|(_, state)| state.served().is_some()).map(|(key, _)| key)
    }

    /// The Services that are known but not served, and why, sorted.
    pub fn skipped(&self) -> impl Iterator<Item = (&ServiceKey, &SkipReason)> {
        self.services.iter().filter_map(|(key, state)| Some((key, state.record.as_ref()?.skip.as_ref()?)))
    }

    /// Why a known Service is not served.
    pub fn skip_reason(&self, key: &ServiceKey) -> Option<&SkipReason> {
        self.services.get(key)?.record.as_ref()?.skip.as_ref()
    }

    /// What the names of Services mean that have no cluster IP, sorted by Service. Reads all slices: for whoever makes a
    /// zone of names, not for a proxy.
    pub fn named(&self) -> impl Iterator<Item = (ServiceKey, Naming)> {
        let mut labelled: BTreeMap<ServiceKey, Vec<&SliceRecord>> = BTreeMap::new();
        for slice in self.slices.values() {
            if let Some(service) = &slice.headless {
                let key = ServiceKey { namespace: slice.namespace.clone(), name: service.clone() };
                labelled.entry(key).or_default().push(slice);
            }
        }
        self.services.iter().filter_map(move |(key, state)| {
            let record = state.record.as_deref()?;
            let naming = match record.skip.as_ref()? {
                SkipReason::ExternalName => Naming::External(record.external_name.clone()?),
                SkipReason::Headless => {
                    let labelled = labelled.get(key).into_iter().flatten().copied();
                    let mut slices = state.slices.values().map(|slice| &**slice).chain(labelled).peekable();
                    Naming::Headless(if slices.peek().is_some() || record.selector.is_empty() {
                        naming::listed(slices)
                    } else {
                        naming::derived(record, self.pods_in(&key.namespace))
                    })
                }
                SkipReason::NoClusterIp | SkipReason::OtherProxy(_) => return None,
            };
            Some((key.clone(), naming))
        })
    }

    /// The Pods of a namespace, sorted by name.
    fn pods_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &PodFacts> {
        let first = (namespace.clone(), Arc::from(""));
        let pods = self.pods.range(first..).take_while(move |((other, _), _)| other == namespace);
        pods.map(|(_, pod)| &**pod)
    }

    /// Whether the endpoints of a Service are derived from Pods, because no slice is known for it.
    pub fn is_derived(&self, key: &ServiceKey) -> bool {
        self.services.get(key).is_some_and(|state| state.derivable().is_some())
            && self.derivation.members(key).next().is_some()
    }

    /// The nodes, sorted by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeFacts> {
        self.nodes.values().map(|node| &**node)
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name).map(|node| &**node)
    }

    /// The Pods bound to a node, sorted by namespace and name.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &PodFacts> {
        let keys = self.pods_by_node.get(node).into_iter().flatten();
        keys.filter_map(|key| self.pods.get(key)).map(|pod| &**pod)
    }

    /// Whether a node came, went or changed in what is used of it since the last call.
    pub fn take_nodes_changed(&mut self) -> bool {
        std::mem::take(&mut self.nodes_changed)
    }

    fn set_service(&mut self, service: Arc<ServiceRecord>) {
        let key = service.key.clone();
        let state = self.services.entry(key.clone()).or_default();
        if state.record.as_ref() == Some(&service) {
            return;
        }
        if let Some(old) = state.derivable() {
            self.derivation.forget(old);
        }
        let was_served = state.served().is_some();
        state.record = Some(service);
        if was_served || state.served().is_some() {
            self.dirty.insert(key.clone());
        }
        self.follow(&key);
    }

    fn delete_service(&mut self, key: &ServiceKey) {
        let Some(state) = self.services.get_mut(key) else { return };
        if let Some(old) = state.derivable() {
            self.derivation.forget(old);
        }
        if state.served().is_some() {
            self.dirty.insert(key.clone());
        }
        state.record = None;
        if state.is_empty() {
            self.services.remove(key);
        }
    }

    /// Starts to follow a Service's Pods if its slices must be derived.
    fn follow(&mut self, key: &ServiceKey) {
        let Some(service) = self.services.get(key).and_then(ServiceState::derivable) else { return };
        let first = (key.namespace.clone(), Arc::from(""));
        let pods = self.pods.range(first..).take_while(|((namespace, _), _)| *namespace == key.namespace);
        self.derivation.follow(service, pods.map(|(_, pod)| &**pod));
    }

    fn replace_slice(&mut self, key: &NameKey, new: Option<Arc<SliceRecord>>) {
        let old = self.slices.get(key);
        if old == new.as_ref() {
            return;
        }
        let owner = |slice: &Arc<SliceRecord>| slice.service();
        let before = old.and_then(owner);
        let after = new.as_ref().and_then(owner);
        match &new {
            Some(slice) => self.slices.insert(key.clone(), slice.clone()),
            None => self.slices.remove(key),
        };
        if let Some(service) = before.as_ref().filter(|b| after.as_ref() != Some(b)) {
            self.detach_slice(service, &key.1);
        }
        if let (Some(service), Some(slice)) = (after, new) {
            self.attach_slice(&service, slice);
        }
    }

    fn attach_slice(&mut self, service: &ServiceKey, slice: Arc<SliceRecord>) {
        let state = self.services.entry(service.clone()).or_default();
        if let Some(record) = state.derivable() {
            self.derivation.forget(record);
        }
        state.slices.insert(slice.name.clone(), slice);
        if state.served().is_some() {
            self.dirty.insert(service.clone());
        }
    }

    fn detach_slice(&mut self, service: &ServiceKey, slice: &str) {
        let Some(state) = self.services.get_mut(service) else { return };
        state.slices.remove(slice);
        if state.served().is_some() {
            self.dirty.insert(service.clone());
        }
        if state.is_empty() {
            self.services.remove(service);
        } else {
            self.follow(service);
        }
    }

    fn replace_node(&mut self, name: &Arc<str>, new: Option<Arc<NodeFacts>>) {
        let old = self.nodes.get(name);
        if old == new.as_ref() {
            return;
        }
        let zone = |node: Option<&Arc<NodeFacts>>| node.and_then(|n| n.zone.clone());
        let zone_changed = zone(old) != zone(new.as_ref());
        self.nodes_changed = true;
        match new {
            Some(node) => self.nodes.insert(name.clone(), node),
            None => self.nodes.remove(name),
        };
        if zone_changed {
            // Derived endpoints carry the zone of their node.
            let concerned: Vec<ServiceKey> =
                self.pods_on(name).flat_map(|pod| self.derivation.selecting(pod)).collect();
            self.dirty.extend(concerned);
        }
    }

    fn replace_pod(&mut self, key: &NameKey, new: Option<Arc<PodFacts>>) {
        let old = self.pods.get(key);
        if old == new.as_ref() {
            return;
        }
        self.dirty.extend(self.derivation.pod_changed(old.map(|p| &**p), new.as_deref()));
        let node = |pod: Option<&Arc<PodFacts>>| pod.and_then(|p| p.node.clone());
        let (before, after) = (node(old), node(new.as_ref()));
        if before != after {
            if let Some(before) = before
                && let Some(keys) = self.pods_by_node.get_mut(&before)
            {
                keys.remove(key);
                if keys.is_empty() {
                    self.pods_by_node.remove(&before);
                }
            }
            if let Some(after) = after {
                self.pods_by_node.entry(after).or_default().insert(key.clone());
            }
        }
        match new {
            Some(pod) => self.pods.insert(key.clone(), pod),
            None => self.pods.remove(key),
        };
    }
}
