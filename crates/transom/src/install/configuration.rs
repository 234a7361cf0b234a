//! The parts of kube-proxy's configuration (`KubeProxyConfiguration`, v1alpha1) that the manifests say, as types: a
//! field that is not kube-proxy's, or of another type, is an error.

use serde::{Deserialize, Serialize};

use super::yaml;

/// kube-proxy's configuration, as far as `deploy/` uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Configuration {
    /// `kubeproxy.config.k8s.io/v1alpha1`.
    pub api_version: String,
    /// `KubeProxyConfiguration`.
    pub kind: String,
    /// `kernelspace`.
    pub mode: String,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// Where health is served.
    pub healthz_bind_address: String,
    /// What concerns Windows only.
    pub winkernel: Winkernel,
}

/// `clientConnection`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConnection {
    /// The path of a kubeconfig.
    pub kubeconfig: String,
}

/// `winkernel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Winkernel {
    /// The HNS network.
    pub network_name: String,
    /// The source VIP; blank: found or made on each node.
    pub source_vip: String,
    /// Direct server return on cluster IPs.
    #[serde(rename = "enableDSR")]
    pub enable_dsr: bool,
    /// The host's gateway endpoint.
    pub root_hns_endpoint_name: String,
    /// A health check for each ingress address.
    pub forward_health_check_vip: bool,
}

impl Configuration {
    /// Reads a configuration; the sentence of an error names the field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let configuration: Self = yaml::read(text)?;
        let fixed = [
            ("apiVersion", &*configuration.api_version, "kubeproxy.config.k8s.io/v1alpha1"),
            ("kind", &*configuration.kind, "KubeProxyConfiguration"),
            ("mode", &*configuration.mode, "kernelspace"),
        ];
        for (field, found, right) in fixed {
            if found != right {
                return Err(format!("{field}: {found:?} must be {right:?}"));
            }
        }
        Ok(configuration)
    }

    /// Writes it in kube-proxy's form.
    pub fn to_yaml(&self) -> Result<String, String> {
        yaml::write(self)
    }
}
