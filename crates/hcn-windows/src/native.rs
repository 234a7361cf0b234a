//! The trait [`Hcn`] over the functions: which calls in which order. It must not know how a call is made.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hcn::api::{HcnExt, NotificationSink, SubscriptionId, V1Method};
use hcn::{Error, Guid, HResult, Hcn, Kind, Query, Result, Version, v1};
use hcn_abi::names::{Family, HNS_CALL};

use crate::ffi::{Exports, Loaded, Opened, Place, Wide};
use crate::libraries::{Libraries, LoadError};
use crate::{answer, subscribe};

/// Whether an object's id is read back after a create that was given one. With the nil id it always is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VerifyIds {
    /// Never: a create is one call and a close, and the id that was given is the one returned.
    #[default]
    Never,
    /// Until this build was seen to keep an id that it was given, for each kind of object.
    UntilKept,
    /// After each create.
    Always,
}

/// How a [`Native`] calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether ids are read back.
    pub verify_ids: VerifyIds,
}

/// The HNS of a Windows machine. Clones share the libraries and the subscriptions, which end with the last of them.
#[derive(Clone)]
pub struct Native {
    inner: Arc<Inner>,
}

struct Inner {
    exports: Arc<Exports>,
    files: Libraries,
    options: Options,
    /// The kinds whose ids this build keeps, a bit each.
    kept: AtomicU8,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native")
            .field("files", &self.inner.files)
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        subscribe::end_all(&self.exports);
    }
}

impl Native {
    /// This machine's own: the files in System32, and no others of the same names.
    #[cfg(windows)]
    pub fn system(options: Options) -> std::result::Result<Self, LoadError> {
        let files = Libraries::of_windows();
        let exports = Exports::bind(&Loaded::open(&files, Place::System32)?)?;
        Ok(Self::over(exports, files, options))
    }

    /// The API of the files that are named, with absolute paths. What they export by the API's names must be the API.
    pub fn load(files: &Libraries, options: Options) -> std::result::Result<Self, LoadError> {
        let exports = Exports::bind(&Loaded::open(files, Place::Path)?)?;
        Ok(Self::over(exports, files.clone(), options))
    }

    pub(crate) fn over(exports: Exports, files: Libraries, options: Options) -> Self {
        let inner = Inner { exports: Arc::new(exports), files, options, kept: AtomicU8::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// The files.
    pub fn libraries(&self) -> &Libraries {
        &self.inner.files
    }

    /// The id of an object that was just created with `asked`.
    fn created(&self, kind: Kind, asked: Guid, object: &Opened<'_>) -> Result<Guid> {
        let bit = 1 << kind as u8;
        let is_trusted = match self.inner.options.verify_ids {
            VerifyIds::Never => true,
            VerifyIds::UntilKept => self.inner.kept.load(Ordering::Relaxed) & bit != 0,
            VerifyIds::Always => false,
        };
        if is_trusted && !asked.is_nil() {
            return Ok(asked);
        }
        let properties = object.query(&Wide::new("query", &Query::all().to_json())?)?;
        let id = answer::id_of(&Family::Query.export(kind), &properties)?;
        if !asked.is_nil() {
            if id == asked {
                self.inner.kept.fetch_or(bit, Ordering::Relaxed);
            } else {
                tracing::debug!(%kind, %asked, %id, "This build of HNS does not keep the id that it is given");
            }
        }
        Ok(id)
    }
}

/// The network of an endpoint: the one that is named, else the one in its document.
fn network_of(network: Option<Guid>, settings: &str) -> Result<Guid> {
    if let Some(network) = network.filter(|id| !id.is_nil()) {
        return Ok(network);
    }
    let document = v1::read_endpoint(settings)?;
    document.network.filter(|id| !id.is_nil()).ok_or_else(|| {
        let what = "endpoint HostComputeNetwork is absent: an endpoint is made on a network";
        Error::detailed(HResult::INVALID_ENDPOINT, what)
    })
}

impl Hcn for Native {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        let export = Family::Enumerate.export(kind);
        let query = Wide::new("query", &query.to_json()).map_err(|error| error.in_call(export.clone()))?;
        let text = self.inner.exports.enumerate(kind, &query)?;
        answer::ids(&export, &text)
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        let query = Wide::new("query", &query.to_json())
            .map_err(|error| error.in_call(Family::Query.export(kind)))?;
        self.inner.exports.open(kind, id)?.query(&query)
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        let exports = &self.inner.exports;
        let in_call = |error: Error| error.in_call(Family::Create.export(kind));
        let document = Wide::new("settings", settings).map_err(in_call)?;
        if kind != Kind::Endpoint {
            let object = exports.create(kind, id, &document)?;
            return self.created(kind, id, &object);
        }
        let network = exports.open(Kind::Network, network_of(network, settings).map_err(in_call)?)?;
        let endpoint = exports.create_endpoint(&network, id, &document)?;
        self.created(kind, id, &endpoint)
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        let settings =
            Wide::new("settings", settings).map_err(|error| error.in_call(Family::Modify.export(kind)))?;
        self.inner.exports.open(kind, id)?.modify(&settings)
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.inner.exports.delete(kind, id)
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        let texts = || {
            Ok((Wide::new("method", method.as_str())?, Wide::new("path", path)?, Wide::new("body", body)?))
        };
        let (method, path, body) = texts().map_err(|error: Error| error.in_call(HNS_CALL))?;
        self.inner.exports.hns_call(&method, &path, &body)
    }

    fn version(&self) -> Result<Version> {
        let wrong = |error: Error| error.in_call(HNS_CALL);
        let output = self.output_v1(V1Method::Get, "/globals/version", "").map_err(wrong)?;
        output.read().map_err(|error| {
            let what = format!("the version {}: {error}", output.get());
            wrong(Error::detailed(HResult::INVALID_JSON, what))
        })
    }

    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId> {
        subscribe::begin(&self.inner.exports, sink)
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        subscribe::end(&self.inner.exports, subscription);
    }
}
