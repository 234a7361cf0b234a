//! What HNS's objects do to packets: networks of every mode and policies of every kind, made as a client makes them,
//! on a node between a LAN, a router and a host outside.

mod bridge;
mod kit;
mod log;
mod nat;
mod objects;
mod transparent;
mod world;
