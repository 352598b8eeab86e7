//! Loaded tables that are opened: in memory where they fit, and otherwise read in their segments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use namiki::files::{ImageList, Manifest, image_dir};
use namiki::query::{
    AggregateCall, AggregateFunction, Column, ColumnType, Datum, Plan, QueryError, Schema, column,
    encode_row,
};
use namiki::{BackupOptions, Builder, Database, Direction, Error, NewTable, Table};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, Loss, SimDisk, Step};
use namiki_platform::seeded_random::Random;
use namiki_tests::loaded_table::{self, DIR, STEPS};
use namiki_tests::small_database::{builder, keys, put};

const SPECS: [&str; 5] = [
    "TT(EPOCH)+PWAL(1)",
    "TT(ELR)+PWAL(1)",
    "SILO(NLR)+PWAL(1)",
    "S2PL(NLR)+PWAL(1)",
    "S2PL(NLR)+PWAL(1)+ARIES",
];
const SPEC: &str = SPECS[0];
const TABLE: &str = "orders";
const ROWS: u64 = 500;

type Orders = Table<(String, u64), [u8]>;
/// The contents of the table: the amount of each order.
type Model = BTreeMap<(String, u64), i64>;

fn schema() -> Schema {
    let columns = vec![
        Column::new("customer", ColumnType::Text),
        Column::new("note", ColumnType::Text).nullable(),
        Column::new("number", ColumnType::U64),
        Column::new("amount", ColumnType::I64),
    ];
    Schema::new(columns, &["customer", "number"]).unwrap()
}

fn customer(row: u64) -> String {
    format!("customer {:04}", row / 3)
}

fn row(customer: &str, number: u64, amount: i64) -> Vec<Datum> {
    vec![
        Datum::Text(customer.to_owned()),
        match amount % 3 {
            0 => Datum::Null,
            _ => Datum::Text(format!("{amount} pieces")),
        },
        Datum::U64(number),
        Datum::I64(amount),
    ]
}

fn value(key: &(String, u64), amount: i64) -> Vec<u8> {
    encode_row(&schema(), &row(&key.0, key.1, amount)).unwrap()
}

fn load_as(db: &Database, name: &str, count: u64) -> Model {
    let rows = (0..count).map(|at| (customer(at), at, at as i64 - 5));
    let loaded = rows
        .clone()
        .map(|(customer, number, amount)| Ok::<_, Infallible>(row(&customer, number, amount)));
    db.load_sorted(&NewTable::new(name, schema()), loaded)
        .unwrap();
    let of_model = |(customer, number, amount)| ((customer, number), amount);
    rows.map(of_model).collect()
}

fn load(db: &Database, count: u64) -> Model {
    load_as(db, TABLE, count)
}

fn orders(db: &Database) -> Orders {
    db.table(TABLE).unwrap()
}

fn open(spec: &str, disk: &SimDisk) -> Database {
    builder(spec, disk).open(DIR).unwrap()
}

/// A memory limit that admits no loaded table.
fn without_room(disk: &SimDisk) -> Builder {
    builder(SPEC, disk).loaded_tables_bytes_max(0)
}

fn encoded(model: &Model) -> Vec<((String, u64), Vec<u8>)> {
    let rows = model.iter();
    rows.map(|(key, amount)| (key.clone(), value(key, *amount)))
        .collect()
}

/// The result of a query over the table: the number of rows, and the sum of the amounts.
fn summed(db: &Database) -> Vec<Datum> {
    let sum = AggregateCall::new("sum", AggregateFunction::Sum, column("amount"));
    let plan = Plan::scan(TABLE).aggregate(&[], vec![AggregateCall::count("rows"), sum]);
    let rows: Vec<Vec<Datum>> = db.query().run(&plan).unwrap().map(Result::unwrap).collect();
    rows.concat()
}

