//! The life of transactions, step by step, as scripts in `transaction_scripts/`: text in, text out.
//!
//! One thread runs all transactions of a script in the order of the lines, so no transaction waits
//! for a lock: it fails where it would have to wait (`NoWait`). Most scripts run under several
//! protocols, and have the same output under all of them.
//!
//! | command | meaning |
//! |---|---|
//! | `open [stamps=true] [record=BYTES]` | a new database; see below |
//! | `T: get KEY…`, `T: lock KEY` | reads keys; reads one for an update |
//! | `T: scan [FROM [TO]] [limit=N] [backward=true]` | reads a range, both ends included |
//! | `T: put KEY=N…`, `insert`, `add`, `T: update KEY N`, `T: delete KEY` | writes; `update` says what it replaced |
//! | `T: fill COUNT` | puts 0 under the keys k100, k101, … |
//! | `T: savepoint NAME`, `T: back NAME` | sets a savepoint; rolls back to it |
//! | `T: commit`, `T: abort` | ends the transaction T |
//! | `rows` | all rows, `KEY=VALUE@STAMP`, read without a trace |
//! | `log` | the log records on the disk that were not shown before |
//! | `crash`, `close` | cuts the power, or closes the database; then opens it again |
//!
//! A transaction T begins with its first command. A read or write without `T:` is a transaction of
//! its own. With `stamps=true`, the stamps of commits are shown, and the log has one stream; with
//! `record=BYTES`, its records have this length.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p namiki-tests --test isolation scripted` writes the expected
//! output anew.
//!
//! Paper: tictoc-pwal §2.1, pwal §5.3, §5.4
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its protocol"
)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::fmt::Write;
use std::num::NonZeroU16;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};
use namiki::files::{Changes, Image, Manifest, Operation};
use namiki::{
    Database, Direction, ProtocolSpec, RecordFormat, Savepoint, Table, Transaction, WaitPolicy,
    WorkerId,
};
use namiki_log::StreamReader;
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::small_database::builder;
use namiki_tests::tested_specs::with_and_without_log;

type Said = Result<String, Box<dyn Error>>;

#[derive(Command)]
enum Step {
    Open {
        #[arg(key)]
        record: Option<NonZeroU16>,
        #[arg(key, optional)]
        stamps: bool,
    },
    Get(Vec<String>),
    Lock(String),
    Scan {
        from: Option<String>,
        to: Option<String>,
        #[arg(key)]
        limit: Option<usize>,
        #[arg(key, optional)]
        backward: bool,
    },
    Put(Vec<(String, i64)>),
    Insert(Vec<(String, i64)>),
    Update(String, i64),
    Add(Vec<(String, i64)>),
    Delete(String),
    Fill(u64),
    Savepoint(String),
    Back(String),
    Commit,
    Abort,
    Rows,
    Log,
    Crash,
    Close,
}

struct Opened {
    disk: SimDisk,
    db: Database,
    table: Table<str, i64>,
    /// Number of records of this generation of the log that were shown.
    shown: usize,
}

struct Script {
    spec: ProtocolSpec,
    /// The fixed length of log records.
    record: Option<NonZeroU16>,
    shows_stamps: bool,
    opened: Option<Opened>,
    transactions: HashMap<String, Transaction>,
    savepoints: HashMap<String, Savepoint>,
}

fn present(key: &str, value: Option<i64>) -> String {
    value.map_or_else(|| absent(key), |value| format!("{key}={value}"))
}

fn absent(key: &str) -> String {
    format!("no {key}")
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(" ")
    }
}

/// A key's value in the log.
fn image(key: &[u8], value: Image<'_>) -> String {
    let value = value.map(|value| i64::from_le_bytes(value.try_into().unwrap()));
    present(&String::from_utf8_lossy(key), value)
}

fn operation(payload: &[u8]) -> Said {
    Ok(match Operation::decode(payload)? {
        Operation::Begin => "begin".to_owned(),
        Operation::Update {
            xid,
            undo_next,
            key,
            before,
            after,
            ..
        } => format!(
            "update by {}: {}, was {}, undo next {}",
            xid.0,
            image(key, after),
            image(key, before),
            undo_next.0
        ),
        Operation::Compensation {
            xid,
            undo_next,
            key,
            after,
            ..
        } => format!(
            "compensation by {}: {}, undo next {}",
            xid.0,
            image(key, after),
            undo_next.0
        ),
        Operation::End { xid } => format!("end of {}", xid.0),
        Operation::Abort { xid } => format!("abort of {}", xid.0),
    })
}

