//! A replica as a database: views, deleted keys, dropped tables, images.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use namiki::disk::{Disk, MemoryDisk};
use namiki::replica::{HeldLocks, LockError, Replica, ReplicaError, ReplicaView, check_table_name};
use namiki::{Database, Error, Stamp, TableId};
use namiki_index::contract::announce;
use namiki_platform::seeded_random::Random;

use super::*;

/// The bytes of records and indexes.
fn table_bytes(replica: &Replica) -> usize {
    let tables = replica.database().stats().tables;
    let bytes = tables.iter().map(|it| it.index_bytes + it.record_bytes);
    bytes.sum()
}

fn delete(replica: &Arc<Replica>, stamp: u64, table: TableId, key: &[u8]) {
    let mut group = replica.begin_group();
    let slot = group.lock(table, key).unwrap();
    group.write(slot, None).unwrap();
    let changes = changes_of(&group);
    group.seal().install(Stamp(stamp), &changes).unwrap();
}

#[test]
fn deleted_keys_and_refused_commands_leave_nothing() {
    let (leader, follower) = (replica(), replica());
    let mut bytes = 0;
    for round in 0..200_u64 {
        // Other keys each time: 50 are inserted and deleted, 50 were only asked for, by commands and by a group that is given up.
        let keys: Vec<_> = (0..100)
            .map(|key| (round * 100 + key).to_be_bytes())
            .collect();
        let mut changes = [Vec::new(), Vec::new()];
        for (half, value) in [Some(&b"12345678"[..]), None].into_iter().enumerate() {
            let mut group = leader.begin_group();
            for key in &keys[..50] {
                let slot = group.lock(ACCOUNTS, key).unwrap();
                group.write(slot, value).unwrap();
            }
            for key in &keys[50..75] {
                group.begin_command();
                let slot = group.lock(ACCOUNTS, key).unwrap();
                assert_eq!(group.value(slot), None);
                if round % 2 == 0 {
                    group.undo_command();
                }
            }
            group.encode_changes(&mut changes[half]);
            let stamp = Stamp(2 * round + half as u64 + 1);
            group.seal().install(stamp, &changes[half]).unwrap();
            follower.apply(stamp, &changes[half]).unwrap();
        }
        let mut given_up = leader.begin_group();
        for key in &keys[75..] {
            write(&mut given_up, ACCOUNTS, key, b"12345678");
        }
        drop((round % 2 == 0).then(|| given_up.seal()));
        for replica in [&leader, &follower] {
            while replica.take_out_removed(64) > 0 {}
            assert_eq!(replica.removed_waiting(), 0);
        }
        if round == 20 {
            bytes = table_bytes(&leader).max(table_bytes(&follower));
        }
    }
    assert!(table_bytes(&leader) <= bytes && table_bytes(&follower) <= bytes);
    assert_eq!(hash_of(&leader), hash_of(&follower));
}

#[test]
fn a_view_keeps_deleted_keys_in_the_index() {
    let replica = replica();
    install(&replica, 1, &[(NOTES, b"a", b"1"), (NOTES, b"b", b"2")]);
    let view = replica.view().unwrap();
    let before = rows(&replica);
    delete(&replica, 2, NOTES, b"a");
    assert_eq!(replica.take_out_removed(10), 0);
    assert_eq!(rows_of(&view), before);
    assert_eq!(view.stamp(), Stamp(1));
    drop(view);
    assert_eq!(replica.take_out_removed(10), 1);
    assert_eq!(replica.removed_waiting(), 0);
    assert_eq!(read(&replica, NOTES, b"a"), None);
    install(&replica, 3, &[(NOTES, b"a", b"3")]);
    assert_eq!(read(&replica, NOTES, b"a"), Some(b"3".to_vec()));
}

