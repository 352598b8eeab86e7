//! A process that changes its working directory, as daemons do: a database opened by a relative
//! path continues to work, and so do its backup and its device.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use namiki::{BackupOptions, Builder, Database};

const CHILD: &str = "NAMIKI_TEST_WORKING_DIRECTORY";

fn builder() -> Builder {
    // Files and regions that a few rows fill.
    let builder = Database::builder().buffer_bytes(8 << 10);
    builder.log_file_bytes(16 << 10)
}

fn count(db: &Database) -> usize {
    let table = db.table::<u64, [u8]>("rows").unwrap();
    db.read(|view| view.count(&table, ..)).unwrap()
}

fn fill(db: &Database) {
    let table = db.table::<u64, [u8]>("rows").unwrap();
    for key in 0..200_u64 {
        db.transact(|tx| tx.put(&table, &key, &[7; 1000])).unwrap();
    }
    db.checkpoint().unwrap();
    db.table::<u64, u64>("more").unwrap();
}

/// The process that changes its directory. It begins in a directory of its own.
fn child() {
    let home = env::current_dir().unwrap();
    let options = BackupOptions::default();
    let db = builder()
        .backup_to("copy", Duration::from_millis(100), options)
        .open("shop")
        .unwrap();
    let on_device = builder()
        .shared_device("device", 256 << 10)
        .open("ring")
        .unwrap();
    env::set_current_dir("/").unwrap();
    assert_eq!(db.dir(), home.join("shop"));
    for db in [&db, &on_device] {
        fill(db);
        assert_eq!(count(db), 200);
    }
    let taken = |db: &Database| db.stats().backup.map_or(0, |backup| backup.taken);
    let before = taken(&db);
    while taken(&db) < before + 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    db.close().unwrap();
    on_device.close().unwrap();
    env::set_current_dir(&home).unwrap();
    for dir in ["shop", "ring"] {
        let db = builder().open(dir).unwrap();
        assert_eq!(count(&db), 200);
    }
    let copy = Database::builder().open_read_only("copy").unwrap();
    env::set_current_dir("/").unwrap();
    assert_eq!(count(&copy), 200);
}

#[test]
fn a_database_outlives_a_change_of_the_working_directory() {
    if env::var_os(CHILD).is_some() {
        return child();
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "working_directory::a_database_outlives_a_change_of_the_working_directory";
    let ended = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .current_dir(dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}");
    assert!(
        Path::new(&dir.path().join("shop/MANIFEST")).exists(),
        "{told}"
    );
}
