//! The task of a client's connection: hello, then requests to the node and responses from it.
//!
//! The resources of a client are limited from the start: connections, bytes of a message that has
//! not arrived completely, the time of its arrival, the memory of a request, and unread responses.
//!
//! Fairness: large requests are decoded one at a time, and take half of the thread's time at most,
//! so short requests of other clients wait for one of them. A client that does not read its
//! responses, or was told that the node is busy, is not read from for some time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_client::protocol::{
    DecodedSize, DisconnectReason, HELLO_BYTES_MAX, MAGIC, MESSAGE_BYTES_MAX, PROTOCOL_VERSION,
    Request, Response, claimed_group, claimed_version, decode, decoded_size, encode,
};
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{Instant as Deadline, sleep, timeout, timeout_at};

use crate::network::{ClientName, ConnectionId};
use crate::transport::clients::ResponseQueue;
use crate::transport::connection_security::{Accepted, SecurityError, Shown};
use crate::transport::frame_reader::{Budget, Buffered, FrameReadError, FrameReader};
use crate::transport::shared::{Context, Shared};
use crate::transport::stream::{Incoming, Outgoing};

/// Bytes that are read at once from a client.
const CHUNK_BYTES: usize = 16 << 10;
/// Approximate limit on the bytes of responses that are written together.
const BATCH_BYTES: usize = 256 << 10;
/// Pause after a failure to accept: descriptors may be exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Silence after which the system probes the other machine (TCP keepalive).
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A request longer than this is large.
const LARGE_BYTES: usize = 64 << 10;
/// Largest number of bytes in memory for a byte of a request: a row without key and value has three
/// bytes, and takes 56 in a vector that may be half empty.
const GROWTH_MAX: usize = 40;
/// Time spent on large requests after which the thread is left to others for as long.
const LARGE_TIME: Duration = Duration::from_millis(2);

/// Admits large requests one at a time.
struct LargeRequests {
    turn: Semaphore,
    /// Time spent since the last pause.
    spent: Mutex<Duration>,
}

impl LargeRequests {
    fn new() -> Self {
        Self {
            turn: Semaphore::new(1),
            spent: Mutex::default(),
        }
    }

    /// Processes a request as the only large one, then leaves the thread to others.
    async fn run<T>(&self, process: impl FnOnce() -> T) -> T {
        // It fails only if the semaphore is closed, which it never is.
        let _turn = self.turn.acquire().await.ok();
        let begin = Instant::now();
        let result = process();
        let spent = {
            let mut spent = self.spent.lock();
            *spent += begin.elapsed();
            if *spent < LARGE_TIME {
                Duration::ZERO
            } else {
                std::mem::take(&mut *spent)
            }
        };
        if spent.is_zero() {
            yield_now().await;
        } else {
            sleep(spent).await;
        }
        result
    }
}

/// State of all connections of clients.
struct Admission {
    budget: Budget,
    large: LargeRequests,
}

