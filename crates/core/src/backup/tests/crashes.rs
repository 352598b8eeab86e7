//! Whatever a crash or a failing device does to a backup, its directory has the backup before or this one, and the next
//! backup succeeds.

use std::io::ErrorKind;

use namiki_platform::disk::sim::{Fault, Step};

use super::*;

const SPECS: [&str; 6] = [
    "TT(EPOCH)+PWAL(auto)",
    "TT(NLR)+PWAL(1)",
    "SILO(ELR)+PWAL(16)",
    "TT(ELR)+SWAL(16)",
    "S2PL(NLR)+PWAL(1)+ARIES",
    "S2PL(ELR)+PWAL(16)+ARIES",
];

/// A database with a backup and later changes, some of which a checkpoint has written.
struct Changed {
    spec: ProtocolSpec,
    disk: SimDisk,
    db: Database,
    /// The contents of the backup, and of the next one.
    states: [Contents; 2],
}

impl Changed {
    fn new(spec: &str) -> Self {
        Self::with(spec, false)
    }

    /// `reopens`: so that the next backup has a generation of the log that the previous one does
    /// not know.
    fn with(spec: &str, reopens: bool) -> Self {
        let (spec, disk) = (spec.parse().unwrap(), SimDisk::with_separate_directories());
        let mut db = builder(spec, &disk).open(DIR).unwrap();
        let mut random = Random::seeded(3);
        let mut write = |db: &Database, transactions| {
            let table = table_of(db);
            for _ in 0..transactions {
                let written = drawn(&mut random);
                db.transact(|tx| put_all(tx, &table, &written)).unwrap();
            }
        };
        write(&db, 100);
        db.checkpoint().unwrap();
        write(&db, 100);
        back_up(&db, &disk).unwrap();
        let first = contents(&db);
        if reopens {
            db.close().unwrap();
            db = builder(spec, &disk).open(DIR).unwrap();
        }
        write(&db, 300);
        db.checkpoint().unwrap();
        write(&db, 100);
        let states = [first, contents(&db)];
        Self {
            spec,
            disk,
            db,
            states,
        }
    }

    /// Which of the two a backup is.
    fn state_of(&self, disk: &SimDisk, what: &str) -> usize {
        let found = copied(self.spec, disk, ReplayOrder::HighestStamp);
        let state = self.states.iter().position(|state| *state == found);
        state.unwrap_or_else(|| panic!("{}, {what}: neither backup", self.spec))
    }
}

fn put_all(tx: &mut Transaction, table: &Values, written: &Written) -> Result<(), Error> {
    for (key, value) in written {
        match value {
            Some(value) => tx.put(table, key, value)?,
            None => drop(tx.delete(table, key)?),
        }
    }
    Ok(())
}

#[test]
fn a_crash_at_any_point_leaves_exactly_one_backup() {
    let mut met = [0; 2];
    for (seed, spec) in (0..).zip(SPECS) {
        crash_everywhere(&Changed::new(spec), seed, &mut met);
    }
    assert!(met[0] > 100 && met[1] > 20, "{met:?}");
}

#[test]
fn a_crash_with_a_new_generation_leaves_exactly_one_backup() {
    let mut met = [0; 2];
    for (seed, spec) in (0..).zip(SPECS) {
        crash_everywhere(&Changed::with(spec, true), seed, &mut met);
    }
    assert!(met[0] > 100 && met[1] > 20, "{met:?}");
}

/// Counts the states that occurred.
fn crash_everywhere(changed: &Changed, seed: u64, met: &mut [u32; 2]) {
    let Changed { spec, disk, .. } = changed;
    let begin = disk.events();
    back_up(&changed.db, disk).unwrap();
    let acknowledged = disk.events();
    let mut random = Random::seeded(seed);
    for at in begin..=acknowledged {
        // All is lost at each event; nothing, or a part, at every second one: each takes an opening.
        let a_part = Loss::Seeded(random.next_u64());
        let losses = if random.chance(0.5) {
            [Loss::All, a_part]
        } else {
            [Loss::All, Loss::None]
        };
        for loss in losses {
            let what = format!("{loss:?} after event {at}, {}", disk.describe(at));
            let crashed = disk.crash_image(at, loss);
            let state = changed.state_of(&crashed, &what);
            assert!(state == 1 || at < acknowledged, "{spec}, {what}");
            met[state] += 1;
            match random.below(16) {
                0 => {
                    // The next backup has the contents of the database, and no other files.
                    let db = builder(*spec, &crashed).open(DIR).unwrap();
                    back_up(&db, &crashed).unwrap();
                    assert_eq!(changed.state_of(&crashed, &what), 1, "{spec}, {what}");
                    assert_eq!(left_over(&crashed), [""; 0], "{spec}, {what}");
                }
                1 | 2 => goes_on_from(changed, &crashed, state, &what),
                _ => {}
            }
        }
    }
}

