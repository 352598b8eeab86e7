//! Reads that followers answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namiki_client::protocol::{Command, Outcome, ScanRange, Write};
use namiki_client::{Client, ClientError, Consistency, ReadNode, ReadOptions, states_at_one_entry};

use crate::alone;
use crate::cluster::{Cluster, NODES};

const ALL: [Consistency; 3] = [
    Consistency::Strong,
    Consistency::Session,
    Consistency::Stale,
];

fn put(table: u32, key: &[u8], number: u64) -> Command {
    Command::Write(Box::new(Write {
        conditions: Vec::new(),
        rows: vec![(table, key.to_vec(), Some(number.to_le_bytes().to_vec()))],
    }))
}

fn at(cluster: &Cluster, node: u64, consistency: Consistency) -> ReadOptions {
    ReadOptions {
        consistency,
        node: ReadNode::Address(cluster.client_address(node).to_owned()),
    }
}

fn number(client: &mut Client, options: &ReadOptions, table: u32) -> (u64, u64) {
    let rows = client.reading(options).read(vec![(table, b"key".to_vec())]);
    let mut rows = rows.unwrap();
    let value = rows.values.remove(0).unwrap();
    (u64::from_le_bytes(value.try_into().unwrap()), rows.lsn)
}

#[test]
fn every_node_answers_reads_of_every_kind() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let (mut client, mut other) = (cluster.client(), cluster.client());
    let table = client.create_table("rows", false).unwrap();
    let mut session = client.open_session().unwrap();
    for written in 0..50 {
        let group = session.submit(vec![put(table, b"key", written)]).unwrap();
        assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
        for node in 1..=NODES {
            // Another client, which has not seen it.
            let strong = at(&cluster, node, Consistency::Strong);
            assert_eq!(number(&mut other, &strong, table).0, written);
            // This client's session has seen it.
            let own = at(&cluster, node, Consistency::Session);
            let (found, lsn) = number(&mut client, &own, table);
            assert_eq!(found, written);
            assert!(lsn <= client.seen());
            let stale = at(&cluster, node, Consistency::Stale);
            let (found, lsn) = number(&mut client, &stale, table);
            assert!(found <= written && lsn <= client.seen());
        }
    }
    for (node, consistency) in (1..=NODES).flat_map(|node| ALL.map(|it| (node, it))) {
        let options = at(&cluster, node, consistency);
        let mut reader = client.reading(&options);
        assert_eq!(reader.count(table).unwrap(), 1);
        assert_eq!(reader.tables().unwrap()[0].name, "rows");
        let range = ScanRange {
            table,
            rows_max: 9,
            ..ScanRange::default()
        };
        let scanned = reader.scan(range).unwrap();
        assert_eq!(
            scanned.rows,
            [(b"key".to_vec(), 49_u64.to_le_bytes().to_vec())]
        );
    }
    for consistency in ALL {
        let options = ReadOptions {
            consistency,
            node: ReadNode::Any,
        };
        assert_eq!(number(&mut client, &options, table).0, 49);
    }
}

#[test]
fn a_read_beyond_the_log_is_refused_in_time() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let mut options = cluster.options.clone();
    options.timeout = Duration::from_secs(3);
    let addresses = (1..=NODES).map(|node| cluster.client_address(node));
    let mut client = Client::connect(addresses, options).unwrap();
    let table = client.create_table("rows", false).unwrap();
    client.note_seen(1 << 40);
    for node in [
        ReadNode::Any,
        ReadNode::Address(cluster.client_address(2).to_owned()),
    ] {
        let options = ReadOptions {
            consistency: Consistency::Session,
            node,
        };
        match client.reading(&options).count(table) {
            Err(ClientError::Behind {
                applied, wanted, ..
            }) => {
                assert!(applied < wanted && wanted == 1 << 40);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.count(table).unwrap(), 0);
}

#[test]
fn without_a_majority_only_strong_reads_stop() {
    let _alone = alone();
    let mut cluster = Cluster::start_plain();
    let mut client = cluster.client();
    let table = client.create_table("rows", false).unwrap();
    let mut session = client.open_session().unwrap();
    let group = session.submit(vec![put(table, b"key", 7)]).unwrap();
    assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    let own = at(&cluster, 3, Consistency::Session);
    assert_eq!(number(&mut client, &own, table).0, 7);
    cluster.keep_only(3);
    let mut options = cluster.options.clone();
    options.timeout = Duration::from_secs(4);
    let mut client = Client::connect([cluster.client_address(3)], options).unwrap();
    for (consistency, is_answered) in [
        (Consistency::Strong, false),
        (Consistency::Session, true),
        (Consistency::Stale, true),
    ] {
        let options = at(&cluster, 3, consistency);
        match client.reading(&options).count(table) {
            Ok(count) => assert!(is_answered && count == 1),
            Err(ClientError::Unavailable { .. }) => assert!(!is_answered),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nodes_are_compared_while_they_serve() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let mut client = cluster.client();
    let table = client.create_table("rows", false).unwrap();
    let mut session = client.open_session().unwrap();
    let addresses = (1..=NODES).map(|node| cluster.client_address(node).to_owned());
    let addresses: Vec<String> = addresses.collect();
    let compare = || {
        let states = states_at_one_entry(&addresses, &cluster.options).unwrap();
        assert!(states.nodes.iter().map(|it| it.node).eq(1..=NODES));
        assert!(states.are_equal(), "{states:?}");
        states.lsn
    };
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (is_over, acknowledged) = (&is_over, &acknowledged);
        let writer = scope.spawn(move || {
            let mut written = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                written += 1;
                let key = (written % 100).to_le_bytes();
                let group = session.submit(vec![put(table, &key, written)]).unwrap();
                assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
                acknowledged.store(written, Ordering::Relaxed);
            }
        });
        let compare_later = || {
            let before = acknowledged.load(Ordering::Relaxed);
            while acknowledged.load(Ordering::Relaxed) == before && !writer.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            compare()
        };
        let lsns: Vec<u64> = (0..3).map(|_| compare_later()).collect();
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert!(lsns.is_sorted_by(|one, next| one < next), "{lsns:?}");
    });
    // Nothing is written any more.
    compare();
}