/// A record that a group has looked up becomes another key's before it is locked.
#[test]
fn a_reused_record_is_not_taken_for_its_old_key() {
    for by in 0..3 {
        let replica = replica();
        install(&replica, 1, &[(NOTES, b"a", b"1"), (NOTES, b"z", b"9")]);
        let mut group = replica.begin_group();
        group.look_up(NOTES, &[b"a", b"z"]);
        delete(&replica, 2, NOTES, b"a");
        assert_eq!(replica.take_out_removed(10), 1);
        let mut other = replica.begin_group();
        match by {
            0 => {}
            // The record of `a` is that of `b` now, and locked by another group or by this one.
            1 => drop(write(&mut other, NOTES, b"b", b"2")),
            _ => drop(write(&mut group, NOTES, b"b", b"2")),
        }
        let slot = group.lock(NOTES, b"a").unwrap();
        assert_eq!(group.value(slot), None, "{by}");
        group.write(slot, Some(b"3")).unwrap();
        let changes = changes_of(&group);
        group.seal().install(Stamp(3), &changes).unwrap();
        assert_eq!(read(&replica, NOTES, b"a"), Some(b"3".to_vec()));
        let expected = (by == 2).then(|| b"2".to_vec());
        assert_eq!(read(&replica, NOTES, b"b"), expected, "{by}");
    }
}

/// Groups delete and insert few keys while another thread installs and takes keys out: each row counts the groups that
/// have written it, and a group sees what the last one has left.
#[test]
fn groups_beside_the_removal_lose_no_change() {
    const KEYS: u64 = 6;
    let replica = replica();
    let (sender, sealed) = mpsc::channel::<(HeldLocks, Vec<u8>)>();
    let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        let (replica, written) = (&replica, &written);
        for seed in 0..3 {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut random = Random::seeded(seed);
                let mut left = 4000;
                while left > 0 {
                    let mut group = replica.begin_group();
                    let key = random.below(KEYS);
                    let bytes = key.to_be_bytes();
                    group.look_up(ACCOUNTS, &[&bytes]);
                    let Ok(slot) = group.lock(ACCOUNTS, &bytes) else {
                        thread::yield_now();
                        continue;
                    };
                    let count = written[key as usize].fetch_add(1, Ordering::Relaxed);
                    // Every third version is a deletion.
                    let expected = (count % 3 != 0).then(|| count.to_le_bytes());
                    assert_eq!(group.value(slot), expected.as_ref().map(|it| &it[..]));
                    let next = count + 1;
                    let next = (next % 3 != 0).then(|| next.to_le_bytes());
                    group.write(slot, next.as_ref().map(|it| &it[..])).unwrap();
                    let changes = changes_of(&group);
                    sender.send((group.seal(), changes)).unwrap();
                    left -= 1;
                }
            });
        }
        drop(sender);
        scope.spawn(move || {
            for (stamp, (held, changes)) in (1..).zip(sealed) {
                held.install(Stamp(stamp), &changes).unwrap();
                replica.take_out_removed(4);
            }
        });
    });
    while replica.take_out_removed(100) > 0 {}
    assert_eq!(replica.removed_waiting(), 0);
    for (key, count) in written.iter().enumerate() {
        let count = count.load(Ordering::Relaxed);
        let expected = (count % 3 != 0).then(|| count.to_le_bytes().to_vec());
        assert_eq!(
            read(&replica, ACCOUNTS, &(key as u64).to_be_bytes()),
            expected
        );
    }
}

