//! The transport: TCP between nodes, and between clients and a node.
//!
//! ```text
//!  raft ── send ──> control lane queue ─┐                                  ┌─> Inbox::receive ──> raft
//!  worker w ──────> lane w queue ───────┤ one task a lane:                 │
//!  repair ────────> catch-up queue ─────┘ frames, batched ── connection ───┘ one task a connection
//!
//!  applier ── reply ──> a client's queue ── its task ── connection ──> client ── requests ──> Inbox::request
//! ```
//!
//! The transport has two threads, each with a runtime: one for nodes, and one for clients. A request
//! of any size is read, decoded and accepted in the clients' thread, so no heartbeat waits for it
//! (T4). Other threads of the node only push into queues. A
//! node dials every other node once for each lane and writes only on connections that it dialled,
//! so each lane has its own order, limit and failures.
//!
//! | file | contents |
//! |---|---|
//! | `settings.rs`, `error.rs` | settings and errors |
//! | `shared.rs` | state shared by all threads: [`Network`] |
//! | `site.rs` | where the nodes of a number are reached |
//! | `lane.rs`, `lane_queue.rs` | lanes, and their queues |
//! | `outgoing.rs`, `backoff.rs`, `write_batch.rs` | a lane's task |
//! | `incoming.rs`, `hello.rs` | connections of other nodes |
//! | `client_connection.rs`, `clients.rs` | connections of clients |
//! | `connection_security.rs`, `tls.rs`, `stream.rs` | protected connections, with the feature `tls` |
//! | `frame.rs`, `frame_reader.rs` | bytes |
//! | `connections.rs` | the state of the connections, for an observer |
//! | `delay.rs`, `precise_timer.rs` | emulated distances on one machine |
//! | `wakeups.rs`, `log_limiter.rs` | |
//!
//! # Invariants
//! - T1. Memory is bounded for any input: a length is checked before it is used, and every queue
//!   has a limit.
//! - T2. Messages of one lane arrive in order. Some may be missing: repair and Raft send them
//!   again.
//! - T3. Nothing here blocks a thread of the node longer than a short critical section.
//! - T4. No work for a client runs in the network thread: a leader that is flooded by requests
//!   still sends its heartbeats.
//!
//! Paper: raft-pwal §3.1, §3.3

mod backoff;
mod client_connection;
mod clients;
mod connection_security;
mod connections;
mod delay;
mod error;
mod frame;
mod frame_reader;
mod hello;
#[cfg(feature = "hostile-bytes")]
#[doc(hidden)]
pub mod hostile_bytes;
mod incoming;
mod lane;
mod lane_queue;
mod log_limiter;
mod outgoing;
mod precise_timer;
mod settings;
mod shared;
mod site;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod wakeups;
mod write_batch;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

pub use connection_security::NodeSecurity;
pub(crate) use connections::{Connections, PeerConnections};
pub use delay::City;
pub use error::TransportError;
pub use settings::{Limits, PeerSettings, Timing, TransportSettings};
#[cfg(feature = "tls")]
pub use tls::NodeTls;

use crate::network::{Inbox, Network, NodeId};
use crate::transport::lane::Lane;
use crate::transport::shared::{Context, Shared};

/// Length of the listen backlog.
const BACKLOG: i32 = 1024;
/// Time that the end of the runtime waits for name look-ups.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// The two sockets that a node listens at.
#[derive(Debug)]
pub struct Listeners {
    /// For nodes.
    pub peers: TcpListener,
    /// For clients.
    pub clients: TcpListener,
}

impl Listeners {
    /// Binds both addresses, each a host name or IP address, and a port.
    ///
    /// # Errors
    /// [`TransportError::Listen`].
    pub fn bind(peers: &str, clients: &str) -> Result<Self, TransportError> {
        Ok(Self {
            peers: listen(peers, "nodes", "peer_listen")?,
            clients: listen(clients, "clients", "client_listen")?,
        })
    }
}

/// Listens at an address, which this key of the configuration names.
pub(crate) fn listen(
    address: &str,
    from: &'static str,
    key: &'static str,
) -> Result<TcpListener, TransportError> {
    bind(address).map_err(|source| TransportError::Listen {
        from,
        address: address.to_owned(),
        key,
        source,
    })
}