impl Opened {
    /// What a transaction reads or writes.
    fn act(
        &self,
        tx: &mut Transaction,
        step: &Step,
        savepoints: &mut HashMap<String, Savepoint>,
    ) -> Said {
        let table = &self.table;
        match step {
            Step::Get(keys) => {
                let mut found = Vec::new();
                match &keys[..] {
                    [key] => found.push(tx.get(table, key)?),
                    _ => tx.get_many(table, keys.iter().cloned(), &mut found)?,
                }
                let found = keys.iter().zip(found);
                let found: Vec<_> = found.map(|(key, value)| present(key, value)).collect();
                return Ok(found.join(" "));
            }
            Step::Lock(key) => return Ok(present(key, tx.get_for_update(table, key)?)),
            Step::Scan {
                from,
                to,
                limit,
                backward,
            } => {
                let mut rows = Vec::new();
                let bound =
                    |end: &Option<String>| end.clone().map_or(Bound::Unbounded, Bound::Included);
                let direction = if *backward {
                    Direction::Backward
                } else {
                    Direction::Forward
                };
                tx.scan_with(table, (bound(from), bound(to)), direction, |key, value| {
                    rows.push(format!("{key}={value}"));
                    if *limit == Some(rows.len()) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })?;
                return Ok(list(&rows));
            }
            Step::Put(rows) => rows
                .iter()
                .try_for_each(|(key, value)| tx.put(table, key, value))?,
            Step::Insert(rows) => rows
                .iter()
                .try_for_each(|(key, value)| tx.insert(table, key, value))?,
            Step::Add(rows) => rows
                .iter()
                .try_for_each(|(key, change)| tx.add(table, key, *change))?,
            Step::Fill(count) => {
                let mut keys = (100..100 + count).map(|number| format!("k{number}"));
                keys.try_for_each(|key| tx.put(table, &key, &0))?;
            }
            Step::Update(key, value) => {
                let mut replaced = None;
                tx.update(table, key, |old| {
                    replaced = Some(old);
                    *value
                })?;
                return Ok(replaced.map_or_else(|| absent(key), |old| format!("{key} was {old}")));
            }
            Step::Delete(key) => {
                if !tx.delete(table, key)? {
                    return Ok(absent(key));
                }
            }
            Step::Savepoint(name) => drop(savepoints.insert(name.clone(), tx.savepoint())),
            Step::Back(name) => tx.rollback_to(savepoints.get(name).ok_or("no savepoint")?)?,
            _ => return Err("no read or write".into()),
        }
        Ok(String::new())
    }

    fn rows(&self, shows_stamps: bool) -> Said {
        // It never commits: a commit would extend the rts of what it has read.
        let mut tx = self.db.begin()?;
        let rows = tx.scan(&self.table, ..)?.into_iter().map(|(key, value)| {
            let stamp = tx.version(&self.table, &key)?.stamp.0;
            let stamp = format!("@{stamp}");
            let stamp = if shows_stamps { &stamp } else { "" };
            Ok(format!("{key}={value}{stamp}"))
        });
        Ok(list(&rows.collect::<Result<Vec<_>, namiki::Error>>()?))
    }

    fn log(&mut self, shows_lengths: bool) -> Said {
        let manifest = Manifest::read(&self.disk, Path::new("/db"))?.ok_or("no manifest")?;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let (info, wal) = (manifest.generations.last().unwrap(), Path::new("/db/wal"));
        let identity = manifest.identity();
        let mut stream = StreamReader::open(disk, wal, identity, info, WorkerId(0))?;
        let mut records = Vec::new();
        while let Some(frame) = stream.next_frame()? {
            for record in frame.records() {
                let mut line = if self.db.spec().logs_operations() {
                    format!("{} {}", record.lsn.0, operation(record.payload)?)
                } else {
                    let changes = Changes::new(record.payload);
                    let changes = changes.map(|it| it.map(|it| image(it.key, it.value)));
                    let changes: Vec<_> = changes.collect::<Result<_, _>>()?;
                    format!("commit at {}: {}", record.stamp.0, list(&changes))
                };
                if shows_lengths {
                    let bytes = namiki_log::RECORD_HEADER_BYTES + record.payload.len();
                    write!(line, " ({bytes} bytes)")?;
                }
                records.push(line);
            }
        }
        let new = records.split_off(self.shown);
        self.shown += new.len();
        Ok(new.join("\n"))
    }
}

