//! `namiki check`: verifies a database directory without changing anything in it.
//!
//! It verifies:
//!
//! - the checksums and the consistency of the manifest and its table journal;
//! - in each generation of the log and each of its streams: that all frames exist, that their
//!   checksums hold, and that every change can be decoded and belongs to an existing table;
//! - where log sequence numbers are drawn: that no durable one is missing;
//! - for tables in segments: every page, the number of rows in the manifest, that indexes have the
//!   keys of the rows, and that no loaded segment is missing from the manifest;
//! - for the image of the tables in memory: its list, every page of every run, and every row
//!   against the list;
//! - the same for each earlier backup that a backup keeps.
//!
//! Bytes behind the last frame of a log that was not closed are a torn tail, and not damage, if and
//! only if no later frame follows them (`namiki_log`, reading).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use namiki::files::{
    Changes, EarlierBackup, FileNumber, Manifest, Operation, TransactionTable, announces_all,
    earlier_backups, read_image, unknown_table,
};
use namiki::{Epoch, Lsn, OpenError, ReadError, RestorePoint, Stamp, TableId, WorkerId};
use namiki_log::{
    CutRule, Frame, GenerationInfo, Records, StreamEnd, check_all_announced, durable_epoch,
};
use namiki_terminal::number_format::{bytes, counted, grouped, name};
use namiki_terminal::time_of_day::utc;
use namiki_terminal::{interrupt, standard_output};

use crate::check_segments::check_segments;
use crate::failure::Failure;
use crate::lsn_set::LsnSet;
use crate::progress::Progress;
use crate::read_only_directory::{Directory, database_in};

const HELP: &str = "\
Nothing in the directory is changed, and it may be on a read-only file system. A database that is in use
cannot be checked; close it first.

After a crash, the end of a log may be torn: that is not damage, and the next opening handles it.
An empty directory is not a database, nor is one in which the creation of a database was interrupted.

Exit status: 0 if everything is sound; 1 if not, and the error names the place: the file, the byte at
which the damaged part begins, and whether that is a header or data under a checksum.

Examples:
  namiki check /data/shop
  namiki check /data/node-1      the tables of a cluster's node that does not run
  namiki check /backup/shop && echo this backup is good";

/// Arguments of `namiki check`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct CheckArguments {
    /// The database's directory
    dir: PathBuf,
}

/// Verifies the directory, and prints its contents.
pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    interrupt::listen();
    let mut out = LineWriter::new(standard_output());
    check(&database_in(&arguments.dir)?, &mut out)?;
    out.flush().map_err(Failure::output)
}

fn check(dir: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let directory = Directory::open(dir)?;
    let manifest = &directory.manifest;
    if announces_all(&*directory.disk, dir, manifest)? {
        check_all_announced(
            &*directory.disk,
            &directory.wal,
            manifest.identity(),
            &manifest.generations,
            manifest.next_generation,
        )?;
    }
    describe(dir, manifest, out).map_err(Failure::output)?;

    let disk = &directory.disk;
    let (list, survey) = read_image(&**disk, dir, manifest)?;
    let (mut sum, mut verified) = (Sum::default(), BTreeSet::new());
    check_log(&directory, manifest, &mut sum, out)?;
    let segment_bytes = check_segments(disk, dir, manifest, list.as_ref(), &mut verified, out)?;
    let earlier = match &manifest.backup {
        Some(_) => earlier_backups(&**disk, dir)?,
        None => Vec::new(),
    };
    if earlier.is_empty() {
        for left in survey.left {
            writeln!(
                out,
                "{}: left over from an unfinished load or checkpoint; the next opening removes it",
                left.display()
            )
            .map_err(Failure::output)?;
        }
    }
    for earlier in earlier {
        check_earlier(&directory, dir, &earlier, &mut verified, out)?;
    }
    let segments = match segment_bytes {
        0 => String::new(),
        segment_bytes => format!(", {} of segments", bytes(segment_bytes)),
    };
    writeln!(
        out,
        "sound: {} with {} and {}, {} of log{segments}; every checksum holds",
        counted(sum.frames, "frame"),
        counted(sum.commits, "commit"),
        counted(sum.changes, "change"),
        bytes(sum.bytes),
    )
    .map_err(Failure::output)
}

