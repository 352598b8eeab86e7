//! A range of keys in pages, read in extents: pages side by side, by one request.
//!
//! The pages of a range are known before any of them is read. So a driver does not walk from leaf to leaf: it gives
//! out extents, several of which are on their way while the rows of others go through the plan. Long extents are what
//! a device reads fastest; short ranges have short extents, so that every thread gets some.

use std::ops::{Bound, Range, RangeBounds};

use namiki_segment::{Leaf, LongReader, PageNo, PageRef, Pages, Segment, Value};

use super::column_decoding::decode_columns;
use crate::bind::KeyBounds;
use crate::error::ExecError;
use crate::program::{Driver, Reach, ReadStep};
use crate::row::Row;
use crate::run::shared::Storage;
use crate::run::tasks::{Extent, LongRead, PageKey, PageRange, State, Step};
use crate::run::worker::{Flow, Worker};

/// A range that takes at most this part of the cache goes through it.
const CACHE_SHARE: usize = 4;

/// The pages of a range of keys, without the reads of them.
fn pages_of(segment: &Segment, bounds: &KeyBounds) -> Range<u32> {
    let (lower, upper) = bounds.as_slices();
    segment.key_range_pages(lower, upper)
}

impl Worker<'_> {
    /// What this thread begins with: its part of a range.
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
        let from = total * self.number / self.shared.threads;
        let to = total * (self.number + 1) / self.shared.threads;
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

    /// How many pages the driver's range has, in all threads.
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

    /// Prepares for the steps and the driver of a pipeline.
    pub(crate) fn plan_extents(&mut self) {
        let pages = self.driver_pages();
        let shares = self.shared.threads * 8;
        self.schedule
            .begin(self.pipeline.steps.len(), pages / shares);
        let capacity = self.shared.resources.cache.counters().capacity_pages;
        self.extents_cached = pages <= capacity / CACHE_SHARE;
    }

    /// Goes on in a range.
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
            let pages = ((range.end - range.next) as usize).min(self.schedule.extent_pages());
            if !self.schedule.has_room_for_extent(pages) {
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
            if !self.is_resident(key, pages) {
                let id = self.new_task(position, extent, row, 0, 0);
                let read = self.pending.add_extent(id, key, pages as u32);
                self.to_read.push(read);
                self.schedule.wait_for_extent(pages);
                self.count_waiting();
                continue;
            }
            match self.rows_in_extent(position, step, parts, bounds, &mut extent, row)? {
                Step::Done => {}
                Step::Stop | Step::BlockOnExtent => return Ok(Step::Stop),
                Step::Again => {
                    let id = self.new_task(position, extent, row, 0, 0);
                    self.schedule.block_on_degree(position, id);
                    // Below the extent: that one goes on first.
                    return Ok(Step::Again);
                }
                Step::Wait(key) => {
                    let id = self.new_task(position, extent, row, 0, 0);
                    self.wait_for(id, key);
                }
            }
        }
    }

    /// Whether all pages of an extent are in the cache.
    fn is_resident(&self, first: PageKey, pages: usize) -> bool {
        let segment = &self.shared.segments[first.segment as usize].0;
        let mut numbers = (first.page.0..).take(pages);
        self.extents_cached && numbers.all(|no| self.reader.page(segment, PageNo(no)).is_some())
    }

    /// Goes on in an extent; its pages have arrived, or are in the cache.
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
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        let State::Extent(extent) = state else {
            return Ok(Step::Done);
        };
        let number = parts[extent.part];
        let segment = &*shared.segments[number as usize].0;
        // Only the leaves at the ends of the range have keys outside of it.
        let leaf_of = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => segment.leaf_of(key),
            Bound::Unbounded => None,
        };
        let (lower_leaf, upper_leaf) = (leaf_of(&bounds.lower), leaf_of(&bounds.upper));
        let mut key = self.take_buffer();
        let mut result = Step::Done;
        let mut long = None;
        'pages: while extent.at_page < extent.pages {
            let no = PageNo(extent.first.0 + extent.at_page as u32);
            if let Some(frame) = extent.frames.get(extent.at_page)
                && extent.frames_checked == extent.at_page
            {
                let checked = segment.verify_page(no, &frame[..]);
                checked.map_err(|error| ExecError::source(&entry.name, error))?;
                extent.frames_checked += 1;
            }
            if !segment.is_leaf(no) {
                extent.at_page += 1;
                continue;
            }
            let at_ends = Some(no) == lower_leaf || Some(no) == upper_leaf;
            loop {
                let page = match extent.frames.get(extent.at_page) {
                    Some(frame) => PageRef::of_verified(frame),
                    None => match self.reader.page(segment, no) {
                        Some(page) => page,
                        None => {
                            result = Step::Wait(PageKey {
                                segment: number,
                                page: no,
                            });
                            break 'pages;
                        }
                    },
                };
                let leaf = Leaf::of(page);
                if extent.at_row >= leaf.len() {
                    break;
                }
                let found = leaf.row(extent.at_row);
                extent.at_row += 1;
                if at_ends || step.loads_key {
                    key.clear();
                    found.key.append_to(&mut key);
                }
                if at_ends && !bounds.as_slices().contains(key.as_slice()) {
                    continue;
                }
                let bytes = match found.value {
                    Value::Inline(bytes) => bytes,
                    Value::Long(value) => {
                        key.clear();
                        found.key.append_to(&mut key);
                        long = Some(value);
                        break 'pages;
                    }
                };
                row.heap.clear();
                let scratch = &mut self.scratch;
                if !decode_columns(step, schema, &entry.name, &key, bytes, row, scratch)? {
                    if self.reject_row() {
                        result = Step::Again;
                        break 'pages;
                    }
                    continue;
                }
                match self.flow(position, row)? {
                    Flow::Go => {}
                    Flow::Full => {
                        result = Step::Again;
                        break 'pages;
                    }
                    Flow::Stop => {
                        result = Step::Stop;
                        break 'pages;
                    }
                }
            }
            extent.at_page += 1;
            extent.at_row = 0;
        }
        row.heap.clear();
        if let Some(value) = long {
            let read = LongRead {
                segment: number,
                key: key.clone(),
                reader: LongReader::new(value),
                bytes: Vec::new(),
                then: Some(std::mem::take(state)),
            };
            *state = State::Long(Box::new(read));
            result = Step::Again;
        }
        self.return_buffer(key);
        Ok(result)
    }
}