/// The reason for which a connection ends.
#[derive(Debug, thiserror::Error)]
enum EndReason {
    #[error(transparent)]
    Read(#[from] FrameReadError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("a message did not arrive in time")]
    Slow,
    #[error("{0}")]
    Refused(String),
    #[error("the client belongs to cluster {0:032x}, and this is a node of another")]
    OtherCluster(u128),
    /// A response was written in part at most.
    #[error("the client does not read its responses")]
    NotReading,
    /// All responses that were written are whole.
    #[error("the client has too many unread responses")]
    Overflowed,
}

/// Accepts connections of clients, for ever.
pub(super) async fn accept(context: Context, listener: TcpListener) {
    let limits = context.shared.settings.limits;
    let unauthenticated = Arc::new(Semaphore::new(limits.unauthenticated_max));
    let admission = Arc::new(Admission {
        budget: Budget::of_bytes(limits.client_buffer_bytes_max),
        large: LargeRequests::new(),
    });
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Beyond the limit it is closed at once.
                let Ok(permit) = Arc::clone(&unauthenticated).try_acquire_owned() else {
                    continue;
                };
                let admission = Arc::clone(&admission);
                let serving = serve(context.clone(), stream, address, permit, admission);
                context.spawn(serving);
            }
            Err(error) => {
                slog::warn!(context.shared.logger, "cannot accept a client"; "error" => %error);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    context: Context,
    stream: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
    admission: Arc<Admission>,
) {
    let shared = &context.shared;
    // Without these options responses are slower, and a dead machine is detected later.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    // One timeout for the TLS handshake and the hello together.
    let until = Deadline::now() + shared.settings.timing.hello_timeout;
    let ended = match timeout_at(until, shared.security.accept(stream)).await {
        Ok(Ok(Accepted {
            from,
            mut to,
            shown,
        })) => {
            let budget = admission.budget.clone();
            let mut reader = FrameReader::with_budget(from, CHUNK_BYTES, budget);
            let result = say_hello(shared, &mut reader, &shown, until).await;
            drop(permit);
            match result {
                Ok(()) => {
                    let name = shown.client(address.ip());
                    serve_client(&context, &admission, &name, reader, &mut to).await
                }
                Err(reason) => {
                    refuse(shared, &mut to, &reason).await;
                    reason
                }
            }
        }
        Ok(Err(error)) => error.into(),
        Err(_) => EndReason::Slow,
    };
    match &ended {
        EndReason::Read(FrameReadError::Closed | FrameReadError::Io(_)) => return,
        EndReason::Security(error) if error.is_hang_up() => return,
        _ => {}
    }
    if let Some(suppressed) = shared.refusals_logged.admit(Instant::now()) {
        slog::warn!(shared.logger, "disconnected a client"; "address" => %address,
            "reason" => %ended, "suppressed" => suppressed);
    }
}

async fn say_hello(
    shared: &Shared,
    reader: &mut FrameReader<Incoming>,
    shown: &Shown,
    until: Deadline,
) -> Result<(), EndReason> {
    let frame = timeout_at(until, reader.next(HELLO_BYTES_MAX)).await;
    let frame = frame
        .map_err(|_| EndReason::Slow)?
        .map_err(|error| match error {
            // Plain bytes tell the client that this side does not speak TLS.
            FrameReadError::SpeaksTls => EndReason::Refused(error.to_string()),
            error => error.into(),
        })?;
    if !shown.is_of_the_cluster() {
        return Err(EndReason::Refused(
            "the certificate is for another cluster, or has no name of this one; issue one with the name client.CLUSTER.namiki"
                .to_owned(),
        ));
    }
    if let Some(version) = claimed_version(&frame)
        && version != u64::from(PROTOCOL_VERSION)
    {
        return Err(EndReason::Refused(format!(
            "this node speaks version {PROTOCOL_VERSION} of the protocol, not {version}; use a client of the same version"
        )));
    }
    let own = shared.identity.cluster;
    match decode(&frame) {
        Ok(Request::Hello {
            magic: MAGIC,
            version: PROTOCOL_VERSION,
            cluster,
        }) if cluster == 0 || cluster == own => Ok(()),
        Ok(Request::Hello {
            magic: MAGIC,
            version: PROTOCOL_VERSION,
            cluster,
        }) => Err(EndReason::OtherCluster(cluster)),
        _ => Err(EndReason::Refused(
            "the first message must be a hello of Namiki's protocol for clients".to_owned(),
        )),
    }
}

/// Sends a client the reason for the end of its connection, if it still reads.
async fn refuse(shared: &Shared, to: &mut Outgoing, reason: &EndReason) {
    let refused = match reason {
        EndReason::Refused(reason) => Response::Refused {
            request: 0,
            reason: reason.clone(),
        },
        EndReason::OtherCluster(_) => Response::OtherCluster {
            cluster: shared.identity.cluster,
        },
        EndReason::Overflowed => Response::Disconnected {
            reason: DisconnectReason::NotReading,
        },
        _ => return,
    };
    let mut bytes = Vec::new();
    if encode(&refused, &mut bytes).is_ok() {
        let within = shared.settings.timing.hello_timeout;
        let written = async {
            to.write_all(&bytes).await?;
            to.flush().await
        };
        let _ = timeout(within, written).await;
    }
}

/// A connected client. Its end is announced even if the task is dropped.
struct Registered<'a> {
    context: &'a Context,
    id: ConnectionId,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.context.shared.clients.remove(self.id);
        // While a panic unwinds, the inbox may have caused it.
        if !std::thread::panicking() {
            self.context.inbox.client_gone(self.id);
        }
    }
}

async fn serve_client(
    context: &Context,
    admission: &Admission,
    name: &ClientName,
    mut reader: FrameReader<Incoming>,
    to: &mut Outgoing,
) -> EndReason {
    let shared = &context.shared;
    let limits = shared.settings.limits;
    let registered = shared.clients.register(
        limits.client_connections_max,
        limits.client_response_bytes_max,
    );
    let Some((id, queue)) = registered else {
        let reason = EndReason::Refused(format!(
            "this node has {} connections of clients, its limit; close some",
            shared.clients.count()
        ));
        refuse(shared, to, &reason).await;
        return reason;
    };
    let _registered = Registered { context, id };
    let welcome = Response::Welcome {
        version: PROTOCOL_VERSION,
        cluster: shared.identity.cluster,
        node: shared.identity.node.number(),
        group_commands_max: shared.settings.group_commands_max,
        addresses: shared.client_addresses(),
    };
    queue.push(welcome, &shared.client_wakeups);
    let client = ConnectedClient {
        context,
        admission,
        id,
        name,
        queue: &queue,
    };
    let reason = tokio::select! {
        reason = client.read_requests(&mut reader) => reason,
        reason = write_responses(shared, &queue, to) => match reason {
            EndReason::Overflowed => reason,
            reason => return reason,
        },
    };
    refuse(shared, to, &reason).await;
    reason
}

/// A client after its hello.
struct ConnectedClient<'a> {
    context: &'a Context,
    admission: &'a Admission,
    id: ConnectionId,
    name: &'a ClientName,
    queue: &'a ResponseQueue,
}

