//! In place of `transom lab` where there is no Linux: the command line refuses `--lab`, so that none of this is called.

use anyhow::bail;
use hnsd::Address;

use super::vfp::{Answer, Ask};
use crate::cli::Output;
use crate::cli::traffic::{CaptureCommand, Flow, VfpTarget};
use crate::exit::Exit;

const WHY: &str = "labs run on Linux only";

pub(super) fn vfp(_: &str, _: &VfpTarget, _: &Ask) -> anyhow::Result<Answer> {
    bail!(WHY)
}

pub(super) fn capture(_: &str, _: &CaptureCommand) -> anyhow::Result<Exit> {
    bail!(WHY)
}

pub(super) fn trace(_: &str, _: Option<&str>, _: &Flow, _: bool, _: Output) -> anyhow::Result<Exit> {
    bail!(WHY)
}

pub(super) fn hns(_: &str, _: Option<&str>) -> anyhow::Result<Address> {
    bail!(WHY)
}
