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

/// Damages one of the last frames of stream 0, but not the last one, which would look like a torn write.
fn damage_raft_log(node: &Path) {
    let mut files: Vec<PathBuf> = fs::read_dir(node.join("data/log/0000"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let frames = files.iter().flat_map(|path| {
        let bytes = fs::read(path).unwrap();
        let blocks = (0..bytes.len()).step_by(512);
        let begins: Vec<usize> = blocks
            .filter(|at| bytes[*at..].starts_with(b"NLF1"))
            .collect();
        begins.into_iter().map(move |at| (path, at as u64))
    });
    let frames: Vec<_> = frames.collect();
    assert!(frames.len() > 20, "{} frames", frames.len());
    let (path, at) = &frames[frames.len() - 5];
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0xee; 16], at + 60).unwrap();
}

/// Waits until the log of a node says this for the given time.
fn wait_for_line(node: &Path, line: &str, times: usize) {
    let begin = Instant::now();
    loop {
        let log = fs::read_to_string(node.join("log.txt")).unwrap();
        if log.matches(line).count() >= times {
            return;
        }
        assert!(begin.elapsed() < WATCHDOG, "{line}: {log}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn damage_in_stream_0_heals() {
    const FORGOTTEN: &str = "this node may have forgotten votes and acknowledgements";
    const REMEMBERED: &str = "the node has recovered the lost part of its log";
    let cluster = Cluster::start();
    let folder = |node: u64| cluster.0.path().join(format!("node-{node}"));
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let mut session = client.open_session().unwrap();
    put_rows(&mut session, table, 0..100);
    for round in 1..=2 {
        let leader = cluster.leader_other_than(None);
        let damaged = leader % 3 + 1;
        let rows = |of: u64| 100 * round + 25 * of..100 * round + 25 * (of + 1);
        cluster.works(&["kill", &damaged.to_string()]);
        damage_raft_log(&folder(damaged));
        // The others serve before, while it asks, and after it.
        put_rows(&mut session, table, rows(0));
        let starts = fs::read_to_string(folder(damaged).join("log.txt")).unwrap();
        let starts = starts.matches(FORGOTTEN).count();
        cluster.works(&["start"]);
        put_rows(&mut session, table, rows(1));
        wait_for_line(&folder(damaged), FORGOTTEN, starts + 1);
        wait_for_line(&folder(damaged), REMEMBERED, starts + 1);
        wait_for_equal_states(&cluster);
        // The note is gone: the next start is one like others.
        cluster.works(&["kill", &damaged.to_string()]);
        cluster.works(&["start"]);
        put_rows(&mut session, table, rows(2));
        wait_for_equal_states(&cluster);
        let log = fs::read_to_string(folder(damaged).join("log.txt")).unwrap();
        assert_eq!(log.matches(FORGOTTEN).count(), starts + 1);
        // It votes again: without it there is no majority.
        let other = (1..=3).find(|it| ![leader, damaged].contains(it)).unwrap();
        cluster.works(&["kill", &other.to_string()]);
        put_rows(&mut session, table, rows(3));
        cluster.works(&["start"]);
    }
    wait_for_equal_states(&cluster);
}
