//! The calls on networks, endpoints, namespaces, load balancers and SDN routes. Each asks the server once.

use hcn::{HResult, Hcn as _, Kind, Query};
use hcn_abi::{GUID, HRESULT, Handle, PCWSTR, PWSTR};

use crate::arguments::{id, needed_text, text};
use crate::dll::{Dll, Object};
use crate::edge::{Nothing, Opened, Text, call, plain_call};

#[expect(unsafe_code, reason = "takes pointers from a program")]
impl Dll {
    /// `HcnEnumerate…s`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn enumerate(
        &self,
        kind: Kind,
        query: PCWSTR,
        ids: *mut PWSTR,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Text(ids), || {
            // SAFETY: the caller's promise.
            let query = unsafe { text(query) }?.unwrap_or_default();
            let ids = self.client()?.call(|remote| remote.enumerate_text(kind, &query))?;
            Ok(serde_json::to_string(&ids)?)
        })
    }

    /// `HcnCreate…`, for all kinds but endpoints.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn create(
        &self,
        kind: Kind,
        wished: *const GUID,
        settings: PCWSTR,
        handle: *mut Handle,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Opened(handle), || {
            // SAFETY: the caller's promise.
            let (wished, settings) = unsafe { (id(wished)?, needed_text(settings)?) };
            let id = self.client()?.call(|remote| remote.create(kind, None, wished, &settings))?;
            Ok(self.objects.open(Object { kind, id }))
        })
    }

    /// `HcnCreateEndpoint`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn create_endpoint(
        &self,
        network: Handle,
        wished: *const GUID,
        settings: PCWSTR,
        handle: *mut Handle,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Opened(handle), || {
            // SAFETY: the caller's promise.
            let (wished, settings) = unsafe { (id(wished)?, needed_text(settings)?) };
            let (kind, network) = (Kind::Endpoint, self.object(Kind::Network, network)?);
            let id = self.client()?.call(|remote| remote.create(kind, Some(network), wished, &settings))?;
            Ok(self.objects.open(Object { kind, id }))
        })
    }

    /// `HcnOpen…`. The server is asked for the object, so that an id that is unknown is told here.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn open(
        &self,
        kind: Kind,
        wanted: *const GUID,
        handle: *mut Handle,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Opened(handle), || {
            // SAFETY: the caller's promise.
            let id = unsafe { id(wanted) }?;
            // In the form that every object has.
            let all = Query::all().to_json();
            self.client()?.call(|remote| remote.query_text(kind, id, &all))?;
            Ok(self.objects.open(Object { kind, id }))
        })
    }

    /// `HcnModify…`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn modify(&self, kind: Kind, handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT {
        call(record, Nothing, || {
            // SAFETY: the caller's promise.
            let settings = unsafe { needed_text(settings) }?;
            let id = self.object(kind, handle)?;
            self.client()?.call(|remote| remote.modify(kind, id, &settings))
        })
    }

    /// `HcnQuery…Properties`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn query(
        &self,
        kind: Kind,
        handle: Handle,
        query: PCWSTR,
        properties: *mut PWSTR,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Text(properties), || {
            // SAFETY: the caller's promise.
            let query = unsafe { text(query) }?.unwrap_or_default();
            let id = self.object(kind, handle)?;
            self.client()?.call(|remote| remote.query_text(kind, id, &query))
        })
    }

    /// `HcnDelete…`. Handles of the object stay open, and find nothing from then on.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn delete(&self, kind: Kind, unwanted: *const GUID, record: *mut PWSTR) -> HRESULT {
        call(record, Nothing, || {
            // SAFETY: the caller's promise.
            let id = unsafe { id(unwanted) }?;
            self.client()?.call(|remote| remote.delete(kind, id))
        })
    }

    /// `HcnClose…`. The server is not asked: it knows of no handles.
    pub fn close(&self, kind: Kind, handle: Handle) -> HRESULT {
        plain_call(Nothing, || self.objects.close(handle, |object| object.kind == kind).map(|_| ()))
    }
}

/// The code that a call gives for what this library does not do.
pub(crate) fn not_implemented() -> hcn::Error {
    HResult::E_NOTIMPL.into()
}
