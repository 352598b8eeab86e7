//! Tests: a database whose log is gone opens with exactly what its image has, and one whose image is not as it was
//! written does not open.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use namiki_index::ScanRange;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::{Epoch, Generation, Stamp};

use crate::api::database::Database;
use crate::catalogue::image_files::FileNumber;
use crate::catalogue::manifest::Manifest;
use crate::image::image_writer::{
    ImageBefore, ImageMoment, ImageOptions, ImageTarget, RUN_BYTES, write_image,
};
use crate::image::leftovers::read_image;
use crate::image::model_table::ModelTable;
use crate::storage::index::IndexKind;
use crate::table::raw_table::{RawTable, Step, TableId};

const DIR: &str = "/db";

/// The rows of a table with their stamps.
type Rows = BTreeMap<Vec<u8>, (Vec<u8>, Stamp)>;

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// A database with a table of keys of eight bytes, 0, and one of keys of any length, 1.
fn create(sim: &SimDisk) {
    let db = open(sim);
    db.table::<u64, [u8]>("fixed").unwrap();
    db.table::<[u8], [u8]>("variable").unwrap();
    db.close().unwrap();
}

fn open(sim: &SimDisk) -> Database {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    Database::builder().disk(disk).open(dir()).unwrap()
}

/// Makes these the tables' rows, at this stamp, and forgets the log.
fn checkpoint(sim: &SimDisk, tables: &[ModelTable; 2], stamp: u64, run_bytes: u64) {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut manifest = Manifest::read(sim, dir()).unwrap().unwrap();
    let (list, _) = read_image(sim, dir(), &manifest).unwrap();
    manifest.number_files_from(FileNumber(0));
    let next = Cell::new(manifest.image.next_file.0);
    let target = ImageTarget {
        disk: &disk,
        dir: dir(),
        identity: manifest.identity(),
        take_number: &|| Some(FileNumber(next.replace(next.get() + 1))),
    };
    let moment = ImageMoment {
        stamp: Stamp(stamp),
        generation: Generation(1),
        epoch: Epoch(1),
    };
    let named = manifest.image_list.clone();
    let before = named.as_ref().zip(list.as_ref());
    let options = ImageOptions {
        run_bytes,
        bytes_per_second: None,
        on_progress: &mut |_| ControlFlow::Continue(()),
    };
    let mut image = write_image(
        &target,
        moment,
        before.map(|(named, list)| ImageBefore { named, list }),
        (0..).map(TableId).zip(tables),
        options,
    )
    .unwrap();
    image.step_back().unwrap();
    manifest.image_list = Some(image.named().clone());
    manifest.generations.clear();
    manifest.write(sim, dir()).unwrap();
    image.give_lasting_name().unwrap();
    image.remove_superseded();
}

/// What is in a table.
fn rows(raw_table: &RawTable) -> Rows {
    let mut rows = Rows::new();
    let visit = |step: Step<'_>| {
        if let Step::Entry(key, record) = step {
            let mut value = Vec::new();
            let seen = record.copy_if(&mut value, |_| true).unwrap();
            assert!(!seen.absent, "no key that was deleted is left");
            rows.insert(key.to_vec(), (value, seen.creation));
        }
        ControlFlow::Continue(())
    };
    raw_table.scan(ScanRange::all(), visit).unwrap();
    rows
}

fn rows_of(db: &Database) -> [Rows; 2] {
    let fixed = db.table::<u64, [u8]>("fixed").unwrap();
    let variable = db.table::<[u8], [u8]>("variable").unwrap();
    [rows(fixed.raw_table()), rows(variable.raw_table())]
}

fn model() -> [ModelTable; 2] {
    let mut tables = [ModelTable::default(), ModelTable::default()];
    for number in 0..1000_u64 {
        let stamp = Stamp(1 + number % 90);
        tables[0].put(&number.to_be_bytes(), &[3; 100], stamp);
        let key = number.to_string();
        tables[1].put(key.as_bytes(), &vec![9; number as usize * 7], stamp);
    }
    tables
}

#[test]
fn a_database_without_a_log_opens_from_its_image() {
    let sim = SimDisk::new();
    create(&sim);
    let tables = model();
    checkpoint(&sim, &tables, 100, RUN_BYTES);
    let db = open(&sim);
    assert!(rows_of(&db) == [tables[0].rows(), tables[1].rows()]);
    let report = db.recovery();
    assert_eq!((report.image_rows, report.replayed), (2000, 0));
    assert!(report.image_bytes > 3_000_000);
    assert_eq!(report.max_stamp, Stamp(100));
    // What is committed now is later than all of it, and is found again with it.
    let fixed = db.table::<u64, [u8]>("fixed").unwrap();
    db.transact(|tx| tx.put(&fixed, &7, b"new")).unwrap();
    db.transact(|tx| tx.delete(&fixed, &8).map(drop)).unwrap();
    db.close().unwrap();
    let db = open(&sim);
    let [found, _] = rows_of(&db);
    assert_eq!(found.len(), 999);
    let (value, stamp) = &found[&7_u64.to_be_bytes()[..]];
    assert!(**value == *b"new" && *stamp > Stamp(100));
    assert!(!found.contains_key(&8_u64.to_be_bytes()[..]));
}

#[test]
fn an_image_is_read_into_every_kind_of_index() {
    let sim = SimDisk::new();
    create(&sim);
    let tables = model();
    checkpoint(&sim, &tables, 100, RUN_BYTES);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    for index in IndexKind::those_in_build(&["art", "hash", "art+hash"]) {
        let builder = Database::builder().disk(Arc::clone(&disk)).index(index);
        let db = builder.open_read_only(dir()).unwrap();
        let table = db.table::<[u8], [u8]>("variable").unwrap();
        for (key, (value, _)) in tables[1].rows() {
            let found = db.transact(|tx| tx.get(&table, &*key)).unwrap();
            assert!(found.as_deref() == Some(&*value), "{index}");
        }
    }
}
