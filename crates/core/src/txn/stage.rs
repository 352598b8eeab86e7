//! Staging: values are taken into the write set, or refused because of their length.
//!
//! A value that says its length before it is encoded is refused before anything is copied. Another one is encoded first,
//! into a buffer that does not outlive the transaction if it is large (`scratch.rs`).

use std::ops::Range;
use std::sync::Arc;

use namiki_platform::WorkerId;

use super::Transaction;
use crate::codec;
use crate::engine::Engine;
use crate::error::Error;
use crate::record::{RecordRef, VALUE_BYTES_MAX};
use crate::space::Space;

/// A value that says to be no longer is not looked at before it is encoded.
const UNCHECKED_BYTES: usize = 4096;

/// The longest value that the log of a worker, or a record, can hold.
pub(super) fn value_bytes_max(engine: &Engine, worker: WorkerId) -> usize {
    let log = engine.log.as_ref();
    let of_log = log.map(|log| log.stream(worker).payload_bytes_max());
    of_log.unwrap_or(usize::MAX).min(VALUE_BYTES_MAX)
}

/// Refuses a value that is too long before it is encoded. `value_bytes` is what it says of itself; `max_bytes` is
/// [`Transaction::value_bytes_max`].
///
/// # Errors
/// [`Error::ValueTooLong`], [`Error::TransactionTooLarge`].
#[inline(always)]
pub(crate) fn check_length(
    space: &Space,
    key: &[u8],
    value_bytes: usize,
    max_bytes: usize,
) -> Result<(), Error> {
    // The first is a constant for most types.
    match value_bytes > UNCHECKED_BYTES && value_bytes > max_bytes {
        false => Ok(()),
        true => Err(too_long(space, key, value_bytes, max_bytes)),
    }
}

#[cold]
fn too_long(space: &Space, key: &[u8], value_bytes: usize, max_bytes: usize) -> Error {
    if value_bytes > VALUE_BYTES_MAX {
        return Error::ValueTooLong {
            table: space.info.name.clone(),
            len_bytes: value_bytes,
            max_bytes: VALUE_BYTES_MAX,
        };
    }
    Error::TransactionTooLarge {
        len_bytes: codec::put_bytes(space.info.id, key.len(), value_bytes),
        max_bytes,
    }
}

impl Transaction {
    /// The longest value that it can write.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    #[inline]
    fn check_fits(&self, space: &Space, key: &[u8], value_bytes: usize) -> Result<(), Error> {
        // An amount that is added gets a sum as well.
        let whole = value_bytes.saturating_mul(2).saturating_add(key.len());
        if value_bytes > self.value_bytes_max || !self.sets.room_for(whole) {
            return Err(self.does_not_fit(space, key, value_bytes));
        }
        Ok(())
    }

    /// Takes a value in that is to be written.
    pub(super) fn stage(
        &mut self,
        space: &Space,
        key: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Range<u32>, Error> {
        // Apart from the other values, whatever a type's own encoding does with what it is given.
        self.encoded.clear();
        encode(&mut self.encoded);
        self.stage_encoded(space, key)
    }

    #[inline]
    pub(super) fn stage_encoded(&mut self, space: &Space, key: &[u8]) -> Result<Range<u32>, Error> {
        self.check_fits(space, key, self.encoded.len())?;
        Ok(self.sets.stage(&self.encoded))
    }

    #[cold]
    fn does_not_fit(&self, space: &Space, key: &[u8], value_bytes: usize) -> Error {
        if value_bytes > self.value_bytes_max {
            return too_long(space, key, value_bytes, self.value_bytes_max);
        }
        Error::TransactionTooLarge {
            len_bytes: self.sets.bytes() + key.len() + value_bytes,
            max_bytes: u32::MAX as usize,
        }
    }

    /// The record of a key with a value that has just been staged; if it has none and gets none, the value is
    /// unstaged.
    pub(super) fn place_staged(
        &mut self,
        space: &Arc<Space>,
        key: &[u8],
        value: &Range<u32>,
    ) -> Result<RecordRef, Error> {
        self.place(space, key)
            .inspect_err(|_| self.sets.unstage(value))
    }
}