fn check_log(
    directory: &Directory,
    manifest: &Manifest,
    sum: &mut Sum,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    for info in &manifest.generations {
        let lines = generation(directory, manifest, info, sum, &mut progress)?;
        progress.clear();
        for line in lines {
            writeln!(out, "{line}").map_err(Failure::output)?;
        }
    }
    Ok(())
}

/// Verifies an earlier backup that the directory keeps in addition to the last one.
fn check_earlier(
    directory: &Directory,
    dir: &Path,
    earlier: &EarlierBackup,
    verified: &mut BTreeSet<FileNumber>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (manifest, disk) = (&earlier.manifest, &directory.disk);
    let list = earlier.list(&**disk, dir)?;
    let (mut sum, mut quiet) = (Sum::default(), std::io::sink());
    check_log(directory, manifest, &mut sum, &mut quiet)?;
    check_segments(disk, dir, manifest, list.as_ref(), verified, &mut quiet)?;
    let Some(mark) = &manifest.backup else {
        return Ok(());
    };
    writeln!(
        out,
        "an earlier backup, as of {}, of {}, with {} of log: sound",
        mark.stamp,
        utc(mark.taken_at_ms),
        bytes(sum.bytes)
    )
    .map_err(Failure::output)
}

fn describe(dir: &Path, manifest: &Manifest, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: database {}, last opened as {}, {}",
        dir.display(),
        manifest.database,
        manifest.spec,
        if manifest.closed {
            "closed in order"
        } else {
            "not closed in order: the next opening recovers it"
        },
    )?;
    if let Some(backup) = &manifest.backup {
        writeln!(out, "a backup, as of {}", backup.stamp)?;
    }
    for table in &manifest.tables {
        let (keys, values) = (name(&table.key_type), name(&table.value_type));
        writeln!(out, "table {:?}: {keys} to {values}", table.name)?;
    }
    Ok(())
}

/// Totals of all generations.
#[derive(Default)]
struct Sum {
    frames: u64,
    commits: u64,
    changes: u64,
    bytes: u64,
}

/// Verifies a generation, and returns the lines about it.
fn generation(
    directory: &Directory,
    manifest: &Manifest,
    info: &GenerationInfo,
    sum: &mut Sum,
    progress: &mut Progress,
) -> Result<Vec<String>, Failure> {
    let mut lines = vec![format!(
        "{}: {}, {}",
        info.generation,
        counted(u64::from(info.streams), "stream"),
        if info.seal.is_some() {
            "sealed"
        } else {
            "not sealed yet"
        },
    )];
    let mut lsns = LsnSet::default();
    let mut horizon = Lsn(0);
    let mut max_stamp = Stamp(0);
    let (mut ends, mut epochs) = (Vec::new(), BTreeMap::new());
    for worker in (0..info.streams).map(WorkerId) {
        let mut stream = Stream {
            manifest,
            info,
            worker,
            lsns: &mut lsns,
            epochs: &mut epochs,
            last_lsn: Lsn(0),
            closed: Epoch(0),
            running: TransactionTable::of_log_from(info.complete_from),
            commits: 0,
            changes: 0,
        };
        let mut reader = directory.stream(manifest, info, worker)?;
        while let Some(frame) = reader.next_frame()? {
            stream.frame(&frame)?;
            interrupt::check()?;
            sum.frames += 1;
            sum.bytes += u64::from(frame.header.length);
            progress.say(|| {
                let (frames, length) = (counted(sum.frames, "frame"), bytes(sum.bytes));
                format!("checked {frames}, {length}")
            });
        }
        let end = reader.end();
        sum.commits += stream.commits;
        sum.changes += stream.changes;
        horizon = horizon.max(end.horizon);
        ends.push(end);
        max_stamp = max_stamp.max(end.max_stamp);
        let line = stream_line(worker, end, stream.commits, stream.changes);
        let start = info.start(worker);
        lines.push(if start.is_first() {
            line
        } else {
            format!(
                "{line}; the frames before frame {} were recycled",
                start.sequence
            )
        });
    }
    if let Some(seal) = &info.seal
        && max_stamp > seal.max_stamp
    {
        return Err(Failure::ManifestNonsense {
            path: Manifest::path(directory.wal.parent().unwrap_or(Path::new("."))),
            why: format!(
                "{} goes up to {max_stamp}, its seal says {}",
                info.generation, seal.max_stamp
            ),
        });
    }
    match info.cut {
        CutRule::Stamp => {}
        CutRule::Lsn => lines.push(check_gaps(info, &lsns, horizon)?),
        CutRule::Epoch => lines.push(epochs_line(info, &ends, &epochs)),
    }
    Ok(lines)
}

