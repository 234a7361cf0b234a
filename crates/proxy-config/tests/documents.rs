//! Files as they are written: two held as a whole, and any configuration comes back as it was.

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proxy_config::types::{
    ClientConnection, Conntrack, DetectLocal, FlushFrequency, Iptables, Ipvs, Logging, LoggingOptions,
    Nftables, Quantity, StreamOptions, Vmodule, Winkernel,
};
use proxy_config::{Document, Flags, GoDuration, KubeProxyConfiguration, Sources};

#[test]
fn the_defaults_as_they_are_written() {
    let mut configuration = KubeProxyConfiguration::default();
    configuration.fill_in();
    insta::assert_snapshot!("defaults", configuration.to_yaml().expect("it can be written"));
}

#[test]
fn flags_as_they_are_written() {
    let mut flags = Flags::default();
    for (name, value) in [
        ("hostname-override", "WIN-1"),
        ("network-name", "Calico.*"),
        ("source-vip", "10.244.1.2"),
        ("enable-dsr", "true"),
        ("feature-gates", "WinDSR=true,AllowServiceExternalIPs=false"),
        ("bind-address", "fd00::1"),
        ("healthz-bind-address", "::"),
        ("nodeport-addresses", "10.0.0.0/8,fd00::/8"),
        ("kubeconfig", r"C:\k\kubeconfig"),
        ("vmodule", "plan=5"),
    ] {
        flags.give(name, value).expect(name);
    }
    let sources = Sources { file: None, flags: &flags, kube_network: None, host_name: "other" };
    let settings = sources.resolve().expect("nothing is wrong").settings;
    insta::assert_snapshot!("flags", settings.configuration.to_yaml().expect("it can be written"));
}

fn duration() -> impl Strategy<Value = GoDuration> {
    prop_oneof![Just(GoDuration::ZERO), any::<i64>().prop_map(GoDuration::from_nanos)]
}

/// Texts that a writer of YAML could get wrong: numbers, truth values, signs, blanks, line ends.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        Just(String::new()),
        prop::sample::select(vec![
            "true",
            "no",
            "null",
            "~",
            "1.35",
            "0x1f",
            "1e3",
            "- a",
            "a: b",
            "#",
            "'",
            "\"",
            "[::]:10256",
            " a ",
            "*",
            "&a",
            "!",
            "%",
            "@",
            "`",
            "|",
            ">",
            "\t",
            "a\nb",
            "a\r\nb\n",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "\u{0}",
            "C:\\k\\config",
            "---",
            "...",
            "2001-01-01",
            "<<",
            "=",
            ".nan",
            "+.inf",
            "0o7",
            "1_000",
            "y",
            "on",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        "[a-zA-Z0-9.:/_*-]{0,20}",
    ]
    .boxed()
}

fn stream() -> impl Strategy<Value = StreamOptions> {
    (any::<bool>(), "[0-9]{1,4}(Ki|Mi)?")
        .prop_map(|(split_stream, size)| StreamOptions { split_stream, info_buffer_size: Quantity(size) })
}

fn logging() -> impl Strategy<Value = Logging> {
    let vmodule =
        (text(), any::<u32>()).prop_map(|(file_pattern, verbosity)| Vmodule { file_pattern, verbosity });
    (text(), duration(), any::<u32>(), vec(vmodule, 0..3), stream(), stream()).prop_map(
        |(format, flush, verbosity, vmodule, text, json)| Logging {
            format,
            flush_frequency: FlushFrequency(flush),
            verbosity,
            vmodule,
            options: LoggingOptions { text, json },
        },
    )
}

prop_compose! {
    fn client_connection()(
        kubeconfig in text(), accept_content_types in text(), content_type in text(),
        qps in any::<f32>().prop_filter("a number", |qps| qps.is_finite()), burst: i32,
    ) -> ClientConnection {
        ClientConnection { kubeconfig, accept_content_types, content_type, qps, burst }
    }
}

prop_compose! {
    fn linux()(
        bit in of(any::<i32>()), all: bool, nodeports in of(any::<bool>()), times in vec(duration(), 9),
        scheduler in text(), exclude_cidrs in vec(text(), 0..3), strict_arp: bool,
    ) -> (Iptables, Ipvs, Nftables) {
        (
            Iptables { masquerade_bit: bit, masquerade_all: all, localhost_node_ports: nodeports,
                sync_period: times[0], min_sync_period: times[1] },
            Ipvs { sync_period: times[2], min_sync_period: times[3], scheduler, exclude_cidrs, strict_arp,
                tcp_timeout: times[4], tcp_fin_timeout: times[5], udp_timeout: times[6] },
            Nftables { masquerade_bit: bit, masquerade_all: all, sync_period: times[7], min_sync_period: times[8] },
        )
    }
}

