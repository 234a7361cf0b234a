//! Flags of `transom proxy status`: what a proxy that runs on this machine says of itself.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::OutputArgs;

/// What can be asked of a proxy that runs.
#[derive(Debug, Subcommand)]
pub enum ProxyAction {
    /// Show each Service's state, conditions, last error and retry time, as the proxy that runs here knows them
    ///
    /// The answer does not wait for HNS. Ends with 1 when the proxy does not answer, and with 4 when it is not serving what the
    /// Services want.
    Status(ProxyStatus),
}

/// `transom proxy status`.
#[derive(Debug, Args)]
pub struct ProxyStatus {
    /// Only this Service, or all of a namespace
    #[arg(value_name = "NAMESPACE[/NAME]")]
    pub service: Option<String>,
    /// Where the proxy serves metrics on this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10249")]
    pub metrics_bind_address: SocketAddr,
    /// Only Services with something that is not as it should be
    #[arg(long)]
    pub troubled: bool,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}
