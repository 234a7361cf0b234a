//! The secret that clients over TCP show, and the file in which a server leaves it for those who may read it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A secret; it is never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token that somebody else made.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// 256 bits from the system's randomness.
    #[cfg(unix)]
    pub fn random() -> io::Result<Self> {
        use std::fmt::Write as _;
        let mut bytes = [0_u8; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        let mut text = String::with_capacity(64);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether `shown` is the secret, in a time that does not tell where the two differ.
    pub fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let mut different = own.len() ^ shown.len();
        for (index, byte) in own.iter().enumerate() {
            let other = shown.get(index).copied().unwrap_or_default();
            different |= usize::from(std::hint::black_box(byte ^ other));
        }
        std::hint::black_box(different) == 0 && !own.is_empty()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a token file holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TokenFile {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The secret.
    pub token: Token,
}

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("token file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not hold what a server writes.
    #[error("token file {}: {source}; a server writes {{\"address\": \"127.0.0.1:PORT\", \"token\": \"…\"}}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl TokenFile {
    /// Reads a token file.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text)
            .map_err(|source| TokenFileError::Content { path: path.to_owned(), source })
    }

    /// Writes it, readable by its owner only and whole or not at all.
    #[cfg(unix)]
    pub fn write(&self, path: &Path) -> io::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;

        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut new = std::ffi::OsString::from(".");
        new.push(name);
        new.push(format!(".{}", std::process::id()));
        let new = path.with_file_name(new);
        // One that a killed process of the same id has left.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let write = || {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(serde_json::to_string(self)?.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&new, path)
        };
        write().inspect_err(|_| {
            let _ = std::fs::remove_file(&new);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_itself_is_the_secret() {
        let token = Token::new("0123abcd");
        assert!(token.is("0123abcd"));
        for wrong in ["", "0123abc", "0123abcde", "0123abce", "1123abcd", "0123ABCD", "0123abcd\0"] {
            assert!(!token.is(wrong), "{wrong:?}");
        }
        assert!(!Token::new("").is(""), "no secret lets nobody in");
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[cfg(unix)]
    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.secret().len(), 64);
        assert!(one.secret().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!one.is(other.secret()));
    }

    #[cfg(unix)]
    #[test]
    fn a_token_file_is_its_owners_and_replaces_the_one_before() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "old, and readable by all").unwrap();
        let written = TokenFile { address: "127.0.0.1:7".parse().unwrap(), token: Token::new("secret") };
        written.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let read = TokenFile::read(&path).unwrap();
        assert_eq!((read.address, read.token.secret()), (written.address, "secret"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        std::fs::write(&path, "{}").unwrap();
        let error = TokenFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("missing field `address`") && error.contains("127.0.0.1:PORT"), "{error}");
    }
}