#[test]
fn what_was_executed_before_a_drop_changes_nothing_after() {
    let (leader, follower) = (replica(), replica());
    for replica in [&leader, &follower] {
        install(
            replica,
            1,
            &[(NOTES, b"a", b"1"), (ACCOUNTS, b"account1", b"one")],
        );
    }
    let before = rows(&leader);
    let view = leader.view().unwrap();
    let (mut group, mut unsealed) = (leader.begin_group(), leader.begin_group());
    write(&mut group, ACCOUNTS, b"account1", b"two");
    write(&mut group, NOTES, b"a", b"2");
    write(&mut group, NOTES, b"b", b"2");
    write(&mut group, ACCOUNTS, b"account2", b"two");
    write(&mut unsealed, NOTES, b"c", b"3");
    let changes = changes_of(&group);
    let held = group.seal();
    for replica in [&leader, &follower] {
        assert!(replica.drop_table(NOTES).is_some());
        assert!(replica.drop_table(NOTES).is_none());
        assert!(
            replica.drop_table(TableId(0)).is_none(),
            "it is the cluster's own"
        );
        assert_eq!(replica.table_id("notes"), None);
        let next = replica.create_table("notes", false).unwrap();
        assert_eq!(next, TableId(3), "numbers are not used again");
    }
    // A group that is open finds the table gone with its next command.
    unsealed.begin_command();
    assert_eq!(
        unsealed.lock(NOTES, b"a"),
        Err(LockError::NoSuchTable(NOTES))
    );
    assert_eq!(held.install(Stamp(2), &changes).unwrap().rows, 2);
    assert_eq!(follower.apply(Stamp(2), &changes).unwrap().rows, 2);
    for replica in [&leader, &follower] {
        assert_eq!(read(replica, ACCOUNTS, b"account1"), Some(b"two".to_vec()));
        assert_eq!(read(replica, ACCOUNTS, b"account2"), Some(b"two".to_vec()));
        assert_eq!(read(replica, TableId(3), b"a"), None);
        let gone = replica.read(NOTES, b"a", &mut Vec::new());
        assert_eq!(gone, Err(ReplicaError::NoSuchTable(NOTES)));
    }
    assert_eq!(hash_of(&leader), hash_of(&follower));
    // The view was opened before, and the open group has a row of the table.
    assert_eq!(rows_of(&view), before);
    drop(view);
    drop(unsealed);
    // A table that was never made is another matter.
    let never = [4, 1, 2, 1, b'a', b'1'];
    let refused = follower.apply(Stamp(3), &never);
    assert_eq!(refused, Err(ReplicaError::NoSuchTable(TableId(4))));
}

/// A leader and a follower clear a table between a group's execution and its entry.
#[test]
fn a_cleared_table_has_no_row_of_earlier_groups() {
    let (leader, follower) = (replica(), replica());
    for replica in [&leader, &follower] {
        install(replica, 1, &[(NOTES, b"a", b"1"), (NOTES, b"b", b"1")]);
    }
    let before = rows(&leader);
    let view = leader.view().unwrap();
    let (mut group, mut unsealed) = (leader.begin_group(), leader.begin_group());
    write(&mut group, ACCOUNTS, b"account1", b"two");
    write(&mut group, NOTES, b"a", b"2");
    write(&mut group, NOTES, b"new", b"2");
    write(&mut unsealed, NOTES, b"c", b"3");
    let changes = changes_of(&group);
    let held = group.seal();
    let successor = TableId(3);
    for replica in [&leader, &follower] {
        let (new, _) = replica.clear_table(NOTES).unwrap();
        assert_eq!(new, successor, "numbers are not used again");
        assert!(replica.clear_table(NOTES).is_none(), "by another attempt");
        assert!(replica.clear_table(TableId(0)).is_none());
        assert_eq!(replica.table_id("notes"), Some(successor));
        let tables = replica.tables();
        assert_eq!((tables[1].id, &*tables[1].name), (successor, "notes"));
        assert!(!tables[1].fixed_keys);
    }
    // A group that is open finds the table gone with its next command, and may use the one in its place.
    unsealed.begin_command();
    let gone = unsealed.lock(NOTES, b"a");
    assert_eq!(gone, Err(LockError::NoSuchTable(NOTES)));
    unsealed.lock(successor, b"a").unwrap();
    assert_eq!(held.install(Stamp(2), &changes).unwrap().rows, 1);
    assert_eq!(follower.apply(Stamp(2), &changes).unwrap().rows, 1);
    drop(unsealed);
    for replica in [&leader, &follower] {
        for key in [&b"a"[..], b"b", b"new"] {
            assert_eq!(read(replica, successor, key), None);
        }
        install(replica, 3, &[(successor, b"a", b"3")]);
        assert_eq!(read(replica, successor, b"a"), Some(b"3".to_vec()));
    }
    assert_eq!(hash_of(&leader), hash_of(&follower));
    assert_eq!(rows_of(&view), before);
}

