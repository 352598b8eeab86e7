//! Long values: rows of too many bytes for a leaf, in pages of their own.

use namiki_segment::Found;

use super::column_decoding::decode_columns;
use crate::error::ExecError;
use crate::program::ReadStep;
use crate::row::Row;
use crate::run::tasks::{PageKey, State, Step};
use crate::run::worker::{Flow, Worker};

impl Worker<'_> {
    /// Continues with a long value. Once its row was sent on, the state is the next one, and there
    /// is no result.
    pub(crate) fn long_value(
        &mut self,
        position: usize,
        step: &ReadStep,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Option<Step>, ExecError> {
        let State::Long(long) = state else {
            return Ok(None);
        };
        let shared = self.shared;
        let segment = &*shared.segments[long.segment as usize].0;
        let entry = &shared.program.sources[step.source];
        let read = long
            .reader
            .read_to_end(segment, self.reads.cached(), &mut long.bytes);
        let read = read.map_err(|error| ExecError::source(&entry.name, error))?;
        if let Found::Fault(page) = read {
            return Ok(Some(Step::Wait(PageKey {
                segment: long.segment,
                page,
            })));
        }
        let State::Long(long) = std::mem::take(state) else {
            return Ok(None);
        };
        let heap_before = row.heap.len();
        let schema = entry.source.schema();
        let scratch = self.buffers.text();
        let kept = decode_columns(
            step,
            schema,
            &entry.name,
            &long.key,
            &long.bytes,
            row,
            scratch,
        )?;
        let flow = if kept {
            self.flow(position, row)?
        } else {
            Flow::Go
        };
        row.heap.truncate(heap_before);
        match (flow, long.then) {
            (Flow::Stop, _) => Ok(Some(Step::Stop)),
            (_, None) => Ok(Some(Step::Done)),
            (flow, Some(then)) => {
                *state = then;
                Ok((flow == Flow::Full).then_some(Step::Again))
            }
        }
    }
}
