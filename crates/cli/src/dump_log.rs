//! `namiki dump-log`: prints a log as text, a line for each frame and each commit or operation.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki::files::{Change, Changes, Image, LoadedTable, Manifest, Operation, unknown_table};
use namiki::{Epoch, Generation, Lsn, RestorePoint, TableId, TableInfo, WorkerId};
use namiki_log::{CutRule, Frame, FrameHeader, GenerationInfo, LogRecord, Records};
use namiki_terminal::number_format::{counted, grouped, hex, name};
use namiki_terminal::time_of_day::utc;
use namiki_terminal::{interrupt, standard_output};
use serde::Serialize;

use crate::check_segments::describe;
use crate::failure::{Failure, usage};
use crate::read_only_directory::{Directory, database_in};
use crate::typed::{TableTypes, read_key, read_value};

const HELP: &str = "\
Frames are printed by generation and stream, each followed by its commits or, if operations are logged
one by one (+ARIES), by its operations. Stream n is the log of worker n. Keys and values are shown by
the types in the manifest (a tuple as a tuple), and in hexadecimal if the type is a program's own.
Nothing in the directory is changed. A database that is in use cannot be dumped.

Tables that were loaded into segments are not in the log. Without --generation and --stream, they are
listed first.

With --format json, each line is an object with a \"kind\": \"frame\", \"commit\", \"operation\",
\"restore_point\" or \"end\" (of a stream), or \"loaded\" (a table in segments).

Examples:
  namiki dump-log /data/shop | head
  namiki dump-log /data/shop --generation 2 --stream 0
  namiki dump-log /data/shop --format json | jq 'select(.kind == \"commit\") | .stamp'";

/// Arguments of `namiki dump-log`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct DumpLogArguments {
    /// The database's directory
    dir: PathBuf,
    /// Only this stream, counted from 0
    #[arg(long)]
    stream: Option<u16>,
    /// Only this generation, counted from 1
    #[arg(long, value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    generation: Option<u32>,
    /// Stop after this many lines
    #[arg(long, value_name = "LINES")]
    limit: Option<u64>,
    /// In text, show at most this many changes of a commit, and count the rest
    #[arg(long, value_name = "CHANGES", default_value_t = 10)]
    changes: usize,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Readable text
    Text,
    /// One JSON object a line
    Json,
}

/// Prints the log.
pub(crate) fn run(arguments: &DumpLogArguments) -> Result<(), Failure> {
    interrupt::listen();
    let directory = Directory::open(&database_in(&arguments.dir)?)?;
    let manifest = &directory.manifest;
    check_selection(arguments, manifest)?;
    let mut dump = Dump {
        out: BufWriter::new(standard_output()),
        format: arguments.format,
        changes: arguments.changes,
        left: arguments.limit.unwrap_or(u64::MAX),
        manifest,
        types: manifest
            .tables
            .iter()
            .map(|info| (info.id, TableTypes::of(info)))
            .collect(),
    };
    let done = all(&directory, manifest, arguments, &mut dump);
    // Flush the lines that were printed before an error.
    let flushed = dump.out.flush().map_err(Failure::output);
    done.and(flushed)
}

fn check_selection(arguments: &DumpLogArguments, manifest: &Manifest) -> Result<(), Failure> {
    let known = &manifest.generations;
    if let Some(wanted) = arguments.generation
        && !known.iter().any(|info| info.generation.0 == wanted)
    {
        let there = match (known.first(), known.last()) {
            (Some(first), Some(last)) => {
                format!("it has {} to {}", first.generation.0, last.generation.0)
            }
            _ => "it has none".to_owned(),
        };
        return Err(usage(format!(
            "the log has no generation {wanted}; {there}"
        )));
    }
    let streams = known.iter().map(|info| info.streams).max().unwrap_or(0);
    if let Some(wanted) = arguments.stream
        && wanted >= streams
    {
        return Err(usage(format!(
            "the log has no stream {wanted}; it has {}, counted from 0",
            counted(u64::from(streams), "stream")
        )));
    }
    Ok(())
}