fn expected_sum(model: &Model) -> Vec<Datum> {
    let count = model.len() as i64;
    let sum = match count {
        0 => Datum::Null,
        _ => Datum::I64(model.values().sum()),
    };
    vec![Datum::I64(count), sum]
}

/// A query without a table handle, a view, and a transaction all see the model.
fn assert_is(db: &Database, model: &Model, place: &str) {
    let sum = |rows: &[Datum]| rows.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(sum(&summed(db)), sum(&expected_sum(model)), "{place}");
    let table = orders(db);
    let view = db.view().unwrap();
    assert!(view.scan(&table, ..).unwrap() == encoded(model), "{place}");
    let scanned = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert!(scanned == encoded(model), "{place}");
    assert_eq!(sum(&summed(db)), sum(&expected_sum(model)), "{place}");
}

/// Changes, deletes and inserts a row, each in a transaction of its own.
fn change(db: &Database, model: &mut Model, step: u64) {
    let table = orders(db);
    let changed = (customer(step), step);
    db.transact(|tx| tx.put(&table, &changed, &value(&changed, 1_000)))
        .unwrap();
    model.insert(changed, 1_000);
    let removed = (customer(step + 1), step + 1);
    db.transact(|tx| tx.delete(&table, &removed)).unwrap();
    model.remove(&removed);
    let new = (format!("a new one {step}"), step);
    db.transact(|tx| tx.insert(&table, &new, &value(&new, 7)))
        .unwrap();
    model.insert(new, 7);
}

/// Asserts that the image directory has exactly the files that the manifest and its list name.
fn assert_no_other_files(disk: &SimDisk, place: &str) {
    let dir = Path::new(DIR);
    let manifest = Manifest::read(disk, dir).unwrap().unwrap();
    let mut named: Vec<_> = (manifest.loaded_tables.segments())
        .map(|segment| segment.file.path_of_named(disk, dir))
        .collect();
    if let Some(list) = &manifest.image_list {
        named.push(list.file.path_of_named_list(disk, dir));
        let list = ImageList::read(disk, dir, manifest.identity(), list).unwrap();
        named.extend(list.runs().map(|run| run.segment.file.rows_path(dir)));
    }
    named.sort();
    assert_eq!(loaded_table::image_files(disk), named, "{place}");
    let unfinished = disk.unfinished(&image_dir(dir)).unwrap_or_default();
    assert!(unfinished.is_empty(), "{place}: {unfinished:?}");
}

fn is_in_segments(disk: &SimDisk) -> bool {
    let manifest = Manifest::read(disk, Path::new(DIR)).unwrap().unwrap();
    !manifest.loaded_tables.tables.is_empty()
}

#[test]
fn a_loaded_table_takes_transactions_and_survives() {
    for spec in SPECS {
        let mut disk = SimDisk::new();
        let mut db = open(spec, &disk);
        put(&db, 1).unwrap();
        let mut model = load(&db, ROWS);
        for step in 0..4 {
            let place = format!("{spec}, step {step}");
            assert_is(&db, &model, &place);
            assert!(!is_in_segments(&disk), "{place}");
            change(&db, &mut model, 30 * step);
            put(&db, step + 2).unwrap();
            assert_is(&db, &model, &place);
            // Without and with an image from a checkpoint, after a crash and after closing.
            if step == 1 {
                db.checkpoint().unwrap();
                change(&db, &mut model, 30 * step + 10);
            }
            if step % 2 == 0 {
                disk = disk.crash_image(disk.events(), Loss::All);
                std::mem::forget(db);
            } else {
                db.close().unwrap();
            }
            assert_no_other_files(&disk, &place);
            db = open(spec, &disk);
            assert_eq!(keys(&db), (1..step + 3).collect::<Vec<_>>(), "{place}");
        }
        assert_is(&db, &model, spec);
    }
}

