//! The public methods of a [`Transaction`]: reads and writes of typed tables.
//!
//! Keys and values are encoded here. `txn` defines transactions and how they end.

use std::borrow::{Borrow, Cow};
use std::ops::{Bound, ControlFlow};

use namiki_data::{AsKey, Key, KeyBytes, KeyRange, Number, Value, ValueBytes, add};
use namiki_index::{Direction, ScanRange};

use crate::api::table::{Table, own};
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable};
use crate::txn::stage_value::check_length;
use crate::txn::{Transaction, Version};

#[inline]
pub(crate) fn decode_value<V: Value + ?Sized>(
    raw_table: &RawTable,
    bytes: &[u8],
) -> Result<V::Owned, Error> {
    V::decode(bytes).ok_or_else(|| undecodable(raw_table, V::type_name(), bytes))
}

#[inline]
pub(crate) fn decode_key<K: Key + ?Sized>(
    raw_table: &RawTable,
    bytes: &[u8],
) -> Result<K::Owned, Error> {
    K::decode(bytes).ok_or_else(|| undecodable(raw_table, K::type_name(), bytes))
}

#[cold]
pub(crate) fn undecodable(raw_table: &RawTable, expected: Cow<'_, str>, bytes: &[u8]) -> Error {
    Error::Undecodable {
        table: raw_table.name(),
        expected: expected.into_owned(),
        len_bytes: bytes.len(),
    }
}

/// Encodes a value unless it says that it is too long.
#[inline]
fn encode_checked<V: Value + ?Sized>(
    raw_table: &RawTable,
    key: &[u8],
    value: &V,
    max_bytes: usize,
    into: &mut ValueBytes,
) -> Result<(), Error> {
    check_length(raw_table, key, value.encoded_bytes_min(), max_bytes)?;
    value.encode(into);
    Ok(())
}

