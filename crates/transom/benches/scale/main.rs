//! A live cluster of 10,000 Services with 10 endpoints each: how long a node takes from nothing to programmed, and from a change of
//! endpoints to HNS while 100 of them come each second, with an HNS that takes no time and with one whose calls take 10 ms.
//!
//! The API server is a process of its own, so that processor time and memory are the proxy's. Latency is what the metric
//! `network_programming_duration_seconds` is made of: from the time that a slice says its change was triggered at, until HNS holds
//! all that its Service wants. Prints one line per row, `bench-row|work|budget|measured|detail`, which `cargo xtask bench` puts
//! into a table. `TRANSOM_SCALE_SECONDS` is how long changes come (60; the figures in README are of 300), `TRANSOM_SCALE_LATENCY_MS`
//! and `TRANSOM_SCALE_PARALLEL` make one run with that latency and that many calls at a time, instead of the three that are usual.

#![expect(clippy::print_stdout, reason = "a bench prints what it measures")]

mod api;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use cluster::Connection;
use cluster::source::{Event, Settings as SourceSettings, start};
use cluster::status::Resource;
use hcn::time::{Clock, SeededEntropy, SystemClock};
use hns::faults::{Latency, LatencyRule};
use hns::{Adapter, Hns, Mac, Options, Profile};
use node::{Furnisher, NetworkKind, NodeSpec};
use parking_lot::Mutex;
use proxy::meter::{Metered, Watch};
use proxy::{Config, Driver, Interface, NodeInput, Proxy};
use proxyd::{Input, Loop, Observer, Passed, Settings, State};
use services::{Cluster, IpFamily, Perspective};

/// The node.
const NODE: &str = "n1";

/// Services, and endpoints of each.
const SERVICES: usize = 10_000;

/// Changes of endpoints a second.
const CHANGES: usize = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == api::WORD) {
        api::serve(&PathBuf::from(&arguments[2]));
        return;
    }
    let filter = arguments.iter().skip(1).find(|word| !word.starts_with('-'));
    if filter.is_some_and(|filter| !"scale".contains(filter.as_str())) {
        return;
    }
    let seconds = setting("TRANSOM_SCALE_SECONDS").unwrap_or(60);
    let latency = setting("TRANSOM_SCALE_LATENCY_MS");
    let parallel = setting("TRANSOM_SCALE_PARALLEL");
    let runs = match (latency, parallel) {
        (None, None) => vec![(0, 1), (10, 1), (10, 4)],
        (latency, parallel) => vec![(latency.unwrap_or(0), parallel.unwrap_or(1))],
    };
    for (latency, parallel) in runs {
        run(Duration::from_millis(latency.try_into().unwrap_or(u64::MAX)), parallel, seconds);
    }
}

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The API server, which ends with this value.
struct Api {
    process: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
    kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
}

impl Api {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("kubeconfig");
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .arg(api::WORD)
            .arg(&kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the API server starts");
        let said = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut api = Self { process, said, kubeconfig, _folder: folder };
        api.hear();
        api
    }

    /// Waits for its next word.
    fn hear(&mut self) -> String {
        self.said.next().expect("it says something").expect("text")
    }

