//! Damage that `namiki check` reports, and its place: the tests change a byte in each kind of
//! structure.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use namiki::ProtocolSpec;
use namiki::files::Manifest;

use crate::check_segments::load;
use crate::command::{SPECS, database, fill, frames, log_file, spec};
use crate::program::{has, refuses};

/// The error of the check after a bit flip in this byte of the file.
fn said_with_damage(dir: &str, file: &Path, at: usize) -> String {
    let sound = fs::read(file).unwrap();
    let mut bytes = sound.clone();
    bytes[at] ^= 4;
    fs::write(file, bytes).unwrap();
    let said = refuses(1, &["check", dir]);
    fs::write(file, sound).unwrap();
    assert!(said.contains(file.to_str().unwrap()), "byte {at}: {said}");
    said
}

#[test]
fn a_damaged_frame_is_named_by_its_first_byte() {
    const HEADER: &str = "the header of a frame is damaged";
    const CHECKSUM: &str = "the checksum of a frame does not match its contents";
    for text in SPECS {
        let (_dir, path) = database(spec(text));
        let damaged = log_file(&path);
        for at in frames(&fs::read(&damaged).unwrap()) {
            // Its magic, its checksum, the number of its commits, its sequence number, its worker, its commits.
            for (within, what) in [
                (0, HEADER),
                (5, CHECKSUM),
                (12, CHECKSUM),
                (20, HEADER),
                (68, HEADER),
                (75, CHECKSUM),
            ] {
                let said = said_with_damage(&path, &damaged, at + within);
                let place = format!("is damaged at byte {at}: {what}");
                assert!(said.contains(&place), "{text}, {within}: {said}");
            }
        }
        fs::remove_file(&damaged).unwrap();
        let stream = damaged.parent().unwrap();
        for missing in [&damaged, stream] {
            let said = refuses(1, &["check", &path]);
            let missing = missing.to_str().unwrap();
            assert!(
                said.contains(&format!("{missing} is missing from the log")),
                "{text}: {said}"
            );
            // The second time, the whole stream is gone.
            let _ = fs::remove_dir(stream);
        }
    }
}

/// No seal records the number of frames; the frames behind the damage reveal it.
#[test]
fn so_is_one_in_a_log_that_was_not_closed() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = dir.path().join("crashed");
    let db = fill(&crashed, spec("TT(NLR)+PWAL(1)"));
    // The files of an open database are those that a crash leaves.
    let copy = dir.path().join("copy");
    crate::command::copy_tree(&crashed, &copy);
    drop(db);
    let path = copy.to_str().unwrap();
    let damaged = log_file(path);
    let at = frames(&fs::read(&damaged).unwrap())[1];
    let said = said_with_damage(path, &damaged, at);
    let place = format!("is damaged at byte {at}: the header of a frame is damaged, and not");
    has(&said, &place);
    let said = said_with_damage(path, &damaged, at + 75);
    let place = format!("is damaged at byte {at}: the checksum of a frame does not match");
    has(&said, &place);
    has(&said, "later frames");
}

#[test]
fn a_damaged_header_of_a_log_file_is_called_that() {
    let (_dir, path) = database(ProtocolSpec::DEFAULT);
    let damaged = log_file(&path);
    for at in [0, 8, 33, 63] {
        let said = said_with_damage(&path, &damaged, at);
        let place = "is damaged at byte 0: the header of the file is damaged";
        assert!(said.contains(place), "byte {at}: {said}");
    }
}

#[test]
fn damage_of_the_manifests_header_and_contents_is_told_apart() {
    let (dir, path) = database(ProtocolSpec::DEFAULT);
    let manifest = Manifest::path(dir.path());
    let text = fs::read_to_string(&manifest).unwrap();
    let contents = text.find('\n').unwrap() + 1;
    for at in [0, 5, contents - 1] {
        let said = said_with_damage(&path, &manifest, at);
        assert!(said.contains("is damaged: its header"), "byte {at}: {said}");
        assert!(said.contains("(byte 0)"), "byte {at}: {said}");
    }
    let place = format!("is not the one in the header (byte {contents})");
    for at in [contents, contents + 77, text.len() - 3] {
        let said = said_with_damage(&path, &manifest, at);
        assert!(said.contains(&place), "byte {at}: {said}");
    }
    let known = format!(" {} ", namiki::files::FORMAT);
    fs::write(&manifest, text.replacen(&known, " 99 ", 1)).unwrap();
    assert!(refuses(1, &["check", &path]).contains("format 99"));
    fs::remove_file(&manifest).unwrap();
    let said = refuses(1, &["check", &path]);
    has(&said, "MANIFEST is missing, although");
}

#[test]
fn a_damaged_record_of_the_table_journal_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = dir.path().join("crashed");
    let db = fill(&crashed, ProtocolSpec::DEFAULT);
    let copy = dir.path().join("copy");
    crate::command::copy_tree(&crashed, &copy);
    drop(db);
    let journal = copy.join("TABLES");
    let bytes = fs::read(&journal).unwrap();
    let records = bytes.windows(4).enumerate();
    let records = records.filter(|(at, it)| at.is_multiple_of(512) && it == b"NTBL");
    let records: Vec<usize> = records.map(|(at, _)| at).collect();
    assert_eq!(records.len(), 2);
    let path = copy.to_str().unwrap();
    for (at, place, what) in [
        (0, 0, "its header does not begin as one"),
        (20, 0, "its header is damaged"),
        (records[0], records[0], "the header of a record is damaged"),
        (
            records[0] + 13,
            records[0],
            "the header of a record is damaged",
        ),
        (
            records[0] + 30,
            records[0],
            "the checksum of a record does not match",
        ),
        (
            records[1] + 13,
            records[1],
            "the header of a record is damaged",
        ),
        (
            records[1] + 30,
            records[1],
            "the checksum of a record does not match",
        ),
    ] {
        let said = said_with_damage(path, &journal, at);
        let place = format!("is damaged at byte {place}: {what}");
        assert!(said.contains(&place), "byte {at}: {said}");
    }
}

#[test]
fn a_damaged_page_is_named_by_its_first_byte() {
    const PAGE_BYTES: usize = namiki_segment::PAGE_BYTES;
    let dir = tempfile::tempdir().unwrap();
    let table = load(dir.path(), "people");
    let path = dir.path().to_str().unwrap();
    for segment in table.segments() {
        let file = segment.file.path(dir.path());
        let pages = fs::metadata(&file).unwrap().len() as usize / PAGE_BYTES;
        assert!(pages > 2);
        for page in 0..pages {
            for within in [1, 2000, PAGE_BYTES - 1] {
                let at = page * PAGE_BYTES;
                let said = said_with_damage(path, &file, at + within);
                let place = format!("(byte {at}): its checksum is ");
                assert!(said.contains(&place), "page {page}, {within}: {said}");
            }
        }
        // The bytes that mark it as the footer.
        let said = said_with_damage(path, &file, (pages - 1) * PAGE_BYTES + 8);
        has(&said, "the header of its last page, the footer,");
    }
}
