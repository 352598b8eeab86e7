//! Opening a database read-only, and its tables without their types.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{Database, Error, LoadError, NewTable, OpenError, UntypedTable, Value};

const SPECS: [&str; 5] = [
    "TT(NLR)+PWAL(auto)",
    "TT(EPOCH)+PWAL(auto)",
    "SILO(ELR)+PWAL(1)",
    "TT(ELR)+SWAL(1)",
    "S2PL(NLR)+PWAL(auto)+ARIES",
];

fn filled(dir: &Path, spec: &str) -> Database {
    let db = Database::builder().spec(spec.parse().unwrap());
    let db = db.log_file_bytes(1 << 20).open(dir).unwrap();
    let ages = db.table::<String, u32>("ages").unwrap();
    for age in 0..50 {
        db.transact(|tx| tx.put(&ages, &format!("name {age}"), &age))
            .unwrap();
    }
    db.transact(|tx| tx.delete(&ages, "name 7")).unwrap();
    db
}

/// Every file below `dir`, with its contents and the time of its last change.
fn everything(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let modified = path.metadata().unwrap().modified().unwrap();
        if path.is_dir() {
            found.extend(everything(&path));
            found.insert(path, (Vec::new(), modified));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, (bytes, modified));
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn numbers(name: &str) -> NewTable {
    let columns = vec![Column::new("id", ColumnType::U64)];
    NewTable::new(name, Schema::new(columns, &["id"]).unwrap())
}

#[test]
fn a_reader_sees_what_was_committed_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (number, spec) in SPECS.iter().enumerate() {
        let live = dir.path().join(format!("live {number}"));
        let db = filled(&live, spec);
        let rows = (0..9).map(|id| Ok::<_, Infallible>(vec![Datum::U64(id)]));
        db.load_sorted(&numbers("loaded"), rows).unwrap();
        // As a crash leaves it.
        let crashed = dir.path().join(format!("crashed {number}"));
        copy(&live, &crashed);
        db.close().unwrap();
        for dir in [&live, &crashed] {
            let before = everything(dir);
            let db = Database::builder().open_read_only(dir).unwrap();
            assert_eq!(db.recovery().closed, dir == &live, "{spec}");
            let ages = db.table::<String, u32>("ages").unwrap();
            let found = db.transact(|tx| tx.scan(&ages, ..)).unwrap();
            assert_eq!(found.len(), 49, "{spec}");
            assert_eq!(db.transact(|tx| tx.get(&ages, "name 8")).unwrap(), Some(8));
            assert_eq!(db.transact(|tx| tx.get(&ages, "name 7")).unwrap(), None);
            assert_eq!(db.loaded_tables()[0].rows, 9);

            let refused = [
                db.transact(|tx| tx.put(&ages, "name 8", &9)),
                db.transact(|tx| tx.insert(&ages, "new", &9)),
                db.transact(|tx| tx.delete(&ages, "name 8").map(drop)),
                db.transact(|tx| tx.update(&ages, "name 8", |age| age + 1).map(drop)),
                db.drop_table("ages"),
                db.clear_table("ages"),
                db.rename_table("ages", "years"),
                db.drop_table("loaded"),
            ];
            for refused in refused {
                assert!(
                    matches!(refused, Err(Error::ReadOnly)),
                    "{spec}: {refused:?}"
                );
            }
            let missing = db.table::<u64, u64>("new").map(drop);
            assert!(matches!(missing, Err(Error::NoSuchTable { .. })));
            let wrong = db.table::<u64, u32>("ages").map(drop);
            assert!(matches!(wrong, Err(Error::TableType { .. })), "{wrong:?}");
            let loaded = db.load_sorted(
                &numbers("other"),
                std::iter::empty::<Result<_, Infallible>>(),
            );
            assert!(matches!(loaded, Err(LoadError::ReadOnly)), "{loaded:?}");
            assert_eq!(db.transact(|tx| tx.get(&ages, "name 8")).unwrap(), Some(8));
            let in_use = Database::open(dir).map(drop);
            assert!(matches!(in_use, Err(OpenError::InUse { .. })), "{in_use:?}");
            db.close().unwrap();
            assert!(everything(dir) == before, "{spec}: something was changed");
        }
        // It is as good as before.
        let db = Database::open(&crashed).unwrap();
        let ages = db.table::<String, u32>("ages").unwrap();
        assert_eq!(db.transact(|tx| tx.count(&ages, ..)).unwrap(), 49);
    }
}

