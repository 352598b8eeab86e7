//! What an open database can say of itself, as values, as text for people, and in Prometheus's text format.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::api::checkpoint::settings_and_reports::CheckpointStats;
use crate::api::counters::Counters;
use crate::api::database::Database;
use crate::commit::latency::CommitLatency;
use crate::commit::views::ViewStats;
use crate::recovery::{LoadingProgress, log_file_bytes};

/// Numbers about an open database, see [`Database::stats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// How long ago it was opened.
    pub open_for: Duration,
    /// What was counted since.
    pub counters: Counters,
    /// How long transactions took until they were durable. All zero without a log.
    pub commit_latency: CommitLatency,
    /// The bytes of all log files, on the disk.
    pub log_file_bytes: u64,
    /// The bytes of all tables in segments, on the disk.
    pub segment_file_bytes: u64,
    /// The read views, and what is kept for them.
    pub views: ViewStats,
    /// Checkpoints, and the image that is there.
    pub checkpoints: CheckpointStats,
    /// How far the loading of the tables is that began with the opening.
    pub loading: LoadingProgress,
    /// The tables in memory, in the order of their creation.
    pub tables: Vec<TableStats>,
}

/// What a table takes in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// The bytes of its index.
    pub index_bytes: usize,
    /// The bytes of its records. Values that do not fit into their record's own room are left out.
    pub record_bytes: usize,
}

impl Database {
    /// Numbers for operators: what was counted, how long commits take, and what takes memory and room on the disk.
    ///
    /// Sizes of files are asked of the disk, and those of indexes are added up: meant to be called each second or less
    /// often. [`Database::counters`] takes less.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = namiki::Database::in_memory()?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// let stats = db.stats();
    /// assert_eq!(stats.counters.committed, 1);
    /// println!("{stats}");
    /// assert!(stats.to_prometheus().contains("namiki_commits_total 1"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &*self.shared;
        let engine = &shared.engine;
        let mut stats = Stats {
            open_for: shared.opened_at.elapsed(),
            counters: self.counters(),
            commit_latency: engine.latencies.summary(),
            log_file_bytes: 0,
            segment_file_bytes: 0,
            views: ViewStats::default(),
            checkpoints: CheckpointStats::default(),
            loading: LoadingProgress::default(),
            tables: Vec::new(),
        };
        // In a forked child, what follows may be locked by a thread that is not there.
        if !engine.is_own() {
            return stats;
        }
        stats.views = engine.views.stats();
        if let Some(checkpointer) = &shared.checkpointer {
            stats.checkpoints = checkpointer.stats();
        }
        stats.loading = shared.loader.progress();
        let manifest = shared.catalogue.lock().manifest.clone();
        stats.log_file_bytes = log_file_bytes(&*shared.disk, &shared.dir.join("wal"), &manifest);
        stats.segment_file_bytes = manifest.image.segments().map(|it| it.len_bytes()).sum();
        let raw_tables: Vec<_> = engine.raw_tables.lock().values().cloned().collect();
        stats.tables = raw_tables
            .iter()
            .map(|raw_table| TableStats {
                name: raw_table.name(),
                // Nothing else uses an index that is being built.
                index_bytes: match raw_table.is_loaded() {
                    true => raw_table.index_bytes(),
                    false => 0,
                },
                record_bytes: raw_table.record_bytes(),
            })
            .collect();
        stats
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters {
            committed,
            read_only,
            conflicts_by_kind,
            log,
            locks,
            ..
        } = &self.counters;
        writeln!(f, "open for         {:.1?}", self.open_for)?;
        writeln!(
            f,
            "commits          {committed} that wrote, {read_only} that only read"
        )?;
        writeln!(
            f,
            "conflicts        {}: {} locked to write, {} locked to read, {} read and changed, {} wounded, {} phantoms",
            conflicts_by_kind.all(),
            conflicts_by_kind.write_locked,
            conflicts_by_kind.read_locked,
            conflicts_by_kind.read_changed,
            conflicts_by_kind.wounded,
            conflicts_by_kind.phantom
        )?;
        let latency = &self.commit_latency;
        if latency.count > 0 {
            writeln!(
                f,
                "commit latency   {:.1?} median, {:.1?} p90, {:.1?} p99, {:.1?} p99.9, {:.1?} longest, of {}",
                latency.p50, latency.p90, latency.p99, latency.p999, latency.max, latency.count
            )?;
        }
        if log.flushes > 0 {
            writeln!(
                f,
                "log              {} bytes in files; {} flushes of {:.1} commits, {:.0} bytes and {:.1?} each",
                self.log_file_bytes,
                log.flushes,
                log.commits as f64 / log.flushes as f64,
                log.frame_bytes as f64 / log.flushes as f64,
                Duration::from_nanos(log.flush_ns / log.flushes)
            )?;
        }
        if locks.waits > 0 {
            writeln!(
                f,
                "lock waits       {}, {:.1?} in all, {:.1?} the longest",
                locks.waits,
                Duration::from_nanos(locks.waited_ns),
                Duration::from_nanos(locks.longest_ns)
            )?;
        }
        if self.segment_file_bytes > 0 {
            writeln!(
                f,
                "segments         {} bytes in files",
                self.segment_file_bytes
            )?;
        }
        if let (Some(stamp), Some(open_for)) = (self.views.oldest_stamp, self.views.oldest_for) {
            writeln!(
                f,
                "views            {} open, {} bytes kept for them; the oldest at {stamp}, for {open_for:.1?}; {} ended by the \
                 limit",
                self.views.open, self.views.kept_bytes, self.views.expired
            )?;
        }
        let checkpoints = &self.checkpoints;
        if let (Some(stamp), Some(ago)) = (checkpoints.image_stamp, checkpoints.last_ago) {
            writeln!(
                f,
                "checkpoints      {} taken, {} failed; the last {ago:.1?} ago, at {stamp}: {} bytes in files, {} of log since",
                checkpoints.taken,
                checkpoints.failed,
                checkpoints.image_file_bytes,
                checkpoints.log_bytes_since
            )?;
        }
        if let Some(error) = &checkpoints.last_error {
            writeln!(f, "checkpoint       failed: {error:?}")?;
        }
        let loading = &self.loading;
        if !loading.is_over() || loading.tables_failed > 0 {
            writeln!(
                f,
                "loading          {} of {} tables, {} of {} rows; {} tables cannot be loaded",
                loading.tables,
                loading.tables_total,
                loading.rows,
                loading.rows_total,
                loading.tables_failed
            )?;
        }
        for table in &self.tables {
            writeln!(
                f,
                "table {:<10?} {} bytes of index, {} of records",
                table.name, table.index_bytes, table.record_bytes
            )?;
        }
        Ok(())
    }
}