    /// Has changes made for so many seconds.
    fn churn(&mut self, seconds: usize) -> String {
        let stdin = self.process.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{CHANGES} {seconds}").expect("it listens");
        self.hear()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        // One that has ended is waited for all the same.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What passes told.
#[derive(Default)]
struct Told {
    programmed: Vec<Duration>,
    first: Option<Duration>,
    dns: Option<Duration>,
    longest_pass: Duration,
    settled: bool,
}

struct Teller {
    told: Arc<Mutex<Told>>,
    clock: Arc<dyn Clock>,
    begun: Duration,
    settled: Sender<()>,
}

impl Observer for Teller {
    fn passed(&mut self, passed: &Passed<'_>) {
        let mut told = self.told.lock();
        let now = self.clock.now().saturating_sub(self.begun);
        told.programmed.extend(passed.programmed.iter().map(|(_, took)| *took));
        told.longest_pass = told.longest_pass.max(passed.took);
        let is_dns = |service: &services::ServiceKey| &*service.name == api::DNS;
        if told.dns.is_none()
            && passed.report.changes.iter().any(|change| change.service.as_ref().is_some_and(is_dns))
        {
            told.dns = Some(now);
        }
        let settled = passed.completed && passed.report.pending == 0;
        if settled && !told.settled {
            told.first.get_or_insert(now);
            // Nobody listens any more when the bench ends.
            let _ = self.settled.send(());
        }
        told.settled = settled;
    }
}

fn emulated(latency: Duration) -> Hns {
    let mut options = Options::new(Profile::Newest);
    options.entropy = Arc::new(SeededEntropy::new(1));
    options.host.adapters = vec![Adapter {
        name: "Ethernet".to_owned(),
        mac: Mac::from_octets([0, 0x11, 0x22, 0x33, 0x44, 0x55]),
        addresses: vec!["192.0.2.11/24".parse().expect("a prefix")],
    }];
    let hns = Hns::open(options).expect("an emulated HNS opens");
    let mut cluster = Cluster::new(Perspective::of_node(NODE, [IpFamily::V4]));
    for object in api::nodes() {
        cluster.apply(services::Change::Set(object));
    }
    let spec = NodeSpec::of(&cluster, NODE, NetworkKind::L2Bridge, "net", "cbr0", false)
        .expect("the node is complete");
    Furnisher::new(Arc::new(hns.actor("cni"))).furnish(&spec).expect("the node is furnished");
    if !latency.is_zero() {
        let all = LatencyRule { ops: Vec::new(), kinds: Vec::new(), latency: Latency::Fixed(latency) };
        hns.faults().set_latency(vec![all]).expect("the latency can be");
    }
    hns
}

fn driver(hns: &Hns, clock: &Arc<dyn Clock>, parallel_calls: usize) -> (Driver, Watch) {
    let metered = Metered::new(Arc::new(hns.actor("proxy")), Arc::clone(clock));
    let watch = metered.watch();
    let config = Config {
        network_name: "net".to_owned(),
        enable_dsr: true,
        pass_time: Some(Duration::from_secs(1)),
        parallel_calls,
        ..Config::default()
    };
    let entropy = Arc::new(SeededEntropy::new(2));
    let proxy = Proxy::new(Arc::new(metered), Arc::clone(clock), entropy, config, NodeInput::default());
    let perspective = Perspective::of_node(NODE, [IpFamily::V4]);
    let interfaces = vec![Interface {
        name: "Ethernet".to_owned(),
        mac: "00-11-22-33-44-55".to_owned(),
        addresses: vec![IpAddr::from([192, 0, 2, 11])],
    }];
    (Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces), watch)
}

fn source(api: &Api, clock: &Arc<dyn Clock>, inputs: &Sender<Input>) -> cluster::Running {
    let connection = Connection { kubeconfig: Some(api.kubeconfig.clone()), ..Connection::default() };
    let inputs = inputs.clone();
    let known = Mutex::new((false, false));
    let sink: cluster::watching::Sink = Arc::new(move |event| {
        let input = match event {
            Event::Changed(change, triggered) => Input::Changed(change, triggered),
            Event::Refused(why) => panic!("{why}"),
            Event::Synced(resource) => {
                let mut known = known.lock();
                known.0 |= resource == Resource::Services;
                known.1 |= resource == Resource::EndpointSlices;
                if *known != (true, true) {
                    return;
                }
                Input::Synced
            }
        };
        // The loop has ended when nobody listens.
        let _ = inputs.send(input);
    });
    start(&SourceSettings::new(connection, NODE), Arc::clone(clock), &sink).expect("the source starts")
}

fn run(latency: Duration, parallel_calls: usize, seconds: usize) {
    let mut api = Api::start();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let hns = emulated(latency);
    let (driver, watch) = driver(&hns, &clock, parallel_calls);
    let (inputs, inbox) = mpsc::channel();
    let told = Arc::new(Mutex::new(Told::default()));
    let (settled, heard): (_, Receiver<()>) = mpsc::channel();
    let begun = clock.now();
    let cpu = processor_seconds();
    let source = source(&api, &clock, &inputs);
    let settings = Settings { node: NODE.to_owned(), min_period: Duration::from_secs(1) };
    let mut looped = Loop::new(driver, inbox, State::new(Arc::clone(&clock)), settings);
    looped.observe(Box::new(Teller { told: Arc::clone(&told), clock: Arc::clone(&clock), begun, settled }));
    let thread = std::thread::spawn(move || looped.run());

    heard.recv().expect("the first sync ends");
    let how = match (latency.is_zero(), parallel_calls) {
        (true, 1) => "no latency".to_owned(),
        (true, at_once) => format!("no latency, {at_once} calls at once"),
        (false, at_once) => format!("{} ms a call, {at_once} at once", latency.as_millis()),
    };
    let meters = watch.meters();
    {
        let told = told.lock();
        let detail = format!(
            "{} calls, {} of them writes; DNS after {:.1} s; {:.1} s of processor, {} MiB",
            meters.calls(),
            meters.writes(),
            told.dns.unwrap_or_default().as_secs_f64(),
            processor_seconds() - cpu,
            resident_mib()
        );
        let measured = format!("{:.1} s", told.first.unwrap_or_default().as_secs_f64());
        row(
            &format!("live cluster, 10,000 Services × 10 endpoints, {how}: from nothing"),
            "–",
            &measured,
            &detail,
        );
    }
    told.lock().programmed.clear();
    let (before, cpu) = (watch.meters(), processor_seconds());
    let start = clock.now();
    let made = api.churn(seconds);
    // What is under way then still counts.
    while heard.recv_timeout(Duration::from_secs(2)).is_ok() {}
    if !told.lock().settled {
        heard.recv().expect("it settles");
    }
    let took = clock.now().saturating_sub(start).as_secs_f64();
    let after = watch.meters();
    let mut latencies = std::mem::take(&mut told.lock().programmed);
    latencies.sort();
    let at = |part: usize| {
        latencies
            .get((latencies.len() * part / 100).min(latencies.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    row(
        &format!("{CHANGES} changes of endpoints a second for {seconds} s, {how}"),
        "–",
        &format!("p50 {:.2} s, p99 {:.2} s", at(50).as_secs_f64(), at(99).as_secs_f64()),
        &format!(
            "{made} made, {} measured; {} calls, {} of them writes; longest pass {:.1} s; {:.0} % of one core, {} MiB",
            latencies.len(),
            after.calls() - before.calls(),
            after.writes() - before.writes(),
            told.lock().longest_pass.as_secs_f64(),
            (processor_seconds() - cpu) / took * 100.0,
            resident_mib()
        ),
    );
    // The loop is there as long as this process.
    let _ = inputs.send(Input::Stop);
    drop(source);
    let _ = thread.join();
}

fn row(work: &str, budget: &str, measured: &str, detail: &str) {
    println!("bench-row|{work}|{budget}|{measured}|{detail}");
}

/// The process's resident memory, from the kernel, in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Processor time of this process so far, in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    // User and system time are fields 14 and 15; a tick is a hundredth of a second everywhere.
    (ticks(11) + ticks(12)) / 100.0
}
