//! The node's HNS: emulated in this process, of another process, or this Windows machine's own. It must not know what is done with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hcn::{ErrorClass, Hcn, Version};
use hns::{Hns, Profile};
use hnsd::{Address, Remote};
use node::{Furnisher, NodeSpec};

use crate::cli::hns_at::HnsAt;
use crate::stop::Stop;

/// The node's HNS.
pub(super) enum NodeHns {
    /// Emulated in this process, which also sets the node up.
    Emulated(Hns, Profile),
    /// Another one, set up by somebody else, and its version as last known.
    Other(OtherHns, Version),
}

/// An HNS that is not emulated in this process.
pub(super) enum OtherHns {
    /// Of another process.
    Server(Remote),
    /// Of this machine.
    #[cfg(windows)]
    Native(hcn_windows::Native),
}

impl OtherHns {
    /// The one that is asked for, if not an emulated one. It is not called yet.
    fn find(at: &HnsAt, actor: &str) -> anyhow::Result<Option<Self>> {
        match at {
            HnsAt::Emulated => Ok(None),
            HnsAt::Server(address) => {
                Ok(Some(Self::Server(Remote::new(address.clone(), hnsd::Options::actor(actor)))))
            }
            #[cfg(windows)]
            HnsAt::Native => {
                // Whether a build keeps the ids that it is given is not known of all; one reading of each kind tells.
                let options = hcn_windows::Options { verify_ids: hcn_windows::VerifyIds::UntilKept };
                let native = hcn_windows::Native::system(options).context("the HNS of this machine")?;
                Ok(Some(Self::Native(native)))
            }
            #[cfg(not(windows))]
            HnsAt::Native => Err(crate::cli::hns_at::HnsAtError::NotWindows.into()),
        }
    }

    /// The one that is asked for, if not an emulated one; it can be reached.
    pub(super) fn open(at: &HnsAt, actor: &str) -> anyhow::Result<Option<Self>> {
        let found = Self::find(at, actor)?;
        if let Some(Self::Server(remote)) = &found {
            remote.greeting()?;
        }
        Ok(found)
    }

    /// The same HNS for another caller, where it tells them apart.
    pub(super) fn actor(&self, name: &str) -> Arc<dyn Hcn> {
        match self {
            Self::Server(remote) => Arc::new(remote.actor(name)),
            #[cfg(windows)]
            Self::Native(native) => Arc::new(native.clone()),
        }
    }

    /// Its version, asked now.
    pub(super) fn version(&self) -> anyhow::Result<Version> {
        let version = match self {
            Self::Server(remote) => remote.version(),
            #[cfg(windows)]
            Self::Native(native) => native.version(),
        };
        version.with_context(|| self.to_string())
    }

    /// Whether it can be asked. What waiting may mend is told as text, what it does not mend is an error.
    fn ask(&self) -> anyhow::Result<Option<String>> {
        let version = match self {
            Self::Server(remote) => match remote.greeting() {
                Ok(_) => remote.version(),
                Err(error) if error.may_pass() => return Ok(Some(error.to_string())),
                Err(error) => return Err(error.into()),
            },
            #[cfg(windows)]
            Self::Native(native) => native.version(),
        };
        match version {
            Ok(_) => Ok(None),
            Err(error) if error.class() == ErrorClass::Unavailable => Ok(Some(error.to_string())),
            Err(error) => Err(error).with_context(|| self.to_string()),
        }
    }
}

impl fmt::Display for OtherHns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(remote) => write!(f, "HNS at {}", remote.address()),
            #[cfg(windows)]
            Self::Native(_) => f.write_str("this machine's HNS"),
        }
    }
}

impl NodeHns {
    pub(super) fn actor(&self, name: &str) -> Arc<dyn Hcn> {
        match self {
            Self::Emulated(hns, _) => Arc::new(hns.actor(name)),
            Self::Other(other, _) => other.actor(name),
        }
    }

    /// Its version, as last known.
    pub(super) fn version(&self) -> Version {
        match self {
            Self::Emulated(_, profile) => profile.version(),
            Self::Other(_, version) => *version,
        }
    }

    /// Makes HNS follow a node's facts; another one is not ours to set up.
    pub(super) fn furnish(&self, spec: &NodeSpec) -> anyhow::Result<node::Furnished> {
        match self {
            Self::Emulated(..) => Ok(Furnisher::new(self.actor("cni")).furnish(spec)?),
            Self::Other(..) => Ok(node::Furnished::default()),
        }
    }
}

impl fmt::Display for NodeHns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emulated(_, profile) => write!(f, "emulated HNS {} ({profile})", profile.version()),
            Self::Other(OtherHns::Server(remote), version) => {
                write!(f, "HNS {version} at {}", remote.address())
            }
            #[cfg(windows)]
            Self::Other(OtherHns::Native(_), version) => write!(f, "this machine's HNS {version}"),
        }
    }
}

/// Connects to the HNS of another process.
pub(super) fn connect(address: &Address, actor: &str) -> Result<Remote, hnsd::ConnectError> {
    Remote::connect(address.clone(), hnsd::Options::actor(actor))
}

/// Waits until an HNS that is not emulated here can be asked: its service or process may start after this one. What waiting does not
/// mend is an error. False when somebody asks to stop.
pub(super) fn wait_for(at: &HnsAt, stop: &Stop) -> anyhow::Result<bool> {
    const PAUSE: Duration = Duration::from_secs(1);
    let Some(other) = OtherHns::find(at, "proxy")? else { return Ok(true) };
    let mut is_told = false;
    while let Some(reason) = other.ask()? {
        if !is_told {
            tracing::warn!(error = reason, "Waiting for HNS");
            is_told = true;
        }
        if stop.pause(PAUSE) {
            return Ok(false);
        }
    }
    Ok(true)
}
