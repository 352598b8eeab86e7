//! Look-ups in memory, gathered: rows that need a row of a source in memory wait for others that need one, too, and are
//! looked up together.
//!
//! A look-up in a tree of many millions of rows misses the processor's cache several times. A source that is asked for many
//! keys at a time overlaps these misses ([`Source::get_many`](crate::source::Source::get_many)), as the executor overlaps
//! reads of a device: out of order for memory. A gathered row is no task: it costs its words and its key.
//!
//! Rows go on from the gathering in the order in which they came. With one task in flight nothing is gathered.

use super::loading::{encode_key, load};
use super::worker::{Flow, Worker};
use crate::error::ExecError;
use crate::program::ReadStep;
use crate::row::{Row, Slot};
use crate::source::RowBatch;

/// Rows that are looked up together: more than a processor has misses under way at a time.
const GATHERED_MAX: usize = 64;

/// What one step has gathered.
#[derive(Default)]
pub(super) struct Gather {
    /// The rows so far, back to back: their words, their bytes.
    words: Vec<u64>,
    heap: Vec<u8>,
    keys: Vec<u8>,
    /// Of each row where its bytes and its key end.
    ends: Vec<(usize, usize)>,
    /// What was found, once it was looked up.
    found: RowBatch,
    is_looked_up: bool,
    /// The next row to go on.
    next: usize,
}

impl Gather {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.heap.clear();
        self.keys.clear();
        self.ends.clear();
        self.found.clear();
        self.is_looked_up = false;
        self.next = 0;
    }

    fn key(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        &self.keys[from..self.ends[at].1]
    }

    /// Makes `row` what it was when it was gathered.
    fn copy_to(&self, at: usize, words: usize, row: &mut Row) {
        row.words[..words].copy_from_slice(&self.words[at * words..(at + 1) * words]);
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        row.heap.clear();
        row.heap
            .extend_from_slice(&self.heap[from..self.ends[at].0]);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl Worker<'_> {
    /// Gathers a row for a step that looks a key up in memory. Looks all up once there are enough.
    pub(super) fn gather_row(
        &mut self,
        position: usize,
        step: &ReadStep,
        key: &[Slot],
        row: &Row,
    ) -> Result<Flow, ExecError> {
        let schema = self.shared.program.sources[step.source].source.schema();
        let gather = &mut self.gathers[position];
        let before = gather.keys.len();
        if encode_key(schema, key, row, &mut gather.keys).is_none() {
            gather.keys.truncate(before);
            return Ok(self.after_row());
        }
        gather
            .words
            .extend_from_slice(&row.words[..step.words_before]);
        gather.heap.extend_from_slice(&row.heap);
        gather.ends.push((gather.heap.len(), gather.keys.len()));
        if gather.ends.len() < GATHERED_MAX {
            return Ok(self.after_row());
        }
        self.look_up_gathered(position)
    }

    /// Looks up what a step has gathered, and lets the rows go on until there is no room.
    fn look_up_gathered(&mut self, position: usize) -> Result<Flow, ExecError> {
        let shared = self.shared;
        let pipeline = self.pipeline;
        let Some(crate::program::Step::Read(step)) = pipeline.steps.get(position - 1) else {
            return Ok(Flow::Go);
        };
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        // Rows that go on can come to later steps alone, so that this one's are not touched meanwhile.
        let mut gather = std::mem::take(&mut self.gathers[position]);
        if !gather.is_looked_up {
            let mut found = std::mem::take(&mut gather.found);
            found.clear();
            let keys: Vec<&[u8]> = (0..gather.ends.len()).map(|at| gather.key(at)).collect();
            let looked_up = entry.source.get_many(&keys, &mut found);
            looked_up.map_err(|error| ExecError::source(&entry.name, error))?;
            gather.found = found;
            gather.is_looked_up = true;
        }
        let mut row = std::mem::take(&mut self.gathered_row);
        row.words.resize(pipeline.words, 0);
        let mut flow = Flow::Go;
        while gather.next < gather.ends.len() {
            let at = gather.next;
            gather.next += 1;
            let Some((key, bytes)) = gather.found.get(at) else {
                continue;
            };
            gather.copy_to(at, step.words_before, &mut row);
            let scratch = &mut self.scratch;
            if !load(step, schema, &entry.name, key, bytes, &mut row, scratch)? {
                continue;
            }
            flow = self.flow(position, &mut row)?;
            if flow != Flow::Go {
                break;
            }
        }
        self.gathered_row = row;
        if gather.next == gather.ends.len() {
            gather.clear();
        }
        self.gathers[position] = gather;
        Ok(flow)
    }

    /// Whether a step has rows that were gathered, looked up or not.
    pub(super) fn has_gathered(&self) -> bool {
        self.gathers.iter().any(|gather| !gather.is_empty())
    }

    /// Looks up what was gathered, the deepest step first, while there is room: nothing else can go on now.
    pub(super) fn look_up_all_gathered(&mut self) -> Result<Flow, ExecError> {
        for position in (0..self.gathers.len()).rev() {
            if !self.gathers[position].is_empty() {
                let flow = self.look_up_gathered(position)?;
                if flow != Flow::Go {
                    return Ok(flow);
                }
            }
        }
        Ok(Flow::Go)
    }

    /// Whether rows are gathered at a step that is full: it is to be emptied before more come.
    pub(super) fn is_gather_full(&self, position: usize) -> bool {
        let gather = &self.gathers[position];
        gather.is_looked_up && !gather.is_empty()
    }
}
