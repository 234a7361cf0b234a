//! One function for each kind of call. What is handed out is wrapped before it is looked at, so that it is given back on every
//! path. It must not know in which order calls are made.

use hcn::{Error, Guid, HResult, Kind, Result};
use hcn_abi::names::{self, Family};
use hcn_abi::{HRESULT, Handle, PCWSTR, guid, wide};

use super::exports::Exports;
use super::text::Out;
use crate::answer;

/// Text on its way to a library: NUL-terminated UTF-16.
pub(crate) struct Wide(Vec<u16>);

impl Wide {
    /// Refuses text with a NUL in it, of which the library would see the beginning only.
    pub(crate) fn new(what: &str, text: &str) -> Result<Self> {
        let refuse = || {
            let at = text.find('\0').unwrap_or_default();
            Error::detailed(
                HResult::INVALID_PARAMETER,
                format!("the {what} has a NUL character at byte {at}"),
            )
        };
        wide::encode(text).map(Self).ok_or_else(refuse)
    }

    fn pointer(&self) -> PCWSTR {
        self.0.as_ptr()
    }
}

/// An open handle of an object; closed when it goes.
pub(crate) struct Opened<'a> {
    exports: &'a Exports,
    kind: Kind,
    handle: Handle,
    close: hcn_abi::Close,
}

const fn hresult(result: HRESULT) -> HResult {
    HResult(result.cast_unsigned())
}

/// A call's outcome, once what it handed out is in guards.
fn finish(export: &str, result: HRESULT, record: &Out) -> Result<()> {
    let text = match record.read() {
        Ok(text) => text,
        // The record only explains; the outcome is known without it, unless the record alone says that it is a failure.
        Err(unreadable) if !hresult(result).is_failure() => return Err(unreadable.in_call(export.to_owned())),
        Err(_) => None,
    };
    answer::check(export, hresult(result), text.as_deref())
}

/// The same for a call that hands out text.
fn finish_with(export: &str, result: HRESULT, record: &Out, payload: &Out) -> Result<String> {
    finish(export, result, record)?;
    let text = payload.read().map_err(|error| error.in_call(export.to_owned()))?;
    answer::payload(export, text)
}

impl Exports {
    /// `HcnEnumerate…`: the payload.
    pub(crate) fn enumerate(&self, kind: Kind, query: &Wide) -> Result<String> {
        let export = Family::Enumerate.export(kind);
        let function = self.need(self.of(kind).enumerate, &export)?;
        let (mut payload, mut record) = (Out::new(self.free), Out::new(self.free));
        // SAFETY: the query is NUL-terminated and lives through the call; the two places are distinct and hold NULL.
        let result = unsafe { function(query.pointer(), payload.place(), record.place()) };
        finish_with(&export, result, &record, &payload)
    }

