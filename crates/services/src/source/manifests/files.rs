//! Finding and reading manifest files. Everything that touches the disk is here and in `watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Options;
use super::parse::{Parsed, parse_bytes};
use super::problem::Problem;
use super::snapshot::{Edit, FileId, Snapshot};
use crate::record::Change;

/// Folders within folders are followed this far.
const MAX_FOLDER_DEPTH: usize = 32;

/// Where manifests are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input, read once.
    Stdin,
    /// A file of any name, or a folder: every `*.yaml`, `*.yml` and `*.json` in and below it, in name order, except hidden
    /// ones (their names start with a dot).
    Path(PathBuf),
}

impl Input {
    /// `-` is standard input, everything else a path.
    pub fn from_argument(argument: impl Into<OsString>) -> Self {
        let argument = argument.into();
        if argument == "-" { Self::Stdin } else { Self::Path(argument.into()) }
    }
}

/// Which files to read again although they look unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    /// None.
    #[default]
    Nothing,
    /// Every file of one of these names.
    Names(BTreeSet<OsString>),
    /// All of them.
    Everything,
}

/// What a look at the files brought.
#[derive(Debug, Default)]
pub struct Update {
    /// What changed, as a set difference, sorted by object.
    pub changes: Vec<Change>,
    /// What is wrong in the files that were read, and with reading them.
    pub problems: Vec<Problem>,
    /// How many files were read.
    pub files_read: usize,
    /// How many objects in them were of kinds that do not matter.
    pub ignored: usize,
}

impl Update {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.problems.is_empty()
    }
}

/// What tells that a file has changed without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// The manifests of some inputs: reads them, and at each further look tells what changed.
pub struct Manifests {
    inputs: Vec<Input>,
    options: Options,
    snapshot: Snapshot,
    stamps: BTreeMap<FileId, Stamp>,
    stdin: Option<Box<dyn Read + Send>>,
}

impl Manifests {
    /// Reads nothing yet; the first [`refresh`](Self::refresh) does.
    pub fn new(inputs: Vec<Input>, options: Options) -> Self {
        Self::with_stdin(inputs, options, Box::new(io::stdin()))
    }

    /// The same with something else as standard input.
    pub fn with_stdin(inputs: Vec<Input>, options: Options, stdin: Box<dyn Read + Send>) -> Self {
        Self { inputs, options, snapshot: Snapshot::default(), stamps: BTreeMap::new(), stdin: Some(stdin) }
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// What is known of the files.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Looks for files and reads those that are new, look changed or are `touched`. A file that cannot be read, or a
    /// folder that cannot be listed, keeps what is known of it: unknown is not absent.
    pub fn refresh(&mut self, touched: &Touched) -> Update {
        let mut update = Update::default();
        let mut edits = Vec::new();
        let listing = Listing::of(&self.inputs);
        update.problems.extend(listing.problems);

        if let Some((input, mut stdin)) = self.stdin_input().zip(self.stdin.take()) {
            let file = FileId::direct(input, "-");
            edits.push(self.parsed(file, read_limited(&mut stdin, &self.options), &mut update));
        }
        for (file, path) in &listing.files {
            let metadata = match fs::metadata(path) {
                Ok(metadata) => metadata,
                Err(error) => {
                    update.problems.push(unreadable(&file.name, &error));
                    continue;
                }
            };
            let stamp = Stamp::of(&metadata);
            let known = self.stamps.get(file);
            // A pipe can be read only once.
            let again = metadata.is_file() && (known != Some(&stamp) || is_touched(touched, path));
            if known.is_some() && !again {
                continue;
            }
            let read = read_file(path, &self.options);
            if let Err(ReadError::Io(error)) = &read {
                update.problems.push(unreadable(&file.name, error));
                self.stamps.remove(file);
                continue;
            }
            self.stamps.insert(file.clone(), stamp);
            edits.push(self.parsed(file.clone(), read, &mut update));
        }
        let found: BTreeSet<&FileId> = listing.files.iter().map(|(file, _)| file).collect();
        let gone = self.snapshot.files().filter(|file| {
            let on_disk = self.inputs.get(file.input) != Some(&Input::Stdin);
            on_disk && !found.contains(file) && !listing.unknown.contains(&file.input)
        });
        for file in gone.cloned().collect::<Vec<_>>() {
            self.stamps.remove(&file);
            edits.push(Edit::Gone(file));
        }
        let (changes, problems) = self.snapshot.apply(edits);
        update.changes = changes;
        update.problems.extend(problems);
        update
    }

    fn stdin_input(&self) -> Option<usize> {
        self.inputs.iter().position(|input| *input == Input::Stdin)
    }

    fn parsed(&self, file: FileId, read: Result<Vec<u8>, ReadError>, update: &mut Update) -> Edit {
        update.files_read += 1;
        let parsed = match read {
            Ok(bytes) => parse_bytes(&file.name, &bytes, &self.options),
            Err(error) => {
                let message = match error {
                    ReadError::TooLarge(size) => self.options.too_large(size),
                    ReadError::Io(error) => format!("cannot be read: {error}"),
                };
                Parsed { problems: vec![Problem::of_file(&file.name, message)], ..Parsed::default() }
            }
        };
        update.ignored += parsed.ignored;
        Edit::Read(file, parsed)
    }
}

fn is_touched(touched: &Touched, path: &Path) -> bool {
    match touched {
        Touched::Nothing => false,
        Touched::Names(names) => path.file_name().is_some_and(|name| names.contains(name)),
        Touched::Everything => true,
    }
}

fn unreadable(name: &Arc<str>, error: &io::Error) -> Problem {
    Problem::of_file(name, format!("cannot be read: {error}"))
}

enum ReadError {
    /// With the size where it is known.
    TooLarge(Option<u64>),
    Io(io::Error),
}

fn read_file(path: &Path, options: &Options) -> Result<Vec<u8>, ReadError> {
    let mut file = File::open(path).map_err(ReadError::Io)?;
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if metadata.is_file() && metadata.len() > options.max_bytes {
        return Err(ReadError::TooLarge(Some(metadata.len())));
    }
    read_limited(&mut file, options)
}

/// Reads to the end, or to the limit: a stream, or a file that grows meanwhile, does not tell its size.
fn read_limited(reader: &mut dyn Read, options: &Options) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    reader.take(options.max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size <= options.max_bytes) {
        Ok(bytes)
    } else {
        Err(ReadError::TooLarge(None))
    }
}

