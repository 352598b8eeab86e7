//! A damaged image is refused with the name of the file, and nothing is changed.

use std::path::PathBuf;

use namiki_platform::seeded_random::Random;
use namiki_segment::{PAGE_BYTES, SegmentId, Writer};

use super::*;

/// A database with an image of a few runs.
fn with_image() -> SimDisk {
    let sim = SimDisk::new();
    create(&sim);
    checkpoint(&sim, &model(60), 100, 4000);
    assert!(list(&sim).runs().count() > 3);
    sim
}

/// Both ways to open refuse, and change nothing. The error names a file, and a table if it is of rows.
fn refusal(sim: &SimDisk) -> (PathBuf, String) {
    let (before, events) = (files(sim), manifest(sim));
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let read_only = Database::builder().disk(disk).open_read_only(dir());
    let read_only = read_only.map(drop).unwrap_err().to_string();
    let error = try_open(sim).map(drop).unwrap_err();
    assert_eq!(error.to_string(), read_only);
    assert_eq!((files(sim), manifest(sim)), (before, events));
    let said = format!("{error:?}");
    let (path, named) = match error {
        OpenError::DamagedImageList { path, .. } => (path, String::new()),
        OpenError::Image { table, path, .. } | OpenError::ImageRows { table, path, .. } => {
            (path, table)
        }
        other => panic!("{other:?}"),
    };
    assert!(
        said.contains(&path.display().to_string()) && said.contains(&named),
        "{said}"
    );
    assert!(said.contains("backup"), "{said}");
    (path, said)
}

#[test]
fn a_damaged_byte_of_the_list_is_found() {
    let sim = with_image();
    let path = manifest(&sim).image_list.unwrap().file.list_path(dir());
    let last = sim.read(&path).unwrap().len() as u64 - 1;
    let mut random = Random::seeded(3);
    let samples = (0..100).map(|_| random.below(last));
    for at in (0..40).chain(samples) {
        sim.flip(&path, at, 0x10).unwrap();
        assert_eq!(refusal(&sim).0, path, "byte {at}");
        sim.flip(&path, at, 0x10).unwrap();
    }
    open(&sim).close().unwrap();
}

#[test]
fn a_damaged_byte_of_a_run_is_found() {
    let sim = with_image();
    let mut random = Random::seeded(4);
    let list = list(&sim);
    for run in list.runs() {
        let path = run.segment.file.rows_path(dir());
        for page in 0..u64::from(run.segment.pages) {
            let within = [0, random.below(24), random.below(PAGE_BYTES as u64)];
            for at in within.map(|at| page * PAGE_BYTES as u64 + at) {
                let mask = 1 << random.below(8);
                sim.flip(&path, at, mask).unwrap();
                assert_eq!(refusal(&sim).0, path, "byte {at} of {}", path.display());
                sim.flip(&path, at, mask).unwrap();
            }
        }
    }
    open(&sim).close().unwrap();
}

#[test]
fn a_file_that_is_missing_cut_or_another_is_named() {
    let sim = with_image();
    let list = list(&sim);
    let paths: Vec<PathBuf> = list
        .runs()
        .map(|run| run.segment.file.rows_path(dir()))
        .collect();
    for (number, path) in paths.iter().enumerate() {
        let bytes = sim.read(path).unwrap();
        let other = sim.read(&paths[(number + 1) % paths.len()]).unwrap();
        sim.remove(path).unwrap();
        assert_eq!(refusal(&sim).0, *path);
        for wrong in [
            &bytes[..bytes.len() - PAGE_BYTES],
            &bytes[..100],
            &[],
            &other,
        ] {
            sim.replace(path, wrong).unwrap();
            assert_eq!(refusal(&sim).0, *path);
        }
        sim.replace(path, &bytes).unwrap();
    }
    let path = manifest(&sim).image_list.unwrap().file.list_path(dir());
    sim.remove(&path).unwrap();
    let (refused, said) = refusal(&sim);
    assert_eq!(refused, path);
    assert!(said.contains("it is missing"), "{said}");
}

/// Replaces the first run of table "variable" by a run of these rows, and the list by a matching
/// one after `change`.
fn replaced_run(
    rows: &[(&[u8], u64)],
    change: impl FnOnce(&mut crate::catalogue::image_list::ListedRun),
) -> SimDisk {
    let sim = with_image();
    let mut list = list(&sim);
    let manifest = manifest(&sim);
    let run = &mut list.tables[1].runs[0];
    let path = run.segment.file.rows_path(dir());
    sim.remove(&path).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let number = u64::from_str_radix(&run.segment.identity, 16).unwrap();
    let id = SegmentId::new(manifest.identity(), number);
    let mut writer = Writer::create(&disk, &path, id).unwrap();
    for (key, stamp) in rows {
        writer.push(key, b"value", Stamp(*stamp)).unwrap();
    }
    run.segment.pages = writer.finish().unwrap().pages;
    run.rows = rows.len() as u64;
    run.bytes = rows.iter().map(|(key, _)| key.len() as u64 + 5).sum();
    change(run);
    let file = manifest.image_list.unwrap().file;
    sim.replace(&file.list_path(dir()), list.encode().as_bytes())
        .unwrap();
    sim
}

#[test]
fn rows_that_the_list_does_not_say_are_refused() {
    let sound: [(&[u8], u64); 2] = [(b"0", 1), (b"1", 100)];
    open(&replaced_run(&sound, |_| {})).close().unwrap();
    let refused = |rows, change: fn(&mut crate::catalogue::image_list::ListedRun)| {
        refusal(&replaced_run(rows, change)).1
    };
    let counted = "2 rows of 12 bytes in 3 pages";
    assert!(refused(&sound, |run| run.rows = 3).contains(counted));
    assert!(refused(&sound, |run| run.rows = 1).contains(counted));
    assert!(refused(&sound, |run| run.bytes = 13).contains(counted));
    assert!(refused(&sound, |run| run.segment.pages = 4).contains(counted));
    assert!(refused(&[(b"0", 0)], |_| {}).contains("a row of stamp 0"));
    assert!(refused(&[(b"0", 101)], |_| {}).contains("a row of stamp 101"));
    assert!(refused(&[(b"0", 1), (b"9", 1)], |_| {}).contains("before the next run"));
}

#[test]
fn keys_that_a_table_cannot_have_are_refused() {
    let sim = with_image();
    let mut list = list(&sim);
    // One, so that every opening meets the same.
    let swapped = list.tables[1].runs.swap_remove(0);
    list.tables[0].runs = vec![swapped];
    list.tables[1].runs.clear();
    let file = manifest(&sim).image_list.unwrap().file;
    sim.replace(&file.list_path(dir()), list.encode().as_bytes())
        .unwrap();
    let (_, said) = refusal(&sim);
    assert!(
        said.contains("\"fixed\"") && said.contains("8-byte keys"),
        "{said}"
    );
}

#[test]
fn a_table_that_never_was_is_refused() {
    let sim = with_image();
    let mut list = list(&sim);
    list.tables[1].id = TableId(2);
    let file = manifest(&sim).image_list.unwrap().file;
    sim.replace(&file.list_path(dir()), list.encode().as_bytes())
        .unwrap();
    let (_, said) = refusal(&sim);
    assert!(said.contains("lists table 2"), "{said}");
}
