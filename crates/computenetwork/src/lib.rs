//! `computenetwork.dll`: its exports. What they do is in `hcn-dll`; this crate must hold no logic.
//!
//! Programs are written for the real file of this name and find it by that name alone, so both names and signatures are
//! Microsoft's (`hcn-abi`). Pointers may be wrong in every way but one: see [`hcn_dll::Dll`].

#![expect(unsafe_code, reason = "exports are unsafe functions under names that nobody may change")]
#![expect(clippy::missing_safety_doc, reason = "one rule for all: see the crate's first lines")]

use std::ffi::c_void;
use std::sync::LazyLock;

use hcn_abi::{GUID, HRESULT, Handle, NotificationCallback, PCWSTR, PWSTR};
use hcn_dll::{Dll, Kind, PortRange, PortRangeEntry, absent};

/// What this process knows. Nothing is done before the first call: a library that is being loaded may not do much.
static DLL: LazyLock<Dll> = LazyLock::new(Dll::of_process);

/// Exports: what follows `=` uses pointers of the program, what follows `=>` uses none.
macro_rules! exports {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $(= $unsafe:expr)? $(=> $safe:expr)?;)*) => {
        /// The names of all exports.
        pub const EXPORTS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "system" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the program's promise, which is the one of the function that is called.
                $(unsafe { $unsafe })?
                $($safe)?
            }
        )*
    };
}

