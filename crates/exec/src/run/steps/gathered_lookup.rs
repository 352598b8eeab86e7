//! Look-ups in memory, gathered: rows that need a row of a source in memory wait for others that need one, too, and are
//! looked up together.
//!
//! A look-up in a tree of many millions of rows misses the processor's cache several times. A source that is asked for many
//! keys at a time overlaps these misses ([`Source::get_many`](crate::source::Source::get_many)), as the executor overlaps
//! reads of a device: out of order for memory. A gathered row is no task: it costs its words and its key.
//!
//! Rows go on from the gathering in the order in which they came. With one task in flight nothing is gathered.

use super::column_decoding::{decode_columns, encode_key, no_row};
use crate::error::ExecError;
use crate::program::{KeyValues, Reach, ReadStep};
use crate::row::Row;
use crate::run::worker::{Flow, Worker};

impl Worker<'_> {
    /// Gathers a row for a step that looks a key up in memory. Looks all up once there are enough.
    pub(crate) fn gather_row(
        &mut self,
        position: usize,
        step: &ReadStep,
        key: &KeyValues,
        row: &Row,
    ) -> Result<Flow, ExecError> {
        let schema = self.shared.program.sources[step.source].source.schema();
        let gather = &mut self.gathers[position];
        gather.add(row, step.words_before, |keys| {
            encode_key(schema, key, row, keys)
        });
        if gather.has_enough() {
            return self.look_up_gathered(position);
        }
        Ok(self.after_row())
    }

    /// Looks up what a step has gathered, and lets the rows go on until there is no room.
    fn look_up_gathered(&mut self, position: usize) -> Result<Flow, ExecError> {
        let shared = self.shared;
        let pipeline = self.pipeline;
        let Some(crate::program::Step::Read(step)) = pipeline.steps.get(position - 1) else {
            return Ok(Flow::Go);
        };
        let Reach::Key(values) = &step.reach else {
            return Ok(Flow::Go);
        };
        let entry = &shared.program.sources[step.source];
        let schema = entry.source.schema();
        // Rows that go on can come to later steps alone, so that this one's are not touched meanwhile.
        let mut gather = std::mem::take(&mut self.gathers[position]);
        let mut row = std::mem::take(&mut self.gathered_row);
        row.words.resize(pipeline.words, 0);
        let mut flow = Flow::Go;
        'gathered: while !gather.is_through() {
            let looked_up = gather.look_up(&*entry.source);
            looked_up.map_err(|error| ExecError::source(&entry.name, error))?;
            while let Some(at) = gather.next_row() {
                let Some((key, bytes)) = gather.found(at) else {
                    no_row(values, &entry.name, gather.key(at))?;
                    continue;
                };
                gather.copy_to(at, step.words_before, &mut row);
                let scratch = &mut self.scratch;
                if !decode_columns(step, schema, &entry.name, key, bytes, &mut row, scratch)? {
                    continue;
                }
                flow = self.flow(position, &mut row)?;
                if flow != Flow::Go {
                    break 'gathered;
                }
            }
        }
        self.gathered_row = row;
        if gather.is_through() {
            gather.clear();
        }
        debug_assert!(
            self.gathers[position].is_empty(),
            "an earlier step's rows came here meanwhile"
        );
        self.gathers[position] = gather;
        Ok(flow)
    }

    /// Whether a step has rows that were gathered, looked up or not.
    pub(crate) fn has_gathered(&self) -> bool {
        self.gathers.iter().any(|gather| !gather.is_empty())
    }

    /// Looks up what was gathered, the deepest step first, while there is room: nothing else can go on now.
    pub(crate) fn look_up_all_gathered(&mut self) -> Result<Flow, ExecError> {
        self.look_up_gathered_from(0)
    }

    /// The same from this position on. Rows of earlier ones would go to a step that is being emptied.
    pub(crate) fn look_up_gathered_from(&mut self, first: usize) -> Result<Flow, ExecError> {
        for position in (first..self.gathers.len()).rev() {
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
    pub(crate) fn is_gather_full(&self, position: usize) -> bool {
        self.gathers[position].is_full()
    }
}
