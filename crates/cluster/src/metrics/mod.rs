//! What a node counts. [`monitor`](crate::monitor) reads it.
//!
//! Every number is counted where it happens, and nothing is derived from another: a number that is
//! not counted is not here. Counters begin at zero with the process: a node that starts again within it, with tables of another
//! node, goes on counting.

mod histogram;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namiki_client::protocol::Outcome;
use namiki_platform::clock::now_ns;

use crate::refusal::RefusalReason;
#[cfg(feature = "metrics")]
use crate::unix_time::unix_s;

pub(crate) use histogram::Histogram;
#[cfg(feature = "metrics")]
pub(crate) use histogram::{BOUNDS_NS, HistogramCounts};

/// A counter without labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Times that this node began to ask for votes.
    Campaigns,
    /// Elections of this node.
    ElectionsWon,
    /// New leaders that this node learned of, itself included.
    LeaderChanges,
    /// Groups (LogGrps) that were sealed here, as the leader.
    GroupsSealed,
    /// Groups that were applied here.
    GroupsApplied,
    /// Read requests that were accepted.
    Reads,
    /// Read requests that were answered from the image, before the tables were in memory.
    ReadsFromImage,
    /// Payloads that were requested from other nodes because they were missing.
    PayloadsFetched,
    /// Payloads that other nodes requested and got.
    PayloadsServed,
    /// Payloads that other nodes requested and that this node does not have.
    PayloadsNotServed,
    /// Payloads on this node's disk that were missing or damaged at the start, or could not be read
    /// or failed their check when they were applied or another node asked for them.
    PayloadsDamaged,
    /// Damaged frames of payloads that were found at the start.
    FramesDamaged,
    /// Groups of clients that waited because too few voters had room for them, or little.
    GroupsWithoutRoom,
    /// Starts at which stream 0 of the log was damaged.
    RaftLogDamaged,
    /// Files of the own image that were found damaged when another node asked for them.
    ImageFilesDamaged,
    /// Starts at which the tables of the directory could not be used.
    TablesLost,
    /// Received payloads that did not match their entry, or were too long.
    PayloadsRefused,
    /// Received payloads that were dropped because the disk does not keep up.
    PayloadsDropped,
    /// Images of the tables that were written.
    ImagesWritten,
    /// Bytes of rows in them, without those that an image shares with the one before.
    ImageBytesWritten,
    /// Images that could not be written.
    ImagesFailed,
    /// Bytes of images that were copied from other nodes.
    ImageBytesCopied,
    /// Nodes that have started without entries that they had acknowledged to this leader.
    NodesWentBack,
}

/// Names of the counters in the order of [`Count`], and their meaning.
pub(crate) const COUNTS: [(Count, &str, &str); 23] = [
    (
        Count::Campaigns,
        "campaigns",
        "Times that this node began to ask for votes.",
    ),
    (
        Count::ElectionsWon,
        "elections_won",
        "Elections that this node won.",
    ),
    (
        Count::LeaderChanges,
        "leader_changes",
        "New leaders that this node learned of, itself included.",
    ),
    (
        Count::GroupsSealed,
        "groups_sealed",
        "Groups of commands sealed by this node as the leader.",
    ),
    (
        Count::GroupsApplied,
        "groups_applied",
        "Groups of commands applied to the tables.",
    ),
    (Count::Reads, "reads", "Read requests accepted."),
    (
        Count::ReadsFromImage,
        "reads_from_image",
        "Read requests answered from the image after a start, before the tables were in memory.",
    ),
    (
        Count::PayloadsFetched,
        "payloads_fetched",
        "Missing payloads requested from other nodes.",
    ),
    (
        Count::PayloadsServed,
        "payloads_served",
        "Payloads sent to nodes that lacked them.",
    ),
    (
        Count::PayloadsNotServed,
        "payloads_not_served",
        "Payloads requested by other nodes that this node does not have.",
    ),
    (
        Count::PayloadsDamaged,
        "payloads_damaged",
        "Payloads on this node's disk that were missing or damaged at the start, or when they were read.",
    ),
    (
        Count::FramesDamaged,
        "frames_damaged",
        "Damaged frames of payloads in the log, found at the start.",
    ),
    (
        Count::GroupsWithoutRoom,
        "groups_without_room",
        "Groups of clients that were to be sent again, because too few voters had room for them, or little.",
    ),
    (
        Count::RaftLogDamaged,
        "raft_log_damaged",
        "Starts at which stream 0 of the log was damaged, so that the node may have forgotten votes and acknowledgements.",
    ),
    (
        Count::ImageFilesDamaged,
        "image_files_damaged",
        "Files of this node's image that were found damaged, and are written again.",
    ),
    (
        Count::TablesLost,
        "tables_lost",
        "Starts at which the tables could not be used, so that another node's image is installed.",
    ),
    (
        Count::PayloadsRefused,
        "payloads_refused",
        "Received payloads that did not match their entry.",
    ),
    (
        Count::PayloadsDropped,
        "payloads_dropped",
        "Received payloads dropped because the disk does not keep up.",
    ),
    (
        Count::ImagesWritten,
        "images_written",
        "Images of the tables written, each of which lets the log be truncated.",
    ),
    (
        Count::ImageBytesWritten,
        "image_bytes_written",
        "Bytes of rows written in images, unchanged key ranges not counted.",
    ),
    (
        Count::ImagesFailed,
        "images_failed",
        "Images that could not be written.",
    ),
    (
        Count::ImageBytesCopied,
        "image_bytes_copied",
        "Bytes of images copied from other nodes.",
    ),
    (
        Count::NodesWentBack,
        "nodes_went_back",
        "Nodes that started without entries that they had acknowledged to this leader.",
    ),
];