impl Stats {
    /// All numbers in Prometheus's text format, version 0.0.4: what a program answers on its `/metrics`.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = Exposition::default();
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
        let latency = &self.commit_latency;
        let name = "commit_latency_seconds";
        text.head(
            name,
            "From a transaction's beginning until it was durable.",
            "summary",
        );
        for (quantile, time) in [
            ("0.5", latency.p50),
            ("0.9", latency.p90),
            ("0.99", latency.p99),
            ("0.999", latency.p999),
            ("1", latency.max),
        ] {
            text.line(name, &[("quantile", quantile)], time.as_secs_f64());
        }
        text.line(&format!("{name}_sum"), &[], latency.sum.as_secs_f64());
        text.line(&format!("{name}_count"), &[], latency.count);
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
        let name = "log_group_commits";
        text.head(name, "Commits in each frame of the log.", "histogram");
        let mut frames = 0;
        for (class, count) in log.group_sizes.iter().enumerate() {
            frames += count;
            // The class of 2^(n-1) to 2^n - 1 commits.
            let le = ((1_u64 << class) - 1).to_string();
            if class + 1 < log.group_sizes.len() {
                text.line(&format!("{name}_bucket"), &[("le", &le)], frames);
            }
        }
        text.line(&format!("{name}_bucket"), &[("le", "+Inf")], frames);
        text.line(&format!("{name}_sum"), &[], log.commits);
        text.line(&format!("{name}_count"), &[], frames);
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
        text.0
    }
}

/// Prometheus's text format.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.0,
            "# HELP namiki_{name} {help}\n# TYPE namiki_{name} {kind}"
        );
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        let _ = write!(self.0, "namiki_{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', r"\\")
                .replace('"', r#"\""#)
                .replace('\n', r"\n");
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namiki_platform::disk::MemoryDisk;

    use super::*;

    /// Each line is a comment, or a name with labels and a number; each name is announced first, once.
    fn assert_well_formed(text: &str) {
        let mut announced = Vec::new();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, _) = kind.split_once(' ').unwrap();
                assert!(!announced.contains(&name), "{line}");
                announced.push(name);
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = series.split('{').next().unwrap();
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end));
                let last = announced.last().unwrap();
                assert!(name == *last || base == Some(last), "{line}");
            }
        }
    }

    #[test]
    fn stats_say_what_happened() {
        let disk = Arc::new(MemoryDisk::new());
        let spec = "S2PL(NLR)+PWAL(1)".parse().unwrap();
        let builder = Database::builder().disk(disk).spec(spec);
        let db = builder
            .segment_bytes(1 << 20)
            .buffer_bytes(64 << 10)
            .open("/db")
            .unwrap();
        let table = db.table::<u64, [u8]>("a \"quoted\\ name\n").unwrap();
        for key in 0..10 {
            db.transact(|tx| tx.put(&table, &key, &[1; 100])).unwrap();
        }
        let stats = db.stats();
        assert_eq!(stats.counters.committed, 10);
        assert_eq!(stats.commit_latency.count, 10);
        let latency = &stats.commit_latency;
        assert!(latency.p50 > Duration::ZERO && latency.p50 <= latency.p999);
        assert!(latency.p999 <= latency.max && latency.sum >= latency.max);
        assert_eq!(stats.counters.log.group_sizes[1], 10);
        assert_eq!(
            stats.counters.log.group_sizes.iter().sum::<u64>(),
            stats.counters.log.flushes
        );
        assert!(stats.log_file_bytes >= 1 << 20);
        assert!(stats.tables[0].record_bytes > 0 && stats.tables[0].index_bytes > 0);
        let text = stats.to_prometheus();
        assert_well_formed(&text);
        for line in [
            "namiki_commits_total 10",
            "namiki_conflicts_total{kind=\"phantom\"} 0",
            "namiki_log_group_commits_bucket{le=\"0\"} 0",
            "namiki_log_group_commits_bucket{le=\"1\"} 10",
            "namiki_log_group_commits_count 10",
            "namiki_commit_latency_seconds_count 10",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
        assert!(text.contains(r#"{table="a \"quoted\\ name\n"}"#), "{text}");
        assert!(stats.to_string().contains("10 that wrote"), "{stats}");
    }
}
