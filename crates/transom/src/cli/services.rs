//! `transom services`: what the node makes of the cluster's Services.

use std::str::FromStr;

use clap::{Args, Subcommand};

use super::OutputArgs;
use super::inputs::{InputArgs, NodeArgs};

/// `transom services`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct ServicesCommand {
    /// What to show.
    #[command(subcommand)]
    pub action: ServicesAction,
}

/// What can be shown of Services.
#[derive(Debug, Subcommand)]
pub enum ServicesAction {
    /// One line for each service port
    List(ServicesList),
    /// Everything known of service ports: frontends, backends, those left out and why, conditions
    Describe(ServicesDescribe),
}

/// `transom services list`.
#[derive(Debug, Args)]
pub struct ServicesList {
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub input: InputArgs,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `transom services describe`.
#[derive(Debug, Args)]
pub struct ServicesDescribe {
    /// The Services to show, as NAME, NAMESPACE/NAME or NAMESPACE/NAME:PORT [default: all]
    #[arg(value_name = "SERVICE")]
    pub services: Vec<ServiceSelector>,
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub input: InputArgs,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Which Services a person means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSelector {
    /// The namespace, if one was named.
    pub namespace: Option<String>,
    /// The Service's name.
    pub name: String,
    /// The port's name, if one was named.
    pub port: Option<String>,
}

impl ServiceSelector {
    /// Whether a service port is meant.
    pub fn selects(&self, namespace: &str, name: &str, port: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && self.name == name
            && self.port.as_deref().is_none_or(|wanted| wanted == port)
    }
}

impl FromStr for ServiceSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, rest) = match text.split_once('/') {
            Some((namespace, rest)) => (Some(namespace), rest),
            None => (None, text),
        };
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (rest, None),
        };
        if name.is_empty() || namespace == Some("") || name.contains('/') {
            return Err("must be NAME, NAMESPACE/NAME or NAMESPACE/NAME:PORT".to_owned());
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            port: port.map(str::to_owned),
        })
    }
}