fn all(
    directory: &Directory,
    manifest: &Manifest,
    arguments: &DumpLogArguments,
    dump: &mut Dump<'_, impl Write>,
) -> Result<(), Failure> {
    if arguments.generation.is_none() && arguments.stream.is_none() {
        for table in &manifest.loaded_tables.tables {
            dump.loaded(table)?;
        }
    }
    let wanted = |info: &&GenerationInfo| match arguments.generation {
        Some(generation) => info.generation == Generation(generation),
        None => true,
    };
    for info in manifest.generations.iter().filter(wanted) {
        let streams = match arguments.stream {
            Some(stream) => stream..info.streams.min(stream.saturating_add(1)),
            None => 0..info.streams,
        };
        for worker in streams.map(WorkerId) {
            let mut reader = directory.stream(manifest, info, worker)?;
            while let Some(frame) = reader.next_frame()? {
                interrupt::check()?;
                dump.frame(info, &frame)?;
                if dump.left == 0 {
                    return Ok(());
                }
            }
            dump.end(info, worker, reader.end().torn)?;
            if dump.left == 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

struct Dump<'a, W> {
    out: W,
    format: Format,
    /// Changes of a commit that a line of text shows.
    changes: usize,
    /// Number of lines that may still be printed.
    left: u64,
    manifest: &'a Manifest,
    /// The types of the manifest's tables.
    types: BTreeMap<TableId, TableTypes>,
}

/// One line of JSON.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a> {
    Frame {
        generation: u32,
        stream: u16,
        frame: u64,
        /// Number of operations, if those are logged.
        #[serde(skip_serializing_if = "Option::is_none")]
        commits: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        operations: Option<u32>,
        bytes: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        first_lsn: Option<u64>,
        last_lsn: u64,
        /// The epoch that it closes, if commits are released by epochs.
        #[serde(skip_serializing_if = "Option::is_none")]
        closed_epoch: Option<u64>,
        /// The epoch through which everything was durable.
        #[serde(skip_serializing_if = "Option::is_none")]
        hardened_epoch: Option<u64>,
        max_stamp: u64,
        epoch: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        horizon: Option<u64>,
    },
    Commit {
        generation: u32,
        stream: u16,
        frame: u64,
        stamp: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        lsn: Option<u64>,
        /// The epoch, if commits are released by epochs.
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        independent: Option<bool>,
        /// False for a commit that recovery has cut off.
        counts: bool,
        bytes: usize,
        changes: &'a [ShownChange<'a>],
    },
    Operation {
        generation: u32,
        stream: u16,
        frame: u64,
        lsn: u64,
        /// The transaction: the LSN of its beginning.
        xid: u64,
        op: &'static str,
        /// The stamp, for an end.
        #[serde(skip_serializing_if = "Option::is_none")]
        stamp: Option<u64>,
        /// False for an operation that recovery has cut off.
        counts: bool,
        bytes: usize,
        #[serde(flatten)]
        change: Option<ShownImages<'a>>,
    },
    /// A moment to which a backup can be restored.
    #[serde(rename = "restore_point")]
    RestorePoint {
        generation: u32,
        stream: u16,
        frame: u64,
        time: String,
        stamp: u64,
        epoch: u64,
    },
    End {
        generation: u32,
        stream: u16,
        torn: bool,
    },
    /// A table in segments.
    Loaded {
        table: &'a str,
        rows: u64,
        /// The numbers of its files: that of its rows, then those of its indexes.
        files: Vec<u32>,
        indexes: Vec<&'a str>,
    },
}

/// The change of an operation.
#[derive(Serialize)]
struct ShownImages<'a> {
    /// The LSN of the operation to be undone after this one; 0 for none.
    undo_next: u64,
    table: &'a str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    key_hex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_hex: Option<String>,
}

