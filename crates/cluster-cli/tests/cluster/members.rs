//! Members that join, leave and move while clients write.

use std::io::Read as _;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use namiki_client::tls::Authority;
use namiki_client::{Client, ReadNode, ReadOptions};
use namiki_cluster::NodeId;

use super::*;

/// A node that runs by its configuration, as on a machine of its own.
pub(crate) struct Node(Child);

impl Node {
    pub(crate) fn start(config: &str) -> Self {
        let node = Command::new(env!("CARGO_BIN_EXE_namiki-cluster"))
            .args(["node", "--config", config])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Self(node.unwrap())
    }

    /// Waits until it has ended by itself. Returns what it has said.
    pub(crate) fn said(mut self) -> String {
        let begin = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < WATCHDOG, "it still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        let mut stderr = self.0.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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

fn move_ports(config: &mut NodeConfig, by: u16) {
    let other = |address: &str| {
        let (host, port) = address.rsplit_once(':').unwrap();
        format!("{host}:{}", port.parse::<u16>().unwrap() + by)
    };
    let node = config.node;
    let own = config.members.iter_mut().find(|it| it.id == node).unwrap();
    (own.peer, own.client) = (other(&own.peer), other(&own.client));
    config.peer_listen = own.peer.clone();
    config.client_listen = own.client.clone();
}

/// The commands for several machines, with certificates.
#[test]
fn a_node_joins_leaves_and_moves_by_its_configuration() {
    let cluster = Cluster::of_nodes(1, &["--tls"]);
    cluster.works(&["add"]);
    let folder = cluster.0.path().join("certificates");
    let security = || Security::tls(&CertificateFiles::in_folder(&folder).client()).unwrap();
    let mut client = cluster.client_by(security());
    let table = client.create_table("rows", true).unwrap();
    put_rows(&mut client.open_session().unwrap(), table, 0..20);

    let mut third = cluster.config(2);
    let day = Duration::from_secs(86_400);
    let authority = Authority::read(&folder, third.cluster, day).unwrap();
    authority.write_node(&folder, 3).unwrap();
    let mut own = third.members[1].clone();
    own.id = NodeId::first(3);
    third.members.push(own);
    third.node = NodeId::first(3);
    move_ports(&mut third, 1);
    third.directory = cluster.0.path().join("third/data");
    third.tls = Some(CertificateFiles::in_folder(&folder).node(3));
    fs::create_dir_all(cluster.0.path().join("third")).unwrap();
    let path = cluster.0.path().join("third/node.toml");
    fs::write(&path, third.to_text().unwrap()).unwrap();
    let config = path.to_str().unwrap();

    assert!(refuses(1, &["add", "3", "--config", config]).contains("does not answer"));
    let joined = namiki(&["node", "init", "--join", "--config", config]);
    assert!(joined.status.success(), "{joined:?}");
    let node = Node::start(config);
    let add = || {
        let begin = Instant::now();
        loop {
            let added = namiki(&["add", "3", "--config", config]);
            if added.status.success() || begin.elapsed() > WATCHDOG {
                return String::from_utf8(added.stdout).unwrap();
            }
            // It may not listen yet.
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert!(add().contains("node 3 votes\n"));
    // The command may be repeated.
    assert!(add().contains("node 3 votes\n"));
    let again = refuses(1, &["node", "init", "--join", "--config", config]);
    assert!(again.contains("node 3 is a member already"), "{again}");
    assert!(refuses(1, &["remove", "4", "--config", config]).contains("no node"));

    // The cluster is told first, and then the node moves.
    let mut second = cluster.config(2);
    move_ports(&mut second, 5);
    let moved = cluster.0.path().join("moved.toml");
    fs::write(&moved, second.to_text().unwrap()).unwrap();
    let moved = moved.to_str().unwrap();
    let said = namiki(&["move", "2", "--config", moved]);
    assert!(said.status.success(), "{said:?}");
    fs::copy(moved, cluster.0.path().join("node-2/namiki.toml")).unwrap();
    cluster.works(&["restart", "2"]);
    // A client learns the addresses with its calls, and everything is there without the first node.
    assert_eq!(client.tables().unwrap().len(), 1);
    cluster.works(&["kill", "1"]);
    put_rows(&mut client.open_session().unwrap(), table, 20..40);
    cluster.works(&["restart", "1"]);

    // It is refused until the first node answers.
    operate::until_it_exits(0, &["remove", "3", "--config", config]);
    let said = node.said();
    assert!(said.contains("no member of the cluster any more"), "{said}");
    put_rows(&mut client.open_session().unwrap(), table, 40..60);
    // It is not waited for, although a configuration lists it.
    operate::until_it_exits(0, &["status", "--config", config]);
}
