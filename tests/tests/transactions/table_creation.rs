//! Creating tables: each table is durable before it is used, and the bytes written are linear in
//! the number of tables.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::io;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki::files::{FORMAT, Manifest};
use namiki::{Builder, Database, OpenError, Value, ValueBytes};
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, DiskCall, HookedDisk, SimDisk};
use namiki_tests::small_database::{builder, written};

const SPEC: &str = "TT(EPOCH)+PWAL(auto)";
const TABLES: &str = "/db/TABLES";
const MANIFEST: &str = "/db/MANIFEST";

/// Settings with one stream and the files of [`builder`].
fn opening(disk: &SimDisk) -> Builder {
    builder(SPEC, disk).streams(NonZeroU16::MIN)
}

fn name(number: u64) -> String {
    format!("table {number}")
}

/// The longest name, of characters that take two bytes each in a record: the record takes two
/// sectors.
fn long_name(number: u64) -> String {
    format!("{number:\"<255}")
}

/// A type with a name longer than a sector.
struct Wordy;

impl Value for Wordy {
    type Owned = Self;
    const NAME: &'static str = "Wordy";

    fn type_name() -> Cow<'static, str> {
        "wordy ".repeat(1000).into()
    }

    fn encode(&self, _: &mut ValueBytes) {}

    fn decode(_: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

/// Creates this table and commits a row that no other table has.
fn create(db: &Database, number: u64) {
    let table = db.table::<u64, u64>(&name(number)).unwrap();
    db.transact(|tx| tx.put(&table, &number, &(number + 1)))
        .unwrap();
}

/// Asserts that the database has these tables first, each with its row.
fn assert_created(db: &Database, numbers: impl Iterator<Item = u64>) {
    let tables = db.tables();
    for (at, number) in numbers.enumerate() {
        assert_eq!(tables.get(at), Some(&name(number)));
        let table = db.table::<u64, u64>(&name(number)).unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(rows, [(number, number + 1)]);
    }
}

/// The bytes written for this number of new tables.
fn bytes_for(tables: u64) -> u64 {
    let written = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&written);
    let disk = HookedDisk::new(Arc::new(SimDisk::new()), move |call, _| {
        let bytes = match call {
            DiskCall::Create(bytes) => bytes,
            DiskCall::Replace(bytes) | DiskCall::Write { len: bytes, .. } => bytes as u64,
            _ => 0,
        };
        counted.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    });
    let db = opening(&SimDisk::new())
        .disk(Arc::new(disk))
        .open("/db")
        .unwrap();
    let before = written.load(Ordering::Relaxed);
    for number in 0..tables {
        db.table::<u64, u64>(&name(number)).unwrap();
    }
    written.load(Ordering::Relaxed) - before
}

#[test]
fn many_creations_write_linearly_many_bytes() {
    let (few, many) = (bytes_for(250), bytes_for(1000));
    assert!(
        many < 5 * few,
        "{few} bytes, and four times as many: {many}"
    );
}

/// A disk's block size, and the names of its tables.
#[derive(Clone, Copy)]
struct Crashes {
    block_bytes: usize,
    name: fn(u64) -> String,
}

impl Crashes {
    fn open(self, disk: &SimDisk) -> Result<Database, OpenError> {
        let blocks = HookedDisk::with_blocks(Arc::new(disk.clone()), self.block_bytes);
        opening(disk).disk(Arc::new(blocks)).open("/db")
    }

    /// Checks the database after a crash at this event against the earlier acknowledgements. An
    /// even mark is the creation of a table, the next odd one the commit of its row.
    fn assert_kept(self, disk: &SimDisk, at: usize, loss: Loss) {
        let image = disk.crash_image(at, loss);
        let db = match self.open(&image) {
            Ok(db) => db,
            Err(error) => panic!("event {at}, {loss:?}: {error:?}"),
        };
        let tables = db.tables();
        for mark in disk.marks_before(at) {
            let number = mark / 2;
            let name = (self.name)(number);
            assert_eq!(tables[number as usize], name, "event {at}");
            if mark % 2 == 0 {
                continue;
            }
            let table = db.table::<u64, u64>(&name).unwrap();
            let row = db.transact(|tx| tx.get(&table, &number)).unwrap();
            assert_eq!(row, Some(number + 1), "event {at}, {loss:?}");
        }
        // Another table can be created.
        create(&db, tables.len() as u64);
    }

