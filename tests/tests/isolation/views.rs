//! Views under load: each sees the state of its stamp, under every protocol and release rule.
//! Planted bugs in the versions that commits keep for views are found.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namiki::faults::{self, Checks, NoFaults};
use namiki::{Database, Error, Prepare, ProtocolSpec, Session, Stamp, Table, View};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_tests::tested_specs::with_and_without_log;
use namiki_tests::transfers_under_views::{Seen, transfer};
use namiki_tests::watchdog::on_threads;

const KEYS: u64 = 64;
/// The fraction of values longer than a log buffer: their commits wait for the disk before they
/// install anything.
const LARGE: f64 = 0.002;

fn open(spec: ProtocolSpec, epochs: Duration) -> (Database, Table<u64, [u8]>) {
    open_on(SimDisk::new(), spec, epochs)
}

fn open_on(disk: SimDisk, spec: ProtocolSpec, epochs: Duration) -> (Database, Table<u64, [u8]>) {
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let db = Database::builder()
        .spec(spec)
        .disk(disk)
        .epoch_length(epochs)
        .streams(NonZeroU16::new(3).unwrap())
        .log_file_bytes(1 << 20)
        .buffer_bytes(16 << 10)
        .open("/db")
        .unwrap();
    let table = db.table("values").unwrap();
    (db, table)
}

type Contents = BTreeMap<u64, Vec<u8>>;

fn contents(view: &View, table: &Table<u64, [u8]>) -> Contents {
    view.scan(table, ..).unwrap().into_iter().collect()
}

/// The writes of a commit.
type Written = Vec<(u64, Option<Vec<u8>>)>;

/// All commits, by their stamps: the oracle.
#[derive(Default)]
struct History(Mutex<Vec<(Stamp, Written)>>);

impl History {
    /// The state at this stamp.
    fn at(&self, stamp: Stamp) -> Contents {
        let mut last: BTreeMap<u64, (Stamp, Option<Vec<u8>>)> = BTreeMap::new();
        for (at, written) in &*self.0.lock().unwrap() {
            for (key, value) in written {
                let newest = last.get(key).is_none_or(|(newest, _)| newest < at);
                if *at <= stamp && newest {
                    last.insert(*key, (*at, value.clone()));
                }
            }
        }
        let present = last.into_iter();
        present
            .filter_map(|(key, (_, value))| Some((key, value?)))
            .collect()
    }
}

