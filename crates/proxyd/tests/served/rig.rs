//! A proxy that runs: an emulated HNS, the loop on a thread of its own, the servers on ports that the system chose, and a clock
//! that only the test moves.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, Hcn, Kind};
use hns::{Hns, Options, Profile};
use proxy::meter::Metered;
use proxy::{Config, Driver, Interface, NodeInput, Proxy};
use proxyd::api::{ApiFigures, ApiResource};
use proxyd::health;
use proxyd::http::site::{Content, Site};
use proxyd::http::{Addresses, Server, Settings as ServerSettings};
use proxyd::listen::Purpose;
use proxyd::metrics::Build;
use proxyd::{Ended, Input, Loop, Observer, Passed, Settings, State};
use serde_json::{Value, json};
use services::source::manifests;
use services::{Change, Cluster, IpFamily, Perspective};

/// The proxy under test.
pub struct Rig {
    pub clock: ManualClock,
    pub hns: Hns,
    pub inputs: Sender<Input>,
    pub server: Server,
    passes: Receiver<()>,
    looped: Option<JoinHandle<Ended>>,
}

struct Bell(Sender<()>);

impl Observer for Bell {
    fn passed(&mut self, _: &Passed<'_>) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

/// An address of the loopback that the system finds a port for.
pub fn any() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// A port that nobody has now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(any()).expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

fn site(state: &State) -> Arc<Site> {
    let api = || ApiFigures {
        resources: vec![ApiResource {
            name: "services".to_owned(),
            state: "watching".to_owned(),
            synced: true,
            objects: 2,
            lists: 1,
            ..ApiResource::default()
        }],
        outage: None,
    };
    Arc::new(Site::new(Content {
        state: state.clone(),
        api: Arc::new(api),
        build: Build {
            version: "0.0.0".to_owned(),
            commit: "unknown".to_owned(),
            features: vec![("AllowServiceExternalIPs".to_owned(), "BETA".to_owned(), true)],
        },
        health: health::Settings::default(),
        configz: Arc::new(|| json!({"kubeproxy.config.k8s.io": {"kind": "KubeProxyConfiguration"}})),
        flagz: Arc::new(|| "v=2\n".to_owned()),
        profiling: false,
    }))
}

fn emulated(clock: &ManualClock) -> Hns {
    let mut options = Options::new(Profile::Ws2022);
    options.clock = Arc::new(clock.clone());
    options.entropy = Arc::new(SeededEntropy::new(1));
    Hns::open(options).expect("an emulated HNS in memory opens")
}

/// The network that a CNI plugin makes.
pub fn make_network(hns: &Hns) {
    let network = json!({
        "Name": "net", "Type": "L2Bridge",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": "10.50.1.0/24",
            "Routes": [{"NextHop": "10.50.1.1", "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    });
    hns.actor("cni")
        .create(Kind::Network, None, Guid::NIL.derive("net"), &network.to_string())
        .expect("the network can be made");
}

impl Rig {
    /// Starts everything; nothing is synced yet.
    pub fn start() -> Self {
        Self::start_at(Addresses { healthz: Some(any()), metrics: Some(any()) })
    }

    pub fn start_at(addresses: Addresses) -> Self {
        Self::start_paced(addresses, None, Duration::ZERO)
    }

    /// With a time that a pass may take, and a least period between passes.
    pub fn start_paced(addresses: Addresses, pass_time: Option<Duration>, min_period: Duration) -> Self {
        let clock = ManualClock::jumping();
        let hns = emulated(&clock);
        let metered = Metered::new(Arc::new(hns.actor("proxy")), Arc::new(clock.clone()));
        let state = State::new(Arc::new(clock.clone()));
        state.set_hns(metered.watch());
        let config = Config { network_name: "net".to_owned(), pass_time, ..Config::default() };
        let proxy = Proxy::new(
            Arc::new(metered),
            Arc::new(clock.clone()),
            Arc::new(SeededEntropy::new(7)),
            config,
            NodeInput::default(),
        );
        let perspective = Perspective::of_node("n1", [IpFamily::V4]);
        let interfaces = vec![Interface {
            name: "Ethernet".to_owned(),
            mac: "00-11-22-33-44-55".to_owned(),
            addresses: vec!["192.0.2.11".parse().expect("an address")],
        }];
        let driver = Driver::new(Cluster::new(perspective.clone()), proxy, perspective, interfaces);
        let (inputs, inbox) = channel();
        let settings = Settings { node: "n1".to_owned(), min_period };
        let mut looped = Loop::new(driver, inbox, state.clone(), settings);
        let settings = ServerSettings { addresses, hard_fail: true, retry: Duration::from_millis(5) };
        let server = Server::start(site(&state), settings).expect("the servers start");
        for observer in server.observers() {
            looped.observe(observer);
        }
        let (bell, passes) = channel();
        looped.observe(Box::new(Bell(bell)));
        let looped = Some(std::thread::spawn(move || looped.run()));
        Self { clock, hns, inputs, server, passes, looped }
    }

    /// Tells the loop of objects, as manifests.
    pub fn apply(&self, text: &str) {
        let parsed = manifests::parse_bytes("test.yaml", text.as_bytes(), &manifests::Options::default());
        assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
        for object in parsed.objects {
            self.send(Input::Changed(Change::Set(object), Some(self.wall())));
        }
    }

    fn wall(&self) -> std::time::SystemTime {
        use hcn::time::Clock as _;
        self.clock.wall()
    }

    pub fn send(&self, input: Input) {
        self.inputs.send(input).expect("the loop listens");
    }

    /// How many passes were made that nobody has waited for.
    pub fn passes_unheard(&self) -> usize {
        self.passes.try_iter().count()
    }

    /// Waits until a pass was made that began after everything that was sent.
    pub fn pass(&self) {
        while self.passes.try_recv().is_ok() {}
        self.send(Input::Heard);
        self.passes.recv().expect("the loop makes passes");
        // The one that was under way when this was asked may have been the first.
        self.send(Input::Heard);
        self.passes.recv().expect("the loop makes passes");
    }

    /// Waits for the end of the next pass, whatever it is for.
    pub fn next_pass(&self) {
        self.passes.recv().expect("the loop makes passes");
    }

    pub fn at(&self, purpose: &Purpose) -> SocketAddr {
        self.server.bound()[purpose]
    }

    pub fn healthz(&self, path: &str) -> Answer {
        get(self.at(&Purpose::Healthz), path, None)
    }

    pub fn metrics(&self, path: &str) -> Answer {
        get(self.at(&Purpose::Metrics), path, None)
    }

    /// Ends the loop.
    pub fn end(mut self) {
        self.hns.faults().release_hung_as(hns::faults::Release::Proceed);
        self.send(Input::Stop);
        let ended = self.looped.take().expect("it runs").join().expect("the loop does not panic");
        assert_eq!(ended, Ended::Stopped);
        self.server.stop();
    }
}

/// The Node, a Service of type LoadBalancer whose traffic stays on the node, and one with a cluster IP.
pub fn objects(check_port: u16) -> String {
    format!(
        r"
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{addresses: [{{type: InternalIP, address: 192.0.2.11}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: shop}}
spec:
  type: LoadBalancer
  clusterIP: 10.60.0.20
  externalTrafficPolicy: Local
  healthCheckNodePort: {check_port}
  ports: [{{port: 80, nodePort: 30080}}]
status: {{loadBalancer: {{ingress: [{{ip: 198.51.100.10}}]}}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{port: 8080}}]
endpoints:
  - {{addresses: [10.50.1.5], nodeName: n1, conditions: {{ready: true}}}}
  - {{addresses: [10.50.2.5], nodeName: n2, conditions: {{ready: true}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: db, namespace: shop}}
spec: {{clusterIP: 10.60.0.21, internalTrafficPolicy: Local, ports: [{{port: 81}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: db-1, namespace: shop, labels: {{kubernetes.io/service-name: db}}}}
addressType: IPv4
ports: [{{port: 81}}]
endpoints: [{{addresses: [10.50.2.6], nodeName: n2, conditions: {{ready: true}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: api, namespace: shop}}
spec: {{clusterIP: 10.60.0.22, ports: [{{port: 82}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: api-1, namespace: shop, labels: {{kubernetes.io/service-name: api}}}}
addressType: IPv4
ports: [{{port: 82}}]
endpoints: [{{addresses: [10.50.2.7], nodeName: n2, conditions: {{ready: true}}}}]
"
    )
}

/// What a server said.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Asks.
pub fn get(address: SocketAddr, path: &str, accept: Option<&str>) -> Answer {
    let accept = accept.map(|accept| format!("Accept: {accept}\r\n")).unwrap_or_default();
    let text =
        exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\n{accept}Connection: close\r\n\r\n"))
            .unwrap_or_else(|error| panic!("{address} does not answer {path}: {error}"));
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Sends text and reads until the other side is done.
pub fn exchange(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Waits for what another thread does.
pub fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// The loopback address of a family.
pub fn loopback(ipv6: bool) -> IpAddr {
    if ipv6 { std::net::Ipv6Addr::LOCALHOST.into() } else { std::net::Ipv4Addr::LOCALHOST.into() }
}
