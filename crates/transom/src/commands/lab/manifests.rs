//! A lab's manifests: copies in its folder, which its supervisor and its proxies read, and where they came from.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lab::names::Names;

use crate::cli::values::ManifestPath;

/// The list of where manifests came from, beside the copies.
fn sources_file(names: &Names) -> PathBuf {
    names.folder().join("sources.json")
}

/// A file to be copied: its name among the copies and its content.
struct Copy {
    name: String,
    content: Vec<u8>,
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

fn read_file(path: &Path, number: usize, copies: &mut Vec<Copy>) -> anyhow::Result<()> {
    let content = fs::read(path).with_context(|| format!("manifest {}", path.display()))?;
    let base = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    copies.push(Copy { name: format!("{number:03}-{base}"), content });
    Ok(())
}

fn read(path: &ManifestPath, copies: &mut Vec<Copy>) -> anyhow::Result<()> {
    let path = match path {
        ManifestPath::StandardInput => {
            let mut content = Vec::new();
            std::io::stdin().lock().read_to_end(&mut content).context("manifests on standard input")?;
            copies.push(Copy { name: format!("{:03}-stdin.yaml", copies.len()), content });
            return Ok(());
        }
        ManifestPath::Path(path) => path,
    };
    if !path.is_dir() {
        return read_file(path, copies.len(), copies);
    }
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![path.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("folder {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("folder {}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if is_manifest(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("folder {} holds no .yaml, .yml or .json file", path.display());
    }
    for file in files {
        read_file(&file, copies.len(), copies)?;
    }
    Ok(())
}

/// Takes copies of manifests, in place of earlier ones. Each file is whole at every moment.
pub(super) fn take(names: &Names, paths: &[ManifestPath]) -> anyhow::Result<()> {
    let mut copies = Vec::new();
    for path in paths {
        read(path, &mut copies)?;
    }
    let folder = names.manifests();
    fs::create_dir_all(&folder).with_context(|| format!("folder {}", folder.display()))?;
    for copy in &copies {
        let path = folder.join(&copy.name);
        if fs::read(&path).is_ok_and(|old| old == copy.content) {
            continue;
        }
        // Under a name that nobody takes for a manifest until it is whole.
        let new = folder.join(format!(".{}.new", copy.name));
        let written = fs::File::create(&new).and_then(|mut file| file.write_all(&copy.content));
        written
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("manifest {}", path.display()))?;
    }
    for entry in fs::read_dir(&folder).with_context(|| format!("folder {}", folder.display()))? {
        let entry = entry?;
        if !copies.iter().any(|copy| entry.file_name() == *copy.name) {
            fs::remove_file(entry.path()).with_context(|| format!("manifest {}", entry.path().display()))?;
        }
    }
    let absolute = |path: &ManifestPath| match path {
        ManifestPath::StandardInput => None,
        ManifestPath::Path(path) => std::path::absolute(path).ok(),
    };
    let sources: Vec<PathBuf> = paths.iter().filter_map(absolute).collect();
    fs::write(sources_file(names), serde_json::to_vec(&sources)?).context("the list of manifests")
}

/// Where the manifests came from that can be read again.
pub(super) fn sources(names: &Names) -> anyhow::Result<Vec<ManifestPath>> {
    let text = fs::read(sources_file(names)).context("the list of manifests")?;
    let sources: Vec<PathBuf> = serde_json::from_slice(&text).context("the list of manifests")?;
    if sources.is_empty() {
        bail!("the manifests came from standard input and cannot be read again; give some with -f");
    }
    Ok(sources.into_iter().map(ManifestPath::Path).collect())
}
