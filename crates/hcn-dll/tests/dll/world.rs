//! What the tests share: a server with its token file, a library that connects to it, and calls that check what holds for
//! every call.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;

use hcn::error::ErrorRecord;
use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, HResult, Hcn, Kind};
use hcn_abi::{GUID, HRESULT, Handle, PWSTR, guid, wide};
use hcn_dll::{Dll, memory};
use hns::{Hns, Profile};
use hnsd::{Limits, Running, Server, Service};
use parking_lot::Mutex;
use tempfile::TempDir;

struct Served(Hns);

impl Service for Served {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        Some(Arc::new(self.0.actor(actor)))
    }

    fn about(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// A server and a library.
pub(crate) struct World {
    pub(crate) hns: Hns,
    pub(crate) dll: Dll,
    limits: Limits,
    folder: TempDir,
    running: Mutex<Option<Running>>,
}

/// What a call that failed has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) code: HResult,
    pub(crate) text: String,
}

pub(crate) type Answer<T> = Result<T, Failed>;

impl World {
    pub(crate) fn new() -> Self {
        Self::limited(Limits::default())
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        let options = hns::Options {
            clock: Arc::new(ManualClock::jumping()),
            entropy: Arc::new(SeededEntropy::new(7)),
            ..hns::Options::new(Profile::Ws2025)
        };
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token.json");
        let dll = Dll::new(move || {
            let address = format!("token:{}", token.display());
            let variable = |name: &str| (name == hcn_dll::settings::ADDRESS).then(|| address.clone().into());
            hcn_dll::settings::Settings::find(variable, None, Some("/x/tool.exe".as_ref()))
        });
        let hns = Hns::open(options).unwrap();
        let world = Self { hns, dll, limits, folder, running: Mutex::default() };
        world.start();
        world
    }

    pub(crate) fn start(&self) {
        let server = Server::new(Arc::new(Served(self.hns.clone())), self.limits.clone());
        *self.running.lock() = Some(server.tcp(0, &self.token_file()).unwrap().start().unwrap());
    }

    pub(crate) fn stop(&self) {
        self.running.lock().take();
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token.json")
    }

    pub(crate) fn enumerate(&self, kind: Kind, query: Option<&str>) -> Answer<String> {
        with_text(query, |query| {
            payload(|out, record| unsafe { self.dll.enumerate(kind, query, out, record) })
        })
    }

    /// The ids of all objects of a kind.
    pub(crate) fn ids(&self, kind: Kind) -> Vec<Guid> {
        serde_json::from_str(&self.enumerate(kind, None).unwrap()).unwrap()
    }

    pub(crate) fn create(&self, kind: Kind, id: Guid, settings: &str) -> Answer<Handle> {
        let raw = guid::to_raw(id);
        with_text(Some(settings), |settings| {
            opened(|out, record| unsafe { self.dll.create(kind, &raw const raw, settings, out, record) })
        })
    }

    pub(crate) fn create_endpoint(&self, network: Handle, id: Guid, settings: &str) -> Answer<Handle> {
        let raw = guid::to_raw(id);
        with_text(Some(settings), |settings| {
            opened(|out, record| unsafe {
                self.dll.create_endpoint(network, &raw const raw, settings, out, record)
            })
        })
    }

    pub(crate) fn open(&self, kind: Kind, id: Guid) -> Answer<Handle> {
        let raw = guid::to_raw(id);
        opened(|out, record| unsafe { self.dll.open(kind, &raw const raw, out, record) })
    }

    pub(crate) fn modify(&self, kind: Kind, handle: Handle, settings: &str) -> Answer<()> {
        with_text(Some(settings), |settings| {
            recorded(|record| unsafe { self.dll.modify(kind, handle, settings, record) })
        })
    }

    pub(crate) fn query(&self, kind: Kind, handle: Handle, query: Option<&str>) -> Answer<String> {
        with_text(query, |query| {
            payload(|out, record| unsafe { self.dll.query(kind, handle, query, out, record) })
        })
    }

    pub(crate) fn delete(&self, kind: Kind, id: Guid) -> Answer<()> {
        let raw = guid::to_raw(id);
        recorded(|record| unsafe { self.dll.delete(kind, &raw const raw, record) })
    }

    pub(crate) fn close(&self, kind: Kind, handle: Handle) -> HResult {
        code(self.dll.close(kind, handle))
    }

    /// The id in an object's properties, which is how programs learn it.
    pub(crate) fn id(&self, kind: Kind, handle: Handle) -> Guid {
        let text = self.query(kind, handle, Some(V2)).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["ID"].as_str().unwrap().parse().unwrap()
    }

    /// A NAT network.
    pub(crate) fn network(&self, name: &str) -> Handle {
        self.create(
            Kind::Network,
            Guid::NIL,
            &format!(r#"{{"Name":"{name}","Type":"NAT","SchemaVersion":{{"Major":2,"Minor":2}}}}"#),
        )
        .unwrap()
    }
}

/// A query for everything in v2 form.
pub(crate) const V2: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;

pub(crate) const fn code(code: HRESULT) -> HResult {
    HResult(code.cast_unsigned())
}

/// What is not there and what is no memory of anybody's.
pub(crate) const fn nowhere<T>(address: usize) -> *mut T {
    std::ptr::without_provenance_mut(address)
}

pub(crate) fn with_text<T>(text: Option<&str>, work: impl FnOnce(*const u16) -> T) -> T {
    let units = text.map(|text| wide::encode(text).unwrap());
    work(units.as_ref().map_or(std::ptr::null(), Vec::as_ptr))
}

/// The text that was handed out, which is freed.
pub(crate) fn taken(text: PWSTR) -> Option<String> {
    if text.is_null() {
        return None;
    }
    unsafe {
        let read = wide::decode(text, 1 << 24).expect("it ends");
        memory::free(text.cast::<c_void>());
        Some(read)
    }
}

/// A call with an error record: there is one after a failure, which has the code, and none after a success.
pub(crate) fn recorded(work: impl FnOnce(*mut PWSTR) -> HRESULT) -> Answer<()> {
    let mut record: PWSTR = nowhere(0x10);
    let code = code(work(&raw mut record));
    let text = taken(record);
    if code.is_failure() {
        let text = text.expect("a failure has a record");
        let record: ErrorRecord = serde_json::from_str(&text).unwrap();
        assert_eq!((record.success, record.error_code), (false, code.0), "{text}");
        Err(Failed { code, text })
    } else {
        assert_eq!(text, None, "a success has no record");
        Ok(())
    }
}

/// A call that hands out text.
pub(crate) fn payload(work: impl FnOnce(*mut PWSTR, *mut PWSTR) -> HRESULT) -> Answer<String> {
    let mut out: PWSTR = nowhere(0x10);
    let answer = recorded(|record| work(&raw mut out, record));
    let text = taken(out);
    assert_eq!(text.is_some(), answer.is_ok(), "{text:?} {answer:?}");
    answer.map(|()| text.unwrap_or_default())
}

/// A call that hands out a handle.
pub(crate) fn opened(work: impl FnOnce(*mut Handle, *mut PWSTR) -> HRESULT) -> Answer<Handle> {
    let mut out: Handle = nowhere(0x10);
    let answer = recorded(|record| work(&raw mut out, record));
    assert_eq!(out.is_null(), answer.is_err());
    answer.map(|()| out)
}

/// An id in Windows' layout.
pub(crate) fn raw(id: u128) -> GUID {
    GUID::from_u128(id)
}
