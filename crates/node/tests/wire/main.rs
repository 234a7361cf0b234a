//! Whole exchanges between emulated machines over links and routers, without any switch of Windows.

mod links;
mod linux;
mod routing;
mod services;
mod world;
