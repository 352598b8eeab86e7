//! A directory is never copied into itself, whatever path leads there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::error::OpenError;

fn everything(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                dirs.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_copy_into_the_own_directory_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let (shop, copy) = (root.join("shop"), root.join("copy"));
    fs::create_dir(root.join("elsewhere")).unwrap();
    let open = || Database::builder().streams(NonZeroU16::MIN).open(&shop);
    let db = open().unwrap();
    let table = table_of(&db);
    db.transact(|tx| tx.put(&table, &1, b"x")).unwrap();
    db.backup(&copy).unwrap();
    symlink(&shop, root.join("link")).unwrap();
    symlink(shop.join("wal"), root.join("elsewhere/wal")).unwrap();
    let destinations = [
        "shop",
        "shop/backup",
        "shop/wal/0000",
        "shop/image/backup/today",
        "link",
        "link/backup",
        "elsewhere/wal/backup",
        "elsewhere/../shop/backup",
        "",
    ];
    let is_refused = |done: Result<BackupReport, BackupError>, place: &str| {
        assert!(
            matches!(done, Err(BackupError::OwnDirectory { .. })),
            "{place}: {done:?}"
        );
    };
    for place in destinations {
        is_refused(db.backup(root.join(place)), place);
        assert!(!shop.join("backup").exists() && !shop.join("image/backup").exists());
    }
    db.close().unwrap();
    let before = everything(root);
    let on = BackupOptions::default();
    for place in destinations {
        let to = root.join(place);
        is_refused(Database::builder().backup_closed(&shop, &to, &on), place);
        is_refused(Database::builder().restore(&shop, &to, &on), place);
        let followed = Database::builder().backup_to(&to, Duration::MAX, on.clone());
        let refused = followed.open(&shop);
        assert!(
            matches!(&refused, Err(OpenError::Settings(why)) if why.contains("directory")),
            "{place}: {refused:?}"
        );
    }
    // A restore of the backup into itself, and into a neighbouring directory.
    is_refused(
        Database::builder().restore(&copy, copy.join("again"), &on),
        "copy/again",
    );
    assert_eq!(everything(root), before);
    Database::builder()
        .restore(&copy, root.join("shop-2"), &on)
        .unwrap();
    // A directory outside of the database, although its name begins with the database's.
    Database::builder()
        .backup_closed(&shop, root.join("shop-copy"), &on)
        .unwrap();
}