/// Values of the label `reason`, in the order of [`RefusalReason`].
pub(crate) const REFUSALS: [(RefusalReason, &str); 9] = [
    (RefusalReason::NotLeader, "not_leader"),
    (RefusalReason::Busy, "busy"),
    (RefusalReason::NoSession, "no_session"),
    (RefusalReason::SessionTaken, "session_taken"),
    (RefusalReason::Behind, "behind"),
    (RefusalReason::LogFull, "log_full"),
    (RefusalReason::SessionsFull, "sessions_full"),
    (RefusalReason::Invalid, "invalid"),
    (RefusalReason::OutcomeUnknown, "outcome_unknown"),
];

/// Values of the label `outcome`, in the order of [`Outcome`].
pub(crate) const OUTCOMES: [&str; 7] = [
    "done",
    "insufficient_balance",
    "no_such_account",
    "balance_too_large",
    "condition_failed",
    "no_such_table",
    "invalid",
];

/// The stages of a group on the leader, each measured from the time at which it was sealed.
#[derive(Debug, Default)]
pub(crate) struct GroupLatency {
    /// Until a majority had it.
    pub(crate) committed: Histogram,
    /// Until it was applied and its clients were answered.
    pub(crate) answered: Histogram,
}

/// Flushes of one stream of the log.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    pub(crate) times: Histogram,
    /// When the flush under way began, in nanoseconds of the monotonic clock; 0: none is.
    begun_ns: AtomicU64,
}

impl Flushes {
    /// Measures a flush.
    pub(crate) fn time<T>(&self, flush: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        self.begun_ns.store(now_ns().max(1), Ordering::Relaxed);
        let flushed = flush();
        self.begun_ns.store(0, Ordering::Relaxed);
        self.times.note(begun.elapsed());
        flushed
    }

    /// The longest flush since the last call; the one under way counts as far as it is.
    pub(crate) fn take_longest(&self) -> Duration {
        let ended = self.times.take_longest();
        match self.begun_ns.load(Ordering::Relaxed) {
            0 => ended,
            begun => ended.max(Duration::from_nanos(now_ns().saturating_sub(begun))),
        }
    }
}

/// The counters of one node.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// When the process began to count, in seconds of the Unix time.
    #[cfg(feature = "metrics")]
    pub(crate) began_s: u64,
    counts: [AtomicU64; COUNTS.len()],
    refusals: [AtomicU64; REFUSALS.len()],
    outcomes: [AtomicU64; OUTCOMES.len()],
    pub(crate) groups: GroupLatency,
    /// Damaged payloads and refused sessions that were reported.
    reported: [AtomicU64; 2],
    /// One for each stream: that of Raft, then those of the workers' payloads.
    flushes: Box<[Flushes]>,
    /// An image of the tables is being written.
    image_in_progress: AtomicBool,
}

