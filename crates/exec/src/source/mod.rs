//! Where rows come from: tables in memory and tables in pages, behind one trait.
//!
//! A [`Source`] is a sorted sequence of (key bytes, row bytes) with a [`Schema`]; an index is one, too. A source
//! in memory answers calls; one in pages hands its segments to the executor, which reads their pages
//! itself.

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

use crate::data::Schema;

/// Why a source could not give its rows.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A table or an index.
///
/// Keys and bounds that it is asked for are any bytes, compared as bytes: a part of a key, more than one, or longer than any
/// key can be. Where none of its keys is equal, there is no row.
pub trait Source: Send + Sync {
    /// The columns, and where each is in a row's bytes.
    fn schema(&self) -> &Schema;

    /// About how many rows there are.
    fn rows(&self) -> u64;

    /// The segments that hold all rows, in the order of their keys, if that is where they are. The executor then reads
    /// their pages itself, and never calls [`Source::scan`] or [`Source::get_many`].
    fn segments(&self) -> Option<&[Arc<Segment>]> {
        None
    }

    /// Adds to `into`, which is empty, the first `rows_max` rows, at most, with keys between the bounds, in the order of
    /// their keys; fewer only if there are no more, or if [`RowBatch::is_full`]. Each row is read atomically, the range is
    /// not.
    ///
    /// # Errors
    /// Whatever the source says; what was added is then to be left alone.
    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError>;

    /// A key that divides the rows between the bounds in two: those below it, and those from it on. There are rows on both sides, about
    /// as many as far as the source can tell at the price of a few look-ups. Nothing if it knows no such key: then one
    /// thread goes through them all.
    ///
    /// # Errors
    /// Whatever the source says.
    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let _ = (from, to);
        Ok(None)
    }

    /// Adds to `into`, which is empty, for each key its row, or that there is none, in the order of `keys`; for fewer keys,
    /// but one at least, only if [`RowBatch::is_full`]. Implementations overlap the cache misses of the look-ups where
    /// they can.
    ///
    /// # Errors
    /// Whatever the source says; what was added is then to be left alone.
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
