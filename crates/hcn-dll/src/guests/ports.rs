//! Reservations of the host's ports: which conflict, and their exports. In this process only: no socket is bound.

use std::ffi::c_void;

use hcn::{Guid, HResult, Result};
use hcn_abi::{GUID, HRESULT, Handle, guid};
use parking_lot::Mutex;

use crate::dll::Dll;
use crate::edge::{Nothing, Opened, Plain, plain_call};
use crate::handles::Handles;
use crate::memory;

/// `HCN_PORT_RANGE_RESERVATION`: the first and the last port.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// `HCN_PORT_RANGE_ENTRY`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PortRangeEntry {
    /// Through which guest network service it was reserved.
    pub owner: GUID,
    /// For whom: nobody has said how that is given, so it is the owner again.
    pub target: GUID,
    /// 1 TCP, 2 UDP, 3 both.
    pub protocol: i32,
    /// Always 0.
    pub priority: u64,
    /// Always 0.
    pub reservation_type: u32,
    /// 1 exclusive, 2 shared, as they are asked for.
    pub sharing_flags: u32,
    /// Always 0.
    pub delivery_mode: u32,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// The ports that ranges are taken from: the dynamic ones.
const DYNAMIC: u16 = 49_152;

/// `HCN_PORT_PROTOCOL_BOTH`, whose bits are those of TCP and UDP.
const BOTH: u32 = 3;

/// `HCN_PORT_ACCESS`.
const EXCLUSIVE: u32 = 1;
const SHARED: u32 = 2;

#[derive(Debug, Clone, Copy)]
struct Reservation {
    number: u64,
    owner: Guid,
    protocol: u32,
    access: u32,
    ports: PortRange,
}

impl Reservation {
    /// Two of one port get along when both say that they share it, or are for other protocols.
    const fn conflicts(&self, other: &Self) -> bool {
        self.protocol & other.protocol != 0
            && self.ports.first <= other.ports.last
            && other.ports.first <= self.ports.last
            && (self.access != SHARED || other.access != SHARED)
    }
}

/// The reservations of this process.
#[derive(Default)]
pub(super) struct Reservations {
    table: Mutex<Table>,
    handles: Handles<u64>,
}

#[derive(Default)]
struct Table {
    last: u64,
    reservations: Vec<Reservation>,
}

impl Table {
    fn add(&mut self, mut wanted: Reservation) -> Option<u64> {
        if self.reservations.iter().any(|other| other.conflicts(&wanted)) {
            return None;
        }
        self.last += 1;
        wanted.number = self.last;
        self.reservations.push(wanted);
        Some(wanted.number)
    }
}

impl Reservations {
    fn reserve(&self, owner: Guid, protocol: u32, access: u32, port: u16) -> Result<Handle> {
        if !(1..=BOTH).contains(&protocol) || !(EXCLUSIVE..=SHARED).contains(&access) || port == 0 {
            return Err(HResult::INVALID_PARAMETER.into());
        }
        let ports = PortRange { first: port, last: port };
        let wanted = Reservation { number: 0, owner, protocol, access, ports };
        let number = self.table.lock().add(wanted).ok_or(HResult::PORT_ALREADY_EXISTS)?;
        Ok(self.handles.open(number))
    }

    /// So many ports in a row, the lowest that nobody has, of both protocols and for the owner alone.
    fn reserve_range(&self, owner: Guid, count: u16) -> Result<(PortRange, Handle)> {
        if count == 0 {
            return Err(HResult::INVALID_PARAMETER.into());
        }
        let mut table = self.table.lock();
        let mut first = DYNAMIC;
        loop {
            let last = first.checked_add(count - 1).ok_or(HResult::PORT_ALREADY_EXISTS)?;
            let ports = PortRange { first, last };
            let wanted = Reservation { number: 0, owner, protocol: BOTH, access: EXCLUSIVE, ports };
            if let Some(number) = table.add(wanted) {
                return Ok((ports, self.handles.open(number)));
            }
            let beyond = table.reservations.iter().filter(|other| other.conflicts(&wanted));
            let beyond = beyond.map(|other| other.ports.last).max().unwrap_or(last);
            first = beyond.checked_add(1).ok_or(HResult::PORT_ALREADY_EXISTS)?;
        }
    }

    fn release(&self, handle: Handle) -> Result<()> {
        let number = self.handles.close(handle, |_| true)?;
        self.table.lock().reservations.retain(|reservation| reservation.number != number);
        Ok(())
    }

    /// Those of a service that is deleted. Their handles stay, and mean nothing.
    pub(super) fn release_all(&self, owner: Guid) {
        self.table.lock().reservations.retain(|reservation| reservation.owner != owner);
    }

    fn entries(&self) -> Vec<PortRangeEntry> {
        let entry = |reservation: &Reservation| PortRangeEntry {
            owner: guid::to_raw(reservation.owner),
            target: guid::to_raw(reservation.owner),
            protocol: reservation.protocol.cast_signed(),
            priority: 0,
            reservation_type: 0,
            sharing_flags: reservation.access,
            delivery_mode: 0,
            first: reservation.ports.first,
            last: reservation.ports.last,
        };
        self.table.lock().reservations.iter().map(entry).collect()
    }
}

