//! One request with real sockets, as the emulated programs of `node::app` make them, and a steady load of such requests.
//!
//! A socket belongs to the network namespace of the thread that makes it: what is not given a [`Netns`] works in the
//! namespace that the calling thread is in, and callers run it by [`Netns::run`]. It must not know labs, pods or nodes:
//! an address is all that it is given.

mod load;
mod refusal;
mod socket;

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hcn::time::Clock;
use node::app::{self, Answer, Exchange, Outcome, Request, Transport};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::netns::{Netns, NetnsError};

pub use load::{Failure, Kept, Load, LoadGenerator, Report, What};

/// How much is moved with one system call: a multiple of the payload's pattern.
const CHUNK: usize = 251 * 256;

/// The largest payload of an IPv4 datagram; IPv6 takes a little more.
const LARGEST_DATAGRAM: usize = 65_507;

/// Makes one exchange from the namespace of the calling thread.
pub fn exchange(request: &Request, clock: &dyn Clock) -> Exchange {
    let started = clock.now();
    let deadline = Deadline { clock, at: started + request.timeout };
    let (from, outcome) = match request.transport {
        Transport::Tcp => tcp(request, deadline),
        Transport::Udp => udp(request, deadline),
    };
    let took = clock.now().saturating_sub(started);
    Exchange { request: request.clone(), from, started, took, outcome }
}

/// Makes one exchange from a namespace.
pub fn exchange_in(netns: &Netns, request: &Request, clock: &dyn Clock) -> Result<Exchange, NetnsError> {
    netns.run(|| exchange(request, clock))
}

fn tcp(request: &Request, deadline: Deadline<'_>) -> (Option<SocketAddr>, Outcome) {
    match Conversation::begin(request, deadline) {
        Ok(mut conversation) => (Some(conversation.from), conversation.exchange(request.payload, deadline)),
        Err((from, outcome)) => (from, outcome),
    }
}

/// When something is given up.
#[derive(Clone, Copy)]
struct Deadline<'a> {
    clock: &'a dyn Clock,
    at: Duration,
}

impl Deadline<'_> {
    /// Waits until the socket is ready for what is wanted, fails or is closed.
    fn wait(self, socket: impl AsFd, wanted: PollFlags) -> Result<PollFlags, Outcome> {
        let left = self.at.saturating_sub(self.clock.now());
        if left.is_zero() {
            return Err(Outcome::TimedOut);
        }
        socket::poll(socket, wanted, left).map_err(|errno| garbled("poll", errno))?.ok_or(Outcome::TimedOut)
    }
}

fn garbled(call: &str, errno: Errno) -> Outcome {
    Outcome::Garbled(format!("{call} failed: {errno}"))
}

/// A TCP connection on which one request follows the other.
#[derive(Debug)]
pub struct Conversation {
    stream: OwnedFd,
    from: SocketAddr,
}

impl Conversation {
    /// Connects as `request` says. An error is how the attempt ended.
    pub fn open(request: &Request, clock: &dyn Clock) -> Result<Self, Outcome> {
        let deadline = Deadline { clock, at: clock.now() + request.timeout };
        Self::begin(request, deadline).map_err(|(_, outcome)| outcome)
    }

    fn begin(request: &Request, deadline: Deadline<'_>) -> Result<Self, (Option<SocketAddr>, Outcome)> {
        let stream = socket::make(request).map_err(|outcome| (None, outcome))?;
        let connected = rustix::net::connect(&stream, &request.to);
        let from = socket::local(&stream);
        let fail = |outcome| (from, outcome);
        match connected {
            // What interrupts a connect does not stop it.
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(fail(refusal::of_connect(&stream, request, errno))),
        }
        deadline.wait(&stream, PollFlags::OUT).map_err(fail)?;
        match rustix::net::sockopt::socket_error(&stream) {
            Ok(Ok(())) => {}
            Ok(Err(errno)) | Err(errno) => return Err(fail(refusal::of_connect(&stream, request, errno))),
        }
        match from {
            Some(from) => Ok(Self { stream, from }),
            None => Err((None, garbled("getsockname", Errno::NOTCONN))),
        }
    }

    /// The client's end.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// Sends a request with a payload and reads the whole answer. After any outcome but an answer the connection is of
    /// no use any more.
    pub fn ask(&mut self, payload: usize, timeout: Duration, clock: &dyn Clock) -> Outcome {
        self.exchange(payload, Deadline { clock, at: clock.now() + timeout })
    }

