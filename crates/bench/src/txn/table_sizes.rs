//! The sizes with which the tables of a kept folder were created: number of records, bytes of a
//! record.
//!
//! Every record is compared after a run, and keys are drawn from all records. A run with other
//! sizes than the table's would therefore measure something else than it reports. The sizes are
//! stored before the load, and an interrupted load is completed by the next run.

use namiki::{Database, Table};

use crate::error::BenchError;

/// The name of the table that stores the sizes.
const TABLE: &str = "sizes";

/// The sizes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
}

impl Sizes {
    /// Fails if the table was created with other sizes; stores these if it does not exist yet.
    pub(crate) fn check(self, db: &Database, table: &str) -> Result<(), BenchError> {
        let sizes: Table<str, u64> = db.table(TABLE)?;
        for (flag, asked) in [
            ("--records", self.records),
            ("--value-bytes", self.value_bytes.into()),
        ] {
            let key = format!("{table} {flag}");
            let found = db.transact(|tx| match tx.get(&sizes, &key[..])? {
                Some(found) => Ok(found),
                None => {
                    tx.put(&sizes, &key[..], &asked)?;
                    Ok(asked)
                }
            })?;
            if found != asked {
                return Err(BenchError::Usage(format!(
                    "{flag} {asked}: table {table:?} in {} was made with {flag} {found}; \
                     say the same, or name another --dir",
                    db.dir().display()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_that_were_written_down_first() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let sizes = Sizes {
            records: 10,
            value_bytes: 8,
        };
        let refused = |sizes: Sizes, word: &str| {
            let error = sizes.check(&db, "a").unwrap_err();
            assert!(matches!(error, BenchError::Usage(_)), "{error}");
            assert!(error.to_string().contains(word), "{error}");
        };
        sizes.check(&db, "a").unwrap();
        sizes.check(&db, "a").unwrap();
        let (records, value_bytes) = (11, 9);
        refused(Sizes { records, ..sizes }, "made with --records 10");
        refused(
            Sizes {
                value_bytes,
                ..sizes
            },
            "made with --value-bytes 8",
        );
        Sizes { records, ..sizes }.check(&db, "b").unwrap();
    }
}
