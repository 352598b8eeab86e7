//! SELECT: a row program in a transaction, or a plan on the second pool, over a view or through the transaction.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::found_rows::{Outcome, RowSource, RunningPlan};
use super::portal::Portal;
use super::{Connection, shared};
use crate::cancel::Cancelled;
use crate::catalogue::SEQUENCE_VERSION;
use crate::error::{SqlError, SqlResult};
use crate::front_end::{Batch, Body, Plan, Planned, RunSettings};
use crate::pools::TaskGuard;
use crate::pools::failed_task;
use crate::program::{Environment, SelectProgram};
use crate::shared::Shared;
use crate::sink::RowSink;
use crate::sqlstate;
use crate::stats::count;
use crate::storage::{ReadHandle, Reader};

/// Batches between a plan and the connection that writes them.
const BATCHES_AHEAD: usize = 1;

impl Connection {
    pub(super) async fn select(
        &mut self,
        planned: &Arc<Planned>,
        portal: &Portal,
        is_alone: bool,
        limit: u32,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Outcome> {
        let Body::Select { program, plan } = &planned.body else {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the statement is no SELECT",
            ));
        };
        let environment = self.environment(&portal.parameters);
        match program {
            // A portal that stops in the middle keeps a plan's rows.
            Some(program) if limit == 0 => {
                let mark = sink.mark();
                let selected = self
                    .select_program(planned, program, portal, &environment, is_alone, sink)
                    .await;
                match selected {
                    // The plan finds the same rows, on another thread.
                    Err(error) if error.is_long_program() => {
                        sink.rewind(mark);
                    }
                    done => return done.map(Outcome::Rows),
                }
            }
            _ => {}
        }
        // The catalogue is read as it is now, also in a block, unless the block has changed it.
        let is_of_catalogue = planned.tables.is_empty() && self.effects.is_empty();
        if is_alone || is_of_catalogue {
            return self
                .select_from_view(planned, plan, environment, cancelled)
                .await;
        }
        let batches = self
            .plan_in_transaction(planned, plan, environment, cancelled)
            .await?;
        let ticket = self.in_transaction(|tx| Ok(tx.end_statement()?))?;
        self.acknowledged(ticket).await?;
        Ok(Outcome::Found(RowSource::Found(batches.into())))
    }

    async fn select_program(
        &mut self,
        planned: &Planned,
        program: &SelectProgram,
        portal: &Portal,
        environment: &Environment,
        is_alone: bool,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        let shared = shared(self);
        count(&shared.counters.row_programs);
        let rows_max = shared.options.scan_rows_max;
        self.note_row_read(program, environment)?;
        let mark = sink.mark();
        let mut body = |tx: &mut namiki::Transaction| {
            sink.rewind(mark);
            Self::check_versions(&shared, &mut Reader::Transaction(tx), &planned.tables)?;
            program.run(
                tx,
                &shared.storage,
                environment,
                &portal.output,
                rows_max,
                sink,
            )
        };
        let is_sequence = |(_, version): &(u32, u64)| *version == SEQUENCE_VERSION;
        if program.access.is_none() && planned.tables.iter().all(is_sequence) && is_alone {
            // No table is read: no transaction is needed.
            return program.run_without_tables(environment, &portal.output, sink);
        }
        let (rows, ticket) = if is_alone {
            self.session()?;
            // Taken out, so that a future that is dropped in the middle leaves no half session.
            let Some(mut session) = self.session.take() else {
                return Err(SqlError::new(
                    sqlstate::INTERNAL_ERROR,
                    "the connection has no session",
                ));
            };
            let done = session.run(&mut body).await;
            self.session = Some(session);
            done?
        } else {
            self.in_transaction(|tx| {
                let rows = body(tx)?;
                Ok((rows, tx.end_statement()?))
            })?
        };
        self.acknowledged(ticket).await?;
        Ok(rows)
    }

    /// Starts a plan over a view. Its batches come as they are found.
    async fn select_from_view(
        &mut self,
        planned: &Arc<Planned>,
        plan: &Plan,
        environment: Environment,
        cancelled: &Cancelled,
    ) -> SqlResult<Outcome> {
        let shared = shared(self);
        count(&shared.counters.plan_runs);
        let permit = shared.pools.long_statement(cancelled).await?;
        let view = cancelled.unless(shared.views.open()).await??;
        Self::check_versions(&shared, &mut Reader::View(&view), &planned.tables)?;
        let settings = RunSettings {
            user: self.info.user.clone(),
            handle: ReadHandle::View(view),
            environment,
            cancelled: cancelled.clone(),
            rows_max: shared.options.scan_rows_max,
        };
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let (plan, for_task) = (plan.clone(), Arc::clone(&shared));
        let task = shared.pool().spawn(async move {
            let _permit = permit;
            if let Err(error) = send_batches(&for_task, &plan, settings, &sender).await {
                // A connection that is gone does not wait for it.
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Outcome::Found(RowSource::Running(RunningPlan {
            batches: receiver,
            cancelled: cancelled.clone(),
            _task: TaskGuard::new(&task),
        })))
    }

    /// Runs a plan through the running transaction, and returns all of its rows.
    pub(super) async fn plan_in_transaction(
        &mut self,
        planned: &Arc<Planned>,
        plan: &Plan,
        environment: Environment,
        cancelled: &Cancelled,
    ) -> SqlResult<Vec<Batch>> {
        let shared = shared(self);
        count(&shared.counters.plan_runs);
        let permit = shared.pools.long_statement(cancelled).await?;
        let (plan, planned) = (plan.clone(), Arc::clone(planned));
        let (statement, rows_max) = (cancelled.clone(), shared.options.scan_rows_max);
        let bytes_max = shared.options.result_bytes_max;
        let (for_task, user) = (Arc::clone(&shared), self.info.user.clone());
        self.lend_session(cancelled, |handle| async move {
            let task = shared.pool().spawn(async move {
                let _permit = permit;
                handle.with(|reader| Self::check_versions(&for_task, reader, &planned.tables))?;
                let settings = RunSettings {
                    user,
                    handle,
                    environment,
                    cancelled: statement,
                    rows_max,
                };
                let mut rows = for_task.front_end.run(&plan, settings).await?;
                rows.all(bytes_max).await
            });
            let _guard = TaskGuard::new(&task);
            task.await.map_err(|error| failed_task(&error))?
        })
        .await
    }
}

async fn send_batches(
    shared: &Shared,
    plan: &Plan,
    settings: RunSettings,
    sender: &mpsc::Sender<SqlResult<Batch>>,
) -> SqlResult<()> {
    let mut rows = shared.front_end.run(plan, settings).await?;
    while let Some(batch) = rows.next().await? {
        if sender.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
