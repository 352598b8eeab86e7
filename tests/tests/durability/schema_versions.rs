//! Schema versions of tables by bytes: durable before their number is known, and never lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use namiki::{BackupOptions, ByteTable, Database, Error, UntypedTable};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};

fn open(disk: &SimDisk) -> Database {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder().disk(disk).open("/db").unwrap()
}

fn new_table(name: &str) -> UntypedTable<'_> {
    UntypedTable {
        name,
        key_type: "key",
        value_type: "row",
        schema: Some(b"zero"),
        ..UntypedTable::default()
    }
}

fn versions(db: &Database, table: &ByteTable) -> Vec<Vec<u8>> {
    let versions = db.schema_versions(table).unwrap();
    versions.into_iter().map(<[u8]>::into_vec).collect()
}

/// After a crash at any event, a row never names a version that is not there.
#[test]
fn a_version_is_durable_before_rows_name_it() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_untyped_table(&new_table("rows")).unwrap();
    for number in 1..5_u32 {
        let added = db.add_schema_version(&table, format!("version {number}").as_bytes());
        assert_eq!(added.unwrap(), number);
        disk.mark(u64::from(number));
        let row = number.to_le_bytes();
        db.transact(|tx| tx.put_row(&table, b"row", &row)).unwrap();
    }
    let events = disk.events();
    for at in 0..=events {
        for loss in [Loss::All, Loss::None] {
            let image = disk.crash_image(at, loss);
            let db = open(&image);
            let Some(table) = db.untyped_table("rows").unwrap() else {
                continue;
            };
            let versions = versions(&db, &table);
            let known = disk.marks_before(at).last().copied().unwrap_or(0);
            assert!(versions.len() as u64 > known, "event {at}: {versions:?}");
            let row = db
                .transact(|tx| Ok(tx.row(&table, b"row")?.map(<[u8]>::to_vec)))
                .unwrap();
            if let Some(row) = row {
                let named = u32::from_le_bytes(row.try_into().unwrap());
                let schema = format!("version {named}").into_bytes();
                assert_eq!(versions[named as usize], schema, "event {at}");
            }
        }
    }
}

#[test]
fn versions_stay_over_openings_clears_and_renames() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_untyped_table(&new_table("rows")).unwrap();
    assert_eq!(db.add_schema_version(&table, b"").unwrap(), 1);
    // The existing one is returned as it is.
    let again = db.create_untyped_table(&new_table("rows")).unwrap();
    assert_eq!(versions(&db, &again), [&b"zero"[..], b""]);
    db.rename_table("rows", "renamed").unwrap();
    db.clear_table("renamed").unwrap();
    let dropped = db.add_schema_version(&table, b"x");
    assert!(
        matches!(dropped, Err(Error::TableDropped { .. })),
        "{dropped:?}"
    );
    db.close().unwrap();
    let db = open(&disk);
    let table = db.untyped_table("renamed").unwrap().unwrap();
    assert_eq!(db.add_schema_version(&table, &[255; 5000]).unwrap(), 2);
    let all = versions(&db, &table);
    assert_eq!(all, [b"zero".to_vec(), Vec::new(), vec![255; 5000]]);
    drop((db, table));
    let db = open(&disk);
    let table = db.untyped_table("renamed").unwrap().unwrap();
    assert_eq!(versions(&db, &table), all);
}

/// A backup has the versions that its rows name, although more of both are added while it is copied.
#[test]
fn a_backup_has_the_versions_of_its_rows() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_untyped_table(&new_table("rows")).unwrap();
    let add = {
        let (db, table) = (db.clone(), table.clone());
        move || {
            let number = db.add_schema_version(&table, b"version").unwrap();
            let row = number.to_le_bytes();
            db.transact(|tx| tx.put_row(&table, b"row", &row)).unwrap();
        }
    };
    add();
    for backup in 0..4 {
        let before = versions(&db, &table).len();
        let added = Arc::new(AtomicU32::new(0));
        let (add, counted) = (add.clone(), Arc::clone(&added));
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let options = BackupOptions::default()
            .disk(Arc::clone(&disk))
            .on_progress(Arc::new(move |_| {
                if counted.fetch_add(1, Ordering::Relaxed) < 3 {
                    add();
                }
            }));
        let dir = format!("/backup-{backup}");
        db.backup_with(&dir, &options).unwrap();
        assert!(added.load(Ordering::Relaxed) > 0);
        let copy = Database::builder().disk(disk).open(dir).unwrap();
        let table = copy.untyped_table("rows").unwrap().unwrap();
        let row = copy.transact(|tx| Ok(tx.row(&table, b"row")?.map(<[u8]>::to_vec)));
        let named = u32::from_le_bytes(row.unwrap().unwrap().try_into().unwrap());
        let versions = versions(&copy, &table).len();
        assert_eq!((versions, named as usize + 1), (before, before));
    }
}

#[test]
fn a_version_that_was_not_written_has_no_number() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_untyped_table(&new_table("rows")).unwrap();
    disk.fail_after(0, ErrorKind::Other);
    let failed = db.add_schema_version(&table, b"one");
    assert!(matches!(failed, Err(Error::Manifest { .. })), "{failed:?}");
    disk.heal();
    assert_eq!(versions(&db, &table), [b"zero"]);
    assert_eq!(db.add_schema_version(&table, b"two").unwrap(), 1);
    assert_eq!(versions(&db, &table), [&b"zero"[..], b"two"]);
}

#[test]
fn tables_with_other_layouts_take_no_versions() {
    let disk = SimDisk::new();
    let db = open(&disk);
    db.table::<u64, u64>("numbers").unwrap();
    let numbers = db.untyped_table("numbers").unwrap().unwrap();
    assert_eq!(versions(&db, &numbers), Vec::<Vec<u8>>::new());
    let both = db.create_untyped_table(&UntypedTable {
        layouts: Some(&namiki::TypeLayouts::default()),
        ..new_table("both")
    });
    assert!(matches!(both, Err(Error::TableType { .. })), "{both:?}");
    let layouts = namiki::TypeLayouts::default();
    let typed = db.create_untyped_table(&UntypedTable {
        layouts: Some(&layouts),
        schema: None,
        ..new_table("typed")
    });
    let refused = db.add_schema_version(&typed.unwrap(), b"one");
    assert!(
        matches!(refused, Err(Error::TableType { .. })),
        "{refused:?}"
    );
}
