//! The tools that the steps need: looks for them and installs what is missing where that is possible.
//!
//! A tool that is missing is never a reason to skip a step: what cannot be installed is an error that names the
//! package.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{self, works};
use crate::steps::say;

/// The version of the test runner that the configuration was written for; it builds with the toolchain of
/// `rust-version`.
const NEXTEST: &str = "0.9.143";

/// How a missing tool is brought.
#[derive(Debug, Clone, Copy)]
enum Remedy {
    /// Debian packages.
    Apt(&'static [&'static str]),
    /// A component of the toolchain: by rustup where that manages it, else a Debian package.
    Component { rustup: &'static str, apt: &'static str },
    /// A crate that is a program, at a version.
    Crate(&'static str, &'static str),
}

/// What the tools are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Every check and test.
    Everything,
    /// Building for Windows.
    Cross,
}

/// A tool, how to see that it is there, and how to bring it.
struct Tool {
    name: &'static str,
    probe: (&'static str, &'static [&'static str]),
    remedy: Remedy,
}

const COMPILER: &str = "a C compiler";
const CROSS_COMPILER: &str = "a C compiler for Windows";

const TOOLS: &[Tool] = &[
    Tool { name: COMPILER, probe: ("cc", &["--version"]), remedy: Remedy::Apt(&["gcc", "libc6-dev"]) },
    Tool {
        name: CROSS_COMPILER,
        probe: ("x86_64-w64-mingw32-gcc", &["--version"]),
        remedy: Remedy::Apt(&["gcc-mingw-w64-x86-64"]),
    },
    // Runs what is built for Windows.
    Tool { name: "Wine", probe: ("wine", &["--version"]), remedy: Remedy::Apt(&["wine", "wine64"]) },
    Tool { name: "git", probe: ("git", &["--version"]), remedy: Remedy::Apt(&["git"]) },
    // The lab's networks are made with these.
    Tool { name: "iproute2", probe: ("ip", &["-V"]), remedy: Remedy::Apt(&["iproute2"]) },
    Tool { name: "nftables", probe: ("nft", &["--version"]), remedy: Remedy::Apt(&["nftables"]) },
    // A peer, and what looks at the lab's wires and changes its devices.
    Tool {
        name: "Open vSwitch",
        probe: ("ovs-vswitchd", &["--version"]),
        remedy: Remedy::Apt(&["openvswitch-switch"]),
    },
    Tool { name: "ethtool", probe: ("ethtool", &["--version"]), remedy: Remedy::Apt(&["ethtool"]) },
    Tool { name: "tcpdump", probe: ("tcpdump", &["--version"]), remedy: Remedy::Apt(&["tcpdump"]) },
    // Judges the captures that are written.
    Tool { name: "tshark", probe: ("tshark", &["--version"]), remedy: Remedy::Apt(&["tshark"]) },
    Tool {
        name: "rustfmt",
        probe: ("cargo", &["fmt", "--version"]),
        remedy: Remedy::Component { rustup: "rustfmt", apt: "rustfmt-web" },
    },
    Tool {
        name: "clippy",
        probe: ("cargo", &["clippy", "--version"]),
        remedy: Remedy::Component { rustup: "clippy", apt: "rust-web-clippy" },
    },
    Tool {
        name: "cargo-nextest",
        probe: ("cargo", &["nextest", "--version"]),
        remedy: Remedy::Crate("cargo-nextest", NEXTEST),
    },
];

/// Makes sure that every tool is there that is needed.
pub fn ensure(root: &Path, need: Need) -> Result<()> {
    let mut apt = Apt { updated: false };
    for tool in TOOLS {
        if need == Need::Cross && ![COMPILER, CROSS_COMPILER].contains(&tool.name) {
            continue;
        }
        let (program, arguments) = tool.probe;
        if works(program, arguments) {
            continue;
        }
        say(&format!("{} is missing", tool.name));
        bring(root, tool, &mut apt)?;
        if !works(program, arguments) {
            bail!("{} is still missing after {}", tool.name, tool.remedy.sentence());
        }
    }
    Ok(())
}

/// Installs Debian packages.
pub fn apt(packages: &[&str]) -> Result<()> {
    Apt { updated: false }
        .install(packages)
        .with_context(|| format!("this needs `apt-get install {}`", packages.join(" ")))
}

impl Remedy {
    /// What a person would have to do.
    fn sentence(self) -> String {
        match self {
            Self::Apt(packages) => format!("`apt-get install {}`", packages.join(" ")),
            Self::Component { rustup, apt } => {
                format!(
                    "`rustup component add {rustup}` (on Debian's own toolchain: `apt-get install {apt}`)"
                )
            }
            Self::Crate(name, version) => format!("`cargo install --locked {name}@{version}`"),
        }
    }
}

fn bring(root: &Path, tool: &Tool, apt: &mut Apt) -> Result<()> {
    let outcome = match tool.remedy {
        Remedy::Apt(packages) => apt.install(packages),
        Remedy::Component { rustup, .. } if works("rustup", &["--version"]) => {
            process::run(Command::new("rustup").args(["component", "add", rustup]))
        }
        Remedy::Component { apt: package, .. } => apt.install(&[package]),
        Remedy::Crate(name, version) => {
            // Incremental data and the workspace's settings are of no use to a tool.
            process::run(Command::new("cargo").current_dir(root).args([
                "install",
                "--locked",
                "--version",
                version,
                name,
            ]))
        }
    };
    outcome.map_err(|error| {
        error.context(format!("{} is missing and needs {}", tool.name, tool.remedy.sentence()))
    })
}

/// `apt-get`, which wants its lists fetched once.
struct Apt {
    updated: bool,
}

impl Apt {
    fn install(&mut self, packages: &[&str]) -> Result<()> {
        if !works("apt-get", &["--version"]) {
            bail!("there is no apt-get here");
        }
        if !is_root() {
            bail!("installing packages needs root");
        }
        if !self.updated {
            process::run(apt_get().arg("update"))?;
            self.updated = true;
        }
        process::run(apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages))
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive").stdin(std::process::Stdio::null());
    command
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_names_its_package() {
        for tool in TOOLS {
            let sentence = tool.remedy.sentence();
            let named = match tool.remedy {
                Remedy::Apt(packages) => packages.iter().all(|package| sentence.contains(package)),
                Remedy::Component { rustup, apt } => sentence.contains(rustup) && sentence.contains(apt),
                Remedy::Crate(name, version) => sentence.contains(name) && sentence.contains(version),
            };
            assert!(named, "{}: {sentence}", tool.name);
        }
    }

    #[test]
    fn a_tool_that_cannot_be_brought_is_an_error_that_names_the_package() {
        let tool = Tool {
            name: "a tool",
            probe: ("/nonexistent/tool", &[]),
            remedy: Remedy::Crate("/nonexistent crate", "0.0.0"),
        };
        let error =
            bring(Path::new("/"), &tool, &mut Apt { updated: false }).expect_err("there is no such crate");
        assert!(format!("{error:#}").contains("a tool is missing and needs `cargo install"), "{error:#}");
    }
}
