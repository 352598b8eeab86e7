//! Counters of the server, in Prometheus's text format.
//!
//! Each thread counts in its own place; the places are added up when they are read.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// A counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// Connections that were accepted.
    Connections,
    /// Connections that were closed for a new one: too many had no login.
    Evictions,
    /// Logins.
    Logins,
    /// Logins that were refused.
    RefusedLogins,
    /// Sessions that were refused because there were too many.
    RefusedSessions,
    /// Sessions that have ended.
    EndedSessions,
    /// Messages of the simple protocol.
    Queries,
    /// Portals that were run or continued.
    Executes,
    /// Batches that were repeated after a conflict.
    Repeats,
    /// Errors that were reported to clients.
    Errors,
    /// Violations of the protocol.
    ProtocolErrors,
    /// Cancel requests.
    CancelRequests,
    /// Clients that did not read their results in time.
    SendTimeouts,
    /// Bytes from clients.
    BytesReceived,
    /// Bytes to clients.
    BytesSent,
}

const COUNTS: [(Count, &str, &str); 15] = [
    (Count::Connections, "connections", "Connections accepted."),
    (
        Count::Evictions,
        "connections_evicted",
        "Connections closed for new ones because too many had no login.",
    ),
    (Count::Logins, "logins", "Logins."),
    (Count::RefusedLogins, "logins_refused", "Logins refused."),
    (
        Count::RefusedSessions,
        "sessions_refused",
        "Sessions refused because there were too many.",
    ),
    (
        Count::EndedSessions,
        "sessions_ended",
        "Sessions that have ended.",
    ),
    (
        Count::Queries,
        "queries",
        "Messages of the simple protocol.",
    ),
    (
        Count::Executes,
        "executes",
        "Executions in the extended protocol.",
    ),
    (
        Count::Repeats,
        "repeats",
        "Batches repeated after a serialization failure.",
    ),
    (Count::Errors, "errors", "Errors reported to clients."),
    (
        Count::ProtocolErrors,
        "protocol_errors",
        "Violations of the protocol by clients.",
    ),
    (Count::CancelRequests, "cancel_requests", "Cancel requests."),
    (
        Count::SendTimeouts,
        "send_timeouts",
        "Connections closed because the client did not read.",
    ),
    (
        Count::BytesReceived,
        "received_bytes",
        "Bytes received from clients.",
    ),
    (Count::BytesSent, "sent_bytes", "Bytes sent to clients."),
];

/// The counters of one thread.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; COUNTS.len()]);

impl Counters {
    pub(crate) fn add(&self, count: Count, number: u64) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(number, Ordering::Relaxed);
        }
    }

    pub(crate) fn increment(&self, count: Count) {
        self.add(count, 1);
    }
}

/// The counters of all threads.
#[derive(Debug)]
pub(crate) struct Metrics(Vec<CachePadded<Counters>>);

impl Metrics {
    pub(crate) fn new(threads: usize) -> Self {
        Self(
            (0..threads.max(1))
                .map(|_| CachePadded::default())
                .collect(),
        )
    }

    /// The counters of a thread, counted from 0.
    pub(crate) fn of(&self, thread: usize) -> &Counters {
        &self.0[thread % self.0.len()]
    }

    /// The sum of a counter.
    pub(crate) fn sum(&self, count: Count) -> u64 {
        let of_thread = |it: &CachePadded<Counters>| {
            let counter = it.0.get(count as usize);
            counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
        };
        self.0.iter().map(of_thread).sum()
    }

    /// Sessions that are open.
    pub(crate) fn open_sessions(&self) -> u64 {
        let (logins, ended) = (self.sum(Count::Logins), self.sum(Count::EndedSessions));
        logins.saturating_sub(ended)
    }

    /// All counters.
    pub(crate) fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (count, name, help) in COUNTS {
            let sum = self.sum(count);
            put(&mut text, &format!("{name}_total"), "counter", help, sum);
        }
        let open = self.open_sessions();
        put(&mut text, "sessions_open", "gauge", "Open sessions.", open);
        text
    }
}

/// Writes a metric of the server.
pub(crate) fn put(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let name = format!("namiki_server_{name}");
    // A string takes all that is written to it.
    let _ = writeln!(
        text,
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_threads_are_added_up() {
        for (at, (count, ..)) in COUNTS.into_iter().enumerate() {
            assert_eq!(count as usize, at);
        }
        let metrics = Metrics::new(2);
        metrics.of(0).increment(Count::Logins);
        metrics.of(1).add(Count::Logins, 2);
        metrics.of(1).increment(Count::EndedSessions);
        assert_eq!(metrics.open_sessions(), 2);
        let text = metrics.to_prometheus();
        assert!(text.contains("namiki_server_logins_total 3\n"), "{text}");
        assert!(text.contains("\nnamiki_server_sessions_open 2\n"), "{text}");
    }
}