impl ConnectedClient<'_> {
    async fn read_requests(&self, reader: &mut FrameReader<Incoming>) -> EndReason {
        loop {
            if let Err(reason) = self.read_request(reader).await {
                return reason;
            }
        }
    }

    async fn read_request(&self, reader: &mut FrameReader<Incoming>) -> Result<(), EndReason> {
        let settings = &self.context.shared.settings;
        let limit = settings
            .limits
            .client_message_bytes_max
            .min(MESSAGE_BYTES_MAX);
        self.queue.until_readable().await;
        let frame = match reader.buffered(limit)? {
            Buffered::Frame(frame) => frame,
            Buffered::Part(_) => {
                // Between two messages a client may be silent.
                reader.begin().await?;
                let arrived = timeout(settings.timing.message_timeout, reader.next(limit)).await;
                arrived.map_err(|_| EndReason::Slow)??
            }
        };
        if frame.len() <= LARGE_BYTES {
            return self.take(&frame);
        }
        self.admission.large.run(|| self.take(&frame)).await
    }

    /// Decodes a request and passes it on.
    fn take(&self, frame: &[u8]) -> Result<(), EndReason> {
        let shared = &self.context.shared;
        // Before memory is allocated for it.
        if let Some(refused) = self.too_large(frame)? {
            self.queue.push(refused, &shared.client_wakeups);
            return Ok(());
        }
        let request = decode(frame).map_err(|error| EndReason::Refused(error.to_string()))?;
        match request {
            Request::Hello { .. } => Err(EndReason::Refused(
                "a hello may only be the first message of a connection".to_owned(),
            )),
            Request::CutLinks { nodes } => {
                self.queue
                    .push(cut_links(shared, nodes), &shared.client_wakeups);
                Ok(())
            }
            request => {
                (self.context.inbox).request(self.id, self.name, request);
                Ok(())
            }
        }
    }

    /// The answer to a request that would take too much memory.
    fn too_large(&self, frame: &[u8]) -> Result<Option<Response>, EndReason> {
        let settings = &self.context.shared.settings;
        let commands_max = settings.group_commands_max;
        if let Some(claimed) = claimed_group(frame)
            && claimed.commands > u64::from(commands_max)
        {
            let reason = format!(
                "a group of {} commands exceeds the limit of {commands_max}; send several groups",
                claimed.commands
            );
            return Ok(Some(Response::Refused {
                request: claimed.group,
                reason,
            }));
        }
        // A short one is short in memory, too: it needs no pass over its bytes.
        let bytes_max = settings.limits.client_request_bytes_max;
        if frame.len().saturating_mul(GROWTH_MAX) <= bytes_max {
            return Ok(None);
        }
        let size = decoded_size(frame).map_err(|error| EndReason::Refused(error.to_string()))?;
        let Some(DecodedSize {
            request,
            items,
            bytes,
        }) = size
        else {
            return Ok(None);
        };
        let keys_max = settings.limits.read_keys_max;
        let reason = if items > u64::from(keys_max) && claimed_group(frame).is_none() {
            format!("a read of {items} keys exceeds the limit of {keys_max}; send several")
        } else if bytes > bytes_max {
            format!(
                "the request takes {bytes} bytes of memory, and the limit is {bytes_max}; send several shorter ones"
            )
        } else {
            return Ok(None);
        };
        Ok(Some(Response::Refused { request, reason }))
    }
}

fn cut_links(shared: &Shared, nodes: Vec<u64>) -> Response {
    if shared.settings.allow_cuts {
        shared.cut(&nodes);
        return Response::LinksCut { nodes };
    }
    Response::Refused {
        request: 0,
        reason: "this node does not cut links; set `allow_cuts = true` in its configuration, in a test cluster"
            .to_owned(),
    }
}

async fn write_responses(shared: &Shared, queue: &ResponseQueue, to: &mut Outgoing) -> EndReason {
    let dead_after = shared.settings.timing.dead_after;
    let mut responses = VecDeque::new();
    let mut bytes = Vec::new();
    loop {
        if queue.take(&mut responses, BATCH_BYTES).is_err() {
            return EndReason::Overflowed;
        }
        if responses.is_empty() {
            queue.wake.notified().await;
            continue;
        }
        bytes.clear();
        for response in responses.drain(..) {
            if let Err(error) = encode(&response, &mut bytes) {
                return EndReason::Refused(error.to_string());
            }
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match timeout(dead_after, to.write(rest)).await {
                Ok(Ok(0)) | Err(_) => return EndReason::NotReading,
                Ok(Ok(written)) => rest = &rest[written..],
                Ok(Err(error)) => return FrameReadError::Io(error).into(),
            }
        }
        match timeout(dead_after, to.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return FrameReadError::Io(error).into(),
            Err(_) => return EndReason::NotReading,
        }
        if bytes.capacity() > 4 * BATCH_BYTES {
            bytes = Vec::new();
        }
        queue.written();
    }
}
