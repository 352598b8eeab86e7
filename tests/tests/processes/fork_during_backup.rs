//! Processes that fork during a backup, and while tables are loaded: the child is refused, and the
//! parent continues.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use namiki::{BackupError, BackupOptions, Database, Error, LoadingProgress, OpenError};
use namiki_tests::forked_child::{end_child, fork_here, in_forked_child};

use crate::fork_during_bulk_load::Forks;

const ROWS: u64 = 300;
/// Forks during a backup.
const FORKS: u64 = 3;

/// A database with some rows in its image and some in its log.
fn with_rows(dir: &Path) {
    let db = Database::open(dir).unwrap();
    let table = db.table::<u64, [u8]>("values").unwrap();
    for key in 0..ROWS {
        db.transact(|tx| tx.put(&table, &key, &[7; 100])).unwrap();
        if key == ROWS / 2 {
            db.checkpoint().unwrap();
        }
    }
    db.close().unwrap();
}

fn rows_in(dir: &Path) -> u64 {
    let db = Database::builder().open_read_only(dir).unwrap();
    let table = db.table::<u64, [u8]>("values").unwrap();
    db.read(|view| view.count(&table, ..)).unwrap() as u64
}

/// In the progress callback, for a live database and for a closed one.
#[test]
fn a_child_forked_in_a_backup_leaves_it_alone() {
    for is_live in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let [dir, copy] = ["data", "copy"].map(|name| folder.path().join(name));
        with_rows(&dir);
        let (forks, calls) = (Arc::new(Forks::default()), AtomicU64::new(0));
        let options = {
            let forks = Arc::clone(&forks);
            BackupOptions::default().on_progress(Arc::new(move |_| {
                if calls.fetch_add(1, Ordering::Relaxed) < FORKS {
                    forks.fork();
                }
            }))
        };
        let db = is_live.then(|| Database::open(&dir).unwrap());
        let taken = catch_unwind(AssertUnwindSafe(|| match &db {
            Some(db) => db.backup_with(&copy, &options),
            None => Database::builder().backup_closed(&dir, &copy, &options),
        }));
        if forks.is_in_child() {
            let refused = matches!(taken, Ok(Err(BackupError::Database(Error::Forked))));
            end_child(refused);
        }
        taken.unwrap().unwrap();
        assert_eq!(forks.children(), FORKS, "live: {is_live}");
        assert_eq!(rows_in(&copy), ROWS, "live: {is_live}");
        if let Some(db) = &db {
            db.backup(&copy).unwrap();
        }
    }
}

/// Blocks the loading threads until it is open.
#[derive(Default)]
struct Gate {
    /// The number of threads that have arrived, and whether the gate is open.
    state: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(
            self.changed
                .wait_while(state, |(_, is_open)| !*is_open)
                .unwrap(),
        );
    }

    fn wait_for_first(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |(come, _)| *come == 0)
                .unwrap(),
        );
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

#[test]
fn a_child_forked_while_tables_are_loaded_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [dir, copy] = ["data", "copy"].map(|name| folder.path().join(name));
    with_rows(&dir);
    let gate = Arc::<Gate>::default();
    let before_load = {
        let gate = Arc::clone(&gate);
        Arc::new(move |_: &str| gate.pass())
    };
    let db = Database::builder()
        .before_load(before_load)
        .open(&dir)
        .unwrap();
    let table = db.table::<u64, [u8]>("values").unwrap();
    gate.wait_for_first();
    match fork_here() {
        None => {
            let refused = catch_unwind(AssertUnwindSafe(|| {
                let is_refused = matches!(db.view().map(drop), Err(Error::Forked))
                    && matches!(db.transact(|tx| tx.get(&table, &1)), Err(Error::Forked))
                    && matches!(db.wait_until_loaded(), Err(Error::Forked))
                    && matches!(db.checkpoint(), Err(Error::Forked))
                    && matches!(db.backup(&copy), Err(BackupError::Database(Error::Forked)))
                    && db.loading() == LoadingProgress::default()
                    && db.stats().backup.is_none();
                // Releases nothing of the parent's.
                drop(db);
                is_refused
            }));
            end_child(refused.unwrap_or(false));
        }
        Some(done) => assert!(done, "the child was not refused"),
    }
    assert!(!db.loading().is_over());
    assert!(matches!(Database::open(&dir), Err(OpenError::InUse { .. })));
    db.backup(&copy).unwrap();
    gate.open();
    db.wait_until_loaded().unwrap();
    let count = db.transact(|tx| tx.count(&table, ..)).unwrap();
    assert_eq!(count as u64, ROWS);
    assert!(in_forked_child(
        || db.loading() == LoadingProgress::default()
    ));
    db.close().unwrap();
    assert_eq!(rows_in(&copy), ROWS);
    assert_eq!(rows_in(&dir), ROWS);
}
