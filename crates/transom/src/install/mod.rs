//! The manifests of the Windows proxy: what `transom install` prints.
//!
//! Pure: a [`Request`] becomes documents. The files of `deploy/` are the only source of what is in them; here they are
//! built as kustomize would ([`kustomize`]), and what was asked for is put in. It must not know how documents are
//! printed or brought to a cluster.

pub mod bundle;
pub mod configuration;
pub mod kustomize;
mod yaml;

use std::net::IpAddr;

use serde_json::{Value, json};
use thiserror::Error;

use bundle::{Bundle, DEPLOY};
use configuration::Configuration;
use kustomize::{Image, KustomizeError};

/// The namespace of the overlays.
pub const NAMESPACE: &str = "kube-system";
/// The name of the proxy's objects.
pub const NAME: &str = "transom-proxy";
/// The image in the files, which no registry has under this name.
pub const IMAGE: &str = "transom";

const CONFIG_FILE: &str = "config.conf";
const KUBECONFIG_FILE: &str = "kubeconfig.conf";
const KUBECONFIG_MAP: &str = "transom-proxy-kubeconfig";
const ENDPOINT_COMPONENT: &str = "components/control-plane-endpoint";

/// A CNI that there is an overlay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cni {
    /// Calico with VXLAN.
    CalicoVxlan,
    /// Flannel with VXLAN.
    FlannelVxlan,
    /// Flannel with routes between the nodes.
    FlannelHostGw,
}

impl Cni {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CalicoVxlan, Self::FlannelVxlan, Self::FlannelHostGw];

    /// Its name, which is its overlay's folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CalicoVxlan => "calico-vxlan",
            Self::FlannelVxlan => "flannel-vxlan",
            Self::FlannelHostGw => "flannel-host-gw",
        }
    }

    /// What the CNI must have made before the proxy can work, and what there is to give.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::CalicoVxlan => {
                "Calico's Windows node service; IPAM with strictAffinity; the network comes with the first pod of the node"
            }
            Self::FlannelVxlan => {
                "flanneld on the node, VNI 4096 and port 4789 on every node; another VNI or name: --network-name"
            }
            Self::FlannelHostGw => {
                "flanneld on the node, all nodes on one link; another name: --network-name"
            }
        }
    }

    /// Where the source VIP comes from.
    pub const fn source_vip(self) -> &'static str {
        match self {
            Self::CalicoVxlan => "of the endpoint Calico_ep",
            Self::FlannelVxlan => "from the node's range",
            Self::FlannelHostGw => "none: a bridge",
        }
    }

    /// Whether pods are on an overlay network.
    pub const fn is_overlay(self) -> bool {
        !matches!(self, Self::FlannelHostGw)
    }

    /// What its overlay says, without a change.
    pub fn configuration(self) -> Result<Configuration, InstallError> {
        let path = format!("overlays/{}/{CONFIG_FILE}", self.name());
        let text = DEPLOY.text(&path).unwrap_or_default();
        Configuration::parse(text).map_err(|why| InstallError::Configuration { path, why })
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The overlay.
    pub cni: Cni,
    /// The image with its registry and tag, instead of the one in the files.
    pub image: Option<String>,
    /// The namespace, instead of kube-system.
    pub namespace: Option<String>,
    /// HOST:PORT of the control plane, instead of what kubeadm's ConfigMap says.
    pub control_plane_endpoint: Option<String>,
    /// The HNS network, instead of the overlay's.
    pub network_name: Option<String>,
    /// One source VIP for all nodes.
    pub source_vip: Option<IpAddr>,
    /// Direct server return, instead of what the overlay says.
    pub enable_dsr: Option<bool>,
}

impl Request {
    /// An overlay as it is.
    pub const fn of(cni: Cni) -> Self {
        Self {
            cni,
            image: None,
            namespace: None,
            control_plane_endpoint: None,
            network_name: None,
            source_vip: None,
            enable_dsr: None,
        }
    }
}

