//! How fast the emulated HNS is with 100,000 endpoints and 10,000 load balancers of ten backends each.
//!
//! A create reads its settings, which any HNS must; the budget is for the rest, so reading alone is measured in the
//! same run and taken off.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use hcn::time::{Clock, SeededEntropy, SystemClock};
use hcn::{Guid, Hcn, Kind, Query, v1};
use hns::{Datapath, Hns, Options, Profile, StoreKind};
use vfp::model::{ApplyError, Change};

const ENDPOINTS: u32 = 100_000;
const BALANCERS: u32 = 10_000;
const BACKENDS: u32 = 10;

struct World {
    hns: Hns,
    network: Guid,
    endpoints: Vec<Guid>,
    balancers: Vec<Guid>,
}

fn id(kind: u64, n: u32) -> Guid {
    Guid::from_u128(u128::from(kind) << 96 | u128::from(n) << 40 | 0x4000_8000)
}

fn address(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0A40_0000 + n)
}

/// A datapath that takes everything and does nothing.
struct Nowhere;

impl Datapath for Nowhere {
    fn apply(&self, changes: &[Change]) -> Result<(), ApplyError> {
        black_box(changes);
        Ok(())
    }
}

fn empty(store: StoreKind) -> (Hns, Guid) {
    with_datapath(store, None)
}

fn with_datapath(store: StoreKind, datapath: Option<Arc<dyn Datapath>>) -> (Hns, Guid) {
    let options = Options {
        entropy: Arc::new(SeededEntropy::new(1)),
        store,
        datapath,
        ..Options::new(Profile::Newest)
    };
    let hns = Hns::open(options).expect("an HNS opens");
    hns.journal().set_capacity(0);
    let settings = r#"{"Name":"overlay","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.0.0/16",
        "Routes":[{"NextHop":"10.50.0.1","DestinationPrefix":"0.0.0.0/0"}],
        "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, settings).expect("the network is made");
    (hns, network)
}

fn endpoint_settings(network: Guid, n: u32) -> String {
    let ip = address(n);
    let provider = Ipv4Addr::from(0x0A00_0000 + n % 1000);
    let mac: Vec<String> = ip.octets().iter().map(|octet| format!("{octet:02x}")).collect();
    let mac = mac.join("-");
    format!(
        r#"{{"HostComputeNetwork":"{network}","IpConfigurations":[{{"IpAddress":"{ip}"}}],
        "MacAddress":"02-11-{mac}","Flags":1,
        "Policies":[{{"Type":"ProviderAddress","Settings":{{"ProviderAddress":"{provider}"}}}}],
        "SchemaVersion":{{"Major":2,"Minor":0}}}}"#
    )
}

/// A balancer whose backends are some of the first `endpoints`.
fn balancer_settings(n: u32, endpoints: u32) -> String {
    let backends: Vec<String> =
        (0..BACKENDS).map(|at| format!("\"{}\"", id(1, (n * BACKENDS + at) % endpoints))).collect();
    let vip = Ipv4Addr::from(0x0A60_0000 + n);
    format!(
        r#"{{"HostComputeEndpoints":[{}],"SourceVIP":"10.50.0.2","FrontendVIPs":["{vip}"],"Flags":1,
        "PortMappings":[{{"Protocol":6,"InternalPort":8080,"ExternalPort":80}}],
        "SchemaVersion":{{"Major":2,"Minor":0}}}}"#,
        backends.join(",")
    )
}

fn row(work: &str, budget: &str, measured: Duration, detail: &str) {
    #[expect(clippy::print_stdout, reason = "the bench table is collected from these lines")]
    {
        println!("bench-row|{work}|{budget}|{measured:.2?}|{detail}");
    }
}

fn each(clock: &SystemClock, count: u32, mut act: impl FnMut(u32)) -> Duration {
    let start = clock.now();
    for n in 0..count {
        act(n);
    }
    clock.now().saturating_sub(start) / count.max(1)
}

fn fill(clock: &SystemClock) -> World {
    let (hns, network) = empty(StoreKind::Memory);
    let endpoints: Vec<String> = (0..ENDPOINTS).map(|n| endpoint_settings(network, n)).collect();
    let balancers: Vec<String> = (0..BALANCERS).map(|n| balancer_settings(n, ENDPOINTS)).collect();

    let read = each(clock, ENDPOINTS, |n| {
        drop(black_box(v1::read_endpoint(&endpoints[n as usize])));
    });
    let whole = each(clock, ENDPOINTS, |n| {
        hns.create(Kind::Endpoint, Some(network), id(1, n), &endpoints[n as usize])
            .expect("an endpoint is made");
    });
    let detail = format!("{ENDPOINTS} endpoints; {whole:.2?} with reading {read:.2?}");
    row(
        "create an endpoint in the emulated HNS, apart from JSON",
        "≤ 5 µs",
        whole.saturating_sub(read),
        &detail,
    );

    let read = each(clock, BALANCERS, |n| {
        drop(black_box(v1::read_load_balancer(&balancers[n as usize])));
    });
    let whole = each(clock, BALANCERS, |n| {
        hns.create(Kind::LoadBalancer, None, id(2, n), &balancers[n as usize]).expect("a balancer is made");
    });
    let detail = format!("{BALANCERS} load balancers of {BACKENDS}; {whole:.2?} with reading {read:.2?}");
    row(
        "create a load balancer in the emulated HNS, apart from JSON",
        "≤ 5 µs",
        whole.saturating_sub(read),
        &detail,
    );

    World {
        hns,
        network,
        endpoints: (0..ENDPOINTS).map(|n| id(1, n)).collect(),
        balancers: (0..BALANCERS).map(|n| id(2, n)).collect(),
    }
}