#[test]
fn a_replica_takes_no_transactions_of_its_own() {
    let replica = replica();
    let db = replica.database();
    assert!(matches!(db.begin(), Err(Error::ReadOnly)));
    assert!(matches!(db.drop_table("notes"), Err(Error::ReadOnly)));
    assert!(db.table::<u64, u64>("new").is_err());
    // Queries and views read it.
    install(&replica, 1, &[(NOTES, b"a", b"1")]);
    let notes = db.untyped_table("notes").unwrap().unwrap();
    let view = db.view().unwrap();
    install(&replica, 2, &[(NOTES, b"a", b"2")]);
    let row = view
        .with_row(&notes, b"a", |row| row.map(<[u8]>::to_vec))
        .unwrap();
    assert_eq!(row, Some(b"1".to_vec()));
}

/// An image is written while later groups are applied; the replica that is opened from it has the state of its entry, and
/// comes to the same as the others by the rest of the groups.
#[test]
fn a_replica_begins_with_its_image() {
    for seed in 0..40 {
        let _announcement = announce("a_replica_begins_with_its_image", seed);
        let mut random = Random::seeded(seed);
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let open = || {
            let builder = Database::builder().disk(Arc::clone(&disk));
            Replica::open(builder, "/replica").unwrap()
        };
        let other = replica();
        let mut one = open();
        let mut log: Vec<(Stamp, Step)> = Vec::new();
        // Entries 1 and 2.
        for (at, name) in ["accounts", "notes"].into_iter().enumerate() {
            one.create_table(name, at == 0).unwrap();
            one.pass(Stamp(at as u64 + 1)).unwrap();
            other.pass(Stamp(at as u64 + 1)).unwrap();
            log.push((Stamp(at as u64 + 1), Step::Create(name.to_owned())));
        }
        let mut stamp = 2;
        for _ in 0..4 {
            let mut image: Option<ReplicaView> = None;
            let mut expected = None;
            for at in 0..20 {
                stamp += 1;
                let step = any_step(&other, &mut random);
                step.take(&one, Stamp(stamp));
                step.take(&other, Stamp(stamp));
                log.push((Stamp(stamp), step));
                one.take_out_removed(5);
                if at == 9 {
                    let number = stamp.to_le_bytes();
                    let gone: &[u8] = &[seed as u8];
                    one.put_reserved([(&b"stamp"[..], Some(&number[..])), (gone, None)]);
                    image = Some(one.view_for_image().unwrap());
                    expected = Some((rows(&other), hash_of(&one), number.to_vec()));
                }
            }
            let view = image.unwrap();
            let then = view.stamp();
            if random.chance(0.2) {
                // It is given up at some point.
                let refused = one.write_image(view, |_| false);
                assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
                continue;
            }
            let report = one.write_image(view, |_| true).unwrap();
            assert_eq!(report.stamp, then);
            drop(one);
            one = open();
            assert_eq!(one.applied_through(), then);
            let (then_rows, then_hash, number) = expected.unwrap();
            assert_eq!(rows(&one), then_rows);
            assert_eq!(hash_of(&one), then_hash);
            let mut reserved = Vec::new();
            let view = one.view().unwrap();
            let note = |key: &[u8], value: &[u8]| reserved.push((key.to_vec(), value.to_vec()));
            view.reserved(note).unwrap();
            assert_eq!(reserved, [(b"stamp".to_vec(), number)]);
            drop(view);
            for (stamp, step) in log.iter().filter(|(stamp, _)| *stamp > then) {
                step.take(&one, *stamp);
            }
            assert_eq!(rows(&one), rows(&other));
            assert_eq!(one.tables(), other.tables());
            assert_eq!(hash_of(&one), hash_of(&other));
        }
    }
}

