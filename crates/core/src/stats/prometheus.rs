//! The statistics of an open database in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use super::{Stats, TableStats};
use crate::commit::latency::CommitLatency;

/// A number of a database; `None` if the database has none of it.
type Value = fn(&Stats) -> Option<Number>;

/// The kind, the name without its prefix, the value and the help of each number without labels of its own.
#[rustfmt::skip]
const METRICS: &[(&str, &str, Value, &str)] = &[
    ("counter", "commits_total", |it| count(it.counters.committed),
        "Transactions that wrote and committed."),
    ("counter", "read_only_commits_total", |it| count(it.counters.read_only),
        "Transactions that only read."),
    ("counter", "failed_locks_total", |it| count(it.counters.failed_locks),
        "Rounds of locking that failed."),
    ("gauge", "commit_latency_seconds_max", |it| seconds(it.commit_latency.max),
        "The longest of these times."),
    ("counter", "changed_bytes_total", |it| count(it.disk_use.changed_bytes),
        "Bytes of keys and values that commits have changed."),
    ("gauge", "open_seconds", |it| seconds(it.open_for),
        "How long ago the database was opened."),

    ("counter", "log_flushes_total", |it| count(it.counters.log.flushes),
        "Frames written to the log."),
    ("counter", "log_frame_bytes_total", |it| count(it.counters.log.frame_bytes),
        "Bytes of these frames."),
    ("counter", "log_flush_seconds_total", |it| nanoseconds(it.counters.log.flush_ns),
        "The time of all flushes."),
    ("counter", "log_zero_bytes_total", |it| count(it.disk_use.zero_bytes),
        "Bytes of zeros written to make log files ready."),
    ("gauge", "log_file_bytes", |it| count(it.log_file_bytes),
        "Bytes of all log files."),
    ("gauge", "log_bytes_since_checkpoint", |it| count(it.checkpoints.log_bytes_since),
        "Bytes of log since the last checkpoint."),
    ("gauge", "log_region_kept_bytes", |it| count(it.checkpoints.region?.kept_bytes),
        "Bytes used of the fullest region of the shared device."),
    ("gauge", "log_region_bytes", |it| count(it.checkpoints.region?.bytes),
        "Bytes that a region of the shared device has room for."),
    ("gauge", "transaction_holds_log_seconds", |it| seconds(it.horizon.operation_since.unwrap_or_default()),
        "How long the log has been kept for a transaction that has not ended."),

    ("counter", "checkpoints_total", |it| count(it.checkpoints.taken),
        "Checkpoints that were taken."),
    ("counter", "checkpoints_failed_total", |it| count(it.checkpoints.failed),
        "Checkpoints that failed."),
    ("counter", "checkpoint_bytes_total", |it| count(it.checkpoints.bytes_written),
        "Bytes of keys and values that checkpoints have written."),
    ("counter", "checkpoint_file_bytes_total", |it| count(it.disk_use.checkpoint_file_bytes),
        "Bytes of files that checkpoints have written."),
    ("gauge", "checkpoint_preallocated_bytes", |it| count(it.checkpoints.preallocated_bytes),
        "Room on the disk taken ahead for the next checkpoint."),
    ("gauge", "checkpoint_short_of_room", |it| count(it.checkpoints.is_short_of_room.into()),
        "1 if there was less room than the next checkpoint is expected to need."),
    ("gauge", "image_bytes", |it| count(it.disk_use.image_bytes),
        "Bytes of keys and values in the image."),
    ("gauge", "image_file_bytes", |it| count(it.checkpoints.image_file_bytes),
        "Bytes of the image's files."),
    ("gauge", "segment_file_bytes", |it| count(it.segment_file_bytes),
        "Bytes of all segments."),

    ("counter", "backups_total", |it| count(it.backup.as_ref()?.taken),
        "Backups that were taken to follow the database."),
    ("counter", "backups_failed_total", |it| count(it.backup.as_ref()?.failed),
        "Backups that failed."),
    ("counter", "backup_gaps_total", |it| count(it.backup.as_ref()?.gaps),
        "Checkpoints before which the backup could not be brought up to date."),
    ("gauge", "backup_age_seconds", |it| seconds(it.backup.as_ref()?.last_ago?),
        "How long ago the last backup was begun."),

    ("gauge", "views_open", |it| count(it.views.open),
        "Read views that are open."),
    ("gauge", "view_kept_bytes", |it| count(it.views.kept_bytes),
        "Memory for versions that views may see."),
    ("gauge", "oldest_view_seconds", |it| seconds(it.views.oldest_for.unwrap_or_default()),
        "How long ago the oldest view was opened."),
    ("counter", "views_expired_total", |it| count(it.views.expired),
        "Views ended because they took too much memory."),
    ("gauge", "commit_holds_views_seconds", |it| seconds(it.horizon.commit_since.unwrap_or_default()),
        "How long an epoch has waited for a commit."),

    ("gauge", "tables_loading", |it| count(it.loading.tables_total - it.loading.tables - it.loading.tables_failed),
        "Tables that are not loaded yet after the opening."),
    ("gauge", "tables_not_loaded", |it| count(it.loading.tables_failed),
        "Tables that cannot be loaded."),

    ("counter", "lock_waits_total", |it| count(it.counters.locks.waits),
        "Waits for locks of others."),
    ("counter", "lock_wait_seconds_total", |it| nanoseconds(it.counters.locks.waited_ns),
        "The time of these waits."),
    ("counter", "lock_timeouts_total", |it| count(it.counters.locks.timeouts),
        "Waits for locks that took too long."),
];

