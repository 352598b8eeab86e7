//! Sources of rows: tables in memory and tables in pages, behind one trait.
//!
//! A [`Source`] is a sorted sequence of (key bytes, row bytes) with a [`Schema`]; an index is one,
//! too. A source in memory answers calls; one in pages hands its segments to the executor, which
//! reads their pages itself.

mod memory_table;
mod row_batch;
mod segment_table;
mod tables;

use std::ops::Bound;
use std::sync::Arc;

use namiki_segment::Segment;

pub use memory_table::MemoryTable;
pub use row_batch::RowBatch;
pub use segment_table::{SegmentTable, SegmentsOverlap};
pub use tables::{Table, Tables};

use namiki_data::columns::Schema;

/// The reason that a source could not return its rows.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A table or an index.
///
/// Keys and bounds in requests are arbitrary bytes, compared as bytes: a part of a key, several
/// keys, or longer than any key. There is no row if no key is equal.
pub trait Source: Send + Sync {
    /// The columns, and where each is in a row's bytes.
    fn schema(&self) -> &Schema;

    /// Approximate number of rows.
    fn rows(&self) -> u64;

    /// The segments with all rows, in the order of their keys, if the source is stored in segments.
    /// The executor then reads their pages itself, and never calls [`Source::scan`] or
    /// [`Source::get_many`].
    fn segments(&self) -> Option<&[Arc<Segment>]> {
        None
    }

    /// Adds the first rows with keys between the bounds to `into`, which is empty, in the order of
    /// their keys: `rows_max`, or fewer if there are no more or if [`RowBatch::is_full`]. Each row
    /// is read atomically, the range is not.
    ///
    /// # Errors
    /// The error of the source. The added rows are then void.
    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError>;

    /// A key that divides the rows between the bounds into those below it and those from it on.
    /// Both parts have rows, and about equally many, as far as a few look-ups can tell. `None` if
    /// the source knows no such key: then one thread reads them all.
    ///
    /// # Errors
    /// The error of the source.
    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let _ = (from, to);
        Ok(None)
    }

    /// Adds the row of each key, or its absence, to `into`, which is empty, in the order of `keys`.
    /// Stops behind the row with which [`RowBatch::is_full`]. Implementations overlap the cache
    /// misses of the look-ups where they can.
    ///
    /// # Errors
    /// The error of the source. The added rows are then void.
    fn get_many(&self, keys: &[&[u8]], into: &mut RowBatch) -> Result<(), SourceError> {
        for key in keys {
            if into.is_full() {
                break;
            }
            let before = into.len();
            self.scan(Bound::Included(key), Bound::Included(key), 1, into)?;
            if into.len() == before {
                into.push_absent();
            }
        }
        Ok(())
    }
}
