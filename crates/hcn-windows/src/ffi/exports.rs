//! The functions, bound once. It must not know what they are called for.

use std::ffi::c_void;
use std::ptr::NonNull;

use hcn::{Error, HResult, Kind, Result};
use hcn_abi::names::{self, Family};
use hcn_abi::{
    Close, CoTaskMemFree, Create, CreateEndpoint, Delete, Enumerate, HnsCall, Modify, Open, Query,
    RegisterServiceCallback,
};

use super::library::Symbols;
use crate::libraries::{LoadError, Part};

/// The kinds without which nothing works. What else a build lacks, the call that needs it says.
const NEEDED: [Kind; 3] = [Kind::Network, Kind::Endpoint, Kind::LoadBalancer];

/// Every function that the trait needs; those of [`NEEDED`] kinds are there.
pub(crate) struct Exports {
    kinds: [OfKind; Kind::ALL.len()],
    pub(super) create_endpoint: Option<CreateEndpoint>,
    pub(super) register: Option<RegisterServiceCallback>,
    pub(super) unregister: Option<Close>,
    pub(super) hns_call: HnsCall,
    pub(super) free: CoTaskMemFree,
    computenetwork: String,
}

/// The functions of one kind.
#[derive(Clone, Copy)]
pub(super) struct OfKind {
    pub(super) enumerate: Option<Enumerate>,
    /// None for endpoints: they have a function of their own shape.
    pub(super) create: Option<Create>,
    pub(super) open: Option<Open>,
    pub(super) modify: Option<Modify>,
    pub(super) query: Option<Query>,
    pub(super) delete: Option<Delete>,
    pub(super) close: Option<Close>,
}

impl Exports {
    /// Finds them.
    pub(crate) fn bind(symbols: &impl Symbols) -> std::result::Result<Self, LoadError> {
        let missing = |part: Part, export: &str| LoadError::Export {
            file: symbols.files().file(part).to_owned(),
            export: export.to_owned(),
        };
        let v2 = |export: &str| symbols.address(Part::ComputeNetwork, export);
        for kind in NEEDED {
            for family in Family::ALL {
                let export = family.export(kind);
                if v2(&export).is_none() {
                    return Err(missing(Part::ComputeNetwork, &export));
                }
            }
        }
        let hns_call = symbols
            .address(Part::VmCompute, names::HNS_CALL)
            .ok_or_else(|| missing(Part::VmCompute, names::HNS_CALL))?;
        let free = symbols
            .address(Part::Memory, names::CO_TASK_MEM_FREE)
            .ok_or_else(|| missing(Part::Memory, names::CO_TASK_MEM_FREE))?;
        // SAFETY: in this expression each address is given the type that `hcn-abi` has for the name it was found by, which
        // `Symbols` promises to be right.
        unsafe {
            Ok(Self {
                kinds: Kind::ALL.map(|kind| OfKind {
                    enumerate: v2(&Family::Enumerate.export(kind)).map(|at| function(at)),
                    create: v2(&Family::Create.export(kind))
                        .filter(|_| kind != Kind::Endpoint)
                        .map(|at| function(at)),
                    open: v2(&Family::Open.export(kind)).map(|at| function(at)),
                    modify: v2(&Family::Modify.export(kind)).map(|at| function(at)),
                    query: v2(&Family::Query.export(kind)).map(|at| function(at)),
                    delete: v2(&Family::Delete.export(kind)).map(|at| function(at)),
                    close: v2(&Family::Close.export(kind)).map(|at| function(at)),
                }),
                create_endpoint: v2(&Family::Create.export(Kind::Endpoint)).map(|at| function(at)),
                register: v2(names::REGISTER_SERVICE_CALLBACK).map(|at| function(at)),
                unregister: v2(names::UNREGISTER_SERVICE_CALLBACK).map(|at| function(at)),
                hns_call: function(hns_call),
                free: function(free),
                computenetwork: symbols.files().computenetwork.display().to_string(),
            })
        }
    }

    pub(super) fn of(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize]
    }

    /// A function that a build may lack.
    pub(super) fn need<F>(&self, function: Option<F>, export: &str) -> Result<F> {
        function.ok_or_else(|| {
            let what = format!("{} does not export {export}: {}", self.computenetwork, names::since(export));
            Error::detailed(HResult::PROC_NOT_FOUND, what).in_call(export.to_owned())
        })
    }
}

/// The function at an address.
///
/// # Safety
///
/// `F` is the type of a function pointer, and a function of this type is there until the process ends.
unsafe fn function<F: Copy>(address: NonNull<c_void>) -> F {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    // SAFETY: the caller says that this is a function pointer of type `F`; the sizes are equal.
    unsafe { std::mem::transmute_copy(&address) }
}