impl Script {
    fn under(spec: ProtocolSpec) -> Self {
        Self {
            spec,
            record: None,
            shows_stamps: false,
            opened: None,
            transactions: HashMap::new(),
            savepoints: HashMap::new(),
        }
    }

    fn open(&mut self, disk: SimDisk) -> Said {
        self.transactions.clear();
        let streams = if self.shows_stamps { 1 } else { 3 };
        let db = builder(&self.spec.to_string(), &disk)
            .streams(NonZeroU16::new(streams).unwrap())
            .epoch_length(Duration::MAX)
            .wait_policy(WaitPolicy::NoWait)
            .record_format(
                self.record
                    .map_or(RecordFormat::Compact, RecordFormat::Fixed),
            )
            .open("/db")?;
        let report = db.recovery();
        let ended = if report.closed { "closed" } else { "killed" };
        let (replayed, undone) = (report.replayed, report.undone);
        let said = format!("{ended}: {replayed} commits replayed, {undone} undone");
        self.opened = Some(Opened {
            table: db.table("t")?,
            disk,
            db,
            shown: 0,
        });
        Ok(said)
    }

    fn end(&mut self, name: &str, commits: bool) -> Said {
        let tx = self.transactions.remove(name).ok_or("it has not begun")?;
        if !commits {
            tx.rollback();
            return Ok("rolled back".to_owned());
        }
        let stamp = tx.commit()?.0;
        Ok(if self.shows_stamps {
            format!("committed at {stamp}")
        } else {
            "committed".to_owned()
        })
    }
}

impl Runner for Script {
    type Command = Step;

    fn run(&mut self, step: &Step, context: &Context) -> Said {
        if let Step::Open { record, stamps } = step {
            (self.record, self.shows_stamps) = (*record, *stamps);
            return self.open(SimDisk::new()).map(|_| String::new());
        }
        let opened = self.opened.as_mut().ok_or("no database is open")?;
        match (step, &context.prefix) {
            (Step::Rows, None) => opened.rows(self.shows_stamps),
            (Step::Log, None) => opened.log(self.record.is_some()),
            (Step::Crash, None) => {
                let image = opened.disk.crash_image(opened.disk.events(), Loss::All);
                self.open(image)
            }
            (Step::Close, None) => {
                let disk = opened.disk.clone();
                opened.db.close()?;
                self.opened = None;
                self.open(disk)
            }
            (step, None) => {
                let mut tx = opened.db.begin()?;
                let said = opened.act(&mut tx, step, &mut self.savepoints)?;
                tx.commit()?;
                Ok(said)
            }
            (Step::Commit, Some(name)) => self.end(name, true),
            (Step::Abort, Some(name)) => self.end(name, false),
            (step, Some(name)) => {
                let tx = match self.transactions.entry(name.clone()) {
                    Entry::Occupied(begun) => begun.into_mut(),
                    Entry::Vacant(new) => new.insert(opened.db.begin()?),
                };
                opened.act(tx, step, &mut self.savepoints)
            }
        }
    }
}

fn run(specs: impl IntoIterator<Item = ProtocolSpec>, script: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isolation/transaction_scripts");
    for spec in specs {
        println!("{script} under {spec}");
        goldenscript::run(&mut Script::under(spec), folder.join(script)).unwrap();
    }
}

fn specs<const N: usize>(names: [&str; N]) -> [ProtocolSpec; N] {
    names.map(|name| name.parse().unwrap())
}

#[test]
fn scripted_tictoc() {
    run(specs(["TT(ELR)+PWAL(1)"]), "tictoc");
}

#[test]
fn scripted_silo() {
    run(specs(["SILO(ELR)+PWAL(1)", "SILO(NLR)+NOLOG"]), "silo");
}

#[test]
fn scripted_operation_logging() {
    run(specs(["S2PL(NLR)+PWAL(1)+ARIES"]), "operation_logging");
}

#[test]
fn scripted_logged_reads() {
    run(specs(["S2PL(NLR)+PWAL(1)+ARIES(reads)"]), "logged_reads");
}

#[test]
fn scripted_two_phase_locking() {
    let all = specs(crate::two_phase_locking::SPECS);
    run(all, "strict_two_phase_locking");
}

#[test]
fn scripted_anomalies() {
    run(specs(crate::anomalies::OPTIMISTIC), "anomalies");
}

#[test]
fn scripted_own_writes() {
    run(with_and_without_log(), "own_writes");
}

#[test]
fn scripted_increments() {
    run(with_and_without_log(), "increments");
}
