//! The store: nothing acknowledged is lost, nothing half-written is seen, whenever the process is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, Hcn, HcnExt, Kind, Query};
use hns::{Dump, Hns, OpenError, Options, Profile, StoreKind};

fn open(path: &Path) -> Result<Hns, OpenError> {
    open_as(StoreKind::File(path.to_owned()))
}

fn open_as(store: StoreKind) -> Result<Hns, OpenError> {
    Hns::open(Options {
        clock: Arc::new(ManualClock::jumping()),
        entropy: Arc::new(SeededEntropy::new(3)),
        store,
        ..Options::new(Profile::Newest)
    })
}

fn id(kind: u128, n: u128) -> Guid {
    Guid::from_u128(0xFEED_0000_0000_4000_8000_0000_0000_0000 | kind << 32 | n)
}

const NETWORK: &str = r#"{"Name":"overlay","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.0.0/16",
    "Routes":[{"NextHop":"10.50.0.1","DestinationPrefix":"0.0.0.0/0"}],
    "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}"#;

/// One round: an endpoint in the shared namespace and a balancer over it; every fourth round tears the one before
/// down again, cascades included.
fn round(hns: &Hns, n: u128) -> hcn::Result<()> {
    let (network, namespace) = (id(0, 0), id(2, 0));
    let endpoint = hns.create(Kind::Endpoint, Some(network), id(1, n), "{}")?;
    let join = format!(
        r#"{{"ResourceType":"Endpoint","RequestType":"Add","Settings":{{"EndpointId":"{endpoint}"}}}}"#
    );
    hns.modify(Kind::Namespace, namespace, &join)?;
    let balancer = format!(
        r#"{{"HostComputeEndpoints":["{endpoint}"],"FrontendVIPs":["10.60.{}.{}"],"PortMappings":[{{"Protocol":6,
            "InternalPort":80,"ExternalPort":80}}],"Flags":1}}"#,
        n / 256,
        n % 256
    );
    hns.create(Kind::LoadBalancer, None, id(3, n), &balancer)?;
    if n % 4 == 3 {
        hns.delete(Kind::LoadBalancer, id(3, n - 1))?;
        hns.delete(Kind::Endpoint, id(1, n - 1))?;
    }
    Ok(())
}

fn prepare(hns: &Hns) {
    hns.create(Kind::Network, None, id(0, 0), NETWORK).unwrap();
    hns.create(Kind::Namespace, None, id(2, 0), "{}").unwrap();
}

/// What must hold of any state between two calls of [`round`].
fn whole(hns: &Hns) -> Result<(), String> {
    let namespace: hcn::Namespace = hns.get(id(2, 0)).map_err(|error| error.to_string())?;
    let listed: Vec<Guid> =
        namespace.resources.iter().filter_map(hcn::namespace::NamespaceResource::endpoint_id).collect();
    for (id, endpoint) in hns.list::<hcn::Endpoint>(&Query::all()).map_err(|error| error.to_string())? {
        let inside = endpoint.namespace.is_some();
        if listed.contains(&id) != inside || inside != (endpoint.extra.read::<u16>("State") == Some(2)) {
            return Err(format!("endpoint {id} is half in its namespace"));
        }
    }
    if let Some(gone) = listed.iter().find(|id| hns.query(Kind::Endpoint, **id, &Query::all()).is_err()) {
        return Err(format!("the namespace lists {gone}, which is gone"));
    }
    Ok(())
}

/// Set in the child: the file to write to.
const CHILD: &str = "HNS_STORE_TEST_FILE";

/// The child of the kill test: writes until it is killed, and says on its output what has been acknowledged.
/// Without the variable it is nothing.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads what was acknowledged")]
fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let hns = open(Path::new(&path)).unwrap();
    prepare(&hns);
    for n in 0.. {
        round(&hns, n).unwrap();
        println!("acknowledged {n}");
    }
}