#[expect(unsafe_code, reason = "takes pointers from a program")]
impl Dll {
    /// `HcnReserveGuestNetworkServicePort`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn reserve_port(
        &self,
        service: Handle,
        protocol: u32,
        access: u32,
        port: u16,
        handle: *mut Handle,
    ) -> HRESULT {
        plain_call(Opened(handle), || {
            let owner = self.guests.existing(service)?;
            self.guests.ports.reserve(owner, protocol, access, port)
        })
    }

    /// `HcnReserveGuestNetworkServicePortRange`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn reserve_ports(
        &self,
        service: Handle,
        count: u16,
        range: *mut PortRange,
        handle: *mut Handle,
    ) -> HRESULT {
        plain_call((Plain(range, PortRange::default()), Opened(handle)), || {
            let owner = self.guests.existing(service)?;
            self.guests.ports.reserve_range(owner, count)
        })
    }

    /// `HcnReleaseGuestNetworkServicePortReservationHandle`.
    pub fn release_port(&self, handle: Handle) -> HRESULT {
        plain_call(Nothing, || self.guests.ports.release(handle))
    }

    /// `HcnEnumerateGuestNetworkPortReservations`. No entries are NULL.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn enumerate_reservations(
        &self,
        count: *mut u32,
        entries: *mut *mut PortRangeEntry,
    ) -> HRESULT {
        plain_call((Plain(count, 0), Plain(entries, std::ptr::null_mut())), || {
            let found = self.guests.ports.entries();
            let count = u32::try_from(found.len()).map_err(|_| HResult::OUT_OF_MEMORY)?;
            if found.is_empty() {
                return Ok((0, std::ptr::null_mut()));
            }
            let block = memory::hand_out(&found).ok_or(HResult::OUT_OF_MEMORY)?;
            Ok((count, block))
        })
    }

    /// `HcnFreeGuestNetworkPortReservations`.
    ///
    /// # Safety
    ///
    /// The entries are those of one [`Dll::enumerate_reservations`], not freed yet; or they are NULL.
    pub unsafe fn free_reservations(&self, entries: *mut PortRangeEntry) {
        if entries.addr() >= memory::LOWEST {
            // SAFETY: the caller's promise.
            unsafe { memory::free(entries.cast::<c_void>()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Guid = Guid::from_u128(1);
    const OTHER: Guid = Guid::from_u128(2);

    #[test]
    fn shared_ports_are_shared_and_exclusive_ones_are_not() {
        let ports = Reservations::default();
        for (protocol, access, port, wanted) in [
            (1, SHARED, 80, None),
            (1, SHARED, 80, None),
            (1, EXCLUSIVE, 80, Some(HResult::PORT_ALREADY_EXISTS)),
            (2, EXCLUSIVE, 80, None),
            (2, SHARED, 80, Some(HResult::PORT_ALREADY_EXISTS)),
            (BOTH, SHARED, 80, Some(HResult::PORT_ALREADY_EXISTS)),
            (BOTH, EXCLUSIVE, 81, None),
            (0, SHARED, 82, Some(HResult::INVALID_PARAMETER)),
            (4, SHARED, 82, Some(HResult::INVALID_PARAMETER)),
            (1, 0, 82, Some(HResult::INVALID_PARAMETER)),
            (1, 3, 82, Some(HResult::INVALID_PARAMETER)),
            (1, SHARED, 0, Some(HResult::INVALID_PARAMETER)),
        ] {
            let found = ports.reserve(ONE, protocol, access, port);
            assert_eq!(found.err().map(|error| error.code), wanted, "{protocol} {access} {port}");
        }
    }

    #[test]
    fn ranges_are_the_lowest_that_are_free() {
        let ports = Reservations::default();
        ports.reserve(ONE, 1, SHARED, DYNAMIC + 2).unwrap();
        let (first, handle) = ports.reserve_range(ONE, 2).unwrap();
        assert_eq!(first, PortRange { first: DYNAMIC, last: DYNAMIC + 1 });
        let (second, _) = ports.reserve_range(OTHER, 2).unwrap();
        assert_eq!(second, PortRange { first: DYNAMIC + 3, last: DYNAMIC + 4 });
        ports.release(handle).unwrap();
        assert_eq!(ports.release(handle).unwrap_err().code, HResult::INVALID_HANDLE);
        assert_eq!(ports.reserve_range(OTHER, 1).unwrap().0.first, DYNAMIC);
        let rest = u16::MAX - (DYNAMIC + 4);
        assert_eq!(ports.reserve_range(ONE, rest + 1).unwrap_err().code, HResult::PORT_ALREADY_EXISTS);
        assert_eq!(ports.reserve_range(ONE, rest).unwrap().0.last, u16::MAX);
        assert_eq!(ports.reserve_range(ONE, 0).unwrap_err().code, HResult::INVALID_PARAMETER);
        ports.release_all(ONE);
        assert_eq!(ports.entries().len(), 2);
    }

    #[test]
    fn entries_lie_as_the_header_says() {
        assert_eq!(size_of::<PortRangeEntry>(), 64);
        assert_eq!(std::mem::offset_of!(PortRangeEntry, priority), 40);
        assert_eq!(std::mem::offset_of!(PortRangeEntry, first), 60);
        assert_eq!(size_of::<PortRange>(), 4);
    }
}
