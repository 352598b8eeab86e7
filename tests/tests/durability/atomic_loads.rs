//! Loads of tables into segments are atomic, whatever happens to the disk or the process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki::files::{FORMAT, Manifest, image_dir};
use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{Database, Error, LoadError, LoadOptions, NewTable, OpenError};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, Loss, SimDisk, Step};
use namiki_platform::seeded_random::Random;
use namiki_tests::loaded_table::{
    DIR, STEPS, TABLE, image_files, load, parts, rows, sound, wrong_loaded_table,
};
use namiki_tests::small_database::{builder, keys, put};

const SPEC: &str = "TT(EPOCH)+PWAL(1)";
/// Enough for several leaves, and for several runs of each sort.
const ROWS: u64 = 3_000;
/// Few, for tests that try each event.
const FEW_ROWS: u64 = 300;

fn open(disk: &SimDisk) -> Database {
    builder(SPEC, disk).open(DIR).unwrap()
}

/// The possible losses of pending writes at an event.
fn losses(disk: &SimDisk, at: usize, random: &mut Random) -> Vec<Loss> {
    let (sectors, names) = (disk.pending_sectors(at), disk.pending_names(at));
    let mut losses = vec![Loss::None];
    if sectors + names > 0 {
        losses.push(Loss::All);
        losses.extend((0..names).map(Loss::NamesAfter));
        losses.extend((0..4).map(|_| Loss::Seeded(random.next_u64())));
    }
    losses
}

/// The log keeps one commit before the load, one during it, and one after it.
#[test]
fn every_crash_of_a_load_leaves_all_or_nothing() {
    let seed = 22;
    let mut random = Random::seeded(seed);
    let disk = SimDisk::new();
    let db = open(&disk);
    put(&db, 1).unwrap();
    let rows = rows(ROWS).inspect(|row| {
        if row[0] == Datum::I64(100) && row[3] == Datum::U64(0) {
            put(&db, 2).unwrap();
        }
    });
    let options = LoadOptions::default().sort_bytes(1);
    db.load_sorted_with(&parts(), sound(rows), &options)
        .unwrap();
    disk.mark(1);
    put(&db, 3).unwrap();
    drop(db);
    let (mut whole, mut none, mut images) = (0, 0, 0);
    for at in 0..=disk.events() {
        for loss in losses(&disk, at, &mut random) {
            let image = disk.crash_image(at, loss);
            let before = if at == 0 {
                String::new()
            } else {
                disk.describe(at - 1)
            };
            let place = format!("seed {seed}, after event {at} ({before}), {loss:?}");
            let db = open(&image);
            let there = db.loaded_tables().iter().any(|table| table.name == TABLE);
            let wrong = wrong_loaded_table(&image, there.then_some(ROWS));
            assert_eq!(wrong, None, "{place}");
            let unfinished = image.unfinished(&image_dir(Path::new(DIR)));
            assert!(unfinished.unwrap_or_default().is_empty(), "{place}");
            let acknowledged = !disk.marks_before(at).is_empty();
            assert!(there || !acknowledged, "{place}: the load was acknowledged");
            let found = keys(&db);
            let prefix: Vec<u64> = (1..=found.len() as u64).collect();
            assert_eq!(found, prefix, "{place}");
            if there {
                whole += 1;
            } else {
                none += 1;
                if random.chance(0.1) {
                    load(&db, FEW_ROWS).unwrap();
                    assert_eq!(wrong_loaded_table(&image, Some(FEW_ROWS)), None, "{place}");
                }
            }
            drop(db);
            let again = open(&image);
            assert_eq!(
                again.loaded_tables().len() == 1,
                there || !image_files(&image).is_empty()
            );
            images += 1;
        }
    }
    println!("{images} images: {whole} with the table, {none} without");
    assert!(whole > 20 && none > 100, "{whole} whole, {none} none");
}