fn stream_line(worker: WorkerId, end: StreamEnd, commits: u64, changes: u64) -> String {
    format!(
        "  {worker}: {}, {}, {}, {}{}",
        counted(end.frames, "frame"),
        counted(commits, "commit"),
        counted(changes, "change"),
        bytes(end.bytes),
        if end.torn {
            "; its end is torn, as a crash leaves it"
        } else {
            ""
        },
    )
}

/// The line about the epochs of a generation.
fn epochs_line(
    info: &GenerationInfo,
    ends: &[StreamEnd],
    dependent: &BTreeMap<Epoch, u64>,
) -> String {
    let durable = match &info.seal {
        Some(seal) => seal.durable_epoch,
        None => durable_epoch(ends),
    };
    let beyond: u64 = dependent
        .range(durable.next()..)
        .map(|(_, count)| count)
        .sum();
    match beyond {
        0 => format!("  durable through {durable}"),
        cut_off => format!(
            "  durable through {durable}; {} of later epochs, never acknowledged, do not count",
            counted(cut_off, "commit")
        ),
    }
}

/// Checks that all durable log sequence numbers exist, and returns the line about the others.
fn check_gaps(info: &GenerationInfo, lsns: &LsnSet, horizon: Lsn) -> Result<String, Failure> {
    let first = info.complete_lsn();
    let missing = lsns.first_missing(first);
    let last = match &info.seal {
        Some(seal) => {
            if missing <= seal.last_lsn {
                let expected = seal.last_lsn.0 + 1 - first.0;
                return Err(Failure::Open(OpenError::MissingCommits {
                    generation: info.generation,
                    expected,
                    found: lsns.count_from(first) - lsns.count_from(seal.last_lsn.next()),
                }));
            }
            seal.last_lsn
        }
        None if horizon > missing => {
            return Err(Failure::Log(ReadError::HardenedMissing {
                lsn: missing,
                horizon,
            }));
        }
        None => Lsn(missing.0 - 1),
    };
    let records = match info.records {
        Records::Commits => "commit",
        Records::Operations => "operation",
    };
    let beyond = match lsns.count_from(last.next()) {
        0 => String::new(),
        cut_off => format!(
            "; {} beyond a gap, never acknowledged, do not count",
            counted(cut_off, records)
        ),
    };
    Ok(if last < first {
        format!("  no log sequence number counts{beyond}")
    } else {
        let (first, last) = (grouped(first.0), grouped(last.0));
        format!("  log sequence numbers {first} to {last} without a gap{beyond}")
    })
}

/// The verification of a stream, in addition to that of its reader.
struct Stream<'a> {
    manifest: &'a Manifest,
    info: &'a GenerationInfo,
    worker: WorkerId,
    lsns: &'a mut LsnSet,
    /// Number of commits of each epoch that are not independent.
    epochs: &'a mut BTreeMap<Epoch, u64>,
    last_lsn: Lsn,
    /// The last epoch that its frames have closed.
    closed: Epoch,
    /// If operations are logged: transactions that have begun and not ended.
    running: TransactionTable<()>,
    commits: u64,
    changes: u64,
}