/// The name, the value and the help of each number of a table.
#[rustfmt::skip]
const METRICS_OF_TABLES: &[(&str, fn(&TableStats) -> usize, &str)] = &[
    ("table_index_bytes", |it| it.index_bytes, "Memory of a table's index."),
    ("table_record_bytes", |it| it.record_bytes, "Memory of a table's records."),
];

/// As Prometheus reads it: times are in seconds.
enum Number {
    Count(u64),
    Seconds(Duration),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Seconds(time) => time.as_secs_f64().fmt(f),
        }
    }
}

fn count(count: u64) -> Option<Number> {
    Some(Number::Count(count))
}

fn seconds(time: Duration) -> Option<Number> {
    Some(Number::Seconds(time))
}

fn nanoseconds(time_ns: u64) -> Option<Number> {
    seconds(Duration::from_nanos(time_ns))
}

impl Stats {
    /// All metrics in Prometheus's text format, version 0.0.4: a program's response on `/metrics`.
    /// Each has the label `database`, the directory. For another name, or for several databases,
    /// use [`Stats::all_to_prometheus`].
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        Self::all_to_prometheus([(&*self.dir.to_string_lossy(), self)])
    }

    /// The metrics of several databases, each with a name for its label `database`. (The format
    /// describes each metric once, so the texts of several databases cannot be concatenated.)
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use namiki::{Database, Stats};
    ///
    /// let (shop, stock) = (Database::in_memory()?, Database::in_memory()?);
    /// let text = Stats::all_to_prometheus([("shop", &shop.stats()), ("stock", &stock.stats())]);
    /// assert!(text.contains("namiki_commits_total{database=\"stock\"} 0"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn all_to_prometheus<'a>(
        databases: impl IntoIterator<Item = (&'a str, &'a Self)>,
    ) -> String {
        let mut text = Exposition::default();
        for (database, stats) in databases {
            text.database = database.to_owned();
            stats.add_to(&mut text);
        }
        text.metrics.into_values().collect()
    }

    fn add_to(&self, text: &mut Exposition) {
        for (kind, name, value, help) in METRICS {
            if let Some(value) = value(self) {
                text.head(name, help, kind);
                text.line(name, &[], value);
            }
        }
        let conflicts = &self.counters.conflicts_by_kind;
        text.head(
            "conflicts_total",
            "Attempts that ended in a conflict.",
            "counter",
        );
        for (kind, count) in [
            ("write_locked", conflicts.write_locked),
            ("read_locked", conflicts.read_locked),
            ("read_changed", conflicts.read_changed),
            ("wounded", conflicts.wounded),
            ("phantom", conflicts.phantom),
        ] {
            text.line("conflicts_total", &[("kind", kind)], count);
        }
        self.add_commit_latency(text);
        let log = &self.counters.log;
        // The class of 2^(n-1) to 2^n - 1 commits; the last has no bound.
        let classes = &log.group_sizes[..log.group_sizes.len() - 1];
        let bounds = (0..classes.len()).map(|class| ((1_u64 << class) - 1).to_string());
        text.histogram(
            "log_group_commits",
            "Commits in each frame of the log.",
            bounds.zip(classes.iter().copied()),
            (log.commits, log.group_sizes.iter().sum()),
        );
        for (name, value, help) in METRICS_OF_TABLES {
            text.head(name, help, "gauge");
            for table in &self.tables {
                text.line(name, &[("table", &table.name)], value(table));
            }
        }
    }

    fn add_commit_latency(&self, text: &mut Exposition) {
        let latency = &self.commit_latency;
        let bounds = latency.buckets.iter().enumerate();
        let bounds = bounds.filter_map(|(at, count)| Some((CommitLatency::bound(at)?, *count)));
        text.histogram(
            "commit_latency_seconds",
            "From a transaction's beginning until it was durable.",
            bounds.map(|(bound, count)| (bound.as_secs_f64().to_string(), count)),
            (latency.sum.as_secs_f64(), latency.count),
        );
    }
}

/// Prometheus's text format.
#[derive(Default)]
struct Exposition {
    /// The text of each metric, in alphabetical order: one description, then the lines of all
    /// databases.
    metrics: BTreeMap<String, String>,
    /// The number that lines are added to.
    metric: String,
    /// The name of the database that these numbers are of.
    database: String,
}

impl Exposition {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        name.clone_into(&mut self.metric);
        self.metrics.entry(name.to_owned()).or_insert_with(|| {
            format!("# HELP namiki_{name} {help}\n# TYPE namiki_{name} {kind}\n")
        });
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        let database = [("database", &*self.database)];
        let labels = database.iter().chain(labels).map(|(label, text)| {
            let text = text
                .replace('\\', r"\\")
                .replace('"', r#"\""#)
                .replace('\n', r"\n");
            format!("{label}=\"{text}\"")
        });
        let labels = labels.collect::<Vec<_>>().join(",");
        let lines = self.metrics.entry(self.metric.clone()).or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "namiki_{name}{{{labels}}} {value}");
    }

    /// Histogram buckets: the count up to each bound and above the previous one; then the sum and
    /// the count of all.
    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        buckets: impl Iterator<Item = (String, u64)>,
        (sum, count): (impl fmt::Display, u64),
    ) {
        self.head(name, help, "histogram");
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, there) in buckets {
            below += there;
            self.line(&bucket, &[("le", &bound)], below);
        }
        self.line(&bucket, &[("le", "+Inf")], count);
        self.line(&format!("{name}_sum"), &[], sum);
        self.line(&format!("{name}_count"), &[], count);
    }
}
