//! `namiki check` on segments that differ from the loaded ones, although every checksum holds, and
//! on images.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use namiki::files::{LoadedTable, Manifest};
use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{Database, NewTable, Stamp};
use namiki_platform::disk::{Disk, SyncedDisk};
use namiki_segment::{CheckVisitor, SegmentError, SegmentId, Writer, check_with};

use crate::program::{has, said};

/// Both outputs of `namiki check`, which must end with this status.
fn checked(dir: &Path, status: i32) -> String {
    said(status, "check", dir)
}

/// Loads a table of people with an index of their towns.
pub(crate) fn load(dir: &Path, name: &str) -> LoadedTable {
    let columns = vec![
        Column::new("id", ColumnType::U64),
        Column::new("town", ColumnType::Text),
        Column::new("letter", ColumnType::Text),
    ];
    let table = NewTable::new(name, Schema::new(columns, &["id"]).unwrap());
    let table = table.index("by_town", &["town"]);
    let rows = (0..500).map(|id: u64| {
        let town = Datum::Text(format!("town {}", id % 17));
        // Some are in pages of their own.
        let letter = Datum::Text("x".repeat(if id % 100 == 7 { 9000 } else { 20 }));
        Ok::<_, Infallible>(vec![Datum::U64(id), town, letter])
    });
    let db = Database::open(dir).unwrap();
    let loaded = db.load_sorted(&table, rows).unwrap();
    db.close().unwrap();
    loaded
}

#[derive(Default)]
struct Keys(Vec<Vec<u8>>);

impl CheckVisitor for Keys {
    type Error = SegmentError;

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], _: &[u8], _: Stamp) -> Result<(), SegmentError> {
        self.0.push(key.to_vec());
        Ok(())
    }
}

/// Rewrites a segment with the same number of other keys.
fn rewrite(path: &Path, id: SegmentId, change: impl Fn(&mut Vec<Vec<u8>>)) {
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let mut keys = Keys::default();
    check_with(&disk, path, id, &mut keys).unwrap();
    change(&mut keys.0);
    keys.0.sort();
    std::fs::remove_file(path).unwrap();
    let mut writer = Writer::create(&disk, path, id).unwrap();
    for key in &keys.0 {
        writer.push(key, b"", Stamp(0)).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn an_index_with_other_keys_than_its_rows_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let table = load(dir.path(), "people");
    let sound = checked(dir.path(), 0);
    has(&sound, "table \"people\" in segments: 500 rows by id");
    let disk = SyncedDisk::new();
    let manifest = Manifest::read(&disk, dir.path()).unwrap().unwrap();
    let index = &table.indexes[0].segment;
    let (path, id) = (index.file.path(dir.path()), index.id(manifest.identity()));
    rewrite(&path, id, |_| ());
    assert_eq!(checked(dir.path(), 0), sound);
    // The last byte is of a number.
    rewrite(&path, id, |keys| *keys[77].last_mut().unwrap() ^= 0x80);
    let said = checked(dir.path(), 1);
    has(&said, "index \"by_town\" of table \"people\", in ");
    has(&said, "00000002.seg");
}

#[test]
fn a_manifest_older_than_a_segment_is_no_sound_directory() {
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), "first");
    let path = Manifest::path(dir.path());
    let old = std::fs::read(&path).unwrap();
    load(dir.path(), "second");
    let new = std::fs::read(&path).unwrap();
    std::fs::write(&path, old).unwrap();
    let said = checked(dir.path(), 1);
    has(&said, "00000003.seg was loaded and is not in the manifest");
    std::fs::write(&path, new).unwrap();
    assert!(checked(dir.path(), 0).contains("second"));
}

#[test]
fn what_a_load_has_left_is_said() {
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), "people");
    let image = namiki::files::image_dir(dir.path());
    for name in ["00000009.new", "00000009.new.tmp", "00000010.3.run"] {
        std::fs::write(image.join(name), "half").unwrap();
    }
    let said = checked(dir.path(), 0);
    assert_eq!(
        said.matches("left over from an unfinished load").count(),
        3,
        "{said}"
    );
    Database::open(dir.path()).unwrap().close().unwrap();
    assert_eq!(checked(dir.path(), 0).matches("left over").count(), 0);
}

/// A database whose tables in memory have an image: "ages" with 300 rows, and "empty" without any.
fn checkpointed(dir: &Path) -> Database {
    let db = Database::open(dir).unwrap();
    let ages = db.table::<u64, str>("ages").unwrap();
    db.table::<u64, str>("empty").unwrap();
    for key in 0..300 {
        db.transact(|tx| tx.put(&ages, &key, "old")).unwrap();
    }
    db.checkpoint().unwrap();
    db
}

#[test]
fn the_image_of_tables_in_memory_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    checkpointed(dir.path()).close().unwrap();
    let sound = checked(dir.path(), 0);
    assert!(
        sound.contains("image of the tables in memory at stamp ")
            && sound.contains("  table \"ages\": 300 rows, 1 run, ")
            && !sound.contains("  table \"empty\": "),
        "{sound}"
    );
    let image = namiki::files::image_dir(dir.path());
    let files = std::fs::read_dir(image).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let [rows, list] = &files[..] else {
        panic!("{files:?}");
    };
    for (path, names) in [(rows, "table \"ages\""), (list, "image list")] {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        for at in [0, bytes.len() / 2, bytes.len() - 2] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            std::fs::write(path, damaged).unwrap();
            let said = checked(dir.path(), 1);
            assert!(said.contains(name) && said.contains(names), "{at}: {said}");
        }
        std::fs::remove_file(path).unwrap();
        let said = checked(dir.path(), 1);
        has(&said, name);
        has(&said, names);
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(checked(dir.path(), 0), sound);
}

#[test]
fn a_manifest_older_than_an_image_is_no_sound_directory() {
    let dir = tempfile::tempdir().unwrap();
    let db = checkpointed(dir.path());
    let path = Manifest::path(dir.path());
    let old = std::fs::read(&path).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let new = std::fs::read(&path).unwrap();
    std::fs::write(&path, old).unwrap();
    let said = checked(dir.path(), 1);
    has(&said, ".list is not in the manifest");
    std::fs::write(&path, new).unwrap();
    checked(dir.path(), 0);
}

#[test]
fn what_a_checkpoint_has_left_is_said() {
    let dir = tempfile::tempdir().unwrap();
    checkpointed(dir.path()).close().unwrap();
    let image = namiki::files::image_dir(dir.path());
    for name in ["00000098.rows", "00000099.list.new", "00000097.rows.tmp"] {
        std::fs::write(image.join(name), "half").unwrap();
    }
    let said = checked(dir.path(), 0);
    assert_eq!(said.matches("left over").count(), 3, "{said}");
    Database::open(dir.path()).unwrap().close().unwrap();
    assert_eq!(checked(dir.path(), 0).matches("left over").count(), 0);
}
