//! What a running proxy serves, over real sockets: health, metrics, status and the health check ports of Services.

#![allow(missing_docs, unreachable_pub, reason = "a test program")]

mod faults;
mod figures;
mod observe;
mod pace;
mod paths;
mod ports;
mod rig;
