//! Backups of a live database: each is the state of its stamp, whatever runs concurrently and
//! whatever fault it meets.

mod crashes;
mod followed_backup;
mod histories;
mod history_trees;
mod kept_files;
mod own_directory;
mod refusals;
mod restore_points;
mod retention;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namiki_platform::Stamp;
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

use crate::api::database::Database;
use crate::api::session::Session;
use crate::api::table::Table;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::manifest::Manifest;
use crate::error::Error;
use crate::image::leftovers::{ImageSurvey, read_image};
use crate::protocol_spec::ProtocolSpec;
use crate::recovery::ReplayOrder;
use crate::settings::builder::Builder;
use crate::txn::Transaction;

const DIR: &str = "/db";
const COPY: &str = "/copy";
const KEYS: u64 = 64;
const BOTH_ORDERS: [ReplayOrder; 2] = [ReplayOrder::HighestStamp, ReplayOrder::Merge];

type Values = Table<u64, [u8]>;
type Contents = BTreeMap<u64, Vec<u8>>;
type Written = BTreeMap<u64, Option<Vec<u8>>>;

fn builder(spec: ProtocolSpec, disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .buffer_bytes(8 << 10)
        .log_file_bytes(32 << 10)
        .epoch_length(Duration::from_micros(200))
        .disk(disk)
}

fn table_of(db: &Database) -> Values {
    db.table("values").unwrap()
}

fn contents(db: &Database) -> Contents {
    let table = table_of(db);
    db.read(|view| view.scan(&table, ..))
        .unwrap()
        .into_iter()
        .collect()
}

fn back_up(db: &Database, disk: &SimDisk) -> Result<BackupReport, BackupError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    db.backup_with(COPY, &BackupOptions::default().disk(disk))
}

/// The backup's contents. Reading them leaves it a backup.
fn copied(spec: ProtocolSpec, disk: &SimDisk, order: ReplayOrder) -> Contents {
    let db = builder(spec, disk)
        .replay_order(order)
        .open_read_only(COPY)
        .unwrap_or_else(|error| panic!("{spec}: {error:?}"));
    contents(&db)
}

/// Puts and deletes some keys, at random.
fn drawn(random: &mut Random) -> Written {
    let keys = 1 + random.below(3);
    (0..keys)
        .map(|_| {
            let value = random.chance(0.8).then(|| {
                let len = [0, 3, 8, 40, 300][random.below(5) as usize];
                vec![random.below(256) as u8; len]
            });
            (random.below(KEYS), value)
        })
        .collect()
}

/// All commits with their stamps.
#[derive(Default)]
struct History(Mutex<Vec<(Stamp, Written)>>);

impl History {
    fn at(&self, stamp: Stamp) -> Contents {
        let mut commits = self.0.lock().unwrap().clone();
        commits.retain(|(at, _)| *at <= stamp);
        commits.sort_by_key(|(at, _)| *at);
        let mut contents = Contents::new();
        for (key, value) in commits.into_iter().flat_map(|(_, written)| written) {
            match value {
                Some(value) => contents.insert(key, value),
                None => contents.remove(&key),
            };
        }
        contents
    }