/// An entry of the log.
enum Step {
    Create(String),
    Drop(String),
    Clear(String),
    Changes(Vec<u8>),
}

impl Step {
    fn take(&self, replica: &Replica, stamp: Stamp) {
        match self {
            Self::Create(name) => {
                replica.create_table(name, name == "accounts").unwrap();
            }
            Self::Drop(name) => {
                let id = replica.table_id(name).unwrap();
                assert!(replica.drop_table(id).is_some());
            }
            Self::Clear(name) => {
                let id = replica.table_id(name).unwrap();
                assert!(replica.clear_table(id).is_some());
            }
            Self::Changes(changes) => {
                replica.apply(stamp, changes).unwrap();
                return;
            }
        }
        replica.pass(stamp).unwrap();
    }
}

fn any_step(replica: &Arc<Replica>, random: &mut Random) -> Step {
    let tables = replica.tables();
    if random.chance(0.1) {
        let name = format!("more {}", random.below(3));
        let is_there = tables.iter().any(|it| it.name == name);
        return if is_there && random.chance(0.5) {
            Step::Clear(name)
        } else if is_there {
            Step::Drop(name)
        } else {
            Step::Create(name)
        };
    }
    let mut group = replica.begin_group();
    for _ in 0..random.below(12) {
        let table = tables[random.index(tables.len())].id;
        let key = match table {
            ACCOUNTS => random.below(12).to_be_bytes().to_vec(),
            _ => vec![random.below(3) as u8; random.index(4)],
        };
        let slot = group.lock(table, &key).unwrap();
        group.write(slot, any_value(random).as_deref()).unwrap();
    }
    Step::Changes(changes_of(&group))
}

/// The key has left the index when the second image is written, and nothing else has changed.
#[test]
fn a_deleted_key_is_not_in_the_next_image() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let open = || {
        let builder = Database::builder().disk(Arc::clone(&disk));
        Arc::new(Replica::open(builder, "/replica").unwrap())
    };
    let replica = open();
    let notes = replica.create_table("notes", false).unwrap();
    install(&replica, 1, &[(notes, b"a", b"1"), (notes, b"b", b"2")]);
    let write_image = || {
        let view = replica.view_for_image().unwrap();
        replica.write_image(view, |_| true).unwrap()
    };
    assert_eq!(write_image().rows, 2);
    delete(&replica, 2, notes, b"a");
    assert_eq!(replica.take_out_removed(10), 1);
    assert_eq!(write_image().stamp, Stamp(2));
    drop(replica);
    let replica = open();
    assert_eq!(read(&replica, notes, b"a"), None);
    assert_eq!(read(&replica, notes, b"b"), Some(b"2".to_vec()));
}

/// Groups that are not used for long keep no table that is gone.
#[test]
fn a_dropped_table_leaves_memory() {
    let replica = replica();
    for stamp in 1..=3 {
        install(&replica, stamp, &[(NOTES, b"a", &[7; 100_000])]);
    }
    let mut open = replica.begin_group();
    write(&mut open, NOTES, b"b", b"1");
    let held = open.seal();
    let dropped = replica.drop_table(NOTES).unwrap();
    assert!(dropped.is_used(), "a group has locks");
    drop(held);
    assert!(!dropped.is_used());
}

#[test]
fn clients_have_no_table_of_the_clusters_own_name() {
    let replica = replica();
    let taken = replica.create_table("namiki.replica", false);
    assert!(
        matches!(taken, Err(ReplicaError::TableName { .. })),
        "{taken:?}"
    );
    assert_eq!(replica.create_table("other", true), Ok(TableId(3)));
    for name in ["", "namiki.other", "namiki.replica", "a\nb"] {
        assert!(check_table_name(name).is_err(), "{name}");
    }
    assert_eq!(check_table_name("notes"), Ok(()));
}

