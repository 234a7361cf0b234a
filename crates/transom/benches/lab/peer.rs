//! The peer: two nodes with Open vSwitch, whose userspace datapath does what the labs' nodes do: a Service's address is
//! translated with connection tracking, packets for the other node go through VXLAN.
//!
//! Each node has a vswitchd of its own in a namespace of its own, because the end of a tunnel in user space uses its
//! namespace's routes. Nothing is shared with an Open vSwitch that the machine may run.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use lab::netns::Netns;
use tempfile::TempDir;

use crate::programs::run;
use crate::system::{CLIENT, FAR, NEAR, PORT, SERVICE, System};

/// Programs that are needed, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 8] = [
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovsdb-tool", "openvswitch-common"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-common"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("setsid", "util-linux"),
];
/// What pods send everything to; it answers nothing, so pods know its address.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
const GATEWAY_MAC: &str = "02:00:00:00:00:fe";
const NODES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 11), Ipv4Addr::new(192, 0, 2, 12)];
/// The OpenFlow number of the tunnel's port; pods count from 1.
const TUNNEL: usize = 100;

/// What is missing on this machine.
pub(crate) fn missing() -> Vec<String> {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        let argument = if program == "ip" { "-V" } else { "--version" };
        command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let missing = PROGRAMS.iter().filter(|(program, _)| !runs(program));
    missing.map(|(program, package)| format!("{program} (package {package})")).collect()
}

/// Its name and version.
fn name() -> Result<String> {
    let output = Command::new("ovs-vswitchd").arg("--version").output().context("ovs-vswitchd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version =
        text.lines().next().and_then(|line| line.split_whitespace().next_back()).unwrap_or_default();
    Ok(format!("Open vSwitch {version}"))
}

/// A pod: its namespace's last word, its address, the node it is on.
#[derive(Clone, Copy)]
struct Pod {
    name: &'static str,
    address: Ipv4Addr,
    node: usize,
}

impl Pod {
    fn mac(self) -> String {
        let [_, _, node, number] = self.address.octets();
        format!("02:00:00:00:{node:02x}:{number:02x}")
    }
}

const PODS: [Pod; 3] = [
    Pod { name: "client", address: CLIENT, node: 0 },
    Pod { name: "near", address: NEAR, node: 0 },
    Pod { name: "far", address: FAR, node: 1 },
];

fn namespace(name: &str) -> String {
    format!("transom-bench-{}.{name}", std::process::id())
}

/// A namespace that goes with this.
struct Namespace(Netns);

impl Namespace {
    fn new(name: &str) -> Result<Self> {
        Ok(Self(Netns::create(&namespace(name))?))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = Netns::delete(self.0.name()) {
            crate::say(&format!("a namespace is left: {error}"));
        }
    }
}

/// A program that runs as long as this.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes of a node and the folder for their files.
struct Switch {
    folder: PathBuf,
    daemons: Vec<Daemon>,
}

impl Switch {
    /// Starts the database and the switch in a node's namespace.
    fn start(folder: PathBuf, node: &Netns) -> Result<Self> {
        fs::create_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        let mut switch = Self { folder, daemons: Vec::new() };
        let path = |name: &str| switch.folder.join(name);
        let database = path("conf.db");
        run(switch.program("ovsdb-tool").arg("create").arg(&database), "")?;
        // The kernel may share processors out by session: as a lab's processes, these are not in the generators'.
        let mut server = switch.program("setsid");
        server.arg("ovsdb-server");
        server.arg(format!("--remote=punix:{}", path("db.sock").display()));
        server.arg(format!("--unixctl={}", path("ovsdb-server.ctl").display())).arg(&database);
        let mut daemon = switch.program("setsid");
        daemon.arg("ovs-vswitchd");
        // Never the kernel's datapath.
        daemon.arg("--disable-system").arg(format!("--unixctl={}", path("ovs-vswitchd.ctl").display()));
        daemon.arg(switch.database());
        for (mut command, name) in [(server, "ovsdb-server"), (daemon, "ovs-vswitchd")] {
            let log = File::create(path(name).with_extension("log")).context("a log")?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let child = node.run(|| command.spawn())?.with_context(|| format!("cannot start {name}"))?;
            switch.daemons.push(Daemon(child));
        }
        run(switch.control().args(["--", "init"]), "")?;
        Ok(switch)
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.folder);
        }
        command
    }

    fn database(&self) -> String {
        format!("unix:{}", self.folder.join("db.sock").display())
    }

    /// `ovs-vsctl`, which waits until the switch has done what it is told.
    fn control(&self) -> Command {
        let mut command = self.program("ovs-vsctl");
        command.args(["--retry", "--timeout=30"]).arg(format!("--db={}", self.database()));
        command
    }

    /// Makes the bridges: one for pods and the tunnel, one for the wire, whose own port has the node's address.
    fn bridges(&self, node: usize) -> Result<()> {
        let mut words = vec!["-- add-br br-phy -- set bridge br-phy datapath_type=netdev".to_owned()];
        words.push("-- add-port br-phy wire".to_owned());
        words.push("-- add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure".to_owned());
        for (number, pod) in PODS.iter().filter(|pod| pod.node == node).enumerate() {
            words.push(format!(
                "-- add-port br-int {0} -- set interface {0} ofport_request={1}",
                pod.name,
                number + 1
            ));
        }
        words.push(format!(
            "-- add-port br-int tunnel -- set interface tunnel type=vxlan ofport_request={TUNNEL} \
             options:remote_ip={} options:dst_port=4789 options:key=4096",
            NODES[1 - node]
        ));
        let line = words.join(" ");
        run(self.control().args(line.split_whitespace()), "")
    }

    fn flows(&self, node: usize) -> Result<()> {
        run(self.program("ovs-ofctl").args(["--bundle", "add-flows", "br-int", "-"]), &flows(node))
    }
}