/// The log may have commits from before the load, and no checkpoint was taken yet.
#[test]
fn commits_before_the_first_image_are_kept() {
    for spec in SPECS {
        let disk = SimDisk::new();
        let db = open(spec, &disk);
        (0..9).for_each(|key| put(&db, key).unwrap());
        let model = load(&db, 5);
        orders(&db);
        let manifest = Manifest::read(&disk, Path::new(DIR)).unwrap().unwrap();
        assert_eq!(manifest.image_list.unwrap().stamp.0, 0, "{spec}");
        let crashed = disk.crash_image(disk.events(), Loss::All);
        let db = open(spec, &crashed);
        assert_eq!(keys(&db), (0..9).collect::<Vec<_>>(), "{spec}");
        assert_is(&db, &model, spec);
        assert!(db.checkpoint().unwrap().stamp.0 > 0);
    }
}

#[test]
fn a_view_from_before_the_opening_sees_the_rows() {
    let disk = SimDisk::new();
    let db = open(SPEC, &disk);
    let before = db.view().unwrap();
    let mut model = load(&db, ROWS);
    let loaded = db.view().unwrap();
    let table = orders(&db);
    let rows = encoded(&model);
    change(&db, &mut model, 9);
    assert!(loaded.scan(&table, ..).unwrap() == rows);
    let refused = before.scan(&table, ..).unwrap_err();
    assert!(matches!(refused, Error::TableYoungerThanView { .. }));
    assert_is(&db, &model, "after the change");
}

