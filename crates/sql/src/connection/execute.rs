//! Running portals.

use std::sync::Arc;

use super::found_rows::{Outcome, PortalRows, write_rows};
use super::portal::{Portal, Work};
use super::progress::{CommandTag, Progress, Scope};
use super::{Block, Connection};
use crate::cancel::Cancelled;
use crate::error::{SqlError, SqlResult};
use crate::front_end::{Body, OutputColumn, Planned};
use crate::sink::RowSink;
use crate::sqlstate;
use crate::stats::count;
use crate::text_cache::TextKey;

/// How often a statement is repeated after conflicts where the core does not do so itself.
const REPEATS_MAX: u32 = 1000;

impl Connection {
    /// Runs a portal, or goes on with it, for at most `limit` rows (0: all).
    ///
    /// # Errors
    /// The statement's. With [`Scope::Alone`], conflicts are repeated in here, as long as none of the statement's output was
    /// sent.
    pub async fn execute(
        &mut self,
        portal: &mut Portal,
        scope: Scope,
        limit: u32,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Progress> {
        let statement = match &portal.rows {
            Some(rows) => rows.cancelled.clone(),
            None => Cancelled::default(),
        };
        self.begin_statement(statement.clone());
        let progress = self
            .execute_portal(portal, scope, limit, &statement, sink)
            .await;
        let goes_on = matches!(
            progress,
            Ok(Progress::SinkFull | Progress::CopyIn { .. } | Progress::CopyOut { .. })
        );
        if !goes_on {
            self.end_statement();
        }
        match progress {
            Err(error) => {
                portal.rows = None;
                portal.is_done = true;
                Err(self.tellable(error).await)
            }
            progress => progress,
        }
    }

    /// A statement begins, or goes on: from now on it can be cancelled, also between two calls. A statement that goes on
    /// keeps its time limit.
    pub(super) fn begin_statement(&mut self, statement: Cancelled) {
        let goes_on = self.time_limit.is_some() && self.running.is_same(&statement);
        if !goes_on {
            let longest = self.settings.statement_timeout();
            self.time_limit = longest.map(|it| self.shared.pools.limit_time(&statement, it));
        }
        self.cancel.begin(&statement);
        self.running = statement;
    }

    /// No statement runs any more.
    pub(super) fn end_statement(&mut self) {
        self.cancel.end();
        self.time_limit = None;
    }

    async fn execute_portal(
        &mut self,
        portal: &mut Portal,
        scope: Scope,
        limit: u32,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Progress> {
        if portal.rows.is_some() {
            return self.write_rows(portal, limit, cancelled, sink).await;
        }
        if portal.is_done {
            return Err(SqlError::new(
                sqlstate::OBJECT_NOT_IN_STATE,
                "portal cannot be run: it has run to its end",
            ));
        }
        count(&self.shared.counters.statements);
        match portal.statement.work.clone() {
            Work::Empty => {
                portal.is_done = true;
                Ok(Progress::Empty)
            }
            Work::Utility(utility) => {
                self.run_utility(&utility, portal, scope, cancelled, sink)
                    .await
            }
            Work::Planned(planned) => {
                self.check_not_failed()?;
                self.run_planned(planned, portal, scope, limit, cancelled, sink)
                    .await
            }
        }
    }

    async fn run_planned(
        &mut self,
        mut planned: Arc<Planned>,
        portal: &mut Portal,
        scope: Scope,
        limit: u32,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Progress> {
        let is_alone = scope == Scope::Alone && self.block == Block::Idle;
        let mark = sink.mark();
        let (mut repeats, mut refills, mut sets, mut is_new) = (0, 0, 0, false);
        if planned.uses_sequence() {
            self.shared.sequences.forget_settings(self.number);
        }
        let outcome = loop {
            let seen = self.shared.change_number();
            if planned.uses_sequence() {
                self.shared.sequences.begin_attempt(self.number);
            }
            if self.shared.is_outdated(&planned.tables) {
                planned = self.plan_again(portal, &planned).await?;
            }
            self.effects.touch(&planned.tables);
            if self.read_only && planned.is_change() {
                return Err(SqlError::new(
                    sqlstate::READ_ONLY_TRANSACTION,
                    "cannot change rows or tables in a read-only transaction",
                ));
            }
            let attempt = self
                .attempt(&planned, portal, is_alone, limit, cancelled, sink)
                .await;
            let error = match attempt {
                Ok(outcome) => break outcome,
                Err(error) => error,
            };
            if is_alone {
                self.roll_back(Block::Idle);
            }
            if !sink.rewind(mark) {
                return Err(error);
            }
            if let Some(sequence) = error.sequence_to_refill() {
                cancelled.check()?;
                match self.refill(sequence, refills).await {
                    // The sequence of a kept plan may be gone, and another one have its name.
                    Err(error) if error.sqlstate() == sqlstate::UNDEFINED_TABLE && !is_new => {
                        planned = self.plan_again(portal, &planned).await?;
                        is_new = true;
                    }
                    done => done?,
                }
                refills += 1;
            } else if let Some(setting) = error.sequence_to_set() {
                cancelled.check()?;
                self.set_sequence_again(setting, &mut sets).await?;
            } else if error.is_stale_plan() {
                planned = self.plan_again(portal, &planned).await?;
            } else if error.busy_table().is_some() {
                let mut changes = self.shared.changes.subscribe();
                // One that came in between is not waited for.
                if self.shared.change_number() == seen {
                    // Fails only if the engine is gone.
                    let _ = cancelled.unless(changes.changed()).await?;
                }
            } else if is_alone && error.is_retryable() && repeats < REPEATS_MAX {
                repeats += 1;
                count(&self.shared.counters.repeats);
                cancelled.check()?;
                self.back_off().await;
            } else {
                return Err(error);
            }
        };
        match outcome {
            Outcome::Rows(rows) => {
                portal.is_done = true;
                Ok(Progress::Complete(tag(&planned, rows)))
            }
            Outcome::Found(source) => {
                portal.rows = Some(PortalRows {
                    source,
                    batch: None,
                    next: 0,
                    written: 0,
                    since_limit: 0,
                    copy: None,
                    cancelled: cancelled.clone(),
                });
                self.write_rows(portal, limit, cancelled, sink).await
            }
        }
    }

    /// One attempt of a statement.
    async fn attempt(
        &mut self,
        planned: &Arc<Planned>,
        portal: &Portal,
        is_alone: bool,
        limit: u32,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Outcome> {
        if !is_alone {
            if self.block == Block::Idle {
                self.block = Block::Implicit;
            }
            self.ensure_begun()?;
        } else {
            self.now = crate::types::now_micros();
        }
        match &planned.body {
            Body::Select { .. } => {
                self.select(planned, portal, is_alone, limit, cancelled, sink)
                    .await
            }
            Body::Insert { .. } | Body::Update { .. } | Body::Delete { .. } => self
                .change(planned, portal, is_alone, cancelled, sink)
                .await
                .map(Outcome::Rows),
            Body::CreateTableAs { table, plan } => self
                .create_table_as(planned, (table, plan), portal, is_alone, cancelled)
                .await
                .map(Outcome::Rows),
            Body::Ddl(command) => {
                self.ddl((**command).clone(), is_alone).await?;
                Ok(Outcome::Rows(0))
            }
            Body::Explain(lines) => {
                super::utility::write_texts(lines.iter().map(|line| vec![line.clone()]), sink);
                Ok(Outcome::Rows(lines.len() as u64))
            }
        }
    }

    /// Plans a statement again after its tables have changed.
    ///
    /// # Errors
    /// 0A000 if it has other columns or parameters now: the client was told of the earlier ones.
    async fn plan_again(&mut self, portal: &mut Portal, old: &Planned) -> SqlResult<Arc<Planned>> {
        let statement = &portal.statement;
        let key = TextKey {
            text: Arc::clone(&statement.text),
            types: Arc::clone(&statement.given),
            is_lifted: statement.is_lifted,
        };
        self.shared.cache.remove(&key);
        let Some(planned) = self.planned(&key).await? else {
            // The lifted text has no row program any more.
            return Err(SqlError::new(
                sqlstate::SERIALIZATION_FAILURE,
                "could not serialize access due to a concurrent change of the table",
            )
            .with_hint("The transaction might succeed if retried."));
        };
        if !has_same_answer(planned.columns.as_deref(), old.columns.as_deref())
            || planned.parameters != old.parameters
        {
            return Err(SqlError::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        portal.statement.work = Work::Planned(Arc::clone(&planned));
        Ok(planned)
    }

    /// Writes rows that were found, until the limit, the sink's, or the end.
    async fn write_rows(
        &mut self,
        portal: &mut Portal,
        limit: u32,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Progress> {
        let zone = self.settings.zone();
        let output = std::mem::take(&mut portal.output);
        let progress = match &mut portal.rows {
            Some(rows) => write_rows(rows, limit, cancelled, &output, zone, sink).await,
            None => Ok(None),
        };
        portal.output = output;
        if let Some(progress) = progress? {
            return Ok(progress);
        }
        portal.is_done = true;
        let mut rows = portal.rows.take();
        if let Some(copy) = rows.as_mut().and_then(|rows| rows.copy.as_mut()) {
            // Also where no row followed it.
            copy.write_header(sink);
        }
        let written = rows.as_ref().map_or(0, |rows| rows.written);
        let is_copy = rows.is_some_and(|rows| rows.copy.is_some());
        if is_copy {
            return Ok(Progress::Complete(CommandTag::rows("COPY", written)));
        }
        Ok(Progress::Complete(CommandTag::rows("SELECT", written)))
    }
}

/// Whether rows look the same to a client, whichever tables they are of.
fn has_same_answer(new: Option<&[OutputColumn]>, old: Option<&[OutputColumn]>) -> bool {
    let form = |column: &OutputColumn| (column.name.clone(), column.sql_type);
    match (new, old) {
        (Some(new), Some(old)) => new.iter().map(form).eq(old.iter().map(form)),
        (new, old) => new.is_none() && old.is_none(),
    }
}

/// The tag of a statement that has ended.
fn tag(planned: &Planned, rows: u64) -> CommandTag {
    match &planned.body {
        Body::Select { .. } | Body::CreateTableAs { .. } => CommandTag::rows("SELECT", rows),
        Body::Insert { .. } => CommandTag::rows("INSERT", rows),
        Body::Update { .. } => CommandTag::rows("UPDATE", rows),
        Body::Delete { .. } => CommandTag::rows("DELETE", rows),
        Body::Ddl(command) => CommandTag::new(command.tag()),
        Body::Explain(_) => CommandTag::new("EXPLAIN"),
    }
}