#[derive(Serialize)]
struct ShownChange<'a> {
    op: &'static str,
    table: &'a str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    key_hex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
}

impl<'a, W: Write> Dump<'a, W> {
    fn line(&mut self, text: impl FnOnce() -> String, json: &Line<'_>) -> Result<(), Failure> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        match self.format {
            Format::Text => writeln!(self.out, "{}", text()),
            Format::Json => serde_json::to_writer(&mut self.out, json)
                .map_err(std::io::Error::from)
                .and_then(|()| writeln!(self.out)),
        }
        .map_err(Failure::output)
    }

    fn loaded(&mut self, table: &LoadedTable) -> Result<(), Failure> {
        let json = Line::Loaded {
            table: &table.name,
            rows: table.rows,
            files: table.segments().map(|segment| segment.file.0).collect(),
            indexes: table.indexes.iter().map(|it| &*it.name).collect(),
        };
        self.line(|| describe(table), &json)
    }

    fn frame(&mut self, info: &GenerationInfo, frame: &Frame<'_>) -> Result<(), Failure> {
        let header = frame.header;
        let by_epochs = info.cut == CutRule::Epoch;
        let lsns = |value: u64| (!by_epochs).then_some(value);
        let epochs = |value: Epoch| by_epochs.then_some(value.0);
        let holds = |records: Records| (info.records == records).then_some(header.records);
        self.line(
            || frame_text(&header, info),
            &Line::Frame {
                generation: header.generation.0,
                stream: header.worker.0,
                frame: header.sequence,
                commits: holds(Records::Commits),
                operations: holds(Records::Operations),
                bytes: header.length,
                first_lsn: lsns(header.first_lsn.0),
                last_lsn: header.last_lsn.0,
                closed_epoch: epochs(header.closed_epoch()),
                hardened_epoch: epochs(header.hardened_epoch()),
                max_stamp: header.max_stamp.0,
                epoch: header.epoch.0,
                horizon: lsns(header.horizon.0),
            },
        )?;
        for record in frame.records() {
            if self.left == 0 {
                return Ok(());
            }
            let counts = match (&info.seal, info.cut) {
                (Some(seal), CutRule::Lsn) => record.lsn <= seal.last_lsn,
                (Some(seal), CutRule::Epoch) => record.counts_through(seal.durable_epoch),
                (Some(_), CutRule::Stamp) | (None, _) => true,
            };
            let counts = counts && !info.is_beyond(record.stamp);
            if let Some(point) = RestorePoint::decode(record.payload) {
                self.restore_point(&header, &point)?;
                continue;
            }
            match info.records {
                Records::Commits => self.commit(&header, &record, info.cut, counts)?,
                Records::Operations => self.operation(&header, &record, counts)?,
            }
        }
        Ok(())
    }

    fn restore_point(&mut self, header: &FrameHeader, point: &RestorePoint) -> Result<(), Failure> {
        let json = Line::RestorePoint {
            generation: header.generation.0,
            stream: header.worker.0,
            frame: header.sequence,
            time: utc(point.time_ms),
            stamp: point.stamp.0,
            epoch: point.epoch.0,
        };
        let text = || {
            format!(
                "  restore point {} at {}",
                point.stamp.0,
                utc(point.time_ms)
            )
        };
        self.line(text, &json)
    }

    fn commit(
        &mut self,
        header: &FrameHeader,
        record: &LogRecord<'_>,
        cut: CutRule,
        counts: bool,
    ) -> Result<(), Failure> {
        let changes: Vec<ShownChange<'a>> = Changes::new(record.payload)
            .map(|change| {
                let change = change.map_err(|error| error.to_string())?;
                self.shown(&change)
            })
            .collect::<Result<_, String>>()
            .map_err(|why| Failure::FrameNonsense {
                generation: header.generation,
                worker: header.worker,
                sequence: header.sequence,
                why: format!("the commit with {}: {why}", record.stamp),
            })?;
        let json = Line::Commit {
            generation: header.generation.0,
            stream: header.worker.0,
            frame: header.sequence,
            stamp: record.stamp.0,
            lsn: (cut != CutRule::Epoch).then_some(record.lsn.0),
            epoch: (cut == CutRule::Epoch).then_some(record.epoch().0),
            independent: (cut == CutRule::Epoch).then_some(record.is_independent()),
            counts,
            bytes: record.payload.len(),
            changes: &changes,
        };
        let shown = self.changes;
        self.line(|| commit_text(record, cut, counts, &changes, shown), &json)
    }

    fn operation(
        &mut self,
        header: &FrameHeader,
        record: &LogRecord<'_>,
        counts: bool,
    ) -> Result<(), Failure> {
        let lsn = record.lsn;
        let nonsense = |why: String| Failure::FrameNonsense {
            generation: header.generation,
            worker: header.worker,
            sequence: header.sequence,
            why: format!("the operation with {lsn}: {why}"),
        };
        let operation =
            Operation::decode(record.payload).map_err(|error| nonsense(error.to_string()))?;
        let (op, xid, change) = match operation {
            Operation::Begin => ("begin", lsn, None),
            Operation::End { xid } => ("end", xid, None),
            Operation::Abort { xid } => ("abort", xid, None),
            Operation::Update {
                xid,
                undo_next,
                table,
                key,
                before,
                after,
            } => {
                let images = self.shown_images(undo_next, table, key, before, after);
                ("update", xid, Some(images.map_err(nonsense)?))
            }
            Operation::Compensation {
                xid,
                undo_next,
                table,
                key,
                after,
            } => {
                let images = self.shown_images(undo_next, table, key, None, after);
                ("compensation", xid, Some(images.map_err(nonsense)?))
            }
        };
        let text = operation_text(record, op, xid, counts, change.as_ref());
        let json = Line::Operation {
            generation: header.generation.0,
            stream: header.worker.0,
            frame: header.sequence,
            lsn: lsn.0,
            xid: xid.0,
            op,
            stamp: (op == "end").then_some(record.stamp.0),
            counts,
            bytes: record.payload.len(),
            change,
        };
        self.line(|| text, &json)
    }

    fn shown_images(
        &self,
        undo_next: Lsn,
        table: TableId,
        key: &[u8],
        before: Image<'_>,
        after: Image<'_>,
    ) -> Result<ShownImages<'a>, String> {
        let (table, types) = self.table(table)?;
        let value_text = |value| read_value(&types.value, value).to_string();
        Ok(ShownImages {
            undo_next: undo_next.0,
            table: &table.name,
            key: read_key(&types.key, key).to_string(),
            before: before.map(value_text),
            after: after.map(value_text),
            key_hex: hex(key),
            before_hex: before.map(hex),
            after_hex: after.map(hex),
        })
    }

    fn table(&self, id: TableId) -> Result<(&'a TableInfo, &TableTypes), String> {
        let manifest = self.manifest;
        match manifest.table(id).zip(self.types.get(&id)) {
            Some(found) => Ok(found),
            None if manifest.is_dropped(id) => Ok((&DROPPED, &DROPPED_TYPES)),
            None => Err(format!("it changes {}", unknown_table(id))),
        }
    }

    fn shown(&self, change: &Change<'_>) -> Result<ShownChange<'a>, String> {
        let (table, types) = self.table(change.table)?;
        Ok(ShownChange {
            op: match change.value {
                Some(_) => "put",
                None => "delete",
            },
            table: &table.name,
            key: read_key(&types.key, change.key).to_string(),
            value: change
                .value
                .map(|value| read_value(&types.value, value).to_string()),
            key_hex: hex(change.key),
            value_hex: change.value.map(hex),
        })
    }

    fn end(&mut self, info: &GenerationInfo, worker: WorkerId, torn: bool) -> Result<(), Failure> {
        let generation = info.generation;
        self.line(
            || {
                let torn = if torn {
                    ", torn, as a crash leaves it"
                } else {
                    ""
                };
                format!("end of {worker} in {generation}{torn}")
            },
            &Line::End {
                generation: generation.0,
                stream: worker.0,
                torn,
            },
        )
    }
}

