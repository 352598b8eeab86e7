//! Tasks: state machines as plain data.
//!
//! A task is a row so far, the step it is in, and where in that step it stopped. A step is a
//! number: 0 for the pipeline's driver, otherwise one more than the step's index in the pipeline.
//!
//! Paper: oode §1, §2

use namiki_platform::disk::Frame;
use namiki_segment::{Cursor, LongReader, LongValue, PageNo};

use crate::bind::KeyBounds;
use crate::source::RowBatch;

/// Number of a task in its thread.
pub(crate) type TaskId = u32;

/// No task.
pub(crate) const NONE: TaskId = u32::MAX;

/// A page: the number of its segment in the query, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageKey {
    pub(crate) segment: u32,
    pub(crate) page: PageNo,
}

/// The position of a task in its step.
#[derive(Default)]
pub(crate) enum State {
    /// Not begun.
    #[default]
    Start,
    /// Looks a key up, in this leaf.
    Leaf(PageKey),
    /// Reads the rows behind a key prefix.
    Walk(Walk),
    /// Requests the extents of a range of pages.
    Range(PageRange),
    /// Reads the rows of an extent.
    Extent(Box<Extent>),
    /// Reads rows of a source in memory.
    Batch(Box<BatchWalk>),
    /// Reads a chain of a hash table.
    Chain { hash: u64, at: u32 },
    /// Reads materialized rows, or combinations of values, by their numbers.
    Materialized { next: usize, end: usize },
    /// Reads a long value.
    Long(Box<LongRead>),
}

impl State {
    /// Reads the long value of a key's row, and then continues as `then`.
    pub(crate) fn long(segment: u32, key: &[u8], value: LongValue, then: Option<Self>) -> Self {
        Self::Long(Box::new(LongRead {
            segment,
            key: key.to_vec(),
            reader: LongReader::new(value),
            bytes: Vec::new(),
            then,
        }))
    }
}

/// Position among the rows behind a key prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// Index among the source's segments.
    pub(crate) part: usize,
    /// Position in the segment; nothing before its first row was looked for.
    pub(crate) cursor: Option<Cursor>,
}

/// Pages of a segment that were not requested yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRange {
    /// Index among the source's segments.
    pub(crate) part: usize,
    pub(crate) next: u32,
    pub(crate) end: u32,
}

/// Consecutive pages, and the position of the next row in them.
pub(crate) struct Extent {
    /// Index among the source's segments.
    pub(crate) part: usize,
    pub(crate) first: PageNo,
    pub(crate) pages: usize,
    /// The pages, once they have arrived; empty if they are in the cache.
    pub(crate) frames: Vec<Frame>,
    /// Number of these with a checksum that was verified.
    pub(crate) frames_checked: usize,
    /// Index of the page of the next row.
    pub(crate) at_page: usize,
    /// Index of the next row in its page.
    pub(crate) at_row: usize,
}

/// Position in a source in memory, which is read in batches.
#[derive(Default)]
pub(crate) struct BatchWalk {
    pub(crate) rows: RowBatch,
    pub(crate) at: usize,
    /// The last key of the previous batch.
    pub(crate) behind: Option<Vec<u8>>,
    /// Whether the batch was shorter than requested: there is no other.
    pub(crate) is_last: bool,
    /// Rows to request next.
    pub(crate) rows_next: usize,
    /// Part of the driver's range; `None` in another step.
    pub(crate) part: Option<KeyBounds>,
}

/// A long value that is being read.
pub(crate) struct LongRead {
    pub(crate) segment: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) reader: LongReader,
    pub(crate) bytes: Vec<u8>,
    /// State after it; `None` if this was the only row.
    pub(crate) then: Option<State>,
}

/// Outcome of running a task.
pub(crate) enum Step {
    /// The task has ended.
    Done,
    /// The task needs this page.
    Wait(PageKey),
    /// The task can run again once there is room.
    Again,
    /// The task can run again once there is room for an extent.
    BlockOnExtent,
    /// The pipeline needs no more rows.
    Stop,
}
