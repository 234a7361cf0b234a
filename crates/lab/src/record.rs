//! What a lab is made of, on disk: enough to take it away after a crash at any moment.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use crate::names::Names;
use crate::plan::Settings;

/// The present form of records.
const VERSION: u32 = 1;

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}", path = path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// What a lab is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The form of this record.
    version: u32,
    /// The lab's name.
    pub lab: String,
    /// How its network is made.
    pub settings: Settings,
    /// The names of its network namespaces, those among them that are just being made.
    pub namespaces: BTreeSet<String>,
    /// Its processes: first the one that keeps the others.
    pub processes: Vec<Process>,
}

/// A process that is the lab's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// What it is.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// When it started, in the system's ticks since it booted: with it, a number that was given again is not taken
    /// for the process.
    pub started: u64,
}

impl Record {
    /// The record of a lab of which nothing is made.
    pub fn new(names: &Names, settings: Settings) -> Self {
        Self {
            version: VERSION,
            lab: names.lab().to_string(),
            settings,
            namespaces: BTreeSet::new(),
            processes: Vec::new(),
        }
    }

    /// Reads a lab's record; `None`: there is none.
    pub fn load(names: &Names) -> Result<Option<Self>, RecordError> {
        let path = names.record();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RecordError { path, error }),
        };
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        match serde_json::from_slice::<Self>(&text) {
            Ok(record) if record.version == VERSION => Ok(Some(record)),
            Ok(record) => {
                let text = format!("version {} is not known; this program writes {VERSION}", record.version);
                Err(RecordError { path, error: wrong(text) })
            }
            Err(error) => {
                let error = wrong(format!("it is no record of a lab: {error}"));
                Err(RecordError { path, error })
            }
        }
    }

    /// Writes it: on disk is afterwards this record, or, if that fails or a crash comes between, the one of before.
    pub fn save(&self, names: &Names) -> Result<(), RecordError> {
        let path = names.record();
        self.write(names).map_err(|error| RecordError { path, error })
    }

    fn write(&self, names: &Names) -> io::Result<()> {
        let folder = names.folder();
        fs::create_dir_all(&folder)?;
        let text = serde_json::to_vec_pretty(self)?;
        let new = folder.join("lab.json.new");
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, names.record())?;
        File::open(&folder)?.sync_all()
    }
}

impl Process {
    /// A process that is there now.
    pub fn of(name: impl Into<String>, pid: u32) -> io::Result<Self> {
        Ok(Self { name: name.into(), pid, started: started(pid)? })
    }

    /// It is still there.
    pub fn is_alive(&self) -> bool {
        self.open().is_some()
    }

    /// Opens it, if it is still there.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let opened = Self::open_number(self.pid)?;
        // From here on the number is not given to another.
        (started(self.pid).ok()? == self.started).then_some(opened)
    }

    /// Opens the process that has a number.
    pub(crate) fn open_number(pid: u32) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
    }
}

/// When a process started. One that has ended and was not yet waited for is none.
fn started(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    read_start(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("process {pid} has ended, or its state is not readable"),
        )
    })
}

/// The start in a process's state. The program's name, which may hold anything, is in brackets.
fn read_start(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // The state is the third field, the start the 22nd.
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn names(run: &std::path::Path) -> Names {
        Names::under(run, "lab".parse().unwrap())
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let run = tempfile::tempdir().unwrap();
        let names = names(run.path());
        assert_eq!(Record::load(&names).unwrap(), None);
        let mut record = Record::new(&names, Settings::default());
        record.namespaces.insert(names.router());
        record.processes.push(Process { name: "supervisor".to_owned(), pid: 7, started: 9 });
        record.save(&names).unwrap();
        assert_eq!(Record::load(&names).unwrap(), Some(record.clone()));
        record.namespaces.clear();
        record.save(&names).unwrap();
        assert_eq!(Record::load(&names).unwrap(), Some(record));
    }

    #[test]
    fn a_torn_record_and_one_of_the_future_are_errors() {
        let run = tempfile::tempdir().unwrap();
        let names = names(run.path());
        Record::new(&names, Settings::default()).save(&names).unwrap();
        let text = fs::read_to_string(names.record()).unwrap();
        for wrong in ["", &text[..text.len() / 2], &text.replace("\"version\": 1", "\"version\": 2")] {
            fs::write(names.record(), wrong).unwrap();
            let error = Record::load(&names).unwrap_err().to_string();
            assert!(error.contains("lab.json"), "{error}");
        }
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["sh", "a b", "a) S 1 (b", ""] {
            assert_eq!(read_start(&format!("17 ({name}) {rest}")), Some(4711), "{name}");
        }
        for wrong in ["", "17 (sh", "17 (sh) S 1", &format!("17 (sh) {}", rest.replacen('S', "Z", 1))] {
            assert_eq!(read_start(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_process_is_alive_until_it_ends_and_another_one_is_not_it() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::of("cat", child.id()).unwrap();
        assert!(process.is_alive());
        let other = Process { started: process.started + 1, ..process.clone() };
        assert!(!other.is_alive(), "a number that was given again");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
        assert!(Process::of("cat", child.id()).is_err());
    }
}
