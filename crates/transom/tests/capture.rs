//! `transom capture`: what it writes opens in tshark, which must decode every kind of packet with good checksums.
//!
//! tshark is Debian's package of this name. Without it these tests fail: an unread capture proves nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A plan of faults that has a policy agent block TCP to port 8080 of pod l2.
const BLOCK: &str = r#"
actions:
- at: {call: 60}
  modify:
    kind: Endpoint
    subject: "10.50.1.6"
    actor: policy
    settings:
      ResourceType: Policy
      RequestType: Add
      Settings:
        Policies:
        - Type: ACL
          Settings: {Id: deny-web, Protocols: "6", Action: Block, Direction: In, LocalPorts: "8080", RuleType: Switch, Priority: 100}
"#;

/// tshark's status of a checksum that is good.
const GOOD: &str = "1";

fn transom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transom")).args(arguments).output().expect("the program starts")
}

fn manifest(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/paths").join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A capture of exchanges in the cluster of the packet paths, and the program's output.
struct Captured {
    folder: tempfile::TempDir,
    output: Output,
}

impl Captured {
    fn file(&self) -> PathBuf {
        self.folder.path().join("capture.pcapng")
    }

    /// `flags`: of the network and the like, parted by blanks.
    fn new(manifests: &[&str], flags: &str, exchanges: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("capture.pcapng");
        let manifests: Vec<String> = manifests.iter().map(|name| manifest(name)).collect();
        let mut arguments = vec!["capture", "--node", "n1", "-w", file.to_str().expect("UTF-8")];
        arguments.extend(manifests.iter().flat_map(|path| ["-f", path.as_str()]));
        arguments.extend(flags.split_whitespace());
        arguments.extend(exchanges.iter().flat_map(|flow| ["--send", *flow]));
        let output = transom(&arguments);
        Self { folder, output }
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// The fields of the packets that a filter passes.
    fn rows(&self, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        dissect(&self.file(), filter, fields)
    }

    /// Every checksum that tshark knows of is good.
    fn check_sums(&self) {
        let fields =
            ["ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "icmp.checksum.status"];
        let rows = self.rows("ip or ipv6", &fields);
        assert!(!rows.is_empty());
        for (row, field) in rows.iter().flat_map(|row| row.iter().zip(fields)) {
            // 3: none, which VXLAN's outer UDP may have over IPv4 (RFC 7348).
            let bad = row.split(',').filter(|status| !matches!(*status, "" | GOOD | "3")).count();
            assert_eq!(bad, 0, "{field}: {row}");
        }
        assert_eq!(self.rows("_ws.malformed", &["frame.number"]), Vec::<Vec<String>>::new());
    }
}

fn dissect(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    // Without the settings of the user who runs the tests.
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut command = Command::new("tshark");
    command
        .env("HOME", nowhere)
        .env("XDG_CONFIG_HOME", nowhere)
        .env("WIRESHARK_CONFIG_DIR", nowhere)
        .env("LC_ALL", "C.UTF-8")
        .args(["-n", "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-Y", filter])
        .args([
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
        ])
        .arg("-r")
        .arg(file);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("tshark cannot be run ({error}); `apt-get install tshark` brings it"));
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

const PATHS: &[&str] = &["cluster.yaml", "services.yaml"];
const SYN: &str = "tcp.flags.syn == 1 and tcp.flags.ack == 0";
const SYN_ACK: &str = "tcp.flags.syn == 1 and tcp.flags.ack == 1";

/// Interface, addresses and ports; two of each in a tunnel, the outer first.
const ENDS: &[&str] =
    &["frame.interface_name", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "udp.dstport", "vxlan.vni"];

/// One of the rows has these values.
fn holds(rows: &[Vec<String>], wanted: &[&str]) {
    assert!(rows.iter().any(|row| row == wanted), "no {wanted:?} in {rows:#?}");
}

#[test]
fn overlay_wraps_what_goes_to_another_node() {
    let captured = Captured::new(PATHS, "--enable-dsr", &["pod/l1=svc/far:80"]);
    assert_eq!(captured.output.status.code(), Some(0), "{}", captured.stdout());
    captured.check_sums();
    let rows = captured.rows(SYN, ENDS);
    holds(&rows, &["n1 endpoint default/l1", "10.50.1.5", "10.60.0.23", "49152", "80", "", ""]);
    for interface in ["n1 external Ethernet", "n1 adapter 0", "n3 adapter 0", "n3 external Ethernet"] {
        let outer_and_inner =
            ["192.0.2.11,10.50.1.5", "192.0.2.13,10.50.3.5", "49152", "8080", "4789", "4096"];
        holds(&rows, &[&[interface], &outer_and_inner[..]].concat());
    }
    holds(&rows, &["n3 endpoint default/r3", "10.50.1.5", "10.50.3.5", "49152", "8080", "", ""]);
    // Direct server return: the client's own port gives the answer the Service's address.
    let rows = captured.rows(SYN_ACK, ENDS);
    holds(&rows, &["n3 endpoint default/r3", "10.50.3.5", "10.50.1.5", "8080", "49152", "", ""]);
    holds(&rows, &["n1 endpoint default/l1", "10.60.0.23", "10.50.1.5", "80", "49152", "", ""]);
    // Comments tell which side of the layers a packet was seen on, and which way it went.
    let rows = captured.rows(SYN, &["frame.interface_name", "frame.comment"]);
    let at_pod: Vec<&str> =
        rows.iter().filter(|row| row[0] == "n1 endpoint default/l1").map(|row| &*row[1]).collect();
    // Twice where the first had to wait for the next hop's MAC.
    assert!(!at_pod.is_empty());
    assert!(
        at_pod.chunks(2).all(|pair| pair == ["OUT before the layers", "OUT behind the layers"]),
        "{at_pod:?}"
    );
}

#[test]
fn neighbours_are_resolved_on_the_wire() {
    let captured = Captured::new(PATHS, "", &["pod/l1=svc/linux:80"]);
    let fields = ["frame.interface_name", "arp.opcode", "arp.src.proto_ipv4", "arp.dst.proto_ipv4"];
    let rows = captured.rows("arp", &fields);
    holds(&rows, &["n1 adapter 0", "1", "192.0.2.11", "192.0.2.12"]);
    holds(&rows, &["n2 adapter 0", "2", "192.0.2.12", "192.0.2.11"]);
}

#[test]
fn without_direct_server_return_the_source_is_translated() {
    let captured = Captured::new(PATHS, "", &["pod/l1=svc/near:80"]);
    captured.check_sums();
    let rows = captured.rows(SYN, &["frame.interface_name", "ip.src", "ip.dst", "tcp.dstport"]);
    holds(&rows, &["n1 endpoint default/l1", "10.50.1.5", "10.60.0.21", "80"]);
    holds(&rows, &["n1 endpoint default/l2", "10.50.1.2", "10.50.1.6", "8080"]);
    let rows = captured.rows(SYN_ACK, &["frame.interface_name", "ip.src", "ip.dst", "tcp.srcport"]);
    holds(&rows, &["n1 endpoint default/l1", "10.60.0.21", "10.50.1.5", "80"]);
}

#[test]
fn a_bridge_rewrites_macs_where_packets_leave_and_come() {
    let captured = Captured::new(PATHS, "--network l2bridge --enable-dsr", &["pod/l1=svc/linux:80"]);
    captured.check_sums();
    let fields = ["frame.interface_name", "frame.comment", "eth.src", "eth.dst", "ip.dst"];
    let rows = captured.rows(SYN_ACK, &fields);
    let at = |comment: &str| {
        let found = rows.iter().find(|row| row[0] == "n1 external Ethernet" && row[1] == comment);
        found.unwrap_or_else(|| panic!("no {comment} in {rows:#?}"))
    };
    let (before, behind) = (at("OUT before the layers"), at("OUT behind the layers"));
    assert_eq!((&before[2], &before[4]), (&behind[2], &behind[4]), "only the destination MAC is rewritten");
    let own = captured.rows(&format!("{SYN} and ip.src == 10.50.1.5"), &fields);
    let pod = &own.iter().find(|row| row[0] == "n1 endpoint default/l1").expect("it was sent")[2];
    let node = &own.iter().find(|row| row[0] == "n1 adapter 0").expect("it left the node")[2];
    assert_ne!(pod, node);
    assert_eq!((&before[3], &behind[3]), (node, pod), "the node's MAC becomes the pod's");
    assert!(captured.rows("vxlan", &["frame.number"]).is_empty());
}

#[test]
fn datagrams_and_icmp() {
    let captured = Captured::new(PATHS, "", &["pod/l1=svc/far:80/udp", "pod/l1=pod/l2:9/udp"]);
    assert_eq!(captured.output.status.code(), Some(1), "the second is refused");
    assert!(captured.stdout().contains("pod/l1=pod/l2:9/udp: refused\n"), "{}", captured.stdout());
    captured.check_sums();
    let fields = ["frame.interface_name", "ip.src", "ip.dst", "udp.dstport", "vxlan.vni"];
    let rows = captured.rows("udp", &fields);
    holds(&rows, &["n1 endpoint default/l1", "10.50.1.5", "10.60.0.23", "80", ""]);
    holds(&rows, &["n3 adapter 0", "192.0.2.11,10.50.1.2", "192.0.2.13,10.50.3.5", "4789,8080", "4096"]);
    let fields = ["frame.interface_name", "icmp.type", "icmp.code", "ip.src", "udp.dstport"];
    let rows = captured.rows("icmp", &fields);
    // The error's own source, then that of the packet that it quotes.
    holds(&rows, &["n1 endpoint default/l1", "3", "3", "10.50.1.6,10.50.1.5", "9"]);
}

#[test]
fn addresses_of_the_other_family() {
    let captured =
        Captured::new(&["cluster-ipv6.yaml"], "--network l2bridge --enable-dsr", &["pod/l1=svc/far:80"]);
    assert_eq!(captured.output.status.code(), Some(0), "{}", captured.stdout());
    captured.check_sums();
    let rows = captured.rows(SYN, &["frame.interface_name", "ipv6.src", "ipv6.dst", "tcp.dstport"]);
    holds(&rows, &["n1 endpoint default/l1", "2001:db8:50:1::5", "2001:db8:60::23", "80"]);
    holds(&rows, &["n3 endpoint default/r3", "2001:db8:50:1::5", "2001:db8:50:3::5", "8080"]);
    assert!(!captured.rows("icmpv6.type == 135", &["frame.number"]).is_empty(), "neighbour solicitations");
}

#[test]
fn a_dropped_packet_tells_the_reason_and_the_rule() {
    let mut plan = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a temporary file");
    std::io::Write::write_all(&mut plan, BLOCK.as_bytes()).expect("it is written");
    let flags = format!("--enable-dsr --faults {}", plan.path().display());
    let captured = Captured::new(PATHS, &flags, &["pod/l1=svc/near:80"]);
    assert_eq!(captured.output.status.code(), Some(1), "{}", captured.stdout());
    let fields = ["frame.interface_name", "frame.comment", "ip.dst"];
    let rows = captured.rows("frame.comment contains \"dropped\"", &fields);
    assert!(!rows.is_empty(), "{}", captured.stdout());
    for row in &rows {
        assert_eq!((&*row[0], &*row[2]), ("n1 endpoint default/l2", "10.50.1.6"));
        assert!(row[1].contains("dropped: Acl: a rule blocks it"), "{row:?}");
        assert!(row[1].contains("of ACL_ENDPOINT_LAYER/ACL_ENDPOINT_GROUP_IPV4_IN"), "{row:?}");
    }
}

#[test]
fn one_interface_for_each_port_and_adapter() {
    let captured = Captured::new(PATHS, "--only-node", &["pod/l1=svc/near:80", "pod/l1=svc/far:80"]);
    let mut names: Vec<String> =
        captured.rows("frame", &["frame.interface_name"]).into_iter().map(|mut row| row.remove(0)).collect();
    names.sort();
    names.dedup();
    assert_eq!(
        names,
        [
            "n1 adapter 0",
            "n1 endpoint default/l1",
            "n1 endpoint default/l2",
            "n1 external Ethernet",
            "n1 host vEthernet (Ethernet)"
        ]
    );
    let rows = captured.rows("frame", &["frame.interface_id", "frame.interface_description"]);
    let of_port = rows.iter().filter(|row| row[1].starts_with("port "));
    assert!(of_port.count() > 0, "ports are described by their name in the switch");
}

#[test]
fn standard_output_gets_the_capture_and_nothing_else() {
    let captured = Captured::new(PATHS, "", &["pod/l1=svc/near:80"]);
    let paths: Vec<String> = PATHS.iter().map(|name| manifest(name)).collect();
    let output = transom(&[
        "capture",
        "-w",
        "-",
        "--node",
        "n1",
        "-f",
        &paths[0],
        "-f",
        &paths[1],
        "--send",
        "pod/l1=svc/near:80",
    ]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, std::fs::read(captured.file()).expect("the capture"), "the same in every run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("pod/l1=svc/near:80: answered by default/l2"), "{told}");
    // A reader that goes away is no failure.
    let mut child = Command::new(env!("CARGO_BIN_EXE_transom"))
        .args(["capture", "-w", "-", "--node", "n1", "-f", &paths[0], "-f", &paths[1]])
        .args(["--send", "pod/l1=svc/near:80"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn nothing_is_written_when_somebody_is_unknown() {
    let captured = Captured::new(PATHS, "", &["pod/l1=svc/near:80", "pod/l1=svc/nobody:80"]);
    assert_eq!(captured.output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&captured.output.stderr);
    assert!(told.contains("there is no Service nobody"), "{told}");
    assert!(!captured.file().exists());
}
