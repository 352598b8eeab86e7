//! The task of a lane to another node: dials, says hello, writes frames, and dials again.
//!
//! Data goes one way on a connection, from the node that dialled. The other answers pings, so that
//! a node that disappears silently (a stopped process, a cable) is detected.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::transport::backoff::Backoff;
use crate::transport::connection_security::SecurityError;
use crate::transport::frame::{FrameKind, IncomingFrame, OutgoingFrame};
use crate::transport::frame_reader::{FrameReadError, FrameReader};
use crate::transport::hello::{HELLO_FRAME_BYTES_MAX, Hello, Refusal, check_answer};
use crate::transport::lane::Lane;
use crate::transport::lane_queue::{LaneQueue, Left};
use crate::transport::precise_timer::PreciseTimer;
use crate::transport::shared::{Context, Peer};
use crate::transport::stream::{Incoming, Outgoing};
use crate::transport::write_batch::WriteBatch;

/// Approximate limit on the bytes of frames that are written together.
const BATCH_BYTES: usize = 1 << 20;
/// Interval of checks of a cut link.
const CUT_INTERVAL: Duration = Duration::from_millis(100);
/// Answers to pings are short.
const ANSWER_CHUNK_BYTES: usize = 64;

/// The reason for which a lane is down.
#[derive(Debug, thiserror::Error)]
enum LaneError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("its address is not known")]
    NoAddress,
    #[error("the other node does not answer")]
    Silent,
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Read(#[from] FrameReadError),
    #[error("the connection is broken: {0}")]
    Write(io::Error),
    #[error("the timer failed: {0}")]
    Timer(io::Error),
    #[error("the other node sent a frame of kind {0} that does not belong here")]
    Unexpected(u8),
}

impl LaneError {
    /// Whether the identities, versions or certificates of the two nodes do not fit. An operator
    /// has to compare their configurations; the reason says which part.
    fn is_mismatch(&self) -> bool {
        match self {
            Self::Security(error) => !error.is_hang_up(),
            Self::Refused(refusal) => *refusal != Refusal::Cut,
            _ => false,
        }
    }
}

/// Keeps a lane up until the other node is no longer a member.
pub(super) async fn run(context: Context, peer: Arc<Peer>, lane: Lane) {
    tokio::select! {
        () = keep_up(&context, &peer, lane) => {}
        () = peer.closed() => {
            let (logger, node) = (&context.shared.logger, peer.node);
            slog::debug!(logger, "a lane ends: the other node is no member any more"; "lane" => %lane, "node" => %node);
        }
    }
}

async fn keep_up(context: &Context, peer: &Peer, lane: Lane) {
    let Some(queue) = peer.lane(lane) else {
        return;
    };
    let timing = context.shared.settings.timing;
    let mut backoff = Backoff::new(timing.reconnect_first, timing.reconnect_longest);
    let mut reported = String::new();
    let mut attempt = 0;
    loop {
        if peer.is_cut() {
            sleep(CUT_INTERVAL).await;
            continue;
        }
        let error = match connect(context, peer, lane, attempt).await {
            Ok(connection) => {
                backoff.reset();
                reported.clear();
                serve(context, peer, lane, queue, connection).await
            }
            Err(error) => {
                attempt += 1;
                error
            }
        };
        if matches!(error, LaneError::Refused(Refusal::Gone)) {
            // This node stops.
            return context.inbox.gone(peer.node);
        }
        // A reason is logged once, not for every attempt.
        let reason = error.to_string();
        if reported != reason {
            let logger = &context.shared.logger;
            let node = peer.node;
            if error.is_mismatch() {
                slog::warn!(logger, "a lane is down"; "lane" => %lane, "node" => %node, "reason" => &reason);
            } else {
                slog::info!(logger, "a lane is down"; "lane" => %lane, "node" => %node, "reason" => &reason);
            }
            reported = reason;
        }
        sleep(backoff.wait()).await;
    }
}

/// A welcome connection: the reader of answers, and the writer.
type Connection = (FrameReader<Incoming>, Outgoing);

