//! A stream to a server, of either kind.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::address::Address;
use crate::token::{Token, TokenFile};

use super::{ConnectError, Options};

/// A connected stream.
pub(super) enum Transport {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

macro_rules! either {
    ($self:expr, $stream:ident => $do:expr) => {
        match $self {
            #[cfg(unix)]
            Transport::Unix($stream) => $do,
            Transport::Tcp($stream) => $do,
        }
    };
}

impl Transport {
    /// Connects; also the token to show. A token file is read each time: a server that was started anew has another
    /// port and another token.
    pub(super) fn connect(
        address: &Address,
        options: &Options,
    ) -> Result<(Self, Option<Token>), ConnectError> {
        let unreachable = |cause| ConnectError::Unreachable { address: address.clone(), cause };
        let tcp = |to: &std::net::SocketAddr| {
            let stream = TcpStream::connect_timeout(to, options.patience).map_err(unreachable)?;
            stream.set_nodelay(true).map_err(unreachable)?;
            Ok::<_, ConnectError>(Self::Tcp(stream))
        };
        match address {
            #[cfg(unix)]
            Address::Unix(path) => {
                Ok((Self::Unix(UnixStream::connect(path).map_err(unreachable)?), options.token.clone()))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(unreachable(io::Error::new(
                io::ErrorKind::Unsupported,
                "there are no Unix sockets on this system; use token:FILE",
            ))),
            Address::Tcp(to) => Ok((tcp(to)?, options.token.clone())),
            Address::TokenFile(path) => {
                let TokenFile { address, token } = TokenFile::read(path)?;
                Ok((tcp(&address)?, Some(token)))
            }
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            #[cfg(unix)]
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    pub(super) fn set_times(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        either!(self, stream => {
            stream.set_read_timeout(read)?;
            stream.set_write_timeout(write)
        })
    }

    /// Ends the stream for every clone; a thread that reads it wakes up.
    pub(super) fn shut(&self) {
        // One that is closed already needs no closing.
        let _ = either!(self, stream => stream.shutdown(Shutdown::Both));
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.read(buffer))
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, stream => stream.flush())
    }
}