impl Metrics {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            began_s: unix_s(),
            reported: Default::default(),
            counts: Default::default(),
            refusals: Default::default(),
            outcomes: Default::default(),
            groups: GroupLatency::default(),
            flushes: (0..=workers).map(|_| Flushes::default()).collect(),
            image_in_progress: AtomicBool::new(false),
        }
    }

    /// Writes an image of the tables, which is in progress until this returns.
    pub(crate) fn during_image<T>(&self, write: impl FnOnce() -> T) -> T {
        self.image_in_progress.store(true, Ordering::Relaxed);
        let written = write();
        self.image_in_progress.store(false, Ordering::Relaxed);
        written
    }

    /// Whether an image of the tables is being written.
    pub(crate) fn is_image_in_progress(&self) -> bool {
        self.image_in_progress.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: Count, number: u64) {
        self.counts[count as usize].fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn increment(&self, count: Count) {
        self.add(count, 1);
    }

    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// Counts a refused request of a client.
    pub(crate) fn note_refusal(&self, reason: RefusalReason) {
        self.refusals[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were refused for this reason.
    pub(crate) fn refused(&self, reason: RefusalReason) -> u64 {
        self.refusals[reason as usize].load(Ordering::Relaxed)
    }

    /// The payloads that were found damaged since the last call.
    pub(crate) fn take_damaged_payloads(&self) -> u64 {
        let all = self.count(Count::PayloadsDamaged);
        all.saturating_sub(self.reported[0].swap(all, Ordering::Relaxed))
    }

    /// The sessions that were refused since the last call.
    pub(crate) fn take_refused_sessions(&self) -> u64 {
        let all = self.refused(RefusalReason::SessionsFull);
        all.saturating_sub(self.reported[1].swap(all, Ordering::Relaxed))
    }

    /// Counts the outcomes of committed commands.
    pub(crate) fn note_outcomes(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        let mut counts = [0; OUTCOMES.len()];
        for outcome in outcomes {
            counts[outcome as usize] += 1;
        }
        for (sum, count) in self.outcomes.iter().zip(counts) {
            if count > 0 {
                sum.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// The flushes of the stream of Raft's records.
    pub(crate) fn raft_flushes(&self) -> &Flushes {
        &self.flushes[0]
    }

    /// The flushes of a worker's payloads.
    ///
    /// # Panics
    /// If there is no such worker.
    pub(crate) fn payload_flushes(&self, worker: u16) -> &Flushes {
        &self.flushes[1 + usize::from(worker)]
    }

    /// The flushes of every stream, from 0.
    pub(crate) fn flushes(&self) -> &[Flushes] {
        &self.flushes
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let reasons = REFUSALS.iter().map(|(_, reason)| *reason);
        let counts = self.refusals.iter().map(|it| it.load(Ordering::Relaxed));
        reasons.zip(counts)
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.outcomes.iter().map(|it| it.load(Ordering::Relaxed));
        OUTCOMES.into_iter().zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_the_order_of_their_numbers() {
        for (at, (count, ..)) in COUNTS.into_iter().enumerate() {
            assert_eq!(count as usize, at);
        }
        for (at, (reason, _)) in REFUSALS.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
        let known = |byte: u8| Outcome::from_byte(byte).is_some();
        assert!(known(OUTCOMES.len() as u8 - 1) && !known(OUTCOMES.len() as u8));
    }

    #[test]
    fn refusals_are_counted_by_their_kind() {
        use namiki_client::protocol::SessionLimit;

        use crate::refusal::Refusal;

        let metrics = Metrics::new(1);
        let limit = SessionLimit::Client(7);
        for refusal in [
            Refusal::LogFull { request: 1 },
            Refusal::invalid(1, "the group has no commands"),
            Refusal::SessionsFull { nonce: 1, limit },
        ] {
            metrics.note_refusal(refusal.reason());
        }
        for (reason, label) in REFUSALS {
            let is_counted = ["log_full", "invalid", "sessions_full"].contains(&label);
            assert_eq!(metrics.refused(reason), u64::from(is_counted), "{label}");
        }
        // Each is reported once, also if the node starts again.
        metrics.add(Count::PayloadsDamaged, 3);
        for expected in [(3, 1), (0, 0)] {
            let taken = (
                metrics.take_damaged_payloads(),
                metrics.take_refused_sessions(),
            );
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn an_image_is_in_progress_until_it_is_written() {
        let metrics = Metrics::new(1);
        assert!(!metrics.is_image_in_progress());
        assert!(metrics.during_image(|| metrics.is_image_in_progress()));
        assert!(!metrics.is_image_in_progress());
    }

    #[test]
    fn a_flush_counts_while_it_is_under_way() {
        let flushes = Flushes::default();
        flushes.time(|| {
            let begun = flushes.begun_ns.load(Ordering::Relaxed);
            assert!(begun > 0);
            while flushes.take_longest().is_zero() {}
        });
        assert_eq!(flushes.begun_ns.load(Ordering::Relaxed), 0);
        assert!(flushes.take_longest() > Duration::ZERO);
    }
}
