//! Datagrams. An answer is never longer than the request and the line before it, so that nobody is flooded with it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use node::app::{self, Answer};
use tokio::net::UdpSocket;

use super::{Who, plain};

/// How long a socket rests that has failed: some errors (no memory) do not go away at once.
const REST: Duration = Duration::from_millis(20);

/// Answers for ever.
pub(super) async fn serve(socket: UdpSocket, who: Who) {
    answer_each(&socket, |local, peer, datagram| Some(reply(&who, local, peer, datagram))).await;
}

/// Answers each datagram with what `answer` makes of it.
pub(super) async fn answer_each(
    socket: &UdpSocket,
    answer: impl Fn(SocketAddr, SocketAddr, &[u8]) -> Option<Vec<u8>>,
) {
    let mut buffer = vec![0; usize::from(u16::MAX) + 1];
    loop {
        let done = async {
            let (count, peer) = socket.recv_from(&mut buffer).await?;
            let reply = buffer.get(..count).and_then(|bytes| answer(socket.local_addr().ok()?, peer, bytes));
            if let Some(reply) = reply {
                socket.send_to(&reply, peer).await?;
            }
            io::Result::Ok(())
        };
        if let Err(error) = done.await {
            // A client that is gone, or an echo that with its line is too long for a datagram.
            tracing::debug!("a datagram was not answered: {error}");
            tokio::time::sleep(REST).await;
        }
    }
}

fn reply(who: &Who, local: SocketAddr, peer: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    hello(who, local, peer, datagram).unwrap_or_else(|| datagram.to_vec())
}

/// The answer of `node::app` to a whole request of its.
pub(super) fn hello(who: &Who, local: SocketAddr, peer: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
    let end = datagram.iter().position(|&byte| byte == b'\n')?;
    let (line, payload) = datagram.split_at_checked(end + 1)?;
    if app::read_request(line) != Some(payload.len()) {
        return None;
    }
    let answer = Answer { server: who.name.to_string(), local: plain(local), peer: plain(peer) };
    let mut reply = answer.line().into_bytes();
    reply.extend_from_slice(payload);
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_request_is_answered_with_a_name() {
        let who = Who::new("shop/web", None);
        let (local, peer) = ("10.0.0.1:53".parse().unwrap(), "[::ffff:10.0.0.2]:1024".parse().unwrap());
        let reply = |datagram: &[u8]| reply(&who, local, peer, datagram);
        assert_eq!(reply(b"HELLO 2\nab"), b"shop/web 10.0.0.1:53 10.0.0.2:1024\nab");
        for other in [&b"HELLO 3\nab"[..], b"HELLO 2\nabc", b"HELLO x\n", b"HELLO 0", b"", b"\xff\n"] {
            assert_eq!(reply(other), other);
        }
    }
}
