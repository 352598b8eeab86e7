//! The tests of `small_disks.rs` on real file systems of 40 to 200 MB, with their own accounting of
//! space and with the thread that prepares files. They need root. Where that is impossible, the
//! tests say so and pass, unless `NAMIKI_REQUIRE_POWERCUT` is set.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

use std::fs;
use std::io::{ErrorKind, Write};
use std::num::NonZeroU16;
use std::path::Path;

use namiki::{Database, Error};
use namiki_tests::full_disk::{Filling, Rows};
use namiki_tests::small_file_system::SmallFileSystem;

const MIB: u64 = 1 << 20;

/// The settings of a database, and the size of its disk.
#[derive(Clone, Copy, Debug)]
struct Case {
    is_ext4: bool,
    mib: u64,
    /// `None`: the default length.
    log_file_bytes: Option<u64>,
    streams: u16,
    rows: Rows,
}

/// Each pair of choices at least once.
fn cases() -> impl Iterator<Item = Case> {
    let large = Rows::LARGE.of(100_000);
    let small = Rows::SMALL.of(1000).together(200);
    let many = Rows::SMALL.of(1000).together(400);
    let many_on_few = Rows::SMALL.of(10_000).together(400);
    let cases = [
        (true, 40, None, 1, large),
        (true, 40, Some(4 * MIB), 4, small),
        (true, 100, Some(4 * MIB), 1, large),
        (true, 150, None, 2, large),
        (true, 200, None, 4, large),
        (false, 40, None, 4, large),
        (false, 40, Some(4 * MIB), 1, small),
        (false, 100, None, 2, small),
        (false, 150, Some(4 * MIB), 4, large),
        (false, 200, Some(4 * MIB), 1, large),
        (true, 40, None, 2, many),
        (false, 100, Some(4 * MIB), 1, many_on_few),
    ];
    cases
        .into_iter()
        .map(|(is_ext4, mib, log_file_bytes, streams, rows)| Case {
            is_ext4,
            mib,
            log_file_bytes,
            streams,
            rows,
        })
}

impl Case {
    /// `None`, with the reason printed, if no file system can be mounted.
    fn disk(&self) -> Option<SmallFileSystem> {
        let bytes = self.mib * MIB;
        let made = if self.is_ext4 {
            SmallFileSystem::ext4(bytes)
        } else {
            SmallFileSystem::tmpfs(bytes)
        };
        let required = std::env::var_os("NAMIKI_REQUIRE_POWERCUT").is_some();
        made.inspect_err(|why| {
            println!("skipped: no file system can be mounted here ({why})");
            assert!(!required, "a file system has to be mounted, but: {why}");
        })
        .ok()
    }

    fn open(&self, dir: &Path) -> Database {
        let mut builder = Database::builder().streams(NonZeroU16::new(self.streams).unwrap());
        if let Some(bytes) = self.log_file_bytes {
            builder = builder.log_file_bytes(bytes);
        }
        let opened = builder.open(dir);
        opened.unwrap_or_else(|error| panic!("{self:?}: {error:?}"))
    }

    /// Fills the free space with a file.
    fn fill_with_a_file(&self, disk: &SmallFileSystem) {
        let mut file = fs::File::create(disk.path().join("filler")).unwrap();
        for bytes in [MIB as usize, 4096, 512, 1] {
            let zeros = vec![0; bytes];
            loop {
                match file.write_all(&zeros) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{self:?}: {error}"),
                }
            }
        }
    }
}

/// Rows of a fifth of the disk, written repeatedly.
#[test]
fn overwriting_goes_on_on_any_file_system() {
    for case in cases() {
        let Some(disk) = case.disk() else { return };
        println!("{case:?}");
        let dir = disk.path().join("data");
        let mut filling = Filling::new(case.rows);
        let rows = case.mib * MIB / 5 / filling.row_bytes();
        for _ in 0..2 {
            let db = case.open(&dir);
            filling.check(&db);
            for _ in 0..3 {
                filling
                    .put_all(&db, 0..rows)
                    .unwrap_or_else(|error| panic!("{case:?}: {error:?} {}", db.stats()));
            }
            filling.check(&db);
            db.close().unwrap();
        }
    }
}

#[test]
fn a_full_file_system_takes_deletions_and_then_rows() {
    for case in cases() {
        let Some(disk) = case.disk() else { return };
        println!("{case:?}");
        let dir = disk.path().join("data");
        let mut filling = Filling::new(case.rows);
        for life in 0..2 {
            let told = format!("{case:?}, life {life}");
            let db = case.open(&dir);
            filling.check(&db);
            filling.fill(&db, &told);
            let least = case.mib * MIB / 5;
            assert!(filling.bytes() > least, "{told}: {} bytes", filling.bytes());
            filling.delete_half(&db, &told);
            filling.put_a_quarter(&db, &told);
            filling.check(&db);
            db.close().unwrap();
        }
        // Another program takes the rest, and reads continue to work; then a table is dropped.
        case.fill_with_a_file(&disk);
        let db = case.open(&dir);
        filling.check(&db);
        let refused = filling.put_all(&db, 0..1);
        assert!(
            matches!(refused, Err(Error::DiskFull(_))),
            "{case:?}: {refused:?}"
        );
        db.drop_table("rows").unwrap();
        db.close().unwrap();
        assert!(case.open(&dir).tables().is_empty());
    }
}