#[test]
fn the_first_checkpoint_rewrites_only_changed_ranges() {
    let disk = SimDisk::new();
    let db = open(SPEC, &disk);
    let columns = vec![
        Column::new("id", ColumnType::U64),
        Column::new("text", ColumnType::Text),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let text = "x".repeat(4 << 20);
    let rows = (0..24).map(|id| {
        let row = vec![Datum::U64(id), Datum::Text(text.clone())];
        Ok::<_, Infallible>(row)
    });
    db.load_sorted(&NewTable::new("texts", schema.clone()), rows)
        .unwrap();
    let texts = db.table::<u64, [u8]>("texts").unwrap();
    let short = encode_row(&schema, &[Datum::U64(1), "short".into()]).unwrap();
    db.transact(|tx| tx.put(&texts, &1, &short)).unwrap();
    let taken = db.checkpoint().unwrap();
    assert_eq!((taken.files_kept, taken.rows), (2, 8), "{taken:?}");
    // A checkpoint without changes keeps all files.
    let taken = db.checkpoint().unwrap();
    assert_eq!((taken.files_kept, taken.rows), (3, 0), "{taken:?}");
    db.close().unwrap();
    let db = open(SPEC, &disk);
    let texts = db.table::<u64, [u8]>("texts").unwrap();
    let lengths = db.transact(|tx| {
        let rows = tx.scan(&texts, ..)?;
        Ok(rows
            .iter()
            .map(|(_, row)| row.len() > 100)
            .collect::<Vec<_>>())
    });
    let expected: Vec<bool> = (0..24).map(|id| id != 1).collect();
    assert_eq!(lengths.unwrap(), expected);
    assert_no_other_files(&disk, "at the end");
}

#[test]
fn every_crash_of_an_opening_leaves_one_kind_of_table() {
    let seed = 5;
    let mut random = Random::seeded(seed);
    for (spec, has_image) in [(SPEC, false), (SPEC, true), (SPECS[4], true)] {
        let disk = SimDisk::new();
        let db = open(spec, &disk);
        put(&db, 1).unwrap();
        if has_image {
            db.checkpoint().unwrap();
        }
        let loaded = load(&db, 60);
        let first = disk.events();
        orders(&db);
        disk.mark(1);
        let mut changed = loaded.clone();
        change(&db, &mut changed, 8);
        disk.mark(2);
        db.checkpoint().unwrap();
        let last = changed.clone();
        change(&db, &mut changed, 20);
        disk.mark(3);
        std::mem::forget(db);
        let (mut in_segments, mut images) = (0, 0);
        for at in first..=disk.events() {
            let names = disk.pending_names(at);
            let mut losses = vec![Loss::None, Loss::All];
            losses.extend((0..names).map(Loss::NamesAfter));
            losses.push(Loss::Seeded(random.next_u64()));
            for loss in losses {
                let image = disk.crash_image(at, loss);
                let place = format!("{spec}, seed {seed}, event {at}, {loss:?}");
                let db = builder(spec, &image)
                    .open(DIR)
                    .unwrap_or_else(|error| panic!("{place}: {error:?}"));
                in_segments += u32::from(is_in_segments(&image));
                assert_no_other_files(&image, &place);
                assert_eq!(keys(&db), [1], "{place}");
                match disk.marks_before(at).last() {
                    None => assert_is(&db, &loaded, &place),
                    Some(1) => {
                        let table = orders(&db);
                        let count = db.transact(|tx| tx.count(&table, ..)).unwrap();
                        assert!(
                            (loaded.len() - 1..=loaded.len() + 1).contains(&count),
                            "{place}"
                        );
                        assert!(!is_in_segments(&image), "{place}");
                    }
                    Some(2) => {
                        let table = orders(&db);
                        let there = db.transact(|tx| tx.scan(&table, ..)).unwrap();
                        let kept = encoded(&last).into_iter().filter(|row| row.0.1 < 20);
                        let found = there.into_iter().filter(|row| row.0.1 < 20);
                        assert!(found.eq(kept), "{place}");
                    }
                    _ => assert_is(&db, &changed, &place),
                }
                let mut model: Model = BTreeMap::new();
                if random.chance(0.1) {
                    let table = orders(&db);
                    db.transact(|tx| tx.retain(&table, .., |_, _| false))
                        .unwrap();
                    change(&db, &mut model, 3);
                    db.checkpoint().unwrap();
                    drop(db);
                    assert_is(&open(spec, &image), &model, &place);
                    assert_no_other_files(&image, &place);
                }
                images += 1;
            }
        }
        println!("{spec}: {images} images, {in_segments} with the table in its segment");
        assert!(
            in_segments > 10 && images - in_segments > 10,
            "{in_segments}"
        );
    }
}

#[test]
fn an_opening_that_fails_at_any_step_changes_nothing() {
    for (step, kind) in STEPS
        .into_iter()
        .flat_map(|step| [ErrorKind::Other, ErrorKind::StorageFull].map(|kind| (step, kind)))
    {
        let (mut failed, mut quiet) = (0, 0);
        for after in 0.. {
            let disk = SimDisk::new();
            let db = open(SPEC, &disk);
            put(&db, 1).unwrap();
            db.checkpoint().unwrap();
            let mut model = load(&db, 60);
            disk.inject(Fault::once(step, after, kind));
            let opened = db.table::<(String, u64), [u8]>(TABLE);
            disk.heal();
            let place = format!("{step:?} {after}, {kind:?}");
            if let Err(error) = &opened {
                failed += 1;
                let error = error.to_string();
                assert!(
                    error.contains("nothing was changed") || error.contains("cannot be used"),
                    "{error}"
                );
                // A crash now leaves either state.
                let image = disk.crash_image(disk.events(), Loss::Seeded(after));
                assert_is(&open(SPEC, &image), &model, &place);
            }
            // The operation can be retried.
            assert_is(&db, &model, &place);
            change(&db, &mut model, 9);
            let image = disk.crash_image(disk.events(), Loss::All);
            assert_is(&open(SPEC, &image), &model, &place);
            assert_no_other_files(&image, &place);
            db.checkpoint().unwrap();
            drop(db);
            assert_is(&open(SPEC, &disk), &model, &place);
            assert_no_other_files(&disk, &place);
            // Some failed steps do not fail the opening.
            quiet = if opened.is_ok() { quiet + 1 } else { 0 };
            if quiet > 3 {
                break;
            }
        }
        println!("{step:?}, {kind:?}: {failed} openings failed");
    }
}

#[test]
fn a_table_too_large_is_read_where_it_lies() {
    let disk = SimDisk::new();
    let mut db = without_room(&disk).open(DIR).unwrap();
    let mut model = load(&db, ROWS);
    for _ in 0..2 {
        let table = orders(&db);
        let refused = |error: Error| match error {
            Error::TableTooLarge {
                table,
                bytes,
                taken_bytes: 0,
                bytes_max: 0,
            } => {
                assert_eq!(table, TABLE);
                assert!(bytes > ROWS * 20, "{bytes}");
            }
            other => panic!("{other:?}"),
        };
        let key = (customer(9), 9);
        refused(db.transact(|tx| tx.get(&table, &key)).unwrap_err());
        refused(db.transact(|tx| tx.put(&table, &key, &[])).unwrap_err());
        let mut tx = db.begin().unwrap();
        refused(tx.scan(&table, ..).unwrap_err());
        drop(tx);
        let mut session = db.session().unwrap();
        refused(session.transact(|tx| tx.delete(&table, &key)).unwrap_err());
        // Other tables are not affected.
        put(&db, 1).unwrap();
        let view = db.view().unwrap();
        assert!(view.scan(&table, ..).unwrap() == encoded(&model));
        let back: Vec<_> = view.range(&table, ..).rev().map(Result::unwrap).collect();
        assert!(back.into_iter().rev().eq(encoded(&model)));
        let mut visited = 0;
        let from = (customer(99), 0)..;
        view.scan_with(&table, from.clone(), Direction::Backward, |_, _| {
            visited += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(visited, model.range(from).count());
        assert_eq!(view.get(&table, &key).unwrap(), Some(value(&key, 4)));
        assert_eq!(view.get(&table, &(customer(9), 8)).unwrap(), None);
        assert_eq!(view.count(&table, ..).unwrap(), model.len());
        assert_eq!(
            summed(&db).last().map(ToString::to_string),
            Some(model.values().sum::<i64>().to_string())
        );
        db.checkpoint().unwrap();
        assert!(is_in_segments(&disk));
        drop(db);
        db = without_room(&disk).open(DIR).unwrap();
    }
    drop(db);
    let db = open(SPEC, &disk);
    change(&db, &mut model, 9);
    assert_is(&db, &model, "with room");
    // From then on it is a table like any other.
    drop(db);
    let db = without_room(&disk).open(DIR).unwrap();
    change(&db, &mut model, 90);
    assert_is(&db, &model, "in memory by now");
}

#[test]
fn all_loaded_tables_together_keep_to_the_limit() {
    let disk = SimDisk::new();
    let db = builder(SPEC, &disk).loaded_tables_bytes_max(150_000);
    let db = db.open(DIR).unwrap();
    for name in ["a", "b", "c"] {
        load_as(&db, name, ROWS);
    }
    let count = |db: &Database, name: &str| {
        let table = db.table::<(String, u64), [u8]>(name)?;
        db.transact(|tx| tx.count(&table, ..))
    };
    let taken = |refused: Result<usize, Error>| match refused {
        Err(Error::TableTooLarge { taken_bytes, .. }) => taken_bytes,
        other => panic!("{other:?}"),
    };
    assert_eq!(count(&db, "a").unwrap(), 500);
    assert_eq!(count(&db, "b").unwrap(), 500);
    let of_two = taken(count(&db, "c"));
    assert!((50_000..150_000).contains(&of_two), "{of_two}");
    db.close().unwrap();
    let db = builder(SPEC, &disk).loaded_tables_bytes_max(150_000);
    let db = db.open(DIR).unwrap();
    assert_eq!(taken(count(&db, "c")), of_two);
    db.drop_table("a").unwrap();
    // The decision holds while the database is open.
    assert_eq!(taken(count(&db, "c")), of_two);
    db.close().unwrap();
    let db = builder(SPEC, &disk).loaded_tables_bytes_max(150_000);
    assert_eq!(count(&db.open(DIR).unwrap(), "c").unwrap(), 500);
}

#[test]
fn indexes_and_openings_to_read_leave_tables_in_segments() {
    let disk = SimDisk::new();
    let db = open(SPEC, &disk);
    let model = load(&db, ROWS);
    loaded_table::load(&db, 90).unwrap();
    let parts = db.table::<(i64, u64), [u8]>(loaded_table::TABLE).unwrap();
    let refused = db.transact(|tx| tx.count(&parts, ..)).unwrap_err();
    assert!(
        matches!(refused, Error::TableHasIndexes { .. }),
        "{refused:?}"
    );
    assert_eq!(db.read(|view| view.count(&parts, ..)).unwrap(), 90);
    drop(db);
    let before = disk.events();
    let db = builder(SPEC, &disk).open_read_only(DIR).unwrap();
    let table = orders(&db);
    let refused = db.transact(|tx| tx.count(&table, ..)).unwrap_err();
    assert!(
        matches!(refused, Error::TableInSegments { .. }),
        "{refused:?}"
    );
    let rows = db.read(|view| view.scan(&table, ..)).unwrap();
    assert!(rows == encoded(&model));
    drop(db);
    assert_eq!(disk.events(), before);
}

#[test]
fn a_table_opens_with_the_types_of_its_columns_alone() {
    let disk = SimDisk::new();
    let db = open(SPEC, &disk);
    load(&db, 9);
    let refused = db.table::<(String, i64), [u8]>(TABLE).unwrap_err();
    let Error::TableType { found, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(found, "(string, u64) to bytes");
    assert!(is_in_segments(&disk));
    let untyped = db.untyped_table(TABLE).unwrap().unwrap();
    assert_eq!(db.transact(|tx| tx.count(&untyped, ..)).unwrap(), 9);
    assert!(db.table::<(String, i64), [u8]>(TABLE).is_err());
    let info = db.table_infos().into_iter().find(|it| it.name == TABLE);
    assert_eq!(info.unwrap().columns(), Some(&schema()));
    assert!(db.loaded_tables().is_empty());
    let again = db.load_sorted(
        &NewTable::new(TABLE, schema()),
        std::iter::empty::<Result<_, Infallible>>(),
    );
    assert!(again.is_err());
}

#[test]
fn columns_stay_when_a_table_is_cleared_or_renamed() {
    let disk = SimDisk::new();
    let mut db = open(SPEC, &disk);
    let old = {
        load(&db, ROWS);
        orders(&db)
    };
    db.clear_table(TABLE).unwrap();
    let refused = db.transact(|tx| tx.count(&old, ..)).unwrap_err();
    assert!(matches!(refused, Error::TableDropped { .. }), "{refused:?}");
    let mut model = Model::new();
    assert_is(&db, &model, "cleared");
    change(&db, &mut model, 1);
    for name in ["others", TABLE] {
        let from = if name == TABLE { "others" } else { TABLE };
        db.rename_table(from, name).unwrap();
        db.close().unwrap();
        db = open(SPEC, &disk);
    }
    assert_is(&db, &model, "renamed");
    db.drop_table(TABLE).unwrap();
    let plan = Plan::scan(TABLE);
    let unknown = db.query().run(&plan);
    assert!(matches!(unknown, Err(QueryError::UnknownTable { .. })));
    db.checkpoint().unwrap();
    assert_no_other_files(&disk, "dropped");
    // The name is free.
    let model = load(&db, 7);
    assert_is(&db, &model, "loaded again");
}

#[test]
fn a_handle_of_a_dropped_table_in_segments_is_refused() {
    let disk = SimDisk::new();
    let db = without_room(&disk).open(DIR).unwrap();
    let model = load(&db, ROWS);
    let table = orders(&db);
    db.rename_table(TABLE, "others").unwrap();
    assert_eq!(table.name(), "others");
    db.rename_table("others", TABLE).unwrap();
    let view = db.view().unwrap();
    assert!(view.scan(&table, ..).unwrap() == encoded(&model));
    db.drop_table(TABLE).unwrap();
    // A view from before the drop keeps the file open.
    assert!(view.scan(&table, ..).unwrap() == encoded(&model));
    let later = db.view().unwrap();
    let refused = later.count(&table, ..).unwrap_err();
    assert!(matches!(refused, Error::TableDropped { .. }), "{refused:?}");
    let model = load(&db, 7);
    assert!(db.view().unwrap().scan(&orders(&db), ..).unwrap() == encoded(&model));
    let refused = view.count(&orders(&db), ..).unwrap_err();
    assert!(
        matches!(refused, Error::TableYoungerThanView { .. }),
        "{refused:?}"
    );
}

#[test]
fn threads_that_open_one_table_get_the_same() {
    for seed in 0..4 {
        let disk = SimDisk::new();
        let db = open(SPEC, &disk);
        let mut model = load(&db, ROWS);
        let key = |thread: u64| (format!("thread {thread}"), thread);
        let begin = Barrier::new(5);
        let is_open = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, begin, is_open) = (&db, &begin, &is_open);
            // Concurrent creations of tables also take file numbers.
            scope.spawn(move || {
                begin.wait();
                for number in 0.. {
                    let table = db.table::<u64, u64>(&number.to_string()).unwrap();
                    db.transact(|tx| tx.put(&table, &1, &number)).unwrap();
                    if is_open.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for thread in 0..4 {
                scope.spawn(move || {
                    begin.wait();
                    if thread == seed % 4 {
                        db.checkpoint().unwrap();
                    }
                    let table = orders(db);
                    is_open.store(true, Ordering::Relaxed);
                    let key = key(thread);
                    db.transact(|tx| tx.put(&table, &key, &value(&key, 1)))
                        .unwrap();
                });
            }
        });
        model.extend((0..4).map(|thread| (key(thread), 1)));
        assert_is(&db, &model, "threads");
        db.checkpoint().unwrap();
        drop(db);
        assert_is(&open(SPEC, &disk), &model, "opened again");
        assert_no_other_files(&disk, "at the end");
    }
}

/// A row deleted before an opening is in a run: the first checkpoint rewrites that run.
#[test]
fn a_deleted_row_stays_deleted_when_a_checkpoint_has_failed() {
    let disk = SimDisk::new();
    let db = open(SPEC, &disk);
    (0..9).for_each(|key| put(&db, key).unwrap());
    let model = load(&db, 30);
    db.checkpoint().unwrap();
    let numbers = db.table::<u64, u64>("numbers").unwrap();
    db.transact(|tx| tx.delete(&numbers, &4)).unwrap();
    std::mem::forget(db);
    let disk = disk.crash_image(disk.events(), Loss::All);
    let db = open(SPEC, &disk);
    db.wait_until_loaded().unwrap();
    disk.inject(Fault::once(Step::Append, 0, ErrorKind::Other));
    assert!(db.checkpoint().is_err());
    disk.heal();
    orders(&db);
    db.checkpoint().unwrap();
    drop(db);
    let db = open(SPEC, &disk);
    assert_eq!(keys(&db), [0, 1, 2, 3, 5, 6, 7, 8]);
    assert_is(&db, &model, "at the end");
}

#[test]
fn a_backup_has_tables_of_both_kinds() {
    let disk = SimDisk::new();
    let db = open(SPEC, &disk);
    put(&db, 1).unwrap();
    let mut model = load(&db, ROWS);
    load_as(&db, "in segments", 30);
    let copy = |number: u32| format!("/copy{number}");
    let on = || {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        BackupOptions::default().disk(disk)
    };
    let back_up = |number| {
        db.backup_with(copy(number), &on()).unwrap();
    };
    let restored = |number: u32, model: &Model| {
        let to = format!("/restored{number}");
        let from = builder(SPEC, &disk);
        from.restore(copy(number), &to, &on()).unwrap();
        let db = builder(SPEC, &disk).open(&to).unwrap();
        assert_is(&db, model, &to);
        assert_eq!(keys(&db), [1]);
        let other = db.table::<(String, u64), [u8]>("in segments").unwrap();
        assert_eq!(db.transact(|tx| tx.count(&other, ..)).unwrap(), 30);
        let mut model = model.clone();
        change(&db, &mut model, 60);
        db.checkpoint().unwrap();
        drop(db);
        assert_is(&builder(SPEC, &disk).open(&to).unwrap(), &model, &to);
    };
    back_up(0);
    restored(0, &model);
    // Backups into the same directory: once the table is in memory, and again after changes and a
    // checkpoint.
    orders(&db);
    back_up(0);
    change(&db, &mut model, 3);
    back_up(1);
    restored(1, &model);
    db.checkpoint().unwrap();
    change(&db, &mut model, 33);
    back_up(0);
    // A backup is readable like any other database, and by a restore.
    let copied = builder(SPEC, &disk).open_read_only(copy(0)).unwrap();
    assert_is(&copied, &model, "copied");
    drop(copied);
    let from = builder(SPEC, &disk);
    from.restore(copy(0), "/last", &on()).unwrap();
    assert_is(
        &builder(SPEC, &disk).open("/last").unwrap(),
        &model,
        "restored",
    );
}

/// The image cuts keys of almost the maximum length of a segment's keys; segments do not.
#[test]
fn the_longest_keys_are_read_in_both_places() {
    let columns = vec![
        Column::new("key", ColumnType::Bytes),
        Column::new("long", ColumnType::Bytes),
    ];
    let schema = Schema::new(columns, &["key"]).unwrap();
    let key = |number: u64| {
        let len = 1_526 + number as usize % 11;
        let mut key = vec![number as u8 / 11; len];
        key.push(number as u8);
        key.truncate(1_536);
        key
    };
    let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    rows.extend((0..200).map(|number| (key(number), vec![number as u8; 30 * number as usize])));
    let disk = SimDisk::new();
    let db = without_room(&disk).open(DIR).unwrap();
    let loaded = rows.iter().map(|(key, long)| {
        let row = vec![Datum::Bytes(key.clone()), Datum::Bytes(long.clone())];
        Ok::<_, Infallible>(row)
    });
    db.load_sorted(&NewTable::new("long", schema.clone()), loaded)
        .unwrap();
    let row = |(key, long): (&Vec<u8>, &Vec<u8>)| {
        let values = [Datum::Bytes(key.clone()), Datum::Bytes(long.clone())];
        (key.clone(), encode_row(&schema, &values).unwrap())
    };
    let expected: Vec<_> = rows.iter().map(row).collect();
    let check = |db: &Database| {
        let table = db.table::<[u8], [u8]>("long").unwrap();
        let view = db.view().unwrap();
        assert!(view.scan(&table, ..).unwrap() == expected);
        let back = view.range(&table, ..).rev().map(Result::unwrap);
        assert!(back.eq(expected.iter().rev().cloned()));
        for (key, value) in &expected {
            assert_eq!(view.get(&table, key).unwrap().as_ref(), Some(value));
            let beside = [&key[..], &[0]].concat();
            assert_eq!(view.get(&table, &beside).unwrap(), None);
        }
    };
    check(&db);
    drop(db);
    for _ in 0..2 {
        let db = open(SPEC, &disk);
        check(&db);
        let table = db.table::<[u8], [u8]>("long").unwrap();
        let found = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert!(found == expected);
    }
}
