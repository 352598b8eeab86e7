//! Groups of commands: their locks, their changes, and what applying them does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use namiki::replica::{
    GroupTransaction, HeldLocks, LockError, Replica, ReplicaError, ReplicaView, Slot, WriteError,
};
use namiki::{Stamp, TableId};
use namiki_index::contract::announce;
use namiki_platform::seeded_random::Random;

use super::*;

#[test]
fn rows_that_never_were_are_not_made() {
    let replica = replica();
    install(&replica, 1, &[(NOTES, b"a", b"1")]);
    let (mut first, mut second) = (replica.begin_group(), replica.begin_group());
    assert_eq!(first.lock_existing(NOTES, b"b").unwrap(), None);
    assert!(first.is_empty());
    // So another group meets no lock of it.
    let made = write(&mut second, NOTES, b"b", b"2");
    assert_eq!(first.lock_existing(NOTES, b"b"), Err(LockError::Conflict));
    assert_eq!(second.lock_existing(NOTES, b"b").unwrap(), Some(made));
    let there = first.lock_existing(NOTES, b"a").unwrap().unwrap();
    assert_eq!(first.value(there), Some(&b"1"[..]));
}

#[test]
fn groups_exclude_each_other_and_not_themselves() {
    let replica = replica();
    install(&replica, 1, &[(NOTES, b"a", b"1")]);
    let (mut first, mut second) = (replica.begin_group(), replica.begin_group());
    for key in [&b"a"[..], b"not there"] {
        let slot = first.lock(NOTES, key).unwrap();
        first.begin_command();
        assert_eq!(first.lock(NOTES, key), Ok(slot));
        assert_eq!(second.lock(NOTES, key), Err(LockError::Conflict));
    }
    assert_eq!(first.rows(), 2);
    // The group that was sealed holds them, too.
    let held = first.seal();
    assert_eq!(second.lock(NOTES, b"a"), Err(LockError::Conflict));
    assert!(second.is_empty());
    held.release();
    let slot = second.lock(NOTES, b"a").unwrap();
    assert_eq!(second.value(slot), Some(&b"1"[..]));
    drop(second);
    assert!(replica.begin_group().lock(NOTES, b"a").is_ok());
}

#[test]
fn a_group_reads_its_own_writes_and_others_do_not() {
    let replica = replica();
    install(&replica, 1, &[(NOTES, b"a", b"before")]);
    let mut group = replica.begin_group();
    let slot = group.lock(NOTES, b"a").unwrap();
    assert_eq!(group.value(slot), Some(&b"before"[..]));
    let long = [7; 1000];
    for value in [Some(&b"after!"[..]), Some(b""), None, Some(&long)] {
        group.begin_command();
        group.write(slot, value).unwrap();
        assert_eq!(group.value(slot), value);
        assert_eq!(read(&replica, NOTES, b"a"), Some(b"before".to_vec()));
    }
    let changes = changes_of(&group);
    let applied = group.seal().install(Stamp(2), &changes).unwrap();
    assert_eq!(applied.rows, 1);
    assert_eq!(read(&replica, NOTES, b"a"), Some(long.to_vec()));
    assert_eq!(replica.applied_through(), Stamp(2));
}

#[test]
fn undo_releases_only_what_the_command_locked() {
    let replica = replica();
    install(&replica, 1, &[(NOTES, b"a", b"old"), (NOTES, b"b", b"old")]);
    let mut group = replica.begin_group();
    let kept = write(&mut group, NOTES, b"a", b"of the first command");
    let before = changes_of(&group);
    group.begin_command();
    assert_eq!(write(&mut group, NOTES, b"a", b"again"), kept);
    write(&mut group, NOTES, b"a", b"and again, longer");
    group.write(kept, None).unwrap();
    write(&mut group, NOTES, b"b", b"new");
    write(&mut group, NOTES, b"c", b"new");
    group.undo_command();
    assert_eq!(group.value(kept), Some(&b"of the first command"[..]));
    assert_eq!(changes_of(&group), before);
    assert_eq!(group.rows(), 1);
    let mut other = replica.begin_group();
    assert_eq!(other.lock(NOTES, b"a"), Err(LockError::Conflict));
    for (key, value) in [(b"b", Some(&b"old"[..])), (b"c", None)] {
        let slot = other.lock(NOTES, key).unwrap();
        assert_eq!(other.value(slot), value);
    }
    // The retried command undoes its own writes, too.
    drop(other);
    write(&mut group, NOTES, b"a", b"once more");
    group.undo_command();
    assert_eq!(changes_of(&group), before);
}

