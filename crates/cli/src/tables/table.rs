//! A table by its name, with keys and values as bytes, and their types.

use std::ops::Bound;

use namiki::{Database, Direction, Table, TableInfo};
use namiki_terminal::interrupt;

use crate::failure::{Failure, usage};
use crate::typed::text::{TextError, from_text};
use crate::typed::{Datum, TableTypes, Type, key_bytes, value_bytes};

/// Limits on the rows and the bytes that one transaction reads.
const PAGE_ROWS: usize = 1024;
const PAGE_BYTES: usize = 4 << 20;

/// A table in memory.
pub(crate) struct TypedTable {
    pub(crate) table: Table<[u8], [u8]>,
    pub(crate) info: TableInfo,
    pub(crate) types: TableTypes,
}

/// Consecutive rows.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the range ends with them.
    is_last: bool,
}

impl TypedTable {
    /// The table of this name.
    pub(crate) fn find(db: &Database, name: &str) -> Result<Self, Failure> {
        Self::find_if_any(db, name)?.ok_or_else(|| Failure::NoTable {
            dir: db.dir().to_owned(),
            table: name.to_owned(),
            there: names(db),
        })
    }

    /// The table of this name; `None` if it does not exist.
    pub(crate) fn find_if_any(db: &Database, name: &str) -> Result<Option<Self>, Failure> {
        if db.loaded_tables().iter().any(|it| it.name == name) {
            return Err(Failure::InSegments {
                dir: db.dir().to_owned(),
                table: name.to_owned(),
            });
        }
        let Some(table) = db.untyped_table(name)? else {
            return Ok(None);
        };
        let info = db.table_infos().into_iter().find(|it| it.name == name);
        Ok(info.map(|info| Self {
            types: TableTypes::of(&info),
            table,
            info,
        }))
    }

    /// The bytes of a key from the command line.
    pub(crate) fn key(&self, text: &str) -> Result<Vec<u8>, Failure> {
        key_from(&self.types.key, text)
    }

    /// The bytes of a value from the command line.
    pub(crate) fn value(&self, text: &str) -> Result<Vec<u8>, Failure> {
        value_from(&self.types.value, text)
    }

    /// Reads rows of a range in one transaction.
    fn page(
        &self,
        db: &Database,
        range: &(Bound<Vec<u8>>, Bound<Vec<u8>>),
        direction: Direction,
        limit: usize,
    ) -> Result<Page, Failure> {
        let page = db.transact(|tx| {
            let mut page = Page::default();
            let mut rows = tx.range(&self.table, range.clone());
            let mut bytes = 0;
            while page.rows.len() < limit && bytes < PAGE_BYTES {
                let row = match direction {
                    Direction::Forward => rows.next(),
                    Direction::Backward => rows.next_back(),
                };
                let Some(row) = row else {
                    page.is_last = true;
                    break;
                };
                let (key, value) = row?;
                bytes += key.len() + value.len();
                page.rows.push((key, value));
            }
            Ok(page)
        });
        Ok(page?)
    }

    /// Passes the rows of a range to `visit`, a page at a time, until the end of the range or until
    /// `visit` stops.
    pub(crate) fn pages(
        &self,
        db: &Database,
        mut range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        direction: Direction,
        limit: Option<u64>,
        mut visit: impl FnMut(&Page) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left = limit.unwrap_or(u64::MAX);
        while left > 0 && !is_empty(&range) {
            interrupt::check()?;
            let rows = usize::try_from(left).unwrap_or(usize::MAX).min(PAGE_ROWS);
            let page = self.page(db, &range, direction, rows)?;
            left -= page.rows.len() as u64;
            visit(&page)?;
            match page.rows.last() {
                Some((key, _)) if !page.is_last => match direction {
                    Direction::Forward => range.0 = Bound::Excluded(key.clone()),
                    Direction::Backward => range.1 = Bound::Excluded(key.clone()),
                },
                _ => break,
            }
        }
        Ok(())
    }
}

/// The bytes of a key of this type from the command line.
pub(super) fn key_from(of: &Type, text: &str) -> Result<Vec<u8>, Failure> {
    bytes_from(of, text, key_bytes).map_err(|error| usage(format!("the key {error}")))
}

/// The bytes of a value of this type from the command line.
pub(super) fn value_from(of: &Type, text: &str) -> Result<Vec<u8>, Failure> {
    bytes_from(of, text, value_bytes).map_err(|error| usage(format!("the value {error}")))
}

fn bytes_from(
    of: &Type,
    text: &str,
    bytes: fn(&Type, &Datum) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, TextError> {
    let datum = from_text(of, text)?;
    Ok(bytes(of, &datum).unwrap_or_else(|| unreachable!("{datum} was read as {of}")))
}

/// Whether the range can contain no key.
fn is_empty(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    match range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

/// The names of the existing tables, for an error.
fn names(db: &Database) -> Vec<String> {
    let mut names = db.tables();
    names.extend(db.loaded_tables().into_iter().map(|table| table.name));
    names
}