    /// Creates this table and commits its row, with a mark after each. Returns whether the manifest
    /// was replaced.
    fn create(self, disk: &SimDisk, db: &Database, number: u64) -> bool {
        let before = read(disk, MANIFEST);
        let table = db.table::<u64, u64>(&(self.name)(number)).unwrap();
        disk.mark(2 * number);
        db.transact(|tx| tx.put(&table, &number, &(number + 1)))
            .unwrap();
        disk.mark(2 * number + 1);
        read(disk, MANIFEST) != before
    }

    /// Crashes in two lives. The first fills a journal of this number of tables. The second begins
    /// with a journal, and its tables have to be moved into the manifest.
    fn run(self, journal: u64) {
        let mut disk = SimDisk::new();
        for numbers in [0..journal + 8, journal + 8..journal + 18] {
            let db = self.open(&disk).unwrap();
            assert_eq!(db.tables().len() as u64, numbers.start);
            let begun = disk.events();
            let mut dense = vec![begun];
            for number in numbers.clone() {
                let before = disk.events();
                if self.create(&disk, &db, number) {
                    assert_eq!(number, journal, "the journal is full");
                    dense.push(before);
                }
            }
            let events = disk.events();
            let dense = dense.into_iter().flat_map(|from| from..from + 60);
            let sampled = (begun..=events).step_by(37).chain([events]);
            for at in dense.filter(|at| *at <= events).chain(sampled) {
                self.assert_kept(&disk, at, Loss::All);
                self.assert_kept(&disk, at, Loss::None);
                for seed in 0..2 {
                    self.assert_kept(&disk, at, Loss::Seeded(at as u64 + seed * 7919));
                }
                for sector in 0..disk.pending_sectors(at).min(4) {
                    self.assert_kept(&disk, at, Loss::Only(sector));
                }
            }
            std::mem::forget(db);
            disk = disk.crash_image(events, Loss::All);
        }
    }
}

#[test]
fn a_crash_at_any_event_keeps_created_tables() {
    let short = Crashes {
        block_bytes: 512,
        name,
    };
    short.run(127);
}

/// A power cut keeps only some sectors of their records.
#[test]
fn a_crash_at_any_event_keeps_tables_of_several_sectors() {
    let long = Crashes {
        block_bytes: 512,
        name: long_name,
    };
    long.run(63);
}

#[test]
fn a_crash_at_any_event_keeps_tables_in_large_blocks() {
    for name in [name, long_name] {
        let large = Crashes {
            block_bytes: 4096,
            name,
        };
        large.run(15);
    }
}

/// Names are compared through a map: see `TableIds`.
#[test]
fn twenty_thousand_tables_can_be_created() {
    let disk = SimDisk::new();
    let db = opening(&disk).open("/db").unwrap();
    for number in 0..20_000 {
        db.table::<u64, u64>(&name(number)).unwrap();
    }
    create(&db, 19_999);
    db.close().unwrap();
    let db = opening(&disk).open("/db").unwrap();
    assert_eq!(db.tables().len(), 20_000);
    let table = db.table::<u64, u64>(&name(19_999)).unwrap();
    let row = db.transact(|tx| tx.get(&table, &19_999)).unwrap();
    assert_eq!(row, Some(20_000));
}

/// An open database with two tables in the manifest and two in its journal.
fn with_journal() -> (SimDisk, Database) {
    let disk = SimDisk::new();
    let db = opening(&disk).open("/db").unwrap();
    (0..2).for_each(|number| create(&db, number));
    db.close().unwrap();
    let db = opening(&disk).open("/db").unwrap();
    (2..4).for_each(|number| create(&db, number));
    (disk, db)
}

fn crashed(disk: &SimDisk) -> SimDisk {
    disk.crash_image(disk.events(), Loss::All)
}

fn read(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    disk.read(Path::new(path)).ok()
}

#[test]
fn only_an_open_database_has_a_journal() {
    let (disk, db) = with_journal();
    assert!(read(&disk, TABLES).is_some());
    let image = crashed(&disk);
    let found = Manifest::read(&image, Path::new("/db")).unwrap().unwrap();
    assert_eq!(found.tables.len(), 4);

    db.close().unwrap();
    assert!(read(&disk, TABLES).is_none());
    assert_created(&opening(&disk).open("/db").unwrap(), 0..4);

    // An opening moves the tables into the manifest, and deletes the journal.
    let db = opening(&image).open("/db").unwrap();
    assert!(read(&image, TABLES).is_none());
    assert_created(&db, 0..4);
}

