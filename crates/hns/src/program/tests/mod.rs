//! What each object becomes, as snapshots; what a change costs; what faults leave.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, Hcn, Kind};
use uuid::Uuid;
use vfp::model::Direction;

use super::table::{Item, Key};
use crate::testing::Ledger;
use crate::{Datapath, Hns, Options, Profile, Switches};

mod changes;
mod render;
mod rows;

/// An HNS with a ledger for a switch.
struct World {
    hns: Hns,
    ledger: Arc<Ledger>,
    clock: ManualClock,
}

/// Members of every document.
const SCHEMA: &str = r#""SchemaVersion":{"Major":2,"Minor":0}"#;

/// An id that reads well: the first eight digits are the number.
fn id(n: u32) -> Guid {
    Guid::from_u128(u128::from(n) << 96 | 0x0000_4000_8000_0000_0000_0000)
}

impl World {
    fn new() -> Self {
        Self::with("{}")
    }

    fn with(switches: &str) -> Self {
        Self::on(crate::Host::default(), switches)
    }

    fn on(host: crate::Host, switches: &str) -> Self {
        let ledger = Arc::new(Ledger::default());
        let clock = ManualClock::new();
        let mut chosen = Switches::of(Profile::Newest);
        chosen.apply_yaml(switches).unwrap();
        let options = Options {
            switches: chosen,
            host,
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SeededEntropy::new(3)),
            datapath: Some(Arc::clone(&ledger) as Arc<dyn Datapath>),
            ..Options::new(Profile::Newest)
        };
        Self { hns: Hns::open(options).unwrap(), ledger, clock }
    }

    /// Lets the management address appear.
    fn settle(&self) {
        self.clock.advance(Duration::from_secs(2));
        self.hns.catch_up();
    }

    fn make(&self, kind: Kind, n: u32, network: Option<Guid>, members: &str) -> Guid {
        let json = format!("{{{members},{SCHEMA}}}");
        self.hns.create(kind, network, id(n), &json).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    /// A network with 10.50.1.0/24, gateway .1, VSID 4096.
    fn network(&self, mode: &str, policies: &str) -> Guid {
        let members = format!(
            r#""Name":"net","Type":"{mode}","Policies":[{policies}],"Ipams":[{{"Subnets":[{{
            "IpAddressPrefix":"10.50.1.0/24","Policies":[{{"Type":"VSID","Settings":{{"IsolationId":4096}}}}],
            "Routes":[{{"NextHop":"10.50.1.1","DestinationPrefix":"0.0.0.0/0"}}]}}]}}]"#
        );
        let network = self.make(Kind::Network, 1, None, &members);
        self.settle();
        network
    }

    fn endpoint(&self, network: Guid, n: u32, ip: &str, remote: bool, policies: &str) -> Guid {
        let octets: Vec<String> =
            ip.split('.').map(|octet| format!("{:02X}", octet.parse::<u8>().unwrap())).collect();
        let start = if remote { "02-11" } else { "0E-2A" };
        let members = format!(
            r#""Name":"ep{n}","IpConfigurations":[{{"IpAddress":"{ip}"}}],"MacAddress":"{start}-{}","Flags":{},"Policies":[{policies}]"#,
            octets.join("-"),
            u8::from(remote)
        );
        self.make(Kind::Endpoint, n, Some(network), &members)
    }

    /// An endpoint on the switch, its port's id set by hand.
    fn pod(&self, network: Guid, n: u32, ip: &str, policies: &str) -> Guid {
        let endpoint = self.endpoint(network, n, ip, false, policies);
        self.attach(endpoint, n);
        endpoint
    }

    fn attach(&self, endpoint: Guid, n: u32) {
        let json = format!(
            r#"{{"ResourceType":"Port","RequestType":"Add","Settings":{{"PortId":"{}"}}}}"#,
            id(n + 0x1000)
        );
        self.hns.modify(Kind::Endpoint, endpoint, &json).unwrap();
    }

    fn balancer(&self, n: u32, vips: &str, mapping: &str, endpoints: &[Guid], flags: u32) -> Guid {
        let endpoints: Vec<String> = endpoints.iter().map(|id| format!("\"{id}\"")).collect();
        let members = format!(
            r#""HostComputeEndpoints":[{}],"SourceVIP":"10.50.1.2","FrontendVIPs":[{vips}],"Flags":{flags},"PortMappings":[{{{mapping}}}]"#,
            endpoints.join(",")
        );
        self.make(Kind::LoadBalancer, n, None, &members)
    }

    /// Adds policies to an object.
    fn add(&self, kind: Kind, object: Guid, request: &str, policies: &str) {
        let json = format!(
            r#"{{"ResourceType":"Policy","RequestType":"{request}","Settings":{{"Policies":[{policies}]}}}}"#
        );
        self.hns.modify(kind, object, &json).unwrap();
    }

    /// What hangs on a port, for people.
    fn show(&self, port: Uuid) -> String {
        render::port(&self.ledger.items(), port)
    }

    fn host(&self) -> String {
        self.show(self.hns.host_port())
    }

    fn external(&self) -> String {
        self.show(self.hns.external_port())
    }

    /// The rules whose id starts like this, with where they are.
    fn rules(&self, start: &str) -> Vec<String> {
        let items = self.ledger.items();
        let found = items.iter().filter_map(|(key, item)| match (key, item) {
            (Key::Rule(group, id), Item::Rule(rule)) if id.starts_with(start) => {
                Some(format!("{group}: {}", render::rule(rule)))
            }
            _ => None,
        });
        found.collect()
    }

    fn sound(&self) {
        assert_eq!(self.hns.datapath_errors(), Vec::<String>::new());
    }
}

fn direction(direction: Direction) -> &'static str {
    if direction == Direction::Out { "OUT" } else { "IN" }
}

fn list<T: std::fmt::Display>(out: &mut String, name: &str, values: impl IntoIterator<Item = T>) {
    let text: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    if !text.is_empty() {
        let _ = write!(out, " {name}={}", text.join(","));
    }
}
