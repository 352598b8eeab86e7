//! Look-ups in pages: the row with a key, and the rows behind a key prefix.

use std::sync::Arc;

use namiki_segment::{Cursor, Found, Leaf, PageNo, Pages, Segment, Value};

use super::column_decoding::{decode_columns, encode_key, no_row};
use crate::error::ExecError;
use crate::program::{KeyValues, Reach, ReadStep};
use crate::row::Row;
use crate::run::shared::Storage;
use crate::run::tasks::{PageKey, State, Step, Walk};
use crate::run::worker::{Flow, Worker};

/// The segments of a query, with the names of their tables.
type Segments = [(Arc<Segment>, String)];

/// Result of looking for a row.
enum Located<'p> {
    /// The row's value, and the number of its segment.
    Row(u32, Value<'p>),
    /// There is no (other) row.
    Nothing,
    /// This page is needed first.
    Fault(PageKey),
}

/// Index of the segment that has a key, if any has, among the `parts` of a source.
#[inline]
fn part_of(segments: &Segments, parts: &[u32], key: &[u8]) -> usize {
    if parts.len() <= 1 {
        return 0;
    }
    let first_key = |part: &u32| segments[*part as usize].0.first_key();
    parts
        .partition_point(|part| first_key(part) <= key)
        .saturating_sub(1)
}

/// Looks for the row of a key: one page. A task that waited knows its leaf.
#[inline]
fn locate_key<'p>(
    segments: &Segments,
    pages: &'p impl Pages,
    parts: &[u32],
    key: &[u8],
    known_leaf: Option<PageNo>,
) -> Located<'p> {
    let number = parts[part_of(segments, parts, key)];
    let segment = &*segments[number as usize].0;
    let Some(leaf) = known_leaf.or_else(|| segment.leaf_of(key)) else {
        return Located::Nothing;
    };
    let Some(page) = pages.page(segment, leaf) else {
        return Located::Fault(PageKey {
            segment: number,
            page: leaf,
        });
    };
    let leaf = Leaf::of(page);
    let (at, is_equal) = leaf.lower_bound(key);
    if is_equal {
        Located::Row(number, leaf.row(at).value)
    } else {
        Located::Nothing
    }
}

/// Looks for the next row behind a key prefix, and puts its key into `key`.
#[inline]
fn locate_next<'p>(
    segments: &Segments,
    pages: &'p impl Pages,
    parts: &[u32],
    prefix: &[u8],
    walk: &mut Walk,
    key: &mut Vec<u8>,
) -> Located<'p> {
    loop {
        let number = parts[walk.part];
        let segment = &*segments[number as usize].0;
        let fault = |page| {
            Located::Fault(PageKey {
                segment: number,
                page,
            })
        };
        let mut cursor = match walk.cursor {
            Some(cursor) => cursor,
            None => {
                let mut cursor = Cursor::default();
                match segment.position(pages, prefix, &mut cursor) {
                    Found::Is(_) => cursor,
                    Found::Fault(page) => return fault(page),
                }
            }
        };
        walk.cursor = Some(cursor);
        match segment.next(pages, &mut cursor) {
            Found::Fault(page) => return fault(page),
            Found::Is(Some(found)) => {
                key.clear();
                found.key.append_to(key);
                if !key.starts_with(prefix) {
                    return Located::Nothing;
                }
                walk.cursor = Some(cursor);
                return Located::Row(number, found.value);
            }
            // The next segment may have more.
            Found::Is(None) => {
                walk.part += 1;
                walk.cursor = None;
                if walk.part == parts.len() {
                    return Located::Nothing;
                }
            }
        }
    }
}

