//! INSERT, UPDATE and DELETE.

use std::sync::Arc;

use namiki_data::columns::Datum;

use super::portal::Portal;
use super::{Connection, shared};
use crate::cancel::Cancelled;
use crate::catalogue::SEQUENCE_VERSION;
use crate::change::{Changes, DefaultValue, Returned, RowNumbers};
use crate::error::{SqlError, SqlResult};
use crate::front_end::{Batch, Body, Plan, Planned};
use crate::program::Environment;
use crate::shared::Shared;
use crate::sink::RowSink;
use crate::sqlstate;
use crate::stats::count;
use crate::storage::Reader;

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
        match plan_of(&planned.body) {
            None => {
                self.change_by_program(planned, portal, is_alone, sink)
                    .await
            }
            Some(plan) => {
                self.change_by_plan(planned, plan, portal, is_alone, cancelled, sink)
                    .await
            }
        }
    }

    async fn change_by_program(
        &mut self,
        planned: &Planned,
        portal: &Portal,
        is_alone: bool,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        let shared = shared(self);
        count(&shared.counters.row_programs);
        let environment = self.environment(&portal.parameters);
        self.lock_changed_row(&planned.body, &environment).await?;
        let mark = sink.mark();
        if !is_alone {
            let savepoint = takes_sequence_numbers(planned);
            let mut numbers = std::mem::take(&mut self.row_numbers);
            let done = self.in_transaction(|tx| {
                Self::check_versions(&shared, &mut Reader::Transaction(tx), &planned.tables)?;
                let savepoint = savepoint.then(|| tx.savepoint());
                let rows = run(
                    planned,
                    None,
                    tx,
                    &shared,
                    &environment,
                    &mut numbers,
                    portal,
                    sink,
                );
                if let (Err(error), Some(savepoint)) = (&rows, &savepoint)
                    && error.sequence_to_refill().is_some()
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
            });
            self.row_numbers = numbers;
            let (rows, ticket) = done?;
            if let Some(ticket) = ticket {
                self.acknowledged(ticket).await?;
            }
            return Ok(rows);
        }
        self.session()?;
        let Some(mut session) = self.session.take() else {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the connection has no session",
            ));
        };
        let mut numbers = std::mem::take(&mut self.row_numbers);
        let body = |tx: &mut namiki::Transaction| {
            sink.rewind(mark);
            Self::check_versions(&shared, &mut Reader::Transaction(tx), &planned.tables)?;
            run(
                planned,
                None,
                tx,
                &shared,
                &environment,
                &mut numbers,
                portal,
                sink,
            )
        };
        let done = session.run(body).await;
        self.session = Some(session);
        self.row_numbers = numbers;
        let (rows, ticket) = done?;
        self.acknowledged(ticket).await?;
        count(&shared.counters.commits);
        self.is_repeatable = false;
        Ok(rows)
    }

    async fn change_by_plan(
        &mut self,
        planned: &Arc<Planned>,
        plan: &Plan,
        portal: &Portal,
        is_alone: bool,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        self.ensure_begun()?;
        let environment = self.environment(&portal.parameters);
        let batches = self
            .plan_in_transaction(planned, plan, environment.clone(), cancelled)
            .await?;
        let shared = shared(self);
        let mark = sink.mark();
        let savepoint = takes_sequence_numbers(planned);
        let mut numbers = std::mem::take(&mut self.row_numbers);
        let done = self.in_transaction(|tx| {
            let savepoint = savepoint.then(|| tx.savepoint());
            let rows = run(
                planned,
                Some(&batches),
                tx,
                &shared,
                &environment,
                &mut numbers,
                portal,
                sink,
            );
            if let (Err(error), Some(savepoint)) = (&rows, &savepoint)
                && error.sequence_to_refill().is_some()
            {
                tx.rollback_to(savepoint)?;
            }
            let rows = rows?;
            let ticket = if is_alone || sink.mark() == mark {
                None
            } else {
                Some(tx.end_statement()?)
            };
            Ok((rows, ticket))
        });
        self.row_numbers = numbers;
        let (rows, ticket) = done?;
        if let Some(ticket) = ticket {
            self.acknowledged(ticket).await?;
        }
        if is_alone {
            self.commit().await?;
        }
        Ok(rows)
    }
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
    let is_sequence = |(_, version): &(u32, u64)| *version == SEQUENCE_VERSION;
    if planned.tables.iter().any(is_sequence) {
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

/// Runs the program, on the rows that a plan has found if there is one.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of a connection that a transaction's body may use"
)]
fn run(
    planned: &Planned,
    batches: Option<&[Batch]>,
    tx: &mut namiki::Transaction,
    shared: &Shared,
    environment: &Environment,
    numbers: &mut RowNumbers,
    portal: &Portal,
    sink: &mut dyn RowSink,
) -> SqlResult<u64> {
    let mut changes = Changes {
        tx,
        storage: &shared.storage,
        environment,
        numbers,
    };
    let returning = match &planned.body {
        Body::Insert { program, .. } => &program.returning,
        Body::Update { program, .. } => &program.returning,
        Body::Delete { program, .. } => &program.returning,
        _ => &None,
    };
    let mut returned = Returned {
        output: returning.as_deref(),
        formats: &portal.output,
        sink,
    };
    let rows = batches.map(rows_of).transpose()?;
    let sequences = &shared.sequences;
    match (&planned.body, rows) {
        (Body::Insert { program, .. }, None) => program.run(&mut changes, sequences, &mut returned),
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

fn rows_of(batches: &[Batch]) -> SqlResult<Vec<Vec<Datum>>> {
    let mut rows = Vec::with_capacity(batches.iter().map(Batch::len).sum());
    for batch in batches {
        for row in 0..batch.len() {
            rows.push(batch.row(row)?);
        }
    }
    Ok(rows)
}
