//! An image has exactly the contents of the tables, whatever they are and however they changed
//! since the previous image.

use std::collections::BTreeMap;

use namiki_platform::seeded_random::Random;

use super::*;

/// A key of a table of keys of any length: often short, sometimes as long as a key can be, many alike.
pub(super) fn variable_key(random: &mut Random) -> Vec<u8> {
    let len = match random.below(10) {
        0 => 0,
        1..6 => random.index(12),
        6 | 7 => random.index(200),
        8 => 1525 + random.index(20),
        _ => 1 + random.index(65_536),
    };
    let mut key = vec![b'k'; len];
    // Most long keys have the same prefix.
    let from = if random.chance(0.8) {
        len.saturating_sub(3)
    } else {
        0
    };
    random.fill(&mut key[from..]);
    key
}

pub(super) fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(200) {
        0 => random.index(3 << 20),
        1..20 => 0,
        20..40 => random.index(9000),
        _ => random.index(120),
    };
    let mut value = vec![0; len];
    random.fill(&mut value[..len.min(64)]);
    value
}

/// Changes some rows in a part of each table, with stamps above `after` and up to `stamp`.
fn change(tables: &mut Tables, random: &mut Random, after: u64, stamp: u64) {
    let stamps = |random: &mut Random| Stamp(after + 1 + random.below(stamp - after));
    let begin = random.below(5000);
    for _ in 0..random.below(400) {
        let key = (begin + random.below(300)).to_be_bytes();
        let stamp = stamps(random);
        if random.chance(0.3) {
            tables[0].delete(&key, stamp);
        } else {
            tables[0].put(&key, &value(random), stamp);
        }
    }
    for _ in 0..random.below(60) {
        let stamp = stamps(random);
        let known = tables[1].any_key(random).filter(|_| random.chance(0.5));
        let key = known.unwrap_or_else(|| variable_key(random));
        if random.chance(0.3) {
            tables[1].delete(&key, stamp);
        } else {
            tables[1].put(&key, &value(random), stamp);
        }
    }
}

#[test]
fn an_image_has_exactly_the_rows_of_its_stamp() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let sim = SimDisk::new();
        create(&sim);
        let mut tables = Tables::default();
        let mut stamp = 0;
        for round in 0..5 {
            let after = stamp;
            stamp += 1 + random.below(1000);
            if random.chance(0.9) {
                change(&mut tables, &mut random, after, stamp);
            }
            let run_bytes = [1, 3000, 100_000, RUN_BYTES][random.index(4)];
            checkpoint(&sim, &tables, stamp, run_bytes);
            let db = open(&sim);
            let found = rows_of(&db);
            assert!(found == expected(&tables), "seed {seed}, round {round}");
        }
    }
}

/// The runs of a table: where each begins, its file and its rows.
fn runs(sim: &SimDisk, table: usize) -> Vec<(Vec<u8>, FileNumber, u64)> {
    let list = list(sim);
    let runs = list.tables[table].runs.iter();
    runs.map(|run| (run.from.clone(), run.segment.file, run.rows))
        .collect()
}

/// A table of 1,000 rows of 108 bytes in runs of 10,000 bytes, as of stamp 100.
fn with_runs() -> (SimDisk, Tables) {
    let sim = SimDisk::new();
    create(&sim);
    let mut tables = Tables::default();
    for key in 0..1000_u64 {
        tables[0].put(&key.to_be_bytes(), &[1; 100], Stamp(50));
    }
    checkpoint(&sim, &tables, 100, 10_000);
    (sim, tables)
}

#[test]
fn runs_of_unchanged_keys_are_not_written_again() {
    let (sim, mut tables) = with_runs();
    let first = runs(&sim, 0);
    assert!(first.len() > 5 && first.iter().all(|(_, _, rows)| *rows >= 25));
    checkpoint(&sim, &tables, 200, 10_000);
    assert_eq!(runs(&sim, 0), first);

    tables[0].put(&500_u64.to_be_bytes(), &[2; 100], Stamp(250));
    checkpoint(&sim, &tables, 300, 10_000);
    let second = runs(&sim, 0);
    assert_eq!(second.len(), first.len());
    let changed = first
        .iter()
        .zip(&second)
        .filter(|(one, other)| one != other);
    let changed: Vec<_> = changed.collect();
    let [((from, file, rows), (new_from, new_file, new_rows))] = &changed[..] else {
        panic!("{changed:?}");
    };
    assert_eq!((from, rows), (new_from, new_rows));
    assert!(new_file > file && !files(&sim).contains(&format!("{:08}.rows", file.0)));
    assert!(rows_of(&open(&sim)) == expected(&tables));
}