/// Placeholder for a dropped table: its changes are in the log, but their types are no longer
/// known.
static DROPPED: LazyLock<TableInfo> = LazyLock::new(|| TableInfo {
    id: TableId(u32::MAX),
    name: "(dropped)".to_owned(),
    key_type: String::new(),
    value_type: String::new(),
    fixed_keys: false,
    inline_bytes: 0,
    layout: None,
});

static DROPPED_TYPES: LazyLock<TableTypes> = LazyLock::new(|| TableTypes::of(&DROPPED));

fn frame_text(header: &FrameHeader, info: &GenerationInfo) -> String {
    let cut = info.cut;
    let records = match info.records {
        Records::Commits => "commit",
        Records::Operations => "operation",
    };
    let mut text = format!(
        "frame {} of {} in {}: {}, {} bytes, stamps up to {}, {}",
        header.sequence,
        header.worker,
        header.generation,
        counted(u64::from(header.records), records),
        header.length,
        header.max_stamp.0,
        header.epoch,
    );
    if cut == CutRule::Epoch {
        let (closed, hardened) = (header.closed_epoch(), header.hardened_epoch());
        text.push_str(&format!(", closes {closed}, durable through {hardened}"));
    }
    if cut == CutRule::Lsn {
        let (first, last) = (header.first_lsn.0, header.last_lsn.0);
        let horizon = header.horizon.0;
        text.push_str(&format!(
            ", lsn {first} to {last}, durable below lsn {horizon}"
        ));
    }
    text
}

