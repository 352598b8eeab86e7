//! The simple protocol: a message with one or several statements.

use namiki_sql::{RowSink as _, Scope, SqlError};

use super::connection::{Connection, End};
use super::portals::while_present;
use crate::metrics::Count;

impl Connection {
    /// Runs the statements of a message, and reports that the session is ready.
    pub(super) async fn simple_query(&mut self, text: &str) -> Result<(), End> {
        self.batch.context.counters().increment(Count::Queries);
        // The message is repeated from its text, not from the input.
        self.input.release();
        // Statements without Sync belong to the same transaction: they would be undone, and not be run again.
        let goes_on = self.batch.executed > 0 || !self.batch.is_repeatable;
        self.batch.begin();
        if goes_on {
            self.batch.stop_repeating();
        }
        let outcome = match self.batch.sql.split(text) {
            Ok(texts) => self.run_texts(&texts).await?,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            self.batch.report(&error);
        }
        self.end_batch();
        Ok(())
    }

    /// Runs statements until one fails, and commits the implicit transaction. All of them are
    /// repeated after a conflict, unless a part of their output was sent.
    async fn run_texts(&mut self, texts: &[&str]) -> Result<Result<(), SqlError>, End> {
        if texts.is_empty() {
            self.batch.output.empty_query();
            return Ok(Ok(()));
        }
        loop {
            let mut outcome = Ok(());
            for text in texts {
                outcome = self.run_text(text, texts.len() == 1).await?;
                if outcome.is_err() {
                    break;
                }
            }
            if outcome.is_ok() {
                outcome = self.batch.sql.sync().await;
            }
            let Err(error) = outcome else {
                return Ok(Ok(()));
            };
            if let Err(error) = self.batch.prepare_repeat(error).await {
                return Ok(Err(error));
            }
        }
    }

    async fn run_text(&mut self, text: &str, is_alone: bool) -> Result<Result<(), SqlError>, End> {
        let scope = if is_alone { Scope::Alone } else { Scope::Part };
        let prepared = self.batch.sql.prepare_simple(text);
        let mut portal = match while_present(&self.stream, &mut self.presence, prepared).await? {
            Ok(portal) => portal,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(columns) = portal.columns() {
            let formats = portal.formats();
            self.batch.output.row_description(columns, formats);
        }
        let outcome = self.run_portal(&mut portal, scope, 0).await?;
        // The results of earlier statements do not wait for later ones.
        if self.batch.output.is_full() {
            self.send().await?;
        }
        Ok(outcome)
    }
}