#[test]
fn a_damaged_journal_is_named_by_file_and_byte() {
    let disk = crashed(&with_journal().0);
    // The header, and the first and the last record.
    for (at, byte) in [(20, 0), (512 + 40, 512), (1024 + 40, 1024)] {
        let disk = crashed(&disk);
        disk.flip(Path::new(TABLES), at, 0xAA).unwrap();
        let before = [MANIFEST, TABLES].map(|path| read(&disk, path));
        let error = opening(&disk).open("/db").unwrap_err();
        assert!(
            matches!(&error, OpenError::DamagedTables { path, offset_bytes, .. }
                if path == Path::new(TABLES) && *offset_bytes == byte),
            "{error:?}"
        );
        assert_eq!([MANIFEST, TABLES].map(|path| read(&disk, path)), before);
    }
}

#[test]
fn a_table_that_is_there_twice_is_damage() {
    let (disk, db) = with_journal();
    let found = read(&disk, TABLES);
    drop(db);
    let manifest = String::from_utf8(read(&disk, MANIFEST).unwrap()).unwrap();
    let body = manifest.split_once('\n').unwrap().1.trim_end();
    let mut closed: Manifest = serde_json::from_str(body).unwrap();
    closed.tables.truncate(2);
    closed.tables[0].name = name(2);
    let body = serde_json::to_string(&closed).unwrap();
    let sum = crc32c::crc32c(body.as_bytes());
    let text = format!("namiki-manifest {FORMAT} crc32c={sum:08x}\n{body}\n");
    disk.replace(Path::new(MANIFEST), text.as_bytes()).unwrap();
    disk.replace(Path::new(TABLES), &found.unwrap()).unwrap();
    let error = opening(&disk).open("/db").unwrap_err();
    assert!(
        matches!(
            &error,
            OpenError::DamagedTables {
                offset_bytes: 512,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_journal_never_counts_beside_another_manifest() {
    let (disk, db) = with_journal();
    let stale = read(&disk, TABLES).unwrap();
    db.close().unwrap();
    let closed = read(&disk, MANIFEST).unwrap();
    for _ in 0..2 {
        disk.replace(Path::new(TABLES), &stale).unwrap();
        let db = opening(&disk).open("/db").unwrap();
        assert_created(&db, 0..4);
        assert_eq!(db.tables().len(), 4);
        db.close().unwrap();
    }
    // A journal does not continue an older manifest.
    let db = opening(&disk).open("/db").unwrap();
    create(&db, 4);
    let image = crashed(&disk);
    image.replace(Path::new(MANIFEST), &closed).unwrap();
    let error = opening(&image).open("/db").unwrap_err();
    assert!(
        matches!(&error, OpenError::DamagedTables { path, .. } if path == Path::new(TABLES)),
        "{error:?}"
    );
    image.remove(Path::new(MANIFEST)).unwrap();
    let error = opening(&image).open("/db").unwrap_err();
    assert!(
        matches!(&error, OpenError::DamagedManifest { path, .. } if path == Path::new(MANIFEST)),
        "{error:?}"
    );
    // The journal of another database.
    let other = written(SPEC, 1, true);
    other
        .replace(Path::new(TABLES), &read(&image, TABLES).unwrap())
        .unwrap();
    let error = opening(&other).open("/db").unwrap_err();
    assert!(
        matches!(
            &error,
            OpenError::DamagedTables {
                offset_bytes: 16,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn files_that_vanish_meanwhile_are_written_anew() {
    type Spoil = fn(&SimDisk);
    let spoils: [Spoil; 4] = [
        |disk| disk.remove(Path::new(TABLES)).unwrap(),
        |disk| disk.remove(Path::new(MANIFEST)).unwrap(),
        |disk| disk.replace(Path::new(TABLES), b"").unwrap(),
        |disk| disk.replace(Path::new(MANIFEST), b"nonsense").unwrap(),
    ];
    for spoil in spoils {
        let (disk, db) = with_journal();
        spoil(&disk);
        (4..6).for_each(|number| create(&db, number));
        let db = opening(&crashed(&disk)).open("/db").unwrap();
        assert_created(&db, 0..6);
    }
}

/// Each step fails once, or permanently, while tables are created.
#[test]
fn a_failing_disk_loses_no_created_table() {
    for step in [
        Step::Write,
        Step::Create,
        Step::SyncDir,
        Step::Rename,
        Step::Remove,
        Step::Read,
    ] {
        for (after, ever) in (0..8).flat_map(|after| [(after, false), (after, true)]) {
            let (disk, db) = with_journal();
            let fault = Fault::once(step, after, io::ErrorKind::Other).torn(after);
            disk.inject(if ever { fault.and_ever_after() } else { fault });
            let mut created = vec![];
            for number in 4..10 {
                if let Ok(table) = db.table::<u64, u64>(&name(number)) {
                    created.push((name(number), table));
                }
            }
            disk.heal();
            for number in 10..12 {
                let table = db.table::<u64, u64>(&name(number)).unwrap();
                created.push((name(number), table));
            }
            let written = db.tables();
            let rows = created
                .iter()
                .all(|(_, table)| db.transact(|tx| tx.put(table, &7, &8)).is_ok());
            assert!(rows, "{step:?}, {after}");
            for image in [Loss::All, Loss::None, Loss::Seeded(after)] {
                let image = disk.crash_image(disk.events(), image);
                let db = opening(&image).open("/db").unwrap();
                assert_eq!(db.tables(), written, "{step:?}, {after}");
                for (name, _) in &created {
                    let table = db.table::<u64, u64>(name).unwrap();
                    assert_eq!(db.transact(|tx| tx.get(&table, &7)).unwrap(), Some(8));
                }
            }
            db.close().unwrap();
            let db = opening(&disk).open("/db").unwrap();
            assert_eq!(db.tables(), written, "{step:?}, {after}");
        }
    }
}

/// A record on the disk, although its write failed, does not reappear in place of another table.
#[test]
fn a_failed_creation_gives_its_place_away() {
    let (disk, db) = with_journal();
    disk.inject(Fault::once(Step::Write, 0, io::ErrorKind::Other));
    disk.inject(Fault::once(Step::Rename, 0, io::ErrorKind::Other));
    db.table::<u64, u64>("failed").unwrap_err();
    disk.heal();
    // A crash may reveal its record: then the table exists, although no caller was told.
    let image = disk.crash_image(disk.events(), Loss::None);
    let found = opening(&image).open("/db").unwrap();
    assert_created(&found, 0..4);
    assert_eq!(found.tables()[4..], ["failed"]);

    create(&db, 4);
    let image = disk.crash_image(disk.events(), Loss::None);
    let found = opening(&image).open("/db").unwrap();
    assert_created(&found, 0..5);
    assert_eq!(found.tables().len(), 5);
}

/// If commits changed a table of a lost journal, the error says which file to restore. Otherwise
/// the table is gone.
#[test]
fn a_change_of_a_lost_table_names_its_journal() {
    let (disk, _db) = with_journal();
    let image = crashed(&disk);
    image.remove(Path::new(TABLES)).unwrap();
    let error = opening(&image).open("/db").unwrap_err();
    let OpenError::Undecodable { why, .. } = &error else {
        panic!("{error:?}");
    };
    for part in ["table 2", "MANIFEST", "TABLES", "put it back"] {
        assert!(why.contains(part), "{why}");
    }

    let disk = SimDisk::new();
    let db = opening(&disk).open("/db").unwrap();
    db.table::<u64, u64>("empty").unwrap();
    let image = crashed(&disk);
    image.remove(Path::new(TABLES)).unwrap();
    let db = opening(&image).open("/db").unwrap();
    assert!(db.tables().is_empty());
}

/// Its record would exceed the maximum length of a torn one.
#[test]
fn a_table_with_very_long_type_names_is_kept() {
    let disk = SimDisk::new();
    let db = opening(&disk).open("/db").unwrap();
    create(&db, 0);
    db.table::<u64, Wordy>("wordy").unwrap();
    create(&db, 2);
    let db = opening(&crashed(&disk)).open("/db").unwrap();
    assert_eq!(db.tables(), [&name(0), "wordy", &name(2)]);
    db.table::<u64, Wordy>("wordy").unwrap();
}
