//! Tests: a database without its log opens with exactly the contents of its image, and one with a
//! damaged image does not open.

mod backup_while_loading;
mod crashes;
mod damage;
mod held_loading;
mod late_damage;
mod loading;
mod random_tables;
mod unloaded_tables;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use namiki_index::ScanRange;
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::{Epoch, Generation, Stamp};

use crate::api::database::Database;
use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::image::image_error::ImageError;
use crate::image::leftovers::read_image;
use crate::image::write::image_writer::{
    ImageBefore, ImageMoment, ImageOptions, ImageProgress, ImageTarget, PresentImage, RUN_BYTES,
    write_image,
};
use crate::image::write::model_table::ModelTable;
use crate::image::write::new_image::NewImage;
use crate::storage::index::IndexKind;
use crate::table::raw_table::{RawTable, Step, TableId};

const DIR: &str = "/db";

/// The rows of a table with their stamps.
type Rows = BTreeMap<Vec<u8>, (Vec<u8>, Stamp)>;
/// A table of keys of eight bytes, 0, and one of keys of any length, 1.
type Tables = [ModelTable; 2];

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// A database with empty tables.
fn create(sim: &SimDisk) {
    let db = open(sim);
    db.table::<u64, [u8]>("fixed").unwrap();
    db.table::<[u8], [u8]>("variable").unwrap();
    db.close().unwrap();
}

fn try_open(sim: &SimDisk) -> Result<Database, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let builder = Database::builder().disk(disk);
    builder.load_before_open(true).open(dir())
}

fn open(sim: &SimDisk) -> Database {
    try_open(sim).unwrap()
}

fn manifest(sim: &SimDisk) -> Manifest {
    Manifest::read(sim, dir()).unwrap().unwrap()
}

/// The list that the manifest names.
fn list(sim: &SimDisk) -> ImageList {
    read_image(sim, dir(), &manifest(sim)).unwrap().0.unwrap()
}

/// The names of the image's files.
fn files(sim: &SimDisk) -> Vec<String> {
    let found = sim.list(&image_dir(dir())).unwrap_or_default();
    let names = found.iter().filter_map(|file| file.path.file_name());
    names
        .map(|name| name.to_str().unwrap().to_owned())
        .collect()
}

/// How a checkpoint is taken.
struct Checkpoint<'a> {
    stamp: u64,
    run_bytes: u64,
    on_progress: &'a mut dyn FnMut(ImageProgress) -> ControlFlow<()>,
}

/// Writes the image of these rows.
fn write(
    sim: &SimDisk,
    tables: &Tables,
    checkpoint: Checkpoint<'_>,
) -> Result<NewImage, ImageError> {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut manifest = manifest(sim);
    let (list, _) = read_image(sim, dir(), &manifest).unwrap();
    manifest.number_files_from(FileNumber(0));
    let next = Cell::new(manifest.loaded_tables.next_file.0);
    let target = ImageTarget {
        disk: &disk,
        dir: dir(),
        identity: manifest.identity(),
        take_number: &|| Some(FileNumber(next.replace(next.get() + 1))),
    };
    let moment = ImageMoment {
        stamp: Stamp(checkpoint.stamp),
        generation: Generation(1),
        epoch: Epoch(1),
    };
    let image = list.map(|list| PresentImage {
        list,
        shrunk_files: BTreeSet::new(),
    });
    let before = manifest.image_list.as_ref().zip(image.as_ref());
    let options = ImageOptions {
        run_bytes: checkpoint.run_bytes,
        bytes_per_second: None,
        on_progress: checkpoint.on_progress,
    };
    let before = before.map(|(named, image)| ImageBefore { named, image });
    let tables = (0..).map(TableId).zip(tables);
    write_image(&target, moment, before, tables, options)
}

/// Installs the image, which has all commits of the log, and drops the log. Returns whether that
/// was completed.
fn install(sim: &SimDisk, mut image: NewImage) -> bool {
    if image.step_back().is_err() {
        return false;
    }
    let mut manifest = manifest(sim);
    manifest.image_list = Some(image.named().clone());
    manifest.generations.clear();
    if manifest.write(sim, dir()).is_err() {
        image.keep();
        return false;
    }
    let renamed = image.give_lasting_name().is_ok();
    let listed = image.list().clone();
    assert_eq!(image.remove_superseded(), listed);
    renamed
}

