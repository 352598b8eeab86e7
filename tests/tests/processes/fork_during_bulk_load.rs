//! Processes that fork during a load: the child is refused and deletes nothing, and the parent
//! continues.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use namiki::files::image_dir;
use namiki::query::{Datum, KeyRange, Plan};
use namiki::{Database, LoadError, LoadOptions};
use namiki_platform::disk::{DiskCall, HookedDisk, SyncedDisk};
use namiki_tests::forked_child::{end_child, fork_here};
use namiki_tests::loaded_table::{TABLE, parts, rows, sound};

/// Enough for several runs of each index.
const ROWS: u64 = 3_000;

/// The forks of a test, and the results of the children.
#[derive(Default)]
pub(crate) struct Forks {
    children: AtomicU64,
    is_child: AtomicBool,
}

impl Forks {
    /// Whether this process is one of the children.
    pub(crate) fn is_in_child(&self) -> bool {
        self.is_child.load(Ordering::Relaxed)
    }

    /// Number of children.
    pub(crate) fn children(&self) -> u64 {
        self.children.load(Ordering::Relaxed)
    }

    /// Forks, and waits for the child's end. In the child, the caller continues.
    pub(crate) fn fork(&self) {
        if self.is_in_child() {
            return;
        }
        match fork_here() {
            None => self.is_child.store(true, Ordering::Relaxed),
            Some(done) => {
                assert!(done, "the child was not refused");
                self.children.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn listed(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(image_dir(dir)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Loads a table into a directory, with forks before the selected disk calls and at the selected
/// rows.
fn load_with_forks(
    at_call: impl Fn(DiskCall, &Path) -> bool + Send + Sync + 'static,
    at_row: impl Fn(u64) -> bool,
) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let forks = Arc::new(Forks::default());
    let hooked = {
        let forks = Arc::clone(&forks);
        HookedDisk::new(Arc::new(SyncedDisk::new()), move |call, path| {
            if at_call(call, path) {
                forks.fork();
            }
            Ok(())
        })
    };
    let spec = "TT(NLR)+PWAL(1)".parse().unwrap();
    let builder = Database::builder().spec(spec).disk(Arc::new(hooked));
    let db = builder.open(dir.path()).unwrap();
    let rows_that_fork = (0..).zip(rows(ROWS)).map(|(number, row)| {
        if at_row(number) {
            forks.fork();
        }
        row
    });
    let options = LoadOptions::default().sort_bytes(1);
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        db.load_sorted_with(&parts(), sound(rows_that_fork), &options)
    }));
    if forks.is_in_child() {
        end_child(matches!(loaded, Ok(Err(LoadError::Forked))));
    }
    loaded.unwrap().unwrap();
    let expected = ["00000001.seg", "00000002.seg", "00000003.seg"];
    assert_eq!(listed(dir.path()), expected);
    let mut sorted: Vec<Vec<Datum>> = rows(ROWS).collect();
    sorted.sort();
    for plan in [
        Plan::scan(TABLE),
        Plan::index_scan(TABLE, "by_name", KeyRange::default()),
        Plan::index_scan(TABLE, "by_price", KeyRange::default()),
    ] {
        let found = db.query().run(&plan).unwrap();
        let mut found: Vec<Vec<Datum>> = found.collect::<Result<_, _>>().unwrap();
        found.sort();
        assert!(found == sorted, "{plan:?}");
    }
    forks.children()
}

#[test]
fn a_child_forked_by_the_rows_leaves_the_load_alone() {
    let forked = load_with_forks(|_, _| false, |row| row == 7 || row == 2_500);
    assert_eq!(forked, 2);
}

/// At this point the segment of the rows is complete, and the runs of the sorts are being read.
#[test]
fn a_child_forked_between_segments_leaves_the_load_alone() {
    let of_an_index = |call, path: &Path| {
        matches!(call, DiskCall::Create(_) | DiskCall::Append)
            && ["00000002.new", "00000003.new"]
                .map(image_file)
                .contains(&path.file_name())
    };
    assert_eq!(load_with_forks(of_an_index, |_| false), 2);
}

fn image_file(name: &str) -> Option<&std::ffi::OsStr> {
    Some(std::ffi::OsStr::new(name))
}
