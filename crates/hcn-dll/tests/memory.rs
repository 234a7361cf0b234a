//! Every block that a call hands out is handed out once, and none is left behind. Alone in its process, because it counts.

#![cfg(unix)]
#![expect(unsafe_code, reason = "the functions under test take pointers of a program, which these tests are")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "pointers are of locals, or refused unread")]

#[path = "dll/world.rs"]
#[expect(dead_code, reason = "another test uses the rest")]
mod world;

use hcn::{Guid, Kind};
use hcn_abi::PWSTR;
use hcn_dll::memory;
use world::{V2, World, nowhere, taken, with_text};

#[test]
fn nothing_is_left_behind() {
    let world = World::new();
    let network = world.network("n");
    for _ in 0..50 {
        for kind in Kind::ALL {
            world.ids(kind);
            world.open(kind, Guid::from_u128(9)).unwrap_err();
            world.delete(kind, Guid::from_u128(9)).unwrap_err();
        }
        world.query(Kind::Network, network, Some(V2)).unwrap();
        world.modify(Kind::Network, network, "{").unwrap_err();
        assert_eq!(memory::in_use(), 0);
    }
    // What is handed out and kept is counted, and a failure hands out its record and nothing else.
    let (mut out, mut record): (PWSTR, PWSTR) = (nowhere(16), nowhere(16));
    let code = with_text(Some("["), |query| unsafe {
        world.dll.enumerate(Kind::Network, query, &raw mut out, &raw mut record)
    });
    assert!(code < 0 && out.is_null() && memory::in_use() == 1);
    assert!(taken(record).is_some());
    // Without a place for a record there is none.
    unsafe { world.dll.enumerate(Kind::Network, nowhere::<u16>(9), &raw mut out, std::ptr::null_mut()) };
    assert_eq!(memory::in_use(), 0);
}
