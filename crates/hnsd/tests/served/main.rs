//! A server and its clients over real sockets, with an emulated HNS behind them.

#![cfg(unix)]

mod conformance;
mod world;
