//! The loop over the messages of a session.
//!
//! ```text
//!  extended protocol:  Parse, Bind, Describe, Execute, Close ... Sync ─► commit ─► ReadyForQuery
//!                                 │ error                          │ error
//!                                 ▼                                ▼
//!                    a conflict, and nothing sent yet?  ── yes ─► run the batch again
//!                                 │ no
//!                                 ▼
//!                    report it, and skip messages until Sync
//! ```

use namiki_sql::{Portal, RowSink as _, Scope, SqlError, TransactionStatus};

use super::batch::Batch;
use super::connection::{Connection, End};
use super::portals::while_present;
use crate::flush::before_request;
use crate::metrics::Count;
use crate::wire::ClientMessage;

/// Bytes of a batch's messages that are kept for its repetition.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// The next step for a message.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each session, which a box would allocate for each statement"
)]
enum Next {
    Nothing,
    Query(String),
    Execute {
        name: String,
        portal: Portal,
        rows_max: u32,
    },
    Flush,
    Sync,
    Terminate,
}

impl Connection {
    /// Serves the session until it ends.
    pub(super) async fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.run_round().await {
                return end;
            }
        }
    }

    /// Handles the messages that have arrived, sends the output, and waits for more.
    async fn run_round(&mut self) -> Result<(), End> {
        while self.handle_next().await? {
            if self.batch.is_fatal {
                return Err(End::Reported);
            }
            if self.batch.output.is_full() {
                self.send().await?;
            }
            // A client that sends without pause must not keep its thread from others.
            tokio::task::coop::consume_budget().await;
        }
        self.send().await?;
        self.batch.output.free_large_memory();
        if self.batch.context.shared.is_stopping() {
            return Err(End::Stopping);
        }
        self.read_next().await
    }

    /// Waits for the next messages. A transaction block may not keep others waiting for as long as its client likes, if it
    /// has a limit.
    async fn read_next(&mut self) -> Result<(), End> {
        let longest = match self.batch.sql.status() {
            TransactionStatus::Idle => None,
            TransactionStatus::InBlock | TransactionStatus::Failed => {
                self.batch.sql.idle_in_transaction_timeout()
            }
        };
        let Some(longest) = longest else {
            return self.read().await;
        };
        let read = tokio::time::timeout(longest, self.read()).await;
        read.unwrap_or_else(|_| {
            let message = "terminating connection due to idle-in-transaction timeout";
            Err(End::Fatal(SqlError::new("25P03", message.to_owned())))
        })
    }

    /// Handles the next message; false if it has not arrived.
    async fn handle_next(&mut self) -> Result<bool, End> {
        let Some(frame) = self.input.next(self.limits)? else {
            return Ok(false);
        };
        let kind = frame.kind;
        if self.batch.is_failed && !matches!(kind, b'S' | b'X') {
            self.input.release();
            return Ok(true);
        }
        let context = &self.batch.context;
        if matches!(kind, b'Q' | b'E') {
            let db = context.shared.engine.database();
            before_request(db, context.thread, &mut self.last_window);
        }
        let next = match ClientMessage::read(frame) {
            Ok(message) => {
                while_present(
                    &self.stream,
                    &mut self.presence,
                    begin(&mut self.batch, message),
                )
                .await?
            }
            Err(error) => {
                context.counters().increment(Count::ProtocolErrors);
                // A batch that can neither be ended nor flushed cannot go on.
                if matches!(kind, b'S' | b'H' | b'X') {
                    return Err(error.into());
                }
                Err(SqlError::new(error.sqlstate(), error.to_string()))
            }
        };
        match next {
            Ok(Next::Nothing) => self.limit_kept(),
            Ok(Next::Query(text)) => self.simple_query(&text).await?,
            Ok(Next::Execute {
                name,
                portal,
                rows_max,
            }) => self.execute_message(&name, portal, rows_max).await?,
            Ok(Next::Flush) => self.send().await?,
            Ok(Next::Sync) => self.sync().await,
            Ok(Next::Terminate) => return Err(End::Closed),
            // These two are not followed by Sync.
            Err(error) if matches!(kind, b'Q' | b'F') => {
                self.batch.report(&error);
                self.end_batch();
            }
            Err(error) => self.fail(error).await,
        }
        Ok(true)
    }

    /// Runs a portal of the extended protocol.
    async fn execute_message(
        &mut self,
        name: &str,
        mut portal: Portal,
        rows_max: u32,
    ) -> Result<(), End> {
        let is_alone =
            rows_max == 0 && self.batch.executed == 0 && self.input.peek(self.limits) == Some(b'S');
        let scope = if is_alone { Scope::Alone } else { Scope::Part };
        self.batch.executed += 1;
        let outcome = self.run_portal(&mut portal, scope, rows_max).await?;
        let returned = self.batch.return_portal(name, portal);
        match outcome.and(returned) {
            Ok(()) => self.limit_kept(),
            // The engine has repeated it as often as it may.
            Err(error) if is_alone => self.skip_batch(&error),
            Err(error) => self.fail(error).await,
        }
        Ok(())
    }

    /// Ends a batch of the extended protocol: commits its implicit transaction.
    async fn sync(&mut self) {
        if !self.batch.is_failed
            && let Err(error) = self.batch.sql.sync().await
        {
            match self.batch.prepare_repeat(error).await {
                Ok(()) => return self.input.repeat(),
                Err(error) => self.batch.report(&error),
            }
        }
        self.end_batch();
    }

    /// Repeats the batch after an error, or reports it.
    async fn fail(&mut self, error: SqlError) {
        match self.batch.prepare_repeat(error).await {
            Ok(()) => self.input.repeat(),
            Err(error) => self.skip_batch(&error),
        }
    }

    /// Reports an error; the rest of the batch is skipped.
    fn skip_batch(&mut self, error: &SqlError) {
        self.batch.report(error);
        self.input.release();
    }

    /// Ends a batch: the session is ready for the next one.
    pub(super) fn end_batch(&mut self) {
        if !self.batch.is_fatal {
            self.batch.put_ready();
        }
        self.input.release();
        self.batch.begin();
    }

    /// Forgets the messages of a batch that is too long to be repeated.
    fn limit_kept(&mut self) {
        if self.input.kept() > KEPT_BYTES_MAX {
            self.input.release();
            self.batch.stop_repeating();
        }
    }
}

