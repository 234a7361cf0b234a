//! Which files are loaded, and what is wrong when one cannot be. No file is opened here.

use std::fmt;
use std::path::{Path, PathBuf};

use hcn_abi::names;

/// The files with the functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// HCN v2: `computenetwork.dll`.
    pub computenetwork: PathBuf,
    /// HNS v1: `vmcompute.dll`.
    pub vmcompute: PathBuf,
    /// Who frees what the others hand out: the file that exports `CoTaskMemFree`.
    pub memory: PathBuf,
}

impl Libraries {
    /// One file that exports all of it.
    pub fn one_file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { computenetwork: path.clone(), vmcompute: path.clone(), memory: path }
    }

    /// The files of Windows, by name: they are taken from System32.
    #[cfg(windows)]
    pub(crate) fn of_windows() -> Self {
        Self {
            computenetwork: names::COMPUTENETWORK.into(),
            vmcompute: names::VMCOMPUTE.into(),
            memory: names::COMBASE.into(),
        }
    }

    /// The file of a part.
    pub fn file(&self, part: Part) -> &Path {
        match part {
            Part::ComputeNetwork => &self.computenetwork,
            Part::VmCompute => &self.vmcompute,
            Part::Memory => &self.memory,
        }
    }
}

/// A part of the binary interface: which of the three files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// HCN v2.
    ComputeNetwork,
    /// HNS v1.
    VmCompute,
    /// The COM task allocator.
    Memory,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ComputeNetwork, Self::VmCompute, Self::Memory];

    /// The file that has it on Windows.
    pub const fn windows_name(self) -> &'static str {
        match self {
            Self::ComputeNetwork => names::COMPUTENETWORK,
            Self::VmCompute => names::VMCOMPUTE,
            Self::Memory => names::COMBASE,
        }
    }

    /// Where Windows has the file.
    const fn found(self) -> &'static str {
        match self {
            Self::ComputeNetwork => {
                "part of Windows Server 2019, of Windows 10 version 1809, and of later ones"
            }
            Self::VmCompute => "comes with the Windows features Containers and Hyper-V",
            Self::Memory => "part of every Windows since 8",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.windows_name())
    }
}

/// The API of this machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A path that would be looked for in many folders.
    #[error(
        "{} is not an absolute path: {part} is loaded from the place that is named and from nowhere else",
        file.display()
    )]
    Relative {
        /// The part.
        part: Part,
        /// The path as given.
        file: PathBuf,
    },
    /// A file is missing or is no library.
    #[error("cannot load {}: {cause}; {} is {}", file.display(), part, part.found())]
    File {
        /// The part.
        part: Part,
        /// The file.
        file: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// A file has not the function that nothing works without.
    #[error("{} does not export {export}: {}", file.display(), names::since(export))]
    Export {
        /// The file.
        file: PathBuf,
        /// The export.
        export: String,
    },
}