prop_compose! {
    fn conntrack()(
        max_per_core in of(any::<i32>()), min in of(any::<i32>()), established in of(duration()),
        close_wait in of(duration()), tcp_be_liberal: bool, udp_timeout in duration(), udp_stream_timeout in duration(),
    ) -> Conntrack {
        Conntrack { max_per_core, min, tcp_established_timeout: established, tcp_close_wait_timeout: close_wait,
            tcp_be_liberal, udp_timeout, udp_stream_timeout }
    }
}

prop_compose! {
    fn windows()(
        network_name in text(), source_vip in text(), enable_dsr: bool, root_hns_endpoint_name in text(),
        forward_health_check_vip: bool, bridge_interface in text(), interface_name_prefix in text(),
    ) -> (Winkernel, DetectLocal) {
        (
            Winkernel { network_name, source_vip, enable_dsr, root_hns_endpoint_name, forward_health_check_vip },
            DetectLocal { bridge_interface, interface_name_prefix },
        )
    }
}

prop_compose! {
    fn configuration()(
        gates in btree_map(text(), any::<bool>(), 0..4), client_connection in client_connection().boxed(), logging in logging().boxed(),
        texts in vec(text(), 9), hard: bool, profiling: bool, service: bool, (iptables, ipvs, nftables) in linux().boxed(),
        (winkernel, detect_local) in windows().boxed(), node_port_addresses in vec(text(), 0..4), oom in of(any::<i32>()),
        conntrack in conntrack().boxed(), config_sync_period in duration(),
    ) -> KubeProxyConfiguration {
        let mut texts = texts.into_iter();
        let mut text = || texts.next().unwrap_or_default();
        KubeProxyConfiguration {
            feature_gates: gates, client_connection, logging,
            hostname_override: text(), bind_address: text(), healthz_bind_address: text(), metrics_bind_address: text(),
            bind_address_hard_fail: hard, enable_profiling: profiling, show_hidden_metrics_for_version: text(),
            mode: text(), iptables, ipvs, nftables, winkernel, detect_local_mode: text(), detect_local,
            cluster_cidr: text(), node_port_addresses, oom_score_adj: oom, conntrack, config_sync_period,
            port_range: text(), windows_run_as_service: service,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(configuration in configuration().boxed()) {
        for written in [configuration.to_yaml().expect("it can be written"), configuration.to_json().to_string()] {
            let read = Document::parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
            prop_assert_eq!(&read.configuration, &configuration, "{}", written);
            prop_assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        }
    }

    #[test]
    fn defaults_are_filled_in_once(configuration in configuration().boxed()) {
        let mut once = configuration;
        once.fill_in();
        let mut twice = once.clone();
        twice.fill_in();
        prop_assert_eq!(once, twice);
    }

    /// What is accepted keeps its meaning when it is written and read.
    #[test]
    fn settings_survive_a_file(
        names in vec(prop::sample::select(proxy_config::flags::TABLE.iter().map(|flag| flag.name).collect::<Vec<_>>()), 0..12),
        values in vec(prop_oneof![
            Just("true".to_owned()), Just("10.0.0.1".to_owned()), Just("30s".to_owned()), Just("5".to_owned()),
            Just("fd00::/8".to_owned()), Just("primary".to_owned()), Just("json".to_owned()), Just(String::new()),
            Just("WinDSR=true".to_owned()), Just("NodeCIDR".to_owned()), text(),
        ], 12),
    ) {
        let mut flags = Flags::default();
        for (name, value) in names.iter().zip(&values) {
            // Values of another kind are refused.
            let _ = flags.give(name, value);
        }
        let sources = Sources { file: None, flags: &flags, kube_network: None, host_name: "win-1" };
        if let Ok(resolved) = sources.resolve() {
            let written = resolved.settings.configuration.to_yaml().expect("it can be written");
            let file = Document::parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
            let none = Flags::default();
            let sources = Sources { file: Some(&file), flags: &none, kube_network: None, host_name: "win-1" };
            let again = sources.resolve().unwrap_or_else(|error| panic!("{error}\n{written}")).settings;
            let mut want = resolved.settings;
            // These have no form in a file.
            want.instead = again.instead.clone();
            want.api.master = None;
            want.windows_service = false;
            let off = want.healthz.is_none();
            if off {
                want.healthz = again.healthz;
                want.configuration.healthz_bind_address.clone_from(&again.configuration.healthz_bind_address);
            }
            if want.min_sync_period.is_zero() {
                want.min_sync_period = again.min_sync_period;
                want.configuration.iptables.min_sync_period = again.configuration.iptables.min_sync_period;
            }
            // A file fills in what flags can leave blank or at nothing.
            want.configuration.fill_in();
            want.api.qps = again.api.qps;
            want.api.burst = again.api.burst;
            prop_assert_eq!(again, want, "{}", written);
        }
    }
}
