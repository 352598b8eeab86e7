//! Numbers that are never used again: of objects, of their versions, and of core tables.
//!
//! They are reserved in blocks, each by a transaction of its own. A crash loses the rest of a block.

use namiki::{ByteTable, Database};
use parking_lot::Mutex;

use super::FIRST_NUMBER;
use crate::error::{SqlError, SqlResult};

/// Numbers of a block.
const BLOCK: u64 = 4096;
/// The key of the row with the first number that is not reserved.
const KEY: &[u8] = b"c";

/// Gives numbers out.
#[derive(Debug)]
pub(crate) struct Numbers {
    db: Database,
    table: ByteTable,
    /// The next one, and the end of the reserved block.
    reserved: Mutex<(u64, u64)>,
}

impl Numbers {
    pub(crate) fn new(db: Database, table: ByteTable) -> Self {
        Self {
            db,
            table,
            reserved: Mutex::new((0, 0)),
        }
    }

    /// The next number. Blocks while a block is reserved, so it must not be called in the body of a transaction.
    ///
    /// # Errors
    /// Those of the core's transactions.
    pub(crate) fn next(&self) -> SqlResult<u64> {
        let mut reserved = self.reserved.lock();
        if reserved.0 == reserved.1 {
            let first = self.db.transact_with(|tx| {
                let first = match tx.row(&self.table, KEY)? {
                    Some(bytes) => bytes.try_into().map(u64::from_le_bytes).map_err(|_| {
                        SqlError::corrupted("the catalogue's counter has not eight bytes")
                    })?,
                    None => FIRST_NUMBER,
                };
                tx.put_row(&self.table, KEY, &(first + BLOCK).to_le_bytes())?;
                Ok::<u64, SqlError>(first)
            })?;
            *reserved = (first, first + BLOCK);
        }
        reserved.0 += 1;
        Ok(reserved.0 - 1)
    }

    /// The next number of an object: one of `pg_class` and its like.
    ///
    /// # Errors
    /// As [`next`](Self::next); 54000 when all 2^32 are used.
    pub(crate) fn next_id(&self) -> SqlResult<u32> {
        u32::try_from(self.next()?).map_err(|_| {
            SqlError::new(
                crate::sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "all object numbers are used",
            )
        })
    }
}
