//! One TCP stream, as fast as it goes; bytes are counted where they arrive.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};

use crate::system::{PATIENCE, Path};
use crate::window::{Sample, Window};

/// What is written at once.
const BLOCK: usize = 128 * 1024;

struct Transfer {
    stop: AtomicBool,
    received: AtomicU64,
}

impl Transfer {
    fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        let block = vec![0x5a; BLOCK];
        loop {
            if let Err(error) = stream.write_all(&block) {
                return self.ended(error);
            }
        }
    }

    fn receive(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        loop {
            match stream.read(&mut block) {
                Ok(0) => return self.ended(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.received.fetch_add(bytes as u64, Ordering::Relaxed),
                Err(error) => return self.ended(error),
            };
        }
    }

    /// A stream may break only after it was told to.
    fn ended(&self, error: io::Error) -> io::Result<()> {
        if self.stop.load(Ordering::SeqCst) { Ok(()) } else { Err(error) }
    }
}

/// Bytes per second.
pub(crate) fn measure(path: &Path, window: &Window) -> Result<Sample> {
    let listener = path.listen()?;
    let client = path.connect()?;
    let (server, _) = listener.accept().context("accepting the connection")?;
    client.set_write_timeout(Some(PATIENCE))?;
    server.set_read_timeout(Some(PATIENCE))?;
    let transfer = Transfer { stop: AtomicBool::new(false), received: AtomicU64::new(0) };
    thread::scope(|scope| {
        let sender = scope.spawn(|| transfer.send(&client));
        let receiver = scope.spawn(|| transfer.receive(&server));
        let sample = window.measure(|| transfer.received.load(Ordering::Relaxed));
        transfer.stop.store(true, Ordering::SeqCst);
        // Either may be broken already.
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        for (thread, what) in [(sender, "sending"), (receiver, "receiving")] {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).context(what)?;
        }
        sample
    })
}
