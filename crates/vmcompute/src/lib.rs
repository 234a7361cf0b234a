//! `vmcompute.dll`: its exports. `HNSCall` is the v1 API of HNS, and what it does is in `hcn-dll`. The others are there because
//! programs that want `HNSCall` bind them too: compute systems and container layers, of which an emulated node has none.
//!
//! The names and the numbers of parameters are those that hcsshim binds. This crate must hold no logic.

#![expect(unsafe_code, reason = "exports are unsafe functions under names that nobody may change")]
#![expect(clippy::missing_safety_doc, reason = "one rule for all: see `hcn_dll::Dll`")]

use std::ffi::c_void;
use std::sync::LazyLock;

use hcn_abi::{HRESULT, PCWSTR, PWSTR};
use hcn_dll::{Dll, absent};

/// What this process knows. Nothing is done before the first call: a library that is being loaded may not do much.
static DLL: LazyLock<Dll> = LazyLock::new(Dll::of_process);

/// `HNSCall`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HNSCall(
    method: PCWSTR,
    path: PCWSTR,
    request: PCWSTR,
    response: *mut PWSTR,
) -> HRESULT {
    // SAFETY: the program's promise, which is the one of the function that is called.
    unsafe { DLL.hns_call(method, path, request, response) }
}

/// `HcsEnumerateComputeSystems`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsEnumerateComputeSystems(
    query: PCWSTR,
    systems: *mut PWSTR,
    result: *mut PWSTR,
) -> HRESULT {
    // SAFETY: as above.
    unsafe { absent::no_compute_systems(query, systems, result) }
}

/// Functions that answer `E_NOTIMPL`: their arguments, and after the arrow the places for results, where NULL is stored.
macro_rules! not_done {
    ($($name:ident($($argument:ident),* => $($place:ident),*);)*) => {
        /// The names of all exports.
        pub const EXPORTS: &[&str] = &["HNSCall", "HcsEnumerateComputeSystems", $(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`, which says that it is not implemented.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "system" fn $name(
                $($argument: *mut c_void,)* $($place: *mut *mut c_void,)*
            ) -> HRESULT {
                let _ = ($($argument,)*);
                // SAFETY: the program's promise.
                unsafe { absent::not_done(&[$($place),*]) }
            }
        )*
    };
}

not_done! {
    HcsCreateComputeSystem(id, configuration, identity => system, result);
    HcsOpenComputeSystem(id => system, result);
    HcsCloseComputeSystem(system => );
    HcsStartComputeSystem(system, options => result);
    HcsShutdownComputeSystem(system, options => result);
    HcsTerminateComputeSystem(system, options => result);
    HcsPauseComputeSystem(system, options => result);
    HcsResumeComputeSystem(system, options => result);
    HcsSaveComputeSystem(system, options => result);
    HcsGetComputeSystemProperties(system, query => properties, result);
    HcsModifyComputeSystem(system, configuration => result);
    HcsModifyServiceSettings(settings => result);
    HcsGetServiceProperties(query => properties, result);
    HcsRegisterComputeSystemCallback(system, callback, context => handle);
    HcsUnregisterComputeSystemCallback(handle => );
    HcsCreateProcess(system, parameters, information => process, result);
    HcsOpenProcess(system, id => process, result);
    HcsCloseProcess(process => );
    HcsTerminateProcess(process => result);
    HcsSignalProcess(process, options => result);
    HcsGetProcessInfo(process, information => result);
    HcsGetProcessProperties(process => properties, result);
    HcsModifyProcess(process, settings => result);
    HcsRegisterProcessCallback(process, callback, context => handle);
    HcsUnregisterProcessCallback(handle => );
    ActivateLayer(driver, id => );
    CopyLayer(driver, source, target, layers, count => );
    CreateLayer(driver, id, parent => );
    CreateSandboxLayer(driver, id, parent, layers, count => );
    DeactivateLayer(driver, id => );
    DestroyLayer(driver, id => );
    ExpandSandboxSize(driver, id, size => );
    ExportLayer(driver, id, path, layers, count => );
    GetBaseImages( => images);
    GetLayerMountPath(driver, id, length, buffer => );
    GrantVmAccess(machine, path => );
    ImportLayer(driver, id, path, layers, count => );
    LayerExists(driver, id, exists => );
    NameToGuid(name, id => );
    PrepareLayer(driver, id, layers, count => );
    ProcessBaseImage(path => );
    ProcessUtilityImage(path => );
    UnprepareLayer(driver, id => );
}