impl Stream<'_> {
    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let (generation, worker) = (self.info.generation, self.worker);
        let nonsense = |why: String| Failure::FrameNonsense {
            generation,
            worker,
            sequence: frame.header.sequence,
            why,
        };
        let numbered = self.info.cut == CutRule::Lsn || self.info.records == Records::Operations;
        for record in frame.records() {
            let stamp = record.stamp;
            let is_point = RestorePoint::decode(record.payload).is_some();
            if stamp > frame.header.max_stamp || stamp > Stamp::MAX {
                return Err(nonsense(format!("it holds {stamp}, above its own largest")));
            }
            if numbered {
                if record.lsn <= self.last_lsn || record.lsn < self.info.first_lsn {
                    return Err(nonsense(format!("{} is out of order", record.lsn)));
                }
                self.last_lsn = record.lsn;
                if !self.lsns.insert(record.lsn) {
                    return Err(Failure::Twice {
                        generation: self.info.generation,
                        lsn: record.lsn,
                        stamp,
                    });
                }
            }
            if self.info.cut == CutRule::Epoch {
                let epoch = record.epoch();
                if epoch <= self.closed || epoch > frame.header.epoch {
                    return Err(nonsense(format!("it holds a commit of {epoch}")));
                }
                if !record.is_independent() {
                    *self.epochs.entry(epoch).or_default() += 1;
                }
            }
            let counted = match self.info.records {
                _ if is_point => Ok(()),
                Records::Commits => self
                    .count_commit(record.payload)
                    .map_err(|why| format!("the commit with {stamp} {why}")),
                Records::Operations => self
                    .count_operation(record.lsn, record.payload)
                    .map_err(|why| format!("the operation with {} {why}", record.lsn)),
            };
            counted.map_err(nonsense)?;
        }
        if self.info.cut == CutRule::Epoch {
            self.closed = self.closed.max(frame.header.closed_epoch());
        }
        Ok(())
    }
}