    fn exchange(&mut self, payload: usize, deadline: Deadline<'_>) -> Outcome {
        let mut outgoing = Outgoing::new(payload);
        let mut incoming = Incoming::new(payload);
        let mut buffer = vec![0; CHUNK];
        loop {
            let mut wanted = PollFlags::IN;
            wanted.set(PollFlags::OUT, outgoing.next().is_some());
            let ready = match deadline.wait(&self.stream, wanted) {
                Ok(ready) => ready,
                Err(outcome) => return outcome,
            };
            // First what came: whoever resets a connection may have said something before.
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                match rustix::net::recv(&self.stream, &mut buffer[..], RecvFlags::empty()) {
                    Ok((_, 0)) => return incoming.ended(),
                    Ok((_, count)) => {
                        if let Some(outcome) = buffer.get(..count).and_then(|bytes| incoming.take(bytes)) {
                            return outcome;
                        }
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {
                        // What ICMP says does not end a connection that is there. Left in the queue, it would wake us
                        // for ever.
                        if ready.contains(PollFlags::ERR) {
                            refusal::queued(&self.stream);
                        }
                    }
                    Err(errno) => return refusal::of_connected(&self.stream, errno),
                }
            }
            if ready.contains(PollFlags::OUT)
                && let Some(bytes) = outgoing.next()
            {
                match rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL) {
                    Ok(count) => outgoing.sent(count),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return refusal::of_connected(&self.stream, errno),
                }
            }
        }
    }
}

/// What is still to be sent: the request line, then the payload.
struct Outgoing {
    line: Vec<u8>,
    pattern: Vec<u8>,
    sent: usize,
    payload: usize,
}

impl Outgoing {
    fn new(payload: usize) -> Self {
        let pattern = app::filler(payload.min(CHUNK)).collect();
        Self { line: app::request_line(payload).into_bytes(), pattern, sent: 0, payload }
    }

    fn next(&self) -> Option<&[u8]> {
        let Some(done) = self.sent.checked_sub(self.line.len()) else { return self.line.get(self.sent..) };
        let rest = self.payload.checked_sub(done).filter(|rest| *rest > 0)?;
        // The pattern starts anew with each chunk.
        let start = done % CHUNK;
        self.pattern.get(start..CHUNK.min(start.saturating_add(rest)).min(self.pattern.len()))
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }
}

/// What has come: the answer's line, then the payload, which is compared and not kept.
struct Incoming {
    line: Vec<u8>,
    answer: Option<Answer>,
    pattern: Vec<u8>,
    seen: usize,
    payload: usize,
}

impl Incoming {
    fn new(payload: usize) -> Self {
        let pattern = app::filler(payload.min(CHUNK)).collect();
        Self { line: Vec::new(), answer: None, pattern, seen: 0, payload }
    }

    /// Takes what came. `None`: more must come.
    fn take(&mut self, mut bytes: &[u8]) -> Option<Outcome> {
        if self.answer.is_none() {
            let end = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
            let (line, rest) = bytes.split_at(end);
            self.line.extend_from_slice(line);
            match app::read_answer(&self.line, 0)? {
                Outcome::Answered(answer) => self.answer = Some(answer),
                other => return Some(other),
            }
            bytes = rest;
        }
        while let Some(rest) = self.payload.checked_sub(self.seen).filter(|rest| *rest > 0) {
            if bytes.is_empty() {
                return None;
            }
            let start = self.seen % CHUNK;
            let count = bytes.len().min(rest).min(CHUNK - start);
            let (now, later) = bytes.split_at(count);
            if self.pattern.get(start..start + count) != Some(now) {
                return Some(Outcome::Garbled(
                    "the bytes that came back are not those that were sent".to_owned(),
                ));
            }
            self.seen += count;
            bytes = later;
        }
        if bytes.is_empty() {
            self.answer.take().map(Outcome::Answered)
        } else {
            Some(Outcome::Garbled("more bytes came back than were sent".to_owned()))
        }
    }

    /// The server has closed its half too early.
    fn ended(&self) -> Outcome {
        Outcome::Garbled(if self.answer.is_none() {
            "the connection ended before the answer".to_owned()
        } else {
            format!("the connection ended after {} of {} bytes", self.seen, self.payload)
        })
    }
}

