//! The tests of the crate's public face, in one program.

mod clusters;
mod common;
mod fields;
mod selection;