impl Worker<'_> {
    /// Continues in a step that reads rows.
    pub(crate) fn read(
        &mut self,
        position: usize,
        step: &ReadStep,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        if let State::Long(_) = state
            && let Some(step) = self.long_value(position, step, state, row)?
        {
            return Ok(step);
        }
        let shared = self.shared;
        match (&shared.storage[step.source], &step.reach) {
            (Storage::Paged(parts), Reach::Key(values)) => {
                self.row_of_key(position, step, parts, values, state, row)
            }
            (Storage::Paged(parts), Reach::Prefix(values)) => {
                let schema = shared.program.sources[step.source].source.schema();
                let mut prefix = self.buffers.take_key();
                let is_key = encode_key(schema, values, row, &mut prefix).is_some();
                let result = if is_key && !parts.is_empty() {
                    self.rows_behind(position, step, parts, &prefix, state, row)
                } else {
                    Ok(Step::Done)
                };
                self.buffers.return_key(prefix);
                result
            }
            (Storage::Paged(parts), Reach::Range(bounds)) => {
                self.rows_in_range(position, step, parts, bounds, state, row)
            }
            (Storage::Resident, reach) => self.resident_rows(position, step, reach, state, row),
        }
    }

    /// Reads the row of a key.
    fn row_of_key(
        &mut self,
        position: usize,
        step: &ReadStep,
        parts: &[u32],
        values: &KeyValues,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        let mut key = self.buffers.take_key();
        let is_key = encode_key(schema, values, row, &mut key).is_some();
        let located = if is_key && !parts.is_empty() {
            let known_leaf = match *state {
                State::Leaf(leaf) => Some(leaf.page),
                _ => None,
            };
            locate_key(
                &shared.segments,
                self.reads.cached(),
                parts,
                &key,
                known_leaf,
            )
        } else {
            Located::Nothing
        };
        let bytes = match located {
            Located::Row(_, Value::Inline(bytes)) => bytes,
            Located::Row(segment, Value::Long(value)) => {
                *state = State::long(segment, &key, value, None);
                self.buffers.return_key(key);
                let step = self.long_value(position, step, state, row)?;
                return Ok(step.unwrap_or(Step::Done));
            }
            Located::Nothing => {
                let absent = no_row(values, &entry.name, &key);
                self.buffers.return_key(key);
                return absent.map(|()| Step::Done);
            }
            Located::Fault(page) => {
                self.buffers.return_key(key);
                *state = State::Leaf(page);
                return Ok(Step::Wait(page));
            }
        };
        let text = self.buffers.text();
        let is_kept = decode_columns(step, schema, &entry.name, &key, bytes, row, text)?;
        self.buffers.return_key(key);
        if is_kept && self.flow(position, row)? == Flow::Stop {
            return Ok(Step::Stop);
        }
        Ok(Step::Done)
    }

    /// Reads the rows behind a key prefix.
    fn rows_behind(
        &mut self,
        position: usize,
        step: &ReadStep,
        parts: &[u32],
        prefix: &[u8],
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let segments = &shared.segments;
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        let mut walk = match *state {
            State::Walk(walk) => walk,
            _ => Walk {
                part: part_of(segments, parts, prefix),
                cursor: None,
            },
        };
        let heap_before = row.heap.len();
        let mut key = self.buffers.take_key();
        let result = loop {
            let pages = self.reads.cached();
            let located = locate_next(segments, pages, parts, prefix, &mut walk, &mut key);
            let bytes = match located {
                Located::Row(_, Value::Inline(bytes)) => bytes,
                Located::Row(segment, Value::Long(value)) => {
                    *state = State::long(segment, &key, value, Some(State::Walk(walk)));
                    break Step::Again;
                }
                Located::Nothing => break Step::Done,
                Located::Fault(page) => {
                    *state = State::Walk(walk);
                    break Step::Wait(page);
                }
            };
            let text = self.buffers.text();
            if !decode_columns(step, schema, &entry.name, &key, bytes, row, text)? {
                row.heap.truncate(heap_before);
                if self.reject_row() {
                    *state = State::Walk(walk);
                    break Step::Again;
                }
                continue;
            }
            let flow = self.flow(position, row)?;
            row.heap.truncate(heap_before);
            match flow {
                Flow::Go => {}
                Flow::Stop => break Step::Stop,
                Flow::Full => {
                    *state = State::Walk(walk);
                    break Step::Again;
                }
            }
        };
        self.buffers.return_key(key);
        Ok(result)
    }
}