async fn connect(
    context: &Context,
    peer: &Peer,
    lane: Lane,
    attempt: usize,
) -> Result<Connection, LaneError> {
    let own = &context.shared.identity;
    let hello = Hello {
        cluster: own.cluster,
        from: own.node,
        to: peer.node,
        lane,
        workers: own.workers,
        founders: own.founders,
    };
    let connected = async {
        let address = peer.site.peer_address(attempt);
        let connected = TcpStream::connect(address.ok_or(LaneError::NoAddress)?).await;
        let stream = connected.map_err(LaneError::Connect)?;
        stream.set_nodelay(true).map_err(LaneError::Connect)?;
        let security = &context.shared.security;
        let (from, mut to) = security.connect(stream, peer.node.number()).await?;
        let mut batch = WriteBatch::default();
        batch.push(hello.to_frame());
        batch.seal();
        let written = to.write_all_buf(&mut batch).await;
        written.map_err(LaneError::Write)?;
        to.flush().await.map_err(LaneError::Write)?;
        // The answer is one frame, and nothing follows before a ping.
        let mut reader = FrameReader::new(from, ANSWER_CHUNK_BYTES);
        let answer = IncomingFrame::of(reader.next(HELLO_FRAME_BYTES_MAX).await?);
        check_answer(answer, peer.node)?;
        Ok((reader, to))
    };
    let within = context.shared.settings.timing.hello_timeout;
    timeout(within, connected)
        .await
        .unwrap_or(Err(LaneError::Silent))
}

/// Writes queued frames until the connection ends.
async fn serve(
    context: &Context,
    peer: &Peer,
    lane: Lane,
    queue: &LaneQueue,
    (reader, to): Connection,
) -> LaneError {
    let open = Open::new(context, peer, lane, queue);
    let unanswered = AtomicU32::new(0);
    let error = tokio::select! {
        error = write_frames(context, peer, queue, to, &unanswered) => error,
        error = read_answers(peer, reader, &unanswered) => error,
    };
    drop(open);
    error
}

/// An open lane. Its end is announced even if the task is dropped.
struct Open<'a> {
    context: &'a Context,
    peer: &'a Peer,
    lane: Lane,
    queue: &'a LaneQueue,
}

impl<'a> Open<'a> {
    fn new(context: &'a Context, peer: &'a Peer, lane: Lane, queue: &'a LaneQueue) -> Self {
        queue.open();
        if lane == Lane::Control {
            let node = peer.node;
            slog::info!(context.shared.logger, "a node is connected"; "node" => %node);
            context.inbox.connected(node);
        }
        Self {
            context,
            peer,
            lane,
            queue,
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.queue.close();
        // While a panic unwinds, the inbox may have caused it.
        if self.lane == Lane::Control && !std::thread::panicking() {
            self.context.inbox.disconnected(self.peer.node);
        }
    }
}

async fn write_frames(
    context: &Context,
    peer: &Peer,
    queue: &LaneQueue,
    mut to: Outgoing,
    unanswered: &AtomicU32,
) -> LaneError {
    let timing = context.shared.settings.timing;
    let pings_max = timing.dead_after.as_nanos() / timing.keepalive.as_nanos().max(1);
    let timer = match PreciseTimer::new() {
        Ok(timer) => timer,
        Err(error) => return LaneError::Timer(error),
    };
    let mut pings = interval(timing.keepalive);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut batch = WriteBatch::default();
    loop {
        let left = queue.take(&mut batch, Instant::now(), BATCH_BYTES);
        if batch.is_empty() {
            let due = match left {
                Left::Later(due) => Some(due),
                Left::Nothing | Left::More => None,
            };
            let wait_for_due = async {
                match due {
                    Some(due) => timer.until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = queue.wake.notified() => continue,
                waited = wait_for_due => match waited {
                    Ok(()) => continue,
                    Err(error) => return LaneError::Timer(error),
                },
                _ = pings.tick() => {
                    if u128::from(unanswered.fetch_add(1, Ordering::Relaxed)) >= pings_max {
                        return LaneError::Silent;
                    }
                    batch.push(OutgoingFrame::of_body(FrameKind::Ping, Bytes::new()));
                }
            }
        }
        if peer.is_cut() {
            batch.clear();
            continue;
        }
        batch.seal();
        while batch.has_remaining() {
            match timeout(timing.dead_after, to.write_buf(&mut batch)).await {
                Ok(Ok(0)) | Err(_) => return LaneError::Silent,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return LaneError::Write(error),
            }
        }
        match timeout(timing.dead_after, to.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return LaneError::Write(error),
            Err(_) => return LaneError::Silent,
        }
    }
}

async fn read_answers(
    peer: &Peer,
    mut reader: FrameReader<Incoming>,
    unanswered: &AtomicU32,
) -> LaneError {
    loop {
        let frame = match reader.next(HELLO_FRAME_BYTES_MAX).await {
            Ok(frame) => IncomingFrame::of(frame),
            Err(error) => return error.into(),
        };
        if frame.kind != FrameKind::Pong as u8 {
            return LaneError::Unexpected(frame.kind);
        }
        if !peer.is_cut() {
            unanswered.store(0, Ordering::Relaxed);
        }
    }
}
