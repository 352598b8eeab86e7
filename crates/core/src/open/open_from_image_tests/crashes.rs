//! Whatever a crash or a failing device does to a checkpoint, the database has exactly one of the two images, and no file
//! of the other once it was opened.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use namiki_platform::disk::sim::{Fault, Step as DiskStep};
use namiki_platform::seeded_random::Random;

use super::*;

/// Two states of the tables, of which the second keeps some runs of the first, and the stamp of each.
const STAMPS: [u64; 2] = [100, 200];
const RUNS: u64 = 700;

fn states() -> [Tables; 2] {
    let first = model(30);
    let mut second = first.clone();
    for number in 5..9_u64 {
        second[0].put(&number.to_be_bytes(), b"changed", Stamp(150));
        second[1].delete(number.to_string().as_bytes(), Stamp(151));
    }
    [first, second]
}

/// A database with the first state in its image.
fn with_first_image(states: &[Tables; 2]) -> SimDisk {
    let sim = SimDisk::with_separate_directories();
    create(&sim);
    checkpoint(&sim, &states[0], STAMPS[0], RUNS);
    sim
}

/// Opens the database twice: both find the same state and keep exactly its files. Returns the
/// state.
fn state_of(sim: &SimDisk, states: &[Tables; 2], what: &str) -> usize {
    let db = try_open(sim).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let found = rows_of(&db);
    let state = states.iter().position(|state| expected(state) == found);
    let state = state.unwrap_or_else(|| panic!("{what}: the tables of neither image"));
    let expected_stamp = Stamp(STAMPS[state]);
    assert_eq!(list(sim).stamp, expected_stamp, "{what}");
    let named = manifest(sim).image_list.unwrap();
    let rows = list(sim);
    let rows = rows.runs().map(|run| run.segment.file.rows_path(dir()));
    let paths = rows.chain([named.file.list_path(dir())]);
    let names = paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    let names: BTreeSet<String> = names.collect();
    assert_eq!(
        files(sim).into_iter().collect::<BTreeSet<_>>(),
        names,
        "{what}"
    );
    assert_eq!(
        sim.unfinished(&image_dir(dir())).unwrap(),
        [""; 0].map(std::path::PathBuf::from)
    );
    drop(db);
    state
}

#[test]
fn a_crash_at_any_point_leaves_exactly_one_image() {
    let states = states();
    let sim = with_first_image(&states);
    let begin = sim.events();
    checkpoint(&sim, &states[1], STAMPS[1], RUNS);
    let acknowledged = sim.events();
    let mut random = Random::seeded(1);
    let mut met = [0; 2];
    for at in begin..=acknowledged {
        let mut losses = vec![Loss::None, Loss::All, Loss::Seeded(random.next_u64())];
        losses.extend((0..sim.pending_names(at)).map(Loss::NamesAfter));
        for loss in losses {
            let what = format!("{loss:?} after event {at}, {}", sim.describe(at));
            let crashed = sim.crash_image(at, loss);
            let state = state_of(&crashed, &states, &what);
            met[state] += 1;
            // A second crash, at the end of the opening, changes nothing.
            let again = crashed.crash_image(crashed.events(), Loss::All);
            assert_eq!(state_of(&again, &states, &what), state, "{what}");
        }
    }
    assert_eq!(state_of(&sim, &states, "no crash"), 1);
    assert!(met[0] > 50 && met[1] > 10, "{met:?}");
}

#[test]
fn a_crash_while_an_opening_cleans_up_changes_nothing() {
    let states = states();
    let sim = with_first_image(&states);
    let begin = sim.events();
    checkpoint(&sim, &states[1], STAMPS[1], RUNS);
    let mut random = Random::seeded(2);
    for _ in 0..25 {
        let at = begin + random.index(sim.events() - begin);
        let crashed = sim.crash_image(at, Loss::Seeded(random.next_u64()));
        let state = state_of(&crashed, &states, "first");
        for _ in 0..3 {
            let second = random.index(crashed.events() + 1);
            let again = crashed.crash_image(second, Loss::Seeded(random.next_u64()));
            let what = format!("event {at}, then {second}");
            assert_eq!(state_of(&again, &states, &what), state, "{what}");
        }
    }
}

