//! A log file that does not grow without end: when it is full it becomes `NAME.old`, in place of the one of before, and a new one begins.
//! It must not know what lines say.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// A log file, open for writing; clones are the same one.
#[derive(Clone)]
pub(super) struct LogFile {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    path: PathBuf,
    most: Option<u64>,
    /// None for a moment, while a full file is put aside, and when no new one could be opened.
    file: Option<File>,
    length: u64,
}

impl LogFile {
    /// Opens it, at the end of what stands there. `most` bytes fit; none: any number.
    pub(super) fn open(path: &Path, most: Option<u64>) -> io::Result<Self> {
        let mut inner = Inner { path: path.to_owned(), most, file: None, length: 0 };
        inner.open()?;
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }
}

impl Inner {
    fn open(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        self.length = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Puts a full file aside.
    fn turn(&mut self) -> io::Result<()> {
        // Windows does not rename what is open.
        self.file = None;
        let mut old = OsString::from(&self.path);
        old.push(".old");
        let renamed = fs::rename(&self.path, old);
        if renamed.is_err() {
            // Somebody reads the old one, or may not be replaced: better to lose lines than to fill the disk.
            File::create(&self.path)?;
        }
        self.open()
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.file.is_none() {
            self.open()?;
        }
        if self.length > 0 && self.most.is_some_and(|most| self.length + length > most) {
            self.turn()?;
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        file.write_all(line)?;
        self.length += length;
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LogFile {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl Write for LogFile {
    /// A line that the file does not take goes to standard error: there may be somebody.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.inner.lock().write(line).is_err() {
            io::stderr().lock().write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_full_file_is_put_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a.log"), folder.path().join("a.log.old"));
        fs::write(&path, "0\n").unwrap();
        let mut log = LogFile::open(&path, Some(8)).unwrap();
        for line in ["11\n", "22\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!((read(&path).as_str(), old.exists()), ("0\n11\n22\n", false));
        log.write_all(b"33\n").unwrap();
        assert_eq!((read(&path), read(&old)), ("33\n".to_owned(), "0\n11\n22\n".to_owned()));
        for line in ["44\n", "a line that is longer than the file may be\n", "55\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(read(&path), "55\n");
        assert_eq!(read(&old), "a line that is longer than the file may be\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn without_a_limit_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = LogFile::open(&path, None).unwrap();
        for _ in 0..100 {
            log.write_all(b"line\n").unwrap();
        }
        assert_eq!(read(&path).lines().count(), 100);
    }

    #[test]
    fn a_file_that_cannot_be_put_aside_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        fs::create_dir_all(folder.path().join("a.log.old/full")).unwrap();
        let mut log = LogFile::open(&path, Some(8)).unwrap();
        for line in ["11111\n", "22222\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(read(&path), "22222\n");
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(LogFile::open(&folder.path().join("no/a.log"), None).is_err());
    }
}
