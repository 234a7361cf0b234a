//! TAP devices with virtio-net headers: one frame for each read and write, with what its sender left to the adapter.
//!
//! It knows the kernel's interface and nothing of what frames are for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, IntegerSetter, Setter};
use serde::{Deserialize, Serialize};

/// `/dev/net/tun`.
pub const DEVICE: &str = "/dev/net/tun";

/// The longest name of a device.
pub const LONGEST_NAME: usize = 15;

// <linux/if_tun.h>
const TUNSETIFF: ioctl::Opcode = ioctl::opcode::write::<i32>(b'T', 202);
const TUNSETOFFLOAD: ioctl::Opcode = ioctl::opcode::write::<u32>(b'T', 208);
const TUNSETVNETHDRSZ: ioctl::Opcode = ioctl::opcode::write::<i32>(b'T', 216);
const TUNSETVNETLE: ioctl::Opcode = ioctl::opcode::write::<i32>(b'T', 220);
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO4: usize = 0x02;
const TUN_F_TSO6: usize = 0x04;
const TUN_F_TSO_ECN: usize = 0x08;
const TUN_F_USO4: usize = 0x20;
const TUN_F_USO6: usize = 0x40;
/// Since Linux 6.17.
const TUN_F_UDP_TUNNEL_GSO: usize = 0x80;
const TUN_F_UDP_TUNNEL_GSO_CSUM: usize = 0x100;

/// What a device takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// Large UDP frames (Linux 6.2).
    pub udp: bool,
    /// Large frames in tunnels (Linux 6.17).
    pub tunnels: bool,
}

impl Abilities {
    /// Bytes of the header in front of each frame.
    pub const fn header(self) -> usize {
        if self.tunnels { 24 } else { 12 }
    }
}

/// An open TAP device.
#[derive(Debug)]
pub struct Tap {
    file: File,
    abilities: Abilities,
}

/// The part of `struct ifreq` that is used.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

impl Tap {
    /// Makes a device in the network namespace of the calling thread. It goes when the last descriptor is closed.
    pub fn create(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() > LONGEST_NAME {
            let text = format!("{name:?} is no name for a device: use 1 to {LONGEST_NAME} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::open(DEVICE, flags, Mode::empty())?;
        let mut request = Request { name: [0; 16], flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, rest: [0; 22] };
        for (to, from) in request.name.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        set_interface(&fd, request)?;
        let abilities = negotiate(&fd)?;
        Ok(Self { file: fd.into(), abilities })
    }

    /// A device that somebody else has made.
    pub fn of(fd: OwnedFd, abilities: Abilities) -> Self {
        Self { file: fd.into(), abilities }
    }

    /// What it takes and gives.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// The next frame, behind its header. `Ok(0)` never happens; no frame is [`io::ErrorKind::WouldBlock`].
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.file, room)?)
    }

    /// Hands a frame with its header to the device.
    pub fn write(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.file, frame)?)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[expect(unsafe_code, reason = "the kernel's interface")]
fn set_interface(fd: &OwnedFd, request: Request) -> io::Result<()> {
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq` of 40 bytes, which `Request` is laid out as.
    unsafe { ioctl::ioctl(fd, Setter::<TUNSETIFF, Request>::new(request))? };
    Ok(())
}

#[expect(unsafe_code, reason = "the kernel's interface")]
fn set_number<const OPCODE: ioctl::Opcode>(fd: &OwnedFd, number: i32) -> rustix::io::Result<()> {
    // SAFETY: the operations that this is called with read one `int`.
    unsafe { ioctl::ioctl(fd, Setter::<OPCODE, i32>::new(number)) }
}

#[expect(unsafe_code, reason = "the kernel's interface")]
fn set_offload(fd: &OwnedFd, bits: usize) -> rustix::io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its bits in place of a pointer.
    unsafe { ioctl::ioctl(fd, IntegerSetter::<TUNSETOFFLOAD>::new_usize(bits)) }
}

/// Asks for everything and is content with what the kernel has.
fn negotiate(fd: &OwnedFd) -> io::Result<Abilities> {
    set_number::<TUNSETVNETLE>(fd, 1)?;
    let plain = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let udp = plain | TUN_F_USO4 | TUN_F_USO6;
    let tunnels = udp | TUN_F_UDP_TUNNEL_GSO | TUN_F_UDP_TUNNEL_GSO_CSUM;
    for (bits, abilities) in [
        (tunnels, Abilities { udp: true, tunnels: true }),
        (udp, Abilities { udp: true, tunnels: false }),
        (plain, Abilities { udp: false, tunnels: false }),
    ] {
        let size = i32::try_from(abilities.header()).unwrap_or_default();
        if set_number::<TUNSETVNETHDRSZ>(fd, size).is_ok() && set_offload(fd, bits).is_ok() {
            return Ok(abilities);
        }
    }
    Err(io::Error::other("the kernel's TAP devices have no offloads"))
}