    /// Commits this, with retries after conflicts, without waiting until it is durable.
    fn commit(&self, session: &mut Session, table: &Values, written: &Written) {
        loop {
            let done = session.try_transact_async(|tx| {
                let mut done = Written::new();
                for (key, value) in written {
                    let is_written = match value {
                        Some(value) => tx.put(table, key, value).map(|()| true)?,
                        // A deletion of an absent key writes nothing.
                        None => tx.delete(table, key)?,
                    };
                    if is_written {
                        done.insert(*key, value.clone());
                    }
                }
                Ok(done)
            });
            match done {
                Ok((done, ticket)) => {
                    self.0.lock().unwrap().push((ticket.stamp(), done));
                    return;
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Incremental backups, some after a checkpoint, with concurrent writers.
#[test]
fn each_backup_is_the_state_of_its_stamp() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open(DIR).unwrap();
        let table = table_of(&db);
        let (history, done) = (History::default(), AtomicBool::new(false));
        let mut backups = Vec::new();
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (db, table, history, done) = (&db, &table, &history, &done);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    let mut random = Random::seeded(seed << 8 | writer);
                    for _ in 0..2000 {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        history.commit(&mut session, table, &drawn(&mut random));
                    }
                    session.flush().unwrap();
                });
            }
            let mut random = Random::seeded(seed);
            for _ in 0..5 {
                if random.below(2) == 0 {
                    db.checkpoint().unwrap();
                }
                db.transact(|tx| tx.put(&table, &KEYS, b"seen")).unwrap();
                let report = back_up(&db, &disk).unwrap();
                let orders = BOTH_ORDERS.map(|order| copied(spec, &disk, order));
                backups.push((report, orders));
            }
            done.store(true, Ordering::Relaxed);
        });
        for (report, orders) in &backups {
            let mut expected = history.at(report.stamp);
            expected.insert(KEYS, b"seen".to_vec());
            for found in orders {
                assert_eq!(*found, expected, "{spec}, at {:?}", report.stamp);
            }
        }
    }
}

#[test]
fn the_next_backup_copies_what_has_changed() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open(DIR).unwrap();
        let table = table_of(&db);
        let mut random = Random::seeded(seed);
        for key in 0..300 {
            db.transact(|tx| tx.put(&table, &key, &[7; 300])).unwrap();
        }
        db.checkpoint().unwrap();
        let first = back_up(&db, &disk).unwrap();
        assert!(
            first.files_copied > 0 && first.segment_bytes > 90_000,
            "{spec}"
        );
        for round in 0..4 {
            db.transact(|tx| tx.put(&table, &random.below(300), &[round; 100]))
                .unwrap();
            let next = back_up(&db, &disk).unwrap();
            assert_eq!((next.files_copied, next.segment_bytes), (0, 0), "{spec}");
            assert_eq!(next.files_kept, first.files_copied, "{spec}");
            assert!(next.log_bytes < 4096, "{spec}: {next:?}");
            assert!(next.stamp > first.stamp, "{spec}");
            let found = copied(spec, &disk, BOTH_ORDERS[usize::from(round) % 2]);
            assert_eq!(found, contents(&db), "{spec}");
        }
    }
}

/// A restored database, or an opened backup, accepts new commits; commits that were not in the
/// backup never come back.
#[test]
fn a_restored_database_goes_its_own_way() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open(DIR).unwrap();
        let put = |db: &Database, key, byte| {
            db.transact(|tx| tx.put(&table_of(db), &key, &[byte]))
                .unwrap();
        };
        (0..50).for_each(|key| put(&db, key, 1));
        back_up(&db, &disk).unwrap();
        let mut expected = contents(&db);
        (0..50).for_each(|key| put(&db, key, 2));
        let on = BackupOptions::default().disk(Arc::new(disk.clone()));
        builder(spec, &disk)
            .restore(COPY, "/restored", &on)
            .unwrap();
        for dir in ["/restored", COPY] {
            for round in 3..6 {
                let db = builder(spec, &disk).open(dir).unwrap();
                assert_eq!(contents(&db), expected, "{spec}, {dir}, {round}");
                put(&db, round, 3);
                expected.insert(round, vec![3]);
                if round == 4 {
                    db.checkpoint().unwrap();
                }
                let crashed = disk.crash_image(disk.events(), Loss::All);
                let again = builder(spec, &crashed).open(dir).unwrap();
                assert_eq!(contents(&again), expected, "{spec}, {dir}, {round}");
                db.close().unwrap();
            }
            expected.retain(|_, value| *value == [1]);
            (3..6).for_each(|key| drop(expected.insert(key, vec![1])));
        }
    }
}
