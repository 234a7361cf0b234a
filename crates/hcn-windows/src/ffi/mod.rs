//! All that is unsafe in this crate. What leaves this module is safe: calls that take and give Rust values, guards that give
//! back what the libraries hand out, and a callback that looks its receiver up by a number.
//!
//! | module | job |
//! |---|---|
//! | `library` | opens files and finds exports |
//! | `exports` | the functions, bound once |
//! | `text` | strings that the libraries hand out, freed exactly once |
//! | `call` | one function for each kind of call |
//! | `callback` | what the libraries call |
//!
//! It must not know what documents say.

#![expect(unsafe_code, reason = "the foreign functions are called here and nowhere else")]

mod call;
mod callback;
mod exports;
mod library;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use call::{Opened, Wide};
pub(crate) use callback::Registration;
pub(crate) use exports::Exports;
pub(crate) use library::{Loaded, Place};
