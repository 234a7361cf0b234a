//! How a process says that it is ready: `READY=1` in a datagram, as services say it to systemd.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Where one process says it.
#[derive(Debug)]
pub(super) struct Notify {
    socket: UnixDatagram,
    ready: bool,
}

impl Notify {
    /// Listens; what an earlier one left at the path is replaced.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(path)?;
        // Nobody else is to say it.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, ready: false })
    }

    /// Whether it has been said.
    pub(super) fn is_ready(&mut self) -> bool {
        let mut text = [0; 256];
        while let Ok(length) = self.socket.recv(&mut text) {
            let said = text.get(..length).unwrap_or_default();
            self.ready |= said.split(|&byte| byte == b'\n').any(|line| line == b"READY=1");
        }
        self.ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready.sock");
        let mut notify = Notify::bind(&path).unwrap();
        let process = UnixDatagram::unbound().unwrap();
        assert!(!notify.is_ready());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        process.send_to(b"STATUS=READY=1", &path).unwrap();
        assert!(!notify.is_ready());
        process.send_to(b"STATUS=fine\nREADY=1\n", &path).unwrap();
        assert!(notify.is_ready());
        assert!(notify.is_ready(), "it is not forgotten");
        assert!(!Notify::bind(&path).unwrap().is_ready(), "a new process has to say it anew");
    }
}
