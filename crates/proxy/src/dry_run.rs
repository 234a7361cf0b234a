//! An HCN that reads through and never writes: what would be done can be seen without doing it. Writes succeed and
//! are remembered, so that the engine can go on as if they had happened.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::{Error, Guid, HResult, Hcn, Kind, Query, Result, Version};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Stands for an address that HNS would choose; it is never a real endpoint's.
pub const CHOSEN_BY_HNS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Wraps an [`Hcn`] and keeps every write from it.
pub struct DryRun {
    inner: Arc<dyn Hcn>,
    /// What was written: a document, or `None` when it was deleted.
    written: Mutex<FxHashMap<(Kind, Guid), Option<String>>>,
}

impl DryRun {
    /// Wraps.
    pub fn new(inner: Arc<dyn Hcn>) -> Self {
        Self { inner, written: Mutex::default() }
    }
}

impl Hcn for DryRun {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        let mut ids = self.inner.enumerate(kind, query)?;
        let written = self.written.lock();
        ids.retain(|id| written.get(&(kind, *id)) != Some(&None));
        for (&(of, id), document) in written.iter() {
            if of == kind && document.is_some() && !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        match self.written.lock().get(&(kind, id)) {
            Some(Some(document)) => Ok(document.clone()),
            Some(None) => Err(Error::new(kind.not_found())),
            None => self.inner.query(kind, id, query),
        }
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        let mut document = settings.to_owned();
        if kind == Kind::Endpoint {
            let mut endpoint = hcn::Endpoint::parse(settings)?;
            endpoint.network = network.or(endpoint.network);
            if endpoint.ip_configurations.is_empty() {
                // Only HNS could choose the address; the unspecified one stands for its choice.
                let chosen =
                    hcn::endpoint::IpConfig { ip_address: CHOSEN_BY_HNS.to_string(), ..Default::default() };
                endpoint.ip_configurations.push(chosen);
            }
            document = endpoint.to_json();
        }
        self.written.lock().insert((kind, id), Some(document));
        Ok(id)
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        if kind == Kind::LoadBalancer {
            self.written.lock().insert((kind, id), Some(settings.to_owned()));
        }
        Ok(())
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.written.lock().insert((kind, id), None);
        Ok(())
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        match method {
            V1Method::Get => self.inner.call_v1(method, path, body),
            V1Method::Post | V1Method::Delete => Err(Error::detailed(
                HResult::E_NOTIMPL,
                "a dry run writes nothing, through the v1 API neither",
            )),
        }
    }

    fn version(&self) -> Result<Version> {
        self.inner.version()
    }

    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId> {
        self.inner.subscribe(sink)
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        self.inner.unsubscribe(subscription);
    }
}
