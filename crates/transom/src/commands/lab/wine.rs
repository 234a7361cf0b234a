//! Windows programs on a lab's node.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use hnsd::Address;
use lab::exec::Exec;
use lab::names::{LabName, Names};
use lab::wine::{MISSING, Prefix, windows_path};

use super::super::progress::Progress;
use super::live::LiveLab;
use crate::cli::wine::WineCommand;
use crate::exit::Exit;

pub(in crate::commands) fn run(command: &WineCommand) -> anyhow::Result<Exit> {
    let place = place(command)?;
    let prefix =
        Prefix::new(absolute(&command.prefix.clone().map_or_else(|| default_prefix(&place.key), Ok)?)?)?;
    let dlls = match &command.dlls {
        Some(folder) => folder.clone(),
        None => default_dlls()?,
    };
    {
        let _progress = (!prefix.is_there()).then(|| Progress::start("Making a Wine prefix", None));
        prefix.prepare(&dlls, &place.exec)?;
    }
    let code = prefix.run(&place.exec, &command.program)?;
    Ok(Exit::Program(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Where the program runs.
struct Place {
    exec: Exec,
    /// What its prefix is called.
    key: String,
}

fn place(command: &WineCommand) -> anyhow::Result<Place> {
    if let Some(address) = &command.hns {
        let hns = match address {
            Address::TokenFile(file) => {
                let file = absolute(file)?;
                format!("token:{}", windows_path(&file))
            }
            Address::Unix(_) => bail!("Wine has no Unix sockets: give the HNS as token:FILE"),
            other @ Address::Tcp(_) => other.to_string(),
        };
        let exec = Exec { env: vec![("TRANSOM_HNS".into(), hns.into())], ..Exec::default() };
        return Ok(Place { exec, key: "hns".to_owned() });
    }
    let lab: LabName = match &command.lab {
        Some(name) => name.parse().map_err(anyhow::Error::msg)?,
        None => LabName::standard(),
    };
    let live = LiveLab::of(&lab)?;
    let node = live.windows_node(command.node.as_deref())?;
    let token = Names::new(lab.clone()).hns_token(&node.name);
    let exec = Exec {
        namespace: node.namespace.clone(),
        hostname: Some(node.name.clone()),
        env: vec![("TRANSOM_HNS".into(), format!("token:{}", windows_path(&token)).into())],
        ..Exec::default()
    };
    Ok(Place { exec, key: format!("{lab}.{}", node.name) })
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{}", path.display()))
}

fn default_prefix(key: &str) -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = cache.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set: say --prefix DIR")?;
    Ok(cache.join("transom/wine").join(key))
}

/// `windows` beside this program, or beside the folder that it is in (as in cargo's target folder).
fn default_dlls() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("this program's own path")?;
    let folders: Vec<PathBuf> =
        program.ancestors().skip(1).take(2).map(|folder| folder.join("windows")).collect();
    if let Some(found) = folders.iter().find(|folder| folder.join(MISSING).is_file()) {
        return Ok(found.clone());
    }
    let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    bail!(
        "the DLLs are not in {}; build them with `cargo xtask windows --build`, or say where they are with --dlls",
        looked.join(" or ")
    )
}
