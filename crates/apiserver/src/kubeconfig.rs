//! kubeconfig files for a running server, one for each way to say who one is, and what these files refer to.
//!
//! This module must not know how credentials are checked.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::access::User;
use crate::server::{Running, ServerError};
use crate::tls::Identity;

/// How a client says who it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Credential {
    /// Not at all.
    None,
    /// A token in the kubeconfig.
    Token(String),
    /// A token in a file that the client reads anew from time to time.
    TokenFile(PathBuf),
    /// A certificate and key in the kubeconfig.
    Certificate(Identity),
    /// A certificate and key in two files.
    CertificateFiles {
        /// The certificate's.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// A program that prints an `ExecCredential` (`client.authentication.k8s.io/v1`).
    Exec {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// More about how a client is to connect.
#[derive(Debug, Clone, Default)]
pub struct Connecting {
    /// `http://127.0.0.1:3128`: through this proxy.
    pub proxy_url: Option<String>,
    /// The name that the server's certificate must have, if not the address's.
    pub tls_server_name: Option<String>,
    /// Without looking at the server's certificate.
    pub insecure: bool,
    /// Another address than the server's own.
    pub server: Option<String>,
    /// The CA in this file and not in the kubeconfig.
    pub ca_file: Option<PathBuf>,
    /// The namespace of the context.
    pub namespace: Option<String>,
}

impl Running {
    /// A kubeconfig in YAML.
    pub fn kubeconfig(&self, credential: &Credential, connecting: &Connecting) -> String {
        let mut cluster = json!({"server": connecting.server.clone().unwrap_or_else(|| self.url())});
        match (&connecting.ca_file, self.ca_pem()) {
            _ if connecting.insecure => cluster["insecure-skip-tls-verify"] = true.into(),
            (Some(file), _) => cluster["certificate-authority"] = text(file),
            (None, Some(pem)) => cluster["certificate-authority-data"] = STANDARD.encode(pem).into(),
            (None, None) => {}
        }
        let members =
            [("proxy-url", &connecting.proxy_url), ("tls-server-name", &connecting.tls_server_name)];
        for (member, value) in members {
            if let Some(value) = value {
                cluster[member] = value.clone().into();
            }
        }
        let mut context = json!({"cluster": "test", "user": "test"});
        if let Some(namespace) = &connecting.namespace {
            context["namespace"] = namespace.clone().into();
        }
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "contexts": [{"name": "test", "context": context}],
            "users": [{"name": "test", "user": user(credential)}],
        });
        // JSON is YAML; written so, no text needs another quoting.
        serde_saphyr::to_string(&document).unwrap_or_else(|_| document.to_string())
    }

    /// Writes a kubeconfig.
    pub fn write_kubeconfig(
        &self,
        path: &Path,
        credential: &Credential,
        connecting: &Connecting,
    ) -> Result<(), ServerError> {
        write(path, &self.kubeconfig(credential, connecting))
    }

    /// Issues a token for a user into a file, which [`TokenFile::rotate`] writes anew.
    pub fn token_file(&self, path: &Path, user: &User) -> Result<TokenFile, ServerError> {
        let token = self.access().issue_token(user.clone());
        write(path, &token)?;
        Ok(TokenFile { access: self.access().clone(), path: path.to_owned(), user: user.clone(), token })
    }
}

impl Identity {
    /// Writes certificate and key into a folder, as `NAME.crt` and `NAME.key`.
    pub fn write(&self, folder: &Path, name: &str) -> Result<Credential, ServerError> {
        let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        write(&certificate, &self.certificate)?;
        write(&key, &self.key)?;
        Ok(Credential::CertificateFiles { certificate, key })
    }
}

/// A token in a file.
#[derive(Debug)]
pub struct TokenFile {
    access: crate::access::Access,
    path: PathBuf,
    user: User,
    token: String,
}

impl TokenFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token that is in it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Issues another token into the file, whole or not at all, and revokes the one that was there; returns that one.
    pub fn rotate(&mut self) -> Result<String, ServerError> {
        let token = self.access.issue_token(self.user.clone());
        write(&self.path, &token)?;
        let old = std::mem::replace(&mut self.token, token);
        self.access.revoke_token(&old);
        Ok(old)
    }
}

/// Writes a program that prints what is in `answer` each time it is called, and counts its calls in `calls`, a file with
/// a line for each. The answer is an `ExecCredential` ([`exec_credential`]), and may be written anew at any time.
#[cfg(unix)]
pub fn write_exec_plugin(folder: &Path) -> Result<ExecPlugin, ServerError> {
    use std::os::unix::fs::PermissionsExt;

    let plugin = ExecPlugin {
        command: folder.join("credential-plugin.sh"),
        answer: folder.join("credential.json"),
        calls: folder.join("credential-calls"),
    };
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    let script = format!(
        "#!/bin/sh\nset -e\necho \"$KUBERNETES_EXEC_INFO\" >> {}\ncat {}\n",
        quoted(&plugin.calls),
        quoted(&plugin.answer)
    );
    write(&plugin.command, &script)?;
    write(&plugin.calls, "")?;
    let failed = |source| ServerError::Write { path: plugin.command.clone(), source };
    fs::set_permissions(&plugin.command, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    Ok(plugin)
}

/// A credential plugin.
#[derive(Debug, Clone)]
pub struct ExecPlugin {
    /// The program.
    pub command: PathBuf,
    answer: PathBuf,
    calls: PathBuf,
}

impl ExecPlugin {
    /// What the program prints from now on.
    pub fn set_answer(&self, answer: &Value) -> Result<(), ServerError> {
        write(&self.answer, &answer.to_string())
    }

    /// How often it has been called.
    pub fn calls(&self) -> usize {
        fs::read_to_string(&self.calls).unwrap_or_default().lines().count()
    }

    /// The credential of a kubeconfig.
    pub fn credential(&self) -> Credential {
        Credential::Exec { command: self.command.clone(), arguments: Vec::new() }
    }
}

/// An `ExecCredential` with a token that expires at a time in RFC 3339, or never.
pub fn exec_credential(token: &str, expires: Option<&str>) -> Value {
    let mut status = json!({"token": token});
    if let Some(expires) = expires {
        status["expirationTimestamp"] = expires.into();
    }
    json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
}

fn user(credential: &Credential) -> Value {
    match credential {
        Credential::None => json!({}),
        Credential::Token(token) => json!({"token": token}),
        Credential::TokenFile(path) => json!({"tokenFile": text(path)}),
        Credential::Certificate(identity) => json!({
            "client-certificate-data": STANDARD.encode(&identity.certificate),
            "client-key-data": STANDARD.encode(&identity.key),
        }),
        Credential::CertificateFiles { certificate, key } => {
            json!({"client-certificate": text(certificate), "client-key": text(key)})
        }
        Credential::Exec { command, arguments } => json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": text(command), "args": arguments,
            "interactiveMode": "Never", "provideClusterInfo": false,
        }}),
    }
}

fn text(path: &Path) -> Value {
    path.display().to_string().into()
}

/// Writes a file whole or not at all: clients may read it at any time.
fn write(path: &Path, content: &str) -> Result<(), ServerError> {
    let failed = |source| ServerError::Write { path: path.to_owned(), source };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::write(&beside, content).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}