/// Does for a message what needs neither the input nor the connection.
async fn begin(batch: &mut Batch, message: ClientMessage<'_>) -> Result<Next, SqlError> {
    match message {
        ClientMessage::Query(text) => return Ok(Next::Query(text.to_owned())),
        ClientMessage::Parse { name, text, types } => batch.parse(name, text, &types).await?,
        ClientMessage::Bind(bind) => batch.bind(&bind)?,
        ClientMessage::Describe(target) => batch.describe(target)?,
        ClientMessage::Close(target) => batch.close(target),
        ClientMessage::Execute { portal, rows_max } => {
            return Ok(Next::Execute {
                name: portal.to_owned(),
                portal: batch.take_portal(portal)?,
                rows_max,
            });
        }
        ClientMessage::Flush => return Ok(Next::Flush),
        ClientMessage::Sync => return Ok(Next::Sync),
        ClientMessage::Terminate => return Ok(Next::Terminate),
        // The rest of a COPY that has failed.
        ClientMessage::CopyData(_) | ClientMessage::CopyDone | ClientMessage::CopyFail(_) => {}
        ClientMessage::Password(_) => {
            let message = "a password message without an authentication".to_owned();
            return Err(SqlError::new("08P01", message));
        }
        ClientMessage::FunctionCall => {
            let message = "function calls of the protocol are not supported".to_owned();
            let hint = "Call the function in a SELECT.";
            return Err(SqlError::new("0A000", message).with_hint(hint));
        }
    }
    Ok(Next::Nothing)
}