/// Why there are no manifests.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InstallError {
    /// The files cannot be built.
    #[error(transparent)]
    Kustomize(#[from] KustomizeError),
    /// The configuration in an overlay is not kube-proxy's.
    #[error("{path}: {why}")]
    Configuration {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A value that cannot be put in.
    #[error("{field}: {why}")]
    Value {
        /// The flag or field.
        field: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
}

fn wrong(field: &'static str, why: impl Into<String>) -> InstallError {
    InstallError::Value { field, why: why.into() }
}

/// The documents, in the order in which a cluster should get them.
pub fn manifests(request: &Request) -> Result<Vec<Value>, InstallError> {
    from_bundle(DEPLOY, request)
}

/// What somebody who applies the documents must know.
pub fn advice(request: &Request) -> Vec<String> {
    let mut advice = Vec::new();
    if request.image.is_none() {
        advice.push(format!(
            "The image {IMAGE} is in no registry: build deploy/Dockerfile and give its name with --image"
        ));
    }
    if request.source_vip.is_some() {
        advice.push(
            "One --source-vip holds for every Windows node, and its address is in one node's range only; without it each node finds its own"
                .to_owned(),
        );
    }
    advice
}

fn from_bundle(bundle: Bundle<'_>, request: &Request) -> Result<Vec<Value>, InstallError> {
    let mut objects = kustomize::build(bundle, &format!("overlays/{}", request.cni.name()))?;
    let namespace = request.namespace.as_deref().unwrap_or(NAMESPACE);
    if !is_label(namespace) {
        let why = format!("{namespace:?} is not a namespace: small letters, digits and - only, at most 63");
        return Err(wrong("--namespace", why));
    }
    match &request.control_plane_endpoint {
        Some(endpoint) => {
            kustomize::add_component(bundle, ENDPOINT_COMPONENT, &mut objects)?;
            set_endpoint(&mut objects, endpoint)?;
        }
        None if namespace != NAMESPACE => {
            return Err(wrong(
                "--control-plane-endpoint",
                format!(
                    "must be given with --namespace {namespace}: kubeadm's ConfigMap kube-proxy, which names the control plane, is in {NAMESPACE}"
                ),
            ));
        }
        None => {}
    }
    set_configuration(&mut objects, request)?;
    kustomize::set_namespace(&mut objects, namespace).map_err(|why| wrong("--namespace", why))?;
    if let Some(image) = &request.image {
        kustomize::set_image(&mut objects, &parse_image(image)?).map_err(|why| wrong("--image", why))?;
    }
    // Accounts and settings come before what uses them.
    objects.sort_by_key(|object| object["kind"] == "DaemonSet");
    Ok(objects)
}

fn parse_image(image: &str) -> Result<Image, InstallError> {
    let (name, rest) = kustomize::split_image(image);
    if name.is_empty() || image.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(wrong(
            "--image",
            format!("{image:?} is not an image such as registry.example/transom:1.0"),
        ));
    }
    let mut new = Image { name: IMAGE.to_owned(), new_name: Some(name.to_owned()), ..Image::default() };
    match (rest.strip_prefix(':'), rest.strip_prefix('@')) {
        (Some(tag), _) if !tag.is_empty() => new.new_tag = Some(tag.to_owned()),
        (_, Some(digest)) if !digest.is_empty() => new.digest = Some(digest.to_owned()),
        _ => {
            let why =
                format!("{image:?} needs a tag or a digest, such as {name}:{}", env!("CARGO_PKG_VERSION"));
            return Err(wrong("--image", why));
        }
    }
    Ok(new)
}

/// Whether a text is a label of DNS, as names of namespaces are.
fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// HOST:PORT, where HOST is a name, an IPv4 address or an IPv6 address in brackets.
fn check_endpoint(endpoint: &str) -> Result<(), String> {
    const FORM: &str = "must be HOST:PORT, such as 192.0.2.10:6443, cp.example:6443 or [2001:db8::10]:6443";
    let (host, port) = endpoint.rsplit_once(':').ok_or(FORM)?;
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(format!("{endpoint:?}: the port must be from 1 to 65535; {FORM}"));
    }
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.split('.').all(|label| is_label(&label.to_ascii_lowercase())),
    };
    if is_host { Ok(()) } else { Err(format!("{endpoint:?}: {FORM}")) }
}

