//! What a lab needs of the machine: all that is missing is told at once, with what to do about it, before anything is
//! made. What is missing is a pure function of what was found.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::thread::{CapabilitySet, UnshareFlags};

use crate::netns::FOLDER;

/// What a lab will have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Windows nodes, whose ports are TAP devices.
    pub windows: bool,
    /// Linux nodes on an overlay.
    pub vxlan: bool,
    /// Linux nodes, which serve Services.
    pub nft: bool,
}

/// What was found on the machine. An error's text is that of the system or of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The right to change networks (`CAP_NET_ADMIN`).
    pub net_admin: bool,
    /// The right to make namespaces and mounts (`CAP_SYS_ADMIN`).
    pub sys_admin: bool,
    /// `ip` runs.
    pub ip: Result<(), String>,
    /// `bridge` runs.
    pub bridge: Result<(), String>,
    /// `nft` runs.
    pub nft: Result<(), String>,
    /// `/dev/net/tun` can be opened.
    pub tun: Result<(), String>,
    /// Namespaces can be given names.
    pub folder: Result<(), String>,
    /// A network namespace can be made.
    pub namespace: Result<(), String>,
    /// In it a bridge can be made.
    pub bridges: Result<(), String>,
    /// In it a veth pair can be made.
    pub pairs: Result<(), String>,
    /// In it a VXLAN device can be made.
    pub vxlans: Result<(), String>,
    /// In it nftables' rules for translations can be made.
    pub rules: Result<(), String>,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {remedy}")]
pub struct Missing {
    /// What.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// All that is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine lacks what a lab needs:{}", list(.0))]
pub struct Needs(pub Vec<Missing>);

fn list(missing: &[Missing]) -> String {
    missing.iter().fold(String::new(), |list, one| list + "\n  " + &one.to_string())
}

const PRIVILEGES: &str = "run as root, or inside `unshare --user --map-root-user --net --mount`";

/// What is missing for a lab. What cannot be tried for want of something else is not told besides.
pub fn missing(uses: Uses, found: &Found) -> Result<(), Needs> {
    let mut missing = Vec::new();
    let mut lacks = |what: String, remedy| missing.push(Missing { what, remedy });
    for (has, name) in [(found.net_admin, "CAP_NET_ADMIN"), (found.sys_admin, "CAP_SYS_ADMIN")] {
        if !has {
            lacks(format!("the privilege {name} is missing"), PRIVILEGES);
        }
    }
    let programs = [
        (&found.ip, "ip", true, "install the package iproute2"),
        // It comes with the other one.
        (&found.bridge, "bridge", uses.vxlan && found.ip.is_ok(), "install the package iproute2"),
        (&found.nft, "nft", uses.nft, "install the package nftables"),
    ];
    for (runs, program, needed, remedy) in programs {
        if let Err(error) = runs
            && needed
        {
            lacks(format!("the program {program} does not run ({error})"), remedy);
        }
    }
    if uses.windows
        && let Err(error) = &found.tun
    {
        let remedy =
            "load the kernel's module tun; in a container, pass the device on (`--device /dev/net/tun`)";
        lacks(format!("/dev/net/tun cannot be opened ({error})"), remedy);
    }
    if found.net_admin && found.sys_admin {
        if let Err(error) = &found.folder {
            let remedy =
                "make /run writable; in a user namespace with its own mounts: `mount -t tmpfs tmpfs /run`";
            lacks(format!("{FOLDER} cannot be written to ({error})"), remedy);
        }
        let kernel = |has: &Result<(), String>, what: &str, needed: bool| {
            let error = has.as_ref().err().filter(|_| needed)?;
            Some(format!("the kernel makes no {what} ({error})"))
        };
        if let Some(what) = kernel(&found.namespace, "network namespaces", true) {
            lacks(what, "use a kernel with CONFIG_NET_NS; in a container, allow unshare and mount");
        } else {
            let devices = [
                (&found.bridges, "bridges", found.ip.is_ok(), "load the kernel's module bridge"),
                (&found.pairs, "veth pairs", found.ip.is_ok(), "load the kernel's module veth"),
                (
                    &found.vxlans,
                    "VXLAN devices",
                    found.ip.is_ok() && uses.vxlan,
                    "load the kernel's module vxlan",
                ),
                (
                    &found.rules,
                    "nftables rules for translations",
                    found.nft.is_ok() && uses.nft,
                    "load the kernel's modules nf_tables, nft_nat, nft_masq, nft_fib_inet, nft_numgen, nft_hash and \
                     nft_reject_inet",
                ),
            ];
            for (has, what, needed, remedy) in devices {
                if let Some(what) = kernel(has, what, needed) {
                    lacks(what, remedy);
                }
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Needs(missing)) }
}

impl Found {
    /// Looks. Devices are tried in a namespace without a name, which is gone afterwards.
    pub fn look() -> Self {
        let effective = rustix::thread::capabilities(None).map(|sets| sets.effective);
        let has = |capability| effective.as_ref().is_ok_and(|effective| effective.contains(capability));
        let [namespace, bridges, pairs, vxlans, rules] = trials();
        Self {
            net_admin: has(CapabilitySet::NET_ADMIN),
            sys_admin: has(CapabilitySet::SYS_ADMIN),
            ip: runs("ip", "-V"),
            bridge: runs("bridge", "-V"),
            nft: runs("nft", "--version"),
            tun: text(OpenOptions::new().read(true).write(true).open("/dev/net/tun")),
            folder: text(folder()),
            namespace,
            bridges,
            pairs,
            vxlans,
            rules,
        }
    }
}

/// Looks and tells what is missing.
pub fn check(uses: Uses) -> Result<(), Needs> {
    missing(uses, &Found::look())
}

fn text<T>(done: io::Result<T>) -> Result<(), String> {
    done.map(|_| ()).map_err(|error| error.to_string())
}

fn runs(program: &str, argument: &str) -> Result<(), String> {
    let ended = crate::build::feed(Command::new(program).arg(argument), "");
    ended.map_err(|error| error.to_string())?
}

/// Whether names can be made, or the folder for them, which is then left.
fn folder() -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    Ok(rustix::fs::access(Path::new(FOLDER), rustix::fs::Access::WRITE_OK)?)
}

/// Rules of each kind that a node's script has.
const RULES: &str = "table inet transom {
  chain prerouting {
    type nat hook prerouting priority -100;
    fib daddr type local meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 192.0.2.1 . 1, 1 : 192.0.2.2 . 1 }
    meta l4proto tcp dnat ip6 to jhash ip6 saddr mod 2 map { 0 : 2001:db8::1 . 1, 1 : 2001:db8::2 . 1 }
    reject with icmpx port-unreachable
  }
  chain postrouting {
    type nat hook postrouting priority 100;
    masquerade fully-random
  }
}
";