#[test]
fn only_written_rows_are_changes() {
    let replica = replica();
    install(&replica, 1, &[(NOTES, b"a", b"1"), (NOTES, b"b", b"2")]);
    let mut group = replica.begin_group();
    group.lock(NOTES, b"a").unwrap();
    assert!(changes_of(&group).is_empty());
    write(&mut group, NOTES, b"b", b"3");
    group.lock(NOTES, b"c").unwrap();
    let changes = changes_of(&group);
    let held = group.seal();
    assert_eq!(held.len(), 3);
    assert_eq!(held.install(Stamp(2), &changes).unwrap().rows, 1);
    let mut next = replica.begin_group();
    for key in [b"a", b"b", b"c"] {
        next.lock(NOTES, key).unwrap();
    }
    let expected = [(b"a", b"1", 1), (b"b", b"3", 2)]
        .map(|(k, v, stamp)| ((NOTES, k.to_vec()), (v.to_vec(), Stamp(stamp))));
    assert_eq!(rows(&replica), Rows::from(expected));
}

#[test]
fn a_group_of_transfers_takes_sixteen_bytes_a_row() {
    let replica = replica();
    let mut group = replica.begin_group();
    for account in 0..1000_u64 {
        write(&mut group, ACCOUNTS, &account.to_be_bytes(), &[1; 8]);
        group.begin_command();
    }
    let bytes = changes_of(&group).len();
    assert!((16_000..16_010).contains(&bytes), "{bytes}");
}

#[test]
fn locks_of_another_group_are_not_taken() {
    let replica = replica();
    let mut group = replica.begin_group();
    write(&mut group, NOTES, b"a", b"1");
    let changes = changes_of(&group);
    let error = replica.begin_group().seal().install(Stamp(1), &changes);
    let (changes, locked) = (1, 0);
    assert_eq!(error, Err(ReplicaError::OtherGroup { changes, locked }));
    assert_eq!(rows(&replica), Rows::new());
}

#[test]
fn keys_and_values_that_do_not_fit_are_refused() {
    let replica = replica();
    let mut group = replica.begin_group();
    let nowhere = TableId(5);
    let no_table = LockError::NoSuchTable(nowhere);
    assert_eq!(group.lock(nowhere, b"a"), Err(no_table));
    for (table, len_bytes) in [(ACCOUNTS, 7), (ACCOUNTS, 9), (NOTES, 65_537)] {
        let refused = LockError::KeyLength { table, len_bytes };
        assert_eq!(group.lock(table, &vec![0; len_bytes]), Err(refused));
    }
    group.look_up(nowhere, &[b"a"]);
    group.look_up(ACCOUNTS, &[b"a"]);
    assert!(group.is_empty());
    let slot = group.lock(NOTES, &vec![0; 65_536]).unwrap();
    let too_long = vec![0; (1 << 30) + 1];
    let error = group.write(slot, Some(&too_long)).unwrap_err();
    assert!(matches!(error, WriteError::ValueTooLong { .. }));
    let mut value = Vec::new();
    assert_eq!(
        replica.read(nowhere, b"a", &mut value),
        Err(ReplicaError::NoSuchTable(nowhere))
    );
    assert_eq!(replica.read(ACCOUNTS, b"a", &mut value), Ok(false));
}

#[test]
fn a_table_is_created_once() {
    let replica = replica();
    assert_eq!(replica.create_table("notes", false), Ok(NOTES));
    let taken = ReplicaError::TableExists {
        id: NOTES,
        name: "notes".to_owned(),
    };
    assert_eq!(replica.create_table("notes", true), Err(taken));
    assert_eq!(replica.table_id("accounts"), Some(ACCOUNTS));
    assert_eq!(replica.table_id("other"), None);
    let tables = replica.tables();
    let names: Vec<_> = tables.iter().map(|it| (it.id, &*it.name)).collect();
    assert_eq!(names, [(ACCOUNTS, "accounts"), (NOTES, "notes")]);
}