#[test]
fn runs_that_shrink_side_by_side_are_merged() {
    let (sim, mut tables) = with_runs();
    let before = runs(&sim, 0).len();
    for key in 0..1000_u64 {
        if key % 50 != 0 {
            tables[0].delete(&key.to_be_bytes(), Stamp(150));
        }
    }
    checkpoint(&sim, &tables, 200, 10_000);
    assert_eq!((before > 5, runs(&sim, 0).len()), (true, 1));
    assert!(rows_of(&open(&sim)) == expected(&tables));
}

#[test]
fn a_range_without_rows_has_no_run() {
    let (sim, mut tables) = with_runs();
    let before = runs(&sim, 0);
    for run in [0, 2, before.len() - 1] {
        let from = |run: usize| {
            before.get(run).map_or(1000, |(from, ..)| {
                let from: [u8; 8] = from.clone().try_into().unwrap_or_default();
                u64::from_be_bytes(from)
            })
        };
        for key in from(run)..from(run + 1) {
            tables[0].delete(&key.to_be_bytes(), Stamp(150));
        }
    }
    checkpoint(&sim, &tables, 200, 10_000);
    let mut kept: Vec<FileNumber> = before.iter().map(|(_, file, _)| *file).collect();
    kept.pop();
    kept.remove(2);
    kept.remove(0);
    let after = runs(&sim, 0);
    assert_eq!(
        after.iter().map(|(_, file, _)| *file).collect::<Vec<_>>(),
        kept
    );
    assert!(after[0].0.is_empty());
    assert!(rows_of(&open(&sim)) == expected(&tables));
    // A new key in such a range changes the run that covers it.
    tables[0].put(&0_u64.to_be_bytes(), b"again", Stamp(250));
    checkpoint(&sim, &tables, 300, 10_000);
    assert!(rows_of(&open(&sim)) == expected(&tables));
    for key in 0..1000_u64 {
        tables[0].delete(&key.to_be_bytes(), Stamp(350));
    }
    checkpoint(&sim, &tables, 400, 10_000);
    assert_eq!(runs(&sim, 0), []);
    assert_eq!(files(&sim).len(), 1);
    assert!(rows_of(&open(&sim)) == <[Rows; 2]>::default());
}

/// Rows of any image are written as they come: a stamp that it cannot have ends it.
#[test]
fn a_row_above_the_stamp_is_refused() {
    let sim = SimDisk::new();
    create(&sim);
    let mut tables = Tables::default();
    let on_progress = &mut |_| ControlFlow::Continue(());
    tables[1].put(b"key", b"value", Stamp(101));
    let checkpoint = Checkpoint {
        stamp: 100,
        run_bytes: RUN_BYTES,
        on_progress,
    };
    let refused = write(&sim, &tables, checkpoint).map(drop).unwrap_err();
    assert!(
        matches!(
            refused,
            ImageError::RowStamp {
                table: TableId(1),
                ..
            }
        ),
        "{refused:?}"
    );
    assert_eq!(files(&sim), [""; 0]);
}

#[test]
fn progress_counts_what_is_written() {
    let (sim, mut tables) = with_runs();
    let total = runs(&sim, 0).len() as u64;
    tables[0].put(&500_u64.to_be_bytes(), b"", Stamp(150));
    tables[1].put(b"key", b"value", Stamp(150));
    let mut seen = BTreeMap::new();
    let mut last = ImageProgress::default();
    let on_progress = &mut |now: ImageProgress| {
        assert!(now.rows >= last.rows && now.bytes >= last.bytes);
        last = now;
        *seen.entry(now.tables).or_insert(0) += 1;
        ControlFlow::Continue(())
    };
    let checkpoint = Checkpoint {
        stamp: 200,
        run_bytes: 10_000,
        on_progress,
    };
    write(&sim, &tables, checkpoint).unwrap();
    assert_eq!(last.runs_kept, total - 1);
    assert_eq!(
        (last.tables, last.bytes),
        (2, (last.rows - 2) * 108 + 8 + 8)
    );
}
