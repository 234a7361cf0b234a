//! Arguments that are NULL, lead nowhere or mean nothing: each is an error with a code, and has no effect.

use hcn::{HResult, Kind};
use hcn_abi::{GUID, HRESULT, Handle, PCWSTR, PWSTR};

use crate::world::{World, code, nowhere, raw, taken};

const POINTER: HResult = HResult::E_POINTER;
const INVALID: HResult = HResult::INVALID_PARAMETER;
const HANDLE: HResult = HResult::INVALID_HANDLE;

/// Places and values that are right, to be replaced by wrong ones.
struct Right {
    id: GUID,
    text: Vec<u16>,
    out: PWSTR,
    handle: Handle,
    record: PWSTR,
}

impl Right {
    fn new() -> Self {
        let text = hcn_abi::wide::encode("{}").unwrap();
        Self { id: raw(0), text, out: nowhere(0x10), handle: nowhere(0x10), record: nowhere(0x10) }
    }

    /// Runs a call and checks its code, that the places hold nothing after it, and the record.
    fn check(&mut self, what: &str, wanted: HResult, call: impl FnOnce(&mut Self) -> HRESULT) {
        let answer = code(call(self));
        assert_eq!(answer, wanted, "{what}");
        for place in [self.out.addr(), self.handle.addr()] {
            assert!(place == 0 || place == 0x10, "{what}: {place:#x}");
        }
        if self.record.addr() != 0x10 {
            let record = taken(self.record).unwrap();
            assert!(record.contains(&format!("\"ErrorCode\":{}", wanted.0)), "{what}: {record}");
        }
        (self.out, self.handle, self.record) = (nowhere(0x10), nowhere(0x10), nowhere(0x10));
    }
}

/// The addresses that are wrong.
const LOW: [usize; 4] = [0, 1, 8, 0xFFFF];

#[test]
fn every_wrong_argument_has_its_code() {
    let world = World::new();
    let network = world.network("n");
    let mut right = Right::new();
    let before = world.ids(Kind::Namespace);
    for low in LOW {
        wrong_for_objects(&world, network, &mut right, low);
        wrong_for_others(&world, network, &mut right, low);
    }
    assert_eq!(world.ids(Kind::Namespace), before, "nothing came of it");
    assert_eq!(world.ids(Kind::Network).len(), 1);
}

fn wrong_for_objects(world: &World, network: Handle, right: &mut Right, low: usize) {
    let dll = &world.dll;
    let null = low == 0;
    let no_text: PCWSTR = nowhere::<u16>(low).cast_const();
    let no_id: *const GUID = nowhere::<GUID>(low).cast_const();
    let no_out: *mut PWSTR = nowhere(low);
    let no_place: *mut Handle = nowhere(low);
    let text_code = if null { INVALID } else { POINTER };
    for kind in Kind::ALL {
        let what = format!("{kind} {low:#x}");
        let bad_handle: Handle = nowhere(low);
        unsafe {
            right.check(&what, POINTER, |r| dll.enumerate(kind, r.text.as_ptr(), no_out, &raw mut r.record));
            right.check(&what, POINTER, |r| dll.open(kind, no_id, &raw mut r.handle, &raw mut r.record));
            right.check(&what, POINTER, |r| dll.open(kind, &raw const r.id, no_place, &raw mut r.record));
            right.check(&what, POINTER, |r| dll.delete(kind, no_id, &raw mut r.record));
            right.check(&what, HANDLE, |r| {
                dll.query(kind, bad_handle, r.text.as_ptr(), &raw mut r.out, &raw mut r.record)
            });
            right.check(&what, POINTER, |r| {
                dll.query(kind, network, r.text.as_ptr(), no_out, &raw mut r.record)
            });
            right.check(&what, HANDLE, |r| dll.modify(kind, bad_handle, r.text.as_ptr(), &raw mut r.record));
            right.check(&what, text_code, |r| dll.modify(kind, network, no_text, &raw mut r.record));
            assert_eq!(code(dll.close(kind, bad_handle)), HANDLE, "{what}");
            if kind != Kind::Endpoint {
                right.check(&what, POINTER, |r| {
                    dll.create(kind, no_id, r.text.as_ptr(), &raw mut r.handle, &raw mut r.record)
                });
                right.check(&what, text_code, |r| {
                    dll.create(kind, &raw const r.id, no_text, &raw mut r.handle, &raw mut r.record)
                });
                right.check(&what, POINTER, |r| {
                    dll.create(kind, &raw const r.id, r.text.as_ptr(), no_place, &raw mut r.record)
                });
            }
            if !null {
                // NULL is a query for everything.
                right.check(&what, POINTER, |r| {
                    dll.enumerate(kind, no_text, &raw mut r.out, &raw mut r.record)
                });
                // A place for the record that leads nowhere is found before anything is done.
                right.check(&what, POINTER, |r| dll.enumerate(kind, r.text.as_ptr(), &raw mut r.out, no_out));
                right.check(&what, POINTER, |r| dll.delete(kind, &raw const r.id, no_out));
            }
        }
    }
}

