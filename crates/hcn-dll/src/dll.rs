//! [`Dll`]: what one loaded library knows. What its functions do is in the modules beside this one.

use std::sync::Arc;

use hcn::{Guid, HResult, Kind, Result};
use parking_lot::RwLock;

use crate::callbacks::Callbacks;
use crate::client::{self, Client, Shared};
use crate::guests::Guests;
use crate::handles::Handles;
use crate::settings::{Settings, SettingsError};

/// One library in one process.
///
/// # Safety
///
/// The functions that take pointers are `unsafe` for one reason: memory that a program hands in and gives back while the call is
/// under way is used all the same. Everything else that is wrong with a pointer, a handle or a text is an error.
pub struct Dll {
    find: Box<dyn Fn() -> std::result::Result<Settings, SettingsError> + Send + Sync>,
    client: RwLock<Option<Shared>>,
    /// The open objects.
    pub(crate) objects: Handles<Object>,
    pub(crate) callbacks: Callbacks,
    pub(crate) guests: Guests,
}

/// What a handle of an object stands for. The object itself may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) id: Guid,
}

impl std::fmt::Debug for Dll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dll").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl Dll {
    /// The library of this process, which looks for its settings when they are first needed.
    pub fn of_process() -> Self {
        Self::new(|| Settings::of_process(client::own_folder().as_deref()))
    }

    /// A library with settings from elsewhere. They are asked for until there are some.
    pub fn new(
        find: impl Fn() -> std::result::Result<Settings, SettingsError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            find: Box::new(find),
            client: RwLock::default(),
            objects: Handles::default(),
            callbacks: Callbacks::default(),
            guests: Guests::default(),
        }
    }

    /// The client of the server.
    pub(crate) fn client(&self) -> Result<Shared> {
        if let Some(client) = &*self.client.read() {
            return Ok(Arc::clone(client));
        }
        // A program may set its environment between two calls, so what was not found is looked for again.
        let settings = (self.find)()?;
        let mut place = self.client.write();
        if place.is_none() {
            client::stay_loaded();
        }
        Ok(Arc::clone(place.get_or_insert_with(|| Arc::new(Client::new(settings)))))
    }

    /// An object that is open, of the kind that the export is for.
    pub(crate) fn object(&self, kind: Kind, handle: hcn_abi::Handle) -> Result<Guid> {
        let object = self.objects.get(handle)?;
        if object.kind == kind { Ok(object.id) } else { Err(HResult::INVALID_HANDLE.into()) }
    }
}
