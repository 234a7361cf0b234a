//! The switch as its users see it: frames in, frames out.

mod acl;
mod allocations;
mod apply;
mod balancer;
mod differential;
mod errors;
mod fixture;
mod forwarding;
mod fragments;
mod life;
mod nat;
mod observing;
mod offloads;
mod policy;
mod reference;
mod tunnels;
