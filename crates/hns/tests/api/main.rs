//! The emulated HNS through its API, kind by kind.

mod world;

mod balancers;
