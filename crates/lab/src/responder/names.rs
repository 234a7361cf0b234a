//! The cluster's names over datagrams and connections.

use std::io;
use std::time::Duration;

use node::app::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::{Names, tcp, udp};
use crate::dns;

/// How long a connection may be idle (RFC 7766 6.2.3 asks for seconds to minutes).
const IDLE: Duration = Duration::from_mins(2);

/// Answers datagrams for ever.
pub(super) async fn serve_udp(socket: UdpSocket, names: Names) {
    udp::answer_each(&socket, |_, _, request| dns::answer(&names.borrow(), request, Transport::Udp)).await;
}

/// Answers on connections for ever.
pub(super) async fn serve_tcp(listener: TcpListener, names: Names) {
    tcp::accept(listener, |stream, _| converse(stream, names.clone())).await;
}

/// Messages come with their length before them (RFC 1035 4.2.2).
async fn converse(mut stream: TcpStream, names: Names) -> io::Result<()> {
    loop {
        let read = async {
            let mut request = vec![0; usize::from(stream.read_u16().await?)];
            stream.read_exact(&mut request).await?;
            io::Result::Ok(request)
        };
        let request = match tokio::time::timeout(IDLE, read).await {
            Ok(Ok(request)) => request,
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
