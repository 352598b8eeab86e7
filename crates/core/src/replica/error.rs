//! The errors of a replica, grouped by what the caller does next.

use namiki_index::IndexError;
use namiki_platform::Stamp;

use crate::table::raw_table::TableId;

/// Why a group could not lock a row. The command that requested it is undone, or refused; the group
/// continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another group has the row locked. Undo the command, and retry it when that group has
    /// released its locks.
    #[error("another group has the row locked; try again when it is released")]
    Conflict,
    /// There is no such table.
    #[error("there is no table {}", .0.0)]
    NoSuchTable(TableId),
    /// The table cannot hold the key: it is longer than any key, or not of the one length that the table's keys have.
    #[error("table {} cannot hold a key of {len_bytes} bytes", table.0)]
    KeyLength {
        /// The table.
        table: TableId,
        /// The length of the key.
        len_bytes: usize,
    },
    /// The table's index has no room for a key that the table never had.
    #[error("table {} has no room for another key", .0.0)]
    TableFull(TableId),
    /// The group's keys and values take as much memory as a group may. Seal it, and continue with
    /// the next.
    #[error("the group holds as many bytes as it may; seal it and begin another")]
    GroupTooLarge,
}

impl LockError {
    pub(super) fn from_index(error: &IndexError, table: TableId) -> Self {
        match *error {
            IndexError::KeyTooLong { len, .. } => Self::KeyLength {
                table,
                len_bytes: len,
            },
            IndexError::KeyLength { got, .. } => Self::KeyLength {
                table,
                len_bytes: got,
            },
            IndexError::OutOfPages => Self::TableFull(table),
            ref other => unreachable!("records' addresses fit every index: {other}"),
        }
    }
}

/// Why a group did not take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The value is longer than a table can hold.
    #[error("a value of {len_bytes} bytes is too long: at most {max_bytes}")]
    ValueTooLong {
        /// The length of the value.
        len_bytes: usize,
        /// The longest value that fits.
        max_bytes: usize,
    },
    /// As [`LockError::GroupTooLarge`].
    #[error("the group holds as many bytes as it may; seal it and begin another")]
    GroupTooLarge,
}

/// Why a replica refused a request. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The number or the name belongs to another table already.
    #[error("cannot create table {} as {name:?}: the number or the name is taken", id.0)]
    TableExists {
        /// The number.
        id: TableId,
        /// The name.
        name: String,
    },
    /// No table can have this name.
    #[error("{name:?} cannot be a table's name: {why}")]
    TableName {
        /// The name.
        name: String,
        /// Why.
        why: String,
    },
    /// There is no such table. For changes, it means that the log's entry that creates it was not applied.
    #[error("there is no table {}", .0.0)]
    NoSuchTable(TableId),
    /// The bytes of a group's changes are not what a group encodes: they are damaged, or of another version.
    #[error("the changes of a group make no sense at byte {at}: {why}")]
    Undecodable {
        /// Where.
        at: usize,
        /// Why.
        why: &'static str,
    },
    /// Groups are applied in the order of their stamps, each once.
    #[error("{stamp} was to be applied after {applied}")]
    NotInOrder {
        /// The group's stamp.
        stamp: Stamp,
        /// The largest that was applied.
        applied: Stamp,
    },
    /// A stamp is larger than a record can hold.
    #[error("{0} has more than 48 bits")]
    StampTooLarge(Stamp),
    /// The changes are not those of the group that holds the locks.
    #[error("the changes are of {changes} rows, the locks of {locked}")]
    OtherGroup {
        /// The rows in the changes.
        changes: usize,
        /// The rows that the group with the locks has changed.
        locked: usize,
    },
    /// A table's index has no room for a key that the table never had.
    #[error("table {} has no room for another key", .0.0)]
    TableFull(TableId),
}