/// A namespace, and in it a bridge, a veth pair, a VXLAN device, rules.
fn trials() -> [Result<(), String>; 5] {
    let ip = |line: &str| {
        let mut command = Command::new("ip");
        command.args(line.split(' '));
        crate::build::feed(&mut command, "").map_err(|error| error.to_string())?
    };
    let trial = || {
        // SAFETY: nothing but the network namespace of this thread, which ends at once, is no longer shared.
        #[expect(unsafe_code, reason = "leaving a namespace has no safe function")]
        let left = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
        if let Err(errno) = left {
            let error: Result<(), String> = Err(errno.to_string());
            return std::array::from_fn(|_| error.clone());
        }
        let rules = crate::build::feed(Command::new("nft").args(["-f", "-"]), RULES);
        [
            Ok(()),
            ip("link add t0 type bridge"),
            ip("link add t1 type veth peer name t2"),
            ip("link add t3 type vxlan id 4096 local 127.0.0.1 dstport 4789 nolearning"),
            rules.map_err(|error| error.to_string()).and_then(|done| done),
        ]
    };
    std::thread::scope(|scope| scope.spawn(trial).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Found {
        Found {
            net_admin: true,
            sys_admin: true,
            ip: Ok(()),
            bridge: Ok(()),
            nft: Ok(()),
            tun: Ok(()),
            folder: Ok(()),
            namespace: Ok(()),
            bridges: Ok(()),
            pairs: Ok(()),
            vxlans: Ok(()),
            rules: Ok(()),
        }
    }

    const ALL: Uses = Uses { windows: true, vxlan: true, nft: true };

    #[test]
    fn nothing_is_missing_where_everything_is() {
        assert_eq!(missing(ALL, &everything()), Ok(()));
    }

    #[test]
    fn what_is_missing_is_told_with_its_remedy() {
        type Take = fn(&mut Found, Result<(), String>);
        let no = || Err("no such thing".to_owned());
        // What is taken away, the words that are told, and whether a lab without nodes needs it.
        let cases: [(Take, &[&str], bool); 12] = [
            (|found, _| found.net_admin = false, &["CAP_NET_ADMIN", "unshare --user"], true),
            (|found, _| found.sys_admin = false, &["CAP_SYS_ADMIN", "root"], true),
            (|found, no| found.ip = no, &["program ip ", "iproute2"], true),
            (|found, no| found.bridge = no, &["program bridge ", "iproute2"], false),
            (|found, no| found.nft = no, &["program nft ", "nftables"], false),
            (|found, no| found.tun = no, &["/dev/net/tun", "no such thing", "module tun"], false),
            (|found, no| found.folder = no, &["/run/netns", "tmpfs"], true),
            (|found, no| found.namespace = no, &["network namespaces", "CONFIG_NET_NS"], true),
            (|found, no| found.bridges = no, &["bridges", "module bridge"], true),
            (|found, no| found.pairs = no, &["veth pairs", "module veth"], true),
            (|found, no| found.vxlans = no, &["VXLAN devices", "module vxlan"], false),
            (|found, no| found.rules = no, &["nftables rules", "nf_tables"], false),
        ];
        for (take, words, always) in cases {
            let mut found = everything();
            take(&mut found, no());
            let Err(needs) = missing(ALL, &found) else { panic!("{words:?} is not told") };
            assert_eq!(needs.0.len(), 1, "{needs}");
            for word in words {
                assert!(needs.to_string().contains(word), "{needs}: {word}");
            }
            assert_eq!(missing(Uses::default(), &found).is_err(), always, "{words:?}");
        }
    }

    #[test]
    fn all_is_told_at_once_but_not_what_follows_from_it() {
        let mut found = everything();
        found.ip = Err("no such file".to_owned());
        found.nft = Err("no such file".to_owned());
        found.tun = Err("permission denied".to_owned());
        found.bridges = Err("ip: no such program".to_owned());
        found.rules = Err("nft: no such program".to_owned());
        assert_eq!(missing(ALL, &found).unwrap_err().0.len(), 3);
        found.net_admin = false;
        found.sys_admin = false;
        found.namespace = Err("operation not permitted".to_owned());
        found.folder = Err("permission denied".to_owned());
        assert_eq!(missing(ALL, &found).unwrap_err().0.len(), 5);
    }

    #[test]
    fn a_machine_that_runs_these_tests_has_everything() {
        assert_eq!(Found::look(), everything());
    }
}
