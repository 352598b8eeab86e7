//! A closed database, copied by a tool that omits empty directories, as git, rclone and zip do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::num::NonZeroU16;
use std::path::Path;

use namiki::{BackupOptions, Builder, Database, ProtocolSpec};

fn builder(spec: &str, checkpoint_at_close: Option<u64>) -> Builder {
    let spec: ProtocolSpec = spec.parse().unwrap();
    Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(4).unwrap())
        .checkpoint_at_close(checkpoint_at_close)
}

/// Copies files, and only directories with files.
fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_files(&path, &to);
        } else {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn a_copy_without_empty_directories_opens() {
    for spec in [
        "SILO(EPOCH)+PWAL(auto)",
        "TT(NLR)+PWAL(1)",
        "TT(ELR)+SWAL(1)",
        "S2PL(ELR)+PWAL(1)+ARIES",
    ] {
        for checkpoint_at_close in [None, Some(1)] {
            // One session writes the rows, so the other streams have no file. Without rows, no
            // stream has one.
            for rows in [0, 50_u64] {
                let told = format!("{spec}, {checkpoint_at_close:?}, {rows} rows");
                let dir = tempfile::tempdir().unwrap();
                let [db, copy, backup] = ["db", "copy", "backup"].map(|name| dir.path().join(name));
                let open = |dir: &Path| {
                    let opened = builder(spec, checkpoint_at_close).open(dir);
                    opened.unwrap_or_else(|error| panic!("{told}: {error:?}"))
                };
                let database = open(&db);
                let table = database.table::<u64, u64>("rows").unwrap();
                let mut session = database.session().unwrap();
                for key in 0..rows {
                    session.transact(|tx| tx.put(&table, &key, &key)).unwrap();
                }
                drop(session);
                database.close().unwrap();
                copy_files(&db, &copy);
                let options = BackupOptions::default();
                let backed_up = builder(spec, None).backup_closed(&copy, &backup, &options);
                backed_up.unwrap_or_else(|error| panic!("{told}: {error:?}"));
                for dir in [&copy, &backup] {
                    for read_only in [true, false] {
                        let database = if read_only {
                            Database::builder().open_read_only(dir).unwrap()
                        } else {
                            open(dir)
                        };
                        let table = database.table::<u64, u64>("rows").unwrap();
                        let count = database.read(|view| view.count(&table, ..));
                        assert_eq!(count.unwrap() as u64, rows, "{told}");
                    }
                }
            }
        }
    }
}
