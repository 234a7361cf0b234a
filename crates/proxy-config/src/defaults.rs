//! What fields mean that a file or the flags leave out, as kube-proxy fills them in on Windows.
//!
//! It must not know rules: a wrong value stays as it is, for [`crate::validate`] to find.

use crate::address;
use crate::duration::GoDuration;
use crate::types::{Iptables, KubeProxyConfiguration};

/// The port of the proxy's health.
pub const HEALTHZ_PORT: u16 = 10256;
/// The port of its metrics.
pub const METRICS_PORT: u16 = 10249;
/// The host's gateway endpoint, unless another one is named.
pub const ROOT_ENDPOINT: &str = "cbr0";
/// The only mode on Windows.
pub const MODE: &str = "kernelspace";

const SYNC_PERIOD: GoDuration = GoDuration::from_secs(30);
const MIN_SYNC_PERIOD: GoDuration = GoDuration::from_secs(1);
const MASQUERADE_BIT: i32 = 14;

impl KubeProxyConfiguration {
    /// Fills in what is not said. Doing it twice changes nothing more.
    pub fn fill_in(&mut self) {
        text(&mut self.bind_address, "0.0.0.0");
        // Only a file leads here with an address of IPv6: flags come on top of the defaults.
        let v6 = address::ip(&self.bind_address).is_some_and(|ip| ip.is_ipv6());
        let (healthz, metrics) = if v6 { ("::", "::1") } else { ("0.0.0.0", "127.0.0.1") };
        text(&mut self.healthz_bind_address, healthz);
        text(&mut self.metrics_bind_address, metrics);
        self.healthz_bind_address = address::with_port(&self.healthz_bind_address, HEALTHZ_PORT);
        self.metrics_bind_address = address::with_port(&self.metrics_bind_address, METRICS_PORT);
        text(&mut self.mode, MODE);
        if self.winkernel.root_hns_endpoint_name.trim().is_empty() {
            ROOT_ENDPOINT.clone_into(&mut self.winkernel.root_hns_endpoint_name);
        }
        time(&mut self.config_sync_period, GoDuration::from_secs(15 * 60));
        let Iptables { masquerade_bit, localhost_node_ports, sync_period, min_sync_period, .. } =
            &mut self.iptables;
        masquerade_bit.get_or_insert(MASQUERADE_BIT);
        localhost_node_ports.get_or_insert(true);
        time(sync_period, SYNC_PERIOD);
        time(min_sync_period, MIN_SYNC_PERIOD);
        self.fill_in_connection();
        self.fill_in_linux();
        text(&mut self.logging.format, "text");
        time(&mut self.logging.flush_frequency.0, GoDuration::from_secs(5));
    }

    fn fill_in_connection(&mut self) {
        let client = &mut self.client_connection;
        text(&mut client.content_type, "application/vnd.kubernetes.protobuf");
        if client.qps == 0.0 {
            client.qps = 5.0;
        }
        if client.burst == 0 {
            client.burst = 10;
        }
    }

    /// What has no effect here is filled in all the same, so that a file that is written says what kube-proxy's would.
    fn fill_in_linux(&mut self) {
        self.oom_score_adj.get_or_insert(-999);
        time(&mut self.ipvs.sync_period, SYNC_PERIOD);
        self.nftables.masquerade_bit.get_or_insert(MASQUERADE_BIT);
        time(&mut self.nftables.sync_period, SYNC_PERIOD);
        time(&mut self.nftables.min_sync_period, MIN_SYNC_PERIOD);
        let conntrack = &mut self.conntrack;
        conntrack.max_per_core.get_or_insert(32 * 1024);
        conntrack.min.get_or_insert(128 * 1024);
        conntrack.tcp_established_timeout.get_or_insert(GoDuration::from_secs(24 * 60 * 60));
        conntrack.tcp_close_wait_timeout.get_or_insert(GoDuration::from_secs(60 * 60));
    }
}

fn text(field: &mut String, default: &str) {
    if field.is_empty() {
        default.clone_into(field);
    }
}

fn time(field: &mut GoDuration, default: GoDuration) {
    if field.is_zero() {
        *field = default;
    }
}