/// Writes random keys: values that fit into a record, longer ones, and deletions.
fn write_some<C: Checks>(
    session: &mut Session,
    table: &Table<u64, [u8]>,
    random: &mut Random,
    history: &History,
) {
    let keys = 1 + random.below(3);
    let written: Written = (0..keys)
        .map(|_| {
            let value = (random.below(5) > 0).then(|| {
                let len = if random.chance(LARGE) {
                    20_000
                } else {
                    [0, 3, 8, 16, 40, 700][random.below(6) as usize]
                };
                let byte = random.below(256) as u8;
                vec![byte; len]
            });
            (random.below(KEYS), value)
        })
        .collect();
    let written: BTreeMap<_, _> = written.into_iter().collect();
    let rolls_back = random.below(8) == 0;
    loop {
        let done = session.try_faulty::<C, _>(|tx| {
            let mut done = Written::new();
            for (key, value) in &written {
                let is_written = match value {
                    Some(value) => tx.put(table, key, value).map(|()| true)?,
                    // Deleting an absent key writes nothing.
                    None => tx.delete(table, key)?,
                };
                if is_written {
                    done.push((*key, value.clone()));
                }
            }
            if rolls_back {
                return tx.abort("as planned");
            }
            Ok(done)
        });
        match done {
            Ok((written, ticket)) => {
                history.0.lock().unwrap().push((ticket.stamp(), written));
                return;
            }
            Err(Error::Aborted(_)) => return,
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs writers and views together. Returns the number of views, or the first wrong one.
fn run<C: Checks>(disk: SimDisk, spec: ProtocolSpec, seed: u64) -> Result<u64, String> {
    let transactions = 400;
    let epochs = match seed % 2 {
        0 => Duration::ZERO,
        _ => Duration::from_millis(1),
    };
    let (db, table) = open_on(disk, spec, epochs);
    let (history, done) = (History::default(), AtomicBool::new(false));
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (db, table, history) = (&db, &table, &history);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    let mut random = Random::seeded(seed << 8 | writer);
                    for _ in 0..transactions {
                        write_some::<C>(&mut session, table, &mut random, history);
                    }
                    session.flush().unwrap();
                })
            })
            .collect();
        for reader in 0..2 {
            let (db, table, seen, done) = (&db, &table, &seen, &done);
            scope.spawn(move || {
                let mut random = Random::seeded(seed << 8 | 128 | reader);
                // Views end in any order; each is read at least once.
                let mut views: Vec<View> = vec![db.faulty_view::<C>().unwrap()];
                while !views.is_empty() {
                    if views.len() < 4 && !done.load(Ordering::Relaxed) {
                        views.push(db.faulty_view::<C>().unwrap());
                    }
                    let at = random.below(views.len() as u64) as usize;
                    let view = &views[at];
                    seen.lock()
                        .unwrap()
                        .push((view.stamp(), contents(view, table)));
                    if random.below(3) == 0 || done.load(Ordering::Relaxed) {
                        views.swap_remove(at);
                    }
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let seen = seen.into_inner().unwrap();
    let views = seen.len() as u64;
    let mut expected: BTreeMap<Stamp, Contents> = BTreeMap::new();
    for (stamp, found) in seen {
        let expected = expected.entry(stamp).or_insert_with(|| history.at(stamp));
        if found != *expected {
            return Err(format!("{spec}, seed {seed}: a view at {stamp} is wrong"));
        }
    }
    assert_eq!(db.stats().views.kept_bytes, 0, "{spec}, seed {seed}");
    Ok(views)
}

#[test]
fn every_view_is_the_state_of_its_stamp() {
    for (seed, spec) in (0..).zip(with_and_without_log()) {
        for seed in [2 * seed, 2 * seed + 1] {
            // A view that misses the version before a change in place would search for it for ever.
            on_threads(1, |_| {
                let views = run::<NoFaults>(SimDisk::new(), spec, seed).unwrap();
                assert!(views > 0);
            });
        }
    }
}

fn assert_found<C: Checks>(specs: [&str; 3]) {
    for spec in specs {
        let spec: ProtocolSpec = spec.parse().unwrap();
        let found = (0..40).any(|seed| {
            let disk = SimDisk::new().with_yields(seed);
            run::<C>(disk, spec, seed).is_err()
        });
        assert!(found, "{spec}");
    }
}

#[test]
fn views_without_kept_versions_are_found_out() {
    assert_found::<faults::NothingKeptForViews>([
        "TT(EPOCH)+PWAL(auto)",
        "SILO(NLR)+NOLOG",
        "S2PL(NLR)+PWAL(4)",
    ]);
}

/// Under the other releases the view waits for the log instead, and so waits for most commits, too.
#[test]
fn views_that_do_not_wait_for_commits_are_found_out() {
    assert_found::<faults::ViewWaitsForNoCommit>([
        "TT(ELR)+PWAL(auto)",
        "SILO(ELR)+PWAL(1)",
        "S2PL(ELR)+PWAL(16)",
    ]);
}

/// The long form is `cargo xtask soak views`.
#[test]
fn no_view_sees_half_a_transfer() {
    let mut all = Seen::default();
    let specs = with_and_without_log();
    let scans_min = 16 * specs.len() as u64;
    for (seed, spec) in (0_u64..).zip(specs) {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let builder = Database::builder().spec(spec).disk(disk);
        all += transfer(builder, Path::new("/db"), seed, 1500).unwrap();
    }
    println!("{all:?}");
    assert!(all.scans > scans_min, "{all:?}");
}

#[test]
fn a_view_of_an_idle_database_writes_nothing() {
    for spec in with_and_without_log() {
        let disk = SimDisk::new();
        // No background thread writes during the test.
        let builder = Database::builder()
            .spec(spec)
            .epoch_length(Duration::MAX)
            .prepare(Prepare::Inline)
            .checkpoint_log_bytes(u64::MAX);
        let db = builder.disk(Arc::new(disk.clone())).open("/db").unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        for round in 0..3 {
            db.transact(|tx| tx.put(&table, &1, &round)).unwrap();
            // The view makes all of this durable.
            drop(db.view().unwrap());
            let events = disk.events();
            for _ in 0..5 {
                assert_eq!(db.read(|view| view.get(&table, &1)).unwrap(), Some(round));
            }
            assert_eq!(disk.events(), events, "{spec}, round {round}");
        }
    }
}

#[test]
fn a_view_includes_what_was_acknowledged_before() {
    for spec in with_and_without_log() {
        // No epoch ends by itself.
        let (db, table) = open(spec, Duration::MAX);
        for at in 0..20_u64 {
            db.transact(|tx| tx.put(&table, &(at % 3), &at.to_le_bytes()))
                .unwrap();
            let found = db.read(|view| view.get(&table, &(at % 3))).unwrap();
            assert_eq!(found, Some(at.to_le_bytes().to_vec()), "{spec}");
        }
    }
}

#[test]
fn a_view_sees_nothing_of_an_open_transaction() {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, Duration::from_millis(1));
        db.transact(|tx| tx.put(&table, &1, &[1])).unwrap();
        let before = db.view().unwrap();
        let mut tx = db.begin().unwrap();
        tx.put(&table, &1, &[2]).unwrap();
        tx.put(&table, &2, &[2]).unwrap();
        let during = db.view().unwrap();
        let old = Contents::from([(1, vec![1])]);
        assert_eq!(contents(&during, &table), old, "{spec}");
        let savepoint = tx.savepoint();
        tx.put(&table, &1, &[3]).unwrap();
        tx.rollback_to(&savepoint).unwrap();
        assert_eq!(contents(&during, &table), old, "{spec}");
        tx.rollback();
        assert_eq!(contents(&during, &table), old, "{spec}");
        let mut tx = db.begin().unwrap();
        tx.put(&table, &1, &[4]).unwrap();
        tx.commit().unwrap();
        for view in [&before, &during] {
            assert_eq!(contents(view, &table), old, "{spec}");
        }
        let after = db.view().unwrap();
        assert_eq!(after.get(&table, &1).unwrap(), Some(vec![4]), "{spec}");
        assert_eq!(after.get(&table, &2).unwrap(), None, "{spec}");
    }
}

#[test]
fn beyond_the_limit_of_memory_the_oldest_view_ends() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let db = Database::builder()
        .spec("TT(NLR)+NOLOG".parse().unwrap())
        .disk(disk)
        .view_bytes_max(90_000)
        .open("/db")
        .unwrap();
    let table = db.table::<u64, [u8]>("values").unwrap();
    let put_all = |value: &[u8]| {
        for key in 0..150_u64 {
            db.transact(|tx| tx.put(&table, &key, value)).unwrap();
        }
    };
    put_all(&[1; 500]);
    let oldest = db.view().unwrap();
    put_all(&[2; 10]);
    assert_eq!(oldest.get(&table, &7).unwrap(), Some(vec![1; 500]));
    let newer = db.view().unwrap();
    put_all(&[3; 10]);
    let error = oldest.get(&table, &7).unwrap_err();
    assert!(matches!(error, Error::ViewExpired { bytes_max: 90_000 }));
    assert_eq!(newer.get(&table, &7).unwrap(), Some(vec![2; 10]));
    let counters = db.stats().views;
    assert_eq!((counters.open, counters.expired), (1, 1));
    drop((oldest, newer));
    assert_eq!(db.stats().views.kept_bytes, 0);
}

