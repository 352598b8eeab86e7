//! Errors, grouped by what the caller does next.
//!
//! - [`Error`] ends a transaction. [`Error::is_retryable`] says whether a retry can succeed;
//!   [`Error::OutcomeUnknown`] is never retryable, because the transaction may have committed.
//! - [`OpenError`] means that a database could not be opened; nothing that it holds was lost.

use std::io;
use std::path::PathBuf;

use namiki_index::IndexError;
use namiki_log::LogError;
use namiki_platform::debug_as_sentence;

pub use crate::open_error::OpenError;

debug_as_sentence!(Error);

/// Why a transaction did not commit, or why its outcome is unknown.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction was in conflict with this one. Nothing was changed; a retry can succeed,
    /// and [`Database::transact`](crate::Database::transact) does so by itself.
    #[error("conflict with another transaction: {0}; run it again, as Database::transact does")]
    Conflict(Conflict),
    /// Every attempt met a conflict.
    #[error(
        "gave up after {attempts} attempts, each ended by a conflict: {last}; let fewer transactions change the same keys \
         at once, or allow more with Builder::attempts_max"
    )]
    TooManyConflicts {
        /// How often the transaction was run.
        attempts: u32,
        /// The conflict that ended the last attempt.
        last: Conflict,
    },
    /// A transaction waited for a lock for as long as
    /// [`Builder::lock_wait_max`](crate::Builder::lock_wait_max) allows. Nothing was changed.
    /// Another transaction holds the lock, perhaps one that is open and idle: find and end it, and
    /// retry this one.
    #[error(
        "waited {waited_ms} ms for a lock that another transaction holds; end the one that is open and idle, or wait \
         longer with Builder::lock_wait_max"
    )]
    LockTimeout {
        /// How long it waited, in milliseconds.
        waited_ms: u64,
    },
    /// The transaction's own code asked for its end with
    /// [`Transaction::abort`](crate::Transaction::abort). Nothing was changed.
    #[error("transaction aborted: {0}")]
    Aborted(String),
    /// The body of a transaction has run another one of the same database on the same thread, by
    /// [`Database::transact`](crate::Database::transact) or any of its kind, a
    /// [`Session`](crate::Session), a task or [`Database::load`](crate::Database::load). The inner
    /// one was not run: the outer body is retried after a conflict, and would commit it each time.
    /// Pass the outer [`Transaction`](crate::Transaction) to the functions that it calls; or run
    /// the inner one before or after. A transaction that has to commit independently of the outer
    /// one is begun with [`Database::begin`](crate::Database::begin).
    #[error(
        "a transaction was nested in the body of another one of the same database, which may run again: give the outer \
         transaction to what is called in the body, run the inner one before or after, or begin it with Database::begin; in a \
         body, do not wait in an executor that runs other tasks on the same thread meanwhile"
    )]
    NestedTransaction,
    /// The session has begun no transaction, or has ended it. Nothing was changed. Call
    /// [`Session::begin`](crate::Session::begin) first.
    #[error("the session runs no transaction; begin one with Session::begin")]
    NoTransaction,
    /// The program of a change ([`Transaction::change_later`](crate::Transaction::change_later)) has
    /// refused a row. If the call returns this, nothing was changed by it, and the transaction can
    /// continue; if the commit does, nothing was changed at all.
    #[error("a change of a row in table {table:?} was refused by its program, with code {code}")]
    ChangeRefused {
        /// The table's name.
        table: String,
        /// The number that the program gave as the reason.
        code: u32,
    },
    /// An insert found its key present. The transaction can continue.
    #[error("table {table:?} already holds the key {key}; put replaces its value")]
    Duplicate {
        /// The table's name.
        table: String,
        /// The key, as bytes in hexadecimal.
        key: String,
    },
    /// A key is longer than a table can hold. The transaction can continue.
    #[error(
        "a key of {len_bytes} bytes is too long for table {table:?}: at most {max_bytes}; use a shorter one, such as a hash \
         of it"
    )]
    KeyTooLong {
        /// The table's name.
        table: String,
        /// The length of the key.
        len_bytes: usize,
        /// The longest key that fits.
        max_bytes: usize,
    },
    /// A key does not have the fixed length of the table's keys. The transaction can continue.
    #[error("table {table:?} has keys of 8 bytes, not of {len_bytes}")]
    KeyLength {
        /// The table's name.
        table: String,
        /// The length of the key.
        len_bytes: usize,
    },
    /// A value is longer than a table can hold. The transaction can continue.
    #[error(
        "a value of {len_bytes} bytes is too long for table {table:?}: at most {max_bytes}; split it over several keys"
    )]
    ValueTooLong {
        /// The table's name.
        table: String,
        /// The length of the value.
        len_bytes: usize,
        /// The longest value that fits.
        max_bytes: usize,
    },
    /// A value has no encoding: usually one that serde's traits cannot write. The transaction can
    /// continue.
    #[error("a value for table {table:?} cannot be encoded: {why}")]
    Unencodable {
        /// The table's name.
        table: String,
        /// Why not.
        why: String,
    },
    /// The bytes of a value are not an encoding of the table's value type.
    #[error(
        "a value in table {table:?} cannot be read as {expected}: {len_bytes} bytes; it was written by another program, or \
         by a type of that name with other fields, and is read by that"
    )]
    Undecodable {
        /// The table's name.
        table: String,
        /// The requested type.
        expected: String,
        /// The length of the value.
        len_bytes: usize,
    },
    /// An amount was to be added ([`Transaction::add`](crate::Transaction::add)), and the sum
    /// overflows the table's value type. Nothing was changed.
    #[error(
        "adding to a value in table {table:?} goes beyond what {expected} can say; keep it in a wider type, such as i128"
    )]
    Overflow {
        /// The table's name.
        table: String,
        /// The type of its values.
        expected: String,
    },
    /// A table's index has no room for a key that the table never had: it numbers its pages, and has used all
    /// 2^28 numbers. Keys that the table has can be read and written as before. Deleted ones keep their place
    /// until the database is opened again; a hash index has room for any number of keys, see
    /// [`Builder::table_index`](crate::Builder::table_index).
    ///
    /// After an insert, or after a put that follows a savepoint, the transaction can continue. Any
    /// other [`put`](crate::Transaction::put) is deferred and does not check the key: a later call
    /// of the transaction fails, at the latest its commit, and nothing is changed.
    #[error(
        "table {table:?} has no room for another key: its index has used all of its page numbers; open the database \
         again, which frees those of deleted keys, or with another index for it (Builder::table_index)"
    )]
    TableFull {
        /// The table's name.
        table: String,
    },
    /// The transaction wrote more than one may
    /// ([`Builder::transaction_bytes_max`](crate::Builder::transaction_bytes_max)), or than a
    /// region of a shared device can take. Nothing was changed, and the database stays usable: make
    /// the transaction smaller, raise the limit, or load rows by
    /// [`Database::load`](crate::Database::load).
    #[error(
        "the transaction's log record has {len_bytes} bytes, more than the {max_bytes} allowed: make it smaller, \
         load rows with `Database::load`, or raise `Builder::transaction_bytes_max` (at most 1 GiB; on a shared \
         device, a region has to be as long, too)"
    )]
    TransactionTooLarge {
        /// The length of its log record.
        len_bytes: usize,
        /// The longest record that is allowed.
        max_bytes: usize,
    },
    /// The disk has no room for more log in addition to the room that the next checkpoint needs.
    /// Nothing was changed. If [`Database::transact`](crate::Database::transact) returns this, a
    /// checkpoint could not make room either. Deletions are accepted, if necessary after another
    /// checkpoint, and so are [`clear_table`](crate::Database::clear_table) and
    /// [`drop_table`](crate::Database::drop_table).
    #[error(
        "no room for the log; nothing was changed: delete rows, clear or drop a table (Database::clear_table, \
         Database::drop_table), or free some room on the disk, and run it again"
    )]
    DiskFull(#[source] LogError),
    /// The next log file could not be created: the process has no permission to write, no file
    /// descriptor or memory left, or the file system is mounted read-only. Nothing was changed.
    /// Once the cause is removed, commits are accepted again.
    #[error(
        "the log cannot go on, for its next file cannot be made; nothing was changed: remove the cause, and run it again"
    )]
    NoLogFile(#[source] LogError),
    /// The view has expired: the versions that transactions have overwritten since it was opened,
    /// and that were kept for it and others, took more memory than
    /// [`Builder::view_bytes_max`](crate::Builder::view_bytes_max). No transaction is affected:
    /// open another view, and read it faster, or raise the limit.
    #[error(
        "the view has ended, for what was kept for views took more than {bytes_max} bytes; open another one and read it in \
         less time, or raise Builder::view_bytes_max"
    )]
    ViewExpired {
        /// The limit.
        bytes_max: u64,
    },
    /// The log failed before this transaction reached it. Nothing was changed. No further
    /// transaction can commit; open the database again to recover.
    #[error("the log has failed; open the database again to recover")]
    LogFailed(#[source] LogError),
    /// The log failed while it held this transaction: it may or may not have survived. Reopen the
    /// database and check; never simply retry the transaction.
    #[error(
        "it is not known whether the transaction committed, for the log failed; open the database again and look, before \
         it is run again"
    )]
    OutcomeUnknown(#[source] LogError),
    /// All 2^48 stamps are used up. Nothing was changed. Loading a dump into a new database starts
    /// them afresh.
    #[error(
        "the database has used up its 2^48 commit stamps; export its tables (namiki export --all), and import them into a \
         new one"
    )]
    StampsExhausted,
    /// A savepoint of another transaction, or one that was itself rolled back. No write was rolled
    /// back; the transaction can continue.
    #[error(
        "the savepoint is not one that this transaction can return to: it is another's, or was taken back itself; take one \
         in this transaction"
    )]
    StaleSavepoint,
    /// A ticket of another database, or of an earlier opening of this one.
    #[error(
        "the ticket comes from another database, or from an earlier opening of this one: ask the one that gave it; what an \
         earlier opening has left is durable"
    )]
    ForeignTicket,
    /// All 65,536 sessions and open transactions are in use. Drop some.
    #[error("65,536 sessions and open transactions are in use; drop some")]
    TooManySessions,
    /// This process was forked from the one that opened the database and still uses it. This call
    /// changed nothing, and did not wait. Let the parent use it, or fork before opening it, or
    /// start another program that opens it.
    #[error(
        "the database was opened by the parent of this process; let the parent use it, or fork before opening it"
    )]
    Forked,
    /// Another program has opened the database since, in spite of the lock: the directory was
    /// moved, or the file system does not lock. The manifest is left as the other program wrote it.
    #[error(
        "{path} was written by another program while the database was open; close all but one, then open it again"
    )]
    AnotherWriter {
        /// The manifest's file.
        path: PathBuf,
    },
    /// The database could not be closed in order. The directory is free nevertheless, and the next
    /// opening recovers the database as after a crash.
    #[error(
        "the database in {dir} was not closed in order, and the next opening recovers it as after a crash; {}",
        not_closed(*is_durable, last_checkpoint.as_deref())
    )]
    NotClosed {
        /// Its directory.
        dir: PathBuf,
        /// Whether all that was committed is durable. If not, all that was acknowledged is.
        is_durable: bool,
        /// Why the last checkpoint was not taken, if one was due. The next opening reads the log then.
        last_checkpoint: Option<Box<Error>>,
        /// The cause.
        #[source]
        source: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The database was closed in order, and all that was committed is durable. The backup that follows it
    /// ([`Builder::backup_to`](crate::Builder::backup_to)) could not be brought up to date: it may be as it was before, without the
    /// last commits. It is brought up to date when the database is opened with it again, or by `namiki backup`.
    #[error(
        "the database is closed and nothing is lost, but its backup in {dir} may lack the last commits; open the database again \
         with Builder::backup_to, or run `namiki backup`"
    )]
    BackupBehind {
        /// The directory of the backup.
        dir: PathBuf,
        /// The cause: a [`BackupError`](crate::BackupError).
        #[source]
        source: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The database was closed. Nothing was changed.
    #[error("the database is closed; open it again")]
    Closed,
    /// The database was opened read-only
    /// ([`Builder::open_read_only`](crate::Builder::open_read_only)). Nothing was changed.
    #[error("the database was opened to be read alone; open it with Database::open to change it")]
    ReadOnly,
    /// The table exists with other key or value types, or with types of these names that have another shape. A value
    /// type that has changed is a version of its own, made from the earlier one: see
    /// [`Versioned`](crate::Versioned).
    #[error(
        "table {table:?} maps {found}, not {expected}{}",
        remedy(found, expected)
    )]
    TableType {
        /// The table's name.
        table: String,
        /// The types that it has.
        found: String,
        /// The types that were requested.
        expected: String,
    },
    /// The table was dropped or cleared after this handle was created, or is about to be. Nothing
    /// was changed. If a table of that name exists, [`Database::table`](crate::Database::table)
    /// returns a handle of it. An earlier [view](crate::Database::view) reads the table as it was,
    /// unless its files could not be opened in time.
    #[error(
        "table {table:?} was dropped or cleared, or is about to be; get its handle again if it is there"
    )]
    TableDropped {
        /// The table's name.
        table: String,
    },
    /// The table was created, loaded or cleared after the view was opened: at the view's moment, it
    /// did not exist. Open another view to read it. The view reads the rows from before a clear by
    /// a handle from before it.
    #[error(
        "table {table:?} is younger than the view: it was created, loaded or cleared after the view was opened; open another \
         view, or read the table of before by a handle from before"
    )]
    TableYoungerThanView {
        /// The table's name.
        table: String,
    },
    /// There is no table of this name.
    #[error("there is no table {table:?}")]
    NoSuchTable {
        /// The requested name.
        table: String,
    },
    /// There is a table of this name already. Nothing was changed.
    #[error("there is a table {table:?} already; drop it first, or use another name")]
    TableExists {
        /// The requested name.
        table: String,
    },
    /// The table was loaded into segments, see [`Database::load_sorted`](crate::Database::load_sorted). Its rows are read by
    /// [`Database::query`](crate::Database::query) and take part in no transactions.
    #[error(
        "table {table:?} lies in segments, as it was loaded: it takes no transactions here, and cannot be cleared; read it in a \
         view or with a query, or drop it and load it again"
    )]
    TableInSegments {
        /// The table's name.
        table: String,
    },
    /// The table was loaded into segments, and would take more memory than such tables may take. Views and queries read it.
    /// Open the database with a larger [`Builder::loaded_tables_bytes_max`](crate::Builder::loaded_tables_bytes_max).
    #[error(
        "table {table:?} lies in segments, and would take about {bytes} bytes of memory: tables that were loaded may take \
         {bytes_max}, and others have {taken_bytes}; read it in a view or with a query, or open the database with a larger \
         Builder::loaded_tables_bytes_max"
    )]
    TableTooLarge {
        /// The table's name.
        table: String,
        /// The approximate memory that it would take, in bytes.
        bytes: u64,
        /// The approximate memory of other loaded tables, in bytes.
        taken_bytes: u64,
        /// The memory limit of all of them, in bytes.
        bytes_max: u64,
    },
    /// The table was loaded into segments with indexes, and transactions keep none. Views and queries read it.
    #[error(
        "table {table:?} lies in segments with indexes, which transactions do not keep; read it in a view or with a query, or drop \
         it and load it without them"
    )]
    TableHasIndexes {
        /// The table's name.
        table: String,
    },
    /// The table was loaded into segments, and could not be rewritten for use by transactions. It
    /// stays in its segments.
    #[error(
        "table {table:?} cannot be taken from its segments into memory; nothing was changed, and it can be tried again"
    )]
    TableNotWritten {
        /// The table's name.
        table: String,
        /// The cause.
        #[source]
        source: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A table of this name is being loaded. Use another name, or wait for the end of the load.
    #[error("table {table:?} is being loaded; use another name, or wait for the end of the load")]
    TableBeingLoaded {
        /// The table's name.
        table: String,
    },
    /// The table's rows are still being read from the image, after an opening, and the transaction
    /// was run only once: when this is returned, the table is loaded. Nothing was changed. (Inside
    /// a body, pass it on: [`Database::transact`](crate::Database::transact) waits for the table,
    /// and retries.)
    #[error(
        "table {table:?} is being loaded after the opening; run the transaction again, as Database::transact does"
    )]
    TableLoading {
        /// The table's name.
        table: String,
    },
    /// The table could not be loaded from the image after an opening: usually because a file is
    /// damaged. Nothing was changed. Other tables stay usable, but no checkpoint is taken; close
    /// the database, and restore that file from a backup. Or drop the table.
    #[error(
        "table {table:?} cannot be used; close the database and restore the file from a backup, or drop the table"
    )]
    TableNotLoaded {
        /// The table's name.
        table: String,
        /// The cause.
        #[source]
        source: std::sync::Arc<OpenError>,
    },
    /// The table's handle comes from another database, or from an earlier opening of this one. Get
    /// one from this database, with [`Database::table`](crate::Database::table). The transaction
    /// can continue.
    #[error(
        "the handle of table {table:?} comes from another database; get it from this one, with Database::table"
    )]
    ForeignTable {
        /// The table's name.
        table: String,
    },
    /// The table's index keeps no order, so no range of it can be scanned. Open the database with
    /// an ordered index for it, alone or together with the hash table: see
    /// [`Builder::table_index`](crate::Builder::table_index). The transaction can continue.
    #[error(
        "table {table:?} has a hash index and cannot be scanned; open the database with an ordered index \
         for it, such as art+hash"
    )]
    Unordered {
        /// The table's name.
        table: String,
    },
    /// A table cannot have this name.
    #[error("{name:?} cannot name a table: {why}")]
    TableName {
        /// The requested name.
        name: String,
        /// The fault.
        why: &'static str,
    },
    /// Records cannot have this inline capacity, see
    /// [`Database::table_with_room`](crate::Database::table_with_room). The table was not created;
    /// request less, and longer values are stored outside of their records.
    #[error(
        "table {table:?} cannot have records with room for {inline_bytes} bytes: at most {max_bytes}; \
         longer values are kept beside their records"
    )]
    TableRoom {
        /// The table's name.
        table: String,
        /// The requested capacity.
        inline_bytes: usize,
        /// The most that a record can have.
        max_bytes: usize,
    },
    /// A checkpoint failed. Nothing was changed: the previous image and the log since are kept. The
    /// database stays usable, and retries when the next checkpoint is due.
    #[error("no checkpoint was taken, and the database goes on without")]
    CheckpointFailed(#[source] std::sync::Arc<dyn std::error::Error + Send + Sync>),
    /// The catalogue could not be written. A table was not created, or not dropped, cleared or
    /// renamed: the call can be retried.
    #[error("cannot write the manifest {path}; {}", not_written(*is_in_doubt))]
    Manifest {
        /// The manifest's file.
        path: PathBuf,
        /// Whether the change may be on the disk nevertheless, where the next opening would find
        /// it.
        is_in_doubt: bool,
        /// The device's error.
        #[source]
        source: std::sync::Arc<io::Error>,
    },
}

