//! What holds for every frame, and what other programs make of it.

mod laws;
mod oracles;
mod samples;
mod tshark;
