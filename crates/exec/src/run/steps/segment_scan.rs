//! Scan of a range of keys in pages, in extents: consecutive pages, by one request.
//!
//! The pages of a range are known before any of them is read. So a driver does not walk from leaf
//! to leaf: it requests several extents, which are in flight while the rows of others go through
//! the plan. Devices read long extents fastest. Short ranges have short extents, so that every
//! thread gets some.

use std::ops::{Bound, Range, RangeBounds};

use namiki_segment::{Leaf, LongValue, PageNo, PageRef, Pages, Segment, Value};

use super::column_decoding::decode_columns;
use crate::bind::KeyBounds;
use crate::error::ExecError;
use crate::program::{Driver, Reach, ReadStep, SourceEntry};
use crate::row::Row;
use crate::run::shared::Storage;
use crate::run::tasks::{Extent, PageKey, PageRange, State, Step};
use crate::run::worker::{Flow, Worker};

/// A range that needs at most this part of the cache goes through it.
const CACHE_SHARE: usize = 4;

/// The pages of a range of keys. Reads nothing.
fn pages_of(segment: &Segment, bounds: &KeyBounds) -> Range<u32> {
    let (lower, upper) = bounds.as_slices();
    segment.key_range_pages(lower, upper)
}

/// The rows of a range in one segment.
struct RangeReader<'a> {
    step: &'a ReadStep,
    entry: &'a SourceEntry,
    segment: &'a Segment,
    /// Number of the segment in the query.
    number: u32,
    bounds: &'a KeyBounds,
}

/// The outcome of scanning the rows of a leaf, or of an extent.
enum RowsEnd {
    /// There is no other row.
    Through,
    /// The task stops behind the last row that was read.
    Stopped(Step),
    /// The next row has a long value.
    Long(LongValue),
}

