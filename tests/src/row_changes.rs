//! Row programs on a table of numbers, for the suites of late changes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use namiki::{ByteTable, ChangeRefused, Database, Error, ProtocolSpec, Transaction, UntypedTable};
use namiki_platform::disk::{Disk, SimDisk};

/// The code with which a program refuses a number that is too large.
pub const OVERFLOW: u32 = 22003;

/// The number in a row.
///
/// # Errors
/// If the row is no number.
pub fn number(bytes: &[u8]) -> Result<i64, ChangeRefused> {
    bytes
        .try_into()
        .map(i64::from_le_bytes)
        .map_err(|_| ChangeRefused(1))
}

/// Adds the argument to the row.
///
/// # Errors
/// [`OVERFLOW`].
pub fn add(row: &[u8], amount: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
    let sum = number(row)?.checked_add(number(amount)?);
    into.extend(sum.ok_or(ChangeRefused(OVERFLOW))?.to_le_bytes());
    Ok(())
}

/// Doubles the row: the order of this and [`add`] matters.
///
/// # Errors
/// [`OVERFLOW`].
pub fn double(row: &[u8], _: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
    let product = number(row)?.checked_mul(2);
    into.extend(product.ok_or(ChangeRefused(OVERFLOW))?.to_le_bytes());
    Ok(())
}

/// A database with two streams, and its table of numbers.
///
/// # Panics
/// If it cannot be opened.
#[must_use]
pub fn open(spec: ProtocolSpec, disk: &SimDisk, group_wait_max: Duration) -> (Database, ByteTable) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(group_wait_max)
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = db
        .create_untyped_table(&UntypedTable {
            name: "numbers",
            key_type: "key",
            value_type: "number",
            ..UntypedTable::default()
        })
        .unwrap();
    (db, table)
}

/// Writes a row.
///
/// # Errors
/// Those of [`Transaction::put_row`].
pub fn put(tx: &mut Transaction, table: &ByteTable, key: &[u8], number: i64) -> Result<(), Error> {
    tx.put_row(table, key, &number.to_le_bytes())
}

/// `key = key + amount`, at the commit.
///
/// # Errors
/// Those of [`Transaction::change_later`].
pub fn change(
    tx: &mut Transaction,
    table: &ByteTable,
    key: &[u8],
    amount: i64,
) -> Result<bool, Error> {
    tx.change_later(table, key, add, &amount.to_le_bytes())
}

/// Reads a row.
///
/// # Errors
/// Those of [`Transaction::row`].
///
/// # Panics
/// If it is no number.
pub fn get(tx: &mut Transaction, table: &ByteTable, key: &[u8]) -> Result<Option<i64>, Error> {
    let row = tx.row(table, key)?;
    Ok(row.map(|row| number(row).unwrap()))
}

/// The row in a transaction of its own.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn value(db: &Database, table: &ByteTable, key: &[u8]) -> Option<i64> {
    db.transact(|tx| get(tx, table, key)).unwrap()
}
