//! Where objects outlive the process: a redb file, one transaction per API write.
//!
//! A write with all its cascades is one transaction, committed before the caller gets the answer. So after a kill at
//! any moment the file holds every acknowledged write whole and the one in flight whole or not at all. Whether it
//! also survives a power failure is the opener's choice: waiting for the disk makes each write some fifty times
//! slower, and an emulated service that loses power has nothing to be restored beside it. Objects of non-persistent
//! networks are never written. In memory there is no file, and a restart goes through the same
//! form (JSON) as the file would.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;

use hcn::{Error, Guid, HResult, Kind, Result};
use redb::backends::FileBackend;
use redb::{BackendError, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::record::Object;
use crate::state::State;

/// Kind and id → the record as JSON.
const OBJECTS: TableDefinition<'_, (u8, u128), &[u8]> = TableDefinition::new("objects");
/// What the file is.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Raised when records of older files cannot be read any more.
const FORMAT: u64 = 1;

pub(crate) enum Store {
    Memory,
    File(Database),
}

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database itself.
    #[error("{0}")]
    Database(#[from] redb::Error),
    /// A record that does not read.
    #[error("the stored {kind} {id} does not read: {problem}")]
    Record {
        /// Kind of object.
        kind: Kind,
        /// Its id.
        id: Guid,
        /// What is wrong.
        problem: String,
    },
    /// The file itself.
    #[error("{0}")]
    File(#[from] io::Error),
    /// A file of another format.
    #[error("the file has format {found}; this version reads format {FORMAT}")]
    Format {
        /// What the file says.
        found: u64,
    },
}

/// A file that is written at once, and on the disk when the caller asked for that.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    synced: bool,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// A killed process loses nothing that it has handed to the operating system, and the order stays.
    fn sync_data(&self) -> io::Result<()> {
        if self.synced { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> std::result::Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> std::result::Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> std::result::Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> std::result::Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> std::result::Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> std::result::Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

macro_rules! from_redb {
    ($($error:ident),*) => { $(impl From<redb::$error> for StoreError {
        fn from(error: redb::$error) -> Self {
            Self::Database(error.into())
        }
    })* };
}
from_redb!(DatabaseError, TransactionError, TableError, StorageError, CommitError);

const fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::Network => 0,
        Kind::Endpoint => 1,
        Kind::Namespace => 2,
        Kind::LoadBalancer => 3,
        Kind::SdnRoute => 4,
    }
}

impl Store {
    /// Opens or makes a file; true when it was made. With `synced`, each write waits for the disk.
    pub(crate) fn open(path: &Path, synced: bool) -> std::result::Result<(Self, bool), StoreError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let backend = Backend { file: FileBackend::new(file)?, synced };
        // A file that was damaged from outside is to be refused, not met in the middle of a call.
        let database = Database::builder().set_check_integrity_on_open(true).create_with_backend(backend)?;
        let transaction = database.begin_write()?;
        let fresh = {
            transaction.open_table(OBJECTS)?;
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("format")?.map(|value| value.value());
            match found {
                None => {
                    meta.insert("format", FORMAT)?;
                }
                Some(FORMAT) => {}
                Some(found) => return Err(StoreError::Format { found }),
            }
            found.is_none()
        };
        transaction.commit()?;
        Ok((Self::File(database), fresh))
    }

    /// Whether writes go anywhere.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Every object, in an order in which they can be put; in memory, the ones given.
    pub(crate) fn load(&self, in_memory: &State) -> std::result::Result<Vec<Object>, StoreError> {
        let read = |kind: Kind, id: Guid, bytes: &[u8]| {
            Object::from_json(kind, bytes).map_err(|error| StoreError::Record {
                kind,
                id,
                problem: error.to_string(),
            })
        };
        match self {
            Self::Memory => in_memory
                .objects()
                .filter(|object| is_persistent(in_memory, object))
                .map(|object| read(object.kind(), object.id(), &object.to_json()))
                .collect(),
            Self::File(database) => {
                let transaction = database.begin_read()?;
                let table = transaction.open_table(OBJECTS)?;
                let mut objects = Vec::new();
                // Keys sort by kind, in the order in which kinds may be made.
                for entry in table.iter()? {
                    let (key, value) = entry?;
                    let (number, id) = key.value();
                    let id = Guid::from_u128(id);
                    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind_number(*kind) == number) else {
                        continue;
                    };
                    objects.push(read(kind, id, value.value())?);
                }
                Ok(objects)
            }
        }
    }

    /// Writes what has become of the objects that an operation touched, in one transaction.
    pub(crate) fn commit(&self, state: &State, touched: &[(Kind, Guid)]) -> Result<()> {
        let Self::File(database) = self else {
            return Ok(());
        };
        if touched.is_empty() {
            return Ok(());
        }
        write(database, state, touched).map_err(|error| {
            tracing::error!(%error, "the store did not take a write");
            Error::detailed(HResult::REGKEY_FAILURE, format!("the store did not take the write: {error}"))
        })
    }
}

fn write(
    database: &Database,
    state: &State,
    touched: &[(Kind, Guid)],
) -> std::result::Result<(), StoreError> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(OBJECTS)?;
        for &(kind, id) in touched {
            let key = (kind_number(kind), id.uuid().as_u128());
            match state.get(kind, id).filter(|object| is_persistent(state, object)) {
                Some(object) => {
                    table.insert(key, object.to_json().as_slice())?;
                }
                None => {
                    table.remove(key)?;
                }
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Whether an object outlives the service: not when its network is non-persistent, or gone.
pub(crate) fn is_persistent(state: &State, object: &Object) -> bool {
    use hcn::network::NetworkFlags;
    let lasts = |network: Guid| {
        let record = state.networks.get(network);
        record.is_some_and(|record| !record.doc.flags.contains(NetworkFlags::ENABLE_NON_PERSISTENT))
    };
    match object {
        Object::Network(record) => !record.doc.flags.contains(NetworkFlags::ENABLE_NON_PERSISTENT),
        Object::Endpoint(record) => lasts(record.network),
        Object::Namespace(_) => true,
        Object::Balancer(record) => record.network.is_none_or(lasts),
        Object::Route(record) => record.network.is_none_or(lasts),
    }
}
