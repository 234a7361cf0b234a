//! A server and its clients over real sockets, with an emulated HNS behind them.

#![cfg(unix)]

mod abuse;
mod calls;
mod conformance;
mod documents;
mod reconnect;
mod sockets;
mod streams;
mod world;
