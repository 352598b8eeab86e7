//! Connections that other nodes have dialled: hello, then frames until the connection ends.
//!
//! Each node and lane has one connection; a new one replaces the old, which may belong to a dead
//! process. Anything unexpected ends the connection: another kind of frame, a length beyond the
//! limit, silence.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout, timeout_at};

use crate::image_message::{IMAGE_MESSAGE_BYTES_MAX, ImageContent};
use crate::network::{NodeId, PeerMessage};
use crate::transport::connection_security::Accepted;
use crate::transport::frame::{
    FrameKind, FrameNonsense, IncomingFrame, OVERHEAD_BYTES_MAX, OutgoingFrame,
};
use crate::transport::frame_reader::{Buffered, FrameReadError, FrameReader};
use crate::transport::hello::{HELLO_FRAME_BYTES_MAX, Hello, Refusal};
use crate::transport::lane::Lane;
use crate::transport::settings::Limits;
use crate::transport::shared::{Context, Peer, Shared};
use crate::transport::stream::{Incoming, Outgoing};
use crate::transport::write_batch::WriteBatch;

/// Bytes that are read at once from a node.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Pause after a failure to accept: descriptors may be exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The reason for which a connection ends.
#[derive(Debug, thiserror::Error)]
enum EndReason {
    #[error(transparent)]
    Read(#[from] FrameReadError),
    #[error(transparent)]
    Nonsense(#[from] FrameNonsense),
    #[error("the other node is silent")]
    Silent,
    #[error("a frame did not arrive in time")]
    Slow,
    #[error("the other node does not read answers")]
    NotReading,
    #[error("the other node was replaced")]
    Superseded,
}

/// The open connections of nodes.
#[derive(Default)]
struct Registered {
    connections: Mutex<HashMap<(NodeId, Lane), AbortHandle>>,
}

/// Accepts connections of nodes, for ever.
pub(super) async fn accept(context: Context, listener: TcpListener) {
    let registered = Arc::new(Registered::default());
    let unauthenticated = Arc::new(Semaphore::new(
        context.shared.settings.limits.unauthenticated_max,
    ));
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Beyond the limit it is closed at once.
                let Ok(permit) = Arc::clone(&unauthenticated).try_acquire_owned() else {
                    continue;
                };
                let hello = say_hello(
                    context.clone(),
                    stream,
                    address,
                    permit,
                    Arc::clone(&registered),
                );
                context.spawn(hello);
            }
            Err(error) => {
                slog::warn!(context.shared.logger, "cannot accept a node"; "error" => %error);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn say_hello(
    context: Context,
    stream: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
    registered: Arc<Registered>,
) {
    let shared = &context.shared;
    // One timeout for the TLS handshake and the hello together.
    let until = (Instant::now() + shared.settings.timing.hello_timeout).into();
    // Without this option answers are only slower.
    let _ = stream.set_nodelay(true);
    let accepted = match timeout_at(until, shared.security.accept(stream)).await {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => return log_refusal(shared, address, &error),
        Err(_) => return,
    };
    let Accepted {
        from,
        mut to,
        shown,
    } = accepted;
    let mut reader = FrameReader::new(from, CHUNK_BYTES);
    let Ok(frame) = timeout_at(until, reader.next(HELLO_FRAME_BYTES_MAX)).await else {
        return;
    };
    let frame = frame.map_err(|error| match error {
        FrameReadError::SpeaksTls => Refusal::SpeaksTls,
        _ => Refusal::NoHello,
    });
    let checked = frame.and_then(|frame| {
        let standing = |node| shared.standing(node);
        Hello::check(IncomingFrame::of(frame), &shared.identity, standing)
    });
    let checked = checked.and_then(|(node, lane)| {
        if shown.is_node(node.number()) {
            Ok((node, lane))
        } else {
            Err(Refusal::Certificate)
        }
    });
    let checked = checked.and_then(|(node, lane)| {
        let peer = shared.peer_that_dialled(node);
        let peer = peer.ok_or(Refusal::UnknownNode)?;
        if peer.is_cut() {
            return Err(Refusal::Cut);
        }
        Ok((peer, lane))
    });
    if let Err(refusal) = &checked {
        log_refusal(shared, address, refusal);
    }
    let answer = shared.identity.answer(checked.as_ref().err().copied());
    let answered = timeout_at(until, write_frame(&mut to, answer)).await;
    drop(permit);
    if let (Ok((peer, lane)), Ok(Ok(()))) = (checked, answered) {
        let key = (peer.node, lane);
        let serving = serve(context.clone(), peer, lane, reader, to);
        let connection = context.spawn(serving);
        // The old connection is no longer polled: its messages cannot follow those of the new one.
        let mut connections = registered.connections.lock();
        // Connections of incarnations that no longer dial.
        connections.retain(|_, it| !it.is_finished());
        if let Some(old) = connections.insert(key, connection) {
            old.abort();
        }
    }
}

fn log_refusal(shared: &Shared, address: SocketAddr, reason: &dyn std::fmt::Display) {
    if let Some(suppressed) = shared.refusals_logged.admit(Instant::now()) {
        slog::warn!(shared.logger, "refused a node"; "address" => %address, "reason" => %reason,
            "suppressed" => suppressed);
    }
}

async fn write_frame(
    to: &mut (impl AsyncWrite + Unpin),
    frame: OutgoingFrame,
) -> std::io::Result<()> {
    let mut batch = WriteBatch::default();
    batch.push(frame);
    batch.seal();
    to.write_all_buf(&mut batch).await?;
    to.flush().await
}

fn frame_bytes_max(lane: Lane, limits: &Limits) -> usize {
    match lane {
        Lane::Control => 1 + limits.raft_bytes_max,
        Lane::Payloads(_) => OVERHEAD_BYTES_MAX + limits.payload_bytes_max,
        Lane::CatchUp => OVERHEAD_BYTES_MAX + limits.payload_bytes_max.max(IMAGE_MESSAGE_BYTES_MAX),
    }
}

async fn serve(
    context: Context,
    peer: Arc<Peer>,
    lane: Lane,
    mut reader: FrameReader<Incoming>,
    mut to: Outgoing,
) {
    let until_it_ends = async {
        loop {
            if let Err(reason) = receive(&context, &peer, lane, &mut reader, &mut to).await {
                return reason;
            }
        }
    };
    let reason = tokio::select! {
        reason = until_it_ends => reason,
        () = peer.closed() => EndReason::Superseded,
    };
    let logger = &context.shared.logger;
    let node = peer.node;
    match reason {
        // This is not logged: the other side dials again, or it was stopped.
        EndReason::Read(FrameReadError::Closed | FrameReadError::Io(_)) => {
            slog::debug!(logger, "a node hung up"; "node" => %node, "lane" => %lane);
        }
        reason => {
            slog::warn!(logger, "disconnected a node"; "node" => %node, "lane" => %lane,
                "reason" => %reason);
        }
    }
}

/// The message of a frame, without its length.
#[cfg(feature = "hostile-bytes")]
pub(super) fn received(frame: Bytes, lane: Lane) -> Result<PeerMessage, FrameNonsense> {
    decoded(IncomingFrame::of(frame), lane)
}

/// Decodes a message that may be kept. A short frame is a slice of a chunk with other frames, so its
/// bytes are copied: the chunk is used again at once, and is not kept alive by a few bytes.
fn decoded(frame: IncomingFrame, lane: Lane) -> Result<PeerMessage, FrameNonsense> {
    let own = |bytes: Bytes| {
        if bytes.len() <= CHUNK_BYTES {
            Bytes::copy_from_slice(&bytes)
        } else {
            bytes
        }
    };
    Ok(match frame.into_message(lane)? {
        PeerMessage::Raft(bytes) => PeerMessage::Raft(own(bytes)),
        PeerMessage::Start(bytes) => PeerMessage::Start(own(bytes)),
        PeerMessage::Payload { payload, bytes } => PeerMessage::Payload {
            payload,
            bytes: own(bytes),
        },
        PeerMessage::FetchedPayload { payload, bytes } => PeerMessage::FetchedPayload {
            payload,
            bytes: bytes.map(own),
        },
        PeerMessage::Image(mut message) => {
            if let ImageContent::Part { bytes, .. } = &mut message.content {
                *bytes = own(std::mem::take(bytes));
            }
            PeerMessage::Image(message)
        }
        message @ (PeerMessage::FetchPayloads { .. } | PeerMessage::Room(_)) => message,
    })
}

/// Receives the frames that have arrived, or waits for more.
async fn receive(
    context: &Context,
    peer: &Peer,
    lane: Lane,
    reader: &mut FrameReader<Incoming>,
    to: &mut Outgoing,
) -> Result<(), EndReason> {
    let settings = &context.shared.settings;
    let (timing, limit) = (settings.timing, frame_bytes_max(lane, &settings.limits));
    let frame = match reader.buffered(limit)? {
        Buffered::Frame(frame) => frame,
        Buffered::Part(_) => {
            let begun = timeout(timing.dead_after, reader.begin()).await;
            begun.map_err(|_| EndReason::Silent)??;
            let arrived = timeout(timing.message_timeout, reader.next(limit)).await;
            arrived.map_err(|_| EndReason::Slow)??
        }
    };
    if peer.is_cut() {
        return Ok(());
    }
    let frame = IncomingFrame::of(frame);
    if frame.kind == FrameKind::Ping as u8 {
        let pong = OutgoingFrame::of_body(FrameKind::Pong, Bytes::new());
        return match timeout(timing.dead_after, write_frame(to, pong)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(FrameReadError::Io(error).into()),
            Err(_) => Err(EndReason::NotReading),
        };
    }
    let message = decoded(frame, lane)?;
    let handling = peer.site.handling;
    if matches!(lane, Lane::Payloads(_)) && !handling.is_zero() {
        sleep(handling).await;
    }
    context.inbox.receive(peer.node, message);
    Ok(())
}
