//! TCP of one stack. Each of its addresses has an engine of its own, so that there is no limit to the number of
//! addresses and none to be chosen by the engine. Knows nothing of links: packets come in and go out as frames
//! without MACs.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpListenEndpoint};
use wire::{Ip, L4, TcpFlags, bytes, ethertype};

use super::ClientId;
use crate::app::{self, Answer, Outcome};

/// Bytes of each socket's buffers.
const BUFFER: usize = 16 * 1024;
/// How many connections one address may have; further ones are not answered.
const MOST: usize = 1024;
/// Ethernet's header, left blank.
const BLANK: usize = 14;

/// The way between an engine and its stack.
struct Pipe {
    mtu: usize,
    arrived: Option<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Arrived(Vec<u8>);

struct Sender<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; BLANK + len];
        let done = f(frame.get_mut(BLANK..).unwrap_or_default());
        let v6 = frame.get(BLANK).is_some_and(|byte| byte >> 4 == 6);
        bytes::set_u16(&mut frame, 12, if v6 { ethertype::IPV6 } else { ethertype::IPV4 });
        self.0.push(frame);
        done
    }
}

impl Device for Pipe {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Sender<'_>)> {
        let packet = self.arrived.take()?;
        Some((Arrived(packet), Sender(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum.tcp = Checksum::Both;
        capabilities
    }
}

/// What a connection is there for.
enum Role {
    Server { name: String, asked: Option<usize>, out: Vec<u8> },
    Client { id: ClientId, payload: usize, out: Vec<u8>, connected: bool, done: bool },
}

struct Connection {
    handle: SocketHandle,
    role: Role,
    input: Vec<u8>,
}

struct Engine {
    interface: Interface,
    pipe: Pipe,
    sockets: SocketSet<'static>,
    connections: Vec<Connection>,
}

/// TCP of one stack.
pub(super) struct Tcp {
    seed: u64,
    engines: BTreeMap<IpAddr, Engine>,
    /// Clients that ended.
    ended: Vec<(ClientId, Outcome)>,
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

fn endpoint(socket: &SocketAddr) -> smoltcp::wire::IpEndpoint {
    (*socket).into()
}

impl Engine {
    fn new(address: IpAddr, mtu: u16, seed: u64, now: Duration) -> Self {
        let mut pipe = Pipe { mtu: mtu.into(), arrived: None, sent: Vec::new() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut pipe, instant(now));
        let length = if address.is_ipv4() { 32 } else { 128 };
        interface.update_ip_addrs(|addresses| {
            // The first one always has room.
            let _ = addresses.push(IpCidr::new(address.into(), length));
        });
        // Everything goes out to the stack, which knows the routes.
        let _ = match address {
            IpAddr::V4(v4) => interface.routes_mut().add_default_ipv4_route(v4),
            IpAddr::V6(v6) => interface.routes_mut().add_default_ipv6_route(v6),
        };
        Self { interface, pipe, sockets: SocketSet::new(Vec::new()), connections: Vec::new() }
    }

    fn add(&mut self, role: Role) -> SocketHandle {
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        let handle = self.sockets.add(socket);
        self.connections.push(Connection { handle, role, input: Vec::new() });
        handle
    }

    /// Lets everything happen that can happen now.
    fn run(&mut self, now: Duration, ended: &mut Vec<(ClientId, Outcome)>) {
        // Each round moves bytes or states forward; the bound is there for the unforeseen.
        for _ in 0..64 {
            let before = self.pipe.sent.len();
            self.interface.poll(instant(now), &mut self.pipe, &mut self.sockets);
            let mut moved = self.pipe.sent.len() != before;
            for connection in &mut self.connections {
                let socket = self.sockets.get_mut::<Socket<'_>>(connection.handle);
                moved |= connection.drive(socket, ended);
            }
            let sockets = &mut self.sockets;
            self.connections.retain(|connection| {
                let over = connection.is_over(sockets.get::<Socket<'_>>(connection.handle));
                if over {
                    sockets.remove(connection.handle);
                }
                !over
            });
            if !moved {
                break;
            }
        }
    }

    fn has(&self, remote: SocketAddr, port: u16) -> bool {
        self.connections
            .iter()
            .any(|connection| is_between(self.sockets.get::<Socket<'_>>(connection.handle), remote, port))
    }

    /// A connection that only waits for stray packets makes room for a new one between the same ends (RFC 1122,
    /// 4.2.2.13): its socket would take the SYN and say nothing.
    fn make_room(&mut self, remote: SocketAddr, port: u16) {
        let sockets = &mut self.sockets;
        self.connections.retain(|connection| {
            let socket = sockets.get::<Socket<'_>>(connection.handle);
            let waits = socket.state() == State::TimeWait && is_between(socket, remote, port);
            if waits {
                sockets.remove(connection.handle);
            }
            !waits
        });
    }
}

impl Connection {
    fn is_over(&self, socket: &Socket<'_>) -> bool {
        match &self.role {
            // One that still listens when its SYN was handled got a bad one.
            Role::Server { .. } => socket.state() == State::Listen || is_closed(socket),
            // A client is not kept for stray packets: its port will not be used soon.
            Role::Client { done, .. } => *done && (socket.state() == State::TimeWait || is_closed(socket)),
        }
    }

    /// The program's part. Tells whether something moved.
    fn drive(&mut self, socket: &mut Socket<'_>, ended: &mut Vec<(ClientId, Outcome)>) -> bool {
        let mut moved = false;
        while socket.can_recv() {
            let Ok(read) = socket.recv(|data| (data.len(), data.to_vec())) else { break };
            if read.is_empty() {
                break;
            }
            moved = true;
            self.input.extend_from_slice(&read);
        }
        match &mut self.role {
            Role::Server { name, asked, out } => {
                serve(name, asked, out, &mut self.input, socket);
                moved |= push(socket, out);
                if *asked == Some(0) && out.is_empty() && socket.may_send() {
                    socket.close();
                    moved = true;
                }
            }
            Role::Client { id, payload, out, connected, done } => {
                *connected |= socket.may_send();
                moved |= push(socket, out);
                if !*done && let Some(outcome) = outcome(socket, &self.input, *payload, *connected) {
                    *done = true;
                    moved = true;
                    ended.push((*id, outcome));
                    socket.close();
                }
            }
        }
        moved
    }
}

fn is_between(socket: &Socket<'_>, remote: SocketAddr, port: u16) -> bool {
    socket.remote_endpoint() == Some(endpoint(&remote))
        && socket.local_endpoint().is_some_and(|local| local.port == port)
}

/// Closed, and with no reset left to be sent.
fn is_closed(socket: &Socket<'_>) -> bool {
    socket.state() == State::Closed && socket.remote_endpoint().is_none()
}

fn push(socket: &mut Socket<'_>, out: &mut Vec<u8>) -> bool {
    if out.is_empty() || !socket.can_send() {
        return false;
    }
    let sent = socket.send_slice(out).unwrap_or(0);
    out.drain(..sent);
    sent > 0
}

/// Reads the request line, then sends back what follows.
fn serve(
    name: &str,
    asked: &mut Option<usize>,
    out: &mut Vec<u8>,
    input: &mut Vec<u8>,
    socket: &mut Socket<'_>,
) {
    if asked.is_none() {
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
            if input.len() > app::LONGEST_LINE {
                socket.abort();
            }
            return;
        };
        let line: Vec<u8> = input.drain(..=end).collect();
        let (Some(payload), Some(local), Some(peer)) = (
            app::read_request(line.get(..end).unwrap_or_default()),
            socket.local_endpoint(),
            socket.remote_endpoint(),
        ) else {
            socket.abort();
            return;
        };
        *asked = Some(payload);
        let answer = Answer {
            server: name.to_owned(),
            local: SocketAddr::new(local.addr.into(), local.port),
            peer: SocketAddr::new(peer.addr.into(), peer.port),
        };
        out.extend_from_slice(answer.line().as_bytes());
    }
    if let Some(left) = asked {
        let take = input.len().min(*left);
        out.extend(input.drain(..take));
        *left -= take;
    }
}

fn outcome(socket: &Socket<'_>, input: &[u8], payload: usize, connected: bool) -> Option<Outcome> {
    if let Some(outcome) = app::read_answer(input, payload) {
        return Some(outcome);
    }
    match socket.state() {
        State::Closed if connected => Some(Outcome::Reset),
        State::Closed => Some(Outcome::Refused),
        State::CloseWait => {
            Some(Outcome::Garbled("the server closed before its answer was whole".to_owned()))
        }
        _ => None,
    }
}

impl Tcp {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, engines: BTreeMap::new(), ended: Vec::new() }
    }

    fn engine(&mut self, now: Duration, address: IpAddr, mtu: u16) -> &mut Engine {
        let bits = match address {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            #[expect(clippy::cast_possible_truncation, reason = "any bits of the address will do for a seed")]
            IpAddr::V6(v6) => v6.to_bits() as u64,
        };
        let seed = self.seed ^ bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.engines.entry(address).or_insert_with(|| Engine::new(address, mtu, seed, now))
    }

    /// A segment for one of the stack's addresses arrived. `server`: who listens on its port.
    pub(super) fn input(&mut self, now: Duration, frame: &[u8], ip: &Ip, mtu: u16, server: Option<&str>) {
        let L4::Tcp { sport, dport, flags, .. } = ip.l4 else { return };
        let Some(packet) = frame.get(usize::from(ip.offset)..ip.end()) else { return };
        let remote = SocketAddr::new(ip.src, sport);
        let mut ended = std::mem::take(&mut self.ended);
        let engine = self.engine(now, ip.dst, mtu);
        let opens = flags & (TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST) == TcpFlags::SYN;
        if opens {
            engine.make_room(remote, dport);
        }
        if let Some(name) = server.filter(|_| opens && !engine.has(remote, dport)) {
            if engine.connections.len() >= MOST {
                return;
            }
            let role = Role::Server { name: name.to_owned(), asked: None, out: Vec::new() };
            let handle = engine.add(role);
            let socket = engine.sockets.get_mut::<Socket<'_>>(handle);
            // Refused only for port 0, which nobody serves.
            let _ = socket.listen(IpListenEndpoint { addr: Some(ip.dst.into()), port: dport });
        }
        engine.pipe.arrived = Some(packet.to_vec());
        engine.run(now, &mut ended);
        self.ended = ended;
    }

    /// A client connects. `false`: it cannot.
    pub(super) fn connect(
        &mut self,
        now: Duration,
        id: ClientId,
        from: SocketAddr,
        to: SocketAddr,
        payload: usize,
        mtu: u16,
    ) -> bool {
        let mut ended = std::mem::take(&mut self.ended);
        let engine = self.engine(now, from.ip(), mtu);
        let mut out = app::request_line(payload).into_bytes();
        out.extend(app::filler(payload));
        let handle = engine.add(Role::Client { id, payload, out, connected: false, done: false });
        let socket = engine.sockets.get_mut::<Socket<'_>>(handle);
        let local = IpListenEndpoint { addr: Some(from.ip().into()), port: from.port() };
        let done = socket.connect(engine.interface.context(), endpoint(&to), local).is_ok();
        if done {
            engine.run(now, &mut ended);
        } else {
            engine.connections.retain(|connection| connection.handle != handle);
            engine.sockets.remove(handle);
        }
        self.ended = ended;
        done
    }

    /// A client gives up; its connection is reset.
    pub(super) fn abandon(&mut self, now: Duration, id: ClientId) {
        let mut ended = std::mem::take(&mut self.ended);
        for engine in self.engines.values_mut() {
            for connection in &mut engine.connections {
                if let Role::Client { id: own, done, .. } = &mut connection.role
                    && *own == id
                {
                    *done = true;
                    engine.sockets.get_mut::<Socket<'_>>(connection.handle).abort();
                }
            }
            engine.run(now, &mut ended);
        }
        self.ended = ended;
    }

    /// Whether a client's connection is still being opened: then an ICMP error ends it.
    pub(super) fn is_connecting(&self, id: ClientId) -> bool {
        self.engines.values().flat_map(|engine| &engine.connections).any(|connection| {
            matches!(&connection.role, Role::Client { id: own, connected: false, done: false, .. } if *own == id)
        })
    }

    /// Timers.
    pub(super) fn poll(&mut self, now: Duration) {
        let mut ended = std::mem::take(&mut self.ended);
        for engine in self.engines.values_mut() {
            let due = engine.interface.poll_at(instant(now), &engine.sockets);
            if due.is_some_and(|due| due <= instant(now)) {
                engine.run(now, &mut ended);
            }
        }
        self.ended = ended;
    }

    /// When [`poll`](Self::poll) is due next.
    pub(super) fn next_timer(&mut self, now: Duration) -> Option<Duration> {
        let at = |engine: &mut Engine| {
            let due = engine.interface.poll_at(instant(now), &engine.sockets)?;
            Some(Duration::from_micros(u64::try_from(due.total_micros()).unwrap_or(0)))
        };
        self.engines.values_mut().filter(|engine| !engine.connections.is_empty()).filter_map(at).min()
    }

    /// Frames to be sent, without MACs.
    pub(super) fn take_sent(&mut self) -> Vec<Vec<u8>> {
        self.engines.values_mut().flat_map(|engine| std::mem::take(&mut engine.pipe.sent)).collect()
    }

    /// Clients that ended.
    pub(super) fn take_ended(&mut self) -> Vec<(ClientId, Outcome)> {
        std::mem::take(&mut self.ended)
    }

    /// The local ports in use at an address.
    pub(super) fn uses(&self, address: IpAddr, port: u16) -> bool {
        self.engines.get(&address).is_some_and(|engine| {
            engine.connections.iter().any(|connection| {
                let socket = engine.sockets.get::<Socket<'_>>(connection.handle);
                socket.local_endpoint().is_some_and(|local| local.port == port)
            })
        })
    }
}
