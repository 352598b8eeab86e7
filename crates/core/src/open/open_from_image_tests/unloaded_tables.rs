//! Views of unloaded tables see the same as views of loaded ones.

use namiki_data::Key;
use namiki_index::Direction;
use namiki_platform::seeded_random::Random;
use std::ops::Bound;

use super::held_loading::HeldLoading;
use super::random_tables::{value, variable_key};
use super::*;
use crate::api::table::Table;
use crate::api::view::View;
use crate::protocol_spec::ProtocolSpec;
use crate::settings::builder::Builder;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

const SPECS: [&str; 4] = [
    "TT(NLR)+PWAL(1)",
    "SILO(ELR)+PWAL(4)",
    "TT(EPOCH)+PWAL(auto)",
    "S2PL(ELR)+PWAL(auto)+ARIES",
];

fn builder(sim: &SimDisk, spec: &str) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let spec: ProtocolSpec = spec.parse().unwrap();
    let builder = Database::builder().disk(disk).spec(spec);
    builder.checkpoint_at_close(None)
}

/// Changes, inserts and deletes rows, and some keys that are in no image.
fn change(db: &Database, models: &mut [Model; 2], random: &mut Random) {
    let fixed = db.table::<u64, [u8]>("fixed").unwrap();
    let variable = db.table::<[u8], [u8]>("variable").unwrap();
    for _ in 0..150 {
        let key = random.below(1500);
        let known = models[1].keys().nth(random.index(models[1].len().max(1)));
        let other = known.filter(|_| random.chance(0.6)).cloned();
        let other = other.unwrap_or_else(|| variable_key(random));
        if random.chance(0.3) {
            db.transact(|tx| {
                tx.delete(&fixed, &key)?;
                tx.delete(&variable, &*other)
            })
            .unwrap();
            models[0].remove(&key.to_be_bytes()[..]);
            models[1].remove(&other);
        } else {
            let value = value(random);
            db.transact(|tx| {
                tx.put(&fixed, &key, &value)?;
                tx.put(&variable, &*other, &value)
            })
            .unwrap();
            models[0].insert(key.to_be_bytes().to_vec(), value.clone());
            models[1].insert(other, value);
        }
    }
}

