//! The statistics of an open database as text for people.

use std::fmt;
use std::time::Duration;

use super::Stats;
use crate::stats::counters::Counters;

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_transactions(f)?;
        self.write_views(f)?;
        self.write_disk_use(f)?;
        self.write_horizon(f)?;
        self.write_checkpoints(f)?;
        self.write_backup(f)?;
        self.write_tables(f)
    }
}

/// Each writes some lines.
impl Stats {
    fn write_transactions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        Ok(())
    }

    fn write_views(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        Ok(())
    }

    fn write_disk_use(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let disk_use = &self.disk_use;
        if let Some(written) = disk_use.write_amplification() {
            write!(
                f,
                "disk use         {written:.2} bytes written for each of {} that were changed",
                disk_use.changed_bytes
            )?;
            match disk_use.space_amplification() {
                Some(taken) => writeln!(f, "; {taken:.2} taken for each in the image")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }

    fn write_horizon(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let horizon = &self.horizon;
        if let Some(since) = horizon.commit_since {
            writeln!(f, "held back        by a commit, for {since:.1?}")?;
        }
        if let (Some(lsn), Some(since)) = (horizon.oldest_operation, horizon.operation_since) {
            writeln!(
                f,
                "log kept from    {lsn} on, by a transaction that has not ended for {since:.1?}"
            )?;
        }
        Ok(())
    }

    fn write_checkpoints(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checkpoints = &self.checkpoints;
        if let Some(region) = checkpoints.region {
            writeln!(
                f,
                "shared device    {} of {} bytes are used of the fullest region",
                region.kept_bytes, region.bytes
            )?;
        }
        if checkpoints.is_short_of_room {
            writeln!(
                f,
                "checkpoint       short of room on the disk: {} bytes are taken ahead for the next one, more would be needed",
                checkpoints.preallocated_bytes
            )?;
        }
        if let Some(under_way) = checkpoints.under_way_for {
            writeln!(f, "checkpoint       under way for {under_way:.1?}")?;
        }
        if let Some(error) = &checkpoints.last_error {
            writeln!(f, "checkpoint       failed: {error:?}")?;
        }
        Ok(())
    }

    fn write_backup(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(backup) = &self.backup {
            let ago = backup.last_ago.map(|ago| format!("the last {ago:.1?} ago"));
            writeln!(
                f,
                "backup           {} taken, {} failed; {}; {} gaps between restore points",
                backup.taken,
                backup.failed,
                ago.unwrap_or_else(|| "none yet".to_owned()),
                backup.gaps
            )?;
            if let Some(error) = &backup.last_error {
                writeln!(f, "backup           failed: {error:?}")?;
            }
        }
        Ok(())
    }

    fn write_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
