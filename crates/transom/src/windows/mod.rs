//! What a program does on Windows only: services, console events, the event log, its priority. Each module is a thin edge over
//! the system's functions; what can be decided without them is decided elsewhere.

#![expect(unsafe_code, reason = "the edge to the system's functions")]

pub mod console;
pub mod eventlog;
pub mod host;
pub mod priority;
pub mod service;