#[test]
fn a_load_that_fails_at_any_step_leaves_nothing() {
    for step in STEPS {
        for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
            let mut failed = 0;
            for after in 0.. {
                let disk = SimDisk::new();
                let db = open(&disk);
                put(&db, 1).unwrap();
                disk.inject(Fault::once(step, after, kind));
                let loaded = load(&db, FEW_ROWS);
                disk.heal();
                let place = format!("{step:?} {after}, {kind:?}");
                let Err(error) = loaded else {
                    assert_eq!(wrong_loaded_table(&disk, Some(FEW_ROWS)), None, "{place}");
                    // A manifest without free space uses the space reserved for it.
                    if kind == ErrorKind::StorageFull && after < 3 {
                        continue;
                    }
                    break;
                };
                failed += 1;
                // Before an opening repairs the directory, either all of the table is named and
                // there, or nothing of it.
                let named = Manifest::read(&disk, Path::new(DIR)).unwrap().unwrap();
                let is_named = !named.loaded_tables.tables.is_empty();
                let wrong = wrong_loaded_table(&disk, is_named.then_some(FEW_ROWS));
                assert_eq!(wrong, None, "{place}");
                if step != Step::Read && kind == ErrorKind::StorageFull {
                    assert!(
                        matches!(error, LoadError::DiskFull { .. }),
                        "{place}: {error:?}"
                    );
                }
                // Commits, and a second attempt to load.
                put(&db, 2).unwrap();
                assert!(db.loaded_tables().is_empty(), "{place}");
                load(&db, FEW_ROWS).unwrap();
                drop(db);
                let db = open(&disk);
                assert_eq!(wrong_loaded_table(&disk, Some(FEW_ROWS)), None, "{place}");
                assert_eq!(keys(&db), [1, 2], "{place}");
            }
            println!("{step:?}, {kind:?}: {failed} failures");
            assert!(failed > 0 || step == Step::Write, "{step:?}");
        }
    }
}

