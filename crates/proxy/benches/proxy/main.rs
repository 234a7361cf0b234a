//! The proxy's budgets: calls and writes counted at the HCN boundary, time and memory measured.
//!
//! Prints one line per row, `bench-row|work|budget|measured|detail`, which `cargo xtask bench` puts into a table.

#![expect(clippy::print_stdout, reason = "a bench prints what it measures")]

mod null;

use std::sync::Arc;
use std::time::Duration;

use hcn::time::{Clock, SeededEntropy, SystemClock};
use hcn::{Hcn, Kind};
use hns::{Adapter, Hns, Mac, Options, Profile};
use node::{Furnisher, NetworkKind, NodeSpec, PodSpec};
use null::NullHcn;
use proxy::meter::{Metered, Meters, Watch};
use proxy::{Config, Driver, Interface, NodeInput, Proxy};
use services::source::manifests::{self, parse_bytes};
use services::{Change, Cluster, IpFamily, Object, Perspective};

const NODE: &str = "n1";

struct Rig {
    driver: Driver,
    watch: Watch,
    clock: Arc<SystemClock>,
}

/// `services` Services with `per_service` remote endpoints each, taken from a pool of `pool` addresses.
fn objects(services: usize, per_service: usize, pool: usize) -> Vec<Object> {
    let mut objects = Vec::new();
    let mut text = String::from(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {kubernetes.io/os: windows}}\nspec: {podCIDR: 10.64.0.0/16}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.11}]}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n2, labels: {kubernetes.io/os: linux}}\nspec: {podCIDR: 10.65.0.0/16}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.12}]}\n",
    );
    objects.extend(parse(&text));
    for number in 0..services {
        text = format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s{number}","namespace":"bench"}},"spec":{{"clusterIP":"10.96.{}.{}","ports":[{{"port":80}}]}}}}"#,
            number / 250,
            number % 250 + 1
        );
        objects.extend(parse(&text));
        objects.push(slice(number, per_service, pool, 0));
    }
    objects
}

/// The slice of Service `number`; its endpoints start `shift` addresses further on in the pool.
fn slice(number: usize, per_service: usize, pool: usize, shift: usize) -> Object {
    let endpoints: Vec<String> = (0..per_service)
        .map(|k| {
            let n = (number * per_service + k + shift) % pool;
            format!(
                r#"{{"addresses":["10.{}.{}.{}"],"nodeName":"n2"}}"#,
                65 + n / 62_500,
                n % 62_500 / 250,
                n % 250 + 1
            )
        })
        .collect();
    let text = format!(
        r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{{"name":"s{number}-1","namespace":"bench","labels":{{"kubernetes.io/service-name":"s{number}"}}}},"addressType":"IPv4","ports":[{{"port":8080}}],"endpoints":[{}]}}"#,
        endpoints.join(",")
    );
    parse(&text).remove(0)
}

fn parse(text: &str) -> Vec<Object> {
    let parsed = parse_bytes("bench", text.as_bytes(), &manifests::Options::default());
    assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
    parsed.objects
}

/// An emulated HNS 13.3 whose node has 15 pods of its own, as in the published measurements.
fn emulated(cluster: &Cluster) -> Hns {
    let mut options = Options::new(Profile::Ws2022);
    options.entropy = Arc::new(SeededEntropy::new(1));
    options.host.adapters = vec![Adapter {
        name: "Ethernet".to_owned(),
        mac: Mac::from_octets([0, 0x11, 0x22, 0x33, 0x44, 0x55]),
        addresses: vec!["192.0.2.11/24".parse().expect("a prefix")],
    }];
    let hns = Hns::open(options).expect("an emulated HNS opens");
    let mut spec = NodeSpec::of(cluster, NODE, NetworkKind::L2Bridge, "net", "cbr0", false)
        .expect("the node is complete");
    spec.pods = (0..15)
        .map(|n| PodSpec {
            name: format!("bench/p{n}"),
            addresses: vec![format!("10.64.1.{}", n + 1).parse().expect("an address")],
        })
        .collect();
    Furnisher::new(Arc::new(hns.actor("cni"))).furnish(&spec).expect("the node is furnished");
    hns
}

fn rig(hcn: Arc<dyn Hcn>, objects: &[Object]) -> Rig {
    let clock = Arc::new(SystemClock::default());
    let metered = Metered::new(hcn, clock.clone());
    let watch = metered.watch();
    let config = Config { network_name: "net".to_owned(), enable_dsr: true, ..Config::default() };
    let proxy = Proxy::new(
        Arc::new(metered),
        clock.clone(),
        Arc::new(SeededEntropy::new(2)),
        config,
        NodeInput::default(),
    );
    let perspective = Perspective::of_node(NODE, [IpFamily::V4]);
    let interfaces = vec![Interface {
        name: "Ethernet".to_owned(),
        mac: "00-11-22-33-44-55".to_owned(),
        addresses: vec!["192.0.2.11".parse().expect("an address")],
    }];
    let mut driver = Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces);
    for object in objects {
        driver.apply(Change::Set(object.clone()));
    }
    Rig { driver, watch, clock }
}

impl Rig {
    /// Runs and says how long it took and what was called.
    fn measure(&mut self, work: impl FnOnce(&mut Driver)) -> (Duration, Counts) {
        let before = self.watch.meters();
        let start = self.clock.now();
        work(&mut self.driver);
        let took = self.clock.now().saturating_sub(start);
        (took, Counts::between(&before, &self.watch.meters()))
    }
}

