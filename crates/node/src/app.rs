//! What the emulated programs say to each other, and how a whole exchange ends. A server answers a request with one
//! line that tells who it is and whom it sees, then with as many bytes as were sent to it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// Over what a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// The IP protocol's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => wire::proto::TCP,
            Self::Udp => wire::proto::UDP,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The server.
    pub to: SocketAddr,
    /// Over what.
    pub transport: Transport,
    /// The client's address; none: the stack chooses.
    pub from: Option<IpAddr>,
    /// The client's port; none: the next free one.
    pub port: Option<u16>,
    /// Bytes to be sent behind the request and to be sent back.
    pub payload: usize,
    /// When the client gives up.
    pub timeout: Duration,
}

impl Request {
    /// A request without a payload; ten seconds.
    pub fn new(to: SocketAddr, transport: Transport) -> Self {
        Self { to, transport, from: None, port: None, payload: 0, timeout: Duration::from_secs(10) }
    }

    /// The same with a payload.
    #[must_use]
    pub fn payload(mut self, bytes: usize) -> Self {
        self.payload = bytes;
        self
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The server's name.
    pub server: String,
    /// The address and port that the server was reached at, as it sees them.
    pub local: SocketAddr,
    /// The client, as the server sees it.
    pub peer: SocketAddr,
}

impl Answer {
    /// The line that goes over the wire.
    pub fn line(&self) -> String {
        format!("{} {} {}\n", self.server, self.local, self.peer)
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "{line:?} is not an answer: expected a name and two sockets, such as \"a 10.0.0.1:80 10.0.0.2:1024\""
            )
        };
        let mut words = line.split_whitespace();
        let (server, local, peer) = (words.next(), words.next(), words.next());
        match (server, local.map(str::parse), peer.map(str::parse), words.next()) {
            (Some(server), Some(Ok(local)), Some(Ok(peer)), None) => {
                Ok(Self { server: server.to_owned(), local, peer })
            }
            _ => Err(wrong()),
        }
    }
}

/// Why a server cannot be reached at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The client has no route to it.
    NoRoute,
    /// The client has no address of the server's family, or not the one that it was to use.
    NoSource,
    /// The client has no port left.
    NoPort,
    /// Somebody on the way says that the host does not answer or that there is no route.
    Host(IpAddr),
    /// Somebody on the way refuses it by policy.
    Prohibited(IpAddr),
    /// The packet went around in circles.
    TimeExceeded(IpAddr),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => f.write_str("the client has no route"),
            Self::NoSource => f.write_str("the client has no such source address"),
            Self::NoPort => f.write_str("the client has no port left"),
            Self::Host(by) => write!(f, "host unreachable, says {by}"),
            Self::Prohibited(by) => write!(f, "prohibited, says {by}"),
            Self::TimeExceeded(by) => write!(f, "time to live exceeded, says {by}"),
        }
    }
}

/// How an exchange ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole answer came.
    Answered(Answer),
    /// Nobody listens there: a TCP reset, or ICMP "port unreachable".
    Refused,
    /// The connection was there and was reset.
    Reset,
    /// The connection ended, or the answer is not what was asked for.
    Garbled(String),
    /// There is no way.
    Unreachable(Unreachable),
    /// Nothing came in time.
    TimedOut,
}

impl Outcome {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answered(answer) => Some(answer),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(answer) => {
                write!(f, "answered by {} at {}, which sees {}", answer.server, answer.local, answer.peer)
            }
            Self::Refused => f.write_str("refused"),
            Self::Reset => f.write_str("reset"),
            Self::Garbled(what) => write!(f, "garbled: {what}"),
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::TimedOut => f.write_str("timed out"),
        }
    }
}

/// A whole exchange, in virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was asked for.
    pub request: Request,
    /// The client's end, once it has one.
    pub from: Option<SocketAddr>,
    /// When it began.
    pub started: Duration,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// The request line: how many bytes follow.
pub fn request_line(payload: usize) -> String {
    format!("HELLO {payload}\n")
}

/// The longest line either side takes.
pub const LONGEST_LINE: usize = 512;

/// Reads a request line, without its end.
pub fn read_request(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(line).ok()?.strip_prefix("HELLO ")?.trim_end().parse().ok()
}

/// The payload of a request: every byte tells its place.
pub fn filler(bytes: usize) -> impl Iterator<Item = u8> {
    (0_u8..=250).cycle().take(bytes)
}

/// Takes an answer apart: the line, and whether the bytes behind it are those that were sent. `None`: more must come.
pub fn read_answer(bytes: &[u8], payload: usize) -> Option<Outcome> {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
        let long = bytes.len() > LONGEST_LINE;
        return long.then(|| Outcome::Garbled("the answer's line has no end".to_owned()));
    };
    let echo = bytes.get(end + 1..)?;
    if echo.len() < payload {
        return None;
    }
    let line = String::from_utf8_lossy(bytes.get(..end)?);
    Some(match line.parse::<Answer>() {
        Ok(answer) if echo.iter().copied().eq(filler(payload)) => Outcome::Answered(answer),
        Ok(_) => Outcome::Garbled("the bytes that came back are not those that were sent".to_owned()),
        Err(error) => Outcome::Garbled(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let answer = Answer {
            server: "shop/cart-1".to_owned(),
            local: "[2001:db8::5]:80".parse().unwrap(),
            peer: "10.0.0.1:50000".parse().unwrap(),
        };
        let mut bytes = answer.line().into_bytes();
        bytes.extend(filler(600));
        assert_eq!(read_answer(&bytes, 600), Some(Outcome::Answered(answer)));
        assert_eq!(read_answer(&bytes[..300], 600), None);
        bytes[400] ^= 1;
        assert!(matches!(read_answer(&bytes, 600), Some(Outcome::Garbled(_))));
        assert!(matches!(read_answer(b"who\n", 0), Some(Outcome::Garbled(_))));
        assert!(matches!(read_answer(&[b'x'; 600], 0), Some(Outcome::Garbled(_))));
    }

    #[test]
    fn a_request_line_is_read_as_it_was_written() {
        assert_eq!(read_request(request_line(17).trim_end().as_bytes()), Some(17));
        for wrong in ["", "HELLO", "HELLO x", "HELLO -1", "GET /"] {
            assert_eq!(read_request(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
