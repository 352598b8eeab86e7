//! Hash probe: the rows of a join's hash table with the key of a row.

use crate::error::ExecError;
use crate::program::ProbeStep;
use crate::row::Row;
use crate::run::sink::Materialized;
use crate::run::tasks::{State, Step};
use crate::run::worker::{Flow, Worker};
use crate::sinks::TOO_MUCH_TEXT;

impl Worker<'_> {
    /// Continues in the chain of a hash table.
    pub(crate) fn probe_chain(
        &mut self,
        position: usize,
        step: &ProbeStep,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let Some(table) = Materialized::table(shared.pipelines[step.pipeline].materialized())
        else {
            return Ok(Step::Done);
        };
        let (hash, mut at) = match *state {
            State::Chain { hash, at } => (hash, at),
            _ => match table.hash(row.as_ref(), &step.key) {
                Some(hash) => (hash, table.head(hash)),
                None => return Ok(Step::Done),
            },
        };
        let heap_before = row.heap.len();
        while let Some((number, next)) = table.find(at, hash, row.as_ref(), &step.key) {
            at = next;
            let (found, columns) = table.row(number);
            for (column, slot) in &step.loads {
                slot.put_in(columns[*column].get(found), row)
                    .ok_or(TOO_MUCH_TEXT)?;
            }
            let flow = self.flow(position, row)?;
            row.heap.truncate(heap_before);
            match flow {
                Flow::Go => {}
                Flow::Stop => return Ok(Step::Stop),
                Flow::Full => {
                    if at == 0 {
                        break;
                    }
                    *state = State::Chain { hash, at };
                    return Ok(Step::Again);
                }
            }
        }
        Ok(Step::Done)
    }
}
