//! A proxy that runs: the loop that takes changes and makes passes, and what is seen of it from outside at any moment.
//!
//! | module | job |
//! |---|---|
//! | [`run`] | the loop: changes in, bounded passes, nothing before the source knows everything |
//! | [`state`] | what is known of the proxy, for whoever asks; never waits for HNS |
//! | [`programming`] | how long it takes from a change of endpoints to HNS |
//!
//! It knows the proxy's engine; it must not know where changes come from nor which HNS there is.

pub mod programming;
pub mod run;
pub mod state;

pub use run::{Ended, Input, Loop, Observer, Passed, Settings};
pub use state::{Phase, State};
