//! Running a portal: its rows, and COPY.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use namiki_sql::{Portal, Progress, RowSink as _, Scope, SqlError};

use super::connection::{Connection, End};
use super::presence::Presence;
use super::stream::Stream;
use crate::metrics::Count;
use crate::wire::ClientMessage;

/// Bytes of COPY that are worked on before other sessions have their turn.
const COPIED_AT_ONCE: usize = 256 << 10;

/// Waits for a step of a statement. One that takes long is dropped, and cancelled by that, if its client has gone.
///
/// # Errors
/// [`End::Closed`] if the client has gone.
pub(super) async fn while_present<T>(
    stream: &Stream,
    presence: &mut Presence,
    step: impl Future<Output = T>,
) -> Result<T, End> {
    let mut step = pin!(step);
    poll_fn(|context| {
        if let Poll::Ready(done) = step.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        if presence.poll_gone(stream, context) {
            return Poll::Ready(Err(End::Closed));
        }
        Poll::Pending
    })
    .await
}

impl Connection {
    /// Runs a portal until its rows end or `rows_max` of them are written (0: all). The inner result
    /// is that of the statement.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) async fn run_portal(
        &mut self,
        portal: &mut Portal,
        scope: Scope,
        rows_max: u32,
    ) -> Result<Result<(), SqlError>, End> {
        self.batch.output.begin_rows();
        let mut copies_out = false;
        loop {
            let written = self.batch.output.rows();
            let rest = u64::from(rows_max).saturating_sub(written);
            if rows_max > 0 && rest == 0 {
                self.batch.output.portal_suspended();
                return Ok(Ok(()));
            }
            // It is not more than `rows_max`.
            let rest = u32::try_from(rest).unwrap_or(u32::MAX);
            let mark = self.batch.output.mark();
            let progress = self.execute(portal, scope, rest).await?;
            let output = &mut self.batch.output;
            if output.take_overflow() {
                output.rewind(mark);
                let message = "a row is longer than a message of the protocol can be";
                return Ok(Err(SqlError::new("54000", message.to_owned())));
            }
            match progress {
                Ok(Progress::SinkFull) => self.send().await?,
                Ok(Progress::Suspended) => {
                    output.portal_suspended();
                    return Ok(Ok(()));
                }
                Ok(Progress::Empty) => {
                    output.empty_query();
                    return Ok(Ok(()));
                }
                Ok(Progress::CopyOut { columns, binary }) => {
                    output.copy_out(columns, binary);
                    copies_out = true;
                }
                Ok(Progress::CopyIn { columns, binary }) => {
                    output.copy_in(columns, binary);
                    // In memory of its own, which other statements do not need.
                    match Box::pin(self.receive_rows()).await? {
                        Ok(progress) => return Ok(self.complete(portal, progress, false)),
                        Err(error) => return Ok(Err(error)),
                    }
                }
                Ok(progress @ Progress::Complete(_)) => {
                    return Ok(self.complete(portal, progress, copies_out));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Writes the end of a statement.
    fn complete(
        &mut self,
        portal: &Portal,
        progress: Progress,
        copies_out: bool,
    ) -> Result<(), SqlError> {
        let Progress::Complete(tag) = progress else {
            let message = "a statement has ended without a result".to_owned();
            return Err(SqlError::new("XX000", message));
        };
        self.batch.put_notices();
        if copies_out {
            self.batch.output.copy_done();
        }
        self.batch.output.command_complete(&tag);
        self.batch.deallocate(portal);
        Ok(())
    }

    /// One step of a portal.
    async fn execute(
        &mut self,
        portal: &mut Portal,
        scope: Scope,
        rows_max: u32,
    ) -> Result<Result<Progress, SqlError>, End> {
        self.batch.context.counters().increment(Count::Executes);
        let batch = &mut self.batch;
        let step = batch
            .sql
            .execute(portal, scope, rows_max, &mut batch.output);
        while_present(&self.stream, &mut self.presence, step).await
    }

    /// Receives the rows of COPY FROM STDIN. After an error, rows that still arrive are skipped by
    /// the session's loop.
    async fn receive_rows(&mut self) -> Result<Result<Progress, SqlError>, End> {
        // The rows are not kept for a repetition.
        self.batch.stop_repeating();
        self.send().await?;
        loop {
            self.input.release();
            let Some(frame) = self.input.next(self.limits)? else {
                self.read().await?;
                continue;
            };
            match ClientMessage::read(frame)? {
                ClientMessage::CopyData(data) => {
                    // One message must not keep the thread from others.
                    for part in data.chunks(COPIED_AT_ONCE) {
                        if let Err(error) = self.batch.sql.copy_data(part).await {
                            return Ok(Err(error));
                        }
                        if part.len() == COPIED_AT_ONCE {
                            tokio::task::yield_now().await;
                        }
                    }
                    if let Err(error) = self.batch.hold_copied() {
                        // The COPY ends, by another error than that of a client's own end.
                        drop(self.batch.sql.copy_failed("").await);
                        return Ok(Err(error));
                    }
                    tokio::task::coop::consume_budget().await;
                }
                ClientMessage::CopyDone => return Ok(self.batch.sql.copy_done().await),
                ClientMessage::CopyFail(reason) => {
                    return Ok(Err(self.batch.sql.copy_failed(reason).await));
                }
                ClientMessage::Flush | ClientMessage::Sync => {}
                ClientMessage::Terminate => return Err(End::Closed),
                _ => {
                    let message = "unexpected message during COPY from stdin".to_owned();
                    return Err(End::Fatal(SqlError::new("08P01", message)));
                }
            }
        }
    }
}
