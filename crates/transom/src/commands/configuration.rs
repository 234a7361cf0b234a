//! kube-proxy's configuration file: reading the one that `--config` names, and writing the resulting one.
//!
//! What is in it is `proxy_config`'s; here are only the files.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, anyhow};
use proxy_config::{Document, ProxySettings};

use crate::cli::Cli;
use crate::cli::kube_proxy::KubeProxyArgs;
use crate::exit::Exit;
use crate::{host, paths};

/// The largest file that is read.
const MOST: u64 = 1 << 20;

/// Reads the file that is named, if one is, and completes the settings with it.
pub fn read(cli: &mut Cli) -> anyhow::Result<()> {
    let Some(flags) = cli.kube_proxy_mut() else { return Ok(()) };
    let Some(path) = flags.config() else { return Ok(()) };
    complete(flags, &path)
}

/// Reads the file again; when that fails, the settings stay.
pub(super) fn reread(flags: &mut KubeProxyArgs) -> anyhow::Result<()> {
    let Some(path) = flags.config() else { return Ok(()) };
    complete(flags, &path)
}

fn complete(flags: &mut KubeProxyArgs, path: &str) -> anyhow::Result<()> {
    let named = || format!("--config {path}");
    let place = paths::resolve(Path::new(path));
    let size = fs::metadata(&place).with_context(named)?.len();
    if size > MOST {
        return Err(anyhow!("the file has {size} bytes; a configuration has {MOST} at most"))
            .with_context(named);
    }
    let text = fs::read_to_string(&place).with_context(named)?;
    let document = Document::parse(&text).with_context(named)?;
    flags.resolve(Some(&document), &host::name()).with_context(named)
}

/// Writes the configuration if that was asked for; then there is nothing else to do.
pub(super) fn written(settings: Option<&ProxySettings>) -> anyhow::Result<Option<Exit>> {
    let Some(settings) = settings else { return Ok(None) };
    let Some(path) = &settings.instead.write_config_to else { return Ok(None) };
    let named = || format!("--write-config-to {path}");
    let text = settings.configuration.to_yaml().with_context(named)?;
    let place = paths::resolve(Path::new(path));
    if fs::metadata(&place).is_ok_and(|found| !found.is_file()) {
        // A device or a pipe, such as /dev/stdout.
        fs::write(&place, text).with_context(named)?;
    } else {
        // Whole or not at all: a proxy may be reading the file that was there.
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(named)?;
        file.write_all(text.as_bytes()).with_context(named)?;
        file.persist(&place).with_context(named)?;
    }
    tracing::info!(path = %place.display(), "The configuration is written");
    Ok(Some(Exit::Success))
}

/// Says that a file's API server is not asked, because the cluster is read from manifests.
pub(super) fn beside_manifests(settings: Option<&ProxySettings>) {
    if let Some(kubeconfig) = settings.and_then(|settings| settings.api.kubeconfig.as_deref()) {
        tracing::warn!(%kubeconfig, "clientConnection.kubeconfig is not used: objects come from --manifests");
    }
}
