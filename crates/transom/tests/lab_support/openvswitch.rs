//! Open vSwitch's userspace datapath in a node's network namespace, in place of the kernel's bridge and tunnel: a peer
//! whose VXLAN neither the kernel nor this project wrote.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::Lab;

/// Where Debian's package keeps the database's schema.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// The tunnel's network.
const VNI: u32 = 4096;

/// The way to the pods of another node.
pub(crate) struct Tunnel {
    /// The node.
    pub(crate) remote: String,
    /// The MAC that its pods' router has in the tunnel.
    pub(crate) router: String,
    /// The pods.
    pub(crate) pods: String,
}

/// What is behind the switch.
pub(crate) struct Behind<'a> {
    /// The node whose namespace it works in.
    pub(crate) node: &'a str,
    /// The node's address.
    pub(crate) node_address: &'a str,
    /// The MAC that others send to in the tunnel.
    pub(crate) mac: &'a str,
    /// The pod.
    pub(crate) pod: &'a str,
    /// The pod's address.
    pub(crate) pod_address: &'a str,
    /// The pod's router.
    pub(crate) gateway: &'a str,
}

/// A switch that ends with this value.
pub(crate) struct Switch<'a> {
    lab: &'a Lab,
    node: String,
    folder: TempDir,
    processes: Vec<Child>,
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl<'a> Switch<'a> {
    /// Puts a pod's cable and a node's uplink into a new switch, with the ways to other nodes.
    pub(crate) fn start(lab: &'a Lab, behind: &Behind<'_>, tunnels: &[Tunnel]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = format!("node/{}", behind.node);
        let mut switch = Self { lab, node: place.clone(), folder, processes: Vec::new() };
        // It reads what the kernel hands out as it is: whole frames with checksums.
        let uplink = lab.other_end(&place, "eth0", "underlay");
        lab.without_offloads("underlay", &uplink);
        lab.without_offloads(behind.pod, "eth0");
        let cable = lab.other_end(behind.pod, "eth0", &place);
        lab.run(&place, &["ip", "link", "set", "dev", &cable, "nomaster"]);
        switch.spawn();
        // The uplink's bridge takes over the node's address: the tunnel's packets are routed by it.
        let ip = |words: &str| lab.run(&place, &words.split(' ').collect::<Vec<_>>());
        let Behind { node_address, mac, pod_address, gateway, .. } = behind;
        let uplink = lab.link(&place, "eth0", "address");
        switch.vsctl(&format!(
            "add-br up -- set bridge up datapath_type=netdev other-config:hwaddr={uplink} -- add-port up eth0"
        ));
        switch.vsctl("add-br pods -- set bridge pods datapath_type=netdev fail-mode=secure");
        switch.vsctl(&format!("add-port pods {cable} -- set interface {cable} ofport_request=1"));
        switch.vsctl(&format!(
            "add-port pods tunnel -- set interface tunnel type=vxlan options:remote_ip=flow options:key={VNI} ofport_request=2"
        ));
        ip(&format!("ip addr del {node_address}/24 dev eth0"));
        ip("ip link set dev up up");
        ip(&format!("ip addr add {node_address}/24 dev up"));
        // Nobody asks for addresses: the pod knows its router, the flows know everybody's MAC.
        lab.run(
            behind.pod,
            &["ip", "neigh", "replace", gateway, "lladdr", mac, "dev", "eth0", "nud", "permanent"],
        );
        let pod_mac = lab.link(behind.pod, "eth0", "address");
        switch.flow(&format!(
            "in_port=2,ip,dl_dst={mac},nw_dst={pod_address},actions=set_field:{mac}->eth_src,set_field:{pod_mac}->eth_dst,dec_ttl,output:1"
        ));
        for Tunnel { remote, router, pods } in tunnels {
            switch.flow(&format!(
                "in_port=1,ip,nw_dst={pods},actions=set_field:{mac}->eth_src,set_field:{router}->eth_dst,set_field:{remote}->tun_dst,dec_ttl,output:2"
            ));
        }
        switch
    }

    /// Starts the database and the switch itself.
    fn spawn(&mut self) {
        let folder = self.folder.path().to_owned();
        let database = folder.join("conf.db");
        let made = Command::new("ovsdb-tool").arg("create").arg(&database).arg(SCHEMA).output();
        let made = made.expect("ovsdb-tool starts");
        assert!(made.status.success(), "ovsdb-tool: {}", String::from_utf8_lossy(&made.stderr));
        let log = |command: &mut Command| {
            command.args(["--no-chdir", "-vconsole:warn", "-vsyslog:off", "-vfile:off"]);
            command.env("OVS_RUNDIR", &folder).env("OVS_LOGDIR", &folder).env("OVS_DBDIR", &folder);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        };
        let mut server = Command::new("ovsdb-server");
        server.arg(&database).arg(format!("--remote=p{}", address(&folder)));
        log(&mut server);
        self.processes.push(server.spawn().expect("ovsdb-server starts"));
        self.lab.until("the database listens", || folder.join("db.sock").exists());
        self.vsctl_without_wait("init");
        let mut daemon = Command::new("ovs-vswitchd");
        // Without the kernel's own datapath.
        daemon.arg(address(&folder)).arg("--disable-system");
        log(&mut daemon);
        let netns = self.lab.netns(&self.node);
        let daemon = netns.run(|| daemon.spawn()).expect("the namespace is there");
        self.processes.push(daemon.expect("ovs-vswitchd starts"));
    }

    fn call(&self, program: &str, words: &[&str]) -> String {
        let mut all = vec!["env".to_owned(), format!("OVS_RUNDIR={}", self.folder.path().display())];
        all.push(program.to_owned());
        all.extend(words.iter().map(|word| (*word).to_owned()));
        self.lab.run(&self.node, &all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn vsctl_without_wait(&self, words: &str) {
        let database = format!("--db={}", address(self.folder.path()));
        self.call("ovs-vsctl", &[&database, "--no-wait", words]);
    }

    /// Changes the configuration and waits until the switch has it.
    fn vsctl(&self, words: &str) {
        let database = format!("--db={}", address(self.folder.path()));
        let words: Vec<&str> = words.split(' ').collect();
        self.call("ovs-vsctl", &[&[&*database, "--timeout=30", "--"], &words[..]].concat());
    }

    fn flow(&self, flow: &str) {
        self.call("ovs-ofctl", &["-O", "OpenFlow13", "add-flow", "pods", flow]);
    }

    /// How many packets took the flows.
    pub(crate) fn forwarded(&self) -> u64 {
        let flows = self.call("ovs-ofctl", &["-O", "OpenFlow13", "dump-flows", "pods"]);
        let counts =
            flows.split("n_packets=").skip(1).filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
        counts.sum()
    }
}

fn address(folder: &Path) -> String {
    format!("unix:{}", folder.join("db.sock").display())
}
