//! Backups and restores from the command line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namiki::Database;

use crate::check_segments::load;
use crate::program::{everything, has, refuses, said, works};

fn put(dir: &Path, keys: std::ops::Range<u64>) {
    let db = Database::open(dir).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    for key in keys {
        db.transact(|tx| tx.put(&table, &key, &key)).unwrap();
    }
    db.checkpoint().unwrap();
    db.transact(|tx| tx.put(&table, &1_000_000, &1)).unwrap();
    db.close().unwrap();
}

#[test]
fn a_backup_is_checked_read_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["data", "copy", "again", "notes"].map(|name| folder.path().join(name));
    let [dir, copy, again, notes] = &paths;
    let [data, dest, restored, other] = paths.each_ref().map(|path| path.to_str().unwrap());
    put(dir, 0..100);
    load(dir, "people");
    let before = everything(dir);
    let told = works(&["backup", data, dest]);
    has(&told, "of rows in 3 files, and");
    assert_eq!(everything(dir), before);
    assert!(said(0, "check", copy).contains("sound: "));
    assert_eq!(works(&["get", dest, "numbers", "7"]).trim(), "7");

    put(dir, 50..200);
    let told = works(&["backup", data, dest, "--rate-mib", "1000"]);
    has(&told, "2 files already there");
    assert!(said(0, "check", copy).contains("sound: "));

    let kept = everything(copy);
    works(&["restore", dest, restored]);
    assert_eq!(everything(copy), kept);
    assert!(said(0, "check", again).contains("sound: "));
    assert_eq!(works(&["tables", restored]), works(&["tables", dest]));
    assert_eq!(
        works(&["scan", restored, "numbers"]),
        works(&["scan", data, "numbers"])
    );

    std::fs::create_dir(notes).unwrap();
    std::fs::write(notes.join("a"), "x").unwrap();
    for command in ["backup", "restore"] {
        let told = refuses(1, &[command, dest, other]);
        has(&told, "notes is not empty");
    }
    let told = refuses(1, &["restore", dest, restored]);
    has(&told, "again is not empty");
    put(again, 0..1);
    let told = refuses(1, &["backup", restored, dest]);
    has(&told, "has what this database does not have");
    put(copy, 0..1);
    let told = refuses(1, &["backup", data, dest]);
    has(&told, "it is no backup any more");
}

/// As the guide allows: a copy of a closed directory replaces the directory.
#[test]
fn a_copy_put_back_gets_its_own_backup() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["data", "aside", "copy", "another"].map(|name| folder.path().join(name));
    let [dir, aside, copy, _] = &paths;
    let [data, _, dest, another] = paths.each_ref().map(|path| path.to_str().unwrap());
    put(dir, 0..100);
    works(&["backup", data, dest]);
    let mut copying = std::process::Command::new("cp");
    let copied = copying.arg("-r").args([dir, aside]).status();
    assert!(copied.unwrap().success());
    put(dir, 100..200);
    works(&["backup", data, dest]);
    std::fs::remove_dir_all(dir).unwrap();
    std::fs::rename(aside, dir).unwrap();
    put(dir, 300..400);
    let kept = everything(copy);
    let told = refuses(1, &["backup", data, dest]);
    has(&told, "put back from a copy");
    has(&told, "name another directory");
    assert_eq!(everything(copy), kept);
    works(&["backup", data, another]);
    assert_eq!(
        works(&["scan", another, "numbers"]),
        works(&["scan", data, "numbers"])
    );
}

/// Every further backup reports files that the backup has lost; with --verify also damaged ones.
#[test]
fn a_backup_that_has_lost_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["data", "copy"].map(|name| folder.path().join(name));
    let [dir, copy] = &paths;
    let [data, dest] = paths.each_ref().map(|path| path.to_str().unwrap());
    put(dir, 0..100);
    works(&["backup", data, dest]);
    let files = everything(copy).into_keys();
    let files: Vec<_> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|it| it == "rows" || it == "seg" || it == "log")
        })
        .collect();
    assert!(files.len() > 1, "{files:?}");
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let told = refuses(1, &["backup", data, dest]);
        has(&told, name);
        has(&told, "is missing");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let told = refuses(1, &["backup", data, dest]);
        has(&told, name);
        has(&told, "bytes");
        let mut damaged = bytes.clone();
        let frame = bytes.windows(4).position(|four| four == b"NLF1");
        let Some(at) = frame.or_else(|| name.ends_with(".rows").then_some(100)) else {
            std::fs::write(&path, bytes).unwrap();
            continue;
        };
        damaged[at + 20] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let told = refuses(1, &["backup", data, dest, "--verify"]);
        has(&told, name);
        has(&told, "damaged");
        std::fs::write(&path, bytes).unwrap();
    }
    works(&["backup", data, dest, "--verify"]);
    let told = refuses(1, &["backup", data, &format!("{data}/copy")]);
    has(&told, "name a directory elsewhere");
}