/// A node's flows: known connections as they were decided, the Service's new ones to its pod, then by address.
fn flows(node: usize) -> String {
    let mut text = String::from(
        "table=0,priority=10,ip,actions=ct(table=1,nat)\n\
         table=1,priority=20,ct_state=+trk+est,ip,actions=resubmit(,2)\n\
         table=1,priority=5,ct_state=+trk+new,ip,actions=ct(commit,table=2)\n",
    );
    let (address, port) = (SERVICE.ip(), SERVICE.port());
    for protocol in ["tcp", "udp"] {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "table=1,priority=10,ct_state=+trk+new,{protocol},nw_dst={address},tp_dst={port},\
             actions=ct(commit,nat(dst={FAR}:{PORT}),table=2)"
        );
    }
    let mut number = 0;
    for pod in PODS {
        let port = if pod.node == node {
            number += 1;
            number
        } else {
            TUNNEL
        };
        let _ = writeln!(
            text,
            "table=2,priority=10,ip,nw_dst={},actions=mod_dl_dst:{},output:{port}",
            pod.address,
            pod.mac()
        );
    }
    text
}

/// A pod's namespace and its link to its node, without offloads: the datapath knows none.
fn pod(pod: Pod) -> Result<Namespace> {
    let made = Namespace::new(pod.name)?;
    let (own, node) = (made.0.name(), namespace(["one", "two"][pod.node]));
    let mac = pod.mac();
    ip(
        own,
        &format!(
            "link add eth0 address {mac} mtu 1450 type veth peer name {} mtu 1450 netns {node}\n\
             link set eth0 up\n\
             address add {}/32 dev eth0\n\
             route add {GATEWAY} dev eth0\n\
             route add default via {GATEWAY} dev eth0\n\
             neighbour add {GATEWAY} lladdr {GATEWAY_MAC} dev eth0 nud permanent\n",
            pod.name, pod.address
        ),
    )?;
    ip(&node, &format!("link set {} up\n", pod.name))?;
    offloads_off(own, "eth0")?;
    offloads_off(&node, pod.name)?;
    Ok(made)
}

fn ip(namespace: &str, script: &str) -> Result<()> {
    run(Command::new("ip").args(["-n", namespace, "-batch", "-"]), script).with_context(|| script.to_owned())
}

fn offloads_off(namespace: &str, device: &str) -> Result<()> {
    let line = format!("netns exec {namespace} ethtool -K {device} tx off tso off gso off gro off");
    run(Command::new("ip").args(line.split(' ')), "")
}

/// Everything that is made. Fields go in this order: processes before what they use.
struct Peer {
    _switches: Vec<Switch>,
    _namespaces: Vec<Namespace>,
    _folder: TempDir,
}

/// Makes the peer.
pub(crate) fn up() -> Result<System> {
    let folder = tempfile::tempdir().context("a folder for Open vSwitch")?;
    let mut namespaces = vec![Namespace::new("one")?, Namespace::new("two")?];
    let nodes = [namespace("one"), namespace("two")];
    ip(
        &nodes[0],
        &format!(
            "link add wire mtu 1500 type veth peer name wire mtu 1500 netns {}\nlink set wire up\n",
            nodes[1]
        ),
    )?;
    ip(&nodes[1], "link set wire up\n")?;
    for node in &nodes {
        offloads_off(node, "wire")?;
    }
    for one in PODS {
        namespaces.push(pod(one)?);
    }
    let mut switches = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        switches
            .push(switch(folder.path(), number, node).with_context(|| format!("Open vSwitch in {node}"))?);
    }
    let [client, near, far] = PODS.map(|pod| namespace(pod.name));
    let made = Peer { _switches: switches, _namespaces: namespaces, _folder: folder };
    System::new(name()?, &client, &near, &far, Box::new(made))
}

fn switch(folder: &Path, number: usize, node: &str) -> Result<Switch> {
    let switch = Switch::start(folder.join(number.to_string()), &Netns::open(node)?)?;
    switch.bridges(number)?;
    ip(node, &format!("address add {}/24 dev br-phy\nlink set br-phy up\n", NODES[number]))?;
    switch.flows(number)?;
    Ok(switch)
}
