//! Only one continuation of a directory can continue a backup. The backup decides which one;
//! stamps, generations and file numbers do not, because they rise in all continuations alike.

use std::io::ErrorKind;

use namiki_platform::disk::sim::{Fault, Step};

use super::*;

fn put(db: &Database, key: u64, value: &[u8]) {
    let table = table_of(db);
    db.transact(|tx| tx.put(&table, &key, value)).unwrap();
}

fn is_foreign(done: &Result<BackupReport, BackupError>) -> bool {
    matches!(done, Err(BackupError::OtherHistory { .. }))
}

/// A copy of a closed directory is put back, and gets as many further commits as the original had.
#[test]
fn a_copy_that_was_put_back_is_another_history() {
    for spec in ProtocolSpec::tested() {
        let (disk, copies) = (SimDisk::new(), SimDisk::new());
        let db = builder(spec, &disk).open(DIR).unwrap();
        (0..50).for_each(|key| put(&db, key, b"common"));
        db.checkpoint().unwrap();
        db.close().unwrap();
        let copy = disk.crash_image(disk.events(), Loss::None);
        let go_on = |disk: &SimDisk, value: &[u8]| {
            let db = builder(spec, disk).open(DIR).unwrap();
            (0..20).for_each(|key| put(&db, key, value));
            let on = BackupOptions::default().disk(Arc::new(copies.clone()));
            let done = db.backup_with(COPY, &on);
            (contents(&db), done)
        };
        let (original, taken) = go_on(&disk, b"original");
        taken.unwrap();
        let (_, refused) = go_on(&copy, b"copy");
        assert!(is_foreign(&refused), "{spec}: {refused:?}");
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("name another directory"), "{said}");
        let found = copied(spec, &copies, ReplayOrder::HighestStamp);
        assert_eq!(found, original, "{spec}");
    }
}

/// Wherever a crash comes while an opening announces itself and writes its first frame: a database
/// that continues from there has another history as soon as either has written.
#[test]
fn continuations_of_any_moment_are_told_apart() {
    for spec in ["TT(EPOCH)+PWAL(auto)", "S2PL(NLR)+PWAL(1)+ARIES"] {
        let spec = spec.parse().unwrap();
        let disk = SimDisk::with_separate_directories();
        let copies = SimDisk::new();
        let on = |copies: &SimDisk| BackupOptions::default().disk(Arc::new(copies.clone()));
        let db = builder(spec, &disk).open(DIR).unwrap();
        put(&db, 1, b"common");
        db.backup_with(COPY, &on(&copies)).unwrap();
        db.close().unwrap();
        let before = copies.crash_image(copies.events(), Loss::None);
        let begin = disk.events();
        let db = builder(spec, &disk).open(DIR).unwrap();
        put(&db, 2, b"original");
        let end = disk.events();
        put(&db, 3, b"original");
        db.backup_with(COPY, &on(&copies)).unwrap();
        for at in begin..=end {
            let what = format!("{spec}, {}", disk.describe(at));
            let crashed = disk.crash_image(at, Loss::Seeded(at as u64));
            let copy = builder(spec, &crashed).open(DIR).unwrap();
            put(&copy, 2, b"copied");
            put(&copy, 3, b"copied");
            let refused = copy.backup_with(COPY, &on(&copies));
            assert!(is_foreign(&refused), "{what}: {refused:?}");
            // The other way round: the copy comes first.
            let copies = before.crash_image(before.events(), Loss::None);
            copy.backup_with(COPY, &on(&copies)).unwrap();
            assert_eq!(copied(spec, &copies, ReplayOrder::Merge), contents(&copy));
            let refused = db.backup_with(COPY, &on(&copies));
            assert!(is_foreign(&refused), "{what}: {refused:?}");
        }
    }
}

