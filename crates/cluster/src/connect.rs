//! From what the command line says to a client: a kubeconfig file, the settings that a pod finds, an address in place of the
//! one in the file.
//!
//! It must not know what is asked of the API.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use crate::client;

/// Where a pod finds its token and its cluster's certificate authority.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Finds a file that a configuration names: in a HostProcess container its files may lie below a mount point.
pub type Resolve = Arc<dyn Fn(&Path) -> PathBuf + Send + Sync>;

/// How the API is reached.
#[derive(Clone)]
pub struct Connection {
    /// The file; none: the settings that a pod finds.
    pub kubeconfig: Option<PathBuf>,
    /// An address in place of the file's (`--master`).
    pub master: Option<String>,
    /// Where the API is, for a pod in whose node cluster IPs do not work yet, in place of the environment's.
    pub endpoint: Option<String>,
    /// Where files are.
    pub resolve: Resolve,
    /// Who is told to be calling.
    pub user_agent: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("kubeconfig", &self.kubeconfig)
            .field("master", &self.master)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            master: None,
            endpoint: None,
            resolve: Arc::new(Path::to_path_buf),
            user_agent: format!("transom/{}", env!("CARGO_PKG_VERSION")),
        }
    }
}

/// There is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read or understood.
    #[error("kubeconfig {}: {error}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// A file that a configuration names is not there.
    #[error("{}: {field}: {} is not there", config, path.display())]
    File {
        /// Who names it.
        config: String,
        /// In which field.
        field: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// This is no pod, and no file was named.
    #[error("neither --kubeconfig nor --master was given, and this is no pod: {0}; give --kubeconfig FILE")]
    NoPod(String),
    /// An address cannot be one.
    #[error("{field}: {text:?} is no address of an API server: write https://HOST:PORT ({error})")]
    Address {
        /// The flag.
        field: &'static str,
        /// Its value.
        text: String,
        /// Why.
        error: String,
    },
    /// The configuration gives no client.
    #[error("the API client cannot be made: {0}")]
    Client(String),
}

impl Connection {
    /// The client's configuration.
    pub async fn config(&self) -> Result<Config, ConnectError> {
        let mut config = match (&self.kubeconfig, &self.master) {
            (Some(path), _) => self.of_file(path).await?,
            (None, Some(master)) => Config::new(address("--master", master)?),
            (None, None) => self.of_pod()?,
        };
        if let Some(master) = &self.master {
            config.cluster_url = address("--master", master)?;
        }
        let agent = http::HeaderValue::from_str(&self.user_agent)
            .map_err(|error| ConnectError::Client(format!("user agent {:?}: {error}", self.user_agent)))?;
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(config)
    }

    /// A client. It hands each answer on at once; when the server asks to be left alone (`Retry-After`) the next request waits.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        let config = self.config().await?;
        client::client(config).map_err(|error| ConnectError::Client(chain(&error)))
    }

    async fn of_file(&self, path: &Path) -> Result<Config, ConnectError> {
        let failed = |error: String| ConnectError::Kubeconfig { path: path.to_owned(), error };
        let found = (self.resolve)(path);
        let mut file = Kubeconfig::read_from(&found).map_err(|error| failed(chain(&error)))?;
        self.place(path, &mut file)?;
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(chain(&error)))
    }

    /// Puts files that the configuration names where they are.
    fn place(&self, path: &Path, file: &mut Kubeconfig) -> Result<(), ConnectError> {
        let config = format!("kubeconfig {}", path.display());
        let place = |field: &'static str, name: &mut Option<String>| -> Result<(), ConnectError> {
            let Some(text) = name.as_deref().filter(|text| !text.is_empty()) else { return Ok(()) };
            let found = (self.resolve)(Path::new(text));
            if !found.exists() {
                let path = PathBuf::from(text);
                return Err(ConnectError::File { config: config.clone(), field, path });
            }
            *name = Some(found.display().to_string());
            Ok(())
        };
        for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            place("certificate-authority", &mut cluster.certificate_authority)?;
        }
        for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            place("tokenFile", &mut user.token_file)?;
            place("client-certificate", &mut user.client_certificate)?;
            place("client-key", &mut user.client_key)?;
        }
        Ok(())
    }

    /// What a pod finds: its files, and the API's address in its environment unless another one is given.
    fn of_pod(&self) -> Result<Config, ConnectError> {
        let file = |name: &str| (self.resolve)(&Path::new(SERVICE_ACCOUNT).join(name));
        let (token, authority) = (file("token"), file("ca.crt"));
        if !token.exists() {
            return Err(ConnectError::NoPod(format!("{} is not there", token.display())));
        }
        let url = match &self.endpoint {
            Some(endpoint) => address("the control plane's endpoint", endpoint)?,
            None => of_environment()?,
        };
        let mut config = Config::new(url);
        config.auth_info.token_file = Some(token.display().to_string());
        config.root_cert_file = authority.exists().then_some(authority);
        Ok(config)
    }
}

/// The address that a pod finds in its environment: the cluster IP of the API's own Service.
fn of_environment() -> Result<http::Uri, ConnectError> {
    let variable =
        |name: &str| std::env::var(name).map_err(|_| ConnectError::NoPod(format!("{name} is not set")));
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    address("KUBERNETES_SERVICE_HOST", &format!("https://{host}:{port}"))
}

/// An address, with https where no scheme is given.
fn address(field: &'static str, text: &str) -> Result<http::Uri, ConnectError> {
    let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let wrong = |error: String| ConnectError::Address { field, text: text.to_owned(), error };
    let uri: http::Uri = full.parse().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        _ => Err(wrong("http or https and a host are wanted".to_owned())),
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their cause's text in their own.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