/// Each earlier backup is restored and verified; damage in one of them is reported.
#[test]
fn earlier_backups_are_kept_checked_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["data", "copy", "again"].map(|name| folder.path().join(name));
    let [dir, copy, _] = &paths;
    let [data, dest, restored] = paths.each_ref().map(|path| path.to_str().unwrap());
    put(dir, 0..100);
    load(dir, "people");
    works(&["backup", data, dest, "--keep", "7d"]);
    put(dir, 100..150);
    let db = Database::open(dir).unwrap();
    db.drop_table("people").unwrap();
    db.close().unwrap();
    let told = works(&["backup", data, dest, "--keep", "7d"]);
    has(&told, "1 earlier backup kept");
    put(dir, 150..200);
    let told = works(&["backup", data, dest, "--keep", "7d"]);
    has(&told, "2 earlier backups kept");
    let told = refuses(1, &["backup", data, dest]);
    has(&told, "keeps earlier backups");
    let told = refuses(1, &["put", dest, "numbers", "1", "2"]);
    has(&told, "is a backup that keeps earlier ones");

    let told = said(0, "check", copy);
    assert_eq!(
        told.matches("an earlier backup, as of").count(),
        2,
        "{told}"
    );
    assert!(!told.contains("left over"), "{told}");
    assert_eq!(works(&["scan", dest, "numbers", "--count"]).trim(), "201");
    let list = works(&["restore", dest, "--list"]);
    let ends: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(ends.len(), 2, "{list}");
    for (end, rows) in ends.iter().zip(["101", "151"]) {
        works(&["restore", dest, restored, "--to", end]);
        assert!(said(0, "check", Path::new(restored)).contains("sound: "));
        assert_eq!(
            works(&["scan", restored, "numbers", "--count"]).trim(),
            rows
        );
        let tables = works(&["tables", restored]);
        assert_eq!(tables.contains("people"), rows == "101", "{tables}");
        std::fs::remove_dir_all(restored).unwrap();
    }

    // The segment of the table that only the first one has.
    let path = copy.join("image/00000001.new");
    let files = std::fs::read_dir(copy.join("image")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    let path = paths
        .find(|it| it.extension().is_some_and(|it| it == "new"))
        .unwrap_or(path);
    let sound = std::fs::read(&path).unwrap();
    let mut bytes = sound.clone();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(refuses(1, &["check", dest]).contains(path.to_str().unwrap()));
    std::fs::write(&path, sound).unwrap();

    let told = works(&["backup", data, dest, "--keep", "0s"]);
    assert!(!told.contains("earlier"), "{told}");
    assert!(!path.exists());
    assert_eq!(works(&["restore", dest, "--list"]), "");
    assert!(said(0, "check", copy).contains("sound: "));
    works(&["backup", data, dest]);
    let told = refuses(2, &["backup", data, dest, "--keep", "7"]);
    has(&told, "expected a number with s, m, h or d");
}

#[test]
fn a_damaged_database_is_not_backed_up() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, copy) = (folder.path().join("data"), folder.path().join("copy"));
    put(&dir, 0..100);
    let image = std::fs::read_dir(dir.join("image")).unwrap();
    let mut paths = image.map(|entry| entry.unwrap().path());
    let rows = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "rows");
    let path = paths.find(rows).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (data, dest) = (dir.to_str().unwrap(), copy.to_str().unwrap());
    let told = refuses(1, &["backup", data, dest]);
    assert!(told.contains(path.to_str().unwrap()), "{told}");
    refuses(1, &["check", dest]);
}

/// `check` and `dump-log` on a log that was cut at a stamp, and on restore points.
#[test]
fn a_live_backup_is_sound_and_restored_to_a_point() {
    for spec in [
        "TT(EPOCH)+PWAL(auto)",
        "SILO(NLR)+PWAL(4)",
        "TT(ELR)+PWAL(16)",
        "TT(ELR)+SWAL(16)",
        "S2PL(NLR)+PWAL(4)+ARIES",
        "S2PL(ELR)+PWAL(4)+ARIES",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["data", "copy", "again"].map(|name| folder.path().join(name));
        let [dir, copy, _] = &paths;
        let [_, dest, restored] = paths.each_ref().map(|path| path.to_str().unwrap());
        let builder = Database::builder().spec(spec.parse().unwrap());
        let builder = builder.restore_points(Duration::from_millis(1));
        let db = builder.log_file_bytes(1 << 20).open(dir).unwrap();
        let table = db.table::<u64, [u8]>("values").unwrap();
        let done = AtomicBool::new(false);
        let points = std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (db, table, done) = (&db, &table, &done);
                scope.spawn(move || {
                    for key in 0.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        let key = (key * 2 + writer) % 1000;
                        db.transact(|tx| tx.put(table, &key, &[7; 200])).unwrap();
                    }
                });
            }
            let mut points = String::new();
            while points.lines().count() < 2 {
                db.backup(copy).unwrap();
                assert!(said(0, "check", copy).contains("sound: "), "{spec}");
                points = works(&["restore", dest, "--list"]);
            }
            done.store(true, Ordering::Relaxed);
            points
        });
        assert!(
            works(&["dump-log", dest]).contains("restore point "),
            "{spec}"
        );
        let first = points.lines().next().unwrap();
        let (number, time) = first.trim().split_once("  ").unwrap();
        let told = works(&["restore", dest, restored, "--to", time]);
        assert!(
            told.contains(&format!("as of stamp {number}")),
            "{spec}: {told}"
        );
        assert!(
            said(0, "check", Path::new(restored)).contains("sound: "),
            "{spec}"
        );
        works(&["scan", restored, "values", "--count"]);
        let told = refuses(1, &["restore", dest, dest, "--to", "1999-12-31"]);
        has(&told, "no restore point at or before 1999-12-31");
        let told = refuses(2, &["restore", dest, dest, "--to", "noon"]);
        has(&told, "neither a restore point's number nor a time");
    }
}