fn reads(clock: &SystemClock, world: &World) {
    let World { hns, network, endpoints, balancers } = world;
    let query = Query::all();
    let one = each(clock, BALANCERS, |n| {
        drop(black_box(hns.query(Kind::LoadBalancer, balancers[n as usize], &query)));
    });
    row("query a load balancer", "≤ 10 µs", one, "v2 document of 10 backends");
    let one = each(clock, ENDPOINTS, |n| {
        drop(black_box(hns.query(Kind::Endpoint, endpoints[n as usize], &query)));
    });
    row("query an endpoint", "≤ 10 µs", one, "v2 document");
    let all = each(clock, 5, |_| drop(black_box(hns.enumerate(Kind::Endpoint, &query))));
    row("enumerate 100,000 endpoints", "≤ 20 ms", all, "ids in order of creation");
    let on = Query::endpoints_of(*network);
    let all = each(clock, 5, |_| drop(black_box(hns.enumerate(Kind::Endpoint, &on))));
    row("enumerate the endpoints of a network", "≤ 100 ms", all, "100,000 match");
    let one = each(clock, 1000, |n| {
        drop(black_box(hns.enumerate(Kind::Endpoint, &Query::by_id(endpoints[n as usize]))));
    });
    row("enumerate by id", "≤ 10 µs", one, "among 100,000 endpoints");
}

fn stored(clock: &SystemClock) {
    const WRITES: u32 = 1000;
    let folder = tempfile::tempdir().expect("a folder for the store");
    for (name, work) in [
        ("kill", "write to the store, safe from a kill"),
        ("power", "write to the store, safe from a power failure"),
    ] {
        let path = folder.path().join(name);
        let store = if name == "kill" { StoreKind::File(path) } else { StoreKind::SyncedFile(path) };
        let (hns, network) = empty(store);
        let settings: Vec<String> = (0..WRITES).map(|n| endpoint_settings(network, n)).collect();
        let one = each(clock, WRITES, |n| {
            hns.create(Kind::Endpoint, Some(network), id(1, n), &settings[n as usize])
                .expect("an endpoint is made");
        });
        row(work, if name == "kill" { "≤ 1 ms" } else { "–" }, one, "one endpoint, one transaction");
    }
}

/// What programming adds to a write: the same writes with a datapath and without, taken in turn.
fn programming(clock: &SystemClock) {
    const ROUND: u32 = 2000;
    let worlds = [None, Some(Arc::new(Nowhere) as Arc<dyn Datapath>)].map(|datapath| {
        let (hns, network) = with_datapath(StoreKind::Memory, datapath);
        // Rules come with the management address.
        hns.restart(hns::Loss::None).expect("a restart");
        for n in 0..BALANCERS {
            hns.create(Kind::Endpoint, Some(network), id(1, n), &endpoint_settings(network, n))
                .expect("an endpoint is made");
        }
        hns
    });
    let balancers: Vec<String> = (0..BALANCERS).map(|n| balancer_settings(n, BALANCERS)).collect();
    let mut spent = [Duration::ZERO; 2];
    for round in 0..BALANCERS / ROUND {
        for (hns, spent) in worlds.iter().zip(&mut spent) {
            *spent += each(clock, ROUND, |n| {
                let n = round * ROUND + n;
                hns.create(Kind::LoadBalancer, None, id(2, n), &balancers[n as usize])
                    .expect("a balancer is made");
            });
        }
    }
    let [without, with] = spent.map(|spent| spent / (BALANCERS / ROUND));
    row(
        "program a load balancer, beyond what HNS spends",
        "≤ 3 µs",
        with.saturating_sub(without),
        &format!("{BALANCERS} of {BACKENDS} remote backends; {with:.2?} against {without:.2?}"),
    );
}

fn benches(criterion: &mut Criterion) {
    let clock = SystemClock::default();
    let world = fill(&clock);
    reads(&clock, &world);
    stored(&clock);
    programming(&clock);

    let World { hns, network, endpoints, balancers } = &world;
    let mut group = criterion.benchmark_group("hns");
    group.sample_size(20);
    let extra = endpoint_settings(*network, ENDPOINTS);
    group.bench_function("create and delete an endpoint among 100,000", |bench| {
        bench.iter(|| {
            let made =
                hns.create(Kind::Endpoint, Some(*network), id(3, 1), &extra).expect("an endpoint is made");
            hns.delete(Kind::Endpoint, made).expect("it is deleted");
        });
    });
    let extra = balancer_settings(BALANCERS, ENDPOINTS);
    group.bench_function("create and delete a load balancer among 10,000", |bench| {
        bench.iter(|| {
            let made = hns.create(Kind::LoadBalancer, None, id(3, 2), &extra).expect("a balancer is made");
            hns.delete(Kind::LoadBalancer, made).expect("it is deleted");
        });
    });
    group.bench_function("query a load balancer", |bench| {
        bench.iter(|| hns.query(Kind::LoadBalancer, balancers[77], &Query::all()));
    });
    group.bench_function("query an endpoint", |bench| {
        bench.iter(|| hns.query(Kind::Endpoint, endpoints[77], &Query::all()));
    });
    group.bench_function("delete a network with 1,000 endpoints", |bench| {
        bench.iter_batched(
            || {
                let (hns, network) = empty(StoreKind::Memory);
                for n in 0..1000 {
                    hns.create(Kind::Endpoint, Some(network), id(1, n), &endpoint_settings(network, n))
                        .expect("an endpoint is made");
                }
                (hns, network)
            },
            |(hns, network)| hns.delete(Kind::Network, network),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
