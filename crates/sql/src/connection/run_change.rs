//! INSERT, UPDATE and DELETE: on the calling thread, or, of many rows, on the second pool.

use std::sync::Arc;

use namiki::{Session, Ticket, Transaction};
use namiki_data::columns::Datum;

use super::kept_rows::KeptRows;
use super::portal::Portal;
use super::transaction::{ROWS_HERE_MAX, statement};
use super::{Connection, shared};
use crate::cancel::Cancelled;
use crate::change::{Changes, DefaultValue, Returned, RowNumbers};
use crate::error::{SqlError, SqlResult};
use crate::front_end::{Batch, Body, Plan, Planned};
use crate::program::{Environment, OutputFormat, Path};
use crate::shared::Shared;
use crate::sink::RowSink;
use crate::sqlstate;
use crate::stats::count;
use crate::storage::Reader;

/// A change of rows, with all that it needs on whichever thread it runs.
struct Change {
    planned: Arc<Planned>,
    /// The rows that a plan has found.
    found: Option<Vec<Batch>>,
    shared: Arc<Shared>,
    environment: Environment,
    formats: Vec<OutputFormat>,
}

/// What the other thread gives back.
type Done = (Box<Session>, RowNumbers, SqlResult<(u64, Option<Ticket>)>);

impl Connection {
    /// Runs a change of rows; returns the number of rows.
    pub(super) async fn change(
        &mut self,
        planned: &Arc<Planned>,
        portal: &Portal,
        is_alone: bool,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        let shared = shared(self);
        let mut change = Change {
            planned: Arc::clone(planned),
            found: None,
            environment: self.environment(&portal.parameters),
            formats: portal.output.clone(),
            shared: Arc::clone(&shared),
        };
        let Some(plan) = plan_of(&planned.body) else {
            count(&shared.counters.row_programs);
            let lock = self.lock_changed_row(&planned.body, &change.environment);
            cancelled.unless(lock).await??;
            if visits_all(&planned.body) {
                return self
                    .change_elsewhere(change, is_alone, cancelled, sink)
                    .await;
            }
            let mark = sink.mark();
            let done = self.change_here(&change, is_alone, sink).await;
            return match done {
                // It has changed nothing yet.
                Err(error) if error.is_long_program() => {
                    sink.rewind(mark);
                    self.change_elsewhere(change, is_alone, cancelled, sink)
                        .await
                }
                done => done,
            };
        };
        self.ensure_begun()?;
        // The transaction began just now.
        change.environment = self.environment(&portal.parameters);
        let found = self
            .plan_in_transaction(planned, plan, change.environment.clone(), cancelled)
            .await?;
        let is_short = found.iter().map(Batch::len).sum::<usize>() <= ROWS_HERE_MAX;
        change.found = Some(found);
        // The transaction of the plan is the one of the changes.
        let rows = if is_short {
            self.change_here(&change, false, sink).await?
        } else {
            self.change_elsewhere(change, false, cancelled, sink)
                .await?
        };
        if is_alone {
            self.commit().await?;
        }
        Ok(rows)
    }

    /// Runs a change on this thread.
    async fn change_here(
        &mut self,
        change: &Change,
        is_alone: bool,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        self.session()?;
        // Taken out, so that a future that is dropped in the middle leaves no half session.
        let mut session = self.take_session()?;
        let mut numbers = std::mem::take(&mut self.row_numbers);
        let done = if is_alone {
            change.run_alone(&mut session, &mut numbers, sink).await
        } else {
            change.run_in_block(&mut session, &mut numbers, sink)
        };
        self.session = Some(session);
        self.row_numbers = numbers;
        self.changed(is_alone, done?).await
    }

    /// Runs a change on the second pool. What RETURNING shows is kept until its end.
    async fn change_elsewhere(
        &mut self,
        mut change: Change,
        is_alone: bool,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        change.environment.guard.rows_here_max = None;
        let shared = shared(self);
        let permit = shared.pools.long_statement(cancelled).await?;
        self.session()?;
        let mut session = self.take_session()?;
        let mut numbers = std::mem::take(&mut self.row_numbers);
        let pool = shared.pool().clone();
        let work = move || -> (Done, KeptRows) {
            let _permit = permit;
            let mut kept = KeptRows::default();
            let done = if is_alone {
                pool.block_on(change.run_alone(&mut session, &mut numbers, &mut kept))
            } else {
                change.run_in_block(&mut session, &mut numbers, &mut kept)
            };
            ((session, numbers, done), kept)
        };
        // It looks for cancellations itself: it has the session.
        let ((session, numbers, done), kept) = shared.blocking(work).await?;
        self.session = Some(session);
        self.row_numbers = numbers;
        let rows = self.changed(is_alone, done?).await?;
        kept.write(sink);
        Ok(rows)
    }

    fn take_session(&mut self) -> SqlResult<Box<Session>> {
        self.session
            .take()
            .ok_or_else(|| SqlError::new(sqlstate::INTERNAL_ERROR, "the connection has no session"))
    }

