//! Scans and look-ups of sources in memory.
//!
//! A range is divided between the threads, like a range of pages: at first into one part for each
//! thread, and later, when a thread has no work, the part that another one has not requested yet.
//! The source says where to divide it ([`Source::middle_key`]).

use std::ops::Bound;

use namiki_data::after_prefix;

use super::column_decoding::{decode_columns, encode_key, no_row};
use crate::bind::KeyBounds;
use crate::error::ExecError;
use crate::program::{KeyValues, Reach, ReadStep};
use crate::row::Row;
use crate::run::hand_over::DIVIDED_ROWS_MIN;
use crate::run::tasks::{BatchWalk, State, Step};
use crate::run::worker::{Flow, Worker};
use crate::source::{RowBatch, Source, SourceError};

/// Rows of a request: few at first, because many look-ups find few.
const BATCH_FIRST: usize = 8;
const BATCH_MAX: usize = 256;

/// Divides a range into up to `parts_max` parts, or fewer if the source knows no more.
fn divided(
    source: &dyn Source,
    bounds: &KeyBounds,
    parts_max: usize,
) -> Result<Vec<KeyBounds>, SourceError> {
    let mut parts = vec![bounds.clone()];
    let mut before = 0;
    while before < parts.len() && parts.len() < parts_max {
        before = parts.len();
        for mut part in std::mem::take(&mut parts) {
            let later = split_off(&mut part, None, source)?;
            parts.push(part);
            parts.extend(later);
        }
    }
    Ok(parts)
}

/// Splits the later part off a range, or off its part behind a key.
fn split_off(
    part: &mut KeyBounds,
    behind: Option<&[u8]>,
    source: &dyn Source,
) -> Result<Option<KeyBounds>, SourceError> {
    let (lower, upper) = part.as_slices();
    let Some(middle) = source.middle_key(behind.map_or(lower, Bound::Excluded), upper)? else {
        return Ok(None);
    };
    let upper = std::mem::replace(&mut part.upper, Bound::Excluded(middle.clone()));
    Ok(Some(KeyBounds {
        lower: Bound::Included(middle),
        upper,
    }))
}

impl BatchWalk {
    /// Walks through a part of a driver's range.
    fn of(part: KeyBounds) -> Self {
        Self {
            part: Some(part),
            ..Self::default()
        }
    }

    /// Splits off the later part of what was not requested yet, for another thread.
    pub(crate) fn split_off(&mut self, source: &dyn Source) -> Result<Option<Self>, SourceError> {
        let Some(part) = self.part.as_mut().filter(|_| !self.is_last) else {
            return Ok(None);
        };
        let later = split_off(part, self.behind.as_deref(), source)?;
        Ok(later.map(Self::of))
    }
}