#[test]
fn groups_are_applied_in_the_order_of_their_stamps() {
    let replica = replica();
    replica.apply(Stamp(5), &[]).unwrap();
    for stamp in [0, 4, 5] {
        let stamp = Stamp(stamp);
        let applied = Stamp(5);
        let refused = Err(ReplicaError::NotInOrder { stamp, applied });
        assert_eq!(replica.apply(stamp, &[]), refused);
    }
    let too_large = Stamp(1 << 48);
    let refused = Err(ReplicaError::StampTooLarge(too_large));
    assert_eq!(replica.apply(too_large, &[]), refused);
    replica.apply(Stamp::MAX, &[]).unwrap();
}

#[test]
fn the_state_hash_tells_states_apart() {
    let mut hashes = BTreeSet::new();
    let mut hash = |rows: &[(TableId, &[u8], &[u8])], stamp: u64| {
        let replica = replica();
        install(&replica, stamp, rows);
        let hash = hash_of(&replica);
        hashes.insert(hash);
        (hash, hashes.len())
    };
    let rows: [&[(TableId, &[u8], &[u8])]; 7] = [
        &[],
        &[(NOTES, b"a", b"bc")],
        &[(NOTES, b"ab", b"c")],
        &[(NOTES, b"abc", b"")],
        &[(NOTES, b"a", b"bc"), (NOTES, b"", b"")],
        &[(NOTES, b"12345678", b"a")],
        &[(ACCOUNTS, b"12345678", b"a")],
    ];
    for (at, rows) in rows.iter().enumerate() {
        assert_eq!(hash(rows, 1).1, at + 1);
    }
    let (of_two, count) = hash(&[(NOTES, b"a", b"x"), (NOTES, b"b", b"y")], 1);
    let in_another_order = hash(&[(NOTES, b"b", b"y"), (NOTES, b"a", b"x")], 1);
    assert_eq!(in_another_order, (of_two, count));
    assert_eq!(
        hash(&[(NOTES, b"a", b"x"), (NOTES, b"b", b"y")], 2).1,
        count + 1
    );
}

/// A sealed group: its changes, and their effect.
struct Sealed {
    held: HeldLocks,
    changes: Vec<u8>,
    writes: BTreeMap<(TableId, Vec<u8>), Option<Vec<u8>>>,
    locked: BTreeSet<(TableId, Vec<u8>)>,
}

/// An open group and its expected state.
struct Open {
    group: GroupTransaction,
    writes: BTreeMap<(TableId, Vec<u8>), Option<Vec<u8>>>,
    locked: BTreeSet<(TableId, Vec<u8>)>,
}

fn any_key(random: &mut Random) -> (TableId, Vec<u8>) {
    if random.chance(0.5) {
        (ACCOUNTS, random.below(12).to_be_bytes().to_vec())
    } else {
        let len = random.index(4);
        (NOTES, vec![random.below(3) as u8; len])
    }
}