/// Both.
fn checkpoint(sim: &SimDisk, tables: &Tables, stamp: u64, run_bytes: u64) {
    let on_progress = &mut |_| ControlFlow::Continue(());
    let checkpoint = Checkpoint {
        stamp,
        run_bytes,
        on_progress,
    };
    let image = write(sim, tables, checkpoint).unwrap();
    assert!(install(sim, image));
}

/// The rows of a table.
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

fn expected(tables: &Tables) -> [Rows; 2] {
    tables.each_ref().map(ModelTable::rows)
}

/// The model of tables with `rows` rows each, with stamps from 1 to 90.
fn model(rows: u64) -> Tables {
    let mut tables = Tables::default();
    for number in 0..rows {
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
    let tables = model(1000);
    checkpoint(&sim, &tables, 100, RUN_BYTES);
    let db = open(&sim);
    assert!(rows_of(&db) == expected(&tables));
    let report = db.recovery();
    assert_eq!((report.image_rows, report.replayed), (2000, 0));
    assert!(report.image_bytes > 3_000_000);
    assert_eq!(report.max_stamp, Stamp(100));
    // A new commit has a later stamp than every loaded row, and is recovered together with them.
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
    let tables = model(300);
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

#[test]
fn the_rows_of_a_dropped_table_are_passed_over() {
    let sim = SimDisk::new();
    create(&sim);
    let tables = model(50);
    checkpoint(&sim, &tables, 100, RUN_BYTES);
    let db = open(&sim);
    db.drop_table("fixed").unwrap();
    db.clear_table("variable").unwrap();
    db.close().unwrap();
    let db = open(&sim);
    assert_eq!(db.recovery().image_rows, 0);
    assert!(rows_of(&db) == <[Rows; 2]>::default());
}

#[test]
fn files_after_an_image_get_numbers_of_their_own() {
    let sim = SimDisk::new();
    create(&sim);
    checkpoint(&sim, &model(50), 100, 1000);
    let last = manifest(&sim).image_list.unwrap().file;
    assert!(last > FileNumber(10));
    let db = open(&sim);
    let next = db.shared.catalogue.lock().manifest.loaded_tables.next_file;
    assert_eq!(next, FileNumber(last.0 + 1));
}

/// After the replay, the tables have no trace of a key that the log has deleted.
#[test]
fn a_key_deleted_before_an_opening_leaves_the_image() {
    let spec = ["TT(NLR)+PWAL(1)", "S2PL(ELR)+PWAL(auto)+ARIES"];
    for spec in spec.map(|spec| spec.parse().unwrap()) {
        let sim = SimDisk::new();
        let open = |sim: &SimDisk| {
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let builder = Database::builder().disk(disk).spec(spec);
            let db = builder.checkpoint_at_close(None).open(dir()).unwrap();
            db.wait_until_loaded().unwrap();
            let table = db.table::<u64, [u8]>("fixed").unwrap();
            (db, table)
        };
        let (db, table) = open(&sim);
        for key in 0..10_u64 {
            db.transact(|tx| tx.put(&table, &key, b"value")).unwrap();
        }
        db.checkpoint().unwrap();
        db.transact(|tx| tx.delete(&table, &3).map(drop)).unwrap();
        let crashed = sim.crash_image(sim.events(), Loss::All);
        let (db, _) = open(&crashed);
        // Nothing else of the table has changed.
        let report = db.checkpoint().unwrap();
        assert_eq!((report.rows, report.files_kept), (9, 0), "{spec}");
        let crashed = crashed.crash_image(crashed.events(), Loss::All);
        let (db, table) = open(&crashed);
        let found = rows(table.raw_table());
        assert_eq!(found.len(), 9, "{spec}");
        assert!(!found.contains_key(&3_u64.to_be_bytes()[..]), "{spec}");
        // And once is enough.
        let report = db.checkpoint().unwrap();
        assert_eq!((report.rows, report.files_kept), (0, 1), "{spec}");
    }
}
