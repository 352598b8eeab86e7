//! The simulated disk loses, tears and fails exactly the planned writes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::sim::{Fault, Loss, SECTOR_BYTES, SimDisk, Step};
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};
use namiki_platform::seeded_random::Random;

const A: &str = "/a";
const SECTOR: u64 = SECTOR_BYTES as u64;

fn root() -> &'static Path {
    Path::new("/")
}

/// A disk with one file of this number of sectors, its name durable.
fn with_file(sectors: u64) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    let file = disk.create(Path::new(A), sectors * SECTOR).unwrap();
    disk.sync_dir(root()).unwrap();
    (disk, file)
}

fn filled(sectors: usize, with: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(sectors * SECTOR_BYTES);
    buf.fill(with);
    buf
}

/// The first byte of each sector; checks that no sector is a mixture.
fn sectors_of(disk: &SimDisk, path: &str) -> Vec<u8> {
    let bytes = disk.read(Path::new(path)).unwrap();
    bytes
        .chunks(SECTOR_BYTES)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]));
            sector[0]
        })
        .collect()
}

fn names_of(disk: &SimDisk) -> Vec<String> {
    let list = disk.list(root()).unwrap();
    list.iter()
        .map(|entry| entry.path.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_loss_takes_just_the_pending_sectors_that_it_names() {
    let (disk, file) = with_file(6);
    file.write_durable(0, &filled(6, 1)).unwrap();
    let before = disk.events();
    file.write_durable(SECTOR, &filled(4, 2)).unwrap();
    let under_way = before + 1;
    assert_eq!(disk.pending_sectors(before), 0);
    assert_eq!(disk.pending_sectors(under_way), 4);
    assert_eq!(disk.pending_sectors(disk.events()), 0);
    let left = |loss| sectors_of(&disk.crash_image(under_way, loss), A);
    assert_eq!(left(Loss::None), [1, 2, 2, 2, 2, 1]);
    assert_eq!(left(Loss::All), [1, 1, 1, 1, 1, 1]);
    assert_eq!(left(Loss::Only(1)), [1, 2, 1, 2, 2, 1]);
    assert_eq!(left(Loss::OnlyKept(2)), [1, 1, 1, 2, 1, 1]);
    let subsets: BTreeSet<Vec<u8>> = (0..400).map(|seed| left(Loss::Seeded(seed))).collect();
    assert_eq!(subsets.len(), 16, "all subsets of four sectors come up");
    assert_eq!(left(Loss::Seeded(5)), left(Loss::Seeded(5)));
}

#[test]
fn a_crash_keeps_or_loses_single_short_blocks() {
    let disk = SimDisk::new().with_blocks(64);
    let file = disk.create(Path::new(A), SECTOR).unwrap();
    disk.sync_dir(root()).unwrap();
    assert_eq!(file.block_bytes(), 64);
    let mut ones = AlignedBuf::zeroed(256);
    ones.fill(1);
    let before = disk.events();
    file.write_durable(64, &ones).unwrap();
    let under_way = before + 1;
    assert_eq!(disk.pending_sectors(under_way), 4);
    let left = |loss| {
        let image = disk.crash_image(under_way, loss);
        assert_eq!(image.open(Path::new(A)).unwrap().block_bytes(), 64);
        let bytes = image.read(Path::new(A)).unwrap();
        bytes.chunks(64).map(|it| it[0]).collect::<Vec<_>>()
    };
    assert_eq!(left(Loss::None), [0, 1, 1, 1, 1, 0, 0, 0]);
    assert_eq!(left(Loss::Only(1)), [0, 1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(left(Loss::OnlyKept(3)), [0, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn a_returned_write_survives_every_crash() {
    let (disk, file) = with_file(3);
    file.write_durable(SECTOR, &filled(1, 7)).unwrap();
    for loss in [Loss::None, Loss::All, Loss::Only(0), Loss::Seeded(1)] {
        let image = disk.crash_image(disk.events(), loss);
        assert_eq!(sectors_of(&image, A), [0, 7, 0]);
    }
    assert_eq!(sectors_of(&disk, A), [0, 7, 0]);
}

#[test]
fn images_can_be_asked_for_in_any_order() {
    let (disk, file) = with_file(1);
    let start = disk.events();
    for value in 1..=20 {
        file.write_durable(0, &filled(1, value)).unwrap();
    }
    let mut random = Random::seeded(11);
    for _ in 0..200 {
        let writes = random.index(21);
        // Two events for each write: after the begin of the next one, the one before is durable.
        for (extra, loss, expected) in [
            (0, Loss::All, writes),
            (1, Loss::All, writes),
            (1, Loss::None, writes + 1),
        ] {
            let at = start + 2 * writes + extra;
            if at <= disk.events() {
                let image = disk.crash_image(at, loss);
                assert_eq!(sectors_of(&image, A), [expected as u8]);
            }
        }
    }
}

#[test]
fn names_survive_as_a_prefix_of_their_changes() {
    let disk = SimDisk::new();
    for name in ["/a", "/b", "/c"] {
        disk.create(Path::new(name), 512).unwrap();
    }
    disk.remove(Path::new("/a")).unwrap();
    disk.rename(Path::new("/b"), Path::new("/d")).unwrap();
    let end = disk.events();
    assert_eq!(disk.pending_names(end), 5);
    let left = |loss| names_of(&disk.crash_image(end, loss));
    let prefixes: [&[&str]; 6] = [
        &[],
        &["/a"],
        &["/a", "/b"],
        &["/a", "/b", "/c"],
        &["/b", "/c"],
        &["/c", "/d"],
    ];
    for (count, expected) in prefixes.iter().enumerate() {
        assert_eq!(left(Loss::NamesAfter(count)), *expected);
    }
    assert_eq!(left(Loss::None), prefixes[5]);
    assert_eq!(left(Loss::Only(0)), prefixes[5]);
    assert!(left(Loss::All).is_empty());
    assert!(left(Loss::OnlyKept(0)).is_empty());
    let seen: BTreeSet<Vec<String>> = (0..200).map(|seed| left(Loss::Seeded(seed))).collect();
    assert_eq!(seen.len(), 6);
    for state in seen {
        assert!(prefixes.iter().any(|prefix| state == *prefix), "{state:?}");
    }
    disk.sync_dir(root()).unwrap();
    assert_eq!(
        names_of(&disk.crash_image(disk.events(), Loss::All)),
        ["/c", "/d"]
    );
    // A second query about the past: it still was not synced.
    assert!(left(Loss::All).is_empty());
}

/// A sync of one directory says nothing about younger names elsewhere.
#[test]
fn syncing_a_directory_keeps_what_is_older_and_nothing_younger() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/x")).unwrap();
    disk.create_dir_all(Path::new("/y")).unwrap();
    disk.create(Path::new("/x/1"), 512).unwrap();
    disk.create(Path::new("/y/1"), 512).unwrap();
    disk.create(Path::new("/x/2"), 512).unwrap();
    disk.sync_dir(Path::new("/y")).unwrap();
    let image = disk.crash_image(disk.events(), Loss::All);
    let count = |dir| image.list(Path::new(dir)).unwrap().len();
    assert_eq!((count("/x"), count("/y")), (1, 1));
}

/// Where directories are separate, it says nothing about older names elsewhere, either.
#[test]
fn syncing_a_separate_directory_keeps_its_own_names() {
    let disk = SimDisk::with_separate_directories();
    disk.create_dir_all(Path::new("/x")).unwrap();
    disk.create_dir_all(Path::new("/y")).unwrap();
    for path in ["/x/1", "/y/1", "/x/2", "/y/2"] {
        disk.create(Path::new(path), 512).unwrap();
    }
    disk.rename(Path::new("/y/1"), Path::new("/y/3")).unwrap();
    disk.sync_dir(Path::new("/y")).unwrap();
    let end = disk.events();
    let names = |image: &SimDisk, dir: &str| {
        let files = image.list(Path::new(dir)).unwrap();
        let path = files
            .iter()
            .map(|file| file.path.to_str().unwrap().to_owned());
        path.collect::<Vec<_>>()
    };
    let image = disk.crash_image(end, Loss::All);
    assert_eq!(names(&image, "/x"), [""; 0]);
    assert_eq!(names(&image, "/y"), ["/y/2", "/y/3"]);
    // A second query about that state.
    image.create(Path::new("/x/4"), 512).unwrap();
    image.sync_dir(Path::new("/y")).unwrap();
    let again = image.crash_image(image.events(), Loss::All);
    assert_eq!(names(&again, "/x"), [""; 0]);

    for path in ["/x/5", "/y/5"] {
        disk.create(Path::new(path), 512).unwrap();
    }
    let end = disk.events();
    let left = |seed| {
        let image = disk.crash_image(end, Loss::Seeded(seed));
        (names(&image, "/x").len(), names(&image, "/y").len())
    };
    let seen: BTreeSet<_> = (0..400).map(left).collect();
    let all = (0..4).flat_map(|x| [2, 3].map(|y| (x, y)));
    assert_eq!(seen, all.collect());
}

#[test]
fn a_directory_created_durably_is_there_after_the_worst_crash() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/p/q")).unwrap();
    let image = disk.crash_image(disk.events(), Loss::All);
    assert!(image.list(Path::new("/p/q")).unwrap().is_empty());
    let none = disk.crash_image(0, Loss::None);
    assert_eq!(
        none.list(Path::new("/p")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

/// Whenever the power fails: the old contents or the new ones, and the new ones after the return.
#[test]
fn replacing_is_atomic_at_every_event_and_for_every_loss() {
    let disk = SimDisk::new();
    let path = Path::new("/m");
    let old = vec![1; 1300];
    let new = vec![2; 2000];
    disk.replace(path, &old).unwrap();
    let begun = disk.events();
    disk.replace(path, &new).unwrap();
    let end = disk.events();
    let mut seen = BTreeSet::new();
    for at in begun..=end {
        let mut losses = vec![Loss::None, Loss::All];
        losses
            .extend((0..disk.pending_sectors(at)).flat_map(|s| [Loss::Only(s), Loss::OnlyKept(s)]));
        losses.extend((0..=disk.pending_names(at)).map(Loss::NamesAfter));
        losses.extend((0..50).map(Loss::Seeded));
        for loss in losses {
            let image = disk.crash_image(at, loss);
            let bytes = image.read(path).unwrap();
            assert!(bytes == old || bytes == new, "{at} {loss:?}");
            assert!(at < end || bytes == new, "{loss:?}");
            seen.insert(bytes[0]);
            // The remains prevent nothing.
            image.replace(path, b"third").unwrap();
            assert_eq!(names_of(&image), ["/m"]);
        }
    }
    assert_eq!(seen.len(), 2);
    assert!(end - begun >= 6, "its steps are events of their own");
}

/// A killed process leaves the page cache, which a later power cut loses.
#[test]
fn a_killed_process_leaves_what_a_later_crash_may_lose() {
    let (disk, file) = with_file(3);
    file.write_durable(0, &filled(1, 1)).unwrap();
    let begun = file.begin_write(SECTOR, filled(2, 2), 2 * SECTOR_BYTES);
    disk.create(Path::new("/b"), SECTOR).unwrap();
    let at = disk.events();
    drop(begun);
    assert_eq!(sectors_of(&disk.kill_image(at, 0), A), [1, 0, 0]);
    assert_eq!(sectors_of(&disk.kill_image(at, 1), A), [1, 2, 0]);
    let killed = disk.kill_image(at, 2);
    assert_eq!(
        (sectors_of(&killed, A), names_of(&killed).len()),
        (vec![1, 2, 2], 2)
    );
    let crashed = |loss| killed.crash_image(killed.events(), loss);
    assert_eq!(sectors_of(&crashed(Loss::None), A), [1, 2, 2]);
    let lost = crashed(Loss::All);
    assert_eq!(
        (sectors_of(&lost, A), names_of(&lost).len()),
        (vec![1, 0, 0], 1)
    );
    // One sector is hardened.
    let file = killed.open(Path::new(A)).unwrap();
    file.write_durable(SECTOR, &filled(1, 2)).unwrap();
    killed.sync_dir(root()).unwrap();
    let lost = killed.crash_image(killed.events(), Loss::All);
    assert_eq!(
        (sectors_of(&lost, A), names_of(&lost).len()),
        (vec![1, 2, 0], 2)
    );
}

#[test]
fn marks_are_counted_with_the_events_before_them() {
    let (disk, file) = with_file(1);
    let mut after = Vec::new();
    for mark in 0..5 {
        file.write_durable(0, &filled(1, mark as u8)).unwrap();
        disk.mark(mark);
        after.push(disk.events());
    }
    for (index, &events) in after.iter().enumerate() {
        let expected: Vec<u64> = (0..=index as u64).collect();
        assert_eq!(disk.marks_before(events), expected);
        assert_eq!(disk.marks_before(events - 1), expected[..index]);
    }
    assert_eq!(disk.describe(after[0] - 1), "mark 0");
}

#[test]
fn a_failing_write_fails_once_or_from_then_on() {
    let (disk, file) = with_file(1);
    let write = |value| {
        file.write_durable(0, &filled(1, value))
            .map_err(|e| e.kind())
    };
    disk.inject(Fault::once(Step::Write, 1, ErrorKind::Other));
    assert_eq!(
        [write(1), write(2), write(3)],
        [Ok(()), Err(ErrorKind::Other), Ok(())]
    );
    assert_eq!(sectors_of(&disk, A), [3]);
    disk.fail_after(2, ErrorKind::TimedOut);
    let failed = Err(ErrorKind::TimedOut);
    assert_eq!(
        [write(4), write(5), write(6), write(7)],
        [Ok(()), Ok(()), failed, failed]
    );
    assert_eq!(sectors_of(&disk, A), [5]);
    disk.heal();
    assert_eq!(write(8), Ok(()));
}

#[test]
fn a_torn_write_leaves_a_subset_until_overwritten() {
    let (disk, file) = with_file(4);
    file.write_durable(0, &filled(4, 1)).unwrap();
    disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other).torn(9));
    file.write_durable(0, &filled(4, 2)).unwrap_err();
    let torn = sectors_of(&disk, A);
    assert!(torn.contains(&1) && torn.contains(&2), "{torn:?}");
    let now = |loss| sectors_of(&disk.crash_image(disk.events(), loss), A);
    assert_eq!(now(Loss::All), [1, 1, 1, 1]);
    assert_eq!(now(Loss::None), [2, 2, 2, 2]);
    file.write_durable(SECTOR, &filled(2, 3)).unwrap();
    assert_eq!(now(Loss::None), [2, 3, 3, 2]);
    assert_eq!(now(Loss::All), [1, 3, 3, 1]);
    assert_eq!(disk.pending_sectors(disk.events()), 2);
}

#[test]
fn every_other_step_fails_on_demand_and_changes_nothing() {
    let (disk, file) = with_file(1);
    let (a, b) = (Path::new(A), Path::new("/b"));
    let steps = [
        Step::Create,
        Step::Rename,
        Step::Remove,
        Step::SyncDir,
        Step::Read,
    ];
    for step in steps {
        disk.inject(Fault::once(step, 0, ErrorKind::Other));
    }
    let events = disk.events();
    assert_eq!(disk.create(b, 512).unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(disk.rename(a, b).unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(disk.remove(a).unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(disk.sync_dir(root()).unwrap_err().kind(), ErrorKind::Other);
    let read = file.read_at(0, &mut filled(1, 0)).unwrap_err();
    assert_eq!(read.kind(), ErrorKind::Other);
    assert_eq!(disk.events(), events);
    assert_eq!(names_of(&disk), [A]);
    disk.create(b, 512).unwrap();
}

#[test]
fn an_injected_panic_happens_once() {
    let (disk, file) = with_file(2);
    let panics = |step| disk.inject(Fault::once(step, 0, ErrorKind::Other).panicking());
    let write = |value| file.write_durable(0, &filled(2, value));
    write(1).unwrap();
    panics(Step::Write);
    catch_unwind(AssertUnwindSafe(|| write(2))).unwrap_err();
    assert_eq!(sectors_of(&disk, A), [1, 1]);
    let now = |loss| sectors_of(&disk.crash_image(disk.events(), loss), A);
    assert_eq!(now(Loss::None), [2, 2], "as after any failed write");
    write(3).unwrap();
    assert_eq!(now(Loss::None), [3, 3]);

    let begin = |value| file.begin_write(0, filled(2, value), 2 * SECTOR_BYTES);
    panics(Step::Write);
    let begun = begin(4).unwrap();
    catch_unwind(AssertUnwindSafe(|| drop(begun.wait()))).unwrap_err();
    panics(Step::Write);
    drop(begin(5).unwrap());
    assert_eq!(sectors_of(&disk, A), [3, 3]);

    let create = || disk.create(Path::new("/b"), 512);
    panics(Step::Create);
    catch_unwind(AssertUnwindSafe(|| drop(create()))).unwrap_err();
    assert_eq!(names_of(&disk), [A]);
    create().unwrap();
}

/// The old contents stay, whichever step fails, unless it is the last one.
#[test]
fn a_failed_replace_keeps_the_old_contents() {
    for step in [Step::Create, Step::Write, Step::Rename, Step::SyncDir] {
        let disk = SimDisk::new();
        let path = Path::new("/m");
        disk.replace(path, b"old").unwrap();
        disk.inject(Fault::once(step, 0, ErrorKind::Other));
        disk.replace(path, b"new").unwrap_err();
        let image = disk.crash_image(disk.events(), Loss::All);
        assert_eq!(image.read(path).unwrap(), b"old", "{step:?}");
        let live = disk.read(path).unwrap();
        let expected: &[u8] = if step == Step::SyncDir {
            b"new"
        } else {
            b"old"
        };
        assert_eq!(live, expected, "{step:?}");
        assert_eq!(names_of(&disk), ["/m"], "{step:?}");
    }
}

#[test]
fn a_full_disk_refuses_files_before_it_changes_anything() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(4096));
    disk.create(Path::new("/a"), 3072).unwrap();
    let events = disk.events();
    let kinds = [
        disk.create(Path::new("/b"), 1536).unwrap_err().kind(),
        disk.replace(Path::new("/m"), &[0; 1025])
            .unwrap_err()
            .kind(),
    ];
    assert_eq!(kinds, [ErrorKind::StorageFull; 2]);
    assert_eq!(disk.events(), events);
    disk.replace(Path::new("/m"), &[0; 1024]).unwrap();
    disk.remove(Path::new("/a")).unwrap();
    disk.create(Path::new("/b"), 3072).unwrap();
    disk.set_capacity(None);
    disk.create(Path::new("/c"), 1 << 30).unwrap();
}

#[test]
fn an_image_is_a_disk_of_its_own() {
    let (disk, file) = with_file(2);
    file.write_durable(0, &filled(2, 1)).unwrap();
    let _lock = disk.lock_dir(root()).unwrap();
    disk.fail_after(0, ErrorKind::Other);
    let image = disk.crash_image(disk.events(), Loss::All);
    assert_eq!(image.events(), 0);
    let _again = image.lock_dir(root()).unwrap();
    let again = image.open(Path::new(A)).unwrap();
    again.write_durable(0, &filled(1, 9)).unwrap();
    image.create(Path::new("/b"), 512).unwrap();
    assert_eq!(sectors_of(&disk, A), [1, 1]);
    assert_eq!(names_of(&disk), [A]);
    // A crash during the operations on the image.
    assert_eq!(sectors_of(&image.crash_image(1, Loss::All), A), [1, 1]);
    assert_eq!(sectors_of(&image.crash_image(1, Loss::None), A), [9, 1]);
    assert_eq!(names_of(&image.crash_image(image.events(), Loss::All)), [A]);
}

#[test]
fn damage_is_seen_by_readers_and_in_images() {
    let (disk, _) = with_file(2);
    disk.damage(Path::new(A), SECTOR, &[5; 512]).unwrap();
    assert_eq!(sectors_of(&disk, A), [0, 5]);
    let image = disk.crash_image(disk.events(), Loss::All);
    assert_eq!(sectors_of(&image, A), [0, 5]);
    let beyond = disk.damage(Path::new(A), 1000, &[0; 100]).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::InvalidInput);
}

/// With yields, writes of several threads are under way at once even on one processor; each ends
/// before its writer continues, so every image holds, per writer, its last write or the one before.
#[test]
fn writes_of_several_threads_are_pending_together() {
    const WRITERS: usize = 4;
    const WRITES: u8 = 60;
    let seed = 77;
    println!("seed {seed}");
    let disk = SimDisk::new().with_yields(seed);
    let file = disk.create(Path::new(A), WRITERS as u64 * SECTOR).unwrap();
    disk.sync_dir(root()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (disk, file) = (&disk, &file);
            scope.spawn(move || {
                for value in 1..=WRITES {
                    let at = writer as u64 * SECTOR;
                    file.write_durable(at, &filled(1, value)).unwrap();
                    disk.mark(writer as u64 * 1000 + u64::from(value));
                }
            });
        }
    });
    let mut overlap_max = 0;
    for at in 2..=disk.events() {
        overlap_max = overlap_max.max(disk.pending_sectors(at));
        let mut acknowledged = [0; WRITERS];
        for mark in disk.marks_before(at) {
            acknowledged[mark as usize / 1000] = (mark % 1000) as u8;
        }
        for loss in [Loss::None, Loss::All, Loss::Seeded(at as u64)] {
            let image = disk.crash_image(at, loss);
            if names_of(&image).is_empty() {
                continue;
            }
            for (found, acknowledged) in sectors_of(&image, A).iter().zip(acknowledged) {
                assert!(
                    (acknowledged..=acknowledged + 1).contains(found),
                    "seed {seed}, event {at} ({}): {found}, acknowledged {acknowledged}",
                    disk.describe(at - 1)
                );
            }
        }
    }
    assert!(overlap_max >= 2, "seed {seed}: nothing overlapped");
}

/// Against a plain model: the last completed writes, and any of those under way.
#[test]
fn random_histories_of_one_thread_match_a_plain_model() {
    for seed in 0..30 {
        let mut random = Random::seeded(seed);
        let (disk, file) = with_file(8);
        let mut model = [0_u8; 8];
        for value in 1..=40 {
            let first = random.index(8);
            let count = 1 + random.index(8 - first);
            let fails = random.chance(0.2);
            if fails {
                disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other));
            }
            let written = file.write_durable(first as u64 * SECTOR, &filled(count, value));
            assert_eq!(written.is_err(), fails);
            if !fails {
                model[first..first + count].fill(value);
            }
            let image = disk.crash_image(disk.events(), Loss::All);
            assert_eq!(sectors_of(&image, A), model, "seed {seed}");
            assert_eq!(sectors_of(&disk, A), model, "seed {seed}");
        }
    }
}
