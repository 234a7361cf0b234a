//! The table of kube-proxy's flags as they stand on Windows.
//!
//! Data and one-line setters. What the fields mean is with the fields.

use std::str::FromStr;

use super::{Cleanup, Flag, Group, Set, Start, parse_bool};
use crate::duration::GoDuration;
use crate::gates;
use crate::types::{KubeProxyConfiguration as Conf, Vmodule};

/// They steer other platforms' data paths.
const NOT_WINDOWS: &str = "it concerns Linux only";
const UNUSED: &str = "kube-proxy does not use it on Windows either";
const ONLY_JSON: &str = "the API server is spoken to in JSON";
const FEW_REQUESTS: &str = "the proxy makes few requests: a list in pieces and a watch of each kind, and Events with limits of their own";
const GONE: &str = "kube-proxy does not have it any more, and would not start with it; take it out";
const CHECKED: &str = "pods of this node are told by their addresses; it is checked only";

const fn flag(
    group: Group,
    name: &'static str,
    key: &'static str,
    value_name: &'static str,
    default: &'static str,
    help: &'static str,
    set: Set,
) -> Flag {
    Flag { name, key, value_name, default, help, group, idle: "", beside_file: false, set }
}

const fn beside_file(flag: Flag) -> Flag {
    Flag { beside_file: true, ..flag }
}

const fn idle(
    name: &'static str,
    key: &'static str,
    value_name: &'static str,
    reason: &'static str,
    set: Set,
) -> Flag {
    Flag { idle: reason, ..flag(Group::Idle, name, key, value_name, "", "", set) }
}

/// A flag of a group that has an effect in kube-proxy only.
const fn ineffective(reason: &'static str, flag: Flag) -> Flag {
    Flag { idle: reason, ..flag }
}

const fn gone(name: &'static str, value_name: &'static str) -> Flag {
    beside_file(idle(name, "", value_name, GONE, Set::Start(|_, _| Ok(()))))
}

macro_rules! set {
    // A field that is read from the text by its type.
    (parse $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { c.$($field).+ = number(text)?; Ok(()) }) };
    (some $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { c.$($field).+ = Some(number(text)?); Ok(()) }) };
    (time $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { c.$($field).+ = GoDuration::from_str(text)?; Ok(()) }) };
    (some_time $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { c.$($field).+ = Some(GoDuration::from_str(text)?); Ok(()) }) };
    (bool $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { c.$($field).+ = parse_bool(text)?; Ok(()) }) };
    (some_bool $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { c.$($field).+ = Some(parse_bool(text)?); Ok(()) }) };
    (text $($field:ident).+) => { Set::Field(|c: &mut Conf, text| { text.clone_into(&mut c.$($field).+); Ok(()) }) };
    // A blank text leaves the default.
    (unless_blank $($field:ident).+) => { Set::Field(|c: &mut Conf, text| {
        if !text.trim().is_empty() { text.trim().clone_into(&mut c.$($field).+); }
        Ok(())
    }) };
    (start_text $field:ident) => { Set::Start(|s: &mut Start, text| {
        s.$field = Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(())
    }) };
    (start_bool $field:ident) => { Set::Start(|s: &mut Start, text| { s.$field = parse_bool(text)?; Ok(()) }) };
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "must be a number that the field can hold".to_owned())
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "must be a port from 0 to 65535; 0 switches off".to_owned())
}

fn list(texts: &mut Vec<String>, text: &str) {
    texts.extend(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
}

fn vmodule(text: &str) -> Result<Vec<Vmodule>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (pattern, verbosity) = part.rsplit_once('=').ok_or("must be pattern=N,…")?;
            Ok(Vmodule { file_pattern: pattern.to_owned(), verbosity: number(verbosity)? })
        })
        .collect()
}

fn cleanup(text: &str) -> Result<Cleanup, String> {
    match text {
        "all" => Ok(Cleanup::All),
        other => match parse_bool(other) {
            Ok(true) => Ok(Cleanup::Own),
            Ok(false) => Ok(Cleanup::Nothing),
            Err(_) => Err("must be true, false or all".to_owned()),
        },
    }
}

use Group::{Api, Configuration, Elsewhere, Endpoints, Windows};

