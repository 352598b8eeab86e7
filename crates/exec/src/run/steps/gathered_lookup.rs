//! Look-ups in memory, gathered: rows that need a row of a source in memory wait for others and are
//! looked up together.
//!
//! A look-up in a tree of many millions of rows misses the processor's cache several times. A
//! source that gets many keys at a time overlaps these misses
//! ([`Source::get_many`](crate::source::Source::get_many)), as the executor overlaps reads of a
//! device: out of order for memory. A gathered row is no task: it costs its words and its key.
//!
//! With one task in flight nothing is gathered.

use super::column_decoding::{decode_columns, encode_key, no_row};
use crate::error::ExecError;
use crate::program::{KeyValues, Reach, ReadStep, Step};
use crate::row::Row;
use crate::run::gathers::Gather;
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
        let encode = |keys: &mut Vec<u8>| encode_key(schema, key, row, keys);
        if self.gathers.add(position, row, step.words_before, encode) {
            return self.look_up_gathered(position);
        }
        Ok(self.after_row())
    }

    /// Looks up what was gathered from position `first` on, the deepest step first, while there is
    /// room.
    pub(crate) fn look_up_gathered_from(&mut self, first: usize) -> Result<Flow, ExecError> {
        let mut end = self.gathers.positions();
        while let Some(position) = self.gathers.deepest(first, end) {
            let flow = self.look_up_gathered(position)?;
            if flow != Flow::Go {
                return Ok(flow);
            }
            end = position;
        }
        Ok(Flow::Go)
    }

    fn look_up_gathered(&mut self, position: usize) -> Result<Flow, ExecError> {
        let Some(Step::Read(step)) = self.pipeline.steps.get(position - 1) else {
            return Ok(Flow::Go);
        };
        let Reach::Key(values) = &step.reach else {
            return Ok(Flow::Go);
        };
        let (mut gather, mut row) = self.gathers.take(position);
        row.words.resize(self.pipeline.words, 0);
        let flow = self.send_gathered(position, step, values, &mut gather, &mut row)?;
        self.gathers.put_back(position, gather, row);
        Ok(flow)
    }

    /// Looks up the rows of a step, and sends them on until there is no room.
    fn send_gathered(
        &mut self,
        position: usize,
        step: &ReadStep,
        values: &KeyValues,
        gather: &mut Gather,
        row: &mut Row,
    ) -> Result<Flow, ExecError> {
        let entry = &self.shared.program.sources[step.source];
        let schema = entry.source.schema();
        while !gather.is_through() {
            let looked_up = gather.look_up(&*entry.source);
            looked_up.map_err(|error| ExecError::source(&entry.name, error))?;
            while let Some(at) = gather.next_row() {
                let Some((key, bytes)) = gather.found(at) else {
                    no_row(values, &entry.name, gather.key(at))?;
                    continue;
                };
                gather.copy_to(at, step.words_before, row);
                let text = self.buffers.text();
                if !decode_columns(step, schema, &entry.name, key, bytes, row, text)? {
                    continue;
                }
                let flow = self.flow(position, row)?;
                if flow != Flow::Go {
                    return Ok(flow);
                }
            }
        }
        Ok(Flow::Go)
    }
}
