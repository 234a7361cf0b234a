//! `transom install`: the manifests of the Windows proxy.

use std::net::IpAddr;

use clap::{ArgAction, Args, ValueEnum};

use super::values::go_bool;
use crate::install::{Cni, Request};

/// `transom install`.
#[derive(Debug, Args)]
pub struct InstallCommand {
    /// The CNI of the cluster's Windows nodes
    #[arg(long, value_name = "CNI", value_enum, required_unless_present = "list")]
    pub cni: Option<CniName>,

    /// Print the manifests and do nothing else
    #[arg(long, conflicts_with = "list")]
    pub dry_run: bool,

    /// List the CNIs with what each needs
    #[arg(long)]
    pub list: bool,

    /// The image with its registry and a tag or digest
    #[arg(long, value_name = "IMAGE", conflicts_with = "list")]
    pub image: Option<String>,

    /// The namespace [default: kube-system]
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    pub namespace: Option<String>,

    /// The control plane's own address, which works before any Service does [default: what kubeadm's ConfigMap
    /// kube-proxy says]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "list")]
    pub control_plane_endpoint: Option<String>,

    /// The HNS network, by its name or by a regular expression that fits the whole name [default: the CNI's]
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    pub network_name: Option<String>,

    /// One source VIP for all nodes, overlays only [default: each node finds its own]
    #[arg(long, value_name = "IP", conflicts_with = "list")]
    pub source_vip: Option<IpAddr>,

    /// Direct server return: answers of remote pods do not pass the node again [default: the CNI's]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = go_bool, action = ArgAction::Set, conflicts_with = "list")]
    pub enable_dsr: Option<bool>,

    /// The form of what is printed
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t, help_heading = "Output")]
    pub output: ManifestForm,
}

/// A form of manifests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ManifestForm {
    /// YAML documents
    #[default]
    Yaml,
    /// One JSON document: a List
    Json,
}

/// A CNI by its overlay's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CniName {
    /// Calico with VXLAN
    CalicoVxlan,
    /// Flannel with VXLAN
    FlannelVxlan,
    /// Flannel with routes between the nodes
    FlannelHostGw,
}

impl From<CniName> for Cni {
    fn from(name: CniName) -> Self {
        match name {
            CniName::CalicoVxlan => Self::CalicoVxlan,
            CniName::FlannelVxlan => Self::FlannelVxlan,
            CniName::FlannelHostGw => Self::FlannelHostGw,
        }
    }
}

impl InstallCommand {
    /// What is asked for, when manifests are.
    pub fn request(&self) -> Option<Request> {
        Some(Request {
            cni: self.cni?.into(),
            image: self.image.clone(),
            namespace: self.namespace.clone(),
            control_plane_endpoint: self.control_plane_endpoint.clone(),
            network_name: self.network_name.clone(),
            source_vip: self.source_vip,
            enable_dsr: self.enable_dsr,
        })
    }
}
