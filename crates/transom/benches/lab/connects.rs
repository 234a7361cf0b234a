//! Connections that are opened, carry one request and its answer, and are closed; eight at a time.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::socket::{Shutdown, shutdown};

use crate::system::{PATIENCE, Path};
use crate::window::{Sample, Window};

/// Threads of the client, and of the server.
const THREADS: usize = 8;
const REQUEST: [u8; 16] = *b"GET something...";
const ANSWER: [u8; 16] = *b"here it is......";

#[derive(Default)]
struct Counters {
    /// Clients begin nothing any more.
    stop: AtomicBool,
    /// The server's socket is closed; until then whoever has begun is served.
    closed: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    fn ask(&self, path: &Path) {
        while !self.stop.load(Ordering::SeqCst) {
            let counter = if exchange(path).is_ok() { &self.answered } else { &self.failed };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn answer(&self, listener: &TcpListener) {
        while !self.closed.load(Ordering::SeqCst) {
            // What goes wrong with a connection is seen and counted at the other end.
            let _ = listener.accept().and_then(|(stream, _)| serve(stream));
        }
    }
}

/// The client's part, in its namespace.
fn exchange(path: &Path) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&path.target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&REQUEST)?;
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer)?;
    if answer == ANSWER { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The server's part. The client closes first.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = [0; REQUEST.len()];
    stream.read_exact(&mut request)?;
    stream.write_all(&ANSWER)?;
    stream.read(&mut request).map(|_| ())
}

/// Connections per second that are answered.
pub(crate) fn measure(path: &Path, window: &Window) -> Result<Sample> {
    let listener = path.listen()?;
    let counters = Counters::default();
    let sample = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| counters.answer(&listener));
        }
        // Threads are in the namespace of the one that starts them.
        let clients = scope.spawn(|| {
            path.client.run(|| {
                thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| counters.ask(path));
                    }
                });
            })
        });
        let sample = window.measure(|| counters.answered.load(Ordering::Relaxed));
        counters.stop.store(true, Ordering::SeqCst);
        let asked = clients.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        counters.closed.store(true, Ordering::SeqCst);
        // Wakes the threads that wait for connections.
        let woken = shutdown(listener.as_raw_fd(), Shutdown::Both).context("closing the server's socket");
        asked?;
        woken?;
        sample
    })?;
    Ok(Sample { lost: counters.failed.load(Ordering::SeqCst), ..sample })
}