struct Counts {
    writes: u64,
    others: u64,
    lists: u64,
    in_hns: Duration,
}

impl Counts {
    fn between(before: &Meters, after: &Meters) -> Self {
        let lists = |meters: &Meters| -> u64 {
            meters
                .figures
                .iter()
                .filter(|((operation, _), _)| {
                    matches!(operation, proxy::meter::Operation::Enumerate | proxy::meter::Operation::V1)
                })
                .map(|(_, figures)| figures.calls)
                .sum()
        };
        let time =
            |meters: &Meters| -> Duration { meters.figures.values().map(|figures| figures.total).sum() };
        let writes = after.writes() - before.writes();
        Self {
            writes,
            others: after.calls() - before.calls() - writes,
            lists: lists(after) - lists(before),
            in_hns: time(after).saturating_sub(time(before)),
        }
    }
}

fn row(work: &str, budget: &str, measured: &str, detail: &str) {
    println!("bench-row|{work}|{budget}|{measured}|{detail}");
}

/// The process's resident memory, from the kernel, in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn two_thousand() {
    let objects = objects(2_000, 3, 5_000);
    let mut cluster = Cluster::new(Perspective::of_node(NODE, [IpFamily::V4]));
    for object in &objects {
        cluster.apply(Change::Set(object.clone()));
    }
    let hns = emulated(&cluster);
    let mut rig = rig(Arc::new(hns.actor("proxy")), &objects);
    let (took, counts) = rig.measure(|driver| {
        let report = driver.pass();
        assert!(report.is_settled(), "{:?}", report.failures.first());
    });
    let digest = hns.digest();
    // What must exist: one load balancer a Service, one endpoint a remote address.
    let must = digest.count(Kind::LoadBalancer) + digest.count(Kind::Endpoint) - 16;
    row(
        "first sync, 2,000 Services and 5,000 endpoints",
        "1 write per object, ≤ 10 other calls",
        &format!("{} writes for {must} objects, {} other calls", counts.writes, counts.others),
        &format!("{:.0} ms, {:.0} ms of it in the emulated HNS", ms(took), ms(counts.in_hns)),
    );

    let (took, counts) = rig.measure(|driver| {
        driver.apply(Change::Set(slice(1_000, 3, 5_000, 1)));
        let report = driver.pass();
        assert!(report.is_settled());
    });
    row(
        "one endpoint changes, 2,000 Services",
        "writes only for what is concerned; no listing",
        &format!(
            "{} writes, {} lists, {} other calls",
            counts.writes,
            counts.lists,
            counts.others - counts.lists
        ),
        &format!("{:.0} µs in all; HNS 13.3 cannot modify, so the balancer is deleted and created", us(took)),
    );

    // The periodic check, many times over to see past the clock's grain.
    let rounds = 50;
    let (took, counts) = rig.measure(|driver| {
        for _ in 0..rounds {
            driver.proxy_mut().check_now();
            driver.pass();
        }
    });
    let each = took / rounds;
    row(
        "nothing changes, 2,000 Services",
        "no writes; check < 1 % of one core",
        &format!(
            "{} writes, {} calls a check, {:.4} % of a core",
            counts.writes,
            (counts.others) / u64::from(rounds),
            100.0 * each.as_secs_f64() / 30.0
        ),
        &format!("{:.1} ms every 30 s", ms(each)),
    );
}

fn ten_thousand() {
    let objects = objects(10_000, 10, 100_000);
    let before = resident_mib();
    let mut null = rig(Arc::new(NullHcn), &objects);
    let (first, _) = null.measure(|driver| {
        let report = driver.pass();
        assert!(report.is_settled(), "{:?}", report.failures.first());
    });
    let resident = resident_mib().saturating_sub(before);
    let changes = 1_000_usize;
    let (took, counts) = null.measure(|driver| {
        for number in 0..changes {
            driver.apply(Change::Set(slice(number, 10, 100_000, 1)));
            driver.pass();
        }
    });
    // Making the slice's object is the test's own work.
    let (making, _) = null.measure(|_| {
        for number in 0..changes {
            std::hint::black_box(slice(number, 10, 100_000, 1));
        }
    });
    let each = took.saturating_sub(making).as_secs_f64() * 1e6 / f64::from(1_000_u16);
    row(
        "plan + reconcile in process, 10,000 Services × 10 endpoints",
        "≤ 1 s first, ≤ 200 µs a change, ≤ 250 MB",
        &format!("{:.2} s first, {each:.0} µs a change, {resident} MiB", first.as_secs_f64()),
        &format!(
            "{} writes for {changes} changes; an HNS that takes no time; store and view included",
            counts.writes
        ),
    );
    drop(null);

    let mut cluster = Cluster::new(Perspective::of_node(NODE, [IpFamily::V4]));
    for object in &objects {
        cluster.apply(Change::Set(object.clone()));
    }
    let hns = emulated(&cluster);
    drop(cluster);
    let mut rig = rig(Arc::new(hns.actor("proxy")), &objects);
    let (first, counts) = rig.measure(|driver| {
        let report = driver.pass();
        assert!(report.is_settled(), "{:?}", report.failures.first());
    });
    row(
        "the same on the emulated HNS",
        "–",
        &format!(
            "{:.2} s first, {:.2} s of it in the emulated HNS",
            first.as_secs_f64(),
            counts.in_hns.as_secs_f64()
        ),
        &format!("{} writes, {} other calls", counts.writes, counts.others),
    );
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn main() {
    // `cargo test --benches` and nextest start benches to list tests; there are none here.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    two_thousand();
    ten_thousand();
}