/// Several groups are open at a time; some are abandoned, the others applied, here by their locks and on another replica
/// by their bytes. Keys leave the indexes in between, and views are read much later. A map of all rows is the model.
#[test]
fn groups_do_what_a_map_does() {
    for seed in 0..300 {
        let _announcement = announce("groups_do_what_a_map_does", seed);
        let mut random = Random::seeded(seed);
        let (leader, follower) = (replica(), replica());
        let mut model = Rows::new();
        let mut open: Vec<Open> = Vec::new();
        let mut sealed: Vec<Sealed> = Vec::new();
        let mut views: Vec<(ReplicaView, Rows)> = Vec::new();
        let mut stamp = 0;
        for _ in 0..160 {
            match random.below(13) {
                10 => {
                    for replica in [&leader, &follower] {
                        replica.take_out_removed(random.index(4));
                    }
                }
                11 if views.len() < 6 => {
                    let replica = [&leader, &follower][random.index(2)];
                    views.push((replica.view().unwrap(), model.clone()));
                }
                12 if !views.is_empty() => {
                    let at = random.index(views.len());
                    let (view, then) = views.swap_remove(at);
                    assert_eq!(rows_of(&view), then);
                }
                0..2 if open.len() < 3 => open.push(Open {
                    group: leader.begin_group(),
                    writes: BTreeMap::new(),
                    locked: BTreeSet::new(),
                }),
                0..7 if !open.is_empty() => {
                    let at = random.index(open.len());
                    let mut one = open.swap_remove(at);
                    let others = open.iter().map(|it| &it.locked);
                    let others: Vec<_> = others.chain(sealed.iter().map(|it| &it.locked)).collect();
                    command(&mut one, &others, &model, &mut random);
                    open.push(one);
                }
                7 if !open.is_empty() => {
                    let at = random.index(open.len());
                    let one = open.swap_remove(at);
                    if random.chance(0.7) {
                        let mut changes = Vec::new();
                        one.group.encode_changes(&mut changes);
                        sealed.push(Sealed {
                            held: one.group.seal(),
                            changes,
                            writes: one.writes,
                            locked: one.locked,
                        });
                    }
                }
                _ if !sealed.is_empty() => {
                    // They lock different rows, so any order will do.
                    let at = random.index(sealed.len());
                    let one = sealed.swap_remove(at);
                    if random.chance(0.2) {
                        continue;
                    }
                    stamp += 1 + random.below(3);
                    let applied = one.held.install(Stamp(stamp), &one.changes).unwrap();
                    assert_eq!(applied.rows, one.writes.len());
                    let applied = follower.apply(Stamp(stamp), &one.changes).unwrap();
                    assert_eq!(applied.rows, one.writes.len());
                    for (row, value) in one.writes {
                        match value {
                            Some(value) => drop(model.insert(row, (value, Stamp(stamp)))),
                            None => drop(model.remove(&row)),
                        }
                    }
                }
                _ => {}
            }
        }
        for (view, then) in views {
            assert_eq!(rows_of(&view), then);
        }
        open.clear();
        sealed.clear();
        for replica in [&leader, &follower] {
            assert_eq!(rows(replica), model);
            // Nothing is locked, and no view is open.
            while replica.take_out_removed(100) > 0 {}
            assert_eq!(replica.removed_waiting(), 0);
            assert_eq!(rows(replica), model);
            for ((table, key), (value, _)) in &model {
                assert_eq!(read(replica, *table, key).as_ref(), Some(value));
            }
        }
        assert_eq!(hash_of(&leader), hash_of(&follower));
    }
}

/// One command on some rows, which is sometimes undone.
fn command(
    one: &mut Open,
    others: &[&BTreeSet<(TableId, Vec<u8>)>],
    model: &Rows,
    random: &mut Random,
) {
    let Open {
        group,
        writes,
        locked,
    } = one;
    let before = (writes.clone(), locked.clone());
    group.begin_command();
    let keys: Vec<_> = (0..1 + random.index(4)).map(|_| any_key(random)).collect();
    if random.chance(0.5) {
        for table in [ACCOUNTS, NOTES] {
            let of_table = keys.iter().filter(|(of, _)| *of == table);
            let keys: Vec<&[u8]> = of_table.map(|(_, key)| &**key).collect();
            group.look_up(table, &keys);
        }
    }
    let mut undo = random.chance(0.2);
    for row in keys {
        let slot = group.lock(row.0, &row.1);
        if others.iter().any(|other| other.contains(&row)) {
            assert_eq!(slot, Err(LockError::Conflict));
            undo = true;
            break;
        }
        let slot = slot.unwrap();
        locked.insert(row.clone());
        let expected = match writes.get(&row) {
            Some(written) => written.as_deref(),
            None => model.get(&row).map(|(value, _)| &**value),
        };
        assert_eq!(group.value(slot), expected);
        if random.chance(0.7) {
            let value = any_value(random);
            group.write(slot, value.as_deref()).unwrap();
            writes.insert(row, value);
        }
    }
    if undo {
        group.undo_command();
        (*writes, *locked) = before;
    }
    assert_eq!(group.rows(), locked.len());
}

