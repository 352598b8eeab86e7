//! How long a node takes, after a start, until it votes, answers stale reads, and answers strong ones.
//!
//! It is asked again and again, each question by a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namiki_client::protocol::Role;
use namiki_client::{
    Client, ClientError, ClientOptions, Consistency, ReadNode, ReadOptions, status,
};
use serde::Serialize;

/// Time limit of a question.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
const BACKOFF: Duration = Duration::from_millis(5);

/// Times since the start of the process, in milliseconds. `None`: not before the watch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct StartTimes {
    /// It leads or follows.
    pub(super) votes_ms: Option<f64>,
    /// It answers a stale read.
    pub(super) stale_read_ms: Option<f64>,
    /// It answers a strong read.
    pub(super) strong_read_ms: Option<f64>,
}

/// A node, and how to reach it.
#[derive(Clone, Copy)]
pub(super) struct WatchedNode<'a> {
    pub(super) address: &'a str,
    pub(super) options: &'a ClientOptions,
}

impl WatchedNode<'_> {
    /// Starts the node by `start`, which may wait for it to be whole, and watches it meanwhile. The node does not run before.
    pub(super) fn watch<T>(self, start: impl FnOnce() -> T) -> (StartTimes, T) {
        let (begin, is_over) = (Instant::now(), AtomicBool::new(false));
        let until = |answers: &dyn Fn() -> bool| {
            loop {
                // A node that is whole is asked once more.
                let is_last = is_over.load(Ordering::Relaxed);
                if answers() {
                    return Some(begin.elapsed().as_secs_f64() * 1e3);
                }
                if is_last {
                    return None;
                }
                std::thread::sleep(BACKOFF);
            }
        };
        std::thread::scope(|scope| {
            let votes = scope.spawn(|| until(&|| self.votes()));
            let stale = scope.spawn(|| until(&|| self.answers(Consistency::Stale)));
            let strong = scope.spawn(|| until(&|| self.answers(Consistency::Strong)));
            let started = start();
            is_over.store(true, Ordering::Relaxed);
            let times = StartTimes {
                votes_ms: votes.join().unwrap_or_default(),
                stale_read_ms: stale.join().unwrap_or_default(),
                strong_read_ms: strong.join().unwrap_or_default(),
            };
            (times, started)
        })
    }

    fn options(self) -> ClientOptions {
        ClientOptions {
            timeout: ASK_TIMEOUT,
            ..self.options.clone()
        }
    }

    fn votes(self) -> bool {
        let status = status(self.address, &self.options());
        status.is_ok_and(|it| matches!(it.role, Role::Leader | Role::Follower))
    }

    /// Whether it answers the read of a row of its first table, whether or not there is one.
    fn answers(self, consistency: Consistency) -> bool {
        let options = ReadOptions {
            consistency,
            node: ReadNode::Address(self.address.to_owned()),
        };
        let read = || -> Result<bool, ClientError> {
            let mut client = Client::connect([self.address], self.options())?;
            let mut reader = client.reading(&options);
            let tables = reader.tables()?;
            let Some(table) = tables.first() else {
                return Ok(false);
            };
            reader.read(vec![(table.table, vec![0; 8])])?;
            Ok(true)
        };
        read().is_ok_and(|has_answered| has_answered)
    }
}
