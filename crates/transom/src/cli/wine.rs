//! Flags of `transom wine`: Windows programs on an emulated node.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use hnsd::Address;

use super::values;

/// `transom wine`.
#[derive(Debug, Args)]
pub struct WineCommand {
    /// The lab whose node the program runs on [default: lab, unless --hns is given]
    #[arg(long, value_name = "NAME", value_parser = values::lab_name, conflicts_with = "hns")]
    pub lab: Option<String>,
    /// The Windows node, where the lab has several
    #[arg(long, value_name = "NODE", conflicts_with = "hns")]
    pub node: Option<String>,
    /// The HNS of another process instead of a lab's node: token:FILE, as `transom hns serve` leaves it; the program runs in
    /// this machine's own network
    #[arg(long, value_name = "ADDRESS")]
    pub hns: Option<Address>,
    /// The folder of the Wine prefix; made if it is not there [default: below ~/.cache/transom/wine]
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// The folder with computenetwork.dll, vmcompute.dll and bcryptprimitives.dll [default: windows beside this program, as
    /// `cargo xtask windows --build` makes it]
    #[arg(long, value_name = "DIR", env = "TRANSOM_DLLS")]
    pub dlls: Option<PathBuf>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, num_args = 1.., last = true)]
    pub program: Vec<OsString>,
}
