//! The cluster's names over datagrams and connections. Who asks in the protocol of `node::app` is answered in it here too:
//! a question for a name does not tell who answers and whom it sees.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use node::app::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::{Names, Who, tcp, udp};
use crate::dns;

/// How long a connection may be idle (RFC 7766 6.2.3 asks for seconds to minutes).
const IDLE: Duration = Duration::from_mins(2);

/// The first bytes of a request of `node::app`. As the length of a message and its beginning they are no question: it
/// would have 18,501 bytes and an operation that nobody has assigned.
const HELLO: [u8; 6] = *b"HELLO ";

/// Answers datagrams for ever.
pub(super) async fn serve_udp(socket: UdpSocket, names: Names, who: Who) {
    udp::answer_each(&socket, |local, peer, request| {
        udp::hello(&who, local, peer, request)
            .or_else(|| dns::answer(&names.borrow(), request, Transport::Udp))
    })
    .await;
}

/// Answers on connections for ever.
pub(super) async fn serve_tcp(listener: TcpListener, names: Names, who: Who) {
    tcp::accept(listener, |stream, peer| converse(stream, peer, names.clone(), who.clone())).await;
}

/// What a client says.
enum Said {
    Message(Vec<u8>),
    Hello,
}

/// Messages come with their length before them (RFC 1035 4.2.2).
async fn read(stream: &mut TcpStream) -> io::Result<Said> {
    let (length, beginning) = HELLO.split_at(size_of::<u16>());
    let mut first = [0; size_of::<u16>()];
    stream.read_exact(&mut first).await?;
    let mut message = Vec::new();
    if first == length {
        message.resize(beginning.len(), 0);
        stream.read_exact(&mut message).await?;
        if message == beginning {
            return Ok(Said::Hello);
        }
    }
    let begun = message.len();
    message.resize(usize::from(u16::from_be_bytes(first)), 0);
    stream.read_exact(message.get_mut(begun..).unwrap_or_default()).await?;
    Ok(Said::Message(message))
}

async fn converse(mut stream: TcpStream, peer: SocketAddr, names: Names, who: Who) -> io::Result<()> {
    loop {
        let request = match tokio::time::timeout(IDLE, read(&mut stream)).await {
            Ok(Ok(Said::Message(request))) => request,
            Ok(Ok(Said::Hello)) => return tcp::hello(stream, &HELLO, peer, &who).await,
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Ok(()),
        };
        let answer = dns::answer(&names.borrow(), &request, Transport::Tcp);
        // What is no question ends the conversation.
        let Some(answer) = answer else { return Ok(()) };
        let Ok(length) = u16::try_from(answer.len()) else { return Ok(()) };
        let mut message = length.to_be_bytes().to_vec();
        message.extend_from_slice(&answer);
        match tokio::time::timeout(IDLE, stream.write_all(&message)).await {
            Ok(written) => written?,
            Err(_) => return Ok(()),
        }
    }
}
