//! Truncated logs: directories stay small, and nodes that lack entries get images.

use std::fs;
use std::path::{Path, PathBuf};

use namiki_client::protocol::{Command, Outcome, Write};
use namiki_client::{Client, Session, state_hash};

use crate::members::Node;
use crate::operate::wait_for;
use crate::{Cluster, namiki, plain, put_rows, refuses};

/// An eighth of it is the longest time between two images.
const LOG_MIB: u64 = 128;
const KEYS: u64 = 200;
const VALUE_BYTES: usize = 20_000;

/// Rows that are written again and again.
pub(crate) struct Rows {
    table: u32,
    session: Session,
    round: u64,
}

impl Rows {
    pub(crate) fn of(client: &mut Client) -> Self {
        Self {
            table: client.create_table("rows", true).unwrap(),
            session: client.open_session().unwrap(),
            round: 0,
        }
    }

    /// Writes all rows again: 4 MB.
    pub(crate) fn write(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.round += 1;
            for keys in (0..KEYS).collect::<Vec<_>>().chunks(20) {
                let write = |key: &u64| {
                    let row = (
                        self.table,
                        key.to_be_bytes().to_vec(),
                        Some(value(*key, self.round)),
                    );
                    Command::Write(Box::new(Write {
                        conditions: Vec::new(),
                        rows: vec![row],
                    }))
                };
                let group = (self.session)
                    .submit(keys.iter().map(write).collect())
                    .unwrap();
                let outcomes = self.session.wait(group).unwrap();
                assert_eq!(outcomes, vec![Outcome::Done; keys.len()]);
            }
        }
    }

    /// All rows are there as they were written last.
    pub(crate) fn check(&self, cluster: &Cluster) {
        let keys = (0..KEYS).map(|key| (self.table, key.to_be_bytes().to_vec()));
        let read = cluster.client().read(keys.collect()).unwrap();
        let expected = (0..KEYS).map(|key| Some(value(key, self.round)));
        assert!(read.values.into_iter().eq(expected));
    }
}

fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![(key ^ round) as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&round.to_le_bytes());
    value
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_below(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Whether all nodes have the same state at the same entry.
fn are_equal(cluster: &Cluster) -> bool {
    let hashes = (1..=3).map(|node| {
        let address = cluster.config(node).client_listen;
        let status = state_hash(&address, &plain()).ok()?;
        Some((status.applied_lsn, status.state_hash?))
    });
    let hashes: Option<Vec<_>> = hashes.collect();
    hashes.is_some_and(|hashes| hashes.iter().all(|it| *it == hashes[0]))
}

/// Gives all files of a folder a name in another one, too. Returns their new paths and their contents.
fn link_all(from: &Path, to: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    fs::create_dir(to).unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let link = to.join(path.file_name().unwrap());
        if path.is_dir() {
            files.extend(link_all(&path, &link));
        } else {
            fs::hard_link(&path, &link).unwrap();
            let bytes = fs::read(&link).unwrap();
            files.push((link, bytes));
        }
    }
    files
}

#[test]
fn nodes_that_were_away_for_long_or_lost_get_images() {
    let cluster = Cluster::start_with(&[&format!("--max-log={LOG_MIB}"), "--metrics"]);
    let mut client = cluster.client();
    let mut rows = Rows::of(&mut client);
    // More than the log's limit.
    rows.write(40);
    for node in 1..=3 {
        wait_for("a node has truncated its log", || {
            cluster.page(node).get("images_written_total") >= 2.0
        });
        let data = cluster.0.path().join(format!("node-{node}/data"));
        let bytes = bytes_below(&data);
        // Two images, and the log.
        let most = (LOG_MIB << 20) + 3 * KEYS * VALUE_BYTES as u64;
        assert!(bytes <= most, "node {node} takes {bytes}");
    }

    let leader = cluster.leader_other_than(None);
    let (away, lost) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    cluster.works(&["kill", &away.to_string()]);
    rows.write(30);
    cluster.works(&["restart", &away.to_string()]);
    wait_for("a node that was away has everything", || {
        are_equal(&cluster)
    });
    let copied = |node| {
        cluster
            .log(node)
            .contains("copies an image of another node")
    };
    assert!(copied(away) && !copied(leader) && !copied(lost));

    cluster.works(&["kill", &lost.to_string()]);
    fs::remove_dir_all(cluster.0.path().join(format!("node-{lost}/data"))).unwrap();
    cluster.works(&["replace", &lost.to_string()]);
    assert!(copied(lost));
    // The replacement and the one that was away are all that is left.
    cluster.works(&["kill", &leader.to_string()]);
    rows.write(1);
    rows.check(&cluster);
    cluster.works(&["restart", &leader.to_string()]);
    wait_for("all have everything", || are_equal(&cluster));
}