/// Describes the outcome of a failed change of the manifest.
fn not_written(is_in_doubt: bool) -> &'static str {
    if is_in_doubt {
        "the change was not made here and can be tried again, but it may be on the disk, and the next opening shows \
             whether it is"
    } else {
        "nothing was changed, and it can be tried again"
    }
}

/// Describes the state of a database that was not closed in order.
fn not_closed(is_durable: bool, checkpoint: Option<&Error>) -> String {
    let commits = if is_durable {
        "all that was committed is durable"
    } else {
        "what was acknowledged is durable, and it is not known whether commits are that were not"
    };
    let checkpoint = checkpoint.map(|why| format!("; its last checkpoint was not taken: {why}"));
    format!("{commits}{}", checkpoint.unwrap_or_default())
}

/// The remedy if a table was opened with a type that has the right name, but another shape.
fn remedy(found: &str, expected: &str) -> &'static str {
    /// The name, the version, and the hash of the shape.
    fn parts(type_name: &str) -> Option<(&str, u32, &str)> {
        let (name, hash) = type_name.rsplit_once('#')?;
        match name.rsplit_once('@') {
            Some((name, version)) => Some((name, version.parse().ok()?, hash)),
            None => Some((name, 0, hash)),
        }
    }
    fn changed<'t>(
        found: &'t str,
        expected: &'t str,
    ) -> Option<((&'t str, u32, &'t str), (&'t str, u32, &'t str))> {
        let both = (parts(found)?, parts(expected)?);
        (both.0.0 == both.1.0 && both.0 != both.1).then_some(both)
    }

    let both = found.split_once(" to ").zip(expected.split_once(" to "));
    let Some(((found_key, found_value), (expected_key, expected_value))) = both else {
        return "";
    };
    if changed(found_key, expected_key).is_some() {
        return "; the key type has changed, and what has other keys is another table: make one, and move the rows";
    }
    match changed(found_value, expected_value) {
        Some((found, expected)) if found.1 > expected.1 => {
            "; the table was opened by a later release of the program, which has changed the type: use that"
        }
        Some((found, expected)) if found.1 < expected.1 => {
            "; the type is not made from this one: the earlier type has to have the name, the fields and the version \
             that it had, as by #[namiki(name = \"Name\")]"
        }
        Some(_) => {
            "; the type has changed: give it the next version and say what it is made from, as by \
             #[namiki(version = 2, from = Old)]"
        }
        None => "",
    }
}