/// The backup is opened to be written. Whatever was copied for the next one never comes back.
fn goes_on_from(changed: &Changed, crashed: &SimDisk, state: usize, what: &str) {
    let spec = changed.spec;
    let mut expected = changed.states[state].clone();
    for key in 0..2 {
        let db = builder(spec, crashed).open(COPY);
        let db = db.unwrap_or_else(|error| panic!("{spec}, {what}: {error:?}"));
        assert_eq!(contents(&db), expected, "{spec}, {what}");
        let table = table_of(&db);
        db.transact(|tx| tx.put(&table, &key, b"new")).unwrap();
        expected.insert(key, b"new".to_vec());
        let after = crashed.crash_image(crashed.events(), Loss::All);
        let again = builder(spec, &after).open(COPY).unwrap();
        assert_eq!(contents(&again), expected, "{spec}, {what}");
    }
}

/// Files of the backup that it does not name.
fn left_over(disk: &SimDisk) -> Vec<String> {
    let manifest = Manifest::read(disk, Path::new(COPY)).unwrap().unwrap();
    let (_, survey) = read_image(disk, Path::new(COPY), &manifest).unwrap();
    assert_eq!(survey, ImageSurvey::default());
    let dirs = [COPY, "/copy/wal/0000", "/copy/wal/0001"];
    let files = dirs.iter().filter_map(|dir| disk.list(Path::new(dir)).ok());
    let paths = files.flatten().map(|file| file.path.display().to_string());
    let left = |path: &String| !(path.ends_with(".log") || path.ends_with("/MANIFEST"));
    paths.filter(left).collect()
}

#[test]
fn a_failing_device_leaves_exactly_one_backup() {
    let steps = [
        Step::Create,
        Step::Append,
        Step::Sync,
        Step::SyncDir,
        Step::Rename,
        Step::Write,
    ];
    let mut failed = 0;
    for spec in ["TT(EPOCH)+PWAL(auto)", "S2PL(NLR)+PWAL(1)+ARIES"] {
        for step in steps {
            // No backup here takes more steps of a kind.
            for after in 0..12 {
                let changed = Changed::new(spec);
                let disk = &changed.disk;
                let kind = [ErrorKind::StorageFull, ErrorKind::Other][after as usize % 2];
                disk.inject(Fault::once(step, after, kind));
                let done = back_up(&changed.db, disk);
                disk.heal();
                let what = format!("{step:?} {after}: {done:?}");
                let state = changed.state_of(disk, &what);
                match done {
                    Ok(_) => assert_eq!(state, 1, "{spec}, {what}"),
                    // The database's own log may have failed.
                    Err(BackupError::Database(_)) => continue,
                    Err(BackupError::DiskFull { path, .. }) if kind == ErrorKind::StorageFull => {
                        assert!(path.starts_with(COPY), "{what}");
                        failed += 1;
                    }
                    Err(BackupError::Device { path, .. }) => {
                        assert!(path.starts_with(COPY), "{what}");
                        failed += 1;
                    }
                    Err(error) => panic!("{spec}, {what}: {error:?}"),
                }
                back_up(&changed.db, disk).unwrap();
                assert_eq!(changed.state_of(disk, &what), 1, "{spec}, {what}");
                assert_eq!(left_over(disk), [""; 0], "{spec}, {what}");
            }
        }
    }
    assert!(failed > 20, "{failed}");
}

/// The first backup of a directory has none before it.
#[test]
fn an_interrupted_first_backup_is_gone_on_with() {
    let (spec, disk) = (
        SPECS[0].parse().unwrap(),
        SimDisk::with_separate_directories(),
    );
    let db = builder(spec, &disk).open(DIR).unwrap();
    let table = table_of(&db);
    for key in 0..KEYS {
        db.transact(|tx| tx.put(&table, &key, &[1; 300])).unwrap();
    }
    db.checkpoint().unwrap();
    let begin = disk.events();
    back_up(&db, &disk).unwrap();
    let expected = contents(&db);
    for at in begin..disk.events() {
        let crashed = disk.crash_image(at, Loss::All);
        let db = builder(spec, &crashed).open(DIR).unwrap();
        let report = back_up(&db, &crashed).unwrap();
        assert_eq!(copied(spec, &crashed, ReplayOrder::Merge), expected, "{at}");
        assert_eq!(left_over(&crashed), [""; 0], "{at}");
        assert!(report.files_copied + report.files_kept > 0);
    }
}
