//! Two of the systems: labs of the program under test. With Windows nodes it is what is measured, with Linux nodes it is
//! the kernel alone (veth pairs, VXLAN, nftables), which no program in user space passes.

use std::process::Command;

use anyhow::{Context, Result};
use lab::names::{LabName, Names};

use crate::programs::run;
use crate::system::System;

const CLUSTER: &str = include_str!("cluster.yaml");

/// Which nodes a lab has.
#[derive(Clone, Copy)]
pub(crate) enum Nodes {
    Windows,
    Linux,
}

/// A lab that ends with this.
struct Lab(LabName);

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = run(transom().args(["lab", "down", "--name", self.0.as_str()]), "") {
            crate::say(&format!("lab {} is not gone: {error:#}", self.0));
        }
    }
}

fn transom() -> Command {
    Command::new(env!("CARGO_BIN_EXE_transom"))
}

/// Makes a lab.
pub(crate) fn up(nodes: Nodes) -> Result<System> {
    let (name, word) = match nodes {
        Nodes::Windows => ("Transom", "windows"),
        Nodes::Linux => ("kernel", "linux"),
    };
    let text = format!("bench-{}-{}", std::process::id(), &word[..1]);
    let lab: LabName = text.parse().map_err(anyhow::Error::msg)?;
    let names = Names::new(lab.clone());
    // What is left when it cannot be made goes too.
    let made = Lab(lab);
    run(
        transom().args(["lab", "up", "--name", made.0.as_str(), "--without-responder", "-f", "-"]),
        &CLUSTER.replace("WINDOWS", word),
    )
    .with_context(|| format!("a lab of {word} nodes"))?;
    let [client, near, far] = ["client", "near", "far"].map(|pod| names.pod(&format!("bench/{pod}")));
    System::new(name.to_owned(), &client, &near, &far, Box::new(made))
}
