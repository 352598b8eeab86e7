//! A node as its operator sees it: warnings in the log, `/metrics` and `/healthz`.
//!
//! ```text
//! counters, Raft's view, connections, disk ── observed ──┬─> each second: conditions ─> WARN and ERROR lines
//!                                                         └─> on request: /metrics, /healthz
//! ```
//! One thread with a runtime of its own does both. A disk that does not answer, or a flood at the
//! port, delays this thread and not the heartbeats of the network thread.
//!
//! | file | contents |
//! |---|---|
//! | `observation.rs` | the state of a node at one time |
//! | `health.rs` | whether it is healthy |
//! | `conditions.rs`, `warnings.rs` | states that need an operator, and when they are logged |
//! | `page.rs`, `exposition.rs` | `/metrics`, with the feature `metrics` |
//! | `http.rs` | the port, with the feature `metrics` |

mod conditions;
#[cfg(feature = "metrics")]
mod exposition;
#[cfg(any(feature = "metrics", test))]
mod health;
#[cfg(feature = "metrics")]
mod http;
mod observation;
#[cfg(feature = "metrics")]
mod page;
mod warnings;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use namiki_platform::threads;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use self::conditions::{Happened, conditions};
pub(crate) use self::observation::Observer;
use self::warnings::{Warnings, log};
use crate::config::NodeConfig;
use crate::metrics::Metrics;
use crate::transport::TransportError;
#[cfg(feature = "metrics")]
use crate::transport::listen;
use crate::unix_time::unix_s;

/// Interval of observations.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time that the end of the runtime waits for answers.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// The reason for which a node cannot be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// A problem of the address for scrapers.
    #[error(transparent)]
    Listen(#[from] TransportError),
    /// The system refuses a thread or descriptors.
    #[error("cannot start the observing thread; raise the limits of processes and of open files")]
    Start(#[from] std::io::Error),
    /// This program does not support what the configuration asks for.
    #[error(
        "the configuration has `metrics_listen`, but this program was built without it; build it with the feature `metrics`"
    )]
    NotBuilt,
}

/// Listens at the address for scrapers, if there is one.
#[cfg(feature = "metrics")]
pub(crate) fn bind(config: &NodeConfig) -> Result<Option<TcpListener>, MonitorError> {
    let address = config.metrics_listen.as_deref();
    let listener = address.map(|address| listen(address, "scrapers", "metrics_listen"));
    Ok(listener.transpose()?)
}

/// Refuses a configuration with an address for scrapers.
#[cfg(not(feature = "metrics"))]
pub(crate) fn bind(config: &NodeConfig) -> Result<Option<TcpListener>, MonitorError> {
    match config.metrics_listen {
        Some(_) => Err(MonitorError::NotBuilt),
        None => Ok(None),
    }
}

/// The running thread. It stops when it is dropped.
pub(crate) struct Monitor {
    observer: Arc<Observer>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Begins to observe a node, and to answer scrapers.
    ///
    /// # Errors
    /// [`MonitorError::Start`].
    pub(crate) fn start(
        observer: Observer,
        listener: Option<TcpListener>,
    ) -> Result<Self, MonitorError> {
        let observer = Arc::new(observer);
        let stop = Arc::new(Notify::new());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (watched, stopped) = (Arc::clone(&observer), Arc::clone(&stop));
        let thread = threads::start("namiki-monitor", move || {
            runtime.block_on(async {
                #[cfg(feature = "metrics")]
                if let Some(listener) = listener {
                    let observer = Arc::clone(&watched);
                    tokio::spawn(async move {
                        let logger = observer.shared.logger.clone();
                        if let Err(error) = http::serve(observer, listener).await {
                            slog::error!(logger, "/metrics is not served; restart the node"; "reason" => %error);
                        }
                    });
                }
                #[cfg(not(feature = "metrics"))]
                drop(listener);
                tokio::select! {
                    () = warn(&watched) => {}
                    () = stopped.notified() => {}
                }
            });
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        })?;
        Ok(Self {
            observer,
            stop,
            thread: Some(thread),
        })
    }

    /// The node begins to stop: it is not healthy from now on, and nothing more is logged.
    pub(crate) fn note_stopping(&self) {
        self.observer.is_stopping.store(true, Ordering::Relaxed);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.note_stopping();
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic has printed its message; the node does not depend on this thread.
            drop(thread.join());
        }
    }
}

/// Observes the node each second, and logs what an operator must act on.
async fn warn(observer: &Observer) {
    let metrics = &observer.shared.metrics;
    let mut warnings = Warnings::new(observer.election_timeout);
    let mut clocks = Clocks::now();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let now = Clocks::now();
        let (pause, clock_step) = now.since(&clocks);
        let happened = Happened {
            longest_flush: longest_flush(metrics),
            damaged_payloads: metrics.take_damaged_payloads(),
            sessions_refused: metrics.take_refused_sessions(),
            pause,
            clock_step,
            unix_s: unix_s(),
        };
        let node = observer.observe();
        let held = conditions(&node, &happened, observer.election_timeout);
        for line in warnings.check(now.monotonic, &held) {
            log(&observer.shared.logger, &line);
        }
        // After the observation, which may wait for the disk: that is no pause of the process.
        clocks = Clocks::now();
    }
}

/// The longest flush since the last call, and its stream.
fn longest_flush(metrics: &Metrics) -> (Duration, usize) {
    let streams = metrics.flushes().iter().enumerate();
    let longest = streams.map(|(stream, flushes)| (flushes.take_longest(), stream));
    longest.max().unwrap_or_default()
}

/// Both clocks at one time.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    monotonic: Instant,
    system: SystemTime,
}

impl Clocks {
    fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            system: SystemTime::now(),
        }
    }

    /// How much later than expected this is, and by how much the system's clock was set since then.
    fn since(&self, before: &Self) -> (Duration, Duration) {
        let passed = (self.monotonic).saturating_duration_since(before.monotonic);
        let by_system = self.system.duration_since(before.system);
        let step = match by_system {
            Ok(forwards) => forwards.abs_diff(passed),
            Err(backwards) => backwards.duration() + passed,
        };
        (passed.saturating_sub(INTERVAL), step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_told_from_a_set_clock() {
        let before = Clocks::now();
        let seconds = Duration::from_secs;
        let after = |monotonic, system: SystemTime| Clocks {
            monotonic: before.monotonic + seconds(monotonic),
            system,
        };
        let paused = after(6, before.system + seconds(6)).since(&before);
        assert_eq!(paused, (seconds(5), Duration::ZERO));
        let forwards = after(1, before.system + seconds(31)).since(&before);
        assert_eq!(forwards, (Duration::ZERO, seconds(30)));
        let backwards = after(1, before.system - seconds(29)).since(&before);
        assert_eq!(backwards, (Duration::ZERO, seconds(30)));
    }
}
