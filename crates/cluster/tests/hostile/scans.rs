//! Scans, counts, lists and drops of tables while the cluster commits.

use namiki_client::protocol::{Command, Outcome, ScanRange, TableEntry, Write};
use namiki_client::{ClientError, ReadNode, ReadOptions};

use crate::cluster::{Cluster, Load};
use crate::{MIB, alone, under_load};

/// Limit on memory: the rows of three nodes, twelve of a mebibyte among them, and their payloads in caches and queues.
const BYTES_MAX: isize = 192 * MIB;

fn put(table: u32, key: &[u8], value: Option<&[u8]>) -> Command {
    Command::Write(Box::new(Write {
        conditions: Vec::new(),
        rows: vec![(table, key.to_vec(), value.map(<[u8]>::to_vec))],
    }))
}

fn range(table: u32, rows_max: u32) -> ScanRange {
    ScanRange {
        table,
        rows_max,
        ..ScanRange::default()
    }
}

#[test]
fn ranges_are_read_at_one_moment_beside_commits() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    under_load(&cluster, BYTES_MAX, |load| {
        let mut client = cluster.client();
        let table = client.create_table("pairs", false).unwrap();
        let mut session = client.open_session().unwrap();
        let keys: Vec<Vec<u8>> = (0..100_u8).map(|key| vec![b'k', key]).collect();
        for number in 0..20_u64 {
            // All rows have one number, in one command.
            let rows = keys
                .iter()
                .map(|key| (table, key.clone(), Some(number.to_le_bytes().to_vec())));
            let write = Write {
                conditions: Vec::new(),
                rows: rows.collect(),
            };
            let group = session
                .submit(vec![Command::Write(Box::new(write))])
                .unwrap();
            if number > 0 {
                let scanned = client.scan(range(table, 1000)).unwrap();
                let found: Vec<_> = scanned.rows.iter().map(|(key, _)| key.clone()).collect();
                assert_eq!(
                    (found, scanned.has_more, scanned.count),
                    (keys.clone(), false, 100)
                );
                let first = &scanned.rows[0].1;
                assert!(
                    scanned.rows.iter().all(|(_, value)| value == first),
                    "of two moments"
                );
                assert_eq!(client.count(table).unwrap(), 100);
            }
            assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
            // What is acknowledged is seen.
            let scanned = client.scan(range(table, 1)).unwrap();
            assert_eq!(scanned.rows[0].1, number.to_le_bytes());
            assert!(scanned.has_more);
        }
        // In parts, between bounds.
        let (mut next, mut found) = (range(table, 7), Vec::new());
        next.from = keys[10].clone();
        next.until = Some(keys[90].clone());
        loop {
            let scanned = client.scan(next.clone()).unwrap();
            found.extend(scanned.rows.into_iter().map(|(key, _)| key));
            if !scanned.has_more {
                break;
            }
            next.from = found.last().unwrap().clone();
            next.after = true;
        }
        assert_eq!(found, keys[10..90]);
        // A long answer comes in parts, too.
        let long = vec![7; 900 << 10];
        for key in 0..12_u8 {
            let group = session.submit(vec![put(table, &[b'z', key], Some(&long))]);
            assert_eq!(session.wait(group.unwrap()).unwrap(), [Outcome::Done]);
        }
        let mut long_ones = range(table, 100);
        long_ones.from = b"z".to_vec();
        let scanned = client.scan(long_ones).unwrap();
        assert!(
            scanned.has_more && scanned.rows.len() < 12,
            "{}",
            scanned.rows.len()
        );
        load.wait_for_more();
    });
}

/// Groups are in flight when it is cleared: each is executed before, or finds no table.
#[test]
fn a_cleared_table_is_empty_whatever_was_in_flight() {
    const GROUPS: u64 = 400;
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let mut client = cluster.client();
    let first = client.create_table("notes", false).unwrap();
    let other = client.create_table("others", true).unwrap();
    let mut session = client.open_session().unwrap();
    let mut write = |table, key: &[u8]| session.submit(vec![put(table, key, Some(b"1"))]).unwrap();
    let groups: Vec<_> = (0..GROUPS)
        .map(|key| write(first, &key.to_be_bytes()))
        .collect();
    let second = client.clear_table(first).unwrap().unwrap();
    assert!(second > other, "numbers are not used again");
    let later = write(first, b"later");
    for group in groups {
        let [outcome] = session.wait(group).unwrap()[..] else {
            panic!("a group of one command")
        };
        assert!(
            matches!(outcome, Outcome::Done | Outcome::NoSuchTable),
            "{outcome:?}"
        );
    }
    assert_eq!(session.wait(later).unwrap(), [Outcome::NoSuchTable]);
    assert_eq!(client.count(second).unwrap(), 0);
    assert_eq!(client.clear_table(first).unwrap(), None);
    assert_eq!(client.clear_table(77).unwrap(), None);
    let group = session.submit(vec![put(second, b"a", Some(b"1"))]).unwrap();
    assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    assert_eq!(client.count(second).unwrap(), 1);
    let entry = |table, name: &str, eight_byte_keys| TableEntry {
        table,
        name: name.to_owned(),
        eight_byte_keys,
    };
    let expected = [entry(other, "others", true), entry(second, "notes", false)];
    assert_eq!(client.tables().unwrap(), expected);
    for node in 1..=3 {
        let options = ReadOptions {
            node: ReadNode::Address(cluster.client_address(node).to_owned()),
            ..ReadOptions::default()
        };
        assert_eq!(
            client.reading(&options).count(second).unwrap(),
            1,
            "node {node}"
        );
    }
}

#[test]
fn a_dropped_table_is_gone_and_its_number_too() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let load = Load::begin(&cluster);
    let mut client = cluster.client();
    let entry = |table, name: &str, eight_byte_keys| TableEntry {
        table,
        name: name.to_owned(),
        eight_byte_keys,
    };
    let first = client.create_table("notes", false).unwrap();
    let mut session = client.open_session().unwrap();
    let group = session.submit(vec![put(first, b"a", Some(b"1"))]).unwrap();
    assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    let rows = entry(1, "rows", true);
    let notes = entry(first, "notes", false);
    assert_eq!(client.tables().unwrap(), [rows.clone(), notes]);
    assert!(client.drop_table(first).unwrap());
    assert!(!client.drop_table(first).unwrap());
    for never in [0, 77, u32::MAX] {
        assert!(!client.drop_table(never).unwrap(), "{never}");
    }
    assert_eq!(client.tables().unwrap(), [rows]);
    let refused = client.scan(range(first, 10));
    assert!(
        matches!(refused, Err(ClientError::Refused { .. })),
        "{refused:?}"
    );
    let group = session.submit(vec![put(first, b"a", Some(b"2"))]).unwrap();
    assert_eq!(session.wait(group).unwrap(), [Outcome::NoSuchTable]);
    // The load's keys have eight bytes.
    let before = client.count(1).unwrap();
    load.wait_for_more();
    let scanned = client.scan(range(1, 10)).unwrap();
    assert_eq!((scanned.rows.len(), scanned.has_more), (10, true));
    assert!(client.count(1).unwrap() > before);
    let second = client.create_table("notes", false).unwrap();
    assert!(second > first, "numbers are not used again");
    assert_eq!(client.count(second).unwrap(), 0);
    let reserved = client.create_table("namiki.replica", false);
    assert!(
        matches!(reserved, Err(ClientError::Refused { .. })),
        "{reserved:?}"
    );
    load.wait_for_more();
    load.finish(&cluster);
}
