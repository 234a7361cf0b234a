//! The source against an API server that speaks the real protocol: what it asks for, what it makes of answers, and what becomes of
//! it when the server fails, lies in pieces, forgets, or does not let it in.

mod credentials;
mod failures;
mod lists;
mod notes;
mod real;
mod rig;
