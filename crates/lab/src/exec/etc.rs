//! What a pod's programs find in `/etc`, as kubelet writes it.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use crate::dns::DOMAIN;

/// The longest host name that kubelet gives a pod.
const LONGEST_HOSTNAME: usize = 63;

/// How many name servers a resolver takes (resolv.conf(5)).
const SERVERS: usize = 3;

/// What is needed of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its addresses.
    pub addresses: &'a [IpAddr],
}

/// Whose way of looking names up is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// A Linux pod's: three suffixes, which go before the name itself unless it holds five dots.
    Linux,
    /// A Windows pod's: a name without a dot gets the suffix of the pod's namespace, any other is asked for as it is.
    ///
    /// Programs in a lab look names up with Linux' resolver all the same. It is given this one suffix and `ndots:1`: a
    /// name without a dot gets the suffix, as on Windows. A name that holds one is asked for as it is; if it does not
    /// exist, the resolver tries the suffix behind it after all, which Windows does not. The outcome is the same:
    /// `orders.legacy` would need the suffix `svc.cluster.local` to be found, and what it becomes,
    /// `orders.legacy.shop.svc.cluster.local`, does not exist. Only a host of a headless Service in the pod's own
    /// namespace, `HOST.SERVICE`, is found that Windows would not find.
    Windows,
}

/// The files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcFiles {
    /// `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// `/etc/hosts`.
    pub hosts: String,
    /// `/etc/hostname`: the host name and the end of its line.
    pub hostname: String,
}

impl EtcFiles {
    /// Writes them into a folder, which is made if it is not there.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("resolv.conf"), &self.resolv_conf)?;
        fs::write(folder.join("hosts"), &self.hosts)?;
        fs::write(folder.join("hostname"), &self.hostname)
    }

    /// The host name.
    pub fn host(&self) -> &str {
        self.hostname.trim_end()
    }
}

/// The files of a pod whose names `servers` answer for. No server: names are looked up in `hosts` only.
pub fn etc_files(pod: Identity<'_>, servers: &[IpAddr], resolver: Resolver) -> EtcFiles {
    let own = format!("{}.svc.{DOMAIN}", pod.namespace);
    let (search, ndots) = match resolver {
        Resolver::Linux => (format!("{own} svc.{DOMAIN} {DOMAIN}"), 5),
        Resolver::Windows => (own, 1),
    };
    let mut resolv_conf = String::new();
    // Writing to a String cannot fail.
    for server in servers.iter().take(SERVERS) {
        let _ = writeln!(resolv_conf, "nameserver {server}");
    }
    let _ = write!(resolv_conf, "search {search}\noptions ndots:{ndots}\n");
    let host = hostname(pod.name);
    let mut hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    for address in pod.addresses {
        let _ = writeln!(hosts, "{address}\t{host}");
    }
    EtcFiles { resolv_conf, hosts, hostname: format!("{host}\n") }
}

/// A pod's name, cut to what a host name may be; it does not end with a dash or dot.
fn hostname(name: &str) -> &str {
    name.get(..LONGEST_HOSTNAME).unwrap_or(name).trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_s_files_are_those_of_its_system() {
        let addresses = ["10.244.1.5".parse().unwrap(), "2001:db8::5".parse().unwrap()];
        let pod = Identity { namespace: "shop", name: "web-1", addresses: &addresses };
        let servers = ["10.96.0.10".parse().unwrap()];
        let linux = etc_files(pod, &servers, Resolver::Linux);
        assert_eq!(
            linux.resolv_conf,
            "nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
        );
        assert!(linux.hosts.ends_with("10.244.1.5\tweb-1\n2001:db8::5\tweb-1\n"));
        assert_eq!(linux.host(), "web-1");
        let windows = etc_files(pod, &servers, Resolver::Windows);
        assert_eq!(
            windows.resolv_conf,
            "nameserver 10.96.0.10\nsearch shop.svc.cluster.local\noptions ndots:1\n"
        );
        assert_eq!((windows.hosts, windows.hostname), (linux.hosts, linux.hostname));
    }

    #[test]
    fn long_names_are_cut_to_host_names() {
        let name = format!("{}-{}", "a".repeat(62), "b".repeat(20));
        assert_eq!(hostname(&name), "a".repeat(62));
        assert_eq!(hostname("web.v1"), "web.v1");
    }
}