/// Hands on the bytes of some keys at a time, at most [`BATCH_KEYS_MAX`]. They lie in `bytes`.
#[inline]
pub(crate) fn in_batches<K: Key + ?Sized, Q: AsKey<K>>(
    keys: impl IntoIterator<Item = Q>,
    bytes: &mut Vec<u8>,
    mut visit: impl FnMut(&[&[u8]]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut keys = keys.into_iter();
    loop {
        bytes.clear();
        let (mut ends, mut count) = ([0; BATCH_KEYS_MAX], 0);
        for (end, key) in ends.iter_mut().zip(keys.by_ref()) {
            key.with_bytes(|key| bytes.extend_from_slice(key));
            *end = bytes.len();
            count += 1;
        }
        let (mut slices, mut from) = ([&[][..]; BATCH_KEYS_MAX], 0);
        for (slice, to) in slices.iter_mut().zip(&ends[..count]) {
            *slice = &bytes[from..*to];
            from = *to;
        }
        if count > 0 {
            visit(&slices[..count])?;
        }
        if count < BATCH_KEYS_MAX {
            return Ok(());
        }
    }
}

/// Reading and writing typed tables.
impl Transaction {
    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Conflict`], to be passed on; [`Error::Undecodable`]; errors that name a bad key.
    pub fn get<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<Option<V::Owned>, Error> {
        self.get_locked(table, key, LockMode::SHARED)
    }

    #[inline]
    fn get_locked<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        locked: LockMode,
    ) -> Result<Option<V::Owned>, Error> {
        let raw_table = own(self, table)?;
        match key.with_bytes(|key| self.get_bytes(raw_table, key, locked))? {
            Some(bytes) => decode_value::<V>(raw_table, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The values of many keys, in their order, into `out`, which is cleared. Equivalent to a
    /// [`get`](Transaction::get) of each, and faster: their cache misses overlap.
    ///
    /// # Errors
    /// As [`Transaction::get`]; `out` then has the values of all keys before the one that failed.
    pub fn get_many<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K>>(
        &mut self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
        out: &mut Vec<Option<V::Owned>>,
    ) -> Result<(), Error> {
        out.clear();
        let raw_table = own(self, table)?;
        let mut bytes = self.take_key_buffer();
        let read = in_batches(keys, &mut bytes, |keys| {
            out.reserve(keys.len());
            self.get_batch(raw_table, keys, |value| {
                let value = value.map(|bytes| decode_value::<V>(raw_table, bytes));
                out.push(value.transpose()?);
                Ok(())
            })
        });
        self.return_key_buffer(bytes);
        read
    }

    /// Prefetches the index nodes and records that reading or writing these keys will touch into
    /// the processor's caches. For keys that are known in advance, and used in a way that
    /// [`get_many`](Transaction::get_many) and [`update_many`](Transaction::update_many) do not
    /// cover: the cache misses of all look-ups overlap. A prefetch adds nothing to the
    /// transaction's read set and cannot fail: a key that the table cannot hold, and some of its
    /// neighbours in the list, are skipped.
    ///
    /// A processor's caches hold a few hundred records at a time.
    pub fn prefetch<K: Key + ?Sized, V: ?Sized, Q: AsKey<K>>(
        &mut self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
    ) {
        let mut bytes = self.take_key_buffer();
        // It never fails.
        let _ = in_batches(keys, &mut bytes, |keys| {
            self.prefetch_batch(table.raw_table(), keys);
            Ok(())
        });
        self.return_key_buffer(bytes);
    }

    /// The value of a key that the transaction is going to write. Under strict two-phase locking, the key is
    /// locked for writing at once: two transactions that both read it before they write would each have to
    /// wait for the other. Under TicToc and Silo, which lock at the commit only, it is the same as
    /// [`Transaction::get`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<Option<V::Owned>, Error> {
        self.get_locked(table, key, LockMode::EXCLUSIVE)
    }

    /// Blind write: writes a value, whether the key exists or not. Nothing is read, so two
    /// transactions that put the same key do not conflict.
    ///
    /// # Errors
    /// Those that name a bad key or value. [`Error::TableFull`], most often from what the transaction does
    /// next, as the key is not looked up before. Under [`LogStyle::Operations`](crate::LogStyle::Operations), which
    /// locks, logs and changes the key at once, those of locks and log.
    pub fn put<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        value: &V,
    ) -> Result<(), Error> {
        let raw_table = own(self, table)?;
        let max_bytes = self.value_bytes_max();
        key.with_bytes(|key| {
            check_length(raw_table, key, value.encoded_bytes_min(), max_bytes)?;
            self.put_bytes(raw_table, key, |bytes| value.encode(bytes))
        })
    }

    /// Writes a value, whether the key exists or not, and returns the previous one, as
    /// `BTreeMap::insert` does. The key is read, as by
    /// [`get_for_update`](Transaction::get_for_update), so a change of it is a conflict;
    /// [`put`](Transaction::put) reads nothing.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(dir.path().join("data"))?;
    /// let owners = db.table::<u64, str>("owners")?;
    /// let before = |owner: &'static str| db.transact(|tx| tx.replace(&owners, &1, owner));
    /// assert_eq!(before("Alice")?, None);
    /// assert_eq!(before("Bob")?.as_deref(), Some("Alice"));
    /// assert_eq!(db.transact(|tx| tx.remove(&owners, &1))?.as_deref(), Some("Bob"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::put`]; nothing is written then.
    pub fn replace<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        value: &V,
    ) -> Result<Option<V::Owned>, Error> {
        let before = self.get_for_update(table, key)?;
        self.put(table, key, value)?;
        Ok(before)
    }

    /// Commutative increment: adds an amount to the number that the key has at the commit, or to
    /// zero if the key is absent then. Nothing is read before: two transactions that add to the
    /// same key do not conflict, in whatever order they commit. For counters and totals that many
    /// transactions change and few read. (A transaction that accesses the key otherwise reads it
    /// from then on. Under normal lock release, one waits for the group of the other, as for any
    /// key that both write; under [`LogStyle::Operations`](crate::LogStyle::Operations), until the
    /// other has ended.)
    ///
    /// # Errors
    /// As [`Transaction::put`]. The commit fails with [`Error::Overflow`] if the sum is beyond what the type can say; so
    /// it does if that of two amounts is which the transaction adds to the same key. (Under
    /// [`LogStyle::Operations`](crate::LogStyle::Operations) this call fails, and the transaction with it.)
    pub fn add<K: Key + ?Sized, V: Number, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        amount: V,
    ) -> Result<(), Error> {
        let raw_table = own(self, table)?;
        let encode = |bytes: &mut ValueBytes| amount.encode(bytes);
        key.with_bytes(|key| self.add_bytes(raw_table, key, encode, add::<V>))
    }

    /// Inserts a value for a key that does not exist.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if it is there, [`Error::TableFull`] if there is no room for it; the transaction
    /// can go on. Otherwise as [`Transaction::get`] and [`Transaction::put`].
    pub fn insert<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        value: &V,
    ) -> Result<(), Error> {
        let raw_table = own(self, table)?;
        let max_bytes = self.value_bytes_max();
        key.with_bytes(|key| {
            check_length(raw_table, key, value.encoded_bytes_min(), max_bytes)?;
            if self.insert_bytes(raw_table, key, |bytes| value.encode(bytes))? {
                Ok(())
            } else {
                Err(Error::Duplicate {
                    table: table.name(),
                    key: key.iter().map(|byte| format!("{byte:02x}")).collect(),
                })
            }
        })
    }

    /// Replaces a value by the result of `change`; returns whether the key existed.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::put`].
    pub fn update<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        change: impl FnOnce(V::Owned) -> V::Owned,
    ) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        let max_bytes = self.value_bytes_max();
        key.with_bytes(|key| {
            self.update_bytes(raw_table, key, |old, new| {
                let value = change(decode_value::<V>(raw_table, old)?);
                encode_checked::<V>(raw_table, key, value.borrow(), max_bytes, new)
            })
        })
    }

    /// Replaces the values of many keys by the results of `change`, which gets each key's position
    /// in `keys`; returns how many existed. Equivalent to an [`update`](Transaction::update) of
    /// each in sequence, and faster: their cache misses overlap.
    ///
    /// # Errors
    /// As [`Transaction::update`]; the keys before the one that failed are updated then, and those after it are not.
    /// To undo these, roll back to a [savepoint](Transaction::savepoint) made before.
    pub fn update_many<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K>>(
        &mut self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
        mut change: impl FnMut(usize, V::Owned) -> V::Owned,
    ) -> Result<usize, Error> {
        let raw_table = own(self, table)?;
        let mut bytes = self.take_key_buffer();
        let (mut first, mut updated) = (0, 0);
        let max_bytes = self.value_bytes_max();
        let done = in_batches(keys, &mut bytes, |keys| {
            updated += self.update_batch(raw_table, keys, |at, old, new| {
                let value = change(first + at, decode_value::<V>(raw_table, old)?);
                encode_checked::<V>(raw_table, keys[at], value.borrow(), max_bytes, new)
            })?;
            first += keys.len();
            Ok(())
        });
        self.return_key_buffer(bytes);
        done.map(|()| updated)
    }

    /// Removes a key and returns its value, as a `BTreeMap` does. [`delete`](Transaction::delete) copies no value.
    ///
    /// # Errors
    /// As [`Transaction::get`]; the key is still there then.
    pub fn remove<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<Option<V::Owned>, Error> {
        let before = self.get_for_update(table, key)?;
        if before.is_some() {
            self.delete(table, key)?;
        }
        Ok(before)
    }

    /// Removes a key; returns whether it was there. [`remove`](Transaction::remove) returns its value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn delete<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        key.with_bytes(|key| self.delete_bytes(raw_table, key))
    }

    /// The keys in a range and their values, in ascending order.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Result<Vec<(K::Owned, V::Owned)>, Error> {
        let mut found = Vec::new();
        self.scan_with(table, range, Direction::Forward, |key, value| {
            found.push((key, value));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Visits the keys in a range and their values, in ascending or descending order, until `visit`
    /// breaks off.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan_with<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
        direction: Direction,
        mut visit: impl FnMut(K::Owned, V::Owned) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let raw_table = own(self, table)?;
        with_range(&range, direction, |range| {
            self.scan_bytes(raw_table, range, |key, value| {
                let key = decode_key::<K>(raw_table, key)?;
                Ok(visit(key, decode_value::<V>(raw_table, value)?))
            })
        })
    }

    /// Which version of a key this transaction reads, for histories that are to be checked for
    /// cycles. It counts as a read of the key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn version<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<Version, Error> {
        let raw_table = own(self, table)?;
        key.with_bytes(|key| self.version_bytes(raw_table, key))
    }

    /// The versions of all keys in a range that were ever written, deleted ones included. They
    /// count as reads, of the gaps between them too.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn versions<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Result<Vec<(Vec<u8>, Version)>, Error> {
        let raw_table = own(self, table)?;
        let mut found = Vec::new();
        with_range(&range, Direction::Forward, |range| {
            self.versions_bytes(raw_table, range, |key, version| {
                found.push((key.to_vec(), version));
            })
        })?;
        Ok(found)
    }
}

/// Encodes a range's ends and hands them on.
pub(crate) fn with_range<K: Key + ?Sized, T>(
    range: &impl KeyRange<K>,
    direction: Direction,
    scan: impl FnOnce(ScanRange<'_>) -> T,
) -> T {
    let (start, end) = (range.start(), range.end());
    let slice = |bound| Bound::map(bound, |bytes: &KeyBytes| &bytes[..]);
    scan(ScanRange {
        start: slice(start.as_ref()),
        end: slice(end.as_ref()),
        direction,
    })
}
