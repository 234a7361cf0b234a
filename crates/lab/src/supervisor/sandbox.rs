//! Pods that are in no manifest: a network namespace here and the namespace of HNS that stands for it there, as a container
//! runtime makes both before it calls a CNI plugin. Whoever attaches an endpoint to the latter gives the pod its interface.
//!
//! It must not know what attaches endpoints.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use hcn::namespace::NamespaceType;
use hcn::query::SchemaVersion;
use hcn::{Guid, HcnExt, Kind, Namespace};
use hnsd::CallError;
use serde_json::{Value, json};

use super::windows::WindowsNode;
use super::{Lab, PodStatus};
use crate::exec::{Identity, Resolver, etc_files};
use crate::netns::Netns;
use crate::plan::Namespace as Plan;

/// A pod that waits for endpoints, or has some.
pub(super) struct Sandbox {
    /// `namespace/name`.
    pub(super) name: String,
    /// Its network namespace.
    pub(super) namespace: String,
    /// The addresses that it was given.
    pub(super) addresses: Vec<IpAddr>,
}

/// The sandboxes of one node, by their namespaces of HNS.
pub(super) type Sandboxes = BTreeMap<Guid, Sandbox>;

impl Lab {
    /// Makes a sandbox on a Windows node.
    pub(super) fn add_sandbox(&mut self, name: &str, node: &str) -> Result<Value, CallError> {
        if !is_pod_name(name) {
            return Err(CallError::invalid(format!("{name:?} is no pod: write NAMESPACE/NAME")));
        }
        let namespace = self.names.pod(name);
        let planned = self.plan.as_ref().is_some_and(|plan| plan.pods.contains_key(name));
        if planned || self.sandbox(name).is_some() {
            return Err(CallError::invalid(format!("there is a pod {name} already; choose another name")));
        }
        let Some(owner) = self.windows.get_mut(node) else {
            let known: Vec<&str> = self.windows.keys().map(String::as_str).collect();
            let why = format!("there is no Windows node {node}; the lab has {}", known.join(", "));
            return Err(CallError::invalid(why));
        };
        // Before it is made, so that it is taken away whatever happens.
        self.record.namespaces.insert(namespace.clone());
        self.record.save(&self.names).map_err(CallError::failed)?;
        prepare(&namespace).map_err(CallError::failed)?;
        let document = Namespace {
            kind: Some(NamespaceType::Host),
            schema_version: Some(SchemaVersion::V2),
            ..Namespace::default()
        };
        let made = owner.hcn().make(Guid::NIL, &document);
        let id = match made {
            Ok(id) => id,
            Err(error) => {
                self.forget_namespace(&namespace);
                return Err(CallError::failed(format!("node {node}: {error}")));
            }
        };
        let sandbox = Sandbox { name: name.to_owned(), namespace: namespace.clone(), addresses: Vec::new() };
        owner.enter_sandbox(id, sandbox);
        Ok(json!({ "netns": id, "namespace": namespace }))
    }

    /// Takes a sandbox away with its namespace of HNS; endpoints that are in it still stay, attached to nothing.
    pub(super) fn remove_sandbox(&mut self, name: &str) -> Result<Value, CallError> {
        let Some((node, id)) = self.sandbox(name) else {
            return Err(CallError::invalid(format!("there is no sandbox {name}")));
        };
        let Some(owner) = self.windows.get_mut(&node) else { return Ok(json!({})) };
        match owner.hcn().delete(Kind::Namespace, id) {
            Err(error) if !error.is_not_found() => {
                return Err(CallError::failed(format!("node {node}: {error}")));
            }
            _ => {}
        }
        owner.leave_sandbox(id);
        let namespace = self.names.pod(name);
        self.forget_namespace(&namespace);
        Ok(json!({}))
    }

    /// The node and the namespace of HNS of a sandbox.
    fn sandbox(&self, name: &str) -> Option<(String, Guid)> {
        self.windows.iter().find_map(|(node, owner)| {
            let (id, _) = owner.sandboxes.iter().find(|(_, sandbox)| sandbox.name == name)?;
            Some((node.clone(), *id))
        })
    }

    fn forget_namespace(&mut self, namespace: &str) {
        if let Err(error) = Netns::delete(namespace) {
            tracing::warn!(%error, "A sandbox's network namespace stays until the lab ends");
            return;
        }
        // There is none before an endpoint was attached.
        let _ = fs::remove_dir_all(self.names.etc(namespace));
        self.record.namespaces.remove(namespace);
        if let Err(error) = self.record.save(&self.names) {
            tracing::warn!(%error, "The lab's record names a namespace that is gone");
        }
    }

    /// The sandboxes of nodes that the lab has no more.
    pub(super) fn forget_sandboxes(&mut self, gone: &WindowsNode) {
        for sandbox in gone.sandboxes.values() {
            self.forget_namespace(&sandbox.namespace);
        }
    }

    /// What programs of a sandbox find in `/etc`, as far as its endpoints tell.
    pub(super) fn furnish_sandboxes(&mut self) {
        for node in self.windows.values_mut() {
            let told = node.sandbox_facts();
            for (id, (addresses, servers)) in told {
                let Some(sandbox) = node.sandboxes.get_mut(&id) else { continue };
                if sandbox.addresses == addresses {
                    continue;
                }
                let (namespace, name) = sandbox.name.split_once('/').unwrap_or(("default", &sandbox.name));
                let files = etc_files(
                    Identity { namespace, name, addresses: &addresses },
                    &servers,
                    Resolver::Windows,
                );
                if let Err(error) = files.write(&self.names.etc(&sandbox.namespace)) {
                    tracing::warn!(%error, sandbox = sandbox.name, "Its /etc is the machine's");
                }
                sandbox.addresses = addresses;
            }
        }
    }

    /// The sandboxes among the pods.
    pub(super) fn sandbox_status(&self) -> impl Iterator<Item = PodStatus> {
        self.windows.iter().flat_map(|(node, owner)| {
            owner.sandboxes.iter().map(|(id, sandbox)| PodStatus {
                name: sandbox.name.clone(),
                node: node.clone(),
                namespace: sandbox.namespace.clone(),
                addresses: sandbox.addresses.clone(),
                netns: Some(*id),
            })
        })
    }
}

/// `NAMESPACE/NAME`, each a label as Kubernetes has them, so that both can be part of a file's name.
fn is_pod_name(name: &str) -> bool {
    let label = |text: &str| {
        let right = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        !text.is_empty() && text.len() <= 63 && text.chars().all(right) && !text.starts_with(['-', '.'])
    };
    name.split_once('/').is_some_and(|(namespace, name)| label(namespace) && label(name))
}

/// Makes a network namespace with the settings of all the lab's.
fn prepare(namespace: &str) -> Result<(), crate::netns::NetnsError> {
    let made = Netns::create(namespace)?;
    let plan = Plan::default();
    let settings = plan.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(path, value)| (&**path, *value)).collect();
    made.sysctls(&settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for right in ["shop/web", "a/b-1", "kube-system/x.y"] {
            assert!(is_pod_name(right), "{right}");
        }
        let long = format!("a/{}", "b".repeat(64));
        for wrong in ["", "shop", "shop/", "/web", "shop/web/1", "Shop/web", "shop/..", "shop/we b", &long] {
            assert!(!is_pod_name(wrong), "{wrong}");
        }
    }
}
