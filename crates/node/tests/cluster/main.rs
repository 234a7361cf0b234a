//! Whole clusters in memory: what crosses a Windows node's switch without any Service, in both network kinds.

mod captures;
mod pods;
mod world;