/// All flags.
#[rustfmt::skip]
pub const TABLE: &[Flag] = &[
    flag(Windows, "network-name", "winkernel.networkName", "NAME", "",
        "The HNS network to work on, by its name or a regular expression [default: the variable KUBE_NETWORK, else the one that is set up for the node]",
        set!(text winkernel.network_name)),
    flag(Windows, "source-vip", "winkernel.sourceVip", "IP", "",
        "The address that traffic from load balancers to remote pods comes from, one per family, Overlay only [default: found by --source-vip-endpoint, else taken from the node's range]",
        set!(text winkernel.source_vip)),
    flag(Windows, "enable-dsr", "winkernel.enableDSR", "", "false",
        "Direct server return: answers of remote pods do not pass this node again",
        set!(bool winkernel.enable_dsr)),
    flag(Windows, "root-hnsendpoint-name", "winkernel.rootHnsEndpointName", "NAME", "cbr0",
        "The endpoint of the host's gateway, used by --forward-healthcheck-vip",
        set!(text winkernel.root_hns_endpoint_name)),
    flag(Windows, "forward-healthcheck-vip", "winkernel.forwardHealthCheckVip", "", "false",
        "Forward the health checks of a load balancer's address to this node's health port",
        set!(bool winkernel.forward_health_check_vip)),
    flag(Windows, "nodeport-addresses", "nodePortAddresses", "CIDR", "",
        "Serve node ports only on the node's addresses in these networks, or on its `primary` addresses [default: all]",
        Set::Field(|c, text| { list(&mut c.node_port_addresses, text); Ok(()) })),
    beside_file(flag(Windows, "hostname-override", "hostnameOverride", "NAME", "",
        "The node's name, if --node does not say it", set!(start_text hostname_override))),
    flag(Windows, "bind-address", "bindAddress", "IP", "0.0.0.0",
        "The node's primary address; nothing is bound to it. 0.0.0.0 and :: mean the Node's own",
        set!(unless_blank bind_address)),
    flag(Windows, "iptables-sync-period", "iptables.syncPeriod", "DURATION", "30s",
        "How often HNS is compared with what is wanted when nothing seems to have changed",
        set!(time iptables.sync_period)),
    flag(Windows, "iptables-min-sync-period", "iptables.minSyncPeriod", "DURATION", "1s",
        "The least time between two rounds of changes", set!(time iptables.min_sync_period)),
    flag(Windows, "feature-gates", "featureGates", "NAME=BOOL", "",
        "Name=true,… for kube-proxy's feature gates; AllowServiceExternalIPs is the one with an effect on Services",
        Set::Field(|c, text| { c.feature_gates.extend(gates::parse_flag(text)?); Ok(()) })),
    flag(Windows, "proxy-mode", "mode", "MODE", "kernelspace",
        "`kernelspace` or blank, which is the same on Windows", set!(text mode)),

    beside_file(flag(Configuration, "config", "", "FILE", "",
        "kube-proxy's configuration file (KubeProxyConfiguration, v1alpha1); of the flags only the node's name, logging and those that are no fields count beside it",
        set!(start_text config))),
    beside_file(flag(Configuration, "write-config-to", "", "FILE", "",
        "Write the resulting configuration there, with all defaults, and end", set!(start_text write_config_to))),
    beside_file(flag(Configuration, "cleanup", "", "BOOL|all", "false",
        "Remove the load balancers and endpoints that this proxy has made, and end; all: every load balancer of the host, as kube-proxy does at each start",
        Set::Start(|s, text| { s.cleanup = cleanup(text)?; Ok(()) }))),
    beside_file(flag(Configuration, "init-only", "", "", "false",
        "Refused: kube-proxy refuses it on Windows too", set!(start_bool init_only))),

    flag(Api, "kubeconfig", "clientConnection.kubeconfig", "FILE", "",
        "How the API server is reached [default: as the pod's account]", set!(text client_connection.kubeconfig)),
    beside_file(flag(Api, "master", "", "URL", "",
        "The API server's address, in place of the kubeconfig's", set!(start_text master))),
    ineffective(ONLY_JSON, flag(Api, "kube-api-content-type", "clientConnection.contentType", "TYPE", "application/vnd.kubernetes.protobuf",
        "The content type of requests to the API server; taken and not used", set!(unless_blank client_connection.content_type))),
    ineffective(FEW_REQUESTS, flag(Api, "kube-api-qps", "clientConnection.qps", "N", "5",
        "Requests a second to the API server; taken and not used", set!(parse client_connection.qps))),
    ineffective(FEW_REQUESTS, flag(Api, "kube-api-burst", "clientConnection.burst", "N", "10",
        "Requests at once to the API server; taken and not used", set!(parse client_connection.burst))),
    flag(Api, "config-sync-period", "configSyncPeriod", "DURATION", "15m",
        "How often everything is listed anew; more than 0", set!(time config_sync_period)),

    flag(Endpoints, "healthz-bind-address", "healthzBindAddress", "IP[:PORT]", "0.0.0.0:10256",
        "Where health is served; forwarded health checks go to its port", set!(unless_blank healthz_bind_address)),
    flag(Endpoints, "healthz-port", "healthzBindAddress", "PORT", "10256",
        "The port of --healthz-bind-address when that is a bare address; 0 switches health off",
        Set::Start(|s, text| { s.healthz_port = Some(port(text)?); Ok(()) })),
    flag(Endpoints, "metrics-bind-address", "metricsBindAddress", "IP[:PORT]", "127.0.0.1:10249",
        "Where metrics are served", set!(unless_blank metrics_bind_address)),
    flag(Endpoints, "metrics-port", "metricsBindAddress", "PORT", "10249",
        "The port of --metrics-bind-address when that is a bare address; metrics cannot be switched off",
        Set::Start(|s, text| { s.metrics_port = Some(port(text)?); Ok(()) })),
    flag(Endpoints, "bind-address-hard-fail", "bindAddressHardFail", "", "false",
        "End when health or metrics cannot be served, instead of trying again", set!(bool bind_address_hard_fail)),
    flag(Endpoints, "profiling", "enableProfiling", "", "false",
        "Serve profiles beside the metrics", set!(bool enable_profiling)),
    flag(Endpoints, "show-hidden-metrics-for-version", "showHiddenMetricsForVersion", "VERSION", "",
        "Show the metrics that the previous minor version has hidden", set!(text show_hidden_metrics_for_version)),

    beside_file(flag(Elsewhere, "windows-service", "windowsRunAsService", "", "false",
        "Run as a Windows service", set!(start_bool windows_service))),
    beside_file(flag(Elsewhere, "v", "logging.verbosity", "N", "0", "How much is logged", set!(parse logging.verbosity))),
    beside_file(flag(Elsewhere, "vmodule", "logging.vmodule", "PATTERN=N", "", "A verbosity for single modules",
        Set::Field(|c, text| { c.logging.vmodule = vmodule(text)?; Ok(()) }))),
    beside_file(flag(Elsewhere, "logging-format", "logging.format", "FORMAT", "text", "The form of log lines",
        set!(text logging.format))),

    idle("detect-local-mode", "detectLocalMode", "MODE", CHECKED, set!(text detect_local_mode)),
    idle("cluster-cidr", "clusterCIDR", "CIDR", CHECKED, set!(text cluster_cidr)),
    idle("pod-interface-name-prefix", "detectLocal.interfaceNamePrefix", "NAME", UNUSED,
        set!(text detect_local.interface_name_prefix)),
    idle("pod-bridge-interface", "detectLocal.bridgeInterface", "NAME", UNUSED, set!(text detect_local.bridge_interface)),
    idle("oom-score-adj", "oomScoreAdj", "N", NOT_WINDOWS, set!(some oom_score_adj)),
    idle("masquerade-all", "iptables.masqueradeAll", "", NOT_WINDOWS, set!(bool iptables.masquerade_all)),
    idle("iptables-masquerade-bit", "iptables.masqueradeBit", "N", NOT_WINDOWS, set!(some iptables.masquerade_bit)),
    idle("iptables-localhost-nodeports", "iptables.localhostNodePorts", "", NOT_WINDOWS,
        set!(some_bool iptables.localhost_node_ports)),
    idle("conntrack-max-per-core", "conntrack.maxPerCore", "N", NOT_WINDOWS, set!(some conntrack.max_per_core)),
    idle("conntrack-min", "conntrack.min", "N", NOT_WINDOWS, set!(some conntrack.min)),
    idle("conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", "", NOT_WINDOWS, set!(bool conntrack.tcp_be_liberal)),
    idle("conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout", "DURATION", NOT_WINDOWS,
        set!(some_time conntrack.tcp_close_wait_timeout)),
    idle("conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout", "DURATION", NOT_WINDOWS,
        set!(some_time conntrack.tcp_established_timeout)),
    idle("conntrack-udp-timeout", "conntrack.udpTimeout", "DURATION", NOT_WINDOWS, set!(time conntrack.udp_timeout)),
    idle("conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout", "DURATION", NOT_WINDOWS,
        set!(time conntrack.udp_stream_timeout)),
    idle("ipvs-exclude-cidrs", "ipvs.excludeCIDRs", "CIDR", NOT_WINDOWS,
        Set::Field(|c, text| { list(&mut c.ipvs.exclude_cidrs, text); Ok(()) })),
    idle("ipvs-min-sync-period", "ipvs.minSyncPeriod", "DURATION", NOT_WINDOWS, set!(time ipvs.min_sync_period)),
    idle("ipvs-scheduler", "ipvs.scheduler", "NAME", NOT_WINDOWS, set!(text ipvs.scheduler)),
    idle("ipvs-strict-arp", "ipvs.strictARP", "", NOT_WINDOWS, set!(bool ipvs.strict_arp)),
    idle("ipvs-sync-period", "ipvs.syncPeriod", "DURATION", NOT_WINDOWS, set!(time ipvs.sync_period)),
    idle("ipvs-tcp-timeout", "ipvs.tcpTimeout", "DURATION", NOT_WINDOWS, set!(time ipvs.tcp_timeout)),
    idle("ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", "DURATION", NOT_WINDOWS, set!(time ipvs.tcp_fin_timeout)),
    idle("ipvs-udp-timeout", "ipvs.udpTimeout", "DURATION", NOT_WINDOWS, set!(time ipvs.udp_timeout)),

    gone("alsologtostderr", ""),
    gone("cleanup-ipvs", ""),
    gone("log-dir", "DIR"),
    gone("logtostderr", ""),
    gone("proxy-port-range", "RANGE"),
    gone("stderrthreshold", "N"),
    gone("udp-timeout", "DURATION"),
];
