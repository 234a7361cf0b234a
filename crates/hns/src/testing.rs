//! What the unit tests of this crate share.

use std::sync::Arc;

use hcn::time::SeededEntropy;
use hcn::{Features, Version};

use crate::host::Host;
use crate::profile::Profile;
use crate::switches::Switches;
use crate::tx::Env;

/// An environment of this version.
pub(crate) fn env_of(version: Version) -> Env {
    Env {
        profile: Profile::Newest,
        version,
        features: Features::of(version),
        switches: Switches::default(),
        host: Host::default(),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}
