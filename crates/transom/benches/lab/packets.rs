//! UDP packets of 64 bytes, in a closed loop: at most so many are under way as any system holds without dropping them, so
//! that what is measured is how fast packets pass and not how fast they are thrown away.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::{Context, Result};
use hcn::time::Clock;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt,
};

use crate::system::{PORT, Path};
use crate::window::{Sample, Window};

/// With the headers of UDP, IPv4 and Ethernet 64 bytes.
const PAYLOAD: usize = 22;
/// Packets for one system call.
const BATCH: usize = 32;
/// How many packets are under way at most.
const UNDER_WAY: u64 = 256;
/// When nothing has arrived for so long, what is under way is lost.
const GIVEN_UP: Duration = Duration::from_millis(20);
/// Enough for all that is under way.
const BUFFER: usize = 4 << 20;

/// What the two sides know of each other.
#[derive(Default)]
struct Loop {
    stop: AtomicBool,
    received: AtomicU64,
    /// The sender waits until so many were received.
    wake_at: AtomicU64,
    lost: AtomicU64,
}

impl Loop {
    fn send(&self, socket: &UdpSocket, clock: &dyn Clock) -> Result<()> {
        let payload = [0x5a; PAYLOAD];
        let slices = [[IoSlice::new(&payload)]; BATCH];
        let none: [Option<SockaddrIn>; BATCH] = [None; BATCH];
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
        let (mut sent, mut lost) = (0_u64, 0_u64);
        let (mut seen, mut since) = (0, clock.now());
        while !self.stop.load(Ordering::Relaxed) {
            let received = self.received.load(Ordering::SeqCst);
            if received != seen {
                (seen, since) = (received, clock.now());
                // What was given up and came after all was not lost.
                lost = lost.min(sent - received);
            }
            let under_way = sent - received - lost;
            if under_way + BATCH as u64 <= UNDER_WAY {
                let flags = MsgFlags::empty();
                let no_control: [ControlMessage<'_>; 0] = [];
                let done = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, none, no_control, flags);
                sent += done.context("sending packets")?.count() as u64;
            } else if clock.now().saturating_sub(since) >= GIVEN_UP {
                lost = sent - received;
                since = clock.now();
            } else {
                // To be woken for every batch would cost more than the packets.
                let enough = received + under_way - UNDER_WAY / 2;
                self.wake_at.store(enough, Ordering::SeqCst);
                if self.received.load(Ordering::SeqCst) < enough {
                    thread::park_timeout(GIVEN_UP);
                }
            }
        }
        self.lost.store(lost, Ordering::SeqCst);
        Ok(())
    }

    fn receive(&self, socket: &UdpSocket, sender: &Thread) -> Result<()> {
        let mut buffers = [[0; 64]; BATCH];
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
        while !self.stop.load(Ordering::Relaxed) {
            let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
            let flags = MsgFlags::MSG_WAITFORONE;
            match recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, flags, None) {
                Ok(packets) => {
                    let packets = packets.count() as u64;
                    let received = self.received.fetch_add(packets, Ordering::SeqCst) + packets;
                    if received >= self.wake_at.load(Ordering::SeqCst) {
                        self.wake_at.store(u64::MAX, Ordering::SeqCst);
                        sender.unpark();
                    }
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => return Err(error).context("receiving packets"),
            }
        }
        Ok(())
    }
}

/// Packets per second that arrive.
pub(crate) fn measure(path: &Path, window: &Window) -> Result<Sample> {
    let bind = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
    let server = path.server.run(|| bind(PORT))?.context("the receiver's socket")?;
    let client = path.client.run(|| bind(0))?.context("the sender's socket")?;
    setsockopt(&server, sockopt::RcvBufForce, &BUFFER).context("the receiver's buffer")?;
    server.set_read_timeout(Some(GIVEN_UP))?;
    client.connect(path.target).with_context(|| format!("sending to {}", path.target))?;
    let state = Loop { wake_at: AtomicU64::new(u64::MAX), ..Loop::default() };
    let sample = thread::scope(|scope| {
        let sender = scope.spawn(|| state.send(&client, &*window.clock));
        let woken = sender.thread().clone();
        let (state, server) = (&state, &server);
        let receiver = scope.spawn(move || state.receive(server, &woken));
        let sample = window.measure(|| state.received.load(Ordering::Relaxed));
        state.stop.store(true, Ordering::SeqCst);
        for thread in [sender, receiver] {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        sample
    })?;
    Ok(Sample { lost: state.lost.load(Ordering::SeqCst), ..sample })
}