/// Even after a failure of the very last step, the next opening finds the whole table or nothing of
/// it.
#[test]
fn a_crash_after_a_failed_load_leaves_nothing_partial() {
    // A failed read causes no loss in a crash.
    for step in STEPS.into_iter().filter(|step| *step != Step::Read) {
        for after in 0.. {
            let disk = SimDisk::new();
            let db = open(&disk);
            disk.inject(Fault::once(step, after, ErrorKind::Other));
            let failed = load(&db, FEW_ROWS).is_err();
            for loss in [
                Loss::None,
                Loss::All,
                Loss::NamesAfter(0),
                Loss::Seeded(after),
            ] {
                let image = disk.crash_image(disk.events(), loss);
                let db = open(&image);
                let there = !db.loaded_tables().is_empty();
                let wrong = wrong_loaded_table(&image, there.then_some(FEW_ROWS));
                assert_eq!(wrong, None, "{step:?} {after}, {loss:?}");
                assert!(failed || there, "{step:?} {after}, {loss:?}");
            }
            if !failed {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_a_load_without_leftovers() {
    let disk = SimDisk::new();
    let db = open(&disk);
    put(&db, 1).unwrap();
    let used = 220 << 10;
    let mut refused = 0;
    for more in (0..).map(|step| step * (16 << 10)) {
        disk.set_capacity(Some(used + more));
        match load(&db, ROWS) {
            Err(LoadError::DiskFull { path, .. }) => {
                assert!(path.starts_with(DIR), "{path:?}");
                assert!(image_files(&disk).is_empty(), "{more}");
                refused += 1;
            }
            Ok(_) => break,
            Err(other) => panic!("{more}: {other:?}"),
        }
    }
    assert!(refused > 3, "{refused}");
    disk.set_capacity(None);
    put(&db, 2).unwrap();
    drop(db);
    assert_eq!(keys(&open(&disk)), [1, 2]);
    assert_eq!(wrong_loaded_table(&disk, Some(ROWS)), None);
}

#[test]
fn a_name_is_either_in_memory_or_in_the_image() {
    let disk = SimDisk::new();
    let db = open(&disk);
    db.table::<u64, u64>("taken").unwrap();
    let taken = NewTable::new("taken", parts().schema().clone());
    let error = db.load_sorted(&taken, sound(rows(3))).unwrap_err();
    assert!(
        matches!(&error, LoadError::InMemory { table } if table == "taken"),
        "{error:?}"
    );
    // While the rows are produced, the name is reserved by the load.
    let during = rows(3).inspect(|_| {
        let error = db.table::<u64, u64>(TABLE).unwrap_err();
        assert!(matches!(error, Error::TableBeingLoaded { .. }), "{error:?}");
        let error = load(&db, 3).unwrap_err();
        assert!(matches!(error, LoadError::BeingLoaded { .. }), "{error:?}");
    });
    db.load_sorted(&parts(), sound(during)).unwrap();
    let refused = |db: &Database| {
        let error = db.table::<u64, u64>(TABLE).unwrap_err();
        assert!(
            matches!(&error, Error::TableType { table, .. } if table == TABLE),
            "{error:?}"
        );
        let error = load(db, 3).unwrap_err();
        assert!(
            matches!(error, LoadError::AlreadyLoaded { .. }),
            "{error:?}"
        );
    };
    refused(&db);
    drop(db);
    refused(&open(&disk));
}

/// The table journal may have a record of a creation that failed; a load may use the name.
#[test]
fn a_failed_creation_does_not_come_back_beside_a_load() {
    for after in 0..6 {
        let disk = SimDisk::new();
        let db = open(&disk);
        disk.inject(Fault::once(Step::Write, after, ErrorKind::Other).torn(7));
        disk.inject(Fault::once(Step::Create, 1, ErrorKind::Other));
        disk.inject(Fault::once(Step::SyncDir, after, ErrorKind::Other));
        let created = db.table::<u64, u64>(TABLE);
        disk.heal();
        if created.is_ok() {
            continue;
        }
        load(&db, FEW_ROWS).unwrap();
        let mut random = Random::seeded(after);
        for loss in losses(&disk, disk.events(), &mut random) {
            let image = disk.crash_image(disk.events(), loss);
            open(&image);
            assert_eq!(
                wrong_loaded_table(&image, Some(FEW_ROWS)),
                None,
                "{after}, {loss:?}"
            );
        }
    }
}

#[test]
fn wrong_rows_are_refused_with_their_number() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let mut swapped: Vec<_> = rows(100).collect();
    swapped.swap(40, 41);
    let twice = rows(50).chain(rows(50).skip(49));
    let mut wrong: Vec<_> = rows(100).collect();
    wrong[7][1] = Datum::I64(3);
    let error = db.load_sorted(&parts(), sound(swapped)).unwrap_err();
    assert!(
        matches!(error, LoadError::OutOfOrder { row: 42, .. }),
        "{error:?}"
    );
    let error = db.load_sorted(&parts(), sound(twice)).unwrap_err();
    assert!(
        matches!(error, LoadError::OutOfOrder { row: 51, .. }),
        "{error:?}"
    );
    let error = db.load_sorted(&parts(), sound(wrong)).unwrap_err();
    assert!(matches!(error, LoadError::Row { row: 8, .. }), "{error:?}");
    let error = db
        .load_sorted(&parts().index("x", &["nothing"]), sound(rows(1)))
        .unwrap_err();
    assert!(error.to_string().contains("`nothing`"), "{error}");
    assert!(image_files(&disk).is_empty());
    // A table without rows is a table, too.
    load(&db, 0).unwrap();
    assert_eq!(wrong_loaded_table(&disk, Some(0)), None);
}

/// The error comes with the row, not after all rows were sorted.
#[test]
fn a_key_too_long_for_a_segment_names_its_row() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let columns = vec![
        Column::new("name", ColumnType::Text),
        Column::new("note", ColumnType::Text),
    ];
    let notes = NewTable::new("notes", Schema::new(columns, &["name"]).unwrap());
    let notes = notes.index("by_note", &["note"]);
    let row =
        |name: &str, note: usize| vec![Datum::Text(name.to_owned()), Datum::Text("n".repeat(note))];
    let after_it = || -> Vec<Datum> { panic!("the load went on") };
    let long = "x".repeat(1600);
    for (third, expected) in [(row("c", 1600), Some("by_note")), (row(&long, 3), None)] {
        let rows = [row("a", 1), row("b", 1400), third].into_iter();
        let rows = rows.chain(std::iter::from_fn(|| Some(after_it())));
        let error = db.load_sorted(&notes, sound(rows)).unwrap_err();
        let LoadError::KeyTooLong { index, row: 3, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(index.as_deref(), expected);
        assert!(error.to_string().contains("at most 1536"), "{error}");
        assert!(image_files(&disk).is_empty());
    }
}

#[test]
fn rows_that_fail_or_panic_make_no_table() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let failing = rows(ROWS)
        .map(Ok)
        .chain([Err("the file ends in the middle of a line")]);
    let error = db.load_sorted(&parts(), failing).unwrap_err();
    assert!(
        matches!(&error, LoadError::Source { row, source, .. }
            if *row == ROWS + 1 && source.to_string().contains("middle of a line")),
        "{error:?}"
    );
    let panicking = rows(ROWS).inspect(|row| assert!(row[0] != Datum::I64(200), "no more rows"));
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        db.load_sorted(&parts(), sound(panicking))
    }));
    assert!(loaded.is_err());
    assert!(db.loaded_tables().is_empty());
    assert!(image_files(&disk).is_empty());
    load(&db, ROWS).unwrap();
    assert_eq!(wrong_loaded_table(&disk, Some(ROWS)), None);
}

