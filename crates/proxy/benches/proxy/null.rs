//! An HNS that takes everything at once and remembers nothing: what is left is the proxy's own time.

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::{Error, Guid, Hcn, Kind, Query, Result, Version};

/// Holds one L2Bridge network and forgets what it is told.
#[derive(Default)]
pub(crate) struct NullHcn;

const NETWORK: Guid = Guid::from_u128(0x1);

impl Hcn for NullHcn {
    fn enumerate(&self, kind: Kind, _: &Query) -> Result<Vec<Guid>> {
        Ok(if kind == Kind::Network { vec![NETWORK] } else { Vec::new() })
    }

    fn query(&self, kind: Kind, id: Guid, _: &Query) -> Result<String> {
        if kind == Kind::Network {
            return Ok(format!(r#"{{"ID":"{id}","Name":"net","Type":"L2Bridge"}}"#));
        }
        Err(Error::new(kind.not_found()))
    }

    fn create(&self, _: Kind, _: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        std::hint::black_box(settings);
        Ok(id)
    }

    fn modify(&self, _: Kind, _: Guid, _: &str) -> Result<()> {
        Ok(())
    }

    fn delete(&self, _: Kind, _: Guid) -> Result<()> {
        Ok(())
    }

    fn call_v1(&self, _: V1Method, _: &str, _: &str) -> Result<String> {
        Ok(r#"{"Success":true,"Output":[]}"#.to_owned())
    }

    fn version(&self) -> Result<Version> {
        Ok(Version::new(13, 3))
    }

    fn subscribe(&self, _: NotificationSink) -> Result<SubscriptionId> {
        Ok(SubscriptionId(0))
    }

    fn unsubscribe(&self, _: SubscriptionId) {}
}
