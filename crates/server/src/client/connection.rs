//! Reading and sending, and the ends of a connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use namiki_sql::SqlError;
use tokio::time::{Instant, Sleep, sleep};

use super::batch::Batch;
use super::login::{Greeter, LoggedIn, stopping};
use super::presence::Presence;
use super::stream::{Accepted, Stream};
use crate::access::attempts::Admission;
use crate::flush::LastWindow;
use crate::metrics::Count;
use crate::shared::{Context, Phase};
use crate::wire::{FrameBuffer, FrameLimits, ProtocolError, Severity};

/// A session that was silent from one check to the next has freed what it keeps for its next statement.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client has closed it, or said so.
    Closed,
    /// It cannot be read or written.
    Io(io::Error),
    /// An error that is reported to the client, and ends the session.
    Fatal(SqlError),
    /// The error is in the output already.
    Reported,
    /// The server stops.
    Stopping,
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::Fatal(SqlError::new(error.sqlstate(), error.to_string()))
    }
}

/// A session's connection.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) input: FrameBuffer,
    pub(super) batch: Batch,
    pub(super) limits: FrameLimits,
    /// Ends when the server stops.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// When it is looked next whether the session is idle; `None` while it is, and has freed its memory.
    idle_check: Option<Pin<Box<Sleep>>>,
    /// Whether bytes have arrived since the last check.
    was_active: bool,
    pub(super) presence: Presence,
    pub(super) last_window: LastWindow,
}

/// Serves a client until its connection ends.
pub(crate) async fn serve(context: Context, accepted: Accepted, admission: Admission) {
    context.counters().increment(Count::Connections);
    let stream = match accepted.into_stream() {
        Ok(stream) => stream,
        Err(error) => {
            return slog::warn!(context.shared.logger, "cannot serve a client"; "error" => %error);
        }
    };
    // In memory of its own, which the session does not need.
    let greeting = Box::pin(Greeter::new(context.clone(), stream).greet(admission));
    let Some(logged_in) = greeting.await else {
        return;
    };
    let counters = context.counters();
    counters.increment(Count::Logins);
    let _ended = CountOnDrop(&context);
    // Both are held until the session ends.
    let LoggedIn {
        stream,
        input,
        output,
        sql,
        registration: _registration,
        permit: _permit,
    } = logged_in;
    let mut phase = context.shared.phase.subscribe();
    let mut connection = Connection {
        stream,
        input,
        batch: Batch::new(context.clone(), sql, output),
        limits: FrameLimits {
            long_bytes_max: context.shared.limits.message_bytes_max,
        },
        idle_check: None,
        was_active: true,
        presence: Presence::default(),
        last_window: LastWindow::default(),
        stop: Box::pin(async move {
            let _ = phase.wait_for(|phase| *phase > Phase::Serving).await;
        }),
    };
    let end = connection.run().await;
    connection.say_farewell(end).await;
}

/// Counts the end of a session, also if its task is dropped.
struct CountOnDrop<'a>(&'a Context);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.counters().increment(Count::EndedSessions);
    }
}

impl Connection {
    /// Waits until bytes have arrived.
    ///
    /// # Errors
    /// If the client has closed the connection, it has failed, the server stops, or the sessions
    /// have too many bytes of unfinished requests.
    pub(super) async fn read(&mut self) -> Result<(), End> {
        // Other clients may use the released bytes while this one is silent.
        self.batch.charge.set_buffered(self.input.len());
        let bytes = poll_fn(|context| self.poll_read(context)).await?;
        let counters = self.batch.context.counters();
        counters.add(Count::BytesReceived, bytes as u64);
        if self.batch.charge.set_buffered(self.input.len()) {
            return Ok(());
        }
        let message = "the sessions of this server have too many bytes of unfinished requests";
        let error = SqlError::new("53200", message.to_owned())
            .with_hint("Send shorter statements, or COPY rows in several messages.");
        Err(End::Fatal(error))
    }

    fn poll_read(&mut self, context: &mut task::Context<'_>) -> Poll<Result<usize, End>> {
        match self.stream.poll_read(context, &mut self.input) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(End::Closed)),
            Poll::Ready(Ok(bytes)) => {
                self.was_active = true;
                return Poll::Ready(Ok(bytes));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(End::Io(error))),
            Poll::Pending => {}
        }
        if self.stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(End::Stopping));
        }
        self.poll_idle(context);
        Poll::Pending
    }

    /// Frees memory if the client has been silent for a while. A read does not set a timer of its own: it leaves the one
    /// that there is, and a note.
    fn poll_idle(&mut self, context: &mut task::Context<'_>) {
        if self.was_active && self.idle_check.is_none() {
            self.idle_check = Some(Box::pin(sleep(IDLE_INTERVAL)));
        }
        while let Some(check) = &mut self.idle_check {
            if check.as_mut().poll(context).is_pending() {
                return;
            }
            if std::mem::take(&mut self.was_active) {
                check.as_mut().reset(Instant::now() + IDLE_INTERVAL);
            } else {
                self.idle_check = None;
                self.presence = Presence::default();
                self.batch.free_memory();
                self.input.free_memory();
            }
        }
    }

    /// Sends the output.
    ///
    /// # Errors
    /// If the connection has failed, or the client does not read.
    pub(super) async fn send(&mut self) -> Result<(), End> {
        let output = &mut self.batch.output;
        let bytes = output.unsent();
        if bytes.is_empty() {
            return Ok(());
        }
        let counters = self.batch.context.counters();
        counters.add(Count::BytesSent, bytes.len() as u64);
        let stall_max = self.batch.context.shared.limits.send_timeout;
        let sent = self.stream.write_all(bytes, stall_max).await;
        output.set_sent();
        sent.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                counters.increment(Count::SendTimeouts);
            }
            End::Io(error)
        })
    }

    /// Sends the last message of a session, if its client still reads.
    async fn say_farewell(&mut self, end: End) {
        let output = &mut self.batch.output;
        match end {
            End::Closed => return,
            End::Io(error) => {
                let logger = &self.batch.context.shared.logger;
                return slog::debug!(logger, "a connection failed"; "error" => %error);
            }
            End::Reported => {}
            End::Stopping => output.error(Severity::Fatal, &stopping()),
            End::Fatal(error) => {
                self.batch.context.counters().increment(Count::Errors);
                output.error(Severity::Fatal, &error);
            }
        }
        self.stream.write_last(self.batch.output.unsent()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what an asynchronous function returns.
    fn future_bytes<F: Future>(_: fn(Context, Accepted, Admission) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_session_takes_a_few_kilobytes() {
        let task = future_bytes(serve);
        let (connection, batch) = (size_of::<Connection>(), size_of::<Batch>());
        let sql = size_of::<namiki_sql::Connection>();
        println!("task {task}, connection {connection}, batch {batch}, engine's {sql} bytes");
        assert!(task <= 16 << 10, "{task} bytes");
    }
}
