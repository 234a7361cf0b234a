//! A server in a namespace that answers as the emulated ones do.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

use lab::netns::Netns;
use node::app::{Answer, read_request};
use rustix::net::Shutdown;

/// Answers at one socket, by TCP and UDP. Ends when it is dropped.
pub(crate) struct Server {
    tcp: Arc<TcpListener>,
    udp: Arc<UdpSocket>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(namespace: &str, name: &str, address: SocketAddr) -> Self {
        let open = || (TcpListener::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        let (tcp, udp) = Netns::open(namespace).unwrap().run(open).unwrap();
        let (tcp, udp) = (Arc::new(tcp), Arc::new(udp));
        let answer = Answer { server: name.to_owned(), local: address, peer: address };
        let threads = vec![
            std::thread::spawn({
                let (tcp, answer) = (Arc::clone(&tcp), answer.clone());
                move || {
                    while let Ok((stream, peer)) = tcp.accept() {
                        let answer = Answer { peer, ..answer.clone() };
                        std::thread::spawn(move || converse(&stream, &answer));
                    }
                }
            }),
            std::thread::spawn({
                let udp = Arc::clone(&udp);
                move || {
                    let mut data = vec![0; 65_536];
                    // A request is never empty; that is what a socket gives that was shut down.
                    while let Ok((length @ 1.., peer)) = udp.recv_from(&mut data) {
                        let mut reply = Answer { peer, ..answer.clone() }.line().into_bytes();
                        let end = data[..length].iter().position(|&byte| byte == b'\n');
                        reply.extend(&data[end.map_or(length, |end| end + 1)..length]);
                        // A client that has gone does not matter.
                        let _ = udp.send_to(&reply, peer);
                    }
                }
            }),
        ];
        Self { tcp, udp, threads }
    }

    /// Where it answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.tcp.local_addr().unwrap()
    }
}

/// Answers requests until the client has no more.
fn converse(stream: &TcpStream, answer: &Answer) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if !reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            return;
        }
        let Some(payload) = read_request(line.trim_end().as_bytes()) else { return };
        let mut data = vec![0; payload];
        let answered = reader
            .read_exact(&mut data)
            .and_then(|()| writer.write_all(answer.line().as_bytes()))
            .and_then(|()| writer.write_all(&data));
        if answered.is_err() {
            return;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Wakes who waits on them. That a UDP socket is not connected is no obstacle, although it is told.
        let _ = rustix::net::shutdown(&self.tcp, Shutdown::Both);
        let _ = rustix::net::shutdown(&self.udp, Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