fn bind(address: &str) -> io::Result<TcpListener> {
    let mut failure = None;
    for address in address.to_socket_addrs()? {
        match bind_one(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::other("the name has no address")))
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // A restarted node may listen at once, although connections of the old one linger.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A transport that is bound, and does nothing yet. Sent messages are dropped.
pub struct Transport {
    listeners: Listeners,
    shared: Arc<Shared>,
}

impl Transport {
    /// Takes listening sockets. Nothing is accepted before [`start`](Self::start).
    #[must_use]
    pub fn new(
        listeners: Listeners,
        settings: TransportSettings,
        security: NodeSecurity,
        logger: slog::Logger,
    ) -> Self {
        Self {
            listeners,
            shared: Arc::new(Shared::new(settings, security, logger)),
        }
    }

    /// The handle with which the node sends.
    #[must_use]
    pub fn network(&self) -> Arc<dyn Network> {
        Arc::clone(&self.shared) as _
    }

    /// Starts the network thread, which dials the other nodes and accepts them, and the thread of
    /// the clients.
    ///
    /// # Errors
    /// [`TransportError::Start`].
    pub fn start(self, inbox: Arc<dyn Inbox>) -> Result<RunningTransport, TransportError> {
        let Listeners { peers, clients } = self.listeners;
        let shared = Arc::clone(&self.shared);
        let context = Context {
            shared: Arc::clone(&shared),
            inbox,
        };
        // If one of them cannot be started, the other ends with this.
        let mut running = RunningTransport {
            shared,
            threads: Vec::new(),
        };
        let of_nodes = start_thread("network", peers, {
            let context = context.clone();
            move |peers| run(context, peers)
        });
        running.threads.push(of_nodes?);
        let of_clients = start_thread("clients", clients, move |clients| {
            run_clients(context, clients)
        });
        running.threads.push(of_clients?);
        Ok(running)
    }
}

/// Starts a thread with a runtime, which runs a task with a listener.
fn start_thread<F: Future<Output = ()>>(
    name: &str,
    listener: TcpListener,
    task: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static,
) -> Result<JoinHandle<()>, TransportError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(TransportError::Start)?;
    let register = async {
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    let listener = runtime.block_on(register).map_err(TransportError::Start)?;
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            runtime.block_on(task(listener));
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        })
        .map_err(TransportError::Start)
}

async fn run(context: Context, peers: tokio::net::TcpListener) {
    context.spawn(incoming::accept(context.clone(), peers));
    context.spawn(dial_peers(context.clone()));
    tokio::select! {
        () = context.shared.wakeups.dispatch() => {}
        () = context.shared.stop.network.notified() => {}
    }
}

async fn run_clients(context: Context, clients: tokio::net::TcpListener) {
    context.spawn(client_connection::accept(context.clone(), clients));
    tokio::select! {
        () = context.shared.client_wakeups.dispatch() => {}
        () = context.shared.stop.clients.notified() => {}
    }
}

/// Dials nodes as they become members, or dial this node.
async fn dial_peers(context: Context) {
    loop {
        for peer in context.shared.take_added() {
            for lane in Lane::all(context.shared.identity.workers) {
                context.spawn(outgoing::run(context.clone(), Arc::clone(&peer), lane));
            }
        }
        context.shared.peers_added.notified().await;
    }
}

/// A running transport. It stops when it is dropped.
pub struct RunningTransport {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningTransport {
    /// The handle with which the node sends.
    #[must_use]
    pub fn network(&self) -> Arc<dyn Network> {
        Arc::clone(&self.shared) as _
    }

    /// The state of its connections.
    #[must_use]
    pub(crate) fn connections(&self) -> Connections {
        Connections::new(Arc::clone(&self.shared))
    }

    /// Whether both threads are running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let mut threads = self.threads.iter();
        threads.all(|thread| !thread.is_finished())
            && !self.shared.stop.failed.load(Ordering::Relaxed)
    }

    /// Number of open lanes to a node: at most two more than the number of workers.
    #[must_use]
    pub fn lanes_up(&self, node: NodeId) -> usize {
        self.shared.lanes_up(node)
    }

    /// Number of messages to a node that were dropped for lack of room or of a connection.
    #[must_use]
    pub fn dropped(&self, node: NodeId) -> u64 {
        self.shared.dropped(node)
    }

    /// Number of messages that were sent to a node or a lane that does not exist: a mistake of the
    /// caller.
    #[must_use]
    pub fn misdirected(&self) -> u64 {
        self.shared.misdirected.load(Ordering::Relaxed)
    }

    /// Number of connected clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.clients.count()
    }

    /// Closes all connections and ends both threads.
    ///
    /// # Errors
    /// [`TransportError::Panicked`] if one of them had ended by itself.
    pub fn stop(mut self) -> Result<(), TransportError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TransportError> {
        if self.threads.is_empty() {
            return Ok(());
        }
        self.shared.stop.ask();
        let own = std::thread::current().id();
        let mut have_panicked = false;
        for thread in self.threads.drain(..) {
            // A transport may be dropped in one of its threads.
            if thread.thread().id() != own {
                have_panicked |= thread.join().is_err();
            }
        }
        if have_panicked || self.shared.stop.failed.load(Ordering::Relaxed) {
            return Err(TransportError::Panicked);
        }
        Ok(())
    }
}

impl Drop for RunningTransport {
    fn drop(&mut self) {
        // `stop` reports a panic; a dropped transport has no caller to tell.
        let _ = self.end();
    }
}
