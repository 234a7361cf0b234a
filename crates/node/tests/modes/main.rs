//! What HNS's objects do to packets: networks of every mode and policies of every kind, made as a client makes them,
//! on a node between a LAN, a router and a host outside.

mod acl;
mod bridge;
mod filters;
mod kit;
mod life;
mod limits;
mod live;
mod log;
mod nat;
mod objects;
mod outbound;
mod overlay;
mod transparent;
mod world;