impl Worker<'_> {
    /// The first tasks of this thread: its parts of a range.
    pub(crate) fn first_resident_parts(
        &self,
        step: &ReadStep,
        bounds: &KeyBounds,
    ) -> Result<Vec<State>, ExecError> {
        let shared = self.shared;
        let entry = &shared.program.sources[step.source];
        let parts = shared.pipelines[self.pipeline_number].resident_parts(|| {
            let is_short = entry.source.rows() < DIVIDED_ROWS_MIN as u64;
            let parts_max = if is_short { 1 } else { shared.peers.count() };
            let parts = divided(&*entry.source, bounds, parts_max);
            parts.map_err(|error| ExecError::source(&entry.name, error))
        })?;
        let first = |thread: usize| parts.len() * thread / shared.peers.count();
        let own = &parts[first(self.number)..first(self.number + 1)];
        let walks = own.iter().cloned().map(BatchWalk::of);
        Ok(walks.map(|walk| State::Batch(Box::new(walk))).collect())
    }

    /// Continues in a step that reads rows of a source in memory.
    pub(crate) fn resident_rows(
        &mut self,
        position: usize,
        step: &ReadStep,
        reach: &Reach,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let mut prefix = self.buffers.take_key();
        let result = match reach {
            Reach::Key(values) => self.resident_row(position, step, values, row, &mut prefix),
            Reach::Range(bounds) => {
                let part = match state {
                    State::Batch(walk) => walk.part.take(),
                    _ => None,
                };
                let own = part.as_ref().unwrap_or(bounds);
                let result = self.resident_range(position, step, own.as_slices(), state, row);
                if let State::Batch(walk) = state {
                    walk.part = part;
                }
                result
            }
            Reach::Prefix(values) => {
                let schema = self.shared.program.sources[step.source].source.schema();
                if encode_key(schema, values, row, &mut prefix).is_none() {
                    Ok(Step::Done)
                } else {
                    let end = after_prefix(&prefix);
                    let bounds = (
                        Bound::Included(prefix.as_slice()),
                        end.as_ref().map(Vec::as_slice),
                    );
                    self.resident_range(position, step, bounds, state, row)
                }
            }
        };
        self.buffers.return_key(prefix);
        result
    }

    /// The row of a key.
    fn resident_row(
        &mut self,
        position: usize,
        step: &ReadStep,
        values: &KeyValues,
        row: &mut Row,
        key: &mut Vec<u8>,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        if encode_key(schema, values, row, key).is_none() {
            return Ok(Step::Done);
        }
        let (batch, text) = self.buffers.batch_and_text();
        batch.clear();
        let found = entry.source.get_many(&[key.as_slice()], batch);
        found.map_err(|error| ExecError::source(&entry.name, error))?;
        let heap_before = row.heap.len();
        let Some((own, bytes)) = batch.get(0) else {
            no_row(values, &entry.name, key)?;
            return Ok(Step::Done);
        };
        let kept = decode_columns(step, schema, &entry.name, own, bytes, row, text)?;
        let flow = if kept {
            self.flow(position, row)?
        } else {
            Flow::Go
        };
        row.heap.truncate(heap_before);
        Ok(if flow == Flow::Stop {
            Step::Stop
        } else {
            Step::Done
        })
    }

    /// The rows with keys in a range, a batch at a time.
    fn resident_range(
        &mut self,
        position: usize,
        step: &ReadStep,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        if !matches!(state, State::Batch(_)) {
            *state = State::Batch(self.buffers.take_walk());
        }
        let State::Batch(walk) = state else {
            return Ok(Step::Done);
        };
        let heap_before = row.heap.len();
        loop {
            if walk.at == walk.rows.len() {
                if walk.is_last {
                    break;
                }
                let begin = match &walk.behind {
                    None => from,
                    Some(behind) => Bound::Excluded(behind.as_slice()),
                };
                let wanted = walk.rows_next.max(BATCH_FIRST);
                walk.rows.clear();
                let scanned = entry.source.scan(begin, to, wanted, &mut walk.rows);
                scanned.map_err(|error| ExecError::source(&entry.name, error))?;
                walk.at = 0;
                walk.is_last = walk.rows.len() < wanted && !walk.rows.is_full();
                walk.rows_next = (wanted * 4).min(BATCH_MAX);
                if !walk.is_last {
                    remember_last(&walk.rows, &mut walk.behind);
                }
                continue;
            }
            let Some((key, bytes)) = walk.rows.get(walk.at) else {
                walk.at += 1;
                continue;
            };
            let scratch = self.buffers.text();
            let kept = decode_columns(step, schema, &entry.name, key, bytes, row, scratch)?;
            walk.at += 1;
            if !kept {
                row.heap.truncate(heap_before);
                if self.reject_row() {
                    return Ok(Step::Again);
                }
                continue;
            }
            let flow = self.flow(position, row)?;
            row.heap.truncate(heap_before);
            match flow {
                Flow::Go => {}
                Flow::Full => return Ok(Step::Again),
                Flow::Stop => return Ok(Step::Stop),
            }
        }
        if let State::Batch(walk) = std::mem::take(state) {
            self.buffers.return_walk(walk);
        }
        Ok(Step::Done)
    }
}

/// Keeps the key of the last row.
fn remember_last(rows: &RowBatch, behind: &mut Option<Vec<u8>>) {
    let last = (0..rows.len()).rev().find_map(|at| rows.get(at));
    if let Some((key, _)) = last {
        let behind = behind.get_or_insert_default();
        behind.clear();
        behind.extend_from_slice(key);
    }
}
