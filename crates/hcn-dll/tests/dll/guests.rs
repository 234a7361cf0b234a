//! Guest network services and port reservations, which need no server.

use hcn::{Guid, HResult};
use hcn_abi::{Handle, guid};
use hcn_dll::{PortRange, PortRangeEntry};

use crate::world::{Answer, World, code, opened, payload, recorded, with_text};

pub(crate) fn create(world: &World, id: Guid, settings: &str) -> Answer<Handle> {
    let raw = guid::to_raw(id);
    with_text(Some(settings), |settings| {
        opened(|out, record| unsafe { world.dll.create_guest(&raw const raw, settings, out, record) })
    })
}

pub(crate) fn modify(world: &World, guest: Handle, settings: &str) -> Answer<()> {
    with_text(Some(settings), |settings| {
        recorded(|record| unsafe { world.dll.modify_guest(guest, settings, record) })
    })
}

fn open(world: &World, id: Guid) -> Answer<Handle> {
    let raw = guid::to_raw(id);
    opened(|out, record| unsafe { world.dll.open_guest(&raw const raw, out, record) })
}

fn delete(world: &World, id: Guid) -> Answer<()> {
    let raw = guid::to_raw(id);
    recorded(|record| unsafe { world.dll.delete_guest(&raw const raw, record) })
}

fn enumerate(world: &World, query: &str) -> Vec<Guid> {
    let ids = with_text(Some(query), |query| {
        payload(|out, record| unsafe { world.dll.enumerate_guests(query, out, record) })
    });
    serde_json::from_str(&ids.unwrap()).unwrap()
}

fn properties(world: &World, guest: Handle) -> Answer<String> {
    payload(|out, record| unsafe { world.dll.query_guest(guest, std::ptr::null(), out, record) })
}

#[test]
fn documents_are_kept_by_id() {
    let world = World::new();
    let (id, named) = (Guid::from_u128(1), Guid::from_u128(2));
    let guest = create(&world, id, r#"{"MirrorHostNetworking":true,"Flags":1}"#).unwrap();
    assert_eq!(create(&world, id, "{}").unwrap_err().code, HResult::OBJECT_ALREADY_EXISTS);
    create(&world, Guid::NIL, &format!(r#"{{"Id":"{named}"}}"#)).unwrap();
    create(&world, Guid::NIL, "{}").unwrap();
    assert_eq!(create(&world, Guid::NIL, "[]").unwrap_err().code, HResult::INVALID_JSON);
    let all = enumerate(&world, "");
    assert!(all.len() == 3 && all.contains(&id) && all.contains(&named), "{all:?}");
    assert_eq!(enumerate(&world, r#"{"Filter":"{\"Flags\":1}"}"#), [id]);
    assert_eq!(
        properties(&world, guest).unwrap(),
        format!(r#"{{"MirrorHostNetworking":true,"Flags":1,"ID":"{id}"}}"#)
    );
    modify(
        &world,
        guest,
        r#"{"ResourceType":"State","RequestType":"Update","Settings":{"State":"Started"}}"#,
    )
    .unwrap();
    assert!(properties(&world, guest).unwrap().contains(r#""State":"Started""#));
    for (request, wanted) in [
        (r#"{"ResourceType":"Ports"}"#, HResult::REQUEST_UNSUPPORTED),
        (r#"{"ResourceType":"State","RequestType":"Add","Settings":{}}"#, HResult::REQUEST_UNSUPPORTED),
        (r#"{"ResourceType":"State","RequestType":"Update"}"#, HResult::INVALID_PARAMETER),
        ("x", HResult::INVALID_JSON),
    ] {
        assert_eq!(modify(&world, guest, request).unwrap_err().code, wanted, "{request}");
    }
    let other = open(&world, id).unwrap();
    delete(&world, id).unwrap();
    for code in [
        delete(&world, id).unwrap_err().code,
        properties(&world, other).unwrap_err().code,
        open(&world, id).unwrap_err().code,
        modify(&world, guest, r#"{"ResourceType":"State","RequestType":"Update","Settings":{"State":1}}"#)
            .unwrap_err()
            .code,
    ] {
        assert_eq!(code, HResult::ELEMENT_NOT_FOUND);
    }
    assert_eq!(world.dll.close_guest(guest), 0);
    assert_eq!(code(world.dll.close_guest(guest)), HResult::INVALID_HANDLE);
}

#[test]
fn ports_are_reserved_listed_and_released() {
    let world = World::new();
    let id = Guid::from_u128(1);
    let guest = create(&world, id, "{}").unwrap();
    let list = || {
        let (mut count, mut entries) = (9, std::ptr::null_mut());
        assert_eq!(unsafe { world.dll.enumerate_reservations(&raw mut count, &raw mut entries) }, 0);
        let found: Vec<PortRangeEntry> =
            (0..count as usize).map(|at| unsafe { entries.add(at).read() }).collect();
        unsafe { world.dll.free_reservations(entries) };
        found
    };
    assert!(list().is_empty());
    let (mut handle, mut other) = (std::ptr::null_mut(), std::ptr::null_mut());
    unsafe {
        assert_eq!(world.dll.reserve_port(guest, 1, 1, 80, &raw mut handle), 0);
        let taken = code(world.dll.reserve_port(guest, 3, 2, 80, &raw mut other));
        assert_eq!(taken, HResult::PORT_ALREADY_EXISTS);
        assert!(other.is_null());
        let mut range = PortRange { first: 7, last: 7 };
        assert_eq!(world.dll.reserve_ports(guest, 16, &raw mut range, &raw mut other), 0);
        assert_eq!(range.last - range.first, 15);
    }
    let listed = list();
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[0].first, listed[0].protocol, guid::from_raw(&listed[0].owner)), (80, 1, id));
    assert_eq!(world.dll.release_port(handle), 0);
    assert_eq!(code(world.dll.release_port(handle)), HResult::INVALID_HANDLE);
    assert_eq!(list().len(), 1);
    delete(&world, id).unwrap();
    assert!(list().is_empty(), "they go with their owner");
    let refused = code(unsafe { world.dll.reserve_port(guest, 1, 1, 80, &raw mut handle) });
    assert_eq!(refused, HResult::ELEMENT_NOT_FOUND);
}
