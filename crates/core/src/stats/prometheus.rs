//! The numbers of an open database in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use super::{Stats, TableStats};
use crate::commit::latency::CommitLatency;
use crate::stats::counters::Counters;

impl Stats {
    /// All numbers in Prometheus's text format, version 0.0.4: what a program answers on its `/metrics`. Each has the label
    /// `database`, the directory; with a name of your own, and for several databases, [`Stats::all_to_prometheus`].
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        Self::all_to_prometheus([(&*self.dir.to_string_lossy(), self)])
    }

    /// The numbers of several databases, each with a name for its label `database`. (The format announces each number once, so
    /// the texts of several cannot be put together.)
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
        let Counters {
            committed,
            read_only,
            conflicts_by_kind,
            failed_locks,
            log,
            locks,
            ..
        } = &self.counters;
        text.gauge(
            "open_seconds",
            "How long ago the database was opened.",
            self.open_for.as_secs_f64(),
        );
        text.counter(
            "commits_total",
            "Transactions that wrote and committed.",
            *committed,
        );
        text.counter(
            "read_only_commits_total",
            "Transactions that only read.",
            *read_only,
        );
        let kinds = [
            ("write_locked", conflicts_by_kind.write_locked),
            ("read_locked", conflicts_by_kind.read_locked),
            ("read_changed", conflicts_by_kind.read_changed),
            ("wounded", conflicts_by_kind.wounded),
            ("phantom", conflicts_by_kind.phantom),
        ];
        text.head(
            "conflicts_total",
            "Attempts that ended in a conflict.",
            "counter",
        );
        for (kind, count) in kinds {
            text.line("conflicts_total", &[("kind", kind)], count);
        }
        text.counter(
            "failed_locks_total",
            "Rounds of locking that failed.",
            *failed_locks,
        );
        self.add_commit_latency(text);
        text.counter(
            "log_flushes_total",
            "Frames written to the log.",
            log.flushes,
        );
        text.counter(
            "log_frame_bytes_total",
            "Bytes of these frames.",
            log.frame_bytes,
        );
        text.counter(
            "log_flush_seconds_total",
            "The time of all flushes.",
            Duration::from_nanos(log.flush_ns).as_secs_f64(),
        );
        // The class of 2^(n-1) to 2^n - 1 commits; the last has no bound.
        let classes = &log.group_sizes[..log.group_sizes.len() - 1];
        let bounds = (0..classes.len()).map(|class| ((1_u64 << class) - 1).to_string());
        text.histogram(
            "log_group_commits",
            "Commits in each frame of the log.",
            bounds.zip(classes.iter().copied()),
            (log.commits, log.group_sizes.iter().sum()),
        );
        text.gauge(
            "log_file_bytes",
            "Bytes of all log files.",
            self.log_file_bytes,
        );
        text.gauge(
            "segment_file_bytes",
            "Bytes of all segments.",
            self.segment_file_bytes,
        );
        text.gauge("views_open", "Read views that are open.", self.views.open);
        text.gauge(
            "view_kept_bytes",
            "Memory for versions that views may see.",
            self.views.kept_bytes,
        );
        let oldest = self.views.oldest_for.unwrap_or_default();
        text.gauge(
            "oldest_view_seconds",
            "How long ago the oldest view was opened.",
            oldest.as_secs_f64(),
        );
        text.counter(
            "views_expired_total",
            "Views ended because they took too much memory.",
            self.views.expired,
        );
        let checkpoints = &self.checkpoints;
        text.counter(
            "checkpoints_total",
            "Checkpoints that were taken.",
            checkpoints.taken,
        );
        text.counter(
            "checkpoints_failed_total",
            "Checkpoints that failed.",
            checkpoints.failed,
        );
        text.counter(
            "checkpoint_bytes_total",
            "Bytes of keys and values that checkpoints have written.",
            checkpoints.bytes_written,
        );
        text.gauge(
            "image_file_bytes",
            "Bytes of the image's files.",
            checkpoints.image_file_bytes,
        );
        text.gauge(
            "log_bytes_since_checkpoint",
            "Bytes of log since the last checkpoint.",
            checkpoints.log_bytes_since,
        );
        text.counter(
            "changed_bytes_total",
            "Bytes of keys and values that commits have changed.",
            self.disk_use.changed_bytes,
        );
        text.counter(
            "log_zero_bytes_total",
            "Bytes of zeros written to make log files ready.",
            self.disk_use.zero_bytes,
        );
        text.counter(
            "checkpoint_file_bytes_total",
            "Bytes of files that checkpoints have written.",
            self.disk_use.checkpoint_file_bytes,
        );
        text.gauge(
            "image_bytes",
            "Bytes of keys and values in the image.",
            self.disk_use.image_bytes,
        );
        text.gauge(
            "checkpoint_preallocated_bytes",
            "Room on the disk taken ahead for the next checkpoint.",
            checkpoints.preallocated_bytes,
        );
        text.gauge(
            "checkpoint_short_of_room",
            "1 if there was less room than the next checkpoint is expected to need.",
            u8::from(checkpoints.is_short_of_room),
        );
        if let Some(region) = checkpoints.region {
            text.gauge(
                "log_region_kept_bytes",
                "Bytes used of the fullest region of the shared device.",
                region.kept_bytes,
            );
            text.gauge(
                "log_region_bytes",
                "Bytes that a region of the shared device has room for.",
                region.bytes,
            );
        }
        if let Some(backup) = &self.backup {
            text.counter(
                "backups_total",
                "Backups that were taken to follow the database.",
                backup.taken,
            );
            text.counter(
                "backups_failed_total",
                "Backups that failed.",
                backup.failed,
            );
            text.counter(
                "backup_gaps_total",
                "Checkpoints before which the backup could not be brought up to date.",
                backup.gaps,
            );
            if let Some(ago) = backup.last_ago {
                text.gauge(
                    "backup_age_seconds",
                    "How long ago the last backup was begun.",
                    ago.as_secs_f64(),
                );
            }
        }
        let horizon = &self.horizon;
        text.gauge(
            "commit_holds_views_seconds",
            "How long an epoch has waited for a commit.",
            horizon.commit_since.unwrap_or_default().as_secs_f64(),
        );
        text.gauge(
            "transaction_holds_log_seconds",
            "How long the log has been kept for a transaction that has not ended.",
            horizon.operation_since.unwrap_or_default().as_secs_f64(),
        );
        let loading = &self.loading;
        text.gauge(
            "tables_loading",
            "Tables that are not loaded yet after the opening.",
            loading.tables_total - loading.tables - loading.tables_failed,
        );
        text.gauge(
            "tables_not_loaded",
            "Tables that cannot be loaded.",
            loading.tables_failed,
        );
        text.counter(
            "lock_waits_total",
            "Waits for locks of others.",
            locks.waits,
        );
        text.counter(
            "lock_wait_seconds_total",
            "The time of these waits.",
            Duration::from_nanos(locks.waited_ns).as_secs_f64(),
        );
        text.counter(
            "lock_timeouts_total",
            "Waits for locks that took too long.",
            locks.timeouts,
        );
        for (name, help, bytes) in [
            (
                "table_index_bytes",
                "Memory of a table's index.",
                (|table| table.index_bytes) as fn(&TableStats) -> usize,
            ),
            (
                "table_record_bytes",
                "Memory of a table's records.",
                |table| table.record_bytes,
            ),
        ] {
            text.head(name, help, "gauge");
            for table in &self.tables {
                text.line(name, &[("table", &table.name)], bytes(table));
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
        text.gauge(
            "commit_latency_seconds_max",
            "The longest of these times.",
            latency.max.as_secs_f64(),
        );
    }
}

/// Prometheus's text format.
#[derive(Default)]
struct Exposition {
    /// What is said of each number, in alphabetical order: it is announced once, and the lines of all databases follow.
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

    /// How many there were up to each of some bounds, and beyond the one before; then the sum of all, and how many.
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

    fn counter(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.head(name, help, "counter");
        self.line(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.head(name, help, "gauge");
        self.line(name, &[], value);
    }
}
