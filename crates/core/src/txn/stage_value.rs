//! Staging of a value: it is encoded into the write set, or refused because of its length.
//!
//! A value that knows its encoded length is refused before anything is copied. Any other is encoded
//! first, into a buffer that is freed with the transaction if it is large (`free_large_buffers.rs`).

use std::ops::Range;
use std::sync::Arc;

use namiki_data::ValueBytes;

use super::Transaction;
use crate::error::Error;
use crate::storage::record::{RecordRef, VALUE_BYTES_MAX};
use crate::table::raw_table::RawTable;
use crate::wal_format::commit_changes;

/// A value that says to be no longer is not looked at before it is encoded.
const UNCHECKED_BYTES: usize = 4096;

/// Refuses a value that is too long before it is encoded. `value_bytes` is what it says of itself; `max_bytes` is
/// [`Transaction::value_bytes_max`].
///
/// # Errors
/// [`Error::ValueTooLong`], [`Error::TransactionTooLarge`].
#[inline(always)]
pub(crate) fn check_length(
    raw_table: &RawTable,
    key: &[u8],
    value_bytes: usize,
    max_bytes: usize,
) -> Result<(), Error> {
    // The first is a constant for most types.
    if value_bytes > UNCHECKED_BYTES && value_bytes > max_bytes {
        Err(too_long(raw_table, key, value_bytes, max_bytes))
    } else {
        Ok(())
    }
}

#[cold]
fn too_long(raw_table: &RawTable, key: &[u8], value_bytes: usize, max_bytes: usize) -> Error {
    if value_bytes > VALUE_BYTES_MAX {
        return Error::ValueTooLong {
            table: raw_table.name(),
            len_bytes: value_bytes,
            max_bytes: VALUE_BYTES_MAX,
        };
    }
    Error::TransactionTooLarge {
        len_bytes: commit_changes::put_bytes(raw_table.id, key.len(), value_bytes),
        max_bytes,
    }
}

#[cold]
pub(crate) fn unencodable(raw_table: &RawTable, why: &str) -> Error {
    Error::Unencodable {
        table: raw_table.name(),
        why: why.to_owned(),
    }
}

impl Transaction {
    /// The longest value that it can write.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    #[inline]
    pub(super) fn check_fits(
        &self,
        raw_table: &RawTable,
        key: &[u8],
        value_bytes: usize,
    ) -> Result<(), Error> {
        // An amount that is added gets a sum as well.
        let whole = value_bytes.saturating_mul(2).saturating_add(key.len());
        if value_bytes > self.value_bytes_max || !self.access_set.room_for(whole) {
            return Err(self.does_not_fit(raw_table, key, value_bytes));
        }
        Ok(())
    }

    /// Takes a value in that is to be written.
    pub(super) fn stage(
        &mut self,
        raw_table: &RawTable,
        key: &[u8],
        encode: impl FnOnce(&mut ValueBytes),
    ) -> Result<Range<u32>, Error> {
        // Apart from the other values, whatever a type's own encoding does with what it is given.
        self.encoded.clear();
        encode(&mut self.encoded);
        self.stage_encoded(raw_table, key)
    }

    #[inline]
    pub(super) fn stage_encoded(
        &mut self,
        raw_table: &RawTable,
        key: &[u8],
    ) -> Result<Range<u32>, Error> {
        if let Some(why) = self.encoded.take_refusal() {
            return Err(unencodable(raw_table, &why));
        }
        self.check_fits(raw_table, key, self.encoded.len())?;
        Ok(self.access_set.stage(&self.encoded))
    }

    #[cold]
    fn does_not_fit(&self, raw_table: &RawTable, key: &[u8], value_bytes: usize) -> Error {
        if value_bytes > self.value_bytes_max {
            return too_long(raw_table, key, value_bytes, self.value_bytes_max);
        }
        Error::TransactionTooLarge {
            len_bytes: self.access_set.bytes() + key.len() + value_bytes,
            max_bytes: u32::MAX as usize,
        }
    }

    /// The record of a key with a value that has just been staged; if it has none and gets none, the value is
    /// unstaged.
    pub(super) fn resolve_staged(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        value: &Range<u32>,
    ) -> Result<RecordRef, Error> {
        self.find_or_create_record(raw_table, key)
            .inspect_err(|_| self.access_set.unstage(value))
    }
}
