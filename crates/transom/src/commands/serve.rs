//! `transom hns serve`: an emulated HNS for other processes, without a switch and without a lab.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, bail};
use hcn::Hcn;
use hns::Hns;
use hnsd::{Address, Limits, Server, Service};
use serde_json::{Value, json};

use super::session::Asked;
use crate::cli::hns::HnsServe;
use crate::cli::hns_at::HnsAt;
use crate::exit::Exit;

/// How long calls under way may take when the server ends.
const GRACE: Duration = Duration::from_secs(2);

/// One HNS, the same for everybody who asks; the journal tells them apart.
struct Served {
    hns: Hns,
}

impl Service for Served {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        Some(Arc::new(self.hns.actor(actor)))
    }

    fn about(&self) -> Value {
        let version = self.hns.profile().version();
        json!({
            "profile": self.hns.profile().name(),
            "hns": { "Major": version.major, "Minor": version.minor },
            "transom": env!("CARGO_PKG_VERSION"),
        })
    }
}

pub(super) fn run(command: &HnsServe) -> anyhow::Result<Exit> {
    let asked = Asked {
        manifests: &command.manifests,
        options: &command.input,
        node: &command.node,
        hns: &HnsAt::Emulated,
        settings: None,
        engine: None,
    };
    let hns = if command.manifests.is_empty() {
        asked.open_hns(asked.profile(None), None)?
    } else {
        asked.furnished()?
    };
    let mut server = Server::new(Arc::new(Served { hns }), Limits::default());
    for address in &command.listen {
        server = match address {
            Address::Unix(path) => server.unix(path)?,
            Address::TokenFile(path) => server.tcp(0, path)?,
            Address::Tcp(_) => {
                bail!("--listen {address}: a port needs a file for its secret; write token:FILE")
            }
        };
    }
    let (signals, signalled) = channel();
    ctrlc::set_handler(move || {
        // Nobody listens when the server is ending already.
        let _ = signals.send(());
    })
    .context("signals cannot be caught")?;
    let running = server.start().context("the server does not start")?;
    let files = running.files();
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    tracing::info!(files = files.join(", "), "Serving HNS");
    // The sender lives in the handler.
    let _ = signalled.recv();
    running.shutdown(GRACE);
    Ok(Exit::Success)
}
