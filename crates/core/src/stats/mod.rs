//! Statistics of an open database: as values, as text for people, and in Prometheus's text format.

pub(crate) mod counters;
mod disk_use;
mod prometheus;
mod text_for_people;

use std::path::PathBuf;
use std::time::Duration;

pub use self::disk_use::DiskUse;
use crate::api::database::Database;
use crate::backup::followed_backup::BackupStats;
use crate::checkpoint::horizon_stats::HorizonStats;
use crate::checkpoint::settings_and_reports::CheckpointStats;
use crate::commit::latency::CommitLatency;
use crate::commit::views::ViewStats;
use crate::recovery::{LoadingProgress, log_file_bytes};
use crate::stats::counters::Counters;

/// Statistics of an open database, see [`Database::stats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Its directory.
    pub dir: PathBuf,
    /// How long ago it was opened.
    pub open_for: Duration,
    /// The counts since then.
    pub counters: Counters,
    /// How long transactions took until they were durable. All zero without a log.
    pub commit_latency: CommitLatency,
    /// The bytes of all log files, on the disk.
    pub log_file_bytes: u64,
    /// The bytes of all tables in segments, on the disk.
    pub segment_file_bytes: u64,
    /// The read views, and the versions that are kept for them.
    pub views: ViewStats,
    /// Checkpoints, and the present image.
    pub checkpoints: CheckpointStats,
    /// The backup that follows the database, if [one does](crate::Builder::backup_to).
    pub backup: Option<BackupStats>,
    /// The progress of the loading of tables that began with the opening.
    pub loading: LoadingProgress,
    /// Bytes on the disk, against those of keys and values.
    pub disk_use: DiskUse,
    /// The transactions and views for which new views, checkpoints and the log wait.
    pub horizon: HorizonStats,
    /// The tables in memory, in the order of their creation.
    pub tables: Vec<TableStats>,
}

/// The memory of a table.
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
    /// Statistics for operators: counters, commit latencies, and the use of memory and disk.
    ///
    /// It queries the sizes of files and adds up those of indexes: call it at most once a second.
    /// [`Database::counters`] is cheaper.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = namiki::Database::in_memory()?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// let stats = db.stats();
    /// assert_eq!(stats.counters.committed, 1);
    /// println!("{stats}");
    /// assert!(stats.to_prometheus().contains("namiki_commits_total{database=\"/memory\"} 1"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &*self.shared;
        let engine = &shared.engine;
        let mut stats = Stats {
            dir: shared.dir.clone(),
            open_for: shared.opened_at.elapsed(),
            counters: self.counters(),
            commit_latency: engine.latencies.summary(),
            log_file_bytes: 0,
            segment_file_bytes: 0,
            views: ViewStats::default(),
            checkpoints: CheckpointStats::default(),
            backup: None,
            loading: LoadingProgress::default(),
            disk_use: DiskUse::default(),
            horizon: HorizonStats::default(),
            tables: Vec::new(),
        };
        // In a forked child, the locks below may be held by a thread that does not exist there.
        if !engine.is_own() {
            return stats;
        }
        stats.views = engine.views.stats();
        if let Some(checkpointer) = &shared.checkpointer {
            stats.checkpoints = checkpointer.stats();
            stats.backup = checkpointer.backup_stats();
            stats.horizon = checkpointer.horizon();
        }
        stats.loading = shared.loader.progress();
        let manifest = shared.catalogue.lock().manifest.clone();
        stats.log_file_bytes = log_file_bytes(&*shared.disk, &shared.dir.join("wal"), &manifest);
        stats.disk_use = DiskUse::new(&stats.counters, &stats.checkpoints, stats.log_file_bytes);
        stats.segment_file_bytes = manifest
            .loaded_tables
            .segments()
            .map(|it| it.len_bytes())
            .sum();
        let raw_tables: Vec<_> = engine.raw_tables.lock().values().cloned().collect();
        stats.tables = raw_tables
            .iter()
            .map(|raw_table| TableStats {
                name: raw_table.name(),
                // No other thread uses an index that is being built.
                index_bytes: if raw_table.is_loaded() {
                    raw_table.index_bytes()
                } else {
                    0
                },
                record_bytes: raw_table.record_bytes(),
            })
            .collect();
        stats
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
            .log_file_bytes(1 << 20)
            .buffer_bytes(64 << 10)
            .open("/db")
            .unwrap();
        let table = db.table::<u64, [u8]>("a \"quoted\\ name").unwrap();
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
        let disk_use = &stats.disk_use;
        assert_eq!(disk_use.changed_bytes, 10 * (8 + 100));
        assert!(disk_use.frame_bytes > disk_use.changed_bytes);
        assert!(disk_use.zero_bytes >= 1 << 20 && disk_use.file_bytes >= 1 << 20);
        let written = disk_use.frame_bytes + disk_use.zero_bytes;
        let amplification = written as f64 / disk_use.changed_bytes as f64;
        assert_eq!(disk_use.write_amplification(), Some(amplification));
        assert_eq!(disk_use.space_amplification(), None);
        db.checkpoint().unwrap();
        let stats = db.stats();
        let disk_use = &stats.disk_use;
        assert_eq!(disk_use.image_bytes, 10 * (8 + 100));
        assert!(disk_use.checkpoint_file_bytes > disk_use.image_bytes);
        assert!(disk_use.space_amplification() > Some(1.0));
        assert!(stats.tables[0].record_bytes > 0 && stats.tables[0].index_bytes > 0);
        let text = stats.to_prometheus();
        assert_well_formed(&text);
        for line in [
            "namiki_commits_total{database=\"/db\"} 10",
            "namiki_conflicts_total{database=\"/db\",kind=\"phantom\"} 0",
            "namiki_log_group_commits_bucket{database=\"/db\",le=\"0\"} 0",
            "namiki_log_group_commits_bucket{database=\"/db\",le=\"1\"} 10",
            "namiki_log_group_commits_bucket{database=\"/db\",le=\"+Inf\"} 10",
            "namiki_log_group_commits_count{database=\"/db\"} 10",
            "# TYPE namiki_commit_latency_seconds histogram",
            "namiki_commit_latency_seconds_bucket{database=\"/db\",le=\"68.719476735\"} 10",
            "namiki_commit_latency_seconds_bucket{database=\"/db\",le=\"+Inf\"} 10",
            "namiki_commit_latency_seconds_count{database=\"/db\"} 10",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
        assert!(text.contains(r#",table="a \"quoted\\ name"}"#), "{text}");
        // The output for two databases describes each metric once.
        let both = Stats::all_to_prometheus([("a", &stats), ("b", &stats)]);
        assert_well_formed(&both);
        assert_eq!(
            both.lines().filter(|line| !line.starts_with('#')).count(),
            { 2 * text.lines().filter(|line| !line.starts_with('#')).count() }
        );
        assert!(stats.to_string().contains("10 that wrote"), "{stats}");
    }
}
