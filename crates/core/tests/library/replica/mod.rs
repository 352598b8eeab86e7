//! Replicas and the groups that change them.
//!
//! Paper: raft-pwal §3.2, §3.3
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod groups;
mod image_copies;
mod views_and_images;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki::replica::{GroupTransaction, Replica, ReplicaView, Slot};
use namiki::{Stamp, TableId};
use namiki_platform::seeded_random::Random;

/// Keys of eight bytes.
pub(crate) const ACCOUNTS: TableId = TableId(1);
/// Keys of any length.
pub(crate) const NOTES: TableId = TableId(2);

pub(crate) fn replica() -> Arc<Replica> {
    let replica = Replica::in_memory().unwrap();
    assert_eq!(replica.create_table("accounts", true).unwrap(), ACCOUNTS);
    assert_eq!(replica.create_table("notes", false).unwrap(), NOTES);
    Arc::new(replica)
}

pub(crate) const EVERYTHING: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

pub(crate) fn hash_of(replica: &Replica) -> u128 {
    let view = replica.view().unwrap();
    view.state_hash(|| true).unwrap().unwrap()
}

pub(crate) fn changes_of(group: &GroupTransaction) -> Vec<u8> {
    let mut changes = Vec::new();
    group.encode_changes(&mut changes);
    changes
}

pub(crate) fn write(
    group: &mut GroupTransaction,
    table: TableId,
    key: &[u8],
    value: &[u8],
) -> Slot {
    let slot = group.lock(table, key).unwrap();
    group.write(slot, Some(value)).unwrap();
    slot
}

/// Executes writes in a group of their own and installs them.
pub(crate) fn install(replica: &Arc<Replica>, stamp: u64, rows: &[(TableId, &[u8], &[u8])]) {
    let mut group = replica.begin_group();
    for (table, key, value) in rows {
        write(&mut group, *table, key, value);
    }
    let changes = changes_of(&group);
    group.seal().install(Stamp(stamp), &changes).unwrap();
}

pub(crate) fn read(replica: &Replica, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    replica
        .read(table, key, &mut value)
        .unwrap()
        .then_some(value)
}

pub(crate) type Rows = BTreeMap<(TableId, Vec<u8>), (Vec<u8>, Stamp)>;

pub(crate) fn rows(replica: &Replica) -> Rows {
    rows_of(&replica.view().unwrap())
}

pub(crate) fn rows_of(view: &ReplicaView) -> Rows {
    let mut rows = Rows::new();
    for (table, _) in view.tables() {
        let visit = |key: &[u8], value: &[u8], stamp: Stamp| {
            rows.insert((table, key.to_vec()), (value.to_vec(), stamp));
            ControlFlow::Continue(())
        };
        view.scan(table, EVERYTHING, visit).unwrap();
    }
    rows
}

pub(crate) fn any_value(random: &mut Random) -> Option<Vec<u8>> {
    let len = [0, 3, 8, 8, 8, 40, 41, 300][random.index(8)];
    let mut value = vec![0; len];
    random.fill(&mut value);
    random.chance(0.8).then_some(value)
}
