//! Where the HNS is that the libraries speak to: the environment, or a file beside the library. It connects to nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hcn::{Error, HResult};
use hnsd::{Address, AddressError, Token};
use serde::Deserialize;

/// Names the address of a server: `token:FILE`, or `tcp:127.0.0.1:PORT` with [`TOKEN`].
pub const ADDRESS: &str = "TRANSOM_HNS";

/// The secret for an address that names a port.
pub const TOKEN: &str = "TRANSOM_HNS_TOKEN";

/// Who the server is told is calling; without it the program's file name.
pub const ACTOR: &str = "TRANSOM_HNS_ACTOR";

/// The file beside the library: what a server writes into a token file, or `{"hns": "ADDRESS"}`.
pub const FILE: &str = "transom-hns.json";

/// How long an actor's name may be, in bytes.
const LONGEST_ACTOR: usize = hnsd::protocol::LONGEST_ACTOR;

/// Where the HNS is and who asks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server.
    pub address: Address,
    /// The secret, for an address that names a port.
    pub token: Option<Token>,
    /// Who asks.
    pub actor: String,
}

/// There are no settings, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Nobody has said where the HNS is.
    #[error(
        "no emulated HNS is named: set {ADDRESS} to token:FILE or to tcp:127.0.0.1:PORT (with {TOKEN}), or put \
         a server's token file beside the library as {}",
        file.as_ref().map_or(FILE.into(), |file| file.display().to_string())
    )]
    Nothing {
        /// Where the file would be.
        file: Option<PathBuf>,
    },
    /// The address is none.
    #[error("{place}: {source}")]
    Address {
        /// Where it was found.
        place: String,
        /// Why.
        source: AddressError,
    },
    /// An address that names a port, and no secret.
    #[error("{place} names a port, so {secret} must hold the token of its server (or use token:FILE)")]
    NoToken {
        /// Where the address was found.
        place: String,
        /// Where the token belongs.
        secret: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("{}: {reason}; it holds a server's token file or {{\"hns\": \"token:FILE\"}}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self::detailed(HResult::SERVICE_DOES_NOT_EXIST, error.to_string())
    }
}

/// The file beside the library.
#[derive(Deserialize)]
struct Beside {
    hns: Option<String>,
    address: Option<String>,
    token: Option<Token>,
}

impl Settings {
    /// The settings of this process; `folder` is the library's.
    pub fn of_process(folder: Option<&Path>) -> Result<Self, SettingsError> {
        let program = std::env::current_exe().ok();
        Self::find(|name| std::env::var_os(name), folder, program.as_deref())
    }

    /// The settings in an environment, or in the file in a folder.
    pub fn find(
        variable: impl Fn(&str) -> Option<OsString>,
        folder: Option<&Path>,
        program: Option<&Path>,
    ) -> Result<Self, SettingsError> {
        // An empty variable is what a shell makes of one that is not set.
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let actor = actor(variable(ACTOR), program);
        let Some(address) = variable(ADDRESS) else {
            return Self::beside(folder, actor);
        };
        let place = || ADDRESS.to_owned();
        let address = address
            .to_str()
            .ok_or_else(|| AddressError::Form(address.to_string_lossy().into_owned()))
            .and_then(str::parse)
            .map_err(|source| SettingsError::Address { place: place(), source })?;
        let token = variable(TOKEN).and_then(|token| token.into_string().ok()).map(Token::new);
        let secret = || TOKEN.to_owned();
        Ok(Self { token: needed_token(&address, token, place, secret)?, address, actor })
    }

    fn beside(folder: Option<&Path>, actor: String) -> Result<Self, SettingsError> {
        let path = folder.map(|folder| folder.join(FILE));
        let nothing = || SettingsError::Nothing { file: path.clone() };
        let path = path.clone().ok_or_else(nothing)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(nothing()),
            Err(source) => return Err(SettingsError::Read { path, source }),
        };
        let content = |reason: String| SettingsError::Content { path: path.clone(), reason };
        let read: Beside = serde_json::from_str(&text).map_err(|error| content(error.to_string()))?;
        match read {
            // A token file itself: read anew for each connection, because a server that starts anew writes it anew.
            Beside { hns: None, address: Some(_), token: Some(_) } => {
                Ok(Self { address: Address::TokenFile(path), token: None, actor })
            }
            Beside { hns: Some(address), token, .. } => {
                let place = || format!("{}: member hns", path.display());
                let secret = || "member token".to_owned();
                let address =
                    address.parse().map_err(|source| SettingsError::Address { place: place(), source })?;
                // A relative path is one beside the file, whatever folder the program runs in.
                let address = match (address, path.parent()) {
                    (Address::TokenFile(file), Some(folder)) => Address::TokenFile(folder.join(file)),
                    (address, _) => address,
                };
                Ok(Self { token: needed_token(&address, token, place, secret)?, address, actor })
            }
            Beside { .. } => Err(content("neither hns nor address and token are in it".to_owned())),
        }
    }
}

