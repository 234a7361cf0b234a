//! What pods run unless a command is given: one process without privileges that answers for all pods of a lab.
//!
//! The supervisor opens sockets in the pods' namespaces ([`Sockets`]) and hands them over; [`run`] answers on them. A
//! socket belongs for ever to the namespace that it was made in, so the process needs to enter none. It must not know
//! namespaces, nodes or Services: a socket, a name to answer with and the zone of the cluster's names are all it gets.
//!
//! A TCP connection's first bytes decide what is spoken on it:
//!
//! | first bytes | |
//! |---|---|
//! | `HELLO n` | the protocol of `node::app`, one request after the other |
//! | a method of HTTP | HTTP/1.1: tells who answers whom (text, or JSON with `?format=json` or by `Accept`), `/healthz`; `POST` and `PUT` get their body back |
//! | `SINK` | swallows bytes until the client ends, then tells how many |
//! | `SOURCE n` | sends `n` bytes |
//! | anything else | comes back |
//!
//! A datagram `HELLO n` is answered as `node::app` does; any other comes back as it is. Ports of the cluster's DNS answer
//! `HELLO n` too, and questions for names instead of all else.

mod http;
mod message;
mod names;
mod sockets;
mod tcp;
mod udp;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use node::app::Transport;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::dns::Zone;
use crate::handover::Channel;

pub use message::{Open, Reply, Service, ToResponder};
pub use sockets::{Job, Opened, SocketError, Sockets, Wanted};

/// Who answers on a socket.
#[derive(Clone, Debug)]
struct Who {
    name: Arc<str>,
    node: Option<Arc<str>>,
}

impl Who {
    /// A blank in a name would end it for whoever reads an answer's line.
    fn new(name: &str, node: Option<&str>) -> Self {
        let name = if name.is_empty() { "-".into() } else { name.replace(char::is_whitespace, "_").into() };
        Self { name, node: node.map(Arc::from) }
    }
}

/// The zone as it is now.
type Names = watch::Receiver<Arc<Zone>>;

/// The ends of a connection as people write them: an IPv4 client of a socket for both families is an IPv4 client.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Answers on the sockets that come by `channel`, until its other end is closed.
pub fn run(channel: &Channel) -> io::Result<()> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("responder")
        .enable_io()
        .enable_time()
        .build()?;
    let (zone, names) = watch::channel(Arc::default());
    let mut responder = Responder { runtime, sockets: HashMap::new(), zone, names };
    while let Some((message, fds)) = channel.receive::<ToResponder>()? {
        let reply = match responder.handle(message, fds) {
            Ok(()) => Reply::Ready,
            Err(error) => Reply::Failed { why: error.to_string() },
        };
        channel.send(&reply, &[])?;
    }
    // Connections under way end here; nobody is left to close them one by one.
    responder.runtime.shutdown_background();
    Ok(())
}

/// A connection is a descriptor, and a lab has many: as many as the system admits.
fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("the responder keeps its limit of open files: {error}");
    }
}

struct Responder {
    runtime: Runtime,
    sockets: HashMap<u64, JoinHandle<()>>,
    zone: watch::Sender<Arc<Zone>>,
    names: Names,
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

impl Responder {
    fn handle(&mut self, message: ToResponder, fds: Vec<OwnedFd>) -> io::Result<()> {
        let one = <[OwnedFd; 1]>::try_from(fds);
        match (message, one) {
            (ToResponder::Open(open), Ok([socket])) => self.open(&open, socket),
            (ToResponder::Zone, Ok([file])) => {
                let zone = serde_json::from_reader(BufReader::new(File::from(file)))?;
                self.zone.send_replace(Arc::new(zone));
                Ok(())
            }
            (ToResponder::Open(_) | ToResponder::Zone, Err(fds)) => {
                Err(invalid(format!("a message came with {} descriptors; it needs one", fds.len())))
            }
            (ToResponder::Close { id }, _) => match self.sockets.remove(&id) {
                Some(task) => {
                    // Its connections belong to the task and end with it. The port is free when the reply goes out.
                    task.abort();
                    match self.runtime.block_on(task) {
                        Err(error) if error.is_panic() => Err(io::Error::other("it had panicked")),
                        _ => Ok(()),
                    }
                }
                None => Err(invalid(format!("there is no socket {id}"))),
            },
        }
    }

    fn open(&mut self, open: &Open, socket: OwnedFd) -> io::Result<()> {
        if self.sockets.contains_key(&open.id) {
            return Err(invalid(format!("there is a socket {} already", open.id)));
        }
        let who = Who::new(&open.name, open.node.as_deref());
        // Sockets are registered with the runtime that is entered.
        let _entered = self.runtime.enter();
        let names = self.names.clone();
        let task = match open.transport {
            Transport::Tcp => {
                let listener = std::net::TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                match open.service {
                    Service::Echo => self.runtime.spawn(tcp::serve(listener, who)),
                    Service::Dns => self.runtime.spawn(names::serve_tcp(listener, names, who)),
                }
            }
            Transport::Udp => {
                let socket = std::net::UdpSocket::from(socket);
                socket.set_nonblocking(true)?;
                let socket = UdpSocket::from_std(socket)?;
                match open.service {
                    Service::Echo => self.runtime.spawn(udp::serve(socket, who)),
                    Service::Dns => self.runtime.spawn(names::serve_udp(socket, names, who)),
                }
            }
        };
        self.sockets.insert(open.id, task);
        Ok(())
    }
}