#[test]
fn an_interrupted_load_leaves_nothing_and_can_be_repeated() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let asked = Arc::new(AtomicBool::new(false));
    let options = LoadOptions::default().interrupt(Arc::clone(&asked));
    let pressed = rows(ROWS).inspect(|row| {
        asked.store(row[0] == Datum::I64(200), Ordering::Relaxed);
    });
    let endless = pressed.chain(std::iter::from_fn(|| {
        asked.store(true, Ordering::Relaxed);
        None
    }));
    let error = db
        .load_sorted_with(&parts(), sound(endless), &options)
        .unwrap_err();
    assert!(matches!(error, LoadError::Interrupted), "{error:?}");
    assert!(image_files(&disk).is_empty());
    load(&db, ROWS).unwrap();
    assert_eq!(wrong_loaded_table(&disk, Some(ROWS)), None);
}

#[test]
fn a_database_stays_locked_until_its_load_ends() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let closing = rows(ROWS).inspect(|row| {
        if row[0] == Datum::I64(50) && row[3] == Datum::U64(1) {
            db.close().unwrap();
            let again = builder(SPEC, &disk).open(DIR);
            assert!(matches!(again, Err(OpenError::InUse { .. })), "{again:?}");
        }
    });
    let error = db.load_sorted(&parts(), sound(closing)).unwrap_err();
    assert!(matches!(error, LoadError::Closed), "{error:?}");
    assert!(image_files(&disk).is_empty());
    load(&open(&disk), ROWS).unwrap();
}

#[test]
fn an_image_without_its_manifest_is_left_as_it_is() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+NOLOG", &disk).open(DIR).unwrap();
    load(&db, FEW_ROWS).unwrap();
    db.close().unwrap();
    let files = image_files(&disk);
    disk.remove(&Manifest::path(Path::new(DIR))).unwrap();
    let refused = builder("TT(NLR)+NOLOG", &disk).open(DIR);
    assert!(
        matches!(refused, Err(OpenError::DamagedManifest { .. })),
        "{refused:?}"
    );
    assert_eq!(image_files(&disk), files);
}

/// A valid checksum over handmade contents.
#[test]
fn hostile_images_in_a_manifest_are_damage() {
    let disk = SimDisk::new();
    let db = open(&disk);
    load(&db, FEW_ROWS).unwrap();
    db.close().unwrap();
    let path = Manifest::path(Path::new(DIR));
    let text = String::from_utf8(disk.read(&path).unwrap()).unwrap();
    let body = text.split_once('\n').unwrap().1.trim_end().to_owned();
    for (good, hostile) in [
        ("\"file\": 1,", "\"file\": \"../../etc/passwd\","),
        ("\"file\": 1,", "\"file\": -1,"),
        ("\"file\": 2,", "\"file\": 1,"),
        ("\"next_file\": 4", "\"next_file\": 1"),
        ("\"name\": \"parts\"", "\"name\": \"\""),
        ("\"type\": \"u64\"", "\"type\": \"f63\""),
        ("\"scale\": 2", "\"scale\": 200"),
        ("\"number\"\n", "\"nothing\"\n"),
        ("\"rows\": 300", "\"rows\": 18446744073709551615"),
        ("\"identity\": \"", "\"identity\": \"é"),
        ("\"distinct\": ", "\"distinct\": 9999"),
        ("\"bounds\": \"[", "\"bounds\": \"[7,"),
    ] {
        assert!(body.contains(good), "{good} in {body}");
        let body = body.replacen(good, hostile, 1);
        let checksum = crc32c::crc32c(body.as_bytes());
        let text = format!("namiki-manifest {FORMAT} crc32c={checksum:08x}\n{body}\n");
        disk.replace(&path, text.as_bytes()).unwrap();
        let refused = builder(SPEC, &disk).open(DIR);
        assert!(
            matches!(refused, Err(OpenError::DamagedManifest { .. })),
            "{hostile}: {refused:?}"
        );
    }
    disk.replace(&path, text.as_bytes()).unwrap();
    open(&disk);
    assert_eq!(wrong_loaded_table(&disk, Some(FEW_ROWS)), None);
}
