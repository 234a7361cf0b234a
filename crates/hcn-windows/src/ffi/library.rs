//! Opens files and finds exports. It must not know what the functions do.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use libloading::Library;

use crate::libraries::{Libraries, LoadError, Part};

/// Where a file is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The path as it is given, which is absolute.
    Path,
    /// Windows' own folder, and no other.
    #[cfg(windows)]
    System32,
}

/// Finds functions by name.
///
/// # Safety
///
/// An address that is given out is that of a function with the signature that `hcn-abi` has for the name, and stays valid until the
/// process ends.
pub(crate) unsafe trait Symbols {
    /// The address of a function; none where the part does not export it.
    fn address(&self, part: Part, export: &str) -> Option<NonNull<c_void>>;

    /// The file of a part, for messages.
    fn files(&self) -> &Libraries;
}

/// The three files, opened for good: threads of a library may be on their way through its code at any time, and the
/// functions' addresses outlive this.
pub(crate) struct Loaded {
    files: Libraries,
    libraries: [ManuallyDrop<Library>; 3],
}

impl Loaded {
    /// Opens them.
    pub(crate) fn open(files: &Libraries, place: Place) -> Result<Self, LoadError> {
        let [first, second, third] = Part::ALL.map(|part| open(files, part, place));
        Ok(Self { files: files.clone(), libraries: [first?, second?, third?].map(ManuallyDrop::new) })
    }
}

// SAFETY: whoever names the files vouches for what they export, as with any library that is loaded by path; the signatures are
// those of Microsoft's reference. The files are never unloaded.
unsafe impl Symbols for Loaded {
    fn address(&self, part: Part, export: &str) -> Option<NonNull<c_void>> {
        // SAFETY: the symbol is taken as an address and not used here.
        let symbol = unsafe { self.libraries[part as usize].get::<*mut c_void>(export) };
        symbol.ok().and_then(|symbol| NonNull::new(*symbol))
    }

    fn files(&self) -> &Libraries {
        &self.files
    }
}

fn open(files: &Libraries, part: Part, place: Place) -> Result<Library, LoadError> {
    let file = files.file(part);
    let failed = |error: libloading::Error| LoadError::File {
        part,
        file: file.to_owned(),
        cause: std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
    };
    match place {
        Place::Path => {
            if !file.is_absolute() {
                return Err(LoadError::Relative { part, file: file.to_owned() });
            }
            // SAFETY: initialisers of the named file run; who names it wants that.
            unsafe { Library::new(file) }.map_err(failed)
        }
        #[cfg(windows)]
        Place::System32 => {
            use libloading::os::windows;
            // SAFETY: the file is Windows' own, since no other folder is searched.
            let library =
                unsafe { windows::Library::load_with_flags(file, windows::LOAD_LIBRARY_SEARCH_SYSTEM32) };
            library.map(Library::from).map_err(failed)
        }
    }
}
