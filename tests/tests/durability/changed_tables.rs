//! Dropping, clearing and renaming tables: each change is atomic, whatever happens to the disk, the
//! process, or the transactions under way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use namiki::faults::{Checks, NoDropCheck, NoFaults};
use namiki::files::{FORMAT, Manifest};
use namiki::{Database, Error, LoadError, OpenError, ProtocolSpec};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, Loss, SimDisk, Step};
use namiki_platform::seeded_random::Random;
use namiki_tests::loaded_table::{self, DIR, TABLE, image_files};
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::small_database::builder;

/// Every concurrency control, with and without groups that hold locks; one protocol logs
/// operations.
const SPECS: [&str; 6] = [
    "TT(EPOCH)+PWAL(1)",
    "TT(NLR)+PWAL(4)",
    "TT(ELR)+SWAL(1)",
    "SILO(EPOCH)+PWAL(4)",
    "S2PL(NLR)+PWAL(4)",
    "S2PL(ELR)+SWAL(1)+ARIES",
];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The rows of each non-empty table.
type State = BTreeMap<String, BTreeMap<u64, u64>>;

#[derive(Clone, Copy, Debug)]
enum Action {
    Put(&'static str, u64, u64),
    /// Two writes of one transaction, in two tables.
    PutBoth(u64, u64),
    Drop(&'static str),
    Clear(&'static str),
    Rename(&'static str, &'static str),
}

impl Action {
    fn random(random: &mut Random) -> Self {
        let mut name = || NAMES[random.below(NAMES.len() as u64) as usize];
        let (one, other) = (name(), name());
        let (key, value) = (random.below(4), random.below(1_000));
        match random.below(10) {
            0..4 => Self::Put(one, key, value),
            4..6 => Self::PutBoth(key, value),
            6 => Self::Drop(one),
            7 => Self::Clear(one),
            _ => Self::Rename(one, other),
        }
    }

    fn perform(self, db: &Database) -> Result<(), Error> {
        match self {
            Self::Put(name, key, value) => {
                let table = db.table::<u64, u64>(name)?;
                db.transact(|tx| tx.put(&table, &key, &value))
            }
            Self::PutBoth(key, value) => {
                let (a, b) = (db.table::<u64, u64>("a")?, db.table::<u64, u64>("b")?);
                db.transact(|tx| {
                    tx.put(&a, &key, &value)?;
                    tx.put(&b, &key, &value)
                })
            }
            Self::Drop(name) => db.drop_table(name),
            Self::Clear(name) => db.clear_table(name),
            Self::Rename(from, to) => db.rename_table(from, to),
        }
    }

    /// Applies a successful action to the state.
    fn apply(self, state: &mut State) {
        match self {
            Self::Put(name, key, value) => {
                state.entry(name.to_owned()).or_default().insert(key, value);
            }
            Self::PutBoth(key, value) => {
                Self::Put("a", key, value).apply(state);
                Self::Put("b", key, value).apply(state);
            }
            Self::Drop(name) | Self::Clear(name) => {
                state.remove(name);
            }
            Self::Rename(from, to) => {
                if let Some(rows) = state.remove(from) {
                    state.insert(to.to_owned(), rows);
                }
            }
        }
    }
}

fn open(spec: &str, disk: &SimDisk) -> Database {
    builder(spec, disk).open(DIR).unwrap()
}

fn state_of(db: &Database) -> State {
    let mut state = State::new();
    for name in db.tables() {
        let table = db.table::<u64, u64>(&name).unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        if !rows.is_empty() {
            state.insert(name, rows.into_iter().collect());
        }
    }
    state
}

#[test]
fn every_crash_leaves_a_change_whole_or_undone() {
    let seed = 24;
    let mut random = Random::seeded(seed);
    let (mut images, mut tables_changed) = (0, 0);
    for spec in SPECS {
        let disk = SimDisk::new();
        let db = open(spec, &disk);
        let mut states = vec![State::new()];
        for _ in 0..40 {
            let action = Action::random(&mut random);
            match action.perform(&db) {
                Ok(()) => {
                    let mut next = states.last().unwrap().clone();
                    action.apply(&mut next);
                    states.push(next);
                    disk.mark(states.len() as u64);
                    tables_changed +=
                        u32::from(!matches!(action, Action::Put(..) | Action::PutBoth(..)));
                }
                Err(Error::NoSuchTable { .. } | Error::TableExists { .. }) => {}
                Err(error) => panic!("seed {seed}, {spec}, {action:?}: {error}"),
            }
            assert_eq!(&state_of(&db), states.last().unwrap(), "{spec}, {action:?}");
        }
        drop(db);
        for at in 0..=disk.events() {
            let losses = [Loss::None, Loss::All, Loss::Seeded(random.next_u64())];
            for loss in losses {
                let image = disk.crash_image(at, loss);
                let acknowledged = disk.marks_before(at).len();
                let place = format!("seed {seed}, {spec}, after event {at}, {loss:?}");
                let db = builder(spec, &image)
                    .open(DIR)
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
                let found = state_of(&db);
                let expected = &states[acknowledged..states.len().min(acknowledged + 2)];
                assert!(
                    expected.contains(&found),
                    "{place}: {found:?} is none of {expected:?}"
                );
                images += 1;
                // A table that is created now has no rows of a dropped one.
                if random.chance(0.05) {
                    Action::Put("new", 1, 1).perform(&db).unwrap();
                    drop(db);
                    let again = state_of(&open(spec, &image));
                    assert_eq!(again["new"], [(1, 1)].into(), "{place}");
                    assert_eq!(again.len(), found.len() + 1, "{place}");
                }
            }
        }
    }
    println!("{images} images, {tables_changed} changes of tables");
    assert!(images > 3_000 && tables_changed > 40);
}

/// A commit after a failed change survives a crash. Where no commit is possible, the error says so.
#[test]
fn a_change_that_fails_loses_no_later_commit() {
    let changes = [
        Action::Drop("a"),
        Action::Clear("a"),
        Action::Rename("a", "b"),
    ];
    let (mut as_before, mut shut) = (0, 0);
    for (spec, change) in SPECS.into_iter().zip(changes.into_iter().cycle()) {
        for step in [Step::Write, Step::Create, Step::SyncDir, Step::Rename] {
            for (after, for_ever) in (0..12).flat_map(|after| [(after, false), (after, true)]) {
                let disk = SimDisk::new();
                let db = open(spec, &disk);
                let before = Action::Put("a", 1, 1);
                before.perform(&db).unwrap();
                let fault = Fault::once(step, after, ErrorKind::Other);
                disk.inject(if for_ever {
                    fault.and_ever_after()
                } else {
                    fault
                });
                let changed = change.perform(&db);
                disk.heal();
                let place = format!("{spec}, {change:?}, {step:?} {after}, for ever: {for_ever}");
                let mut states = [State::new(), State::new()];
                before.apply(&mut states[0]);
                before.apply(&mut states[1]);
                change.apply(&mut states[1]);
                let later = Action::Put("a", 2, 2);
                let mut possible = match changed {
                    Ok(()) => vec![states[1].clone()],
                    Err(Error::Manifest { .. } | Error::LogFailed(_)) => states.to_vec(),
                    Err(error) => panic!("{place}: {error}"),
                };
                let committed = match later.perform(&db) {
                    Ok(()) if changed.is_err() && !matches!(change, Action::Rename(..)) => {
                        // The earlier row is still there.
                        possible.truncate(1);
                        as_before += 1;
                        true
                    }
                    Ok(()) => true,
                    Err(Error::TableDropped { .. } | Error::LogFailed(_)) if changed.is_err() => {
                        shut += 1;
                        false
                    }
                    Err(error) => panic!("{place}: {error}"),
                };
                if committed {
                    for state in &mut possible {
                        match change {
                            // The change applied to the only remaining table, whichever name it
                            // has.
                            Action::Rename(_, to) if changed.is_err() && state.contains_key(to) => {
                                Action::Put("b", 2, 2).apply(state);
                            }
                            _ => later.apply(state),
                        }
                    }
                }
                let names = disk.pending_names(disk.events());
                let losses = [Loss::None, Loss::All, Loss::Seeded(after)].into_iter();
                for loss in losses.chain((0..names).map(Loss::NamesAfter)) {
                    let image = disk.crash_image(disk.events(), loss);
                    let found = state_of(&open(spec, &image));
                    assert!(
                        possible.contains(&found),
                        "{place}, {loss:?}: {found:?} is none of {possible:?}"
                    );
                }
            }
        }
    }
    println!("{as_before} as before, {shut} shut");
    assert!(as_before > 10 && shut > 10, "{as_before}, {shut}");
}

/// A transaction that is not waited for copies the rows of a table, and the table is dropped. After
/// every crash the rows are in one of the two.
#[test]
fn a_drop_is_not_durable_before_earlier_commits() {
    for spec in ProtocolSpec::tested() {
        let spec = spec.to_string();
        for change in [Action::Drop("a"), Action::Clear("a")] {
            let disk = SimDisk::new();
            let db = open(&spec, &disk);
            Action::Put("a", 1, 1).perform(&db).unwrap();
            let [a, b] = ["a", "b"].map(|name| db.table::<u64, u64>(name).unwrap());
            disk.mark(1);
            let mut session = db.session_on(namiki::WorkerId(1)).unwrap();
            let copied = session.transact_async(|tx| {
                let value = tx.get(&a, &1)?.unwrap_or(0);
                tx.put(&b, &1, &value)
            });
            copied.unwrap();
            change.perform(&db).unwrap();
            for at in (0..=disk.events()).filter(|at| !disk.marks_before(*at).is_empty()) {
                for loss in [Loss::None, Loss::All, Loss::Seeded(at as u64)] {
                    let found = state_of(&open(&spec, &disk.crash_image(at, loss)));
                    assert!(
                        !found.is_empty(),
                        "{spec}, {change:?}, after event {at}, {loss:?}"
                    );
                }
            }
        }
    }
}

/// A transaction writes a table, then another transaction clears the table and records that, and
/// the first one reads the record. The first one is ordered after the clearing, and its row would
/// be lost.
fn committed_across_a_clearing<C: Checks>(spec: ProtocolSpec) -> Result<bool, Error> {
    let disk = SimDisk::new();
    let db = open(&spec.to_string(), &disk);
    let [rows, clearings] = ["rows", "clearings"].map(|name| db.table::<u64, u64>(name).unwrap());
    let mut session = db.session_on(namiki::WorkerId(1))?;
    let (_, ticket) = session.try_faulty::<C, _>(|tx| {
        tx.put(&rows, &1, &1)?;
        db.clear_table("rows")?;
        on_another_thread(|| db.transact(|other| other.put(&clearings, &1, &1)))?;
        tx.get(&clearings, &1)
    })?;
    session.wait(&ticket)?;
    let rows = db.table::<u64, u64>("rows")?;
    db.transact(|tx| tx.contains_key(&rows, &1))
}

#[test]
fn no_transaction_commits_to_a_table_cleared_meanwhile() {
    for spec in ProtocolSpec::tested() {
        let committed = committed_across_a_clearing::<NoFaults>(spec);
        assert!(
            matches!(&committed, Err(Error::TableDropped { table }) if table == "rows"),
            "{spec}: {committed:?}"
        );
        let lost = committed_across_a_clearing::<NoDropCheck>(spec);
        assert!(matches!(lost, Ok(false)), "{spec}: {lost:?}");
    }
}

#[test]
fn readers_of_a_dropped_table_fail_with_what_they_read() {
    for spec in ProtocolSpec::tested() {
        let db = open(&spec.to_string(), &SimDisk::new());
        let [a, b, _] = NAMES.map(|name| db.table::<u64, u64>(name).unwrap());
        let mut session = db.session().unwrap();
        let mut read = |missing: &str| {
            session.try_transact_async(|tx| {
                tx.get(&b, &1)?;
                let _ = tx.get(&a, &1);
                if db.tables().contains(&missing.to_owned()) {
                    db.drop_table(missing)?;
                }
                Ok(())
            })
        };
        // Dropping another table does not affect the transaction.
        read("c").unwrap();
        let refused = read("a").unwrap_err();
        assert!(
            matches!(refused, Error::TableDropped { .. }),
            "{spec}: {refused}"
        );
        // The session has used the table, and its next transaction does not.
        session.try_transact_async(|tx| tx.get(&b, &1)).unwrap();
    }
}

#[test]
fn old_handles_are_refused_by_name() {
    let disk = SimDisk::new();
    let db = open(SPECS[0], &disk);
    let old = db.table::<u64, u64>("a").unwrap();
    db.transact(|tx| tx.put(&old, &1, &1)).unwrap();
    db.rename_table("a", "b").unwrap();
    assert_eq!(old.name(), "b");
    assert_eq!(db.transact(|tx| tx.get(&old, &1)).unwrap(), Some(1));
    db.rename_table("b", "b").unwrap();
    db.clear_table("b").unwrap();
    let new = db.table::<u64, u64>("b").unwrap();
    assert!(new.id() > old.id());
    db.transact(|tx| tx.put(&new, &2, &2)).unwrap();
    let refused = [
        db.transact(|tx| tx.get(&old, &1).map(|_| ())),
        db.transact(|tx| tx.put(&old, &1, &1)),
        db.transact(|tx| tx.scan(&old, ..).map(|_| ())),
        db.transact(|tx| tx.lock_many(&old, [1])),
        db.transact(|tx| tx.range(&old, ..).next().transpose().map(|_| ())),
    ];
    for refused in refused {
        assert!(
            matches!(&refused, Err(Error::TableDropped { table }) if table == "b"),
            "{refused:?}"
        );
    }
    db.drop_table("b").unwrap();
    assert!(db.tables().is_empty());
    let missing = [
        db.drop_table("b"),
        db.clear_table("b"),
        db.rename_table("b", "a"),
    ];
    for missing in missing {
        assert!(
            matches!(&missing, Err(Error::NoSuchTable { table }) if table == "b"),
            "{missing:?}"
        );
    }
    db.table::<u64, u64>("a").unwrap();
    // With other types than before.
    db.table::<String, String>("b").unwrap();
    assert!(matches!(db.rename_table("a", "b"), Err(Error::TableExists { table }) if table == "b"));
    assert!(matches!(
        db.rename_table("a", ""),
        Err(Error::TableName { .. })
    ));
    db.close().unwrap();
    assert!(matches!(db.drop_table("a"), Err(Error::Closed)));
    assert_eq!(open(SPECS[0], &disk).tables(), ["a", "b"]);
}

/// Transactions write rows together with copies, while the table of the rows is cleared repeatedly.
/// Every row has a copy, and every row was committed through a handle of the last table.
#[test]
fn clearing_beside_writers_keeps_transactions_whole() {
    for spec in SPECS {
        let disk = SimDisk::new();
        let db = open(spec, &disk);
        let copies = db.table::<u64, u64>("copies").unwrap();
        db.table::<u64, u64>("rows").unwrap();
        let done = AtomicBool::new(false);
        let (mut kept, mut refused) = (Vec::new(), 0);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..2_u64)
                .map(|writer| {
                    let (db, copies, done) = (&db, &copies, &done);
                    scope.spawn(move || {
                        let (mut committed, mut refused) = (Vec::new(), 0);
                        let mut rows = db.table::<u64, u64>("rows").unwrap();
                        for row in (writer..).step_by(2) {
                            if done.load(Ordering::Relaxed) {
                                break;
                            }
                            let put = db.transact(|tx| {
                                tx.put(&rows, &row, &row)?;
                                tx.put(copies, &row, &row)
                            });
                            match put {
                                Ok(()) => committed.push((rows.id(), row)),
                                Err(Error::TableDropped { .. }) => {
                                    refused += 1;
                                    rows = db.table("rows").unwrap();
                                }
                                Err(error) => panic!("{spec}: {error}"),
                            }
                        }
                        (committed, refused)
                    })
                })
                .collect();
            for _ in 0..60 {
                db.clear_table("rows").unwrap();
                thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            for writer in writers {
                let (committed, times) = writer.join().unwrap();
                kept.extend(committed);
                refused += times;
            }
        });
        let last = db.table::<u64, u64>("rows").unwrap().id();
        let mut expected: [Vec<(u64, u64)>; 2] = [
            kept.iter()
                .filter(|(table, _)| *table == last)
                .map(|(_, row)| (*row, *row))
                .collect(),
            kept.iter().map(|(_, row)| (*row, *row)).collect(),
        ];
        expected.iter_mut().for_each(|rows| rows.sort_unstable());
        let image = disk.crash_image(disk.events(), Loss::All);
        for db in [db, open(spec, &image)] {
            let found = ["rows", "copies"].map(|name| {
                let table = db.table::<u64, u64>(name).unwrap();
                db.transact(|tx| tx.scan(&table, ..)).unwrap()
            });
            assert!(found == expected, "{spec}");
        }
        println!("{spec}: {} committed, {refused} refused", kept.len());
    }
}

#[test]
fn every_crash_of_dropping_segments_leaves_all_or_nothing() {
    let disk = SimDisk::new();
    let db = open(SPECS[0], &disk);
    loaded_table::load(&db, 300).unwrap();
    disk.mark(1);
    db.rename_table(TABLE, "others").unwrap();
    disk.mark(2);
    db.rename_table("others", TABLE).unwrap();
    let refused = db.clear_table(TABLE);
    assert!(
        matches!(refused, Err(Error::TableInSegments { .. })),
        "{refused:?}"
    );
    disk.mark(3);
    db.drop_table(TABLE).unwrap();
    disk.mark(4);
    assert!(image_files(&disk).is_empty());
    loaded_table::load(&db, 100).unwrap();
    disk.mark(5);
    drop(db);
    let mut random = Random::seeded(5);
    for at in 0..=disk.events() {
        for loss in [
            Loss::None,
            Loss::All,
            Loss::NamesAfter(0),
            Loss::Seeded(random.next_u64()),
        ] {
            let image = disk.crash_image(at, loss);
            let place = format!("after event {at}, {loss:?}");
            let db = builder(SPECS[0], &image)
                .open(DIR)
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            let found: Vec<_> = (db.loaded_tables().into_iter())
                .map(|table| (table.name, table.rows))
                .collect();
            let states: [&[(&str, u64)]; 6] = [
                &[],
                &[(TABLE, 300)],
                &[("others", 300)],
                &[(TABLE, 300)],
                &[],
                &[(TABLE, 100)],
            ];
            let acknowledged = disk.marks_before(at).len();
            let is = |state: &&[(&str, u64)]| {
                state
                    .iter()
                    .map(|(name, rows)| ((*name).to_owned(), *rows))
                    .eq(found.clone())
            };
            let possible = &states[acknowledged..states.len().min(acknowledged + 2)];
            assert!(possible.iter().any(is), "{place}: {found:?}");
            let rows = found.first().map(|(_, rows)| *rows);
            if found.first().is_none_or(|(name, _)| name == TABLE) {
                assert_eq!(
                    loaded_table::wrong_loaded_table(&image, rows),
                    None,
                    "{place}"
                );
            }
        }
    }
}

#[test]
fn a_table_being_loaded_cannot_be_changed() {
    let db = open(SPECS[0], &SimDisk::new());
    db.table::<u64, u64>("a").unwrap();
    let rows = loaded_table::rows(2).inspect(|_| {
        for refused in [
            db.drop_table(TABLE),
            db.rename_table("a", TABLE),
            db.clear_table(TABLE),
        ] {
            assert!(
                matches!(refused, Err(Error::TableBeingLoaded { .. })),
                "{refused:?}"
            );
        }
    });
    let loaded = db.load_sorted(&loaded_table::parts(), loaded_table::sound(rows));
    assert!(!matches!(loaded, Err(LoadError::Closed)));
    loaded.unwrap();
}

#[test]
fn a_log_of_a_table_that_never_was_is_damage() {
    let disk = SimDisk::new();
    let db = open(SPECS[0], &disk);
    Action::Put("a", 1, 1).perform(&db).unwrap();
    db.close().unwrap();
    let head = || String::from_utf8(disk.read(&Manifest::path(Path::new(DIR))).unwrap()).unwrap();
    let db = open(SPECS[0], &disk);
    db.drop_table("a").unwrap();
    db.close().unwrap();
    // A log that changes a table unknown to every manifest is damaged in any case.
    let forgotten = head().replace("\"dropped\": 1,", "\"dropped\": 0,");
    let (_, body) = forgotten.split_once('\n').unwrap();
    let text = namiki_platform::checked_text::encode("namiki-manifest", FORMAT, body);
    disk.replace(&Manifest::path(Path::new(DIR)), text.as_bytes())
        .unwrap();
    let refused = builder(SPECS[0], &disk).open(DIR).unwrap_err();
    assert!(
        matches!(&refused, OpenError::Undecodable { why, .. } if why.contains("table 0")),
        "{refused}"
    );
}