impl Worker<'_> {
    /// The first tasks of this thread: its part of a range.
    pub(crate) fn first_ranges(&self, step: &ReadStep) -> Result<Vec<State>, ExecError> {
        let bounds = match &step.reach {
            Reach::Range(bounds) => bounds,
            Reach::Key(_) | Reach::Prefix(_) => return Ok(Vec::new()),
        };
        let parts = match &self.shared.storage[step.source] {
            Storage::Resident => return self.first_resident_parts(step, bounds),
            Storage::Paged(parts) => parts,
        };
        let pages = |number: &u32| pages_of(&self.shared.segments[*number as usize].0, bounds);
        let ranges: Vec<Range<u32>> = parts.iter().map(pages).collect();
        let total: usize = ranges.iter().map(Range::len).sum();
        let threads = self.shared.peers.count();
        let from = total * self.number / threads;
        let to = total * (self.number + 1) / threads;
        let mut before = 0;
        let mut states = Vec::new();
        for (part, range) in ranges.into_iter().enumerate() {
            let length = range.len();
            let next = range.start + from.saturating_sub(before).min(length) as u32;
            let end = range.start + to.saturating_sub(before).min(length) as u32;
            if next < end {
                states.push(State::Range(PageRange { part, next, end }));
            }
            before += length;
        }
        Ok(states)
    }

    /// Number of pages of the driver's range, in all threads.
    fn driver_pages(&self) -> usize {
        let Driver::Read(step) = &self.pipeline.driver else {
            return 0;
        };
        let (Storage::Paged(parts), Reach::Range(bounds)) =
            (&self.shared.storage[step.source], &step.reach)
        else {
            return 0;
        };
        let pages =
            |number: &u32| pages_of(&self.shared.segments[*number as usize].0, bounds).len();
        parts.iter().map(pages).sum()
    }

    /// Prepares tasks and reads for the extents of a pipeline.
    pub(crate) fn plan_extents(&mut self) {
        let pages = self.driver_pages();
        let shares = self.shared.peers.count() * 8;
        self.tasks.begin(self.pipeline.steps.len(), pages / shares);
        let capacity = self.shared.resources.cache.counters().capacity_pages;
        self.reads.begin(pages <= capacity / CACHE_SHARE);
    }

    /// Continues in a range: requests its extents, and reads the rows of those in the cache.
    pub(crate) fn rows_in_range(
        &mut self,
        position: usize,
        step: &ReadStep,
        parts: &[u32],
        bounds: &KeyBounds,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        loop {
            let range = match state {
                State::Extent(_) => {
                    return self.rows_in_extent(position, step, parts, bounds, state, row);
                }
                State::Range(range) => range,
                _ => return Ok(Step::Done),
            };
            if range.next >= range.end {
                return Ok(Step::Done);
            }
            let pages =
                ((range.end - range.next) as usize).min(self.tasks.schedule().extent_pages());
            if !self.tasks.schedule().has_room_for_extent(pages) {
                return Ok(Step::BlockOnExtent);
            }
            if self.is_full() {
                return Ok(Step::Again);
            }
            let mut extent = State::Extent(Box::new(Extent {
                part: range.part,
                first: PageNo(range.next),
                pages,
                frames: Vec::new(),
                frames_checked: 0,
                at_page: 0,
                at_row: 0,
            }));
            let key = PageKey {
                segment: parts[range.part],
                page: PageNo(range.next),
            };
            range.next += pages as u32;
            if !self.reads.is_extent_cached(key, pages) {
                let id = self.tasks.make(position, extent, row, 0, 0);
                self.reads.request_extent(&mut self.tasks, id, key, pages);
                continue;
            }
            match self.rows_in_extent(position, step, parts, bounds, &mut extent, row)? {
                Step::Done => {}
                Step::Stop | Step::BlockOnExtent => return Ok(Step::Stop),
                Step::Again => {
                    let id = self.tasks.make(position, extent, row, 0, 0);
                    self.tasks.block_on_degree(id);
                    // Below the extent: that one runs first.
                    return Ok(Step::Again);
                }
                Step::Wait(key) => {
                    let id = self.tasks.make(position, extent, row, 0, 0);
                    self.wait_for_page(id, key);
                }
            }
        }
    }

    /// Continues in an extent. Its pages have arrived, or are in the cache.
    fn rows_in_extent(
        &mut self,
        position: usize,
        step: &ReadStep,
        parts: &[u32],
        bounds: &KeyBounds,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let State::Extent(extent) = state else {
            return Ok(Step::Done);
        };
        let number = parts[extent.part];
        let range = RangeReader {
            step,
            entry: &shared.program.sources[step.source],
            segment: &shared.segments[number as usize].0,
            number,
            bounds,
        };
        let mut key = self.buffers.take_key();
        let end = self.rows_of_pages(position, &range, extent, &mut key, row)?;
        row.heap.clear();
        let result = match end {
            RowsEnd::Through => Step::Done,
            RowsEnd::Stopped(step) => step,
            RowsEnd::Long(value) => {
                *state = State::long(number, &key, value, Some(std::mem::take(state)));
                Step::Again
            }
        };
        self.buffers.return_key(key);
        Ok(result)
    }

    /// Reads the rows of the pages of an extent.
    fn rows_of_pages(
        &mut self,
        position: usize,
        range: &RangeReader<'_>,
        extent: &mut Extent,
        key: &mut Vec<u8>,
        row: &mut Row,
    ) -> Result<RowsEnd, ExecError> {
        let segment = range.segment;
        // Only the leaves at the ends of the range have keys outside of it.
        let leaf_of = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => segment.leaf_of(key),
            Bound::Unbounded => None,
        };
        let ends = [leaf_of(&range.bounds.lower), leaf_of(&range.bounds.upper)];
        while extent.at_page < extent.pages {
            let no = PageNo(extent.first.0 + extent.at_page as u32);
            if let Some(frame) = extent.frames.get(extent.at_page)
                && extent.frames_checked == extent.at_page
            {
                let checked = segment.verify_page(no, &frame[..]);
                checked.map_err(|error| ExecError::source(&range.entry.name, error))?;
                extent.frames_checked += 1;
            }
            if segment.is_leaf(no) {
                let is_at_end = ends.contains(&Some(no));
                match self.rows_of_leaf(position, range, (no, is_at_end), extent, key, row)? {
                    RowsEnd::Through => {}
                    stopped => return Ok(stopped),
                }
            }
            extent.at_page += 1;
            extent.at_row = 0;
        }
        Ok(RowsEnd::Through)
    }

    /// Reads the rows of a leaf. `is_at_end`: some may lie outside of the range.
    fn rows_of_leaf(
        &mut self,
        position: usize,
        range: &RangeReader<'_>,
        (no, is_at_end): (PageNo, bool),
        extent: &mut Extent,
        key: &mut Vec<u8>,
        row: &mut Row,
    ) -> Result<RowsEnd, ExecError> {
        let RangeReader { step, entry, .. } = *range;
        let schema = entry.source.schema();
        loop {
            let page = match extent.frames.get(extent.at_page) {
                Some(frame) => PageRef::of_verified(frame),
                None => match self.reads.cached().page(range.segment, no) {
                    Some(page) => page,
                    None => {
                        let segment = range.number;
                        let page = PageKey { segment, page: no };
                        return Ok(RowsEnd::Stopped(Step::Wait(page)));
                    }
                },
            };
            let leaf = Leaf::of(page);
            if extent.at_row >= leaf.len() {
                return Ok(RowsEnd::Through);
            }
            let found = leaf.row(extent.at_row);
            extent.at_row += 1;
            if is_at_end || step.loads_key {
                key.clear();
                found.key.append_to(key);
            }
            if is_at_end && !range.bounds.as_slices().contains(key.as_slice()) {
                continue;
            }
            let bytes = match found.value {
                Value::Inline(bytes) => bytes,
                Value::Long(value) => {
                    key.clear();
                    found.key.append_to(key);
                    return Ok(RowsEnd::Long(value));
                }
            };
            row.heap.clear();
            let text = self.buffers.text();
            if !decode_columns(step, schema, &entry.name, key, bytes, row, text)? {
                if self.reject_row() {
                    return Ok(RowsEnd::Stopped(Step::Again));
                }
                continue;
            }
            match self.flow(position, row)? {
                Flow::Go => {}
                Flow::Full => return Ok(RowsEnd::Stopped(Step::Again)),
                Flow::Stop => return Ok(RowsEnd::Stopped(Step::Stop)),
            }
        }
    }
}