/// Twice, the second time over the first; then a new cluster begins with it.
#[test]
fn a_backup_is_restored_into_a_new_cluster() {
    let cluster = Cluster::start_with(&[&format!("--max-log={LOG_MIB}")]);
    let mut client = cluster.client();
    let mut rows = Rows::of(&mut client);
    let backup = cluster.0.path().join("backup");
    let backup = backup.to_str().unwrap();
    rows.write(1);
    // A follower may not know yet that the last group is committed.
    let leader = cluster.leader_other_than(None).to_string();
    let back_up = || cluster.works(&["backup", backup, "--node", &leader]);
    assert!(back_up().contains(&format!("tables of node {leader}")));
    // Its files never change, so a copy of their names stays as it is.
    let earlier = cluster.0.path().join("earlier");
    let files = link_all(Path::new(backup), &earlier);
    rows.write(2);
    back_up();
    for (path, bytes) in files {
        assert!(fs::read(&path).unwrap() == bytes, "{path:?} has changed");
    }
    let saved = rows.round;
    rows.write(1);
    let refused = |arguments: &[&str]| refuses(1, arguments);
    let other = (leader.parse::<u64>().unwrap() % 3 + 1).to_string();
    let dir = cluster.dir();
    let said = refused(&["--dir", dir, "backup", backup, "--node", &other]);
    assert!(said.contains("tables of another node"), "{said}");
    let said = refused(&["--dir", dir, "backup", backup, "--node", "9"]);
    assert!(said.contains("no node"), "{said}");

    let restored = Cluster::start();
    // Another cluster runs at the addresses of the others.
    let own = restored.0.path().join("node-1/namiki.toml");
    let text = fs::read_to_string(&own).unwrap();
    let number = format!("{:032x}", cluster.config(1).cluster);
    let text = text.replace(&format!("{:032x}", restored.config(1).cluster), &number);
    let under_old_number = restored.0.path().join("node-1/old-number.toml");
    fs::write(&under_old_number, text).unwrap();
    let under_old_number = [
        "node",
        "--config",
        under_old_number.to_str().unwrap(),
        "init",
        "--backup",
        backup,
    ];
    assert!(refused(&under_old_number).contains("another cluster"));
    restored.works(&["stop"]);
    for node in 1..=3 {
        let data = restored.0.path().join(format!("node-{node}/data"));
        let config = restored.0.path().join(format!("node-{node}/namiki.toml"));
        let init = [
            "node",
            "init",
            "--config",
            config.to_str().unwrap(),
            "--backup",
            backup,
        ];
        assert!(refused(&init).contains("is not empty"));
        fs::remove_dir_all(&data).unwrap();
        let init = |backup| namiki(&[&init[..5], &[backup]].concat());
        let said = init(cluster.dir());
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        fs::remove_dir_all(&data).ok();
        if node == 1 {
            // Nodes of the old cluster may have votes and entries that the backup lacks.
            let said = refused(&under_old_number);
            assert!(
                said.contains(&number) && said.contains("choose a new one"),
                "{said}"
            );
            assert!(bytes_below(&data) < 4096, "no copy is left");
            fs::remove_dir_all(&data).unwrap();
        }
        let said = init(backup);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
    }
    restored.works(&["start"]);
    let is_saved = |round: u64| {
        let keys = (0..KEYS).map(|key| (rows.table, key.to_be_bytes().to_vec()));
        let read = restored.client().read(keys.collect()).unwrap();
        let expected = (0..KEYS).map(|key| Some(value(key, round)));
        read.values.into_iter().eq(expected)
    };
    assert!(is_saved(saved));
    wait_for("all have the same", || are_equal(&restored));
    // It is a cluster of its own.
    let mut client = restored.client();
    let mut more = Rows::of(&mut client);
    more.round = 1000;
    more.write(1);
    for node in ["1", "2", "3"] {
        restored.works(&["kill", node]);
    }
    restored.works(&["start"]);
    assert!(is_saved(1001));
    wait_for("all have the same", || are_equal(&restored));

    // A node that has lost its directory does not return with the backup.
    restored.works(&["kill", "3"]);
    let lost = restored.0.path().join("node-3");
    fs::remove_dir_all(lost.join("data")).unwrap();
    let config = lost.join("namiki.toml");
    let config = config.to_str().unwrap();
    let said = refused(&["node", "--config", config, "init", "--backup", backup]);
    assert!(said.contains("the cluster runs"), "{said}");
    // Replacements and new members are of the same beginning.
    restored.works(&["replace", "3"]);
    assert!(restored.works(&["add"]).contains("node 4 votes"));
    wait_for("all have the same", || are_equal(&restored));
    assert!(is_saved(1001));
}

