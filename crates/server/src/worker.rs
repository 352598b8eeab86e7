//! The threads that serve clients. Each has a runtime of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinError, JoinSet};

use crate::access::attempts::Admission;
use crate::client::{Accepted, serve};
use crate::flush::flush_before_parking;
use crate::shared::{Context, Phase, Shared};

/// A connection for a thread.
type Handed = (Accepted, Admission, Counted);

/// A thread that serves clients.
pub(crate) struct Worker {
    thread: JoinHandle<()>,
    entrance: Entrance,
}

/// Where a thread gets its connections.
#[derive(Clone)]
struct Entrance {
    queue: UnboundedSender<Handed>,
    /// Number of its connections.
    connections: Arc<AtomicUsize>,
}

/// A connection that counts among those of its thread.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The entrances of all threads.
#[derive(Clone)]
pub(crate) struct Entrances(Vec<Entrance>);

impl Entrances {
    pub(crate) fn of(workers: &[Worker]) -> Self {
        Self(workers.iter().map(|it| it.entrance.clone()).collect())
    }

    /// Hands a connection to the thread that has the fewest.
    pub(crate) fn hand_over(&self, accepted: Accepted, admission: Admission) {
        let number = |it: &&Entrance| it.connections.load(Ordering::Relaxed);
        if let Some(entrance) = self.0.iter().min_by_key(number) {
            let counted = Counted::new(&entrance.connections);
            // It fails if the server stops: the connection is closed.
            let _ = entrance.queue.send((accepted, admission, counted));
        }
    }
}

impl Worker {
    /// Starts a thread.
    ///
    /// # Errors
    /// If the system allows no thread, or no event queue.
    pub(crate) fn start(shared: Arc<Shared>, number: u16) -> io::Result<Self> {
        let db = shared.engine.database().clone();
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(move || flush_before_parking(&db, number))
            .build()?;
        let (queue, handed) = unbounded_channel();
        let context = Context {
            shared,
            thread: number,
        };
        let name = format!("sessions-{number}");
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || runtime.block_on(serve_all(context, handed)))?;
        let connections = Arc::default();
        Ok(Self {
            thread,
            entrance: Entrance { queue, connections },
        })
    }

    /// Waits until all sessions of the thread have ended; the server stops or aborts. Returns false
    /// if the thread has failed.
    pub(crate) fn join(self) -> bool {
        drop(self.entrance);
        self.thread.join().is_ok()
    }

    /// Whether all sessions of the thread have ended, and the thread with them.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Serves the connections that are handed over, until the server stops and they have ended.
async fn serve_all(context: Context, mut handed: UnboundedReceiver<Handed>) {
    let mut sessions = JoinSet::new();
    let mut phases = context.shared.phase.subscribe();
    loop {
        tokio::select! {
            next = handed.recv() => match next {
                Some((accepted, admission, counted)) => {
                    let context = context.clone();
                    sessions.spawn(async move {
                        let _counted = counted;
                        serve(context, accepted, admission).await;
                    });
                }
                None => break,
            },
            Some(ended) = sessions.join_next() => note_end(&context, ended),
            _ = phases.wait_for(|phase| *phase > Phase::Serving) => break,
        }
    }
    // Connections that were handed over and not begun are closed.
    handed.close();
    while handed.try_recv().is_ok() {}
    let mut aborts = context.shared.phase.subscribe();
    let mut is_aborted = false;
    loop {
        tokio::select! {
            ended = sessions.join_next() => match ended {
                Some(ended) => note_end(&context, ended),
                None => break,
            },
            _ = aborts.wait_for(|phase| *phase == Phase::Aborting), if !is_aborted => {
                is_aborted = true;
                sessions.abort_all();
            }
        }
    }
}

/// A session that panics ends alone; the others go on.
fn note_end(context: &Context, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        let logger = &context.shared.logger;
        slog::error!(logger, "a session failed; please report this"; "error" => %error);
    }
}
