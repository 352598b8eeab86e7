//! A table that fills a disk, and its expected contents.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use namiki::{Database, Error, Table};

/// The rows that fill the disk.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    bytes: usize,
    /// Rows in each transaction.
    together: u64,
}

impl Rows {
    /// Rows of 20 kB, one in each transaction.
    pub const LARGE: Self = Self {
        bytes: 20_000,
        together: 1,
    };
    /// Rows of 100 bytes, several in each transaction.
    pub const SMALL: Self = Self {
        bytes: 100,
        together: 40,
    };

    /// Rows of 100 bytes, enough in each transaction to exceed a log buffer of 32 KiB.
    pub const MANY: Self = Self {
        bytes: 100,
        together: 400,
    };

    /// The same with rows of another length.
    #[must_use]
    pub const fn of(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The same with this number of rows in each transaction.
    #[must_use]
    pub fn together(self, rows: u64) -> Self {
        Self {
            together: rows,
            ..self
        }
    }
}

/// The expected contents of table `rows`: its keys, and the first byte of their values.
#[derive(Debug)]
pub struct Filling {
    rows: Rows,
    expected: BTreeMap<u64, u8>,
    next: u8,
}

impl Filling {
    /// The expected contents of an empty table.
    #[must_use]
    pub fn new(rows: Rows) -> Self {
        Self {
            rows,
            expected: BTreeMap::new(),
            next: 0,
        }
    }

    /// The length of a value in bytes.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.rows.bytes as u64
    }

    /// The length of all values in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.expected.len() * self.rows.bytes) as u64
    }

    /// The table.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn table(db: &Database) -> Table<u64, [u8]> {
        db.table("rows").unwrap()
    }

    /// Asserts that the table has the expected contents.
    ///
    /// # Panics
    /// If it differs.
    pub fn check(&self, db: &Database) {
        let table = Self::table(db);
        let rows = db.read(|view| view.scan(&table, ..)).unwrap();
        let rows = rows.into_iter().map(|(key, value)| {
            assert_eq!(value.len(), self.rows.bytes);
            (key, value[0])
        });
        assert!(rows.eq(self.expected.iter().map(|(key, byte)| (*key, *byte))));
    }

    /// Writes these keys, several in each transaction.
    ///
    /// # Errors
    /// The error of the refused transaction.
    pub fn put_all(
        &mut self,
        db: &Database,
        keys: impl IntoIterator<Item = u64>,
    ) -> Result<(), Error> {
        let table = Self::table(db);
        let keys: Vec<u64> = keys.into_iter().collect();
        for keys in keys.chunks(self.rows.together as usize) {
            self.next = self.next.wrapping_add(1);
            let value = vec![self.next; self.rows.bytes];
            db.transact(|tx| keys.iter().try_for_each(|key| tx.put(&table, key, &value)))?;
            self.expected
                .extend(keys.iter().map(|key| (*key, self.next)));
        }
        Ok(())
    }

    /// Inserts rows until the disk is full.
    ///
    /// # Panics
    /// On any other error.
    pub fn fill(&mut self, db: &Database, told: &str) {
        loop {
            let next = self.expected.keys().next_back().map_or(0, |last| last + 1);
            match self.put_all(db, next..next + self.rows.together) {
                Ok(()) => {}
                Err(Error::DiskFull(_)) => return,
                Err(error) => panic!("{told}: {error:?}"),
            }
        }
    }

    /// Deletes every other row, several in each transaction; no deletion may be refused.
    ///
    /// # Panics
    /// If a deletion is refused.
    pub fn delete_half(&mut self, db: &Database, told: &str) {
        let table = Self::table(db);
        let keys: Vec<u64> = self.expected.keys().copied().step_by(2).collect();
        for keys in keys.chunks(self.rows.together as usize) {
            let deleted = db.transact(|tx| {
                keys.iter()
                    .try_for_each(|key| tx.delete(&table, key).map(drop))
            });
            deleted.unwrap_or_else(|error| panic!("{told}: {error:?} {}", db.stats()));
            for key in keys {
                self.expected.remove(key);
            }
        }
    }

    /// Writes half of the remaining rows again: after the deletions there is room for them.
    ///
    /// # Panics
    /// If a write is refused.
    pub fn put_a_quarter(&mut self, db: &Database, told: &str) {
        let keys: Vec<u64> = self.expected.keys().copied().step_by(2).collect();
        let put = self.put_all(db, keys);
        put.unwrap_or_else(|error| panic!("{told}: {error:?} {}", db.stats()));
    }
}