fn udp(request: &Request, deadline: Deadline<'_>) -> (Option<SocketAddr>, Outcome) {
    let mut datagram = app::request_line(request.payload).into_bytes();
    if datagram.len().saturating_add(request.payload) > LARGEST_DATAGRAM {
        let text = format!("a payload of {} bytes does not fit into one datagram", request.payload);
        return (None, Outcome::Garbled(text));
    }
    datagram.extend(app::filler(request.payload));
    let socket = match socket::make(request) {
        Ok(socket) => socket,
        Err(outcome) => return (None, outcome),
    };
    let connected = rustix::net::connect(&socket, &request.to);
    let from = socket::local(&socket);
    let outcome = match connected {
        Ok(()) => udp_exchange(&socket, request, &datagram, deadline),
        Err(errno) => refusal::of_connect(&socket, request, errno),
    };
    (from, outcome)
}

/// Sends, once more after a third of the time, and waits for the answer.
fn udp_exchange(socket: &OwnedFd, request: &Request, datagram: &[u8], deadline: Deadline<'_>) -> Outcome {
    let mut again = Some(Deadline { at: deadline.at.saturating_sub(request.timeout * 2 / 3), ..deadline });
    let mut buffer = vec![0; usize::from(u16::MAX) + 1];
    let send = || {
        let sent = match rustix::net::send(socket, datagram, SendFlags::NOSIGNAL) {
            // About the one before: a router takes smaller packets only. This one goes in fragments.
            Err(Errno::MSGSIZE) => rustix::net::send(socket, datagram, SendFlags::NOSIGNAL),
            sent => sent,
        };
        sent.map_err(|errno| refusal::of_connect(socket, request, errno))
    };
    if let Err(outcome) = send() {
        return outcome;
    }
    loop {
        let ready = match again.unwrap_or(deadline).wait(socket, PollFlags::IN) {
            Ok(ready) => ready,
            Err(Outcome::TimedOut) if again.take().is_some() => {
                if let Err(outcome) = send() {
                    return outcome;
                }
                continue;
            }
            Err(outcome) => return outcome,
        };
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, count)) => {
                let answer = buffer.get(..count).and_then(|bytes| app::read_answer(bytes, request.payload));
                return answer.unwrap_or_else(|| {
                    Outcome::Garbled("the answer is shorter than the request".to_owned())
                });
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                if ready.contains(PollFlags::ERR)
                    && let Some(outcome) = refusal::queued(socket)
                {
                    return outcome;
                }
            }
            // A router on the way takes smaller packets only, which the kernel knows from now on.
            Err(Errno::MSGSIZE) => {
                if let Err(outcome) = send() {
                    return outcome;
                }
            }
            Err(errno) => return refusal::of_connect(socket, request, errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_comes_in_again_in_pieces_of_any_size() {
        for payload in [0, 1, 250, 251, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 77] {
            for piece in [1_000, 7_919, 3 * CHUNK] {
                let mut outgoing = Outgoing::new(payload);
                let mut bytes = Vec::new();
                while let Some(next) = outgoing.next() {
                    let count = next.len().min(piece);
                    bytes.extend_from_slice(&next[..count]);
                    outgoing.sent(count);
                }
                let line = app::request_line(payload);
                assert_eq!(&bytes[..line.len()], line.as_bytes());
                assert!(bytes[line.len()..].iter().copied().eq(app::filler(payload)), "{payload} {piece}");

                let mut reply = b"shop/cart 10.0.0.1:80 10.0.0.2:1024\n".to_vec();
                reply.extend_from_slice(&bytes[line.len()..]);
                let mut incoming = Incoming::new(payload);
                let mut pieces = reply.chunks(piece).map(|piece| incoming.take(piece)).collect::<Vec<_>>();
                assert!(matches!(pieces.pop(), Some(Some(Outcome::Answered(_)))), "{payload} {piece}");
                assert!(pieces.iter().all(Option::is_none));
            }
        }
    }

    #[test]
    fn other_bytes_too_many_and_too_few_are_told() {
        let reply = |rest: &[u8]| [b"a 10.0.0.1:80 10.0.0.2:1024\n", rest].concat();
        let garbled = |outcome: Option<Outcome>| matches!(outcome, Some(Outcome::Garbled(_)));
        assert!(garbled(Incoming::new(2).take(&reply(&[0, 2]))));
        assert!(garbled(Incoming::new(2).take(&reply(&[0, 1, 2]))));
        assert!(garbled(Incoming::new(0).take(b"who are you\n")));
        assert!(garbled(Incoming::new(0).take(&[b'x'; 600])));
        let mut short = Incoming::new(2);
        assert_eq!(short.take(&reply(&[0])), None);
        assert_eq!(short.ended(), Outcome::Garbled("the connection ended after 1 of 2 bytes".to_owned()));
    }
}
