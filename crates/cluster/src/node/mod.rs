//! A node: its parts, each in a thread.
//!
//! ```text
//!   network ──> inbox ──┬─> raft ──┬─> raft writer (stream 0)
//!                       │          └─> applier ──> replies, locks released
//!                       ├─> worker w (through the producer)
//!                       ├─> payload writer w (stream w)
//!                       └─> fetch, image copy ──> other nodes
//!   scan <── applier            scans, and reads from the image while the tables are loaded
//!   checkpoint <──> applier     images of the tables, and the truncation of the log
//! ```
//! A thread waits for its queue and for nothing else. Raft's and the workers' touch no disk. After a start, one more waits until the
//! tables are in memory, and tells the applier.

mod opened_node;
pub(crate) mod parts;
#[cfg(test)]
mod parts_tests;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namiki_client::protocol::NodeAddresses;
use namiki_platform::threads;
use slog::{Discard, Logger, o};

use crate::events::{CopyEvent, ImageEvent};
use crate::failure::NodeFailure;
use crate::fault_injection::FaultInjection;
use crate::groups::producer::RequestLimits;
use crate::groups::worker::GroupOptions;
use crate::image::checkpointer::ImageOptions;
use crate::metrics::Metrics;
use crate::monitor::Observer;
use crate::network::{Inbox, Network, NodeId};
use crate::raft::{RaftEvent, RaftOptions};
use crate::scans::run_scans;
use crate::shared::Shared;
use crate::transport::Connections;
pub use opened_node::{OpenError, OpenedNode};
use parts::{NodeInbox, Parts};

/// Between two looks of the checkpointer, and of the receiver of images.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The shortest time without a leader after which a node asks for votes; at most twice as long.
    pub election_timeout: Duration,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Conditions under which groups are sealed.
    pub groups: GroupOptions,
    /// Limits on the requests that a leader accepts.
    pub limits: RequestLimits,
    /// Conditions under which images of the tables are written.
    pub images: ImageOptions,
    /// Bytes of payloads kept in memory.
    pub cache_bytes: usize,
    /// Seed of the election timeouts.
    pub seed: u64,
    /// The number of this start, which no other start of the node has; `None`: a random one.
    pub start: Option<NonZeroU64>,
    /// Whether the node, once started, never goes on without the answers of all voters: its disk is
    /// known to have gone back.
    pub asks_all: bool,
    /// Addresses of nodes, by number: a leader writes those of members without any into the log.
    pub addresses: BTreeMap<u64, NodeAddresses>,
    /// A fault, in simulations.
    pub planted: FaultInjection,
    /// Log for changes of the role. Default: none.
    pub logger: Logger,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            election_timeout: Duration::from_millis(300),
            heartbeat: Duration::from_millis(60),
            groups: GroupOptions::default(),
            limits: RequestLimits::default(),
            images: ImageOptions::default(),
            cache_bytes: 256 << 20,
            seed: 1,
            start: None,
            asks_all: false,
            addresses: BTreeMap::new(),
            planted: FaultInjection::default(),
            logger: Logger::root(Discard, o!()),
        }
    }
}

impl NodeOptions {
    /// Half a heartbeat.
    fn tick(&self) -> Duration {
        (self.heartbeat / 2).max(Duration::from_millis(1))
    }

    /// Ticks of an election timeout.
    fn election_ticks(&self) -> usize {
        let ticks = self.election_timeout.as_nanos() / self.tick().as_nanos();
        (ticks as usize).max(4)
    }

    fn raft(&self, node: NodeId) -> RaftOptions {
        RaftOptions {
            node,
            election_ticks: self.election_ticks(),
            heartbeat_ticks: 2,
            inflight_max: 1024,
            message_bytes: 64 << 10,
            seed: self.seed,
            start: self.start.map_or_else(random_start, NonZeroU64::get),
            asks_all: self.asks_all,
            addresses: self.addresses.clone(),
            planted: self.planted,
        }
    }
}

/// A number for a start. The seed does not serve: in a container it is always the same.
fn random_start() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// A running node. Dropping it stops it, as a crash does: everything acknowledged is on disk.
pub struct Node {
    shared: Arc<Shared>,
    inbox: Arc<NodeInbox>,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    /// Starts a node from what was found in its directory.
    ///
    /// # Errors
    /// [`NodeFailure`].
    pub fn start(
        options: &NodeOptions,
        opened: OpenedNode,
        network: Arc<dyn Network>,
    ) -> Result<Self, NodeFailure> {
        Self::start_counting(options, opened, network, None)
    }

    /// Starts a node that goes on with the [metrics](Self::metrics) of an earlier start within the process.
    pub(crate) fn start_counting(
        options: &NodeOptions,
        opened: OpenedNode,
        network: Arc<dyn Network>,
        metrics: Option<Arc<Metrics>>,
    ) -> Result<Self, NodeFailure> {
        let parts = Parts::new(options, opened, network, metrics)?;
        let shared = Arc::clone(&parts.shared);
        let mut node = Self {
            inbox: Arc::new(NodeInbox::new(&shared, options)),
            shared,
            threads: Vec::new(),
        };
        node.start_threads(parts, options.tick())?;
        Ok(node)
    }

