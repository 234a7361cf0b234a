//! The supervisor's side: which sockets the responder has, and how it comes to others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use node::app::Transport;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use thiserror::Error;

use super::message::{Open, Reply, Service, ToResponder};
use crate::dns::Zone;
use crate::handover::Channel;

/// How many connections wait to be accepted: as many as the kernel admits by default.
const BACKLOG: i32 = 4_096;

/// A port that is to be answered on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The network namespace.
    pub namespace: String,
    /// Whom answers tell: a pod as `namespace/name`, a node's name, an address.
    pub name: String,
    /// The node that it is on, if it is known.
    pub node: Option<String>,
    /// All addresses of the namespace that clients may use. A datagram must be answered from the address that was
    /// asked, so each address gets a socket of its own; a connection has its address anyway.
    pub addresses: BTreeSet<IpAddr>,
    /// Over what.
    pub transport: Transport,
    /// The port.
    pub port: u16,
    /// What is done there.
    pub service: Service,
}

/// Why a port is not answered on.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Somebody else has it.
    #[error(
        "{name}: {transport} port {port} is taken in namespace {namespace}: two pods there (on the host network?) have \
         the same port, or another program has it; give one of them another port"
    )]
    Taken {
        /// Who was to answer.
        name: String,
        /// Over what.
        transport: Transport,
        /// The port.
        port: u16,
        /// The network namespace.
        namespace: String,
    },
    /// It cannot be opened, or the responder does not take it.
    #[error("{name}: {transport} socket {bound} in namespace {namespace}: {why}")]
    Failed {
        /// Who was to answer.
        name: String,
        /// Over what.
        transport: Transport,
        /// Where.
        bound: SocketAddr,
        /// The network namespace.
        namespace: String,
        /// What is wrong.
        why: String,
    },
    /// The namespace cannot be entered: none of its ports is answered on.
    #[error("namespace {namespace}: it cannot be entered to open sockets: {why}")]
    Namespace {
        /// The network namespace.
        namespace: String,
        /// What is wrong.
        why: String,
    },
}

/// A socket that is to be opened, or is open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    namespace: String,
    transport: Transport,
    bound: SocketAddr,
    name: String,
    node: Option<String>,
    service: Service,
}

impl Key {
    /// The sockets of a wanted port.
    fn of(wanted: &Wanted) -> impl Iterator<Item = Self> {
        // A pod's own programs ask at `localhost`, too.
        let own = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let bound: BTreeSet<IpAddr> = match wanted.transport {
            Transport::Tcp => BTreeSet::from([Ipv6Addr::UNSPECIFIED.into()]),
            Transport::Udp => wanted.addresses.iter().copied().chain(own).collect(),
        };
        bound.into_iter().map(|address| Self {
            namespace: wanted.namespace.clone(),
            transport: wanted.transport,
            bound: SocketAddr::new(address, wanted.port),
            name: wanted.name.clone(),
            node: wanted.node.clone(),
            service: wanted.service,
        })
    }

    fn failed(&self, why: String) -> SocketError {
        let Self { namespace, transport, bound, name, .. } = self.clone();
        SocketError::Failed { name, transport, bound, namespace, why }
    }

    fn not_opened(&self, errno: Errno) -> SocketError {
        if errno == Errno::ADDRINUSE {
            let Self { namespace, transport, bound, name, .. } = self.clone();
            return SocketError::Taken { name, transport, port: bound.port(), namespace };
        }
        self.failed(errno.to_string())
    }
}

/// Sockets to be opened by a thread that is in their namespace.
#[derive(Debug)]
pub struct Job(Vec<(Transport, SocketAddr)>);

impl Job {
    /// Opens them in the namespace of the calling thread.
    pub fn run(self) -> Opened {
        Opened(self.0.into_iter().map(|(transport, bound)| open(transport, bound)).collect())
    }
}

/// What became of a [`Job`].
#[derive(Debug)]
pub struct Opened(Vec<Result<OwnedFd, Errno>>);

fn open(transport: Transport, bound: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if bound.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match transport {
        Transport::Tcp => {
            let socket = match rustix::net::socket_with(family, SocketType::STREAM, flags, None) {
                // A kernel without IPv6.
                Err(Errno::AFNOSUPPORT) if bound.ip() == Ipv6Addr::UNSPECIFIED => {
                    return open(transport, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), bound.port()));
                }
                other => other?,
            };
            if bound.is_ipv6() {
                sockopt::set_ipv6_v6only(&socket, false)?;
            }
            // Connections of before that wait for their last segments do not keep the port.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            // Clients that are gone without a word are noticed in the end. Connections inherit it.
            sockopt::set_socket_keepalive(&socket, true)?;
            rustix::net::bind(&socket, &bound)?;
            rustix::net::listen(&socket, BACKLOG)?;
            Ok(socket)
        }
        Transport::Udp => {
            let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
            // An address of IPv6 may still be checked for duplicates, and one of a Service may come later.
            if bound.is_ipv4() {
                sockopt::set_ip_freebind(&socket, true)?;
            } else {
                sockopt::set_ipv6_v6only(&socket, true)?;
                sockopt::set_ipv6_freebind(&socket, true)?;
            }
            rustix::net::bind(&socket, &bound)?;
            Ok(socket)
        }
    }
}