fn commit_text(
    record: &LogRecord<'_>,
    cut: CutRule,
    counts: bool,
    changes: &[ShownChange<'_>],
    shown: usize,
) -> String {
    let mut text = format!("  {}", record.stamp);
    if cut == CutRule::Epoch {
        let independent = if record.is_independent() {
            ", independent"
        } else {
            ""
        };
        text.push_str(&format!(" {}{independent}", record.epoch()));
    } else if record.lsn.0 != 0 {
        text.push_str(&format!(" {}", record.lsn));
    }
    if !counts {
        text.push_str(" (cut off by recovery)");
    }
    text.push(':');
    for (at, change) in changes.iter().take(shown).enumerate() {
        text.push_str(if at == 0 { " " } else { "; " });
        let table = name(change.table);
        text.push_str(&format!("{} {table}[{}]", change.op, change.key));
        if let Some(value) = &change.value {
            text.push_str(&format!(" = {value}"));
        }
    }
    if changes.len() > shown {
        let more = (changes.len() - shown) as u64;
        text.push_str(&format!(" … and {} more", grouped(more)));
    }
    text
}

fn operation_text(
    record: &LogRecord<'_>,
    op: &str,
    xid: Lsn,
    counts: bool,
    change: Option<&ShownImages<'_>>,
) -> String {
    let cut_off = if counts { "" } else { " (cut off by recovery)" };
    let mut text = format!("  {}{cut_off}: {op} of {xid}", record.lsn);
    if op == "end" {
        text.push_str(&format!(" at {}", record.stamp));
    }
    if let Some(change) = change {
        text.push_str(&format!(": {}[{}]", name(change.table), change.key));
        let there = |image: &Option<String>| image.clone().unwrap_or_else(|| "nothing".to_owned());
        if op == "update" {
            text.push_str(&format!(" = {}, was", there(&change.after)));
            text.push_str(&format!(" {}", there(&change.before)));
        } else {
            text.push_str(&format!(" = {}", there(&change.after)));
        }
        if change.undo_next != 0 {
            text.push_str(&format!("; before it, lsn {}", change.undo_next));
        }
    }
    text
}
