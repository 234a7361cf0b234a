//! The command line as a whole: definitions, examples of lines, rules and help texts.

use std::path::PathBuf;

use proxy_config::Document;
use proxy_config::settings::NodePortAddresses;

use super::hns::{HnsAction, Kind, ListKind};
use super::inputs::{NetworkType, Profile};
use super::services::{ServiceSelector, ServicesAction};
use super::values::ManifestPath;
use super::*;
use crate::exit::Exit;
use crate::logging::{Destination, Format};

/// Splits at spaces; enough for the lines of these tests.
fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::from_args(std::iter::once("transom").chain(line.split_whitespace()))
}

fn parsed(line: &str) -> Cli {
    parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Whether this system has the command or flag of a line.
fn is_here(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    let linux = matches!(first, "lab" | "wine") || line.contains(" --lab ") || line.starts_with("hns serve");
    cfg!(target_os = "linux") || !linux
}

/// The flags of `transom proxy` with the least that it needs and `flags`.
fn proxy(flags: &str) -> ProxyCommand {
    match parsed(&format!("proxy {flags} -f a.yaml")).command {
        Command::Proxy(proxy) => proxy,
        other => panic!("not the proxy: {other:?}"),
    }
}

#[test]
fn the_definitions_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn the_forms_of_the_manual() {
    let lines = [
        "proxy --manifests a.yaml b/ --node win-1 --network l2bridge --once --profile ws2022",
        "proxy --manifests - --node win-1",
        "proxy -f a.yaml --state hns.db --faults faults.yaml --strict --max-manifest-bytes 10MiB",
        "plan -f a.yaml --node win-1 -o json",
        "plan -f a.yaml -o yaml --enable-dsr",
        "hns list loadbalancers --state hns.db",
        "hns list namespaces 0f0f0f0f-0000-4000-8000-000000000001 -d --state hns.db",
        "hns list all -d -f a.yaml --node win-1",
        "hns get network 0f0f0f0f-0000-4000-8000-000000000001 --state hns.db -o yaml",
        "hns delete endpoints 0f0f0f0f-0000-4000-8000-000000000001 --state hns.db",
        "hns list all --hns /run/hns.sock",
        "hns delete network 0f0f0f0f-0000-4000-8000-000000000001 --hns token:/run/hns.token",
        "proxy -f a.yaml --node win-1 --hns unix:/run/hns.sock",
        "proxy -f a.yaml --hns emulated --state hns.db --profile ws2019 --faults f",
        "hns list all --hns emulated --state hns.db",
        "hns conformance --hns emulated",
        "proxy -f a.yaml --windows-service-name transom --windows-priorityclass ABOVE_NORMAL_PRIORITY_CLASS",
        "plan -f a.yaml --windows-service=false --log-file t.log --log-file-max-size 0 --log-eventlog=false",
        "plan -f a.yaml --hns unix:/run/hns.sock -o json",
        "hns serve --listen token:/run/hns.token --listen unix:/run/hns.sock --profile ws2025 --state hns.db",
        "hns serve --listen /run/hns.sock -f a.yaml --node win-1 --network l2bridge",
        "lab sandbox add shop/new --node win-1 -o json --name other",
        "lab sandbox remove shop/new",
        "wine --lab lab --node win-1 -- program.exe -test.v",
        "wine --hns token:/run/hns.token --prefix p --dlls d -- program.exe",
        "lab up -f a.yaml b/ --name other --without-proxy --without-responder --enable-dsr=false",
        "hns list all --lab lab --node win-1",
        "vfp rules --lab lab --node win-1 --port pod/web-1 --format vfpctrl",
        "vfp ctrl --lab lab -- /list-vmswitch-port",
        "trace --lab lab --from pod/web-1 --to svc/api:80 -o json",
        "capture --lab lab --duration 5 -w c.pcapng",
        "capture --lab lab --send pod/web-1=svc/api:80 -w c.pcapng",
        "services list -f a.yaml -n shop",
        "services describe shop/cart:http -f a.yaml --node win-1 -o json",
        "trace -f a.yaml --from pod/web-1 --to svc/shop/api:http -o json --all --enable-dsr",
        "trace -f a.yaml --node win-1 --network l2bridge --from external:203.0.113.9 --to 192.0.2.11:30080 --proto udp",
        "capture -w - -f a.yaml --node win-1 --send pod/web-1=svc/api:80 --send node=svc/dns:53/udp --only-node",
        "vfp ports -f a.yaml --node win-1 --format json",
        "vfp rules -f a.yaml --port pod/web-1 --layer LB_DSR --group LB_DSR_IPv4_OUT --format vfpctrl",
        "vfp process-tuples -f a.yaml --port pod/web-1 6 10.0.0.1 1000 10.0.0.2 80 2 1",
        "vfp ctrl -f a.yaml --send pod/web-1=svc/api:80 -- /port pod/web-1 /list-rule",
        "completions bash",
        "-v 4 proxy -f a.yaml",
        "proxy -f a.yaml --v=4 --vmodule=plan=5,hns::*=2 --logging-format=json",
    ];
    for line in lines.into_iter().filter(|line| is_here(line)) {
        parsed(line);
    }
}

#[test]
fn wrong_lines_say_what_is_wrong_and_end_with_64() {
    let table = [
        ("services list", "--manifests <PATH>..."),
        (
            "hns list routes --state f",
            "[possible values: networks, endpoints, namespaces, loadbalancers, all]",
        ),
        ("hns get network --state f", "<ID>"),
        ("hns list all -d -o json --state f", "cannot be used with"),
        ("hns list all --hns /s --state f", "cannot be used with"),
        ("hns list all --hns /s --lab lab", "cannot be used with"),
        ("hns list all --lab Lab", "is no name for a lab"),
        ("vfp ports --lab lab -f a", "cannot be used with"),
        ("vfp ports", "--manifests <PATH>"),
        ("trace --from pod/a --to svc/b:80 --lab lab --enable-dsr", "cannot be used with '--enable-dsr"),
        ("capture --lab lab -f a -w c.pcapng", "cannot be used with"),
        ("lab fault --link cut", "<NODE>"),
        ("lab fault win-1", "--link"),
        ("lab fault win-1 --link cut --clear", "cannot be used with"),
        ("lab fault win-1 --link slow", "write good, cut, loss=5%"),
        ("lab fault win-1 --kill responder", "cannot be used with"),
        ("lab fault win-1 --clear --loss everything", "cannot be used with '--loss <WHAT>'"),
        ("hns list all --hns /s -f a", "cannot be used with"),
        ("proxy -f a --hns /s --state f", "cannot be used with '--state <FILE>'"),
        ("proxy -f a --hns /s --faults f", "cannot be used with '--faults <FILE>'"),
        ("plan -f a --hns /s --profile ws2019", "cannot be used with '--profile <BUILD>'"),
        ("proxy -f a --hns lab", "give unix:PATH or a path with a /"),
        ("proxy -f a --hns lab", "give native, emulated, or an address"),
        ("hns list all --hns emulated", "give --manifests <PATH>..."),
        ("proxy -f a --windows-priorityclass HIGH", "HIGH_PRIORITY_CLASS"),
        ("proxy -f a --windows-service-name a/b", "neither / nor"),
        ("proxy -f a --windows-service-name=", "1 to 256 characters"),
        ("proxy -f a --log-file-max-size -1", "unexpected argument"),
        ("proxy -f a --hns tcp:10.0.0.1:80", "loopback"),
        ("services list -f a --hns /s", "unexpected argument '--hns'"),
        ("proxy -f a --network vxlan", "[possible values: overlay, l2bridge]"),
        ("proxy -f a --profile ws2016", "[possible values: ws2019, ws2022, ws2025, newest]"),
        ("proxy -f a --max-manifest-bytes 1TB", "is not one of B, kB"),
        ("proxy -f a -v 11", "11 is not in 0..=10"),
        ("proxy -f a --vmodule plan", "not of the form pattern=N"),
        ("proxy -f a --log-format xml", "[possible values: text, json]"),
        ("proxy -f - -f -", "standard input (`-`) can be read only once"),
        ("proxy -f a --node a --hostname-override b", "name different nodes"),
        ("proxy -f a --kubeconfig k", "cannot be used with '--manifests <PATH>...'"),
        ("plan -f a --master m", "cannot be used with '--manifests <PATH>...'"),
        ("proxy -f a --proxy-mode ipvs", "must be kernelspace or blank"),
        ("proxy -f a --enable-dsr=maybe", "must be true or false"),
        ("proxy -f a --enable_dsr", "unexpected argument '--enable_dsr'"),
        ("proxy -f a --iptables-sync-period 30", "the number 30 has no unit"),
        ("proxy -f a --iptables-sync-period 0", "must be greater than 0"),
        (
            "proxy -f a --iptables-sync-period 1s --iptables-min-sync-period 2s",
            "must be greater than or equal to the MinSyncPeriod field",
        ),
        ("proxy -f a --iptables-min-sync-period=-1s", "must be greater than or equal to 0"),
        ("proxy -f a --nodeport-addresses 10.0.0.1", "must be a valid CIDR"),
        ("proxy -f a --nodeport-addresses primary,10.0.0.0/8", "can't use both 'primary' and CIDRs"),
        ("proxy -f a --source-vip 10.0.0.1,10.0.0.2", "only one IPv4 address"),
        ("proxy -f a --source-vip nowhere", "must be the IP address"),
        ("proxy -f a --bind-address node", "not a valid textual representation of an IP"),
        ("proxy -f a --healthz-bind-address :80", "must be a valid IP"),
        ("proxy -f a --hns-parallel-calls 0", "1..=64"),
        ("proxy -f a --hns-parallel-calls 65", "1..=64"),
        ("proxy -f a --metrics-bind-address x", "must be IP:port"),
        ("proxy -f a --metrics-port 0", "MetricsBindAddress"),
        ("proxy -f a --feature-gates WinDSR", "must be of the form Name=true"),
        ("proxy -f a --feature-gates WinDSR=false", "[WinDSR]: \"false\": the feature is locked to true"),
        ("proxy -f a --feature-gates Unheard=true", "unrecognized feature gate"),
        ("proxy -f a --detect-local-mode Mine", "unsupported value"),
        ("proxy -f a --detect-local-mode ClusterCIDR", "must be a valid CIDR block"),
        ("proxy -f a --detect-local-mode ClusterCIDR --cluster-cidr x", "\"x\": must be a valid CIDR block"),
        (
            "proxy -f a --detect-local-mode ClusterCIDR --cluster-cidr 10.0.0.0/8,11.0.0.0/8",
            "one of each family",
        ),
        ("proxy -f a --oom-score-adj -1001", "must be within the range [-1000, 1000]"),
        ("proxy -f a --iptables-masquerade-bit 32", "must be within the range [0, 31]"),
        ("proxy -f a --conntrack-udp-timeout soon", "must be a duration such as 30s"),
        ("proxy -f a --cleanup=most", "must be true, false or all"),
        ("plan -f a --init-only=true", "is refused on Windows"),
        ("services describe /cart -f a", "must be NAME, NAMESPACE/NAME"),
        ("trace -f a --to svc/api:80", "--from <FROM>"),
        ("trace -f a --from here --to svc/api:80", "write pod/NAME"),
        ("trace -f a --from node --to svc/api", "has no port"),
        ("trace -f a --from node --to svc/api:80 --proto sctp", "[possible values: tcp, udp]"),
        ("capture -f a -w x", "--send <FROM=TO>"),
        ("capture -f a -w x --send node", "write FROM=TO"),
        ("vfp rules -f a --format yaml", "[possible values: table, vfpctrl, json]"),
        ("vfp ctrl -f a", "<WORD>..."),
        ("vfp process-tuples -f a --port 1 6 10.0.0.1", "6 values required"),
        ("completions tcsh", "possible values"),
        ("frobnicate", "unrecognized subcommand"),
    ];
    for (line, complaint) in table.into_iter().filter(|(line, _)| is_here(line)) {
        let error = parse(line).expect_err(line);
        let text = error.to_string();
        assert!(text.contains(complaint), "{line}: {text}");
        assert!(error.use_stderr(), "{line} is {:?}", Exit::Usage);
    }
}

#[test]
fn what_only_windows_has_is_refused_or_told_elsewhere() {
    if cfg!(windows) {
        parsed("proxy -f a --hns native --windows-service --log-eventlog");
        parsed("hns list all");
        parsed("plan -f a --hns native");
        let error = parse("proxy -f a --once --windows-service").expect_err("a service stays").to_string();
        assert!(error.contains("a service stays"), "{error}");
        assert_eq!(parsed("proxy -f a --windows-service").notices(), []);
        assert_eq!(parsed("plan -f a --windows-service").notices()[0].flag, "--windows-service");
        let native = proxy("--windows-service");
        assert!(native.windows.as_service());
        let cli = parsed("proxy -f a --windows-service");
        assert!(cli.log_settings().event_log);
        return;
    }
    for (line, complaint) in [
        ("proxy -f a --hns native", "only a Windows machine has an HNS of its own"),
        ("hns list all", "give --manifests <PATH>..."),
        ("plan -f a --log-eventlog", "only Windows has an event log"),
    ] {
        let text = parse(line).expect_err(line).to_string();
        assert!(text.contains(complaint), "{line}: {text}");
    }
    let cli = parsed("proxy -f a --windows-service");
    assert!(!cli.is_service() && !cli.log_settings().event_log);
}

#[test]
fn where_lines_go() {
    for (flags, wanted) in [
        ("", Destination::StandardError),
        ("--log-file a.log", Destination::File { path: "a.log".into(), most: Some(1800 << 20) }),
        (
            "--log-file a.log --log-file-max-size 5",
            Destination::File { path: "a.log".into(), most: Some(5 << 20) },
        ),
        ("--log-file a.log --log-file-max-size 0", Destination::File { path: "a.log".into(), most: None }),
    ] {
        let settings = parsed(&format!("plan -f a {flags}")).log_settings();
        assert_eq!((settings.destination, settings.event_log), (wanted, false), "{flags}");
    }
}

#[test]
fn all_that_does_not_fit_together_is_said_at_once() {
    let line =
        "proxy -f a --iptables-sync-period 0 --feature-gates WinDSR=false --node a --hostname-override b";
    let text = parse(line).expect_err("three rules are broken").to_string();
    for part in ["different nodes", "greater than 0", "locked to true"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for line in ["--help", "--version", "proxy -h", "proxy --version", "hns list --help"] {
        assert!(!parse(line).expect_err("nothing is run").use_stderr(), "{line}");
    }
}

#[test]
fn defaults_are_those_of_kube_proxy() {
    let proxy = proxy("");
    let settings = proxy.flags.settings().expect("no file is named");
    assert_eq!(settings.network_name, None);
    assert_eq!(settings.source_vips.iter().count(), 0);
    assert_eq!(proxy.flags.engine.source_vip_endpoint, ["Calico_ep", "source_vip"]);
    assert_eq!(proxy.flags.engine.hns_parallel_calls, 1);
    assert_eq!(settings.node_port_addresses, NodePortAddresses::All);
    assert_eq!(settings.healthz.map(|a| a.to_string()).as_deref(), Some("0.0.0.0:10256"));
    assert_eq!(proxy.node.network, NetworkType::Overlay);
    assert_eq!(proxy.node.profile, None);
    assert_eq!(proxy.flags.hostname_override(), None);
    assert_eq!(settings.hostname_override, None);
    assert_eq!(proxy.input.common.max_manifest_bytes, 90 << 20);
    assert!(!proxy.once && !proxy.input.common.strict);
}

/// The rules for single flags are held by the tables of `proxy-config`.
#[test]
fn flags_that_start_scripts_leave_blank_are_as_if_absent() {
    let flags = proxy("--source-vip= --network-name= --healthz-bind-address= --root-hnsendpoint-name= --proxy-mode= --config= --metrics-bind-address= --hostname-override= --kubeconfig= --master= --write-config-to=").flags;
    let settings = flags.settings().expect("no file is named");
    let nothing = proxy("").flags;
    assert_eq!(Some(settings), nothing.settings());
}

#[test]
fn values_reach_their_fields() {
    let proxy = proxy(
        "--manifests x - --hostname-override WIN-2 --network l2bridge --profile ws2025 --state s --faults f \
         --network-name vxlan0 --source-vip 10.1.0.9,fd00::9 --source-vip-endpoint mine,theirs --enable-dsr=t \
         --forward-healthcheck-vip --root-hnsendpoint-name gw --nodeport-addresses 10.0.0.0/8,fd00::/8 \
         --bind-address 10.0.0.5 --iptables-sync-period 1m30s --iptables-min-sync-period 0 -v 3 --windows-service \
         --feature-gates AllowServiceExternalIPs=true,AllowServiceExternalIPs=false --vmodule a=1,b::*=2 \
         --hns-parallel-calls 4 --hns-verify-writes --hns-reapply-after-restart",
    );
    assert_eq!(
        proxy.input.manifests,
        [ManifestPath::Path("x".into()), ManifestPath::StandardInput, ManifestPath::Path("a.yaml".into())]
    );
    assert_eq!(proxy.node.network, NetworkType::L2bridge);
    assert_eq!(proxy.node.profile, Some(Profile::Ws2025));
    assert_eq!(proxy.node.state, Some(PathBuf::from("s")));
    assert_eq!(proxy.node.faults, Some(PathBuf::from("f")));
    assert_eq!(proxy.flags.engine.source_vip_endpoint, ["mine", "theirs"]);
    assert_eq!(proxy.flags.engine.hns_parallel_calls, 4);
    let settings = proxy.flags.settings().expect("no file is named");
    assert_eq!(settings.hostname_override.as_deref(), Some("win-2"));
    assert_eq!(settings.network_name.as_deref(), Some("vxlan0"));
    let vips: Vec<String> = settings.source_vips.iter().map(|ip| ip.to_string()).collect();
    assert_eq!(vips, ["10.1.0.9", "fd00::9"]);
    assert!(settings.enable_dsr && settings.forward_health_check_vip && settings.windows_service);
    assert_eq!(settings.root_endpoint_name, "gw");
    assert!(
        matches!(&settings.node_port_addresses, NodePortAddresses::Within(networks) if networks.len() == 2)
    );
    assert_eq!(settings.node_ip.map(|ip| ip.to_string()).as_deref(), Some("10.0.0.5"));
    assert_eq!(settings.sync_period.as_secs(), 90);
    assert!(settings.min_sync_period.is_zero());
    assert!(!settings.gates.allow_service_external_ips(), "the last one counts");
    assert_eq!(settings.logging.verbosity, 3);
    assert_eq!(settings.logging.vmodule, [("a".to_owned(), 1), ("b::*".to_owned(), 2)]);
}

#[test]
fn flags_without_effect_are_accepted_and_told() {
    let line = "proxy -f a --cleanup=false --config= \
                --kube-api-qps 5.5 --kube-api-burst 10 --oom-score-adj -998 --profiling=false --conntrack-min 0 \
                --metrics-bind-address 127.0.0.1 --metrics-port 10249 --ipvs-sync-period 30s --masquerade-all \
                --detect-local-mode NodeCIDR --cluster-cidr 10.0.0.0/8 --config-sync-period 15m \
                --feature-gates WinOverlay=true,AllAlpha=false,AllowServiceExternalIPs=true \
                --log-flush-frequency 5s --proxy-port-range 1-2";
    let notices = parsed(line).notices();
    let flags: Vec<&str> = notices.iter().map(|notice| notice.flag.as_str()).collect();
    assert_eq!(
        flags,
        [
            "--log-flush-frequency",
            "--kube-api-qps",
            "--kube-api-burst",
            "--config-sync-period",
            "--metrics-bind-address",
            "--metrics-port",
            "--profiling",
            "--detect-local-mode",
            "--cluster-cidr",
            "--oom-score-adj",
            "--masquerade-all",
            "--conntrack-min",
            "--ipvs-sync-period",
            "--proxy-port-range",
        ]
    );
    assert!(notices.iter().all(|notice| !notice.reason.is_empty()));
    let cli = parsed(line);
    let warnings = cli.kube_proxy().expect("it is the proxy").warnings();
    assert!(matches!(warnings, [only] if only.contains("WinOverlay: is locked to true")), "{warnings:?}");
    let followed =
        parsed("proxy --kubeconfig k --kube-api-qps 5 --metrics-port 10249 --profiling --oom-score-adj 0");
    assert!(
        matches!(&followed.notices()[..], [qps, oom] if qps.flag == "--kube-api-qps" && oom.flag == "--oom-score-adj"),
        "{:?}",
        followed.notices()
    );
    let nothing = parsed("plan -f a");
    assert_eq!(nothing.notices(), []);
    assert_eq!(nothing.kube_proxy().expect("it has them").warnings(), [""; 0]);
}

#[test]
fn a_configuration_file_leaves_the_settings_open() {
    let cli = parsed("proxy --config c --v 5");
    let flags = cli.kube_proxy().expect("it is the proxy");
    assert_eq!(flags.config().as_deref(), Some("c"));
    assert!(flags.settings().is_none(), "the file is not read by the command line");
}

#[test]
fn logging_is_the_flags_then_the_files() {
    let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                logging: {verbosity: 4, format: json, vmodule: [{filePattern: a, verbosity: 200}]}\n";
    let file = Document::parse(text).expect("it is a configuration");
    for (flags, verbosity, format, modules) in [
        ("", 4, Format::Json, "a=10"),
        ("-v 2", 2, Format::Json, "a=10"),
        ("--logging-format text --vmodule b=1", 4, Format::Text, "b=1"),
    ] {
        let mut cli = parsed(&format!("proxy --config c {flags}"));
        let args = cli.kube_proxy_mut().expect("it is the proxy");
        args.resolve(Some(&file), "win-1").expect(flags);
        let settings = cli.log_settings();
        let told: Vec<String> = settings.verbosity.modules.iter().map(ToString::to_string).collect();
        assert_eq!((settings.verbosity.everywhere, settings.format), (verbosity, format), "{flags}");
        assert_eq!(told, [modules], "{flags}");
    }
}

#[test]
fn kinds_of_hns_objects_in_one_and_many() {
    for (text, kind) in [
        ("network", Kind::Network),
        ("networks", Kind::Network),
        ("endpoint", Kind::Endpoint),
        ("endpoints", Kind::Endpoint),
        ("namespaces", Kind::Namespace),
        ("loadbalancer", Kind::LoadBalancer),
        ("loadbalancers", Kind::LoadBalancer),
        ("lb", Kind::LoadBalancer),
    ] {
        let Command::Hns(hns) = parsed(&format!("hns delete {text} x --state s")).command else {
            panic!("not hns");
        };
        assert!(matches!(hns.action, HnsAction::Delete(delete) if delete.kind == kind), "{text}");
    }
    let Command::Hns(hns) = parsed("hns list lb --state s").command else {
        panic!("not hns");
    };
    assert!(
        matches!(hns.action, HnsAction::List(list) if list.kind == ListKind::LoadBalancers && !list.details)
    );
}

#[test]
fn services_that_a_person_means() {
    let selector = |text: &str| text.parse::<ServiceSelector>().expect("valid");
    let table = [
        ("cart", ("shop", "cart", "http"), true),
        ("cart", ("shop", "carts", "http"), false),
        ("shop/cart", ("shop", "cart", ""), true),
        ("shop/cart", ("other", "cart", ""), false),
        ("shop/cart:http", ("shop", "cart", "http"), true),
        ("shop/cart:http", ("shop", "cart", "grpc"), false),
        ("cart:", ("shop", "cart", ""), true),
    ];
    for (text, (namespace, name, port), selects) in table {
        assert_eq!(selector(text).selects(namespace, name, port), selects, "{text}");
    }
    let Command::Services(services) = parsed("services describe a b -f x").command else {
        panic!("not services");
    };
    assert!(matches!(services.action, ServicesAction::Describe(describe) if describe.services.len() == 2));
}

#[test]
fn logging_flags_in_both_places() {
    for line in ["-v 3 --log-format json plan -f a", "plan -f a -v=3 --logging-format=json"] {
        let settings = parsed(line).log_settings();
        assert_eq!((settings.verbosity.everywhere, settings.format), (3, Format::Json), "{line}");
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let Command::Completions(wanted) = parsed(&format!("completions {shell}")).command else {
            panic!("not completions");
        };
        let mut script = Vec::new();
        completions::write(&wanted, &mut script).expect("memory takes everything");
        let script = String::from_utf8(script).expect("scripts are text");
        for name in [
            "proxy",
            "plan",
            "hns",
            "services",
            "trace",
            "capture",
            "vfp",
            "process-tuples",
            "max-manifest-bytes",
        ] {
            assert!(script.contains(name), "{shell} lacks {name}");
        }
    }
}

/// The long help of the program and of the proxy and the short help of every command, at a fixed width so that
/// the terminal does not matter.
// Elsewhere some commands are missing; the texts of the others are the same.
#[cfg(target_os = "linux")]
#[test]
fn help_texts() {
    fn write(command: &mut clap::Command, path: &str, out: &mut String) {
        let path = format!("{path} {}", command.get_name());
        let help = match path.trim() {
            "transom" | "transom proxy" => command.render_long_help(),
            _ => command.render_help(),
        };
        for line in [&format!("==== {} ====", path.trim()), ""].into_iter().chain(help.to_string().lines()) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        for inner in command.get_subcommands_mut() {
            write(inner, &path, out);
        }
    }
    let mut command = Cli::command().term_width(110);
    command.build();
    let mut out = String::new();
    write(&mut command, "", &mut out);
    insta::assert_snapshot!("help", out);
}