/// Damaged, truncated or extended bytes either decode to valid changes, or are refused and change
/// nothing.
#[test]
fn damaged_changes_are_refused_as_a_whole() {
    let mut refused = 0;
    for seed in 0..3000 {
        let _announcement = announce("damaged_changes_are_refused_as_a_whole", seed);
        let mut random = Random::seeded(seed);
        let replica = replica();
        let mut group = replica.begin_group();
        for _ in 0..random.below(20) {
            let (table, key) = any_key(&mut random);
            let slot = group.lock(table, &key).unwrap();
            group
                .write(slot, any_value(&mut random).as_deref())
                .unwrap();
        }
        let mut changes = changes_of(&group);
        drop(group);
        match random.below(4) {
            0 => changes.truncate(random.index(changes.len() + 1)),
            1 => changes.extend(std::iter::repeat_n(random.next_u64() as u8, 9)),
            2 => random.fill(&mut changes),
            _ if changes.is_empty() => {}
            _ => {
                let at = random.index(changes.len());
                changes[at] = random.next_u64() as u8;
            }
        }
        let before = hash_of(&replica);
        if let Err(error) = replica.apply(Stamp(1), &changes) {
            refused += 1;
            assert!(!matches!(error, ReplicaError::TableFull(_)), "{error}");
            assert_eq!(hash_of(&replica), before);
            assert_eq!(replica.applied_through(), Stamp(0));
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn absurd_lengths_are_refused() {
    let replica = replica();
    let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    for place in 0..4 {
        let mut changes = Vec::new();
        for at in 0..4 {
            if at == place {
                changes.extend_from_slice(&largest);
            } else {
                changes.push([2, 0, 1, 1][at]);
            }
        }
        let error = replica.apply(Stamp(1), &changes).unwrap_err();
        assert!(matches!(error, ReplicaError::Undecodable { .. }), "{place}");
    }
    // No rows, and the empty key twice.
    for rows in [0, 2] {
        let error = replica.apply(Stamp(1), &[2, 0, 1, rows]).unwrap_err();
        assert!(matches!(error, ReplicaError::Undecodable { .. }), "{rows}");
    }
    assert_eq!(replica.apply(Stamp(1), &[2, 0, 1, 1]).unwrap().rows, 1);
    assert_eq!(read(&replica, NOTES, b""), Some(vec![]));
}

#[test]
fn a_key_that_is_there_twice_counts_once() {
    let replica = replica();
    let twice = [2, 1, 2, 2, b'a', b'1', b'a', b'2'];
    assert_eq!(replica.apply(Stamp(1), &twice).unwrap().rows, 2);
    assert_eq!(read(&replica, NOTES, b"a"), Some(b"1".to_vec()));
}

const HOT_ACCOUNTS: u64 = 16;
const BALANCE: u64 = 1000;

fn balance(group: &GroupTransaction, slot: Slot) -> u64 {
    let value = group.value(slot).expect("accounts are never deleted");
    u64::from_le_bytes(value.try_into().expect("a balance has eight bytes"))
}

/// Takes an amount from one account for another. Returns whether it did.
fn transfer(
    group: &mut GroupTransaction,
    from: u64,
    to: u64,
    amount: u64,
) -> Result<bool, LockError> {
    group.begin_command();
    let from = group.lock(ACCOUNTS, &from.to_be_bytes())?;
    let to = group.lock(ACCOUNTS, &to.to_be_bytes())?;
    let (debited, credited) = (balance(group, from), balance(group, to));
    if debited < amount {
        return Ok(false);
    }
    for (slot, balance) in [(from, debited - amount), (to, credited + amount)] {
        group.write(slot, Some(&balance.to_le_bytes())).unwrap();
    }
    Ok(true)
}

/// Workers fill groups that conflict all the time, an applier applies some of them and abandons others, a follower gets
/// their bytes, and readers look on.
#[test]
fn transfers_between_few_accounts_conserve_their_sum() {
    let (leader, follower) = (replica(), replica());
    let accounts: Vec<[u8; 8]> = (0..HOT_ACCOUNTS).map(u64::to_be_bytes).collect();
    let balance = BALANCE.to_le_bytes();
    let opening: Vec<_> = accounts
        .iter()
        .map(|account| (ACCOUNTS, &account[..], &balance[..]))
        .collect();
    for replica in [&leader, &follower] {
        install(replica, 1, &opening);
    }
    let transferred = Mutex::new(0);
    let (to_applier, groups) = mpsc::sync_channel::<(HeldLocks, Vec<u8>)>(4);
    let (to_follower, payloads) = mpsc::channel::<(Stamp, Vec<u8>)>();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..3 {
            let (leader, to_applier, transferred) = (&leader, to_applier.clone(), &transferred);
            scope.spawn(move || {
                let mut random = Random::stream(1, worker);
                for _ in 0..400 {
                    let mut group = leader.begin_group();
                    for _ in 0..20 {
                        let from = random.below(HOT_ACCOUNTS);
                        let to = (from + 1 + random.below(HOT_ACCOUNTS - 1)) % HOT_ACCOUNTS;
                        match transfer(&mut group, from, to, random.below(BALANCE)) {
                            Ok(true) => *transferred.lock().unwrap() += 1,
                            Ok(false) => group.undo_command(),
                            Err(LockError::Conflict) => {
                                group.undo_command();
                                // Waiting for a lock with locks in hand could be for ever.
                                break;
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    let changes = changes_of(&group);
                    to_applier.send((group.seal(), changes)).unwrap();
                }
            });
        }
        drop(to_applier);
        scope.spawn(move || {
            let mut stamp = 1;
            for (held, changes) in groups {
                if changes.len() % 7 == 0 {
                    held.release();
                    continue;
                }
                stamp += 1;
                held.install(Stamp(stamp), &changes).unwrap();
                to_follower.send((Stamp(stamp), changes)).unwrap();
            }
        });
        let (follower_of_scope, done) = (&follower, &done);
        scope.spawn(move || {
            for (stamp, changes) in payloads {
                follower_of_scope.apply(stamp, &changes).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for replica in [&leader, &follower] {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    assert_eq!(sum_of_balances(replica), HOT_ACCOUNTS * BALANCE);
                }
            });
        }
    });
    assert!(transferred.into_inner().unwrap() > 100);
    assert_eq!(hash_of(&leader), hash_of(&follower));
    assert_eq!(sum_of_balances(&leader), HOT_ACCOUNTS * BALANCE);
}

fn sum_of_balances(replica: &Replica) -> u64 {
    let mut sum = 0;
    let visit = |_: &[u8], value: &[u8], _: Stamp| {
        sum += u64::from_le_bytes(value.try_into().unwrap());
        ControlFlow::Continue(())
    };
    let view = replica.view().unwrap();
    view.scan(ACCOUNTS, EVERYTHING, visit).unwrap();
    sum
}

/// Values of one word, of several, and boxed ones, while groups that replace them are applied.
#[test]
fn a_reader_beside_the_applier_sees_whole_values() {
    let replica = replica();
    let groups: Vec<Vec<u8>> = (0..250)
        .map(|n| {
            let value = vec![n; [8, 40, 40, 300, 0, 17][usize::from(n) % 6]];
            let mut group = replica.begin_group();
            write(&mut group, NOTES, b"a", &value);
            changes_of(&group)
        })
        .collect();
    replica.apply(Stamp(1), &groups[0]).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (replica, done) = (&replica, &done);
        scope.spawn(move || {
            for (stamp, changes) in (2..200_000).zip(groups.iter().cycle()) {
                replica.apply(Stamp(stamp), changes).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    let value = read(replica, NOTES, b"a").unwrap();
                    let n = value.first().copied().unwrap_or_default();
                    assert!(value.iter().all(|byte| *byte == n), "{value:?}");
                    assert!([0, 8, 17, 40, 300].contains(&value.len()));
                }
            });
        }
    });
}
