//! The tests of the crate's public face, in one program.

mod clusters;
mod common;
mod derive;
mod fields;
mod fuzzing;
mod large;
mod live;
mod manifests;
mod properties;
mod selection;