/// A file of a ConfigMap.
fn file_of<'a>(objects: &'a mut [Value], map: &str, file: &str) -> Option<&'a mut Value> {
    objects
        .iter_mut()
        .find(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == map)
        .and_then(|object| object.pointer_mut("/data")?.get_mut(file))
}

fn set_endpoint(objects: &mut [Value], endpoint: &str) -> Result<(), InstallError> {
    check_endpoint(endpoint).map_err(|why| wrong("--control-plane-endpoint", why))?;
    let bad = |why: String| InstallError::Configuration { path: KUBECONFIG_FILE.to_owned(), why };
    let file = file_of(objects, KUBECONFIG_MAP, KUBECONFIG_FILE)
        .ok_or_else(|| bad(format!("the component makes no ConfigMap {KUBECONFIG_MAP} with it")))?;
    let mut kubeconfig: Value = yaml::read(file.as_str().unwrap_or_default()).map_err(&bad)?;
    let server = kubeconfig
        .pointer_mut("/clusters/0/cluster/server")
        .ok_or_else(|| bad("there is no clusters[0].cluster.server".to_owned()))?;
    *server = format!("https://{endpoint}").into();
    *file = yaml::write(&kubeconfig).map_err(bad)?.into();
    Ok(())
}

/// Puts into kube-proxy's configuration what was asked for. Without a wish the file stays as it is, comments included.
fn set_configuration(objects: &mut [Value], request: &Request) -> Result<(), InstallError> {
    let path = format!("overlays/{}/{CONFIG_FILE}", request.cni.name());
    let bad = |why: String| InstallError::Configuration { path: path.clone(), why };
    let file = file_of(objects, NAME, CONFIG_FILE)
        .ok_or_else(|| bad(format!("the overlay makes no ConfigMap {NAME} with it")))?;
    let before = Configuration::parse(file.as_str().unwrap_or_default()).map_err(&bad)?;
    let mut after = before.clone();
    if let Some(name) = &request.network_name {
        let name = name.trim();
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(wrong("--network-name", "must not be blank"));
        }
        crate::startup::NetworkPattern::parse(name)
            .map_err(|error| wrong("--network-name", error.to_string()))?;
        name.clone_into(&mut after.winkernel.network_name);
    }
    if let Some(address) = request.source_vip {
        if !request.cni.is_overlay() {
            let why = format!("{address} has no use with {}: its network is a bridge", request.cni.name());
            return Err(wrong("--source-vip", why));
        }
        after.winkernel.source_vip = address.to_string();
    }
    if let Some(enabled) = request.enable_dsr {
        after.winkernel.enable_dsr = enabled;
    }
    if after != before {
        *file = after.to_yaml().map_err(bad)?.into();
    }
    set_env(objects, "KUBE_NETWORK", &after.winkernel.network_name)
}

/// Sets a variable that the proxy's container has.
fn set_env(objects: &mut [Value], name: &str, value: &str) -> Result<(), InstallError> {
    let variable = objects
        .iter_mut()
        .filter(|object| object["kind"] == "DaemonSet")
        .filter_map(|object| object.pointer_mut("/spec/template/spec/containers/0/env"))
        .filter_map(Value::as_array_mut)
        .flatten()
        .find(|variable| variable["name"] == name);
    match variable {
        Some(variable) => {
            *variable = json!({ "name": name, "value": value });
            Ok(())
        }
        None => Err(wrong("env", format!("the overlay's DaemonSet has no variable {name}"))),
    }
}

#[cfg(test)]
mod tests;
