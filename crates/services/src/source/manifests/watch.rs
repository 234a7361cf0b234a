//! Notices edits of manifests through the operating system. What an edit means is decided elsewhere; this module only waits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use thiserror::Error;

use super::Options;
use super::files::{Input, Manifests, Touched, Update};

/// How long nothing must happen before edits are read: programs write a file in several steps.
const QUIET: Duration = Duration::from_millis(50);
/// How many quiet times more a file may be open for writing, where the system tells when it is closed.
const PATIENCE: usize = 20;
/// How many events are gathered at most, so that a folder that never rests is read nevertheless.
const GATHERED: usize = 1000;

/// Only inotify tells when a file that was written is closed.
const TELLS_OF_CLOSING: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Why files cannot be watched.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The operating system refused.
    #[error("cannot watch the manifests for edits: {0}")]
    System(#[from] notify::Error),
    /// The thread that reports events has ended.
    #[error("the operating system no longer reports edits of the manifests")]
    Ended,
}

/// A place that is watched.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    mode: RecursiveMode,
    watched: bool,
}

/// Manifests that are read again whenever they are edited.
///
/// [`next`](Self::next) blocks; give it a thread of its own and send what it returns to whoever needs it.
pub struct Watcher {
    manifests: Manifests,
    system: RecommendedWatcher,
    events: Receiver<notify::Result<Event>>,
    targets: Vec<Target>,
}

impl Watcher {
    /// Starts to watch, then reads everything once.
    pub fn start(inputs: Vec<Input>, options: Options) -> Result<(Self, Update), WatchError> {
        Self::of(Manifests::new(inputs, options))
    }

    /// The same for manifests that were made otherwise.
    pub fn of(manifests: Manifests) -> Result<(Self, Update), WatchError> {
        let (sender, events) = channel();
        let system = notify::recommended_watcher(sender)?;
        let targets = targets(manifests.inputs());
        let mut this = Self { manifests, system, events, targets };
        // Watching comes first, so that an edit during the first reading is noticed.
        this.watch_targets()?;
        let update = this.manifests.refresh(&Touched::Everything);
        Ok((this, update))
    }

    /// What is known of the files.
    pub fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    /// Waits for edits and reads them. With a timeout it returns an empty update when nothing happened for that long; what
    /// happens to other files in the same folders starts it anew.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Update, WatchError> {
        loop {
            let first = match timeout {
                None => self.events.recv().map_err(|_| WatchError::Ended)?,
                Some(timeout) => match self.events.recv_timeout(timeout) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout) => return Ok(Update::default()),
                    Err(RecvTimeoutError::Disconnected) => return Err(WatchError::Ended),
                },
            };
            let mut gathered = Gathered::default();
            gathered.add(first);
            let mut patience = PATIENCE;
            while gathered.count < GATHERED {
                match self.events.recv_timeout(QUIET) {
                    Ok(event) => gathered.add(event),
                    Err(_) if patience > 0 && !gathered.being_written.is_empty() => patience -= 1,
                    Err(_) => break,
                }
            }
            if let Some(touched) = gathered.touched() {
                self.note_lost_targets(&gathered.removed);
                self.watch_targets()?;
                let update = self.manifests.refresh(&touched);
                if update.files_read > 0 || !update.is_empty() {
                    return Ok(update);
                }
            }
        }
    }

    /// Reads everything again, for file systems that report no edits.
    pub fn rescan(&mut self) -> Result<Update, WatchError> {
        self.watch_targets()?;
        Ok(self.manifests.refresh(&Touched::Everything))
    }

    /// A watch ends with the folder it is on; a folder of the same name needs a new one.
    fn note_lost_targets(&mut self, removed: &BTreeSet<PathBuf>) {
        for target in &mut self.targets {
            if removed.iter().any(|path| target.path.starts_with(path)) {
                target.watched = false;
            }
        }
    }

    fn watch_targets(&mut self) -> Result<(), WatchError> {
        for target in self.targets.iter_mut().filter(|t| !t.watched) {
            if !target.path.exists() {
                continue;
            }
            match self.system.watch(&target.path, target.mode) {
                Ok(()) => target.watched = true,
                // It vanished meanwhile, and will be tried again when something happens.
                Err(_) if !target.path.exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// What must be watched to learn of every edit. Editors replace files, so a file is watched through its folder; a folder is
/// watched through its own folder too, so that its removal and return are seen.
fn targets(inputs: &[Input]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    let mut add = |path: PathBuf, mode: RecursiveMode| {
        if !targets.iter().any(|t| t.path == path && t.mode == mode) {
            targets.push(Target { path, mode, watched: false });
        }
    };
    for input in inputs {
        let Input::Path(path) = input else { continue };
        add(folder_of(path), RecursiveMode::NonRecursive);
        if path.is_dir() || !path.exists() {
            add(path.clone(), RecursiveMode::Recursive);
        } else if let Ok(real) = path.canonicalize() {
            add(folder_of(&real), RecursiveMode::NonRecursive);
        }
    }
    targets
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => path.to_owned(),
    }
}

/// Events, boiled down to which files they are about.
#[derive(Default)]
struct Gathered {
    count: usize,
    relevant: bool,
    everything: bool,
    names: BTreeSet<std::ffi::OsString>,
    removed: BTreeSet<PathBuf>,
    being_written: BTreeSet<PathBuf>,
}

impl Gathered {
    fn add(&mut self, event: notify::Result<Event>) {
        self.count += 1;
        let Ok(event) = event else {
            // Events were lost.
            (self.relevant, self.everything) = (true, true);
            return;
        };
        self.everything |= event.need_rescan();
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                self.being_written.retain(|path| !event.paths.contains(path));
            }
            // Reading the files is reported too; without this the reader would wake itself for ever.
            EventKind::Access(_) => return,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
                self.being_written.retain(|path| !event.paths.contains(path));
                self.removed.extend(event.paths.iter().filter(|p| !p.exists()).cloned());
            }
            EventKind::Modify(ModifyKind::Data(_)) if TELLS_OF_CLOSING => {
                self.being_written.extend(event.paths.iter().cloned());
            }
            _ => {}
        }
        self.relevant = true;
        self.names.extend(event.paths.iter().filter_map(|p| p.file_name()).map(ToOwned::to_owned));
    }

    fn touched(&mut self) -> Option<Touched> {
        if !self.relevant && !self.everything {
            None
        } else if self.everything {
            Some(Touched::Everything)
        } else {
            Some(Touched::Names(std::mem::take(&mut self.names)))
        }
    }
}