    /// `HcnCreate…`, for all kinds but endpoints.
    pub(crate) fn create(&self, kind: Kind, id: Guid, settings: &Wide) -> Result<Opened<'_>> {
        let export = Family::Create.export(kind);
        let function = self.need(self.of(kind).create, &export)?;
        let raw = guid::to_raw(id);
        self.opened(kind, &export, |handle, record| {
            // SAFETY: id and settings live through the call, the settings are NUL-terminated, the places hold NULL.
            unsafe { function(&raw const raw, settings.pointer(), handle, record) }
        })
    }

    /// `HcnCreateEndpoint`, on an open network.
    pub(crate) fn create_endpoint(
        &self,
        network: &Opened<'_>,
        id: Guid,
        settings: &Wide,
    ) -> Result<Opened<'_>> {
        let export = Family::Create.export(Kind::Endpoint);
        let function = self.need(self.create_endpoint, &export)?;
        let raw = guid::to_raw(id);
        self.opened(Kind::Endpoint, &export, |handle, record| {
            // SAFETY: the network's handle is open for as long as its guard is borrowed; the rest is as in `create`.
            unsafe { function(network.handle, &raw const raw, settings.pointer(), handle, record) }
        })
    }

    /// `HcnOpen…`.
    pub(crate) fn open(&self, kind: Kind, id: Guid) -> Result<Opened<'_>> {
        let export = Family::Open.export(kind);
        let function = self.need(self.of(kind).open, &export)?;
        let raw = guid::to_raw(id);
        self.opened(kind, &export, |handle, record| {
            // SAFETY: the id lives through the call, the places hold NULL.
            unsafe { function(&raw const raw, handle, record) }
        })
    }

    /// A call that hands out a handle.
    fn opened(
        &self,
        kind: Kind,
        export: &str,
        call: impl FnOnce(*mut Handle, *mut hcn_abi::PWSTR) -> HRESULT,
    ) -> Result<Opened<'_>> {
        // Asked for first: a handle that cannot be closed is better not opened.
        let close = self.need(self.of(kind).close, &Family::Close.export(kind))?;
        let mut record = Out::new(self.free);
        let mut handle: Handle = std::ptr::null_mut();
        let result = call(&raw mut handle, record.place());
        // A success has opened the handle, also where an error record makes a failure of it. What a failure leaves in the
        // place is no handle, and closing it would be a fault.
        let is_open = !hresult(result).is_failure() && !handle.is_null();
        let opened = is_open.then(|| Opened { exports: self, kind, handle, close });
        finish(export, result, &record)?;
        opened.ok_or_else(|| {
            Error::detailed(HResult::E_POINTER, "the call succeeded and handed out no handle")
                .in_call(export.to_owned())
        })
    }

    /// `HcnDelete…`.
    pub(crate) fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        let export = Family::Delete.export(kind);
        let function = self.need(self.of(kind).delete, &export)?;
        let raw = guid::to_raw(id);
        let mut record = Out::new(self.free);
        // SAFETY: the id lives through the call, the place holds NULL.
        let result = unsafe { function(&raw const raw, record.place()) };
        finish(&export, result, &record)
    }

    /// `HNSCall`: the response. It has no error record.
    pub(crate) fn hns_call(&self, method: &Wide, path: &Wide, request: &Wide) -> Result<String> {
        let mut response = Out::new(self.free);
        // SAFETY: the three texts are NUL-terminated and live through the call, the place holds NULL.
        let result =
            unsafe { (self.hns_call)(method.pointer(), path.pointer(), request.pointer(), response.place()) };
        let nothing = Out::new(self.free);
        finish_with(names::HNS_CALL, result, &nothing, &response)
    }
}

impl Opened<'_> {
    /// `HcnQuery…Properties`: the payload.
    pub(crate) fn query(&self, query: &Wide) -> Result<String> {
        let export = Family::Query.export(self.kind);
        let function = self.exports.need(self.exports.of(self.kind).query, &export)?;
        let (mut payload, mut record) = (Out::new(self.exports.free), Out::new(self.exports.free));
        // SAFETY: the handle is open until this guard goes; the query is NUL-terminated and lives through the call; the places
        // are distinct and hold NULL.
        let result = unsafe { function(self.handle, query.pointer(), payload.place(), record.place()) };
        finish_with(&export, result, &record, &payload)
    }

    /// `HcnModify…`.
    pub(crate) fn modify(&self, settings: &Wide) -> Result<()> {
        let export = Family::Modify.export(self.kind);
        let function = self.exports.need(self.exports.of(self.kind).modify, &export)?;
        let mut record = Out::new(self.exports.free);
        // SAFETY: as in `query`.
        let result = unsafe { function(self.handle, settings.pointer(), record.place()) };
        finish(&export, result, &record)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle was handed out by a call that succeeded and is closed here only.
        let result = hresult(unsafe { (self.close)(self.handle) });
        if result.is_failure() {
            let export = Family::Close.export(self.kind);
            tracing::warn!(%export, code = %result, name = %result.name(), "A handle of HNS could not be closed");
        }
    }
}
