//! The list of an image, or the manifest that names it: text with a checksum, and JSON in it.
//!
//! ```text
//!  flags u8 | the file; with MENDS what follows its first line
//! ```

use std::path::Path;

use namiki::files::{FORMAT, FileNumber, ImageList, Manifest, NamedList};
use namiki::{OpenError, Stamp};
use namiki_platform::checked_text;
use namiki_platform::disk::{Disk, MemoryDisk};
use serde_json::Value;

use super::Input;

pub(super) const MENDS: u8 = 1;
pub(super) const IS_MANIFEST: u8 = 1 << 1;
/// The file number of the list: no file of an image has a larger one.
const NUMBER: FileNumber = FileNumber(1 << 30);

pub(super) fn accepts(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let flags = input.byte();
    let mut file = input.rest().to_vec();
    let is_manifest = flags & IS_MANIFEST != 0;
    if flags & MENDS != 0 {
        let Ok(body) = std::str::from_utf8(&file) else {
            return false;
        };
        let body = body.strip_suffix('\n').unwrap_or(body);
        file = if is_manifest {
            checked_text::encode("namiki-manifest", FORMAT, body)
        } else {
            checked_text::encode("namiki-image", 1, body)
        }
        .into_bytes();
    }
    if is_manifest {
        reads_manifest(&file)
    } else {
        reads_list(&file)
    }
}

fn reads_manifest(file: &[u8]) -> bool {
    let (disk, dir) = (MemoryDisk::new(), Path::new("/db"));
    let write = |bytes: &[u8]| {
        let written =
            (disk.create_dir_all(dir)).and_then(|()| disk.replace(&Manifest::path(dir), bytes));
        written.expect("memory has room");
    };
    write(file);
    let manifest = match Manifest::read(&disk, dir) {
        Ok(manifest) => manifest.expect("it was written"),
        Err(error) => return is_typed(&error),
    };
    let text = serde_json::to_string(&manifest).expect("a manifest has only string keys");
    write(checked_text::encode("namiki-manifest", FORMAT, &text).as_bytes());
    let again = Manifest::read(&disk, dir).expect("it was accepted");
    assert_eq!(again, Some(manifest));
    true
}

fn reads_list(file: &[u8]) -> bool {
    let (disk, dir) = (MemoryDisk::new(), Path::new("/db"));
    let (database, named) = what_names(file);
    let write = |bytes: &[u8]| {
        let path = namiki::files::image_dir(dir).join(format!("{:08}.list", NUMBER.0));
        let written = (disk.create_dir_all(&namiki::files::image_dir(dir)))
            .and_then(|()| disk.replace(&path, bytes));
        written.expect("memory has room");
    };
    write(file);
    let list = match ImageList::read(&disk, dir, database, &named) {
        Ok(list) => list,
        Err(error) => return is_typed(&error),
    };
    for table in &list.tables {
        assert_eq!(list.table(table.id), Some(table));
        assert!(table.runs.iter().all(|run| run.segment.file < NUMBER));
    }
    let text = serde_json::to_string(&list).expect("a list has only string keys");
    write(checked_text::encode("namiki-image", 1, &text).as_bytes());
    let again = ImageList::read(&disk, dir, database, &named).expect("it was accepted");
    assert_eq!(again, list);
    true
}

/// The database identity and the name in a list, as far as they can be read. Otherwise every
/// mutation of them would fail the comparison.
fn what_names(file: &[u8]) -> (u128, NamedList) {
    let body = file.splitn(2, |byte| *byte == b'\n').nth(1);
    let json: Value = (body.and_then(|body| serde_json::from_slice(body).ok())).unwrap_or_default();
    let text = |key: &str| json[key].as_str().unwrap_or_default();
    let named = NamedList {
        file: NUMBER,
        identity: text("identity").to_owned(),
        stamp: Stamp(json["stamp"].as_u64().unwrap_or_default()),
    };
    let database = u128::from_str_radix(text("database"), 16);
    (database.unwrap_or_default(), named)
}

/// Accepts only an error that names the damage; a missing file is no such error.
fn is_typed(error: &OpenError) -> bool {
    match error {
        OpenError::DamagedImageList { why, .. } | OpenError::DamagedManifest { why, .. } => {
            assert!(!why.is_empty() && !why.contains("it is missing"), "{why}");
        }
        OpenError::OtherFormat { .. } => {}
        other => panic!("{other:?}"),
    }
    false
}