    /// Waits until the rows may be shown, or, alone, until the change is durable.
    async fn changed(
        &mut self,
        is_alone: bool,
        (rows, ticket): (u64, Option<Ticket>),
    ) -> SqlResult<u64> {
        if let Some(ticket) = ticket {
            self.acknowledged(ticket).await?;
        }
        if is_alone {
            count(&self.shared.counters.commits);
            self.is_repeatable = false;
        }
        Ok(rows)
    }
}

impl Change {
    /// In a transaction of its own, which is repeated after conflicts.
    async fn run_alone(
        &self,
        session: &mut Session,
        numbers: &mut RowNumbers,
        sink: &mut dyn RowSink,
    ) -> SqlResult<(u64, Option<Ticket>)> {
        let mark = sink.mark();
        let body = |tx: &mut Transaction| {
            sink.rewind(mark);
            self.environment.guard.cancelled.check()?;
            self.check_tables(tx)?;
            if self.planned.uses_sequence() {
                let sequences = &self.shared.sequences;
                sequences.begin_attempt(self.environment.session);
            }
            self.run(tx, numbers, sink)
        };
        let (rows, ticket) = session.run(body).await?;
        Ok((rows, Some(ticket)))
    }

    /// In the transaction that runs.
    fn run_in_block(
        &self,
        session: &mut Session,
        numbers: &mut RowNumbers,
        sink: &mut dyn RowSink,
    ) -> SqlResult<(u64, Option<Ticket>)> {
        let mark = sink.mark();
        statement(session, |tx| {
            self.check_tables(tx)?;
            let savepoint = takes_sequence_numbers(&self.planned).then(|| tx.savepoint());
            let rows = self.run(tx, numbers, sink);
            if let (Err(error), Some(savepoint)) = (&rows, &savepoint)
                && error.asks_for_sequence()
            {
                // The statement runs again when numbers are reserved.
                tx.rollback_to(savepoint)?;
            }
            let rows = rows?;
            // Rows that RETURNING shows are of one moment, and durable.
            let ticket = if sink.mark() == mark {
                None
            } else {
                Some(tx.end_statement()?)
            };
            Ok((rows, ticket))
        })
    }

    fn check_tables(&self, tx: &mut Transaction) -> SqlResult<()> {
        let tables = &self.planned.tables;
        Connection::check_versions(&self.shared, &mut Reader::Transaction(tx), tables)
    }

    /// Runs the program, on the rows that a plan has found if there is one.
    fn run(
        &self,
        tx: &mut Transaction,
        numbers: &mut RowNumbers,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        let mut changes = Changes {
            tx,
            storage: &self.shared.storage,
            environment: &self.environment,
            numbers,
        };
        let body = &self.planned.body;
        let returning = match body {
            Body::Insert { program, .. } => &program.returning,
            Body::Update { program, .. } => &program.returning,
            Body::Delete { program, .. } => &program.returning,
            _ => &None,
        };
        let mut returned = Returned {
            output: returning.as_deref(),
            formats: &self.formats,
            sink,
        };
        let rows = self.found.as_deref().map(rows_of).transpose()?;
        let sequences = &self.shared.sequences;
        match (body, rows) {
            (Body::Insert { program, .. }, None) => {
                program.run(&mut changes, sequences, &mut returned)
            }
            (Body::Insert { program, .. }, Some(rows)) => {
                program.run_with(rows, &mut changes, sequences, &mut returned)
            }
            (Body::Update { program, .. }, None) => program.run(&mut changes, &mut returned),
            (Body::Update { program, .. }, Some(rows)) => {
                program.run_with(rows, &mut changes, &mut returned)
            }
            (Body::Delete { program, .. }, None) => program.run(&mut changes, &mut returned),
            (Body::Delete { program, .. }, Some(rows)) => {
                program.run_with(rows, &mut changes, &mut returned)
            }
            _ => Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the statement changes no rows",
            )),
        }
    }
}

/// Whether a program visits all rows of its table.
fn visits_all(body: &Body) -> bool {
    let access = match body {
        Body::Update { program, .. } => program.access.as_ref(),
        Body::Delete { program, .. } => program.access.as_ref(),
        _ => None,
    };
    access.is_some_and(|access| matches!(access.path, Path::Full))
}

fn plan_of(body: &Body) -> Option<&Plan> {
    match body {
        Body::Insert { plan, .. } | Body::Update { plan, .. } | Body::Delete { plan, .. } => {
            plan.as_ref()
        }
        _ => None,
    }
}

/// Whether a statement may find a sequence without a reserved number in the middle of its rows.
fn takes_sequence_numbers(planned: &Planned) -> bool {
    if planned.uses_sequence() {
        return true;
    }
    let Body::Insert { program, .. } = &planned.body else {
        return false;
    };
    let defaults = &program.target.rules.defaults;
    defaults
        .iter()
        .any(|default| matches!(default, DefaultValue::Sequence(_)))
}

fn rows_of(batches: &[Batch]) -> SqlResult<Vec<Vec<Datum>>> {
    let mut rows = Vec::with_capacity(batches.iter().map(Batch::len).sum());
    for batch in batches {
        for row in 0..batch.len() {
            rows.push(batch.row(row)?);
        }
    }
    Ok(rows)
}