#[test]
fn a_failing_device_leaves_exactly_one_image() {
    let states = states();
    let steps = [
        DiskStep::Create,
        DiskStep::Append,
        DiskStep::Sync,
        DiskStep::SyncDir,
        DiskStep::Rename,
        DiskStep::Remove,
        DiskStep::Write,
    ];
    let mut met = [0; 2];
    for step in steps {
        for lasts in [false, true] {
            for after in 0.. {
                let sim = with_first_image(&states);
                let fault = Fault::once(step, after, ErrorKind::Other);
                sim.inject(if lasts { fault.and_ever_after() } else { fault });
                let on_progress = &mut |_| ControlFlow::Continue(());
                let checkpoint = Checkpoint {
                    stamp: STAMPS[1],
                    run_bytes: RUNS,
                    on_progress,
                };
                let image = write(&sim, &states[1], checkpoint);
                let is_written = image.is_ok();
                let is_done = image.is_ok_and(|image| install(&sim, image));
                let steps_left = sim.clone();
                steps_left.heal();
                let what = format!("{step:?} {after}, for ever: {lasts}");
                let state = state_of(&sim, &states, &what);
                met[state] += 1;
                assert!(is_written || state == 0, "{what}");
                assert!(!is_done || state == 1, "{what}");
                if after > 60 {
                    assert!(is_done, "{what}");
                    break;
                }
            }
        }
    }
    assert!(met[0] > 40 && met[1] > 50, "{met:?}");
}

#[test]
fn a_full_disk_leaves_the_image_before_and_says_so() {
    let states = states();
    let sim = with_first_image(&states);
    let before = files(&sim);
    // Room for a page or two, and not for all.
    for bytes in [0, 5000, 10_000, 20_000] {
        let used: u64 = [dir().to_owned(), image_dir(dir())]
            .iter()
            .flat_map(|dir| sim.list(dir).unwrap())
            .map(|file| file.len_bytes)
            .sum();
        sim.set_capacity(Some(used + bytes));
        let on_progress = &mut |_| ControlFlow::Continue(());
        let full = Checkpoint {
            stamp: STAMPS[1],
            run_bytes: RUNS,
            on_progress,
        };
        let refused = write(&sim, &states[1], full).map(drop);
        assert!(
            matches!(refused, Err(ImageError::DiskFull { .. })),
            "{bytes}: {refused:?}"
        );
        sim.set_capacity(None);
        assert_eq!(files(&sim), before);
    }
    assert_eq!(state_of(&sim, &states, "full"), 0);
}

#[test]
fn an_interrupted_checkpoint_leaves_nothing() {
    let states = states();
    let sim = with_first_image(&states);
    let before = files(&sim);
    for calls in 0..40 {
        let mut left = calls;
        let on_progress = &mut |_| {
            left -= 1;
            if left < 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let interrupted = Checkpoint {
            stamp: STAMPS[1],
            run_bytes: RUNS,
            on_progress,
        };
        match write(&sim, &states[1], interrupted).map(drop) {
            Ok(()) => assert!(calls > 5, "{calls}"),
            Err(error) => assert!(matches!(error, ImageError::Interrupted), "{error:?}"),
        }
        assert_eq!(files(&sim), before);
    }
}

/// The list before has its lasting name again if the new one does not take its place.
#[test]
fn an_image_that_is_not_announced_is_undone() {
    let states = states();
    let sim = with_first_image(&states);
    let before = files(&sim);
    let on_progress = &mut |_| ControlFlow::Continue(());
    let checkpoint = Checkpoint {
        stamp: STAMPS[1],
        run_bytes: RUNS,
        on_progress,
    };
    let mut image = write(&sim, &states[1], checkpoint).unwrap();
    image.step_back().unwrap();
    let lasting = before.iter().filter(|name| name.ends_with(".list"));
    assert_eq!(lasting.clone().count(), 1);
    assert!(lasting.clone().all(|name| !files(&sim).contains(name)));
    drop(image);
    assert_eq!(files(&sim), before);
}

#[test]
fn an_older_manifest_in_its_place_is_refused() {
    let states = states();
    let sim = with_first_image(&states);
    let path = Manifest::path(dir());
    let older = sim.read(&path).unwrap();
    let mut oldest = manifest(&sim);
    oldest.image_list = None;
    checkpoint(&sim, &states[1], STAMPS[1], RUNS);
    let after = files(&sim);
    let newest = sim.read(&path).unwrap();
    let list = manifest(&sim).image_list.unwrap().file.list_path(dir());
    let refused = || match try_open(&sim) {
        Err(OpenError::ImageNotInManifest { file }) => assert_eq!(file, list),
        other => panic!("{other:?}"),
    };
    sim.replace(&path, &older).unwrap();
    refused();
    oldest.write(&sim, dir()).unwrap();
    refused();
    // Nothing was removed: with the right one it opens.
    assert_eq!(files(&sim), after);
    sim.replace(&path, &newest).unwrap();
    assert_eq!(state_of(&sim, &states, "right"), 1);
}
