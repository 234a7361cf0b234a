//! Messages with file descriptors between the supervisor and a process that it starts: JSON documents over a pair of
//! connected sockets that keep message boundaries. The pair is private: nobody else can open it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message, in bytes.
const LONGEST: usize = 128 * 1024;

/// How many descriptors go with one message.
const MOST_FDS: usize = 8;

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.socket
    }
}

impl Channel {
    /// Two connected ends; neither is passed on to programs unless asked for.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: a }, Self { socket: b }))
    }

    /// Sends a message.
    pub fn send<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > LONGEST || fds.len() > MOST_FDS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message to a process is too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// The next message. `None`: the other end is closed.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut text = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut text)];
            rustix::net::recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        let received = match received {
            Ok(received) => received,
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message between processes was cut"));
        }
        text.truncate(received.bytes);
        Ok(Some((serde_json::from_slice(&text)?, fds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};

    #[test]
    fn a_message_brings_its_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"inside").unwrap();
        one.send(&("port", 7), &[file.as_fd()]).unwrap();
        one.send(&("plain", 8), &[]).unwrap();
        let ((word, number), mut fds) = other.receive::<(String, u32)>().unwrap().unwrap();
        assert_eq!((word.as_str(), number, fds.len()), ("port", 7, 1));
        let mut passed = File::from(fds.pop().unwrap());
        passed.rewind().unwrap();
        let mut text = String::new();
        passed.read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        let (_, fds) = other.receive::<(String, u32)>().unwrap().unwrap();
        assert!(fds.is_empty());
        drop(one);
        assert!(other.receive::<(String, u32)>().unwrap().is_none());
    }

    #[test]
    fn what_is_too_long_or_no_document_is_refused() {
        let (one, other) = Channel::pair().unwrap();
        assert!(one.send(&"x".repeat(LONGEST), &[]).is_err());
        one.send(&"text", &[]).unwrap();
        assert!(other.receive::<u32>().is_err());
    }
}