/// Paper: pwal §5.7 (one device for all logs)
#[test]
fn a_shared_device_is_read_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (data, device) = (dir.path().join("data"), dir.path().join("device"));
    let builder = Database::builder().shared_device(&device, 1 << 20);
    let db = builder.open(&data).unwrap();
    let ages = db.table::<String, u32>("ages").unwrap();
    db.transact(|tx| tx.put(&ages, "alice", &30)).unwrap();
    db.close().unwrap();
    let before = everything(dir.path());
    let db = Database::builder().open_read_only(&data).unwrap();
    let ages = db.table::<String, u32>("ages").unwrap();
    assert_eq!(db.transact(|tx| tx.get(&ages, "alice")).unwrap(), Some(30));
    drop(db);
    assert!(everything(dir.path()) == before, "something was changed");
}

#[test]
fn a_reader_makes_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    for dir in [dir.path(), &nowhere] {
        let refused = Database::builder().open_read_only(dir).map(drop);
        assert!(
            matches!(refused, Err(OpenError::Missing { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    fs::write(dir.path().join("holiday.jpg"), "").unwrap();
    let refused = Database::builder().open_read_only(dir.path()).map(drop);
    assert!(
        matches!(refused, Err(OpenError::NotADatabase { .. })),
        "{refused:?}"
    );
}

#[test]
fn tables_without_their_types_have_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path(), SPECS[0]);
    let infos = db.table_infos();
    assert_eq!(infos.len(), 1);
    assert_eq!(
        (&*infos[0].key_type, &*infos[0].value_type),
        ("string", "u32")
    );
    let bytes = db.untyped_table("ages").unwrap().unwrap();
    let found = db.transact(|tx| tx.get(&bytes, &b"name 8"[..])).unwrap();
    assert_eq!(found, Some(8_u32.to_le_bytes().to_vec()));
    let value = 80_u32.to_le_bytes();
    db.transact(|tx| tx.put(&bytes, &b"name 8"[..], &value[..]))
        .unwrap();
    let ages = db.table::<String, u32>("ages").unwrap();
    assert_eq!(db.transact(|tx| tx.get(&ages, "name 8")).unwrap(), Some(80));
    assert!(db.untyped_table("none").unwrap().is_none());

    let new = UntypedTable {
        layouts: None,
        schema: None,
        name: "numbers",
        key_type: "u64",
        value_type: "(u64, u64)",
        eight_byte_keys: true,
        room_bytes: 16,
    };
    let made = db.create_untyped_table(&new).unwrap();
    let short = db.transact(|tx| tx.put(&made, &[1][..], &[2][..]));
    assert!(matches!(short, Err(Error::KeyLength { .. })), "{short:?}");
    let mut value = namiki::ValueBytes::new();
    Value::encode(&(7_u64, 8_u64), &mut value);
    let key = 5_u64.to_be_bytes();
    db.transact(|tx| tx.put(&made, &key[..], &value[..]))
        .unwrap();
    let typed = db.table::<u64, (u64, u64)>("numbers").unwrap();
    assert_eq!(db.transact(|tx| tx.get(&typed, &5)).unwrap(), Some((7, 8)));
    assert_eq!(db.create_untyped_table(&new).unwrap().id(), made.id());
    let other = db.create_untyped_table(&UntypedTable {
        layouts: None,
        value_type: "u64",
        ..new
    });
    assert!(matches!(other, Err(Error::TableType { .. })), "{other:?}");
    drop(db);
    let db = Database::open(dir.path()).unwrap();
    let typed = db.table::<u64, (u64, u64)>("numbers").unwrap();
    assert_eq!(db.transact(|tx| tx.get(&typed, &5)).unwrap(), Some((7, 8)));
}
