//! A cluster's network on one Linux machine, with real packets.
//!
//! | module | job |
//! |---|---|
//! | [`names`] | what a lab's namespaces, devices, folders and sockets are called |
//! | [`netns`] | network namespaces: made, entered, removed |
//! | [`plan`] | pure: a cluster's topology → namespaces, links, addresses, routes |
//! | [`build`], [`linux`], [`nft`] | carries a plan out with iproute2 and nftables; Linux nodes and their Services |
//! | [`links`] | faults of the links of nodes that no switch is behind |
//! | [`tap`], [`offload`], [`pump`] | TAP devices, virtio-net headers, frames between devices and a switch |
//! | [`seats`], [`shadow`] | a Windows node's devices; what its switch asks of the host's stack |
//! | [`privileges`], [`handover`] | what a process gives up; messages with descriptors |
//! | [`daemon`] | a Windows node as a process: HNS, switch, pump, served to others |
//! | [`supervisor`] | the process that keeps a lab: builds it, starts and restarts what belongs to it, ends it |
//! | [`responder`], [`dns`] | what pods run: answers on container ports, names of Services |
//! | [`exchange`], [`exec`] | one request from a namespace; any program in a pod |
//! | [`wine`] | Windows programs on a node |
//!
//! It must not know the proxy: what runs on nodes comes from outside.
#![cfg(target_os = "linux")]

pub mod build;
pub mod daemon;
pub mod dns;
pub mod exchange;
pub mod exec;
pub mod handover;
pub mod links;
pub mod linux;
pub mod names;
pub mod needs;
pub mod netns;
pub mod nft;
pub mod offload;
pub mod plan;
pub mod privileges;
pub mod pump;
pub mod record;
pub mod responder;
pub mod seats;
pub mod shadow;
pub mod supervisor;
pub mod tap;
pub mod wine;