fn needed_token(
    address: &Address,
    token: Option<Token>,
    place: impl Fn() -> String,
    secret: impl Fn() -> String,
) -> Result<Option<Token>, SettingsError> {
    match (address, token) {
        (Address::Tcp(_), None) => Err(SettingsError::NoToken { place: place(), secret: secret() }),
        (Address::Tcp(_), token) => Ok(token),
        _ => Ok(None),
    }
}

/// A name that a server takes: the longest beginning that fits.
fn actor(named: Option<OsString>, program: Option<&Path>) -> String {
    let name = named.or_else(|| program.and_then(Path::file_name).map(OsStr::to_owned));
    let name = name.map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned());
    let fits = name.floor_char_boundary(LONGEST_ACTOR);
    name[..fits].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)], folder: Option<&Path>) -> Result<Settings, SettingsError> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Settings::find(variable, folder, Some(Path::new("/x/tool.exe")))
    }

    #[test]
    fn the_environment_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), r#"{"hns": "token:other"}"#).unwrap();
        let found = find(&[(ADDRESS, r"token:C:\run\x.json")], Some(folder.path())).unwrap();
        assert_eq!(found.address, Address::TokenFile(r"C:\run\x.json".into()));
        assert_eq!(found.actor, "tool.exe");
        let found = find(&[(ADDRESS, ""), (ACTOR, "me")], Some(folder.path())).unwrap();
        let other = folder.path().join("other");
        assert_eq!((found.address, &*found.actor), (Address::TokenFile(other), "me"));
    }

    #[test]
    fn a_port_needs_its_token() {
        let found = find(&[(ADDRESS, "tcp:127.0.0.1:7"), (TOKEN, "secret")], None).unwrap();
        assert_eq!(found.token.unwrap().secret(), "secret");
        let error = find(&[(ADDRESS, "tcp:127.0.0.1:7")], None).unwrap_err().to_string();
        assert!(error.contains(TOKEN) && error.contains(ADDRESS), "{error}");
    }

    #[test]
    fn the_file_beside_is_a_token_file_or_names_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for (content, wanted) in [
            (r#"{"address": "127.0.0.1:7", "token": "secret"}"#, Address::TokenFile(path.clone())),
            (r#"{"hns": "token:x.json"}"#, Address::TokenFile(folder.path().join("x.json"))),
            (r#"{"hns": "tcp:127.0.0.1:7", "token": "s"}"#, Address::Tcp("127.0.0.1:7".parse().unwrap())),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(find(&[], Some(folder.path())).unwrap().address, wanted, "{content}");
        }
        for (content, part) in [
            ("{}", "neither hns nor"),
            ("[", "EOF"),
            (r#"{"hns": "tcp:10.0.0.1:7"}"#, "another machine"),
            (r#"{"hns": "tcp:127.0.0.1:7"}"#, "member token"),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = find(&[], Some(folder.path())).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(FILE), "{content}: {error}");
        }
    }

    #[test]
    fn without_settings_the_error_says_what_to_set() {
        let folder = tempfile::tempdir().unwrap();
        for folder in [None, Some(folder.path())] {
            let error = Error::from(find(&[], folder).unwrap_err());
            assert_eq!(error.code, HResult::SERVICE_DOES_NOT_EXIST);
            let detail = error.detail.unwrap();
            assert!(detail.contains(ADDRESS) && detail.contains(FILE), "{detail}");
        }
        assert!(find(&[(ADDRESS, "hns")], None).unwrap_err().to_string().contains("token:FILE"));
    }

    #[test]
    fn an_actors_name_fits() {
        let long = "ä".repeat(100);
        assert_eq!(actor(Some(long.into()), None), "ä".repeat(64));
        assert_eq!(actor(None, None), "program");
    }
}