    /// What the node counts.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    fn start_threads(&mut self, parts: Parts, tick: Duration) -> Result<(), NodeFailure> {
        let Parts {
            mut raft,
            workers,
            mut applier,
            mut checkpointer,
            mut image_receiver,
            mut raft_writer,
            payload_writers,
            ..
        } = parts;
        let shared = Arc::clone(&self.shared);
        self.thread("raft", move || {
            let mut next_tick = Instant::now() + tick;
            loop {
                let now = Instant::now();
                let Some(mut events) = shared.raft.take_all(Some(next_tick - now)) else {
                    return;
                };
                if Instant::now() >= next_tick {
                    events.push_back(RaftEvent::Applied(shared.applied()));
                    events.push_back(RaftEvent::Tick);
                    next_tick = Instant::now() + tick;
                }
                parts::run_raft(&shared, &mut raft, events);
            }
        })?;
        for (number, mut worker) in workers.into_iter().enumerate() {
            let shared = Arc::clone(&self.shared);
            self.thread("worker", move || {
                let mut longest = None;
                while let Some(events) = shared.workers[number].take_all(longest) {
                    let now = namiki_platform::clock::now_ns();
                    let next = worker.run(events, now);
                    longest = next.map(|at| Duration::from_nanos(at.saturating_sub(now)));
                }
            })?;
        }
        for (number, mut writer) in payload_writers.into_iter().enumerate() {
            let shared = Arc::clone(&self.shared);
            self.thread("log-writer", move || {
                let queue = &shared.payload_writers[number];
                while let Some(payloads) = queue.take_all(writer.pause()) {
                    parts::run_payload_writer(&shared, &mut writer, payloads);
                }
            })?;
        }
        let shared = Arc::clone(&self.shared);
        self.thread("raft-writer", move || {
            while let Some(writes) = shared.raft_writer.take_all(raft_writer.pause()) {
                parts::run_raft_writer(&shared, &mut raft_writer, writes);
            }
        })?;
        let shared = Arc::clone(&self.shared);
        self.thread("applier", move || {
            while let Some(events) = shared.applier.take_all(None) {
                parts::run_applier(&shared, &mut applier, events);
            }
        })?;
        let shared = Arc::clone(&self.shared);
        if shared.replica.began_with_tables() {
            self.thread("await-tables", move || parts::run_loading(&shared))?;
        }
        let shared = Arc::clone(&self.shared);
        self.thread("scan", move || {
            while let Some(scans) = shared.scans.take_all(None) {
                run_scans(&shared, scans);
            }
        })?;
        let shared = Arc::clone(&self.shared);
        self.thread("checkpoint", move || {
            let mut looks = Intervals::new(LOOK_INTERVAL);
            while let Some(mut events) = shared.images.take_all(Some(looks.left())) {
                if looks.has_passed() {
                    events.push_back(ImageEvent::Look);
                }
                parts::run_checkpointer(&shared, &mut checkpointer, events);
            }
        })?;
        let shared = Arc::clone(&self.shared);
        self.thread("image-copy", move || {
            let mut ticks = Intervals::new(LOOK_INTERVAL);
            loop {
                let longest = image_receiver.is_waiting().then(|| ticks.left());
                let Some(mut events) = shared.copies.take_all(longest) else {
                    return;
                };
                if ticks.has_passed() && image_receiver.is_waiting() {
                    events.push_back(CopyEvent::Tick);
                }
                parts::run_image_receiver(&shared, &mut image_receiver, events);
            }
        })?;
        let shared = Arc::clone(&self.shared);
        self.thread("fetch", move || {
            while let Some(fetches) = shared.fetches.take_all(None) {
                parts::run_fetches(&shared, fetches);
            }
        })
    }

    fn thread(
        &mut self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), NodeFailure> {
        let name = format!("namiki-{name}");
        let shared = Arc::clone(&self.shared);
        let guarded = move || {
            let _guard = PanicGuard(&shared);
            run();
        };
        let thread = threads::start(&name, guarded).map_err(NodeFailure::Thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// The inbox for messages from the network.
    #[must_use]
    pub fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::clone(&self.inbox) as Arc<dyn Inbox>
    }

    /// The reason for which the node has stopped by itself, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<NodeFailure>> {
        self.shared.failure.lock().clone()
    }

    /// Whether it leads, as far as it knows.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.shared.office.lock().term.is_some()
    }

    /// An observer of the node, given its connections and its directory.
    pub(crate) fn observer(
        &self,
        connections: Connections,
        directory: PathBuf,
        election_timeout: Duration,
    ) -> Observer {
        Observer {
            shared: Arc::clone(&self.shared),
            connections,
            directory,
            election_timeout,
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Transfers leadership to another node, if this one leads. Call it some time before
    /// [`Node::stop`].
    pub fn hand_over(&self) {
        self.shared.raft.put(RaftEvent::HandOver(None));
    }

    /// Stops the node. After the return nothing more is written.
    pub fn stop(mut self) {
        self.stop_threads();
    }

    fn stop_threads(&mut self) {
        self.shared.close();
        self.shared.replica.stop_loading();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed why.
            drop(thread.join());
        }
        // The outcome of failed writes is unknown, as after a crash; the next opening finds what is
        // durable.
        drop(self.shared.store.close());
    }
}

/// Intervals of a thread that is also called for events.
struct Intervals {
    length: Duration,
    next: Instant,
}

impl Intervals {
    fn new(length: Duration) -> Self {
        let next = Instant::now() + length;
        Self { length, next }
    }

    /// Time until the end of this one.
    fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Whether this one has passed; then another begins.
    fn has_passed(&mut self) -> bool {
        let now = Instant::now();
        let has_passed = now >= self.next;
        if has_passed {
            self.next = now + self.length;
        }
        has_passed
    }
}

/// Stops the node if a thread panics: half a node would lead and never answer.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(NodeFailure::Panicked);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("node", &self.shared.node)
            .field("view", &*self.shared.view.lock())
            .finish_non_exhaustive()
    }
}