/// A node applies what follows its image at once.
#[test]
fn a_replica_is_used_as_soon_as_it_is_open() {
    const ROWS: u64 = 100_000;
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let open = || {
        let builder = Database::builder().disk(Arc::clone(&disk));
        Arc::new(Replica::open(builder, "/replica").unwrap())
    };
    let replica = open();
    let table = replica.create_table("accounts", true).unwrap();
    let mut group = replica.begin_group();
    for row in 0..ROWS {
        write(&mut group, table, &row.to_be_bytes(), &row.to_le_bytes());
    }
    let changes = changes_of(&group);
    group.seal().install(Stamp(1), &changes).unwrap();
    replica
        .write_image(replica.view_for_image().unwrap(), |_| true)
        .unwrap();
    drop(replica);
    let replica = open();
    let mut group = replica.begin_group();
    let last = (ROWS - 1).to_be_bytes();
    assert!(group.lock_existing(table, &last).unwrap().is_some());
    write(&mut group, table, &ROWS.to_be_bytes(), b"12345678");
    let changes = changes_of(&group);
    group.seal().install(Stamp(2), &changes).unwrap();
    assert_eq!(rows(&replica).len() as u64, ROWS + 1);
}

#[test]
fn views_read_the_image_before_tables_are_loaded() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let builder = || Database::builder().disk(Arc::clone(&disk));
    let rows = [
        (NOTES, &b"a"[..], &b"1"[..]),
        (NOTES, b"b", b"2"),
        (NOTES, b"c", b"3"),
    ];
    {
        let replica = Replica::open(builder(), "/replica").unwrap();
        replica.create_table("accounts", true).unwrap();
        replica.create_table("notes", false).unwrap();
        let replica = Arc::new(replica);
        install(&replica, 1, &rows);
        let view = replica.view_for_image().unwrap();
        replica.write_image(view, |_| true).unwrap();
    }
    let (open, held) = mpsc::channel::<()>();
    let held = parking_lot::Mutex::new(held);
    // It goes on when the sender is gone.
    let before_load = Arc::new(move |_: &str| {
        let _ = held.lock().recv();
    });
    let builder = builder().before_load(before_load);
    let replica = Replica::open_unloaded(builder, "/replica").unwrap();
    assert!(replica.began_with_tables());
    let check = |view: &ReplicaView| {
        let mut found = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() < 2 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let after_a = (Bound::Excluded(&b"a"[..]), Bound::Unbounded);
        view.rows(NOTES, after_a, visit).unwrap();
        let expected = rows[1..].iter();
        let expected = expected.map(|(_, key, value)| (key.to_vec(), value.to_vec()));
        assert!(found.into_iter().eq(expected));
        let mut value = b"of the row before".to_vec();
        assert!(view.read(NOTES, b"b", &mut value).unwrap());
        assert_eq!(value, b"2");
        assert!(!view.read(NOTES, b"d", &mut value).unwrap() && value.is_empty());
        // The table cannot hold the key.
        assert!(!view.read(ACCOUNTS, b"a", &mut value).unwrap());
        for unknown in [TableId(0), TableId(3)] {
            let read = view.read(unknown, b"a", &mut value);
            assert!(matches!(read, Err(Error::NoSuchTable { .. })), "{read:?}");
        }
        assert_eq!(view.stamp(), Stamp(1));
    };
    let view = replica.view().unwrap();
    check(&view);
    drop(open);
    replica.wait_until_loaded().unwrap();
    check(&view);
    check(&replica.view().unwrap());
    let replica = Arc::new(replica);
    install(&replica, 2, &[(NOTES, b"b", b"4")]);
    check(&view);
}