/// The kind of conflict that a transaction met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// A record to be written stayed locked.
    #[error("a record it writes stayed locked")]
    WriteLocked,
    /// A record to be read stayed locked.
    #[error("a record it reads stayed locked")]
    ReadLocked,
    /// A record that was read has a newer version, or is about to get one.
    #[error("a record it read has changed")]
    ReadChanged,
    /// It held a lock for which an older transaction waits, and would have had to wait itself
    /// (strict two-phase locking): it was wounded to avoid a deadlock.
    #[error("it had to give way to an older transaction")]
    Wounded,
    /// A phantom: a key appeared in a range that was read, or a missing key that was read was
    /// inserted.
    #[error("a key appeared where it had read that there was none")]
    Phantom,
}

impl Error {
    /// Whether nothing was changed and a simple retry of the transaction can succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Conflict(_) | Self::TooManyConflicts { .. } | Self::TableLoading { .. }
        )
    }

    pub(crate) fn from_index(error: &IndexError, table: &str) -> Self {
        match *error {
            IndexError::KeyTooLong { len, max } => Self::KeyTooLong {
                table: table.to_owned(),
                len_bytes: len,
                max_bytes: max,
            },
            IndexError::KeyLength { got, .. } => Self::KeyLength {
                table: table.to_owned(),
                len_bytes: got,
            },
            IndexError::Unordered => Self::Unordered {
                table: table.to_owned(),
            },
            IndexError::OutOfPages => Self::TableFull {
                table: table.to_owned(),
            },
            ref other => unreachable!("records' addresses fit every index: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A program prints this if its `main` returns the error.
    #[test]
    fn what_main_prints_is_a_sentence_with_the_remedy() {
        let source = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
        let full = Error::DiskFull(LogError::DiskFull {
            path: "/data/wal/0000/000001-00000002.log".into(),
            source: Arc::new(source),
        });
        assert_eq!(
            format!("Error: {full:?}"),
            "Error: no room for the log; nothing was changed: delete rows, clear or drop a table (Database::clear_table, \
             Database::drop_table), or free some room on the disk, and run it again: no space left on the disk for log file /data/wal/0000/000001-00000002.log: no space left on device"
        );
        let in_use = OpenError::InUse {
            dir: "/data".into(),
        };
        assert_eq!(
            format!("Error: {in_use:?}"),
            "Error: /data is in use by another process or handle; close it first"
        );
        let large = Error::TransactionTooLarge {
            len_bytes: 9,
            max_bytes: 8,
        };
        assert!(format!("{large:#?}").contains("Builder::transaction_bytes_max"));
    }
}