/// The files that the inputs stand for.
#[derive(Default)]
struct Listing {
    files: Vec<(FileId, PathBuf)>,
    problems: Vec<Problem>,
    /// Inputs with a part that could not be listed.
    unknown: BTreeSet<usize>,
    /// Files and folders already listed, by what they really are.
    seen: BTreeSet<PathBuf>,
}

impl Listing {
    fn of(inputs: &[Input]) -> Self {
        let mut listing = Self::default();
        for (input, path) in inputs.iter().enumerate() {
            let Input::Path(path) = path else { continue };
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => listing.folder(input, path, &mut Vec::new()),
                Ok(_) => listing.file(FileId::direct(input, path.to_string_lossy()), path),
                Err(error) => {
                    // A named file that does not exist is gone; what cannot be looked at is unknown.
                    if error.kind() != io::ErrorKind::NotFound {
                        listing.unknown.insert(input);
                    }
                    listing.problems.push(unreadable(&path.to_string_lossy().into(), &error));
                }
            }
        }
        listing
    }

    fn folder(&mut self, input: usize, folder: &Path, place: &mut Vec<Box<str>>) {
        let listed = fs::canonicalize(folder).and_then(|real| {
            let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
            Ok((real, entries))
        });
        let (real, mut entries) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.unknown.insert(input);
                self.problems.push(unreadable(&folder.to_string_lossy().into(), &error));
                return;
            }
        };
        if place.len() > MAX_FOLDER_DEPTH || !self.seen.insert(real) {
            return;
        }
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let path = entry.path();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // Not the entry's own metadata: a link stands for what it points at. A dangling one stands for nothing.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            place.push(name.to_string_lossy().into());
            if metadata.is_dir() {
                self.folder(input, &path, place);
            } else if metadata.is_file() && is_manifest(&path) {
                let name = path.to_string_lossy().into();
                self.file(FileId { input, place: place.clone().into(), name }, &path);
            }
            place.pop();
        }
    }

    fn file(&mut self, file: FileId, path: &Path) {
        // What has no real path (a pipe) cannot be listed twice by name.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.seen.insert(real) {
            self.files.push((file, path.to_owned()));
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    matches!(extension.as_deref(), Some("yaml" | "yml" | "json"))
}
