//! What is measured: two paths between pods, made by one of the systems that are compared. It must not know how they are
//! made nor what is sent.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use hcn::time::Clock;
use lab::netns::Netns;

/// The pods of all systems have the same addresses.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 50, 1, 10);
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 50, 1, 11);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 50, 2, 10);
/// The Service's address and port.
pub(crate) const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 10), 80);
/// Where servers listen.
pub(crate) const PORT: u16 = 5201;

/// The longest time that one step of an exchange may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How long a system may take until packets pass: a proxy has to see the Service first.
const START: Duration = Duration::from_mins(1);

/// The namespace of a server and what the client calls it by.
pub(crate) struct Path {
    pub(crate) client: Netns,
    pub(crate) server: Netns,
    pub(crate) target: SocketAddr,
}

impl Path {
    /// A server's socket that accepts connections.
    pub(crate) fn listen(&self) -> Result<TcpListener> {
        let listener = self.server.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))?;
        listener.with_context(|| format!("listening on port {PORT} in {}", self.server.name()))
    }

    /// A connection of the client.
    pub(crate) fn connect(&self) -> Result<TcpStream> {
        let stream = self.client.run(|| TcpStream::connect_timeout(&self.target, PATIENCE))?;
        stream.with_context(|| format!("connecting to {} from {}", self.target, self.client.name()))
    }

    /// Waits until connections pass.
    pub(crate) fn wait(&self, clock: &dyn Clock) -> Result<()> {
        let _listener = self.listen()?;
        let until = clock.now() + START;
        loop {
            match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) if clock.now() >= until => return Err(error).context("no packets pass"),
                Err(_) => clock.sleep(Duration::from_millis(100)),
            }
        }
    }
}

/// One of the systems. It is taken away when this goes.
pub(crate) struct System {
    pub(crate) name: String,
    /// To a pod of the same node.
    pub(crate) near: Path,
    /// To a Service whose pod is on the other node.
    pub(crate) far: Path,
    _made: Box<dyn Any>,
}

impl System {
    /// A system whose pods are in these namespaces. What is made for it lives as long as it.
    pub(crate) fn new(name: String, client: &str, near: &str, far: &str, made: Box<dyn Any>) -> Result<Self> {
        let path = |server: &str, target: SocketAddrV4| -> Result<Path> {
            Ok(Path { client: Netns::open(client)?, server: Netns::open(server)?, target: target.into() })
        };
        let near = path(near, SocketAddrV4::new(NEAR, PORT))?;
        let far = path(far, SERVICE)?;
        // Each connection of the client needs a port of its own for a minute after it was closed, if it is not to be
        // taken again earlier.
        near.client.sysctls(&[("ipv4/ip_local_port_range", "1024 65535"), ("ipv4/tcp_tw_reuse", "1")])?;
        Ok(Self { name, near, far, _made: made })
    }
}
