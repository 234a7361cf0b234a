//! The functions behind the exports, called as a program calls them, against an emulated HNS that is served over TCP.

#![cfg(unix)]
#![expect(unsafe_code, reason = "the functions under test take pointers of a program, which these tests are")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "pointers are of locals, or refused unread")]

mod arguments;
mod callbacks;
mod guests;
mod objects;
mod restarts;
mod threads;
mod v1;
mod world;
