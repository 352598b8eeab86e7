//! Damaged, deleted and foreign files: the error names the file and the byte, and nothing is
//! changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use namiki::{OpenError, ReadError};
use namiki_platform::disk::Disk;
use namiki_tests::small_database::{BOTH_ORDERS, builder, keys, log_files, written};

#[test]
fn damage_inside_a_log_names_file_and_byte() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(ELR)+PWAL(1)", "TT(ELR)+SWAL(1)"] {
        for closed in [true, false] {
            for order in BOTH_ORDERS {
                let disk = written(spec, 10, closed);
                let file = log_files(&disk, 0).remove(0);
                // The file's header takes the first block, each commit one more.
                disk.damage(&file, 3 * 512 + 100, &[0xAA; 3]).unwrap();
                let error = builder(spec, &disk)
                    .replay_order(order)
                    .open("/db")
                    .unwrap_err();
                match &error {
                    OpenError::Log(ReadError::Damaged {
                        file: named,
                        offset_bytes: 1536,
                        ..
                    }) if *named == file => {}
                    other => panic!("{spec}, closed {closed}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn opening_a_damaged_log_changes_nothing() {
    let disk = written("TT(NLR)+PWAL(1)", 10, true);
    let file = log_files(&disk, 0).remove(0);
    let before = disk.read(&file).unwrap()[1600..1604].to_vec();
    let manifest = disk.read(Path::new("/db/MANIFEST")).unwrap();
    disk.damage(&file, 1600, &[!before[0]; 4]).unwrap();
    for _ in 0..3 {
        builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap_err();
    }
    assert_eq!(disk.read(Path::new("/db/MANIFEST")).unwrap(), manifest);
    disk.damage(&file, 1600, &before).unwrap();
    let db = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_damaged_file_header_is_named() {
    let disk = written("TT(NLR)+PWAL(1)", 10, false);
    let file = log_files(&disk, 0).remove(0);
    disk.damage(&file, 0, &[0xAA; 64]).unwrap();
    match builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err() {
        OpenError::Log(ReadError::Damaged { file: named, .. }) => assert_eq!(named, file),
        other => panic!("{other:?}"),
    }
}

/// A crash leaves at most one frame beyond the end of a log.
#[test]
fn damage_at_the_end_is_no_torn_frame() {
    for spec in ["TT(EPOCH)+PWAL(1)", "TT(NLR)+PWAL(1)", "TT(ELR)+SWAL(1)"] {
        for case in [
            "header and all",
            "garbage to the end",
            "cut short",
            "swapped",
        ] {
            let disk = written(spec, 90, false);
            let mut files = log_files(&disk, 0);
            let (last, before) = (files.pop().unwrap(), files.pop().unwrap());
            let bytes = disk.read(&last).unwrap();
            match case {
                "header and all" => disk.damage(&last, 0, &vec![0x5A; bytes.len()]).unwrap(),
                "garbage to the end" => {
                    let garbage = vec![0x5A; bytes.len() - 2048];
                    disk.damage(&last, 2048, &garbage).unwrap();
                }
                "cut short" => disk.replace(&last, &bytes[..2048]).unwrap(),
                _ => {
                    disk.replace(&last, &disk.read(&before).unwrap()).unwrap();
                    disk.replace(&before, &bytes).unwrap();
                }
            }
            let error = builder(spec, &disk).open("/db").unwrap_err();
            let OpenError::Log(ReadError::Damaged { file, .. }) = &error else {
                panic!("{spec}, {case}: {error:?}");
            };
            let named = if case == "swapped" { &before } else { &last };
            assert_eq!(file, named, "{spec}, {case}");
        }
    }
}

#[test]
fn a_deleted_log_file_is_missed() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(ELR)+PWAL(1)"] {
        for order in BOTH_ORDERS {
            // Three log files; the last commits are in the third one.
            for deleted in 0..3 {
                let disk = written(spec, 90, true);
                let files = log_files(&disk, 0);
                assert_eq!(files.len(), 3);
                disk.remove(&files[deleted]).unwrap();
                let error = builder(spec, &disk)
                    .replay_order(order)
                    .open("/db")
                    .unwrap_err();
                assert!(
                    matches!(
                        error,
                        OpenError::Log(ReadError::Damaged { .. })
                            | OpenError::Log(ReadError::HardenedMissing { .. })
                            | OpenError::MissingCommits { .. }
                    ),
                    "{spec}, file {deleted}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn a_log_file_of_another_database_is_foreign() {
    let disk = written("TT(NLR)+PWAL(1)", 3, true);
    let other = written("TT(NLR)+PWAL(1)", 3, true);
    let file = log_files(&disk, 0).remove(0);
    disk.replace(&file, &other.read(&file).unwrap()).unwrap();
    let error = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err();
    assert!(
        matches!(&error, OpenError::Log(ReadError::Foreign { file: named }) if *named == file),
        "{error:?}"
    );
}

#[test]
fn a_manifest_of_another_format_is_no_damaged_one() {
    let path = Path::new("/db/MANIFEST");
    let disk = written("TT(NLR)+PWAL(1)", 3, true);
    let bytes = disk.read(path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let open = || builder("TT(NLR)+PWAL(1)", &disk).open("/db");

    let known = format!(" {} ", namiki::files::FORMAT);
    disk.replace(path, text.replacen(&known, " 9 ", 1).as_bytes())
        .unwrap();
    match open().unwrap_err() {
        OpenError::OtherFormat {
            path: named,
            found: 9,
            known,
        } => {
            assert_eq!((&*named, known), (path, namiki::files::FORMAT));
        }
        other => panic!("{other:?}"),
    }
    for damaged in [
        &bytes[..bytes.len() / 2],
        b"",
        b"nonsense",
        &text.replace("numbers", "Numbers").into_bytes(),
    ] {
        disk.replace(path, damaged).unwrap();
        let error = open().unwrap_err();
        assert!(
            matches!(&error, OpenError::DamagedManifest { path: named, .. } if named == path),
            "{error:?}"
        );
    }
    disk.replace(path, &bytes).unwrap();
    assert_eq!(keys(&open().unwrap()), [0, 1, 2]);
}
