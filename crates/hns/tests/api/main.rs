//! The emulated HNS through its API, kind by kind.

mod world;

mod balancers;
mod balancers_modify;
mod concurrency;
mod endpoints;
mod filters;
mod namespaces;
mod networks;
mod networks_modify;
mod notifications;
mod policies;
mod ports;
mod restart;
mod routes;
mod v1;
