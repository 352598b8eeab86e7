//! Members that join, leave and move while clients write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use namiki_client::{Client, ReadNode, ReadOptions};

use super::*;

/// Writes one row after the other until it is told to end. Returns their number.
fn write_until(is_over: &AtomicBool, acknowledged: &AtomicU64, client: &mut Client, table: u32) {
    let mut session = client.open_session().unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let key = acknowledged.load(Ordering::Relaxed);
        put_rows(&mut session, table, key..key + 1);
        acknowledged.store(key + 1, Ordering::Relaxed);
    }
}

fn wait_for_more(acknowledged: &AtomicU64) {
    let (begin, before) = (Instant::now(), acknowledged.load(Ordering::Relaxed));
    while acknowledged.load(Ordering::Relaxed) < before + 20 {
        assert!(begin.elapsed() < WATCHDOG, "nothing is acknowledged");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_cluster_grows_to_five_and_shrinks_under_load() {
    let cluster = Cluster::of_nodes(1, &[]);
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| write_until(&is_over, &acknowledged, &mut client, table));
        for node in 2..=5 {
            wait_for_more(&acknowledged);
            let said = cluster.works(&["add"]);
            assert!(said.contains(&format!("node {node} votes\n")), "{said}");
        }
        let refused = |arguments: &[&str]| {
            let output = cluster.output(arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        assert!(refused(&["add", "3"]).contains("is a member already"));
        assert!(refused(&["remove", "9"]).contains("no node"));
        wait_for_more(&acknowledged);
        // With a leader that does not know the two by its configuration.
        cluster.works(&["remove", "1"]);
        wait_for_more(&acknowledged);
        let leader = cluster.leader_other_than(None);
        cluster.works(&["remove", &leader.to_string()]);
        wait_for_more(&acknowledged);
        assert!(!cluster.0.path().join("node-1").exists());
        // Its directory cannot return: the others tell it.
        let back = cluster.0.path().join("node-1.removed/namiki.toml");
        let said = refuses(1, &["node", "--config", back.to_str().unwrap()]);
        assert!(said.contains("no member of the cluster any more"), "{said}");
        // Its number can.
        let said = cluster.works(&["add", "1"]);
        assert!(said.contains("as incarnation 2"), "{said}");
        wait_for_more(&acknowledged);
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    cluster.works(&["status"]);
    let mut client = cluster.client();
    // Everything is on each of them.
    let rows = acknowledged.load(Ordering::Relaxed);
    let keys = (0..rows).map(|key| (table, key.to_be_bytes().to_vec()));
    let keys: Vec<_> = keys.collect();
    let expected = (0..rows).map(|key| Some(key.to_le_bytes().to_vec()));
    let expected: Vec<_> = expected.collect();
    for node in cluster.nodes() {
        let options = ReadOptions {
            node: ReadNode::Address(cluster.config(node).client_listen),
            ..ReadOptions::default()
        };
        let found = client.reading(&options).read(keys.clone()).unwrap();
        assert_eq!(found.values, expected, "node {node}");
    }
}