fn wrong_for_others(world: &World, network: Handle, right: &mut Right, low: usize) {
    let dll = &world.dll;
    let no_text: PCWSTR = nowhere::<u16>(low).cast_const();
    let no_id: *const GUID = nowhere::<GUID>(low).cast_const();
    let no_out: *mut PWSTR = nowhere(low);
    let no_place: *mut Handle = nowhere(low);
    let text_code = if low == 0 { INVALID } else { POINTER };
    let what = format!("{low:#x}");
    unsafe {
        right.check(&what, HANDLE, |r| {
            dll.create_endpoint(
                nowhere(low),
                &raw const r.id,
                r.text.as_ptr(),
                &raw mut r.handle,
                &raw mut r.record,
            )
        });
        right.check(&what, POINTER, |r| {
            dll.create_endpoint(network, no_id, r.text.as_ptr(), &raw mut r.handle, &raw mut r.record)
        });
        right.check(&what, text_code, |r| {
            dll.create_endpoint(network, &raw const r.id, no_text, &raw mut r.handle, &raw mut r.record)
        });
        right.check(&what, HANDLE, |r| {
            dll.endpoint_stats(nowhere(low), r.text.as_ptr(), &raw mut r.out, &raw mut r.record)
        });
        right.check(&what, HANDLE, |r| {
            dll.endpoint_addresses(nowhere(low), r.text.as_ptr(), &raw mut r.out, &raw mut r.record)
        });
        right.check(&what, POINTER, |r| {
            dll.hns_call(r.text.as_ptr(), r.text.as_ptr(), r.text.as_ptr(), no_out)
        });
        right.check(&what, text_code, |r| {
            dll.hns_call(no_text, r.text.as_ptr(), r.text.as_ptr(), &raw mut r.out)
        });
        right.check(&what, POINTER, |r| dll.register_service_callback(None, nowhere(low), &raw mut r.handle));
        right.check(&what, HANDLE, |_| dll.unregister_service_callback(nowhere(low)));
        right.check(&what, HANDLE, |_| dll.unregister_network_callback(network));
        right.check(&what, HANDLE, |_| dll.unregister_guest_callback(network));
        right.check(&what, HANDLE, |_| dll.close_guest(network));
        right.check(&what, HANDLE, |_| dll.release_port(network));
        right.check(&what, POINTER, |r| {
            dll.create_guest(no_id, r.text.as_ptr(), &raw mut r.handle, &raw mut r.record)
        });
        right.check(&what, HANDLE, |r| dll.reserve_port(nowhere(low), 1, 1, 80, &raw mut r.handle));
        right.check(&what, POINTER, |_| dll.enumerate_reservations(nowhere(low), nowhere(low)));
        right.check(&what, HResult::E_NOTIMPL, |r| hcn_dll::absent::not_done(&[no_place, &raw mut r.handle]));
        dll.free_reservations(nowhere(low));
    }
}

#[test]
fn an_error_record_is_not_needed() {
    let world = World::new();
    let mut right = Right::new();
    let none: *mut PWSTR = std::ptr::null_mut();
    unsafe {
        right.check("a failure", HResult::NETWORK_NOT_FOUND, |r| {
            world.dll.open(Kind::Network, &raw const r.id, &raw mut r.handle, none)
        });
        let mut out = std::ptr::null_mut();
        let answer = world.dll.enumerate(Kind::Network, std::ptr::null(), &raw mut out, none);
        assert_eq!((answer, taken(out).as_deref()), (0, Some("[]")));
    }
}
