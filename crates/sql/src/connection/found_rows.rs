//! Rows that were found and are written bit by bit: into the client's buffer, or as lines of COPY.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::copy_lines::write_line;
use super::progress::Progress;
use crate::cancel::{Cancelled, Cause};
use crate::error::SqlResult;
use crate::front_end::Batch;
use crate::pools::TaskGuard;
use crate::program::OutputFormat;
use crate::sink::RowSink;
use crate::syntax::CopyFormat;
use crate::types::{TimeZone, write_text};

/// The rows of a portal that were found and not written yet.
pub(super) struct PortalRows {
    pub(super) source: RowSource,
    pub(super) batch: Option<Batch>,
    /// The next row of the batch.
    pub(super) next: usize,
    /// Rows that were written so far.
    pub(super) written: u64,
    /// Rows that were written since the last time that a limit was reached.
    pub(super) since_limit: u32,
    /// How the rows are written: as a row of the protocol, or a line of COPY.
    pub(super) copy: Option<CopyOut>,
    /// Cancels the statement, also where it goes on later.
    pub(super) cancelled: Cancelled,
}

/// A plan on the second pool. It is stopped when this is dropped.
pub(super) struct RunningPlan {
    pub(super) batches: mpsc::Receiver<SqlResult<Batch>>,
    pub(super) cancelled: Cancelled,
    /// Between two batches it is stopped by this; within one it sees the cancellation.
    pub(super) _task: TaskGuard,
}

impl Drop for RunningPlan {
    fn drop(&mut self) {
        self.cancelled.set(Cause::Request);
    }
}

/// Where further batches come from.
pub(super) enum RowSource {
    /// A plan on the second pool.
    Running(RunningPlan),
    /// All were found.
    Found(VecDeque<Batch>),
}

impl PortalRows {
    /// The memory of the rows that were found; those of a plan that runs are few at a time.
    pub(super) fn memory_bytes(&self) -> usize {
        let found = match &self.source {
            RowSource::Found(batches) => batches.iter().map(Batch::memory_bytes).sum(),
            RowSource::Running(_) => 0,
        };
        found + self.batch.as_ref().map_or(0, Batch::memory_bytes)
    }
}

/// What one attempt of a statement gave.
pub(super) enum Outcome {
    /// It has ended, and returned or changed this number of rows.
    Rows(u64),
    /// Its rows are to be written.
    Found(RowSource),
}

/// The form of the lines that are written.
pub(super) struct CopyOut {
    format: CopyFormat,
    /// The names of the columns, if they are to be the first line.
    header: Option<Vec<String>>,
}

impl CopyOut {
    /// Lines of this form, of columns with these names.
    pub(super) fn new(format: CopyFormat, names: Vec<String>) -> Self {
        Self {
            header: format.header.then_some(names),
            format,
        }
    }

    /// Writes a row as a line.
    pub(super) fn write_row(
        &mut self,
        batch: &Batch,
        row: usize,
        output: &[OutputFormat],
        zone: TimeZone,
        sink: &mut dyn RowSink,
    ) -> SqlResult<()> {
        self.write_header(sink);
        let mut fields = Vec::with_capacity(output.len());
        for (value, format) in batch.row(row)?.iter().zip(output) {
            let value = value.value();
            fields.push((!value.is_null()).then(|| {
                let mut text = Vec::new();
                write_text(value, format.sql_type, zone, &mut text);
                text
            }));
        }
        let mut line = Vec::new();
        write_line(&fields, &self.format, &mut line);
        sink.copy_line(&line);
        Ok(())
    }

    /// The line of names, once.
    pub(super) fn write_header(&mut self, sink: &mut dyn RowSink) {
        if let Some(names) = self.header.take() {
            let fields: Vec<Option<Vec<u8>>> = names
                .into_iter()
                .map(|name| Some(name.into_bytes()))
                .collect();
            let mut line = Vec::new();
            write_line(&fields, &self.format, &mut line);
            sink.copy_line(&line);
        }
    }
}

/// Writes rows; `None` at their end.
///
/// # Errors
/// Those of the plan that finds them; 57014 after a cancellation.
pub(super) async fn write_rows(
    rows: &mut PortalRows,
    limit: u32,
    cancelled: &Cancelled,
    output: &[OutputFormat],
    zone: TimeZone,
    sink: &mut dyn RowSink,
) -> SqlResult<Option<Progress>> {
    loop {
        cancelled.check()?;
        if rows.batch.is_none() {
            rows.next = 0;
            rows.batch = match &mut rows.source {
                RowSource::Found(batches) => batches.pop_front(),
                RowSource::Running(plan) => {
                    // The plan itself may take a moment to stop.
                    cancelled.unless(plan.batches.recv()).await?.transpose()?
                }
            };
        }
        let Some(batch) = &rows.batch else {
            return Ok(None);
        };
        while rows.next < batch.len() {
            if limit > 0 && rows.since_limit >= limit {
                rows.since_limit = 0;
                return Ok(Some(Progress::Suspended));
            }
            if sink.is_full() {
                // The next call has the rest of the limit.
                rows.since_limit = 0;
                return Ok(Some(Progress::SinkFull));
            }
            match &mut rows.copy {
                Some(copy) => copy.write_row(batch, rows.next, output, zone, sink)?,
                None => batch.write_row(rows.next, output, zone, sink)?,
            }
            rows.next += 1;
            rows.written += 1;
            rows.since_limit += 1;
        }
        rows.batch = None;
    }
}
