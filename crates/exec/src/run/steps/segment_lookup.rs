//! Rows in pages: the one with a key, and those behind a prefix.

use namiki_segment::{Cursor, Found, Leaf, LongReader, Pages, Value};

use super::column_decoding::{decode_columns, encode_key, no_row};
use crate::error::ExecError;
use crate::program::{KeyValues, Reach, ReadStep};
use crate::row::Row;
use crate::run::shared::Storage;
use crate::run::tasks::{LongRead, PageKey, State, Step, Walk};
use crate::run::worker::{Flow, Worker};

impl Worker<'_> {
    /// Goes on in a step that reads rows.
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
                let mut bytes = self.take_buffer();
                let result =
                    self.rows_behind(position, step, parts, values, state, row, &mut bytes);
                self.return_buffer(bytes);
                result
            }
            (Storage::Paged(parts), Reach::Range(bounds)) => {
                self.rows_in_range(position, step, parts, bounds, state, row)
            }
            (Storage::Resident, reach) => self.resident_rows(position, step, reach, state, row),
        }
    }

    /// Which of a source's segments has a key, if any has.
    #[inline]
    fn part_of(&self, parts: &[u32], key: &[u8]) -> usize {
        if parts.len() <= 1 {
            return 0;
        }
        let first_key = |part: &u32| self.shared.segments[*part as usize].0.first_key();
        parts
            .partition_point(|part| first_key(part) <= key)
            .saturating_sub(1)
    }

    /// The row of a key: one page.
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
        let mut key = self.take_buffer();
        if encode_key(schema, values, row, &mut key).is_none() || parts.is_empty() {
            let absent = no_row(values, &entry.name, &key);
            self.return_buffer(key);
            return absent.map(|()| Step::Done);
        }
        let number = parts[self.part_of(parts, &key)];
        let segment = &*shared.segments[number as usize].0;
        // A task that waited knows its leaf.
        let leaf = match *state {
            State::Leaf(leaf) => Some(leaf.page),
            _ => segment.leaf_of(&key),
        };
        let Some(leaf) = leaf else {
            let absent = no_row(values, &entry.name, &key);
            self.return_buffer(key);
            return absent.map(|()| Step::Done);
        };
        let Some(page) = self.reader.page(segment, leaf) else {
            self.return_buffer(key);
            let wanted = PageKey {
                segment: number,
                page: leaf,
            };
            *state = State::Leaf(wanted);
            return Ok(Step::Wait(wanted));
        };
        let leaf = Leaf::of(page);
        let (at, is_equal) = leaf.lower_bound(&key);
        if !is_equal {
            let absent = no_row(values, &entry.name, &key);
            self.return_buffer(key);
            return absent.map(|()| Step::Done);
        }
        let mut long = None;
        let mut kept = false;
        match leaf.row(at).value {
            Value::Inline(bytes) => {
                let scratch = &mut self.scratch;
                kept = decode_columns(step, schema, &entry.name, &key, bytes, row, scratch)?;
            }
            Value::Long(value) => long = Some(value),
        }
        if let Some(value) = long {
            *state = State::Long(Box::new(LongRead {
                segment: number,
                key: key.clone(),
                reader: LongReader::new(value),
                bytes: Vec::new(),
                then: None,
            }));
            self.return_buffer(key);
            let step = self.long_value(position, step, state, row)?;
            return Ok(step.unwrap_or(Step::Done));
        }
        self.return_buffer(key);
        if kept && self.flow(position, row)? == Flow::Stop {
            return Ok(Step::Stop);
        }
        Ok(Step::Done)
    }

    /// The rows with keys that begin with a prefix.
    #[expect(
        clippy::too_many_arguments,
        reason = "a step, a state, and what they are about"
    )]
    fn rows_behind(
        &mut self,
        position: usize,
        step: &ReadStep,
        parts: &[u32],
        values: &KeyValues,
        state: &mut State,
        row: &mut Row,
        prefix: &mut Vec<u8>,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        if encode_key(schema, values, row, prefix).is_none() || parts.is_empty() {
            return Ok(Step::Done);
        }
        let mut walk = match *state {
            State::Walk(walk) => walk,
            _ => Walk {
                part: self.part_of(parts, prefix),
                cursor: None,
            },
        };
        let heap_before = row.heap.len();
        let mut key = self.take_buffer();
        let result = loop {
            let number = parts[walk.part];
            let segment = &*shared.segments[number as usize].0;
            let mut cursor = match walk.cursor {
                Some(cursor) => cursor,
                None => {
                    let mut cursor = Cursor::default();
                    match segment.position(&self.reader, prefix, &mut cursor) {
                        Found::Is(_) => cursor,
                        Found::Fault(page) => {
                            *state = State::Walk(walk);
                            let segment = number;
                            break Step::Wait(PageKey { segment, page });
                        }
                    }
                }
            };
            walk.cursor = Some(cursor);
            let found = match segment.next(&self.reader, &mut cursor) {
                Found::Is(found) => found,
                Found::Fault(page) => {
                    *state = State::Walk(walk);
                    let segment = number;
                    break Step::Wait(PageKey { segment, page });
                }
            };
            let Some(found) = found else {
                // The next segment may go on.
                walk = Walk {
                    part: walk.part + 1,
                    cursor: None,
                };
                if walk.part == parts.len() {
                    break Step::Done;
                }
                continue;
            };
            key.clear();
            found.key.append_to(&mut key);
            if !key.starts_with(prefix) {
                break Step::Done;
            }
            walk.cursor = Some(cursor);
            let bytes = match found.value {
                Value::Inline(bytes) => bytes,
                Value::Long(value) => {
                    *state = State::Long(Box::new(LongRead {
                        segment: number,
                        key: key.clone(),
                        reader: LongReader::new(value),
                        bytes: Vec::new(),
                        then: Some(State::Walk(walk)),
                    }));
                    break Step::Again;
                }
            };
            let scratch = &mut self.scratch;
            if !decode_columns(step, schema, &entry.name, &key, bytes, row, scratch)? {
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
        self.return_buffer(key);
        Ok(result)
    }
}