/// Each backup copies only the changes, and the manifest's list of openings stays short.
#[test]
fn backups_of_many_openings_are_incremental() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let on = BackupOptions::default().disk(Arc::new(copies.clone()));
    for opening in 0..40 {
        let db = builder(spec, &disk).checkpoint_at_close(None);
        let db = db.checkpoint_log_bytes(u64::MAX).open(DIR).unwrap();
        if opening == 0 {
            (0..KEYS).for_each(|key| put(&db, key, &[7; 300]));
            db.checkpoint().unwrap();
        }
        put(&db, opening % KEYS, b"changed");
        let crashed = disk.crash_image(disk.events(), Loss::All);
        if opening % 3 == 0 {
            let report = db.backup_with(COPY, &on).unwrap();
            assert!(opening == 0 || report.segment_bytes == 0, "{report:?}");
            assert!(opening == 0 || report.log_bytes < 16 << 10, "{report:?}");
        }
        if opening % 7 == 1 {
            let report = builder(spec, &crashed).backup_closed(DIR, COPY, &on);
            let report = report.unwrap();
            assert_eq!(report.files_copied, 0);
        }
        let expected = contents(&db);
        db.close().unwrap();
        let report = builder(spec, &disk).backup_closed(DIR, COPY, &on).unwrap();
        assert_eq!(report.files_copied, 0);
        assert_eq!(copied(spec, &copies, ReplayOrder::Merge), expected);
    }
}

/// The other database is refused with a request for another directory, and so is each one that
/// follows the other.
#[test]
fn two_continuations_do_not_take_turns() {
    let spec = "TT(NLR)+PWAL(4)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let on = BackupOptions::default().disk(Arc::new(copies.clone()));
    let one = builder(spec, &disk).open(DIR).unwrap();
    put(&one, 1, b"common");
    one.backup_with(COPY, &on).unwrap();
    let snapshot = disk.crash_image(disk.events(), Loss::All);
    let two = builder(spec, &snapshot).open(DIR).unwrap();
    for round in 2..6 {
        put(&one, round, b"one");
        put(&two, round, b"two");
        one.backup_with(COPY, &on).unwrap();
        let refused = two.backup_with(COPY, &on);
        assert!(is_foreign(&refused), "{refused:?}");
        two.backup_with("/its-own", &on).unwrap();
    }
    assert_eq!(copied(spec, &copies, ReplayOrder::Merge), contents(&one));
}

/// The leftovers of an interrupted backup of another database are not taken for its own.
#[test]
fn leftovers_of_an_interrupted_foreign_backup_are_passed_over() {
    let spec: ProtocolSpec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let on = |copies: &SimDisk| BackupOptions::default().disk(Arc::new(copies.clone()));
    let db = builder(spec, &disk).open(DIR).unwrap();
    put(&db, 1, b"common");
    db.backup_with(COPY, &on(&copies)).unwrap();
    db.close().unwrap();
    let copy = disk.crash_image(disk.events(), Loss::None);
    let go_on = |disk: &SimDisk, streams: u16, value: u8| {
        let db = builder(spec, disk).streams(NonZeroU16::new(streams).unwrap());
        let db = db.open(DIR).unwrap();
        (0..KEYS).for_each(|key| put(&db, key, &[value; 700]));
        if value == 2 {
            db.checkpoint().unwrap();
        }
        (0..9).for_each(|key| put(&db, key, &[value; 100]));
        db
    };
    let (other, own) = (go_on(&copy, 3, 1), go_on(&disk, 2, 2));
    let begin = copies.events();
    other.backup_with(COPY, &on(&copies)).unwrap();
    for at in begin..copies.events() {
        let left = copies.crash_image(at, Loss::None);
        match own.backup_with(COPY, &on(&left)) {
            // It was completed.
            Err(BackupError::OtherHistory { .. }) => continue,
            done => drop(done.unwrap()),
        }
        let found = copied(spec, &left, ReplayOrder::HighestStamp);
        assert_eq!(found, contents(&own), "{}", copies.describe(at));
        // Once written, it opens: no file of the other's log remains.
        let opened = builder(spec, &left).open(COPY).unwrap();
        put(&opened, 1, b"on");
        opened.close().unwrap();
        let opened = builder(spec, &left).open(COPY).unwrap();
        assert_eq!(contents(&opened).len(), contents(&own).len());
    }
}