exports! {
    fn HcnEnumerateNetworks(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.enumerate(Kind::Network, query, ids, record);
    fn HcnCreateNetwork(id: *const GUID, settings: PCWSTR, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.create(Kind::Network, id, settings, handle, record);
    fn HcnOpenNetwork(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.open(Kind::Network, id, handle, record);
    fn HcnModifyNetwork(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.modify(Kind::Network, handle, settings, record);
    fn HcnQueryNetworkProperties(handle: Handle, query: PCWSTR, properties: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.query(Kind::Network, handle, query, properties, record);
    fn HcnDeleteNetwork(id: *const GUID, record: *mut PWSTR) -> HRESULT = DLL.delete(Kind::Network, id, record);
    fn HcnCloseNetwork(handle: Handle) -> HRESULT => DLL.close(Kind::Network, handle);

    fn HcnEnumerateEndpoints(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.enumerate(Kind::Endpoint, query, ids, record);
    fn HcnCreateEndpoint(network: Handle, id: *const GUID, settings: PCWSTR, handle: *mut Handle, record: *mut PWSTR)
        -> HRESULT = DLL.create_endpoint(network, id, settings, handle, record);
    fn HcnOpenEndpoint(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.open(Kind::Endpoint, id, handle, record);
    fn HcnModifyEndpoint(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.modify(Kind::Endpoint, handle, settings, record);
    fn HcnQueryEndpointProperties(handle: Handle, query: PCWSTR, properties: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.query(Kind::Endpoint, handle, query, properties, record);
    fn HcnDeleteEndpoint(id: *const GUID, record: *mut PWSTR) -> HRESULT = DLL.delete(Kind::Endpoint, id, record);
    fn HcnCloseEndpoint(handle: Handle) -> HRESULT => DLL.close(Kind::Endpoint, handle);

    fn HcnEnumerateNamespaces(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.enumerate(Kind::Namespace, query, ids, record);
    fn HcnCreateNamespace(id: *const GUID, settings: PCWSTR, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.create(Kind::Namespace, id, settings, handle, record);
    fn HcnOpenNamespace(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.open(Kind::Namespace, id, handle, record);
    fn HcnModifyNamespace(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.modify(Kind::Namespace, handle, settings, record);
    fn HcnQueryNamespaceProperties(handle: Handle, query: PCWSTR, properties: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.query(Kind::Namespace, handle, query, properties, record);
    fn HcnDeleteNamespace(id: *const GUID, record: *mut PWSTR) -> HRESULT = DLL.delete(Kind::Namespace, id, record);
    fn HcnCloseNamespace(handle: Handle) -> HRESULT => DLL.close(Kind::Namespace, handle);

    fn HcnEnumerateLoadBalancers(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.enumerate(Kind::LoadBalancer, query, ids, record);
    fn HcnCreateLoadBalancer(id: *const GUID, settings: PCWSTR, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.create(Kind::LoadBalancer, id, settings, handle, record);
    fn HcnOpenLoadBalancer(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.open(Kind::LoadBalancer, id, handle, record);
    fn HcnModifyLoadBalancer(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.modify(Kind::LoadBalancer, handle, settings, record);
    fn HcnQueryLoadBalancerProperties(handle: Handle, query: PCWSTR, properties: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.query(Kind::LoadBalancer, handle, query, properties, record);
    fn HcnDeleteLoadBalancer(id: *const GUID, record: *mut PWSTR) -> HRESULT = DLL.delete(Kind::LoadBalancer, id, record);
    fn HcnCloseLoadBalancer(handle: Handle) -> HRESULT => DLL.close(Kind::LoadBalancer, handle);

    fn HcnEnumerateSdnRoutes(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.enumerate(Kind::SdnRoute, query, ids, record);
    fn HcnCreateSdnRoute(id: *const GUID, settings: PCWSTR, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.create(Kind::SdnRoute, id, settings, handle, record);
    fn HcnOpenSdnRoute(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.open(Kind::SdnRoute, id, handle, record);
    fn HcnModifySdnRoute(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.modify(Kind::SdnRoute, handle, settings, record);
    fn HcnQuerySdnRouteProperties(handle: Handle, query: PCWSTR, properties: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.query(Kind::SdnRoute, handle, query, properties, record);
    fn HcnDeleteSdnRoute(id: *const GUID, record: *mut PWSTR) -> HRESULT = DLL.delete(Kind::SdnRoute, id, record);
    fn HcnCloseSdnRoute(handle: Handle) -> HRESULT => DLL.close(Kind::SdnRoute, handle);

    fn HcnQueryEndpointStats(endpoint: Handle, query: PCWSTR, stats: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.endpoint_stats(endpoint, query, stats, record);
    fn HcnQueryEndpointAddresses(endpoint: Handle, query: PCWSTR, addresses: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.endpoint_addresses(endpoint, query, addresses, record);
    fn HcnQueryMetrics() -> HRESULT = absent::not_done(&[]);
    fn HcnQueryFeatures() -> HRESULT = absent::not_done(&[]);

    fn HcnRegisterServiceCallback(callback: Option<NotificationCallback>, context: *mut c_void, handle: *mut Handle)
        -> HRESULT = DLL.register_service_callback(callback, context, handle);
    fn HcnUnregisterServiceCallback(handle: Handle) -> HRESULT => DLL.unregister_service_callback(handle);
    fn HcnRegisterNetworkCallback(network: Handle, callback: Option<NotificationCallback>, context: *mut c_void, handle: *mut Handle)
        -> HRESULT = DLL.register_network_callback(network, callback, context, handle);
    fn HcnUnregisterNetworkCallback(handle: Handle) -> HRESULT => DLL.unregister_network_callback(handle);
    fn HcnRegisterGuestNetworkServiceCallback(service: Handle, callback: Option<NotificationCallback>, context: *mut c_void, handle: *mut Handle)
        -> HRESULT = DLL.register_guest_callback(service, callback, context, handle);
    fn HcnUnregisterGuestNetworkServiceCallback(handle: Handle) -> HRESULT => DLL.unregister_guest_callback(handle);

    fn HcnEnumerateGuestNetworkServices(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.enumerate_guests(query, ids, record);
    fn HcnCreateGuestNetworkService(id: *const GUID, settings: PCWSTR, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.create_guest(id, settings, handle, record);
    fn HcnOpenGuestNetworkService(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT =
        DLL.open_guest(id, handle, record);
    fn HcnModifyGuestNetworkService(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT =
        DLL.modify_guest(handle, settings, record);
    fn HcnQueryGuestNetworkServiceProperties(handle: Handle, query: PCWSTR, properties: *mut PWSTR, record: *mut PWSTR)
        -> HRESULT = DLL.query_guest(handle, query, properties, record);
    fn HcnDeleteGuestNetworkService(id: *const GUID, record: *mut PWSTR) -> HRESULT = DLL.delete_guest(id, record);
    fn HcnCloseGuestNetworkService(handle: Handle) -> HRESULT => DLL.close_guest(handle);

    fn HcnReserveGuestNetworkServicePort(service: Handle, protocol: u32, access: u32, port: u16, handle: *mut Handle) -> HRESULT =
        DLL.reserve_port(service, protocol, access, port, handle);
    fn HcnReserveGuestNetworkServicePortRange(service: Handle, count: u16, range: *mut PortRange, handle: *mut Handle) -> HRESULT =
        DLL.reserve_ports(service, count, range, handle);
    fn HcnReleaseGuestNetworkServicePortReservationHandle(handle: Handle) -> HRESULT => DLL.release_port(handle);
    fn HcnEnumerateGuestNetworkPortReservations(count: *mut u32, entries: *mut *mut PortRangeEntry) -> HRESULT =
        DLL.enumerate_reservations(count, entries);
    fn HcnFreeGuestNetworkPortReservations(entries: *mut PortRangeEntry) -> () = DLL.free_reservations(entries);
}

/// Elsewhere than on Windows, for tests: frees what the exports of both libraries hand out.
#[cfg(not(windows))]
#[unsafe(no_mangle)]
pub unsafe extern "system" fn CoTaskMemFree(block: *const c_void) {
    // SAFETY: the program's promise.
    unsafe { hcn_dll::memory::free(block) }
}