fn bound(
    random: &mut Random,
    model: &Model,
    make: &dyn Fn(&mut Random) -> Vec<u8>,
) -> Bound<Vec<u8>> {
    let known = model.keys().nth(random.index(model.len().max(1)));
    let key = known.filter(|_| random.chance(0.6)).cloned();
    let key = key.unwrap_or_else(|| make(random));
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// The rows within bounds, which may cross.
fn within(model: &Model, bounds: &Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = model.iter().filter(|(key, _)| {
        let above = match &bounds.0 {
            Bound::Unbounded => true,
            Bound::Included(start) => *key >= start,
            Bound::Excluded(start) => *key > start,
        };
        let below = match &bounds.1 {
            Bound::Unbounded => true,
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
        };
        above && below
    });
    rows.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn scanned(
    view: &View,
    raw_table: &RawTable,
    bounds: &Bounds,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let slice = |bound: &Bound<Vec<u8>>| bound.clone();
    let (start, end) = (slice(&bounds.0), slice(&bounds.1));
    let range = ScanRange {
        start: start.as_ref().map(|key| &key[..]),
        end: end.as_ref().map(|key| &key[..]),
        direction,
    };
    let mut found = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    };
    view.scan_bytes(raw_table, range, visit).unwrap();
    found
}

/// Compares every read of a view with a model.
fn check<K: Key + ?Sized>(
    view: &View,
    table: &Table<K, [u8]>,
    model: &Model,
    random: &mut Random,
    make: &dyn Fn(&mut Random) -> Vec<u8>,
) {
    let raw_table = table.raw_table();
    let get = |key: &[u8]| {
        let found = view.with_value(raw_table, key, |value| Ok(value.map(<[u8]>::to_vec)));
        found.unwrap()
    };
    for key in model.keys() {
        assert!(get(key).as_ref() == model.get(key), "{key:?}");
    }
    for _ in 0..200 {
        let key = make(random);
        assert!(get(&key).as_ref() == model.get(&key), "{key:?}");
    }
    let all: Vec<_> = within(model, &(Bound::Unbounded, Bound::Unbounded));
    assert_eq!(view.count(table, ..).unwrap(), model.len());
    for _ in 0..40 {
        let bounds = (bound(random, model, make), bound(random, model, make));
        let mut expected = within(model, &bounds);
        let found = scanned(view, raw_table, &bounds, Direction::Forward);
        assert!(found == expected, "{bounds:?}");
        expected.reverse();
        let found = scanned(view, raw_table, &bounds, Direction::Backward);
        assert!(found == expected, "{bounds:?}, back");
    }
    // From both ends at once, in steps that each begin anew.
    let mut rows = view.range(table, ..);
    let (mut first, mut last) = (0, all.len());
    while first < last {
        let is_first = random.chance(0.5);
        let row = if is_first {
            rows.next()
        } else {
            rows.next_back()
        };
        let (_, value) = row.unwrap().unwrap();
        let place = if is_first { first } else { last - 1 };
        assert!(*value == *all[place].1, "row {place}");
        if is_first { first += 1 } else { last -= 1 }
    }
    assert!(rows.next().is_none() && rows.next_back().is_none());
}

#[test]
fn a_view_of_unloaded_tables_sees_every_row() {
    for (seed, spec) in (0..).zip(SPECS) {
        println!("seed {seed}, {spec}");
        let random = &mut Random::seeded(seed);
        let sim = SimDisk::new();
        let mut models = <[Model; 2]>::default();
        let db = builder(&sim, spec).open(dir()).unwrap();
        for _ in 0..4 {
            change(&db, &mut models, random);
        }
        db.checkpoint().unwrap();
        change(&db, &mut models, random);
        let crashed = sim.crash_image(sim.events(), Loss::All);
        let held = HeldLoading::open(builder(&crashed, spec));
        assert!(held.recovery().replayed > 0);
        let fixed = held.table::<u64, [u8]>("fixed").unwrap();
        let variable = held.table::<[u8], [u8]>("variable").unwrap();
        let view = held.view().unwrap();
        let check_all = |view: &View, models: &[Model; 2], random: &mut Random| {
            let fixed_key = |random: &mut Random| random.below(1600).to_be_bytes().to_vec();
            check(view, &fixed, &models[0], random, &fixed_key);
            check(view, &variable, &models[1], random, &variable_key);
        };
        check_all(&view, &models, random);
        assert_eq!(held.loading().tables, 0, "{spec}");
        let mut rows = view.range(&variable, ..);
        assert!(rows.next().is_some());
        held.gate.open();
        held.wait_until_loaded().unwrap();
        check_all(&view, &models, random);
        let later = &mut models.clone();
        change(&held, later, random);
        // It sees its own moment, also for reads that began on an unloaded table.
        check_all(&view, &models, random);
        assert_eq!(rows.count(), models[1].len() - 1);
        check_all(&held.view().unwrap(), later, random);
        held.checkpoint().unwrap();
        check_all(&view, &models, random);
        check_all(&held.view().unwrap(), later, random);
    }
}

#[test]
fn a_scan_goes_on_after_its_image_was_replaced() {
    let sim = SimDisk::new();
    create(&sim);
    let tables = model(300);
    checkpoint(&sim, &tables, 100, 3000);
    let held = HeldLoading::open(builder(&sim, SPECS[0]));
    let table = held.table::<[u8], [u8]>("variable").unwrap();
    let rows = tables[1].rows().into_iter();
    let before: Vec<_> = rows.map(|(key, (value, _))| (key, value)).collect();
    let id = table.raw_table().id;
    let run_files = || {
        let image = list(&sim);
        let runs = image.table(id).map(|table| &table.runs).into_iter();
        let files = runs.flatten().map(|run| run.segment.file);
        files.collect::<BTreeSet<_>>()
    };
    let files_before = run_files();
    let mut found = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        if found.is_empty() {
            held.gate.open();
            held.wait_until_loaded().unwrap();
            for (key, _) in &before {
                held.transact(|tx| tx.put(&table, &**key, b"later"))
                    .unwrap();
            }
            held.checkpoint().unwrap();
        }
        found.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    };
    let view = held.view().unwrap();
    view.scan_bytes(table.raw_table(), ScanRange::all(), visit)
        .unwrap();
    assert!(found == before);
    assert!(files_before.len() > 2);
    assert!(files_before.is_disjoint(&run_files()));
    let there = files(&sim);
    for file in &files_before {
        assert!(!there.contains(&format!("{:08}.rows", file.0)));
    }
}

#[test]
fn keys_of_an_unloaded_table_without_order_are_found() {
    let sim = SimDisk::new();
    create(&sim);
    let tables = model(300);
    checkpoint(&sim, &tables, 100, 3000);
    let index: IndexKind = "hash".parse().unwrap();
    let held = HeldLoading::open(builder(&sim, SPECS[0]).index(index));
    let table = held.table::<[u8], [u8]>("variable").unwrap();
    let view = held.view().unwrap();
    for is_loaded in [false, true] {
        for (key, (value, _)) in tables[1].rows() {
            assert!(view.get(&table, &*key).unwrap().as_deref() == Some(&*value));
            assert!(
                !view
                    .contains_key(&table, &[&key[..], b"?"].concat()[..])
                    .unwrap()
            );
        }
        let refused = view.scan(&table, ..).unwrap_err();
        assert!(
            matches!(refused, crate::error::Error::Unordered { .. }),
            "{is_loaded}"
        );
        held.gate.open();
        held.wait_until_loaded().unwrap();
    }
}

#[test]
fn bad_keys_are_refused_before_and_after_loading() {
    let sim = SimDisk::new();
    create(&sim);
    checkpoint(&sim, &model(20), 100, 3000);
    let held = HeldLoading::on_one_thread(&sim);
    let fixed = held.table::<u64, [u8]>("fixed").unwrap();
    let view = held.view().unwrap();
    let refused = || {
        let refused = view.with_value(fixed.raw_table(), b"short", |_| Ok(()));
        refused.unwrap_err().to_string()
    };
    let before = refused();
    assert!(before.contains("8 bytes"), "{before}");
    held.gate.open();
    held.wait_until_loaded().unwrap();
    assert_eq!(refused(), before);
}