impl Stream<'_> {
    fn count_commit(&mut self, payload: &[u8]) -> Result<(), String> {
        for change in Changes::new(payload) {
            let change = change.map_err(|error| format!("cannot be decoded: {error}"))?;
            self.check_key(change.table, change.key)?;
            self.changes += 1;
        }
        self.commits += 1;
        Ok(())
    }

    fn count_operation(&mut self, lsn: Lsn, payload: &[u8]) -> Result<(), String> {
        let operation =
            Operation::decode(payload).map_err(|error| format!("cannot be decoded: {error}"))?;
        let followed = self.running.follow(lsn, &operation, || ());
        followed.map_err(|why| format!("does not follow from those before it: {why}"))?;
        match operation {
            Operation::Update { table, key, .. } | Operation::Compensation { table, key, .. } => {
                self.check_key(table, key)?;
                self.changes += 1;
            }
            Operation::End { .. } => self.commits += 1,
            Operation::Begin | Operation::Abort { .. } => {}
        }
        Ok(())
    }

    fn check_key(&self, id: TableId, key: &[u8]) -> Result<(), String> {
        let Some(table) = self.manifest.table(id) else {
            return if self.manifest.is_dropped(id) {
                Ok(())
            } else {
                Err(format!("changes {}", unknown_table(id)))
            };
        };
        if table.fixed_keys && key.len() != 8 {
            return Err(format!(
                "has a key of {} bytes for table {:?}, not of 8",
                key.len(),
                table.name
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namiki::files::LoadedTables;
    use namiki::{Generation, ProtocolSpec, TableInfo};
    use namiki_log::{Entry, GenerationEnd, Group, Log, LogConfig, SequencerKind, StreamReader};
    use namiki_platform::disk::SyncedDisk;
    use std::sync::Arc;
    use std::time::Duration;

    fn info(last_lsn: Option<u64>) -> GenerationInfo {
        let config = LogConfig::new(7, Generation(1));
        GenerationInfo {
            first_lsn: Lsn(10),
            seal: last_lsn.map(|last| GenerationEnd {
                last_sequences: vec![1],
                last_lsn: Lsn(last),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(9),
            }),
            ..config.generation_info(CutRule::Lsn)
        }
    }

    fn gaps(last_lsn: Option<u64>, found: &[u64], horizon: u64) -> Result<String, Failure> {
        let mut lsns = LsnSet::default();
        for lsn in found {
            lsns.insert(Lsn(*lsn));
        }
        check_gaps(&info(last_lsn), &lsns, Lsn(horizon))
    }

    #[test]
    fn a_gap_is_damage_if_its_records_were_durable() {
        let said = gaps(None, &[10, 11, 13, 14], 12).unwrap();
        assert!(
            said.contains("10 to 11 without a gap; 2 commits beyond"),
            "{said}"
        );
        let error = gaps(None, &[10, 11, 13, 14], 13).unwrap_err();
        assert!(
            matches!(error, Failure::Log(ReadError::HardenedMissing { .. })),
            "{error}"
        );

        let said = gaps(Some(11), &[10, 11, 13], 11).unwrap();
        assert!(
            said.contains("10 to 11 without a gap; 1 commit beyond"),
            "{said}"
        );
        let error = gaps(Some(12), &[10, 11, 13], 11).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("holds 2 of the 3 commits"), "{text}");

        // As if everything below 12 had been recycled.
        let recycled = GenerationInfo {
            complete_from: Lsn(12),
            ..info(Some(13))
        };
        let mut lsns = LsnSet::default();
        for lsn in [10, 12, 13] {
            lsns.insert(Lsn(lsn));
        }
        let said = check_gaps(&recycled, &lsns, Lsn(12)).unwrap();
        assert!(said.contains("12 to 13 without a gap"), "{said}");

        assert!(
            gaps(None, &[], 10)
                .unwrap()
                .contains("no log sequence number")
        );
    }

    /// Writes commits with these payloads into a log and verifies it.
    fn verified(payloads: &[&[u8]]) -> Result<u64, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn namiki_platform::disk::Disk> = Arc::new(SyncedDisk::new());
        let config = LogConfig {
            group: Group::Auto,
            sequencer: SequencerKind::FetchAdd,
            // All in one frame, even on a slow machine.
            group_wait_max: Duration::MAX,
            ..LogConfig::new(7, Generation(1))
        };
        let info = config.generation_info(CutRule::Lsn);
        let log = Log::<()>::create(Arc::clone(&disk), dir.path(), config).unwrap();
        for payload in payloads {
            let fill = |into: &mut [u8], _| into.copy_from_slice(payload);
            let stream = log.stream(WorkerId(0));
            let _ = stream
                .append(
                    Entry::Commit,
                    Stamp(5),
                    Epoch(1),
                    payload.len(),
                    fill,
                    |()| {},
                )
                .unwrap();
        }
        log.close().unwrap();
        let manifest = Manifest {
            opening: String::new(),
            database: format!("{:032x}", 7),
            spec: ProtocolSpec::DEFAULT,
            closed: true,
            tables: vec![TableInfo {
                id: TableId(0),
                name: "t".to_owned(),
                key_type: "u64".to_owned(),
                value_type: "u64".to_owned(),
                fixed_keys: true,
                inline_bytes: 8,
                layout: None,
            }],
            dropped: 0,
            generations: vec![info.clone()],
            next_generation: Generation(2),
            oldest_generation: Generation(0),
            loaded_tables: LoadedTables::default(),
            image_list: None,
            points_from: Stamp(0),
            branch: String::new(),
            history: Default::default(),
            backup: None,
        };
        let mut lsns = LsnSet::default();
        let mut stream = Stream {
            manifest: &manifest,
            info: &info,
            worker: WorkerId(0),
            lsns: &mut lsns,
            epochs: &mut BTreeMap::new(),
            last_lsn: Lsn(0),
            closed: Epoch(0),
            running: TransactionTable::default(),
            commits: 0,
            changes: 0,
        };
        let mut reader = StreamReader::open(disk, dir.path(), 7, &info, WorkerId(0))?;
        while let Some(frame) = reader.next_frame()? {
            stream.frame(&frame)?;
        }
        Ok(stream.changes)
    }

    #[test]
    fn a_senseless_commit_with_a_good_checksum_is_found() {
        let sound = [2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(verified(&[&sound, &[], &sound]).unwrap(), 2);
        for (payload, why) in [
            (&[9_u8][..], "unknown kind 9"),
            (&sound[..5], "in the middle of a change"),
            (
                &[2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 1],
                "changes table 1, which neither MANIFEST has nor TABLES",
            ),
            (&[2, 0, 1, 0], "a key of 1 bytes for table \"t\""),
        ] {
            let error = verified(&[&sound, payload]).unwrap_err();
            assert!(
                matches!(error, Failure::FrameNonsense { sequence: 1, .. }),
                "{error}"
            );
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
