//! Manifests as text, one object after the other.

use std::fmt::Write as _;

/// Manifests that grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifests(String);

/// A pod's port.
pub(crate) const PORT: u16 = 8080;

/// What an EndpointSlice says of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It takes connections.
    Ready,
    /// It ends and takes connections as long as nobody else does.
    Draining,
    /// It ends and takes no connections.
    Ending,
    /// It is not there yet.
    Starting,
}

impl Manifests {
    /// Adds an object.
    #[must_use]
    pub(crate) fn object(mut self, yaml: &str) -> Self {
        self.0.push_str(yaml.trim_matches('\n'));
        self.0.push_str("\n---\n");
        self
    }

    fn node(self, name: &str, labels: &str, address: &str, pods: &str) -> Self {
        self.object(&format!(
            "apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{{labels}}}}}
spec: {{podCIDR: {pods}}}
status: {{addresses: [{{type: InternalIP, address: {address}}}]}}"
        ))
    }

    /// Adds a Linux node.
    #[must_use]
    pub(crate) fn linux(self, name: &str, address: &str, pods: &str) -> Self {
        self.node(name, "kubernetes.io/os: linux", address, pods)
    }

    /// Adds a Windows node.
    #[must_use]
    pub(crate) fn windows(self, name: &str, address: &str, pods: &str) -> Self {
        let labels = "kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348";
        self.node(name, labels, address, pods)
    }

    /// Adds a pod of the namespace `shop` that answers TCP and UDP at [`PORT`].
    #[must_use]
    pub(crate) fn pod(self, name: &str, node: &str, address: &str) -> Self {
        self.object(&format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop}}
spec:
  nodeName: {node}
  containers:
    - {{name: app, image: app, ports: [{{containerPort: {PORT}}}, {{containerPort: {PORT}, protocol: UDP}}]}}
status:
  phase: Running
  podIP: {address}
  podIPs: [{{ip: {address}}}]
  conditions: [{{type: Ready, status: \"True\"}}]"
        ))
    }

    /// Adds a Service of the namespace `shop` with port 80 over TCP and UDP; `spec`: more of its spec.
    #[must_use]
    pub(crate) fn service(self, name: &str, cluster_ip: &str, spec: &str) -> Self {
        self.object(&format!(
            "apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec:
  clusterIP: {cluster_ip}
  {spec}"
        ))
    }

    /// Adds the EndpointSlice of a Service: pod address, node, condition.
    #[must_use]
    pub(crate) fn slice(self, service: &str, ports: &str, endpoints: &[(&str, &str, Condition)]) -> Self {
        let mut list = String::new();
        for (address, node, condition) in endpoints {
            let (ready, serving, terminating) = match condition {
                Condition::Ready => (true, true, false),
                Condition::Draining => (false, true, true),
                Condition::Ending => (false, false, true),
                Condition::Starting => (false, false, false),
            };
            write!(
                list,
                "\n  - {{addresses: [{address}], nodeName: {node}, conditions: {{ready: {ready}, serving: {serving}, terminating: {terminating}}}}}"
            )
            .expect("text grows");
        }
        if endpoints.is_empty() {
            list.push_str(" []");
        }
        self.object(&format!(
            "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {service}-1, namespace: shop, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: IPv4
ports: [{ports}]
endpoints:{list}"
        ))
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}
