//! Disks that damage data at rest: the cluster heals without an operator.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use namiki_client::protocol::{Command as ClusterCommand, Outcome, Write};
use namiki_client::{Session, state_hash};

use super::{Cluster, WATCHDOG, plain};

/// A value that is found in a file.
fn value_of(key: u64) -> u64 {
    0x7e57_da7a_0000_0000 | key
}

fn put_rows(session: &mut Session, table: u32, keys: std::ops::Range<u64>) {
    for key in keys {
        let value = value_of(key).to_le_bytes().to_vec();
        let row = (table, key.to_be_bytes().to_vec(), Some(value));
        let write = Write {
            conditions: Vec::new(),
            rows: vec![row],
        };
        let commands = vec![ClusterCommand::Write(Box::new(write))];
        let group = session.submit(commands).unwrap();
        assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    }
}

/// The files of the payload streams of a node.
fn payload_files(node: &Path) -> Vec<PathBuf> {
    let streams = fs::read_dir(node.join("data/log")).unwrap();
    let streams = streams.map(|stream| stream.unwrap().path());
    let streams = streams.filter(|stream| !stream.ends_with("0000"));
    let files = streams.flat_map(|stream| fs::read_dir(stream).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

/// Damages the payloads with the rows of these keys. Returns how many it has found.
fn damage(node: &Path, keys: impl Iterator<Item = u64> + Clone) -> usize {
    let mut damaged = 0;
    for path in payload_files(node) {
        let bytes = fs::read(&path).unwrap();
        for key in keys.clone() {
            let value = value_of(key).to_le_bytes();
            let found = bytes.windows(8).position(|window| window == value);
            let Some(at) = found else { continue };
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[!value[0]], at as u64).unwrap();
            damaged += 1;
        }
    }
    damaged
}

/// Waits until all nodes have the same state at the same entry.
pub(crate) fn wait_for_equal_states(cluster: &Cluster) {
    let begin = Instant::now();
    loop {
        let states = (1..=3).map(|node| {
            let address = cluster.config(node).client_listen;
            let status = state_hash(&address, &plain()).ok()?;
            Some((status.applied_lsn, status.state_hash?))
        });
        let states: Vec<_> = states.collect();
        if states[0].is_some() && states.iter().all(|it| *it == states[0]) {
            return;
        }
        assert!(begin.elapsed() < WATCHDOG, "{states:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn damaged_payloads_of_two_nodes_heal() {
    let cluster = Cluster::start();
    let folder = |node: u64| cluster.0.path().join(format!("node-{node}"));
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let mut session = client.open_session().unwrap();
    // The last ones stay whole: the last frame of a stream cannot be told from a torn write.
    put_rows(&mut session, table, 0..200);
    let leader = cluster.leader_other_than(None);
    let (one, two) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    for node in [one, two] {
        cluster.works(&["kill", &node.to_string()]);
    }
    assert!(damage(&folder(one), (10..100).step_by(3)) > 20);
    assert!(damage(&folder(two), (10..100).step_by(2)) > 30);
    cluster.works(&["start"]);
    put_rows(&mut session, table, 200..300);
    wait_for_equal_states(&cluster);
    // While the nodes run: they find the damage when they read the files.
    assert!(damage(&folder(leader), (100..150).step_by(2)) > 20);
    assert!(damage(&folder(one), (101..150).step_by(2)) > 20);
    put_rows(&mut session, table, 300..350);
    for node in [leader, one] {
        cluster.works(&["kill", &node.to_string()]);
        cluster.works(&["start"]);
        put_rows(&mut session, table, 350 + node * 10..360 + node * 10);
    }
    wait_for_equal_states(&cluster);
    let keys = (0..350).map(|key: u64| (table, key.to_be_bytes().to_vec()));
    let rows = cluster.client().read(keys.collect()).unwrap();
    let expected = (0..350).map(|key| Some(value_of(key).to_le_bytes().to_vec()));
    assert_eq!(rows.values, expected.collect::<Vec<_>>());
}
