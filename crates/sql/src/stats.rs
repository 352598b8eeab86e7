//! Counters of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of an engine since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Statements that were executed.
    pub statements: u64,
    /// Statements that ran as row programs.
    pub row_programs: u64,
    /// Runs of DataFusion's plans.
    pub plan_runs: u64,
    /// Texts that were planned.
    pub texts_planned: u64,
    /// Texts with a kept plan.
    pub text_cache_hits: u64,
    /// Transactions that were committed.
    pub commits: u64,
    /// Statements and messages that were repeated after a conflict.
    pub repeats: u64,
    /// Conflicts that clients were told of.
    pub conflicts_reported: u64,
    /// Open connections.
    pub connections: u64,
}

impl EngineStats {
    /// The names and the values.
    #[must_use]
    pub fn pairs(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("statements", self.statements),
            ("row_programs", self.row_programs),
            ("plan_runs", self.plan_runs),
            ("texts_planned", self.texts_planned),
            ("text_cache_hits", self.text_cache_hits),
            ("commits", self.commits),
            ("repeats", self.repeats),
            ("conflicts_reported", self.conflicts_reported),
            ("connections", self.connections),
        ]
    }
}

/// The counters themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) statements: AtomicU64,
    pub(crate) row_programs: AtomicU64,
    pub(crate) plan_runs: AtomicU64,
    pub(crate) texts_planned: AtomicU64,
    pub(crate) text_cache_hits: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) repeats: AtomicU64,
    pub(crate) conflicts_reported: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// Adds one. Nothing is ordered by counters.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn read(&self) -> EngineStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            statements: read(&self.statements),
            row_programs: read(&self.row_programs),
            plan_runs: read(&self.plan_runs),
            texts_planned: read(&self.texts_planned),
            text_cache_hits: read(&self.text_cache_hits),
            commits: read(&self.commits),
            repeats: read(&self.repeats),
            conflicts_reported: read(&self.conflicts_reported),
            connections: read(&self.connections),
        }
    }
}