/// A node of the cluster before, and one that began without the backup, do not serve with restored ones.
#[test]
fn nodes_without_the_backup_do_not_join_restored_ones() {
    let cluster = Cluster::start();
    let mut rows = Rows::of(&mut cluster.client());
    rows.write(1);
    let backup = cluster.0.path().join("backup");
    let backup = backup.to_str().unwrap();
    cluster.works(&["backup", backup]);
    let restored = Cluster::start();
    restored.works(&["stop"]);
    for node in 2..=3 {
        let folder = restored.0.path().join(format!("node-{node}"));
        fs::remove_dir_all(folder.join("data")).unwrap();
        let config = folder.join("namiki.toml");
        let config = config.to_str().unwrap();
        let said = namiki(&["node", "--config", config, "init", "--backup", backup]);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
    }
    // The first one has votes of its own under this number.
    let start = |node| {
        let config = restored.0.path().join(format!("node-{node}/namiki.toml"));
        Node::start(config.to_str().unwrap())
    };
    let _others = [start(2), start(3)];
    rows.check(&restored);
    let said = start(1).said();
    assert!(said.contains("began with another backup"), "{said}");
    rows.check(&restored);
}

/// Nothing of a log is left that an image has.
#[test]
fn a_cluster_starts_again_from_images() {
    let cluster = Cluster::start_with(&[&format!("--max-log={LOG_MIB}"), "--metrics"]);
    let mut client = cluster.client();
    let mut rows = Rows::of(&mut client);
    let mut session = client.open_session().unwrap();
    let mut table = client.create_table("cleared", true).unwrap();
    rows.write(20);
    for round in 0..3 {
        put_rows(&mut session, table, 0..100 - round);
        let cleared = client.clear_table(table).unwrap().unwrap();
        assert!(cleared > table);
        table = cleared;
        put_rows(&mut session, table, 100..101 + round);
        for node in ["1", "2", "3"] {
            cluster.works(&["kill", node]);
        }
        cluster.works(&["start"]);
        // The session is in the image, too: its groups go on, and none is repeated.
        rows.write(5);
        wait_for("all have everything", || are_equal(&cluster));
        assert_eq!(cluster.client().count(table).unwrap(), 1 + round);
    }
    let keys = (0..KEYS).map(|key| (rows.table, key.to_be_bytes().to_vec()));
    let read = cluster.client().read(keys.collect()).unwrap();
    let expected = (0..KEYS).map(|key| Some(value(key, rows.round)));
    assert!(read.values.into_iter().eq(expected));
}
