//! Damage in a run is found after the opening, and is an error only for operations on that table.

use namiki_index::Direction;
use namiki_segment::PAGE_BYTES;

use super::held_loading::HeldLoading;
use super::*;
use crate::error::Error;

/// A database with a run of table "fixed" in which the first leaf is damaged, and the file.
fn damaged() -> (SimDisk, String) {
    let sim = SimDisk::new();
    create(&sim);
    checkpoint(&sim, &model(60), 100, 4000);
    let list = list(&sim);
    let path = list.tables[0].runs[1].segment.file.rows_path(dir());
    sim.flip(&path, 100, 1).unwrap();
    (sim, path.display().to_string())
}

fn is_of(error: &Error, file: &str) -> bool {
    matches!(error, Error::TableNotLoaded { table, .. } if table == "fixed")
        && format!("{error:?}").contains(file)
}

#[test]
fn damage_found_late_is_an_error_of_its_table() {
    let (sim, file) = damaged();
    let held = HeldLoading::on_one_thread(&sim);
    let fixed = held.table::<u64, [u8]>("fixed").unwrap();
    let variable = held.table::<[u8], [u8]>("variable").unwrap();
    let view = held.view().unwrap();
    // Rows that are sound are read, and the others are not.
    assert!(view.get(&fixed, &1).unwrap().is_some());
    let error = view.scan(&fixed, ..).unwrap_err();
    assert!(is_of(&error, &file), "{error:?}");
    held.gate.open();
    let error = held.wait_until_loaded().unwrap_err();
    assert!(is_of(&error, &file), "{error:?}");
    let uses = [
        held.transact(|tx| tx.get(&fixed, &1).map(drop)),
        held.transact(|tx| tx.put(&fixed, &1, b"new")),
        view.get(&fixed, &1).map(drop),
        view.count(&fixed, ..).map(drop),
        held.checkpoint().map(drop),
        held.begin().unwrap().get(&fixed, &1).map(drop),
    ];
    for (number, used) in uses.into_iter().enumerate() {
        let error = used.unwrap_err();
        assert!(is_of(&error, &file), "{number}: {error:?}");
        assert!(!error.is_retryable());
    }
    assert_eq!(held.loading().tables_failed, 1);
    assert!(held.loading().is_over());
    held.transact(|tx| tx.put(&variable, b"7", b"new")).unwrap();
    assert_eq!(view.count(&variable, ..).unwrap(), 60);
    held.close().unwrap();
    // No row is lost once the file is restored.
    sim.flip(Path::new(&file), 100, 1).unwrap();
    let db = open(&sim);
    let [fixed, variable] = rows_of(&db);
    assert_eq!((fixed.len(), variable.len()), (60, 60));
    assert_eq!(&variable[&b"7"[..]].0, b"new");
}

#[test]
fn a_damaged_table_that_is_dropped_is_in_no_way() {
    let (sim, _) = damaged();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let db = Database::builder().disk(disk).open(dir()).unwrap();
    db.wait_until_loaded().unwrap_err();
    db.drop_table("fixed").unwrap();
    db.wait_until_loaded().unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let [_, variable] = {
        let db = open(&sim);
        db.table::<u64, [u8]>("fixed").unwrap();
        rows_of(&db)
    };
    assert_eq!(variable.len(), 60);
}

/// This is detected without reading them.
#[test]
fn files_that_are_missing_or_cut_fail_the_opening() {
    let sim = SimDisk::new();
    create(&sim);
    checkpoint(&sim, &model(60), 100, 4000);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let refused = || {
        let opened = Database::builder().disk(Arc::clone(&disk)).open(dir());
        opened.map(drop).unwrap_err()
    };
    for run in list(&sim).runs() {
        let path = run.segment.file.rows_path(dir());
        let bytes = sim.read(&path).unwrap();
        sim.remove(&path).unwrap();
        let error = refused();
        assert!(matches!(&error, OpenError::Image { path: named, .. } if *named == path));
        for wrong in [&bytes[..bytes.len() - PAGE_BYTES], &bytes[..100], &[]] {
            sim.replace(&path, wrong).unwrap();
            let error = refused();
            assert!(matches!(&error, OpenError::Image { path: named, .. } if *named == path));
        }
        sim.replace(&path, &bytes).unwrap();
    }
}

#[test]
fn an_interrupted_opening_loads_no_further() {
    use std::sync::atomic::AtomicBool;

    let (sim, _) = damaged();
    let before = (files(&sim), manifest(&sim));
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let asked = Arc::new(AtomicBool::new(false));
    let before_load = {
        let asked = Arc::clone(&asked);
        Arc::new(move |_: &str| asked.store(true, std::sync::atomic::Ordering::SeqCst))
    };
    let builder = Database::builder().disk(disk).before_load(before_load);
    let builder = builder.load_before_open(true).interrupt(asked);
    let opened = builder.open(dir());
    assert!(matches!(opened, Err(OpenError::Interrupted)));
    assert_eq!((files(&sim), manifest(&sim)), before);
}

/// The next opening's checkpoint deletes the files of this one.
#[test]
fn a_scan_that_outlives_its_database_fails_as_closed() {
    let (sim, file) = damaged();
    for delete in [false, true] {
        let held = HeldLoading::on_one_thread(&sim);
        let fixed = held.table::<u64, [u8]>("fixed").unwrap();
        let view = held.view().unwrap();
        let mut rows = 0;
        let scanned = view.scan_with(&fixed, .., Direction::Forward, |_, _| {
            if rows == 0 {
                held.gate.open();
                held.close().unwrap();
                if delete {
                    sim.remove(Path::new(&file)).unwrap();
                }
            }
            rows += 1;
            ControlFlow::Continue(())
        });
        let error = scanned.unwrap_err();
        assert!(matches!(error, Error::Closed), "{delete}: {error:?}");
        assert!(rows > 0 && rows < 60, "{rows}");
    }
}