#[test]
fn a_view_reads_a_table_that_was_dropped_since() {
    let (db, table) = open("SILO(NLR)+NOLOG".parse().unwrap(), Duration::from_millis(1));
    db.transact(|tx| tx.put(&table, &1, &[1])).unwrap();
    let view = db.view().unwrap();
    db.transact(|tx| tx.put(&table, &1, &[2])).unwrap();
    db.drop_table("values").unwrap();
    // If its records were freed, these would reuse them.
    let other = db.table::<u64, [u8]>("other").unwrap();
    db.transact(|tx| (0..1000).try_for_each(|at| tx.put(&other, &at, &[3])))
        .unwrap();
    assert_eq!(view.get(&table, &1).unwrap(), Some(vec![1]));
    let refused = view.count(&other, ..).unwrap_err();
    assert!(matches!(refused, Error::TableYoungerThanView { .. }));
    let later = db.view().unwrap();
    let refused = later.get(&table, &1).unwrap_err();
    assert!(matches!(refused, Error::TableDropped { .. }));
    drop(table);
    assert_eq!(later.count(&other, ..).unwrap(), 1000);
    db.close().unwrap();
    assert!(matches!(later.get(&other, &1), Err(Error::Closed)));
}

#[test]
fn a_view_of_a_new_database_is_empty() {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, Duration::MAX);
        assert_eq!(db.read(|view| view.count(&table, ..)).unwrap(), 0, "{spec}");
    }
}