/// A restore of a later moment was interrupted, and one of an earlier moment takes its place.
#[test]
fn leftovers_of_an_interrupted_restore_are_passed_over() {
    let spec: ProtocolSpec = "TT(NLR)+PWAL(4)".parse().unwrap();
    let disk = SimDisk::new();
    let on = |disk: &SimDisk| BackupOptions::default().disk(Arc::new(disk.clone()));
    let (mut early, mut expected) = (SimDisk::new(), Contents::new());
    for opening in 0..3_u8 {
        let db = builder(spec, &disk).streams(NonZeroU16::new(1 + u16::from(opening)).unwrap());
        let db = db.open(DIR).unwrap();
        (0..KEYS).for_each(|key| put(&db, key, &[opening; 700]));
        db.close().unwrap();
        if opening == 0 {
            early = disk.crash_image(disk.events(), Loss::None);
            let db = builder(spec, &early).open_read_only(DIR).unwrap();
            expected = contents(&db);
        }
    }
    let to = SimDisk::new();
    builder(spec, &disk).restore(DIR, COPY, &on(&to)).unwrap();
    for at in 0..to.events() {
        let left = to.crash_image(at, Loss::None);
        match builder(spec, &early).restore(DIR, COPY, &on(&left)) {
            // The other one was completed.
            Err(BackupError::NotEmpty { .. }) if at > 0 => continue,
            done => drop(done.unwrap()),
        }
        for _ in 0..2 {
            let db = builder(spec, &left).open(COPY);
            let db = db.unwrap_or_else(|error| panic!("{}: {error:?}", to.describe(at)));
            assert_eq!(contents(&db), expected, "{}", to.describe(at));
            put(&db, 0, &[0; 700]);
            db.close().unwrap();
        }
    }
}

/// A failed change may be on the disk nevertheless. If a backup were taken then, a snapshot of the
/// disk from before the change would be another history, although it may have as many frames and
/// changes.
#[test]
fn no_backup_is_taken_of_a_change_in_doubt() {
    let spec = "TT(NLR)+PWAL(1)".parse().unwrap();
    let drop_it = |db: &Database| db.drop_table("spare").unwrap_err();
    let make_one = |db: &Database| {
        let made = db.table::<u64, u64>("another");
        made.map(drop).unwrap_err()
    };
    let changes: [&dyn Fn(&Database) -> Error; 2] = [&drop_it, &make_one];
    for (number, change) in changes.into_iter().enumerate() {
        for later in 0..5 {
            let told = format!("change {number}, {later} commits later");
            let (disk, copies) = (SimDisk::new(), SimDisk::new());
            let on = BackupOptions::default().disk(Arc::new(copies.clone()));
            let db = builder(spec, &disk).open(DIR).unwrap();
            db.table::<u64, u64>("spare").unwrap();
            put(&db, 1, b"common");
            // The manifest is installed, but reported as a failure; and the previous one does not
            // come back. (A new table is not appended to the journal before.)
            disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other));
            disk.inject(Fault::once(Step::Rename, 0, ErrorKind::Other).though_it_takes_place());
            if number == 0 {
                disk.heal();
                disk.inject(Fault::once(Step::Rename, 0, ErrorKind::Other).though_it_takes_place());
                disk.inject(Fault::once(Step::Create, 1, ErrorKind::Other));
            }
            let error = change(&db);
            assert!(
                matches!(
                    error,
                    Error::Manifest {
                        is_in_doubt: true,
                        ..
                    }
                ),
                "{told}: {error:?}"
            );
            disk.heal();
            let snapshot = disk.crash_image(disk.events(), Loss::None);
            (0..later).for_each(|key| put(&db, 10 + key, b"later"));
            // As long as the doubt stays, there is no backup.
            disk.inject(Fault::once(Step::Create, 0, ErrorKind::Other).and_ever_after());
            let refused = db.backup_with(COPY, &on);
            assert!(refused.is_err(), "{told}: {refused:?}");
            disk.heal();
            db.backup_with(COPY, &on).unwrap();
            let other = builder(spec, &snapshot).open(DIR).unwrap();
            put(&other, 2, b"other");
            let refused = other.backup_with(COPY, &on);
            assert!(is_foreign(&refused), "{told}: {refused:?}");
            // The database that it was taken of continues it.
            put(&db, 3, b"more");
            db.backup_with(COPY, &on).unwrap();
            let found = copied(spec, &copies, ReplayOrder::HighestStamp);
            assert_eq!(found, contents(&db), "{told}");
        }
    }
}