/// The next round that is told; nothing at the end. A line that was cut off by the kill tells nothing.
fn acknowledged(lines: &mut impl BufRead) -> Option<u128> {
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        let told = line.strip_suffix('\n').and_then(|line| line.rsplit_once("acknowledged "));
        if let Some(n) = told.and_then(|(_, n)| n.parse().ok()) {
            return Some(n);
        }
        line.clear();
    }
    None
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    for (attempt, rounds) in [1u128, 2, 5, 11, 17, 23].into_iter().enumerate() {
        let path = folder.path().join(format!("{attempt}.redb"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut last = None;
        while last.is_none_or(|n| n < rounds) {
            last = Some(acknowledged(&mut lines).expect("the child goes on until it is killed"));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said between the line that was waited for and its end counts too.
        while let Some(n) = acknowledged(&mut lines) {
            last = Some(n);
        }
        let last = last.expect("the child acknowledged something");
        assert!(last >= rounds);

        let hns = open(&path).unwrap();
        whole(&hns).unwrap();
        for n in 0..=last {
            let torn_down = n % 4 == 2 && n < last;
            for (kind, number) in [(Kind::Endpoint, 1), (Kind::LoadBalancer, 3)] {
                let there = hns.query(kind, id(number, n), &Query::all()).is_ok();
                // The round in flight may have torn down its predecessor.
                assert!(there != torn_down || n == last, "{kind} of round {n} of {last}: there is {there}");
            }
        }
        // And it goes on.
        hns.delete(Kind::Network, id(0, 0)).unwrap();
        assert!(hns.enumerate(Kind::Endpoint, &Query::all()).unwrap().is_empty());
    }
}

#[test]
fn copies_of_the_file_at_any_moment_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("hns.redb"), folder.path().join("copy.redb"));
    let hns = open(&path).unwrap();
    prepare(&hns);
    let mut before: Dump = hns.digest();
    for n in 0..24 {
        round(&hns, n).unwrap();
        // A copy of a file in use is what a machine that loses power leaves.
        std::fs::copy(&path, &copy).unwrap();
        let found = open(&copy).unwrap();
        whole(&found).unwrap();
        let after = hns.digest();
        assert_eq!(strip(found.digest()), strip(after.clone()), "after round {n}; before it was\n{before}");
        drop(found);
        before = after;
    }
}

/// Without what depends on time: a restarted service has its management address at once.
fn strip(mut dump: Dump) -> Dump {
    for network in dump.objects.get_mut(&Kind::Network).into_iter().flat_map(|networks| networks.values_mut())
    {
        network.as_object_mut().unwrap().shift_remove("Policies");
    }
    dump
}

#[test]
fn non_persistent_networks_are_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hns.redb");
    let hns = open(&path).unwrap();
    let json = NETWORK.replacen('{', r#"{"Flags":8,"#, 1);
    hns.create(Kind::Network, None, id(0, 0), &json).unwrap();
    hns.create(Kind::Namespace, None, id(2, 0), "{}").unwrap();
    round(&hns, 0).unwrap();
    drop(hns);
    let hns = open(&path).unwrap();
    let dump = hns.digest();
    for kind in [Kind::Network, Kind::Endpoint, Kind::LoadBalancer] {
        assert_eq!(dump.count(kind), 0, "{kind}");
    }
    let namespace: hcn::Namespace = hns.get(id(2, 0)).unwrap();
    assert!(namespace.resources.is_empty());
    assert_eq!(namespace.namespace_id, Some(2), "the compartment was made");
}

/// Rewrites a file.
fn damaged(path: &Path, harm: impl FnOnce(&mut Vec<u8>)) -> std::path::PathBuf {
    let mut bytes = std::fs::read(path).unwrap();
    harm(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    path.to_owned()
}

#[test]
fn what_cannot_be_opened_is_told_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hns.redb");
    let held = open(&path).unwrap();
    prepare(&held);
    (0..8).for_each(|n| round(&held, n).unwrap());
    let text = open(&path).err().unwrap().to_string();
    assert!(text.contains("hns.redb"), "{text}");
    drop(held);
    open(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let text =
        open(&damaged(&path, |bytes| *bytes = b"no database, whatever its name".repeat(300))).err().unwrap();
    assert!(text.to_string().contains("hns.redb"), "{text}");
    // Damage from outside is refused or harmless; it never ends in a panic.
    let mut refused = 0;
    for at in (0..good.len()).step_by(good.len() / 64) {
        std::fs::write(&path, &good).unwrap();
        match open(&damaged(&path, |bytes| bytes[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5A))) {
            Ok(hns) => {
                hns.digest();
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("hns.redb"), "{error}");
            }
        }
    }
    assert!(refused > 0, "no damage was noticed");
    std::fs::write(&path, &good[..good.len() / 3]).unwrap();
    assert!(open(&path).is_err(), "cut off");
    let text = open(&folder.path().join("no/such/folder.redb")).err().unwrap().to_string();
    assert!(text.contains("folder.redb"), "{text}");
}

#[test]
fn a_file_can_be_opened_either_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hns.redb");
    let hns = open_as(StoreKind::SyncedFile(path.clone())).unwrap();
    prepare(&hns);
    round(&hns, 0).unwrap();
    let dump = strip(hns.digest());
    drop(hns);
    assert_eq!(strip(open(&path).unwrap().digest()), dump);
    assert_eq!(strip(open_as(StoreKind::SyncedFile(path)).unwrap().digest()), dump);
}

#[test]
fn listeners_that_clash_are_told() {
    let host = hns::Host {
        listeners: vec![(hns::Protocol::Tcp, 80), (hns::Protocol::Tcp, 80)],
        ..hns::Host::default()
    };
    let Err(error) = Hns::open(Options { host, ..Options::new(Profile::Newest) }) else {
        panic!("two listeners on one port");
    };
    assert!(error.to_string().contains("port 80"), "{error}");
}