/// The responder's sockets, as the supervisor knows them.
#[derive(Debug)]
pub struct Sockets {
    channel: Channel,
    open: BTreeMap<Key, u64>,
    last: u64,
}

impl Sockets {
    /// A responder that has none yet, at the other end of `channel`.
    pub fn new(channel: Channel) -> Self {
        Self { channel, open: BTreeMap::new(), last: 0 }
    }

    /// Sends a message and waits for its reply.
    fn call(&self, message: &ToResponder, fds: &[BorrowedFd<'_>]) -> io::Result<Reply> {
        self.channel.send(message, fds)?;
        match self.channel.receive::<Reply>()? {
            Some((reply, _)) => Ok(reply),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the responder has ended")),
        }
    }

    /// Makes the responder answer on these ports and on no others. `enter` runs a job in a namespace; each one that
    /// has something to open is entered once.
    ///
    /// Ports that cannot be opened are told and tried again the next time. The error is that of the channel: the
    /// responder is gone.
    pub fn set<E: std::fmt::Display>(
        &mut self,
        wanted: &BTreeSet<Wanted>,
        mut enter: impl FnMut(&str, Job) -> Result<Opened, E>,
    ) -> io::Result<Vec<SocketError>> {
        let wanted: BTreeSet<Key> = wanted.iter().flat_map(Key::of).collect();
        let mut problems = Vec::new();
        // First what goes: what comes may need its port.
        let gone: Vec<Key> = self.open.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            problems.extend(self.close(&key)?);
        }
        let mut missing: BTreeMap<String, Vec<Key>> = BTreeMap::new();
        for key in wanted {
            if !self.open.contains_key(&key) {
                missing.entry(key.namespace.clone()).or_default().push(key);
            }
        }
        for (namespace, keys) in missing {
            let job = Job(keys.iter().map(|key| (key.transport, key.bound)).collect());
            match enter(&namespace, job) {
                Ok(Opened(sockets)) => {
                    for (key, socket) in keys.into_iter().zip(sockets) {
                        problems.extend(self.hand_over(key, socket)?);
                    }
                }
                Err(error) => problems.push(SocketError::Namespace { namespace, why: error.to_string() }),
            }
        }
        Ok(problems)
    }

    fn hand_over(&mut self, key: Key, socket: Result<OwnedFd, Errno>) -> io::Result<Option<SocketError>> {
        let socket = match socket {
            Ok(socket) => socket,
            // A namespace without IPv6 has no such address to be asked at.
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if key.bound.ip() == Ipv6Addr::LOCALHOST => {
                return Ok(None);
            }
            Err(errno) => return Ok(Some(key.not_opened(errno))),
        };
        self.last += 1;
        let id = self.last;
        let open = Open {
            id,
            name: key.name.clone(),
            node: key.node.clone(),
            transport: key.transport,
            bound: key.bound,
            service: key.service,
        };
        Ok(match self.call(&ToResponder::Open(open), &[socket.as_fd()])? {
            Reply::Ready => {
                self.open.insert(key, id);
                None
            }
            Reply::Failed { why } => Some(key.failed(why)),
        })
    }

    fn close(&mut self, key: &Key) -> io::Result<Option<SocketError>> {
        let Some(id) = self.open.remove(key) else { return Ok(None) };
        Ok(match self.call(&ToResponder::Close { id }, &[])? {
            Reply::Ready => None,
            Reply::Failed { why } => Some(key.failed(why)),
        })
    }

    /// Closes what is open in a namespace: for one that is removed, because sockets would keep it alive, and a new one
    /// of the same name needs new ones.
    pub fn leave(&mut self, namespace: &str) -> io::Result<Vec<SocketError>> {
        let keys: Vec<Key> = self.open.keys().filter(|key| key.namespace == namespace).cloned().collect();
        let mut problems = Vec::new();
        for key in keys {
            problems.extend(self.close(&key)?);
        }
        Ok(problems)
    }

    /// Gives the responder the cluster's names.
    pub fn names(&self, zone: &Zone) -> io::Result<()> {
        let mut file = File::from(rustix::fs::memfd_create("zone", MemfdFlags::CLOEXEC)?);
        file.write_all(&serde_json::to_vec(zone)?)?;
        // The position is shared with the descriptor that is handed over.
        file.rewind()?;
        match self.call(&ToResponder::Zone, &[file.as_fd()])? {
            Reply::Ready => Ok(()),
            Reply::Failed { why } => {
                Err(io::Error::other(format!("the responder does not take the zone: {why}")))
            }
        }
    }
}
