//! An HTTP proxy for tests: tunnels connections that ask for it with CONNECT, and counts them.
//!
//! This module must not know what is in the tunnels.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::serve::listen;
use crate::server::on_own_thread;

/// The longest head of a request.
const LONGEST_HEAD: usize = 16 << 10;

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct ConnectProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Whither tunnels were asked for, in order.
    tunnels: Mutex<Vec<String>>,
    refuse: Mutex<Option<u16>>,
    /// Counts how often all tunnels were cut.
    cut: watch::Sender<u64>,
}

impl ConnectProxy {
    /// Starts a proxy on a port of 127.0.0.1.
    pub fn start() -> io::Result<Self> {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            tunnels: Mutex::default(),
            refuse: Mutex::default(),
            cut: watch::Sender::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let inside = Arc::clone(&shared);
        let thread = on_own_thread("connect-proxy", 1, async move {
            match TcpListener::from_std(listener) {
                Ok(listener) => run(listener, inside, stopped).await,
                Err(error) => tracing::error!(%error, "nobody can connect to the proxy"),
            }
        })?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whither tunnels have been asked for, `host:port` each, in order.
    pub fn tunnels(&self) -> Vec<String> {
        self.shared.tunnels.lock().clone()
    }

    /// Ends all tunnels that are open.
    pub fn cut(&self) {
        self.shared.cut.send_modify(|times| *times += 1);
    }

    /// Answers whoever asks for a tunnel with this status from now on; none lets them through again.
    pub fn refuse(&self, status: Option<u16>) {
        *self.shared.refuse.lock() = status;
    }
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the thread.
            let _ = thread.join();
        }
    }
}

async fn run(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut tunnels = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let shared = Arc::clone(&shared);
                tunnels.spawn(async move {
                    if let Err(error) = tunnel(stream, &shared).await {
                        tracing::debug!(%error, "a tunnel ended");
                    }
                });
            },
            Some(_) = tunnels.join_next() => {}
        }
    }
    tunnels.shutdown().await;
}

async fn tunnel(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut cut = shared.cut.subscribe();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST_HEAD {
            return client
                .write_all(b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n")
                .await;
        }
        // One at a time: what follows the head belongs to the tunnel.
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let (Some("CONNECT"), Some(target)) = (words.next(), words.next()) else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n").await;
    };
    shared.tunnels.lock().push(target.to_owned());
    let refused = *shared.refuse.lock();
    let refusal = |status: u16| format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n");
    if let Some(status) = refused {
        return client.write_all(refusal(status).as_bytes()).await;
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return client.write_all(refusal(502).as_bytes()).await;
    };
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    tokio::select! {
        copied = copy_bidirectional(&mut client, &mut server) => copied.map(|_| ()),
        // The sender lives in `shared`.
        _ = cut.changed() => Ok(()),
    }
}
