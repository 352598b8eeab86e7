//! The quantities that figures show and claims are about.

use super::run_row::RunRow;

/// The vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Transactions per second.
    Tps,
    /// Seconds for 100,000 transactions.
    Seconds,
    /// Abort rate in percent by the paper's count, which includes failed locks.
    PaperAbortPercent,
    /// Failed rounds of a commit's locking per 100,000 transactions; most were retried.
    FailedLocks,
    /// Failed attempts to draw a log sequence number per 100,000 transactions.
    CasMisses,
    /// A query's time, relative to ordered execution.
    RelativeSeconds,
    /// A query's reads per second, relative to ordered execution.
    RelativeIops,
    /// Processor time of a query, in percent of all processors.
    CpuPercent,
    /// Mean time from sending a transaction to learning that it has committed, in milliseconds.
    MeanRttMs,
    /// Processor time of the leader's node, in percent of all processors.
    LeaderCpuPercent,
    /// Bytes written per second, in millions.
    MegabytesPerSecond,
    /// Operations of an index per second.
    OperationsPerSecond,
    /// Time of one operation of an index, in nanoseconds.
    LatencyNs,
    /// Failed consolidations of an index, in percent of all that were tried; no value without any.
    FailedConsolidationPercent,
    /// Deltas that an operation of an index visits to learn the range of its leaf.
    DeltasPerOperation,
    /// Failed compare-and-swaps of an index, in percent of its operations.
    FailedCasPercent,
}

/// The number of transactions of one run in `pwal` §6.
const RUN: f64 = 100_000.0;

/// A count of a run, for as many transactions as one of `pwal` has.
fn per_run(run: &RunRow, count: Option<u64>) -> Option<f64> {
    let committed = run.committed.unwrap_or(0).max(1) as f64;
    count.map(|count| count as f64 * RUN / committed)
}

/// A count of a run, for each operation of an index.
fn per_operation(run: &RunRow, count: Option<u64>) -> Option<f64> {
    let operations = run.operations.filter(|number| *number > 0)?;
    count.map(|count| count as f64 / operations as f64)
}

impl Measure {
    /// The value of a run.
    pub(crate) fn of(self, run: &RunRow) -> Option<f64> {
        match self {
            Self::Tps => run.tps,
            Self::Seconds => run.tps.filter(|tps| *tps > 0.0).map(|tps| RUN / tps),
            Self::PaperAbortPercent => run.paper_abort_rate.map(|rate| rate * 100.0),
            Self::FailedLocks => per_run(run, run.failed_locks),
            Self::CasMisses => per_run(run, run.cas_misses),
            Self::RelativeSeconds => run.relative_seconds,
            Self::RelativeIops => run.relative_iops,
            Self::CpuPercent => run.cpu_percent,
            Self::MeanRttMs => run.mean_rtt_ms,
            Self::LeaderCpuPercent => run.leader_cpu_percent,
            Self::MegabytesPerSecond => run.megabytes_per_second,
            Self::OperationsPerSecond => run.operations_per_second,
            Self::LatencyNs => run.latency_ns,
            Self::FailedConsolidationPercent => {
                let (failed, made) = run.consolidations_failed.zip(run.consolidations)?;
                let tried = failed + made;
                (tried > 0).then(|| failed as f64 * 100.0 / tried as f64)
            }
            Self::DeltasPerOperation => per_operation(run, run.delta_visits),
            Self::FailedCasPercent => {
                per_operation(run, run.cas_misses).map(|misses| misses * 100.0)
            }
        }
    }

    /// The axis label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Tps => "transactions per second",
            Self::Seconds => "seconds for 100,000 transactions",
            Self::PaperAbortPercent => "aborts and failed locks, % of attempts",
            Self::FailedLocks => "failed locks per 100,000 transactions",
            Self::CasMisses => "failed CAS per 100,000 transactions",
            Self::RelativeSeconds => "time, ordered execution = 1",
            Self::RelativeIops => "reads per second, ordered execution = 1",
            Self::CpuPercent => "CPU use, % of all processors",
            Self::MeanRttMs => "mean round trip of a transaction, ms",
            Self::LeaderCpuPercent => "CPU use of the leader's node, % of all processors",
            Self::MegabytesPerSecond => "megabytes per second",
            Self::OperationsPerSecond => "operations per second",
            Self::LatencyNs => "latency of an operation, ns",
            Self::FailedConsolidationPercent => "failed consolidations, % of those tried",
            Self::DeltasPerOperation => "deltas visited to find the page's range, per operation",
            Self::FailedCasPercent => "failed CAS, % of operations",
        }
    }

    /// The unit after a number in a text.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Tps => " transactions/s",
            Self::MegabytesPerSecond => " MB/s",
            Self::OperationsPerSecond => " operations/s",
            Self::Seconds => " s",
            Self::PaperAbortPercent
            | Self::CpuPercent
            | Self::LeaderCpuPercent
            | Self::FailedConsolidationPercent
            | Self::FailedCasPercent => " %",
            Self::DeltasPerOperation => " deltas",
            Self::MeanRttMs => " ms",
            Self::LatencyNs => " ns",
            Self::FailedLocks => " failed locks",
            Self::CasMisses => " failed CAS",
            Self::RelativeSeconds | Self::RelativeIops => "×",
        }
    }

    /// The key in a row.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Tps => "tps",
            Self::Seconds => "seconds_per_100000",
            Self::PaperAbortPercent => "paper_abort_percent",
            Self::FailedLocks => "failed_locks_per_100000",
            Self::CasMisses => "cas_misses_per_100000",
            Self::RelativeSeconds => "relative_seconds",
            Self::RelativeIops => "relative_iops",
            Self::CpuPercent => "cpu_percent",
            Self::MeanRttMs => "mean_rtt_ms",
            Self::LeaderCpuPercent => "leader_cpu_percent",
            Self::MegabytesPerSecond => "megabytes_per_second",
            Self::OperationsPerSecond => "operations_per_second",
            Self::LatencyNs => "latency_ns",
            Self::FailedConsolidationPercent => "failed_consolidation_percent",
            Self::DeltasPerOperation => "deltas_per_operation",
            Self::FailedCasPercent => "failed_cas_percent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_measured_by_their_counts() {
        let chains = RunRow {
            operations: Some(1000),
            consolidations: Some(30),
            consolidations_failed: Some(10),
            delta_visits: Some(2500),
            cas_misses: Some(20),
            ..RunRow::default()
        };
        assert_eq!(Measure::FailedConsolidationPercent.of(&chains), Some(25.0));
        assert_eq!(Measure::DeltasPerOperation.of(&chains), Some(2.5));
        assert_eq!(Measure::FailedCasPercent.of(&chains), Some(2.0));
        let idle = RunRow {
            consolidations: Some(0),
            consolidations_failed: Some(0),
            ..RunRow::default()
        };
        assert_eq!(Measure::FailedConsolidationPercent.of(&idle), None);
        assert_eq!(Measure::DeltasPerOperation.of(&idle), None);
        assert_eq!(Measure::FailedCasPercent.of(&idle), None);
    }
}
